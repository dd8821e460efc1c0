"""Skill checks: what hosts make of the skills of a repository, and what the evals of each can show."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from skillopt_mcp.actions.next_steps import describe_outdated
from skillopt_mcp.documents.lint import Problem
from skillopt_mcp.store.opening import Store
from skillopt_mcp.workspace.linting import Linted, lint_changed, lint_skills
from skillopt_mcp.workspace.place import Place

_MAY_HOLD = re.compile("(?i)(?:^|/)(?:(?:evals?|tests)(?![^./])|[^/]*(?:eval|trigger|promptfoo)[^/]*[.](?:json|ya?ml))")
_MARKS = (".claude-plugin", "plugin.json", ".git")


class CheckedSkills(BaseModel):
    """The skills that were checked, the worst first, with what is to say of their folders; `deleted` are gone.

    The `evals` of a skill: {files: [{path, format, cases, kept, refused}], cases, kept, units, held_out, graders:
    {model, machine, lost: {reason: n}}, smallest_change, runs, on_these_cases}. Of `units` (families)
    `held_out` decide a test, once they are added. `smallest_change` is the gain that half of the tests find, in `runs`
    attempts on average.
    """

    skills: list[Linted]
    errors: int
    advice: int
    n_skills: int
    deleted: list[str] = []


def check_skills(store: Store, place: Place, paths: tuple[str, ...], base: str | None = None) -> CheckedSkills:
    """Check the skills at paths and below them, or those that changed since the checkout here left `base`.

    Raises BadInput where git fails.
    """
    if base is None:
        linted, deleted = lint_skills(store, place, paths), list[str]()
    else:
        linted, deleted = lint_changed(store, place, base)
    if store.is_made:  # what a model has tested here, another one may answer now
        by_path = {str(each.folder): each for each in linted}
        tracked = {each.id: each for each in store.skills.list_listed() if each.path in by_path}
        for skill_id, text in describe_outdated(store, [*tracked.values()]).items():
            by_path[tracked[skill_id].path].findings.append(Problem("advice", text))
    checked = [each.model_copy(update={"evals": _read_evals(each)}) for each in linted]
    severities = {id(each): [finding.severity for finding in each.findings] for each in checked}
    found = [severity for each in severities.values() for severity in each]
    return CheckedSkills(
        skills=sorted(checked, key=lambda each: [-severities[id(each)].count(kind) for kind in ("error", "advice")]),
        errors=found.count("error"),
        advice=found.count("advice"),
        n_skills=sum(each.is_skill for each in checked),
        deleted=deleted,
    )


def _read_evals(skill: Linted) -> dict[str, Any]:
    """What the evals of a skill hold: those in its folder, and in evals/ and tests/ of its plugin and repository."""
    if not (skill.is_skill and skill.folder.is_dir()):
        return {"files": [], "cases": 0}
    folders, whole = find_evals(skill.folder)
    if not folders:
        return {"files": [], "cases": 0}
    # Reading them imports all judges.
    from skillopt_mcp.actions.suites import read_suites  # noqa: PLC0415

    return read_suites(folders, whole)


def find_evals(folder: Path) -> tuple[list[Path], frozenset[Path]]:
    """Where evals of the skill in a folder may lie, and in which of these folders any file is a case."""
    around, places = _list_around(str(folder.parent))
    own, name = str(folder), folder.name
    apart = [f"{place}/{name}" for place in places if os.path.isdir(f"{place}/{name}")]
    shared = [base for base in around if base in (os.path.dirname(folder.parent), own)]
    there = [each for each in dict.fromkeys([own, *shared]) if _MAY_HOLD.search("/".join(_list_names(each)))]
    return [Path(each) for each in (*there, *apart)], frozenset(map(Path, apart))


def _list_names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


@lru_cache(maxsize=1_000)
def _list_around(folder: str) -> tuple[list[str], list[str]]:
    """The nearest folder above that is a plugin or a checkout, and the next one; and where evals lie in these.

    Those are `evals` and `tests`, and the folders in them that are called as one above the skill is: as its plugin.
    """
    above = [folder, *map(str, Path(folder).parents)]
    found = [each for each in above if any(os.path.lexists(f"{each}/{mark}") for mark in _MARKS)][:2]
    names = ["", *(os.path.basename(each) for each in above[: above.index(found[-1]) + 1])] if found else []
    inside = [os.path.join(base, place, name) for base in found for place in ("evals", "tests") for name in names]
    return found, [place.rstrip("/") for place in inside if os.path.isdir(place)]
