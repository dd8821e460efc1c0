"""Linting: where skills on disk depart from the Agent Skills specification, or from what it recommends."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.lint import Severity, lint
from skillopt_mcp.errors import BadSkill, NotFound, SkillOptError
from skillopt_mcp.folders import default_roots, find_skill_folders, read_skill, skill_folder
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.skills import MAIN_FILE, MEMORY_FILES, is_memory

_TWINS_SHOWN = 3


class Finding(BaseModel):
    """One thing that is wrong with a skill, in a sentence."""

    model_config = ConfigDict(frozen=True)
    severity: Severity
    text: str


class Linted(BaseModel):
    """What is wrong with one skill: `skill` is what the caller called it, `name` that of its front matter."""

    model_config = ConfigDict(frozen=True)
    skill: str
    skill_path: str
    name: str | None = None
    findings: list[Finding]


class LintedAll(BaseModel):
    """What is wrong with some skills, and how many findings there are of either severity."""

    model_config = ConfigDict(frozen=True)
    skills: list[Linted]
    errors: int
    advice: int


@dataclass(frozen=True, slots=True)
class _Place:
    """A skill as it was called, and its resolved folder; or why there is none."""

    shown: str
    folder: Path
    missing: str = ""


def lint_skills(workspace: Workspace, given: Sequence[str]) -> LintedAll:
    """Return what is wrong with skills, and with all in a folder of skills, as they are on disk; each is told of once.

    The store is read for names alone: skills that are given by their path are neither tracked nor looked up.
    """
    places: dict[Path, _Place] = {}
    for each in given:
        for place in _places(workspace, each):
            places.setdefault(place.folder, place)
    linted = _with_twins([_linted(place) for place in places.values()])
    severities = [finding.severity for each in linted for finding in each.findings]
    return LintedAll(skills=linted, errors=severities.count("error"), advice=severities.count("advice"))


def folder_of(given: str, *, bare: bool = True) -> Path | None:
    """Return the resolved folder that a path names, or None for a name.

    With `bare`, the name of a folder in the working directory that holds a skill, or skills, is its path. Raises
    NotFound, BadSkill for what is no path at all.
    """
    path = Path(os.path.expanduser(known(given)))
    is_main = path.name.lower() == MAIN_FILE.lower()
    if is_main and path.is_file():
        return skill_folder(path.parent)
    is_path = is_main or "/" in given or os.sep in given or given.startswith(("~", ".")) or given in MEMORY_FILES
    return skill_folder(path) if is_path or (bare and (_main_names(path) or _skills_in(path))) else None


def _places(workspace: Workspace, given: str) -> list[_Place]:
    """Return the skills that were meant: one, or all of a folder of skills."""
    try:
        folder = folder_of(given) or _folder_named(workspace, given)
    except SkillOptError as error:
        return [_Place(given, Path(given), str(error))]
    inside = [] if is_memory(str(folder)) or _main_names(folder) else _skills_in(folder)
    # A folder that is neither is told of when it is read.
    return [_Place(os.path.join(given, each.name), Path(os.path.realpath(each))) for each in inside] or [
        _Place(given, folder)
    ]


def _folder_named(workspace: Workspace, name: str) -> Path:
    """Return the folder of a skill by its name; no store is made to look for it. Raises NotFound, BadSkill."""
    hint = f"; for the folder {quoted(name)} here, write './{name}'" if os.path.isdir(name) else ""
    if workspace.store_path.exists():
        try:
            return Path(workspace.skill(name).path)
        except NotFound as error:
            raise NotFound(f"{error}{hint}") from None
    roots = default_roots(Path(os.path.expanduser("~")), Path.cwd(), os.environ)
    found = [folder for folder in find_skill_folders(roots) if folder.name == name]
    if len(found) != 1:
        lie = f"{len(found)} skills called {quoted(name)} lie" if found else f"no skill {quoted(name)} lies"
        raise NotFound(
            f"{lie} in the skill folders of the hosts, and there is no store at '{workspace.store_path}' to ask: give "
            f"the path of its folder{hint}"
        )
    return skill_folder(found[0])


def _skills_in(root: Path) -> list[Path]:
    """Return the folders right inside a folder that hold a SKILL.md, or cannot be looked into, by name."""
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return []
    folders = [root / name for name in names if not name.startswith(".")]
    return [folder for folder in folders if folder.is_dir() and (_main_names(folder) or _is_closed(folder))]


def _main_names(folder: Path) -> list[str]:
    """Return the names in a folder that are SKILL.md, or would be but for their case."""
    try:
        return [name for name in os.listdir(folder) if name.lower() == MAIN_FILE.lower()]
    except OSError:
        return []


def _is_closed(folder: Path) -> bool:
    return not os.access(folder, os.R_OK | os.X_OK)


def _linted(place: _Place) -> Linted:
    name = None
    if place.missing:
        findings = [Finding(severity="error", text=place.missing)]
    else:
        try:
            name, findings = _read(place.folder)
        except BadSkill as error:
            findings = [Finding(severity="error", text=f"could not be read: {error}")]
    return Linted(skill=place.shown, skill_path=str(place.folder), name=name, findings=findings)


def _read(folder: Path) -> tuple[str | None, list[Finding]]:
    """Return the name in the front matter and the findings of a skill. Raises BadSkill."""
    written = _main_names(folder)
    if written and MAIN_FILE not in written:
        text = f"the main file is called {quoted(written[0])}, and hosts look for {MAIN_FILE} alone: rename it"
        return None, [Finding(severity="error", text=text)]
    files = read_skill(folder)
    front = frontmatter.read(files.main) if files.main_path == MAIN_FILE else None
    findings = [Finding(severity=found.severity, text=found.text) for found in lint(files, folder.name)]
    return front.name if front else None, findings


def _with_twins(linted: Sequence[Linted]) -> list[Linted]:
    """Return the same, and of skills of one name that there are others: a host that has both takes one of them."""
    by_name: dict[str, list[str]] = {}
    for each in linted:
        if each.name:
            by_name.setdefault(each.name, []).append(each.skill)
    told = []
    for each in linted:
        others = [f"'{other}'" for other in by_name.get(each.name or "", []) if other != each.skill]
        if others:
            text = f"the name {quoted(each.name or '')} is also that of {', '.join(others[:_TWINS_SHOWN])}"
            twins = Finding(severity="advice", text=f"{text}: a host that finds both takes one of them")
            each = each.model_copy(update={"findings": [*each.findings, twins]})
        told.append(each)
    return told
