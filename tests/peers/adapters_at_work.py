"""Adapters at work: run by the peers' own Python, it trains a skill on environments of the installed `skillopt`."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from unittest import mock

from skillopt.config import _FLATTEN_MAP, flatten_config, load_config
from skillopt.envs._template.env_template import TemplateBenchmarkEnv
from skillopt.envs.base import EnvAdapter
from skillopt.envs.searchqa import rollout as searchqa_rollout
from skillopt.envs.searchqa.adapter import SearchQAAdapter

from skillopt_mcp import Config, train
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core.errors import BadInput, Outage
from skillopt_mcp.tasks.environments.skillopt_adapter import SkillOptEnvironment, open_skillopt
from skillopt_mcp.training.settings.settling import load_settings

LESSON = "Always answer with the number alone, in answer tags."
PATCH = json.dumps({"reasoning": "the answers are wrapped in prose", "edits": [{"op": "append", "content": LESSON}]})
CONFIG = Config(epochs=1, batch=6, sessions=0, slow_update=False, meta_skill=False)


class Doubling(EnvAdapter):
    """A made-up adapter as a user would write one: no data loader, and a rollout that needs no model."""

    analyst_workers, failure_only, minibatch_size, edit_budget = 1, False, 8, 4

    def build_train_env(self, batch_size, seed, **kwargs):
        return [{"id": f"{seed}/{n}", "question": f"double {n}", "answer": str(2 * n)} for n in range(batch_size)]

    def build_eval_env(self, env_num, split, seed, **kwargs):
        return [
            {"id": f"{split}/{n}", "question": f"double {n} ({split})", "answer": str(2 * n)} for n in range(env_num)
        ]

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        print("noise on stdout, as adapters make it")
        taught = LESSON in skill_content
        return [
            {"id": item["id"], "hard": int(taught), "soft": 1.0 if taught else 0.2,
             "predicted_answer": item["answer"] if taught else f"It is {item['answer']}.",
             "fail_reason": "" if taught else "the answer is wrapped in prose", "task_type": "doubling"}
            for item in env_manager
        ]  # fmt: skip

    def get_task_types(self):
        return ["doubling"]


def optimizer(call):
    assert "It is 2." not in call.request.instructions
    return PATCH


SCRIPTED = Scripted(optimizer, name="fixed")


def answer(system, user, **_):
    """Play the target model: right with the lesson, wrapped in prose without."""
    question = user.split("## Question\n")[1].split("\n")[0]
    number = int(question.split()[-1].rstrip("?")) * 2
    return (f"<answer>{number}</answer>" if LESSON in system else f"Well, it may be {number}, I think."), {}


def skill_folder(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: doubler\ndescription: Doubles numbers.\n---\n# Doubling\n\nBe brief.\n"
    )
    return folder


def outcome(trained) -> dict[str, object]:
    return {
        "verdict": trained.verdict,
        "before": trained.test.solved.before, "after": trained.test.solved.after,
        "learned": LESSON in trained.best_skill, "n_missing": trained.n_missing, "backend": trained.backend,
        "steps": [(step.train_hard, step.verdict) for step in trained.steps],
    }  # fmt: skip


def searchqa(folder: Path) -> dict[str, object]:
    """Train on SearchQA's adapter as it is; only the model behind it is played, and the prompt its wheel lacks."""
    data = folder / "items.json"
    items = [
        {"id": f"q{n}", "question": f"What is twice {n}?", "answers": [str(2 * n)], "context": ""} for n in range(60)
    ]
    data.write_text(json.dumps(items))
    environment = open_skillopt(
        f"skillopt.envs.searchqa.adapter:SearchQAAdapter,data_path={data},split_mode=ratio,split_ratio=1:1:1,workers=2"
    )
    with (
        mock.patch.object(searchqa_rollout, "chat_target", answer),
        mock.patch.object(searchqa_rollout, "load_prompt", return_value="{skill_section}Answer."),
    ):
        skill = skill_folder(folder / "skill")
        trained = train(skill, environment, config=CONFIG, optimizer=SCRIPTED, store=folder / "s.db")
    assert isinstance(environment._adapter, SearchQAAdapter)
    return outcome(trained)


