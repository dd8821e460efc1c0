"""Erasing: recorded attempts taken out of the store for good, as a person asks for it, and what that does not reach.

A row stays of each, without its texts, so that no reading of the session brings it back. What was made of attempts is
looked for and told: answers of the optimizer that nobody asks for again go too, what a verdict rests on stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Literal

from pydantic import BaseModel

from skillopt_mcp.calls.asking import HOST
from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.errors import Busy
from skillopt_mcp.operations.evidence.naming import Meant
from skillopt_mcp.operations.evidence.remaining import Elsewhere, elsewhere
from skillopt_mcp.operations.results import Result
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.store.erasing import Doomed, Erasing, Shown
from skillopt_mcp.store.searching import FoundReply, Searching

SHOWN = 20
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


def review_erasure(workspace: Workspace, meant: Meant) -> Erasure:
    """Return what `erase` would take out, and what it would leave; nothing is changed."""
    doomed = list(workspace.store.room(Erasing).walk_doomed(meant.ids))
    over = [each.call_id for each in _answers(workspace, meant) if each.is_over]
    shown = [each.id for each in _shown(workspace, meant.ids)]
    return Erasure(
        status="planned" if doomed or over else "nothing",
        n=len(doomed),
        attempts=_rows(workspace, doomed[:SHOWN], meant),
        answers=workspace.store.room(Erasing).count_answers(sorted({*shown, *over})),
        notes=workspace.store.room(Erasing).count_notes(meant.needles),
        runs=_going_on(workspace, meant.ids),
        elsewhere=elsewhere(workspace, meant, doomed),
    )


def erase(workspace: Workspace, meant: Meant, advance: Callable[[int], None] = lambda _: None) -> Erasure:
    """Take attempts out, a few hundred per transaction; killed anywhere, it goes on when it is asked for again.

    `advance` hears how many are done. Raises Busy where another process is at work with one of them: of those that are
    left, nothing is changed then.
    """
    erasing = workspace.store.room(Erasing)
    doomed = list(erasing.walk_doomed(meant.ids))
    rows = _rows(workspace, doomed[:SHOWN], meant)
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
        for some in _batches(doomed):
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
        next_step="" if is_emptied else _log_step(workspace),
    )


def _log_step(workspace: Workspace) -> str:
    return (
        f"Another process is reading the store, so '{workspace.store_path}-wal' may still hold the texts: let it end "
        "(a verify, a backup, a replay, a host with the server), then give the same command again."
    )


def _clear(workspace: Workspace, call_ids: Sequence[int]) -> int:
    """Empty answers, and take back what is out with hosts of the questions; return how many had a text."""
    n_answers = 0
    for start in range(0, len(call_ids), AT_ONCE):
        n, leases = workspace.store.room(Erasing).clear_calls(call_ids[start : start + AT_ONCE])
        workspace.workplaces.remove(leases)
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
        while new := [run for run in store.room(Erasing).list_holding(ids) if run not in self.runs]:
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
    return workspace.store.room(Erasing).list_shown(ids) if ids else []


def _going_on(workspace: Workspace, ids: Sequence[int]) -> list[str]:
    """Return the unfinished runs that go on without these attempts."""
    return [run for run, goes_on in workspace.store.room(Erasing).list_holding(ids).items() if goes_on]


def _answers(workspace: Workspace, meant: Meant) -> list[FoundReply]:
    """Return the answers of optimizers that hold the text that is looked for."""
    if not meant.needles:
        return []
    found = workspace.store.room(Searching).find_replies(meant.needles)
    return [each for each in found if each.role == "optimizer"]


def _batches(doomed: Sequence[Doomed]) -> Iterator[list[Doomed]]:
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


def _rows(workspace: Workspace, doomed: Sequence[Doomed], meant: Meant) -> list[ErasedRow]:
    skills = workspace.store.skills
    return [
        ErasedRow(
            id=f"trajectory:{each.id}", skill=skills.get_skill(each.skill_id).name, session=each.session_id or "",
            at=each.created_at, words=_words(workspace, each, meant),
        )
        for each in doomed
    ]  # fmt: skip


def _words(workspace: Workspace, doomed: Doomed, meant: Meant) -> str:
    """Return how an attempt's task begins, without what is looked for and without secrets."""
    found = workspace.store.trajectories.find_sound(doomed.id)
    if found is None:
        return ""
    if workspace.store.tasks.is_held_out(doomed.skill_id, found[1].prompt):
        return "(a held-out task)"
    text = found[1].prompt
    for needle in meant.needles:
        text = text.replace(needle, "...")
    words = " ".join(workspace.redactor.text(text).split())
    told = words.encode("utf-8", "replace")
    if len(told) <= WORDS_BYTES:
        return words
    return told[: WORDS_BYTES - 4].decode("utf-8", "ignore").rstrip() + " ..."
