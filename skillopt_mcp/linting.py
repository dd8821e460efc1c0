"""Linting: where skills on disk depart from the Agent Skills specification, or from what it recommends."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.lint import Severity, lint
from skillopt_mcp.documents.text import quoted
from skillopt_mcp.errors import BadSkill, NotFound, SkillOptError
from skillopt_mcp.guard.phrases import dangers
from skillopt_mcp.records.skills import MAIN_FILE, MEMORY_FILES, SkillFiles, is_memory
from skillopt_mcp.skill_folders import default_roots, find_skill_folders, known, main_names, read_skill, skill_folder
from skillopt_mcp.skills import differing_skills, hidden_files, is_ignored, nested_roots, skill_around
from skillopt_mcp.workspace import Workspace

_TWINS_SHOWN = 3
_ROOTS_SHOWN = 5


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


class LintedFolder(Linted):
    """What is wrong with a path that no skill is at."""


class LintedAll(BaseModel):
    """What is wrong with some skills, and with the folders that hold them, and how many findings of either severity."""

    model_config = ConfigDict(frozen=True)
    skills: list[Linted]
    errors: int
    advice: int


@dataclass(frozen=True, slots=True)
class _Place:
    """A skill as it was called, its resolved folder, and the folder of skills that was given; or why there is none."""

    shown: str
    folder: Path
    missing: str = ""
    root: _Place | None = None


def lint_skills(workspace: Workspace, given: Sequence[str]) -> LintedAll:
    """Return what is wrong with skills, and with all in a folder of skills, as they are on disk, each once.

    The store is read for names alone: skills that are given by their path are neither tracked nor looked up.
    """
    places: dict[Path, _Place] = {}
    for each in given:
        for place in _places(workspace, each):
            places.setdefault(place.folder, place)
    linted = _with_twins([_linted(place) for place in places.values()])
    roots = {place.root.folder: place.root for place in places.values() if place.root}
    linted += [found for root in roots.values() for found in _overlooked(root, places)]
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
    has_skills = bare and (main_names(path) or _skills_in(path))
    return skill_folder(path) if is_path or has_skills else None


def _places(workspace: Workspace, given: str) -> list[_Place]:
    """Return the skills that were meant: one, or all of a folder of skills. A file inside a skill means that skill."""
    given = _around(given) or given
    try:
        folder = folder_of(given) or folder_named(workspace, given)
    except SkillOptError as error:
        return [_Place(given, Path(given), str(error))]
    if is_memory(str(folder)) or main_names(folder):
        return [_Place(given, folder)]
    root = _Place(given, folder)
    inside = [
        _Place(os.path.join(given, each.name), Path(os.path.realpath(each)), root=root) for each in _skills_in(folder)
    ]
    if inside:
        return inside
    # A folder that is not a skill is reported when it is read.
    nested = nested_roots(folder)
    return [
        replace(root, missing=f"it is no skill and holds none right inside; {_to_check(root, nested)}")
        if nested
        else root
    ]


def _around(given: str) -> str | None:
    """Return the folder of the skill that a file lies in; None for a document, and for what is no such file."""
    path = Path(os.path.expanduser(known(given)))
    if path.name.lower() == MAIN_FILE.lower() or is_memory(str(path)) or not path.is_file():
        return None
    folder = skill_around(Path(os.path.abspath(path)).parent)
    return None if folder is None else str(folder) if path.is_absolute() else near(folder)


def near(folder: Path) -> str:
    """Return the path of a folder from here; never what could be taken for a name."""
    near = os.path.relpath(folder)
    return near if near == "." or os.sep in near else os.path.join(".", near)


def _overlooked(root: _Place, places: Collection[Path]) -> Iterator[LintedFolder]:
    """Yield a finding for a folder of skills of which some lie deeper than hosts look."""
    nested = {
        inside: left
        for inside, skills in nested_roots(root.folder).items()
        if (left := [skill for skill in skills if skill not in places])
    }
    if nested:
        n = sum(map(len, nested.values()))
        lie, were = ("skills below lie", "were") if n > 1 else ("skill below lies", "was")
        text = f"{n:,} {lie} deeper than hosts look, which is right inside a folder, and {were} not looked at; "
        text += _to_check(root, nested)
        finding = Finding(severity="advice", text=text)
        yield LintedFolder(skill=root.shown, skill_path=str(root.folder), findings=[finding])


def _to_check(root: _Place, nested: Collection[Path]) -> str:
    """Return how to check the folders of skills that lie deep in another one."""
    shown = [shlex.quote(os.path.join(root.shown, inside.relative_to(root.folder))) for inside in nested]
    more = f" (and {len(shown) - _ROOTS_SHOWN} more)" if len(shown) > _ROOTS_SHOWN else ""
    return f"to check those below: skillopt-mcp check {' '.join(shown[:_ROOTS_SHOWN])}{more}"


def folder_named(workspace: Workspace, name: str) -> Path:
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
    return [folder for folder in folders if folder.is_dir() and (main_names(folder) or _is_closed(folder))]


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
    kind = LintedFolder if _is_none(place.folder) else Linted
    return kind(skill=place.shown, skill_path=str(place.folder), name=name, findings=findings)


def _is_none(folder: Path) -> bool:
    """Return whether no skill is in a folder: it is not there, or can be looked into and holds none."""
    return not os.path.lexists(folder) or (folder.is_dir() and not _is_closed(folder) and not main_names(folder))


def _read(folder: Path) -> tuple[str | None, list[Finding]]:
    """Return the name in the front matter and the findings of a skill. Raises BadSkill."""
    written = main_names(folder)
    if written and MAIN_FILE not in written:
        text = f"the main file is called {quoted(written[0])}, and hosts look for {MAIN_FILE} alone: rename it"
        return None, [Finding(severity="error", text=text)]
    files = read_skill(folder)
    front = frontmatter.read(files.main) if files.main_path == MAIN_FILE else None
    problems = (*lint(files, folder.name), *dangers(files))
    findings = [Finding(severity=found.severity, text=found.text) for found in problems]
    if files.main_path == MAIN_FILE:
        findings += _hidden(folder)
    return front.name if front else None, findings


def _hidden(folder: Path) -> Iterator[Finding]:
    """Yield what is dangerous in the dot files of a skill's folder: they are shared with the folder."""
    files, unread = hidden_files(folder)
    for file in files.files:
        found = [Finding(severity=each.severity, text=each.text) for each in dangers(SkillFiles((file,)))]
        if found and not is_ignored(folder / file.path):
            yield from found
    if unread:
        text = (
            f"not all hidden files were looked at for secrets, {quoted(unread[0])} for one: too many, large or closed"
        )
        yield Finding(severity="advice", text=text)


