"""Erase: take the texts of attempts out of the store, and list where they may still be."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from skillopt_mcp.calls.asking import HOST
from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.documents.text import counted
from skillopt_mcp.errors import Busy
from skillopt_mcp.limits import FILE_BYTES
from skillopt_mcp.records.next_step import NextStep
from skillopt_mcp.records.results import Result
from skillopt_mcp.sessions import session_files, session_folders, session_id
from skillopt_mcp.store.erasing import Doomed, Erasing, FoundReply, Searching, Shown
from skillopt_mcp.trajectories import FoundAttempts
from skillopt_mcp.workspace import Workspace

SHOWN = 20


class Elsewhere(BaseModel):
    """Things that may hold the text and stay: `n` of a kind, the first of them as `where`.

    The kind is a table's name, or other_attempts, session_ids, open_answers, answers, host_work, made_from, copies or
    transcripts.
    """

    kind: str
    n: int
    where: list[str]


def elsewhere(workspace: Workspace, meant: FoundAttempts, doomed: Sequence[Doomed]) -> list[Elsewhere]:
    """Return what an erasure of these attempts leaves: in the store, next to it, and where the hosts keep theirs."""
    sessions = {each.session_id for each in doomed if each.session_id}
    found = {
        **_in_store(workspace, meant, doomed),
        "host_work": _in_work(workspace, meant),
        "made_from": workspace.store.table(Erasing).list_made_of([each.id for each in doomed]),
        "copies": [str(path) for path in _copies(workspace.store_path)],
        "transcripts": _transcripts(sessions),
    }
    unique = {kind: list(dict.fromkeys(names)) for kind, names in found.items()}
    return [Elsewhere(kind=kind, n=len(names), where=names[:SHOWN]) for kind, names in unique.items() if names]


def _in_store(workspace: Workspace, meant: FoundAttempts, doomed: Sequence[Doomed]) -> dict[str, list[str]]:
    """Return where the text is in the store, except in what is erased."""
    if not meant.needles:
        return {}
    searching, erasing = workspace.store.table(Searching), workspace.store.table(Erasing)
    tables = searching.find(meant.needles)
    tables.pop("meta_note", None)
    gone = {f"trajectory:{each.id}" for each in doomed}
    attempts = [each for each in tables.pop("trajectory", []) if each not in gone]
    is_erased = {each: erasing.get_tombstone(int(each.partition(":")[2])) is not None for each in attempts}
    replies = searching.find_replies(meant.needles)
    return {
        "other_attempts": [each for each in attempts if not is_erased[each]],
        "session_ids": [each for each in attempts if is_erased[each]],
        **tables,
        "open_answers": [each.scope for each in replies if each.role == "optimizer" and not each.is_over],
        "answers": [each.scope for each in replies if each.role != "optimizer"],
    }


def _in_work(workspace: Workspace, meant: FoundAttempts) -> list[str]:
    """Return the files of work that is out with hosts which hold the text."""
    paths = sorted(workspace.work_folders.root.rglob("*")) if meant.needles else []
    return [str(path) for path in paths if _holds(path, meant.needles)]


def _holds(path: Path, needles: Sequence[str]) -> bool:
    with suppress(OSError):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                content = file.read(4 * FILE_BYTES)
            return any(needle.encode("utf-8", "surrogatepass") in content for needle in needles)
    return False


def _copies(path: Path) -> list[Path]:
    """Return the copies that restores have kept, and what a copying that was killed has left."""
    name = glob.escape(path.name)
    others = [
        each for pattern in (f"{name}.replaced-*", f".{name}.*") for each in path.parent.glob(pattern) if each.is_file()
    ]
    return sorted(others)


def _transcripts(sessions: set[str]) -> list[str]:
    """Return the transcripts of these sessions that hosts keep on this machine."""
    if not sessions:
        return []
    folders = session_folders(Path(os.path.expanduser("~")), os.environ)
    there = session_files([folder for folder in folders if folder.is_dir()])
    return [str(path) for path in there if session_id(path) in sessions]


ERASED_SHOWN = 20
WORDS_BYTES = 72
AT_ONCE = 200
CHARS_AT_ONCE = 4_000_000
LOG_WAIT_MS = 5_000
INSTEAD = "[erased]"


class ErasedRow(BaseModel):
    """An attempt that is erased, or would be; `words` begin its task, none of one at a held-out task."""

    id: str
    skill: str
    session: str
    at: str
    words: str


class Erasure(Result):
    """What is erased, or would be; `n` attempts, the first of them as `attempts`.

    `answers` of the optimizer, and `notes` to it, lose their text or that text; the unfinished `runs` go on without the
    attempts. `elsewhere` is what may hold their text and stays. `log_emptied`: nothing is left in the store's log.
    """

    status: Literal["nothing", "planned", "erased"]
    n: int
    attempts: list[ErasedRow]
    answers: int = 0
    notes: int = 0
    runs: list[str]
    elsewhere: list[Elsewhere]
    log_emptied: bool = True


def review_erasure(workspace: Workspace, meant: FoundAttempts) -> Erasure:
    """Return what `erase` would take out, and what it would leave; nothing is changed."""
    doomed = list(workspace.store.table(Erasing).walk_doomed(meant.ids))
    over = [each.call_id for each in _answers(workspace, meant) if each.is_over]
    shown = [each.id for each in _shown(workspace, meant.ids)]
    return Erasure(
        status="planned" if doomed or over else "nothing",
        n=len(doomed),
        attempts=_rows(workspace, doomed[:ERASED_SHOWN], meant),
        answers=workspace.store.table(Erasing).count_answers(sorted({*shown, *over})),
        notes=workspace.store.table(Erasing).count_notes(meant.needles),
        runs=_going_on(workspace, meant.ids),
        elsewhere=elsewhere(workspace, meant, doomed),
    )


def erase(workspace: Workspace, meant: FoundAttempts, advance: Callable[[int], None] = lambda _: None) -> Erasure:
    """Take attempts out, a few hundred per transaction; killed anywhere, it goes on when it is asked for again.

    `advance` is called with how many are done. Raises Busy where another process works with one of them; those that
    are left are unchanged then.
    """
    erasing = workspace.store.table(Erasing)
    doomed = list(erasing.walk_doomed(meant.ids))
    rows = _rows(workspace, doomed[:ERASED_SHOWN], meant)
    runs = _going_on(workspace, meant.ids)
    with ExitStack() as stack:
        held = _Held(workspace, stack)
        held.take(meant.ids)
        shown = _shown(workspace, meant.ids)
        _check_not_asked(workspace, shown)
        over = [each.call_id for each in _answers(workspace, meant) if each.is_over]
        n_answers = _clear(workspace, sorted({*(each.id for each in shown), *over}))
        n_notes = erasing.clear_notes(meant.needles, INSTEAD)
        n = 0
        for some in _chunks(doomed):
            ids = [each.id for each in some]
            while (n_gone := erasing.erase(ids, held.runs)) is None:
                held.take(ids, n)
            n += n_gone
            advance(len(some))
        # Of all that was ever erased: what was on its way to a host meanwhile, and what a killed erasure left.
        n_answers += _clear(workspace, [each.id for each in _shown(workspace, erasing.list_erased())])
    is_emptied = workspace.store.empty_log(LOG_WAIT_MS)
    return Erasure(
        status="erased" if n or n_answers or n_notes else "nothing",
        n=n,
        attempts=rows,
        answers=n_answers,
        notes=n_notes,
        runs=runs,
        elsewhere=elsewhere(workspace, meant, doomed),
        log_emptied=is_emptied,
        next_step=None
        if is_emptied
        else NextStep(action="store erase", why="another process reads the store, whose -wal file may hold the texts"),
    )


def _clear(workspace: Workspace, call_ids: Sequence[int]) -> int:
    """Empty answers, and take back what is out with hosts of the questions; return how many had a text."""
    n_answers = 0
    for start in range(0, len(call_ids), AT_ONCE):
        n, leases = workspace.store.table(Erasing).clear_calls(call_ids[start : start + AT_ONCE])
        workspace.work_folders.remove(leases)
        n_answers += n
    return n_answers


class _Held:
    """The unfinished runs that may see attempts, held so that none has them in memory."""

    def __init__(self, workspace: Workspace, stack: ExitStack) -> None:
        self._workspace = workspace
        self._stack = stack
        self.runs: set[str] = set()

    def take(self, ids: Sequence[int], n_gone: int = 0) -> None:
        """Hold those of some attempts that are not held yet. Raises Busy where one of them is under way."""
        store = self._workspace.store
        while new := [run for run in store.table(Erasing).list_holding(ids) if run not in self.runs]:
            for run in new:
                lock = lock_run(store.locks_path, run)
                if lock is None:
                    raise _busy(f"the run '{run}' is under way, and may see some of these attempts", n_gone)
                self._stack.callback(lock.release)
                self.runs.add(run)


def _check_not_asked(workspace: Workspace, shown: Sequence[Shown]) -> None:
    """Raise Busy where a call that shows an attempt is on its way in a live process."""
    for call in shown:
        if not call.is_answered and call.owner != HOST and workspace.owner.is_alive(call.owner):
            raise _busy(f"some of these attempts are with an optimizer just now, for '{call.scope}'")


def _busy(why: str, n_gone: int = 0) -> Busy:
    changed = f"{counted(n_gone, 'attempt is', 'attempts are')} erased already" if n_gone else "nothing was changed"
    return Busy(
        f"{why}: wait for it to end, or stop it (a replay goes on later without them), then erase again; {changed}"
    )


def _shown(workspace: Workspace, ids: Sequence[int]) -> list[Shown]:
    """Return the calls that showed some of these attempts."""
    return workspace.store.table(Erasing).list_shown(ids) if ids else []


def _going_on(workspace: Workspace, ids: Sequence[int]) -> list[str]:
    """Return the unfinished runs that go on without these attempts."""
    return [run for run, goes_on in workspace.store.table(Erasing).list_holding(ids).items() if goes_on]


def _answers(workspace: Workspace, meant: FoundAttempts) -> list[FoundReply]:
    """Return the answers of optimizers that hold the text that is looked for."""
    if not meant.needles:
        return []
    found = workspace.store.table(Searching).find_replies(meant.needles)
    return [each for each in found if each.role == "optimizer"]


def _chunks(doomed: Sequence[Doomed]) -> Iterator[list[Doomed]]:
    """Yield attempts, as many as one transaction takes."""
    some: list[Doomed] = []
    n_chars = 0
    for each in doomed:
        if some and (len(some) == AT_ONCE or n_chars + each.n_chars > CHARS_AT_ONCE):
            yield some
            some, n_chars = [], 0
        some.append(each)
        n_chars += each.n_chars
    if some:
        yield some


def _rows(workspace: Workspace, doomed: Sequence[Doomed], meant: FoundAttempts) -> list[ErasedRow]:
    skills = workspace.store.skills
    return [
        ErasedRow(
            id=f"trajectory:{each.id}", skill=skills.get_skill(each.skill_id).name, session=each.session_id or "",
            at=each.created_at, words=_words(workspace, each, meant),
        )
        for each in doomed
    ]  # fmt: skip


def _words(workspace: Workspace, doomed: Doomed, meant: FoundAttempts) -> str:
    """Return how an attempt's task begins, without what is looked for and without secrets."""
    found = workspace.store.trajectories.get_trajectory(doomed.id)
    if found is None:
        return ""
    if workspace.store.tasks.is_held_out(doomed.skill_id, found[1].prompt):
        return "(a held-out task)"
    text = found[1].prompt
    for needle in meant.needles:
        text = text.replace(needle, "...")
    words = " ".join(workspace.redactor.text(text).split())
    encoded = words.encode("utf-8", "replace")
    if len(encoded) <= WORDS_BYTES:
        return words
    return encoded[: WORDS_BYTES - 4].decode("utf-8", "ignore").rstrip() + " ..."
