"""Clerk: a skill and a script of answers, by which a whole replay through any backend decides the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from unittest import mock

from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.backends.api.prompts import ROLLOUT
from skillopt_mcp.backends.scripted import Rule
from skillopt_mcp.core.results import Replayed
from skillopt_mcp.store.pool import sqlite
from skillopt_mcp.training import promotion_test
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.workspace import Workspace

RULES = [f"Rule {kind}: do {kind} with care." for kind in ("one", "two", "three")]
CONFIG = Config(epochs=2, batch=12, minibatch=4, slow_update=False, meta_skill=False)


def patch(rule: str, **more: object) -> str:
    return json.dumps({"reasoning": "it failed", "edits": [{"op": "append", "content": f"- {rule}"}], **more})


def teaching(**more: object) -> list[dict[str, object]]:
    """Return rules that answer with the first lesson that is not in the evidence yet; the third does harm."""
    known = [{"match": RULES[n], "reply": patch(RULES[n + 1], **more)} for n in (1, 0)]
    return [*known, {"reply": patch(RULES[0], **more)}]


SCRIPT = {
    "rollout": [
        {"match": RULES[2], "reply": "wrong"},
        *({"match": [rule, f"kind {rule.split()[1][:-1]}"], "reply": "right"} for rule in RULES[:2]),
        {"reply": "wrong"},
    ],
    "reflect": teaching(),
    "merge": teaching(merged_from=[[1, 2]]),
    "rank": [{"reply": '{"reasoning": "", "ranking": [1]}'}],
}


class Asked(Protocol):
    """What a model was sent."""

    @property
    def system(self) -> str: ...
    @property
    def user(self) -> str: ...


def stage_of(request: Asked) -> str:
    if request.system.startswith(ROLLOUT):
        return "rollout"
    marks = {"merge": "merged_from", "rank": '"ranking"'}
    return next((stage for stage, mark in marks.items() if mark in request.system), "reflect")


def answer(n: int, request: Asked) -> str:
    text = f"{request.system}\n{request.user}"
    rules = [Rule.model_validate(rule) for rule in SCRIPT[stage_of(request)]]  # type: ignore[attr-defined]
    return next(rule.reply for rule in rules if rule.matches(text))


@contextmanager
def workspace(folder: Path, spec: str) -> Iterator[Workspace]:
    """Open a store with a skill to train, whose calls are the same whatever the backend is."""
    skill = folder / "skills" / "clerk"
    skill.mkdir(parents=True, exist_ok=True)
    (skill / "SKILL.md").write_text("---\nname: clerk\ndescription: Does things.\n---\n# Clerk\n\n- Do things.\n")
    path = folder / "store" / "s.db"
    with Workspace(path, target=spec, optimizer=spec, project=folder) as made:
        judge = {"kind": "exact", "expected": "right"}
        splits = (*["train"] * 12, *["val"] * 12, *["test"] * 24)
        tasks = [
            {"prompt": f"Do item {n} of kind {('one', 'two', 'other')[n % 3]}.", "judge": judge, "split": split}
            for n, split in enumerate(splits)
        ]
        add_tasks(made.store, made.place, str(skill), tasks)
        for role in ("target", "optimizer"):
            backend = made.models.backend(role)
            # A run's draws hang on its name and on its target's: with equal names all that is left is the answers.
            backend.name = backend.fingerprint = "the same"
        with mock.patch.object(
            promotion_test, "draw_salt", return_value="00" * 16
        ):  # so is what a promotion test asks first
            yield made


def replayed(folder: Path, spec: str) -> Replayed:
    with workspace(folder, spec) as made:
        return replay(
            made.store,
            made.models,
            made.place,
            start_run(made.store, made.models, made.place, str(folder / "skills" / "clerk"), CONFIG),
        )


def decided(result: Replayed) -> dict[str, object]:
    """Return all that a run decided, whatever it cost, whoever answered, and how many calls were under way at once."""
    costs = {"tokens_in", "tokens_out", "usd", "test_tokens", "test_usd", "n_test_calls", "n_calls"}
    found = result.model_dump(
        exclude={*costs} if result.test is None else {**dict.fromkeys(costs, True), "test": {"models", "runs"}}
    )
    for step in found["steps"]:  # a candidate that can only be rejected is not always asked to the end
        if step["verdict"] == "reject":
            step.update(dict.fromkeys(("candidate", "candidate_hard", "candidate_soft", "at_most")))
    return found


def everything_kept(folder: Path) -> str:
    """Return all that the store holds, as rows and as bytes."""
    connection = sqlite().connect(folder / "store" / "s.db")
    try:
        tables = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
        dump = "\n".join(str(row) for (table,) in tables for row in connection.execute(f"select * from [{table}]"))
    finally:
        connection.close()
    files = [path.read_bytes() for path in (folder / "store").rglob("*") if path.is_file()]
    return dump + b"\n".join(files).decode("latin-1")
