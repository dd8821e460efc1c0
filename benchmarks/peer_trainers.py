"""Peer trainers: what a training run costs in a published package; it runs in the interpreter that has them.

    $PEERS_PYTHON benchmarks/peer_trainers.py PACKAGE STEPS LATENCY_MS FOLDER

Each package trains with its own trainer on its own question-answering environment, both unchanged; only the client of
the model's vendor is made up. What they print goes nowhere, at a low level.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.zero_model import BATCH, WORKERS, Stage, ZeroModel, figures, transcript

_STAGES: dict[str, Stage] = {"rollout": "rollout", "analyst": "reflect", "merge": "merge", "ranking": "rank"}
# The wheel of skillopt 0.2.0 has none of the prompts that its trainer loads: these stand in for them.
_PROMPTS = {
    "analyst_error": "analyst", "analyst_success": "analyst", "merge_failure": "merge", "merge_success": "merge",
    "merge_final": "merge", "ranking": "ranking", "slow_update": "merge", "meta_skill": "merge",
}  # fmt: skip
SKILL = "# Ledger clerk\n\nFind the amount that is asked for.\n\n- Give two decimals.\n"


def _install_prompts() -> None:
    """Give skillopt the prompts that its wheel leaves out, by its own cache of what it has read."""
    prompts = importlib.import_module("skillopt.prompts")
    home = Path(prompts.__file__ or "").parent
    texts = {name: f"Prompt: {name}\nAnswer with JSON." for name in _PROMPTS}
    texts["rollout_system"] = "{skill_section}Answer within <answer> tags."
    vars(prompts)["_cache"].update({str(home / f"{name}.md"): text for name, text in texts.items()})


def plug_in(chat: object) -> None:
    """Make skillopt talk to `chat` where it would make the client of a vendor, and give it its prompts."""
    _install_prompts()
    client = SimpleNamespace(chat=chat)
    vars(importlib.import_module("skillopt.model.azure_openai"))["_make_client"] = lambda role: client


def items(split: str) -> list[dict[str, Any]]:
    """Return the tasks of a split."""
    start, n = {"train": (0, BATCH), "val": (BATCH, BATCH), "test": (2 * BATCH, 1)}[split]
    return [
        {"id": f"{split}-{i}", "question": f"What is item {i} of the ledger?", "context": "", "answers": [f"value {i}"]}
        for i in range(start, start + n)
    ]


class Client:
    """The clients of both packages: skillrl calls `chat`, skillopt the completions of a vendor's client."""

    model = "zero"

    def __init__(self, model: ZeroModel) -> None:
        self._model = model
        self.chat: Any = self._chat
        self.completions = SimpleNamespace(create=self._create)

    def _chat(self, *, system: str, user: str, stage: str = "", **_: object) -> tuple[str, dict[str, int]]:
        return self._answer(user, _STAGES[stage]), {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}

    def _create(self, *, messages: list[dict[str, str]], **_: object) -> object:
        system, user = (message["content"] for message in messages)
        text = self._answer(user, _stage_of(system))
        usage = SimpleNamespace(prompt_tokens=1, completion_tokens=1, total_tokens=2)
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=text))], usage=usage)

    def _answer(self, user: str, stage: Stage) -> str:
        if stage == "rollout":
            answer = self._model.target(user)
            text = transcript(user, f"<answer>{answer}</answer>")
        else:
            text = self._model.optimizer(stage)
        if self._model.latency_s:
            time.sleep(self._model.latency_s)
        return text


def _stage_of(system: str) -> Stage:
    name = system.partition("\n")[0].removeprefix("Prompt: ")
    return _STAGES[_PROMPTS.get(name, "rollout")]


def train_skillrl(client: Client, n_steps: int, folder: Path, skill: str = SKILL) -> None:
    """Train with skillrl's SkillOptTrainer on its SimpleQAEnv."""
    package, qa = importlib.import_module("skillrl"), importlib.import_module("skillrl.envs.qa")
    env = qa.SimpleQAEnv(train_items=items("train"), val_items=items("val"), test_items=items("test"))
    config = package.SkillOptConfig(
        num_epochs=n_steps, batch_size=BATCH, workers=WORKERS, out_root=str(folder), eval_test=False, verbose=False
    )
    package.SkillOptTrainer(
        config=config, env=env, optimizer_client=client, target_client=client, initial_skill=skill
    ).train()


def train_skillopt(client: Client, n_steps: int, folder: Path) -> None:
    """Train with skillopt's ReflACTTrainer on its SearchQAAdapter."""
    plug_in(client)
    for split in ("train", "val", "test"):
        (folder / "splits" / split).mkdir(parents=True)
        (folder / "splits" / split / "items.json").write_text(json.dumps(items(split)))
    (folder / "skill.md").write_text(SKILL)
    adapter = importlib.import_module("skillopt.envs.searchqa.adapter").SearchQAAdapter(
        split_mode="split_dir", split_dir=str(folder / "splits"), workers=WORKERS, analyst_workers=WORKERS
    )
    settings = {
        "out_root": str(folder / "out"), "env": "searchqa", "skill_init": str(folder / "skill.md"),
        "optimizer_model": "zero", "target_model": "zero", "split_mode": "split_dir",
        "split_dir": str(folder / "splits"), "batch_size": BATCH, "num_epochs": n_steps, "accumulation": 1, "seed": 42,
        "merge_batch_size": 8, "edit_budget": 4, "min_edit_budget": 2, "lr_scheduler": "cosine",
        "analyst_workers": WORKERS, "sel_env_num": 0, "test_env_num": 0, "eval_test": False, "use_slow_update": False,
        "use_meta_skill": False,
    }  # fmt: skip
    importlib.import_module("skillopt.engine.trainer").ReflACTTrainer(settings, adapter).train()


def main(package: str, n_steps: int, latency_ms: float, folder: Path) -> None:
    """Train one step more than is measured, and print the figures."""
    model = ZeroModel(latency_ms / 1000)
    train = {"skillrl": train_skillrl, "skillopt": train_skillopt}[package]
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        train(Client(model), n_steps + 1, folder)
    print(json.dumps(figures(model, n_steps)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]))
