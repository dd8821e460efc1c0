"""Peer worlds: a published package trains in our simulated world, its prompts put to our simulated optimizer.

    $PEERS_PYTHON benchmarks/peer_worlds.py '{"package": ..., "setting": {...}, "options": {...}, "folder": ...}'

The package trains with its own trainer on its own question-answering environment. What it asks is read out of its
prompts and put to the proposer of the simulation in our words: the skill, the attempts, the budget, what it shows of
earlier steps and epochs, the edits to merge or to rank; the answer goes back in the package's words.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import sys
import threading
from collections import Counter
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from benchmarks.peer_trainers import plug_in
from benchmarks.simulation import N_TASKS, Setting, pass_rate, right_answer, skill_text, task_rows
from skillopt_mcp.backends import simulated
from skillopt_mcp.core.calls import Question

_FENCE = "``````"
_NEXT = (
    r"\n\n## (?:\w+ (?:Budget|Pool)|Patches to|Two pre-merged|Previous |Optimizer Meta|Failed |Successful |Current )"
)
_SKILL = re.compile(rf"## Current (?:Epoch's |Epoch Last-Step )?Skill\n(.*?){_NEXT}", re.DOTALL)
_BUDGET = re.compile(r"(?:AT MOST |L=|budget=)(\d+)")
_HISTORY = re.compile(rf"## Previous Steps in This Epoch\n(.*?){_NEXT}", re.DOTALL)
_NOTES = re.compile(rf"## (?:Previous )?Optimizer Meta Skill\n(.*?){_NEXT}", re.DOTALL)
_GUIDANCE = re.compile(r"before writing the new version\.\n\n(.*?)\n\n## Longitudinal", re.DOTALL)
_ATTEMPT = re.compile(r"^### (?:Task id=(\S+) hard=(\d)|Trajectory \d+ \(id=([^)]+)\))", re.MULTILINE)
_COMPARED = re.compile(r"^#### Task (\S+): .*?\n- Prev epoch: (PASS|FAIL).*?\n- Curr epoch: (PASS|FAIL)", re.MULTILINE)
_POOLED = re.compile(r"^\[(\d+)\] op=(\w+)(.*)$", re.MULTILINE)
_QUESTION = re.compile(r"Question:? ?\n?(.*?)(?:\n|$)")


class PeerModel:
    """Both models of a package: the target in the world, and the optimizer as the simulation's."""

    model = "simulated"

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._proposer = simulated.Proposer(setting.seed, setting.helpful, setting.harmful)
        self._prompts = {str(n): str(row["prompt"]) for n, row in enumerate(task_rows(N_TASKS, setting.seed))}
        self._visits: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.n_rollouts = 0
        self.chat: Any = self._chat
        self.completions = SimpleNamespace(create=self._create)

    def _chat(self, *, system: str, user: str, stage: str = "", **_: object) -> tuple[str, dict[str, int]]:
        name = "merge" if stage == "merge" else {"analyst": "analyst", "ranking": "ranking"}.get(stage, "rollout")
        return self._answer(name, system, user), {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}

    def _create(self, *, messages: list[dict[str, str]], **_: object) -> object:
        system, user = (message["content"] for message in messages)
        name = system.partition("\n")[0].removeprefix("Prompt: ") if system.startswith("Prompt: ") else "rollout"
        text = self._answer(name, system, user)
        usage = SimpleNamespace(prompt_tokens=1, completion_tokens=1, total_tokens=2)
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=text))], usage=usage)

    def _answer(self, name: str, system: str, user: str) -> str:
        if name == "rollout":
            return f"<answer>{self._rollout(system, user)}</answer>"
        if name.startswith("merge"):
            return self._merge(user)
        if name == "ranking":
            return self._rank(user)
        return {"slow_update": self._slow, "meta_skill": self._meta}.get(name, self._patch)(user)

    def _rollout(self, skill: str, user: str) -> str:
        found = _QUESTION.search(user)
        prompt = found[1].strip() if found else ""
        with self._lock:
            self.n_rollouts += 1
        is_right = self._drawn(f"{skill}\0{prompt}").random() < pass_rate(skill, prompt, self._setting.noise)
        return right_answer(self._setting.seed, prompt) if is_right else "0.00"

    def _patch(self, user: str) -> str:
        failed_all = "Failed Trajectories" in user
        attempts = [
            _attempt(
                self._prompts[(by_task or by_number).rpartition("-")[2]], failed=hard == "0" if hard else failed_all
            )
            for by_task, hard, by_number in _ATTEMPT.findall(user)
        ]
        body = "\n\n".join(attempts)
        found = _BUDGET.search(user)
        reply = self._reply("patch", user, body, f"at most {found[1] if found else 4} edits")
        edits = [_words(edit) for edit in reply["edits"]]
        return json.dumps({"reasoning": reply["reasoning"], "edits": edits, "patch": {"edits": edits}})

    def _merge(self, user: str) -> str:
        patches = json.loads(user[user.index("\n[") :])
        rows = [(row, row.get("source_type", "failure")) for patch in patches for row in patch["edits"]]
        body = _numbered([{**_words(row), "from": f"{source}s"} for row, source in rows])
        reply = self._reply("merge", user, body)
        merged = []
        for edit, numbers in zip(reply["edits"], reply["merged_from"], strict=True):
            parents = [rows[number - 1] for number in numbers]
            source = "failure" if any(source == "failure" for _, source in parents) else "success"
            support = sum(int(row.get("support_count") or 1) for row, _ in parents)
            merged.append({**_words(edit), "source_type": source, "support_count": support})
        return json.dumps({"reasoning": reply["reasoning"], "edits": merged})

    def _rank(self, user: str) -> str:
        pool = [(int(number), op, text) for number, op, text in _POOLED.findall(user)]
        edits = [
            {"op": "delete", "target": text} if op == "delete" else {"op": "append", "content": text}
            for _, op, text in pool
        ]
        reply = self._reply("rank", user, _numbered(edits))
        return json.dumps({"selected_indices": [pool[number - 1][0] for number in reply["ranking"]]})

    def _slow(self, user: str) -> str:
        found = _GUIDANCE.search(user)
        attempts = [
            _attempt(self._prompts[task.rpartition("-")[2]], failed=verdict == "FAIL")
            for task, before, after in _COMPARED.findall(user)
            for verdict in (before, after)
        ]
        body = "\n\n".join([_fenced("guidance", found[1] if found else ""), *attempts])
        reply = self._reply("slow_update", user, body)
        return json.dumps({"reasoning": reply["reasoning"], "slow_update_content": reply["guidance"]})

    def _meta(self, user: str) -> str:
        reply = self._reply("meta_skill", user, "Nothing else was kept.")
        return json.dumps({"reasoning": reply["reasoning"], "meta_skill_content": reply["notes"]})

    def _reply(self, schema: str, user: str, body: str, instructions: str = "") -> dict[str, Any]:
        skill, notes, history = (
            found[1] if (found := pattern.search(user)) else "" for pattern in (_SKILL, _NOTES, _HISTORY)
        )
        before = [_fenced(label, text) for label, text in (("notes", notes), ("history", history)) if text]
        evidence = "\n\n".join(["## Skill", _fenced("skill", skill), *before, "## Evidence", body]) + "\n"
        question = Question(instructions, evidence, schema)
        text = self._proposer.answer(question, str(self._drawn(instructions + evidence).random()))
        reply: dict[str, Any] = json.loads(text.removeprefix("```json\n").removesuffix("\n```"))
        return reply

    def _drawn(self, asked: str) -> Random:
        """Return the chance of the next visit of a question: the same question is answered otherwise each time."""
        with self._lock:
            self._visits[asked] += 1
            return Random(f"{self._setting.seed} {self._visits[asked]} {asked}")


