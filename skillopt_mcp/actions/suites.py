"""Suites: what the evals of a skill can show, once they are added. Nothing is asked."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from skillopt_mcp.actions.evals import EvalsRead, read_cases
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.tasks import NewTask
from skillopt_mcp.core.text import counted
from skillopt_mcp.gates.power import foresee_first_test
from skillopt_mcp.gates.promotion import MIN_UNITS
from skillopt_mcp.tasks.formats.cases import EVAL_FORMATS, EvalOptions
from skillopt_mcp.tasks.judges.checking import families
from skillopt_mcp.tasks.splits import DEFAULT_SHARES, make_unstored, place_tasks

_MAX_TASKS = 2_000
"""So many tasks of a skill are put into families: more would take too long."""


def read_suites(folders: Sequence[Path], whole: Collection[Path]) -> dict[str, Any]:
    """What the evals in folders of a skill hold and can show, as `CheckedSkills` says.

    Some of these are `whole` cases, where no file there is one of evals.
    """
    new, read = read_tasks(folders, whole)
    files, lost, points = list[dict[str, Any]](), Counter[str](), Counter[str]()
    tasks = [replace(task, name=None) for task in new]
    for path, evals_read in read:
        lost.update(each["why"].partition(":")[0] for case in evals_read.cases for each in case.lost)
        points.update(model=evals_read.by_model, machine=evals_read.by_machine)
        files.append({
            "path": os.path.relpath(path), "format": evals_read.format, "cases": len(evals_read.cases),
            "kept": sum(case.kept for case in evals_read.cases), "refused": evals_read.refused or "",
        })  # fmt: skip
    placed = place_tasks(tasks[:_MAX_TASKS], [], DEFAULT_SHARES)
    pairs = enumerate(zip(tasks, placed, strict=False))
    stored = [make_unstored(n, task, each.split) for n, (task, each) in pairs if each.is_new]
    held = families([task for task in stored if task.split == "test"])
    evals = {
        "files": files, "cases": sum(each["cases"] for each in files), "kept": len(tasks),
        "units": len(families(stored)), "held_out": len(held), "graders": {**points, "lost": lost},
    }  # fmt: skip
    if not held:
        return evals
    gain, runs = foresee_first_test(len(held))
    return evals | {"smallest_change": gain, "runs": runs, "on_these_cases": len(held) < MIN_UNITS}


def read_tasks(folders: Sequence[Path], whole: Collection[Path]) -> tuple[list[NewTask], list[tuple[Path, EvalsRead]]]:
    """The tasks of the evals in folders of a skill, some of which are `whole` cases, and what was read where."""
    tasks, read = list[NewTask](), list[tuple[Path, EvalsRead]]()
    places = {place for form in EVAL_FORMATS for place in form.places} - {"."}
    found_at = list[Path]()
    for folder in folders:
        there = [folder / place for place in sorted(places) if (folder / place).exists()]
        inner = folder / "evals" if (folder / "evals").is_dir() else folder
        found_at += there or ([inner] if inner != folder or folder in whole else [])
    for path in dict.fromkeys(found_at):
        try:
            new, evals = read_cases(path, EvalOptions()) or ([], None)
        except BadInput as error:
            new, evals = [], EvalsRead(format="", cases=[], refused=str(error))
        if evals:
            tasks += new
            read.append((path, evals))
    return tasks, read


def describe_suites(evals: Mapping[str, Any]) -> str:
    """What evals can show, in a sentence."""
    graders, held = evals["graders"], evals["held_out"]
    n_of = {"by a model": graders.get("model"), "by machine": graders.get("machine"),
            "lost": sum(graders["lost"].values())}  # fmt: skip
    shown = ", ".join(f"{n} {how}" for how, n in n_of.items() if n) or "no grader"
    units = counted(evals["units"], "unit")
    read = f"{counted(evals['cases'], 'case')}, {evals['kept']} kept ({shown}), {units}, {held} held out"
    if not held:
        return f"{read}: nothing can be shown"
    gain = f"{'on these cases ' * evals['on_these_cases']}a gain of {evals['smallest_change']:.0%}"
    return f"{read}: {gain} shows in half of the tests, in about {evals['runs']} runs"
