"""Agent replaying: a small replay whose decisions are known, run with any backend; as a program, in its own process."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_models import Asked
from scripted_model import ToolCall, Turn

from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import find_alike, new_run, start_run
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.backends.api.prompts import ROLLOUT
from skillopt_mcp.backends.scripted import Rule
from skillopt_mcp.core.results import Replayed
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.workspace import Workspace

NAME = "clerk"
RULES = [f"Rule {kind}: do {kind} with care." for kind in ("one", "two")]
CONFIG = Config(epochs=2, batch=4, minibatch=4, slow_update=False, meta_skill=False)
N_TASKS = 8  # half of them to learn from, and half to choose by
N_ROLLOUTS = 20


def patch(rule: str, **more: object) -> str:
    return json.dumps({"reasoning": "it failed", "edits": [{"op": "append", "content": f"- {rule}"}], **more})


def teaching(**more: object) -> list[dict[str, object]]:
    """Return rules that answer with the first lesson that is not in the evidence yet."""
    return [{"match": RULES[0], "reply": patch(RULES[1], **more)}, {"reply": patch(RULES[0], **more)}]


SCRIPT: dict[str, list[dict[str, object]]] = {
    "rollout": [
        *({"match": [rule, f"of kind {rule.split()[1][:-1]}"], "reply": "right"} for rule in RULES),
        {"reply": "wrong"},
    ],
    "reflect": teaching(),
    "merge": teaching(merged_from=[[1, 2]]),
    "rank": [{"reply": '{"reasoning": "", "ranking": [1]}'}],
}


def opening(host: str, skill: str = NAME) -> ToolCall:
    """Return the call by which a model of a host opens the skill."""
    if host == "codex":
        return ToolCall("exec_command", {"cmd": f"cat .agents/skills/{skill}/SKILL.md"}, server="")
    return ToolCall("Skill", {"skill": skill}, server="")


def is_rollout(asked: Asked) -> bool:
    return bool({"Skill", "exec_command"} & set(asked.tools))


def answering_the_script(host: str) -> Callable[[Asked], Turn]:
    """Return a model that first opens the skill, and then answers as the script does."""

    def answer(asked: Asked) -> Turn:
        if is_rollout(asked):
            return [_matching("rollout", asked.text)] if asked.n_results else [opening(host)]
        assert ROLLOUT not in asked.text
        marks = {"merge": "merged_from", "rank": '"ranking"'}
        return [_matching(next((name for name, mark in marks.items() if mark in asked.text), "reflect"), asked.text)]

    return answer


def _matching(stage: str, text: str) -> str:
    return next(rule.reply for rule in map(Rule.model_validate, SCRIPT[stage]) if rule.matches(text))


@contextmanager
def workspace(folder: Path, spec: str) -> Iterator[Workspace]:
    skill = folder / "skills" / NAME / "SKILL.md"
    if not skill.exists():
        skill.parent.mkdir(parents=True)
        skill.write_text(f"---\nname: {NAME}\ndescription: Does things.\n---\n# Clerk\n\n- Do things.\n")
    with Workspace(folder / "store" / "s.db", target=spec, optimizer=spec, project=folder) as made:
        judge = {"kind": "exact", "expected": "right"}
        rows = [
            {
                "prompt": f"Do item {n} of kind {('one', 'other')[n % 2]}.",
                "judge": judge,
                "split": "train" if n < N_TASKS // 2 else "val",
            }
            for n in range(N_TASKS)
        ]
        add_tasks(made.store, made.place, str(skill.parent), rows)
        for role in ("target", "optimizer"):
            backend = made.models.backend(role)
            # A run's draws hang on its name and on its target's: with equal names all that is left is the answers.
            backend.name = backend.fingerprint = "the same"
        yield made


def replayed(folder: Path, spec: str) -> Replayed:
    """Return the outcome of the run in a folder, gone on with where it stopped."""
    with workspace(folder, spec) as made:
        asked = (made.store, made.models, made.place, str(folder / "skills" / NAME), CONFIG)
        return replay(
            made.store,
            made.models,
            made.place,
            find_alike(made.store, made.models, new_run(*asked)) or start_run(*asked),
        )


def decided(result: Replayed) -> dict[str, object]:
    found = result.model_dump(exclude={"tokens_in", "tokens_out", "usd", "test_tokens", "test_usd", "n_calls"})
    for step in found["steps"]:  # a candidate that can only be rejected is not always asked to the end
        if step["verdict"] == "reject":
            step.update(dict.fromkeys(("candidate", "candidate_hard", "candidate_soft", "at_most")))
    return found


if __name__ == "__main__":
    tempfile.tempdir = sys.argv[1]
    replayed(Path(sys.argv[2]), sys.argv[3])