def _fenced(label: str, text: str) -> str:
    return f"{_FENCE}{label}\n{text.rstrip(chr(10))}\n{_FENCE}"


def _attempt(prompt: str, *, failed: bool) -> str:
    return f"### Trajectory 1 ({'failed' if failed else 'succeeded'})\n{_fenced('task', prompt)}"


def _numbered(rows: list[dict[str, str]]) -> str:
    return _fenced("json", json.dumps([{"number": n, **row} for n, row in enumerate(rows, 1)]))


def _words(edit: dict[str, Any]) -> dict[str, str]:
    return {"op": edit["op"], "target": edit.get("target") or "", "content": edit.get("content") or ""}


def _items(seed: int, split: str) -> list[dict[str, object]]:
    rows = enumerate(task_rows(N_TASKS, seed))
    return [
        {"id": f"task-{n}", "question": row["prompt"], "context": "",
         "answers": [right_answer(seed, str(row["prompt"]))]}
        for n, row in rows if row["split"] == split
    ]  # fmt: skip


def _skillrl(model: PeerModel, setting: Setting, folder: Path) -> str:
    package, qa = importlib.import_module("skillrl"), importlib.import_module("skillrl.envs.qa")
    env = qa.SimpleQAEnv(**{f"{split}_items": _items(setting.seed, split) for split in ("train", "val", "test")})
    config = package.SkillOptConfig(
        num_epochs=setting.epochs, batch_size=setting.batch, out_root=str(folder), eval_test=False, verbose=False,
        workers=1,
    )  # fmt: skip
    trainer = package.SkillOptTrainer(
        config=config, env=env, optimizer_client=model, target_client=model,
        initial_skill=skill_text(setting.seed),
    )  # fmt: skip
    trainer.train()
    return str(trainer.best_skill)


def _skillopt(model: PeerModel, setting: Setting, folder: Path, options: dict[str, object]) -> str:
    plug_in(model)
    for split in ("train", "val", "test"):
        (folder / "splits" / split).mkdir(parents=True)
        (folder / "splits" / split / "items.json").write_text(json.dumps(_items(setting.seed, split)))
    (folder / "skill.md").write_text(skill_text(setting.seed))
    adapter = importlib.import_module("skillopt.envs.searchqa.adapter").SearchQAAdapter(
        split_mode="split_dir", split_dir=str(folder / "splits"), workers=1, analyst_workers=1
    )
    settings = {
        "out_root": str(folder / "out"), "env": "searchqa", "skill_init": str(folder / "skill.md"),
        "optimizer_model": "simulated", "target_model": "simulated", "split_mode": "split_dir",
        "split_dir": str(folder / "splits"), "batch_size": setting.batch, "num_epochs": setting.epochs,
        "accumulation": 1, "seed": 42, "merge_batch_size": 8, "edit_budget": 4, "min_edit_budget": 2,
        "lr_scheduler": "cosine", "analyst_workers": 1, "sel_env_num": 0, "test_env_num": 0, "eval_test": False,
        **options,
    }  # fmt: skip
    importlib.import_module("skillopt.engine.trainer").ReflACTTrainer(settings, adapter).train()
    return (folder / "out" / "best_skill.md").read_text()


def main() -> None:
    """Train once, and print the best skill and the number of rollouts."""
    request = json.loads(sys.argv[1])
    setting, folder = Setting(**request["setting"]), Path(request["folder"])
    model = PeerModel(setting)
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        if request["package"] == "skillrl":
            skill = _skillrl(model, setting, folder)
        else:
            skill = _skillopt(model, setting, folder, request["options"])
    print(json.dumps({"skill": skill, "rollouts": model.n_rollouts}))


if __name__ == "__main__":
    main()
