"""Remaining: where the text of attempts may still stand once they are erased, and what a person can do about each."""

from __future__ import annotations

import glob
import os
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel

from skillopt_mcp.limits import FILE_BYTES
from skillopt_mcp.operations.evidence.naming import Meant
from skillopt_mcp.operations.evidence.sessions import session_files, session_folders, session_id
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.store.erasing import Doomed, Erasing
from skillopt_mcp.store.keeping import kept_stores
from skillopt_mcp.store.searching import Searching

SHOWN = 20
STAYS = "It stays in this store. A new one (--store FILE) is without it, once this one is removed."
_IN_TABLES = {
    "version": ("versions of skills", f"Where one is live, correct the file. {STAYS}"),
    "version_file": ("names of files in versions", STAYS),
    "task": ("tasks", f"Retire them, so that nothing draws them (skillopt-mcp tasks retire). {STAYS}"),
    "retirement": ("retired tasks", STAYS),
    "candidate": ("reasons of candidates", f"Promote none that you would not show. {STAYS}"),
    "edit": ("edits of candidates", f"Promote none that you would not show. {STAYS}"),
    "run": ("runs (their settings, notes or results)", STAYS),
    "step": ("steps of runs", STAYS),
    "decision": ("decisions", STAYS),
    "trial": ("reasons of scores in runs and tests", STAYS),
    "attempt": ("what backends said of calls that failed", STAYS),
    "conclusion": ("why searches of runs were ended", STAYS),
    "archive": ("lines of imported histories", STAYS),
}
_OTHERS = ("rows of table {}", STAYS)


class Elsewhere(BaseModel):
    """A kind of thing that may hold the text, `n` of them, the first as `where`, and what to do about it."""

    what: str
    n: int
    where: list[str]
    step: str


def elsewhere(workspace: Workspace, meant: Meant, doomed: Sequence[Doomed]) -> list[Elsewhere]:
    """Return what an erasure of these attempts leaves: in the store, beside it, and where the hosts keep theirs."""
    found = [*_in_store(workspace, meant, doomed), *_in_work(workspace, meant)]
    made = workspace.store.room(Erasing).list_made_of([each.id for each in doomed])
    found += _kind("candidates with edits that came from these attempts", made, f"Look at each (show). {STAYS}")
    beside = [str(path) for path in _stores_beside(workspace.store_path)]
    remove = f"They hold what the store held then. Remove them: rm {shlex.join(beside[:SHOWN])}"
    found += _kind("older copies of this store", beside, remove)
    sessions = {each.session_id for each in doomed if each.session_id}
    transcripts = (
        "The host keeps its sessions itself: remove the files there. Nothing reads these attempts from them again."
    )
    return [*found, *_kind("transcripts of the hosts", _transcripts(sessions), transcripts)]


def _kind(what: str, where: Iterable[str], step: str) -> list[Elsewhere]:
    names = list(dict.fromkeys(where))
    return [Elsewhere(what=what, n=len(names), where=names[:SHOWN], step=step)] if names else []


def _in_store(workspace: Workspace, meant: Meant, doomed: Sequence[Doomed]) -> list[Elsewhere]:
    """Return where the text that is looked for stands in the store, but for what is erased."""
    if not meant.needles:
        return []
    searching, found = workspace.store.room(Searching), list[Elsewhere]()
    tables = searching.find(meant.needles)
    tables.pop("meta_note", None)
    gone = {f"trajectory:{each.id}" for each in doomed}
    attempts = [each for each in tables.pop("trajectory", []) if each not in gone]
    erasing = workspace.store.room(Erasing)
    is_left = {each: erasing.get_tombstone(_number(each)) is None for each in attempts}
    left = [each for each in attempts if is_left[each]]
    found += _kind("other attempts", left, f"Erase them, too: skillopt-mcp erase {' '.join(left[:SHOWN])}")
    named = [each for each in attempts if not is_left[each]]
    found += _kind("the session ids of erased attempts", named, STAYS)
    for table, names in tables.items():
        what, step = _IN_TABLES.get(table, (_OTHERS[0].format(table), _OTHERS[1]))
        found += _kind(what, names, step)
    replies = [
        each for each in searching.find_replies(meant.needles) if not (each.role == "optimizer" and each.is_over)
    ]
    asked = [each.scope for each in replies if each.role == "optimizer"]
    found += _kind(
        "answers of the optimizer to what is not finished", asked, "Finish it, then give the same command again."
    )
    rests = f"A verdict rests on them. {STAYS}"
    done = [each.scope for each in replies if each.role != "optimizer"]
    return [*found, *_kind("answers in runs and tests", done, rests)]


def _number(name: str) -> int:
    return int(name.partition(":")[2])


def _in_work(workspace: Workspace, meant: Meant) -> list[Elsewhere]:
    """Return the files of work that is out with hosts which hold the text that is looked for."""
    root = workspace.workplaces.root
    held = [str(path) for path in sorted(root.rglob("*")) if meant.needles and _holds(path, meant.needles)]
    return _kind("work that is out with a host", held, "They go when that work is done, or after a day.")


def _holds(path: Path, needles: Sequence[str]) -> bool:
    with suppress(OSError):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                content = file.read(4 * FILE_BYTES)
            return any(needle.encode("utf-8", "surrogatepass") in content for needle in needles)
    return False


def _stores_beside(path: Path) -> list[Path]:
    """Return the copies that migrations and restores have kept, and what a copying that was killed has left."""
    name = glob.escape(path.name)
    others = [
        each for pattern in (f"{name}.replaced-*", f".{name}.*") for each in path.parent.glob(pattern) if each.is_file()
    ]
    return [*kept_stores(path), *sorted(others)]


def _transcripts(sessions: set[str]) -> list[str]:
    """Return the transcripts of these sessions that hosts keep on this machine."""
    if not sessions:
        return []
    folders = session_folders(Path(os.path.expanduser("~")), os.environ)
    there = session_files([folder for folder in folders if folder.is_dir()])
    return [str(path) for path in there if session_id(path) in sessions]
