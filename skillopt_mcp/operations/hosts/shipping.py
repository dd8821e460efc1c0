"""Shipping: the files that come with this program, and the folders made for them, put there and taken out again."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from skillopt_mcp.installing.hosts import Places, Surroundings
from skillopt_mcp.operations.hosts.host_files import Change, Plan, content_of

SHIPPED = Path(__file__).resolve().parents[2]
SKILL = "train-a-skill"
AGENT = "skillopt-worker.md"
MADE = ".skillopt-made"
_MADE_TEXT = b"'skillopt-mcp install' made this folder; 'uninstall' removes it once nothing else is in it.\n"


@dataclass(frozen=True, slots=True)
class Shipped:
    """A file that comes with the skill, and the place in a folder of the host that it is read at."""

    source: Path
    folder: Path
    name: str

    @property
    def target(self) -> Path:
        """Return where the host reads it."""
        return self.folder / self.name

    def is_there(self) -> bool:
        """Return whether it is there as it was shipped."""
        return content_of(self.target) == self.source.read_bytes()

    def foreign(self) -> str:
        """Return why the place is not ours to touch, or an empty string: a link leads to what somebody else keeps."""
        way = [self.folder, *map(self.folder.joinpath, accumulate(Path(self.name).parts, os.path.join))]
        if link := next((path for path in way if path.is_symlink()), None):
            return f"'{link}' is a link"
        return f"'{self.target}' is a part of this program" if is_in_program(self.target) else ""


def is_in_program(path: Path) -> bool:
    """Return whether a path leads into this program's own folder, where nothing is ever written."""
    return Path(os.path.realpath(path)).is_relative_to(SHIPPED)


def shipped(where: Places) -> Iterator[Shipped]:
    """Yield what `--skill` puts into the folders of a host."""
    if where.skills:
        yield Shipped(SHIPPED / "skills" / SKILL / "SKILL.md", where.skills, f"{SKILL}/SKILL.md")
    if where.agents:
        yield Shipped(SHIPPED / "agents" / AGENT, where.agents, AGENT)


def ship(plan: Plan, file: Shipped) -> None:
    """Add to a plan that a file is put there; one that was trained or edited stays."""
    path = Path(os.path.realpath(file.target))
    if foreign := file.foreign():
        plan.notes.append(f"{foreign}: nothing is written there. What comes with us is '{file.source}'.")
    elif not path.exists():
        plan.add(Change(path, None, file.source.read_bytes(), shipped=True))
    elif not file.is_there():
        plan.notes.append(f"'{path}' was trained or edited: it stays. Remove it to get the one that comes with us.")


def withdraw(plan: Plan, file: Shipped) -> None:
    """Add to a plan that a file goes, and the folder around it; one that was trained or edited stays."""
    path = Path(os.path.realpath(file.target))
    if foreign := file.foreign():
        plan.notes.append(f"{foreign}: it stays, and so does all behind it. Remove it yourself if it is not needed.")
    elif path.exists() and not file.is_there():
        plan.notes.append(f"'{path}' was trained or edited: it stays. Remove it yourself if it is not needed.")
    elif path.exists():
        plan.add(Change(path, file.source.read_bytes(), None, shipped=True))
        if file.target.parent != file.folder:
            plan.folders.append(file.target.parent)


def mark_folders(plan: Plan, where: Places, around: Surroundings) -> None:
    """Leave a mark in each folder that is made for what a plan writes: one that the person had is never removed."""
    written = [change.path for change in plan.changes]
    for folder in reversed(_folders(where, around)):
        real = Path(os.path.realpath(folder))
        if not real.exists() and any(path.is_relative_to(real) for path in written):
            plan.add(Change(real / MADE, None, _MADE_TEXT, shipped=True))


def unmark_folders(plan: Plan, where: Places, around: Surroundings, staying: Collection[Path]) -> None:
    """Add to a plan that the marked folders go, where they are empty then and nothing of ours is `staying` in them.

    One that holds a folder made for another host keeps its mark, and goes with that.
    """
    for folder in _folders(where, around):
        mark = folder / MADE
        if folder.is_symlink() or mark.is_symlink() or any(path.is_relative_to(folder) for path in staying):
            continue
        others = {each.parent for each in folder.glob(f"*/{MADE}")}.difference(plan.folders)
        if content_of(mark) == _MADE_TEXT and not others:
            plan.obsolete.append(mark)
            plan.folders.append(folder)


def _folders(where: Places, around: Surroundings) -> list[Path]:
    """Return the folders that install makes, where they lack, for what it writes: the inner ones first."""
    inner = {folder for folder in (where.skills, where.agents) if folder}
    holding = inner | {file.parent for file in (where.config, where.hooks) if file}
    # Those of a host's own, such as .agents; the home and the project are the person's, and so is what is around them.
    outer = {
        each
        for folder in holding
        for each in (folder, *folder.parents)
        if any(root in each.parents for root in (around.home, around.project))
    }
    return sorted(inner | outer, key=lambda folder: len(folder.parts), reverse=True)
