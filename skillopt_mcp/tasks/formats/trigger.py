"""Trigger sets: prompts on which a skill should open, and others on which it should not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.core.text import quoted
from skillopt_mcp.tasks.formats import skill_creator as rows_of
from skillopt_mcp.tasks.formats.cases import Case, EvalOptions, Evals, Loss, eval_format
from skillopt_mcp.tasks.judges.kinds.opens import Opens

_FILES = (
    "trigger-eval", "trigger-evals", "trigger_eval", "trigger_evals", "trigger-queries", "trigger-cases",
    "trigger_cases", "triggers", "eval_queries", "trigger-eval-set", "evals",
)  # fmt: skip
_WORDS = {"trigger": True, "no_trigger": False}
_SIDES = {
    "should_trigger": True, "should_not_trigger": False, "positive": True, "negative": False,
    "should_activate": True, "should_not_activate": False,
}  # fmt: skip


def _list_rows(value: object) -> list[Mapping[str, object]]:
    """The rows of a set; those of an object of two lists get the field that says which of them it was."""
    sides = {name: each for name, each in value.items() if name in _SIDES} if isinstance(value, Mapping) else {}
    if not sides or not all(isinstance(each, list) for each in sides.values()):
        rows = rows_of.find_rows(value, "queries", "cases", "evals", "tests", "test_cases", "trigger_evals", "triggers")
        words = [(row, row["expected"] if isinstance(row.get("expected"), str) else "") for row in rows]
        return [{"should_trigger": _WORDS[word], **row} if word in _WORDS else row for row, word in words]
    both = [(row, _SIDES[name]) for name, each in sides.items() for row in each]
    return [{**(row if isinstance(row, Mapping) else {"query": row}), "should_trigger": side} for row, side in both]


def _write_set(tasks: Sequence[Task], path: Path) -> dict[Path, str]:
    """Write tasks that ask whether the skill opens. Raises BadInput naming the others."""
    if bad := [each.name for each in tasks if not isinstance(each.judge, Opens) or each.files]:
        raise BadInput(f"a trigger set asks only whether the skill opens: leave out {', '.join(map(quoted, bad))}")
    rows = [
        {"id": each.name, "query": each.prompt, "should_trigger": each.judge == Opens(expected=True)} for each in tasks
    ]
    place = path if path.suffix else path / "evals" / "trigger-eval.json"
    return {place: f"{json.dumps(rows, ensure_ascii=False, indent=2)}\n"}


@eval_format(
    "trigger",
    tuple(f"{at}{name}.json" for at in ("evals/", "") for name in _FILES),
    lambda path, value: path.suffix in rows_of.SUFFIXES and rows_of.is_trigger_set(_list_rows(value)),
    _write_set,
)
def read_trigger_set(_: Path, value: Any, __: EvalOptions) -> Evals:
    """Read the prompts of a set, each a task that asks whether the skill opens and nothing else."""
    rows, cases = _list_rows(value), list[Case]()
    for row in rows:
        field, prompt = rows_of.find_field(row, rows_of.TRIGGERS), rows_of.find_text(row, rows_of.PROMPTS)
        is_wanted = row.get(field)
        judge = Opens(expected=is_wanted) if isinstance(is_wanted, bool) else None
        lost = [] if judge else [Loss(field or "should_trigger", "cannot be expressed", "it is neither true nor false")]
        lost += [Loss("files", "needs files", "a trigger set has none")] if row.get("files") else []
        lost += [] if prompt else [Loss("prompt", "cannot be expressed", "it is no text")]
        cases.append(Case(rows_of.find_id(row), prompt, judge, lost=tuple(lost)))
    return Evals("trigger", cases)