def _with_twins(linted: Sequence[Linted]) -> list[Linted]:
    """Return the same, and of skills of one name that there are others: a host that has both takes one of them."""
    by_name: dict[str, list[str]] = {}
    for each in linted:
        if each.name:
            by_name.setdefault(each.name, []).append(each.skill)
    linted_with = []
    for each in linted:
        others = [f"'{other}'" for other in by_name.get(each.name or "", []) if other != each.skill]
        if others:
            text = f"the name {quoted(each.name or '')} is also that of {', '.join(others[:_TWINS_SHOWN])}"
            twins = Finding(severity="advice", text=f"{text}: a host that finds both takes one of them")
            each = each.model_copy(update={"findings": [*each.findings, twins]})
        linted_with.append(each)
    return linted_with


class LintedChanged(LintedAll):
    """What is wrong with the skills that differ from a base; `deleted` are the folders of those that are gone."""

    deleted: list[str]


def lint_changed(workspace: Workspace, base: str) -> LintedChanged:
    """Return what is wrong with the skills of the checkout here that changed since it left `base`, as they are on disk.

    Raises BadInput where git fails.
    """
    found = differing_skills(Path.cwd(), base)
    linted = lint_skills(workspace, [near(folder) for folder in found.changed])
    unseen = [_not_there(folder) for folder in found.unseen]
    return LintedChanged(
        skills=[*linted.skills, *unseen],
        errors=linted.errors,
        advice=linted.advice + len(unseen),
        deleted=[os.path.relpath(folder) for folder in found.deleted],
    )


def _not_there(checkout: Path) -> LintedFolder:
    text = "it has changed, and was not looked at, for nothing of it is there: git submodule update --init"
    finding = Finding(severity="advice", text=text)
    return LintedFolder(skill=near(checkout), skill_path=str(checkout), findings=[finding])