def made_up(folder: Path) -> dict[str, object]:
    environment = SkillOptEnvironment(Doubling(), "doubling", {"n_train": 6, "n_val": 10, "n_test": 30})
    skill = skill_folder(folder / "skill")
    trained = train(skill, environment, config=CONFIG, optimizer=SCRIPTED, store=folder / "s.db")
    return outcome(trained)


def broken(folder: Path) -> dict[str, object]:
    """Train on SearchQA with no model behind it: every attempt fails, and the run stops where it can go on."""
    data = folder / "items.json"
    data.write_text(json.dumps([{"id": f"q{n}", "question": f"What is {n}?", "answers": [str(n)]} for n in range(12)]))
    environment = SkillOptEnvironment(
        SearchQAAdapter(data_path=str(data), split_ratio="1:1:1", workers=1), "searchqa", {"seed": 1}
    )
    skill = skill_folder(folder / "skill")

    def fail(**_):
        raise RuntimeError("no route to the model")

    with mock.patch.object(searchqa_rollout, "chat_target", fail):
        try:
            train(skill, environment, config=CONFIG, optimizer=SCRIPTED, store=folder / "s.db")
        except Outage as outage:
            return {"outage": str(outage)}
    return {"outage": ""}


def template(folder: Path) -> list[str]:
    """Return the names of the tasks that SkillOpt's own template of an adapter has."""
    for split in ("train", "val", "test"):
        (folder / split).mkdir()
        (folder / split / "items.json").write_text(
            json.dumps([{"uid": f"{split}1", "question": f"{split}?", "answer": "x"}])
        )
    environment = SkillOptEnvironment(TemplateBenchmarkEnv(split_dir=str(folder)), "template")
    return [task.name or "" for split in ("train", "val", "test") for task in environment.tasks(split)]


def settings(path: Path) -> dict[str, object]:
    """Return what SkillOpt and this program make of one file, and the keys of SkillOpt that this program has not."""
    theirs = flatten_config(load_config(str(path)))
    ours = load_settings(path, [], {}).config
    values = {"model": "m", "env": "x"}
    special = {"optimizer.lr_scheduler": "cosine", "optimizer.lr_control_mode": "fixed", "model.backend": "openai_chat",
               "model.optimizer_backend": "openai_chat", "model.target_backend": "openai_chat",
               "optimizer.skill_update_mode": "patch", "optimizer.longitudinal_pair_policy": "mixed",
               "optimizer.skill_aware_appendix_source": "both", "evaluation.gate_metric": "hard",
               "evaluation.gate_mixed_weight": "0.5", "optimizer.learning_rate": "4",
               "optimizer.min_learning_rate": "2"}  # fmt: skip
    unknown = []
    for dotted in _FLATTEN_MAP:
        value = special.get(dotted) or values.get(dotted.split(".")[0]) or "4"
        for name in (dotted, _FLATTEN_MAP[dotted]):
            try:
                load_settings(None, [f"{name}={'true' if 'use_' in dotted or 'failure_only' in dotted else value}"], {})
            except BadInput as error:
                unknown.append(f"{name}: {error}")
    pairs = {"epochs": "num_epochs", "batch": "batch_size", "max_edits": "edit_budget", "min_edits": "min_edit_budget",
             "minibatch": "minibatch_size", "fan_in": "merge_batch_size", "schedule": "lr_scheduler", "seed": "seed",
             "slow_samples": "slow_update_samples", "limit_val": "sel_env_num"}  # fmt: skip
    same = {name: (getattr(ours, name), theirs[flat]) for name, flat in pairs.items()}
    return {"unknown": unknown, "same": same}


def main() -> None:
    folder = Path(sys.argv[1])
    works = {"searchqa": searchqa, "made_up": made_up, "broken": broken, "template": template}
    found: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for name, work in works.items():
            (folder / name).mkdir()
            found[name] = work(folder / name)
        found["settings"] = settings(Path(sys.argv[2]))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
