"""Erase: take the texts of attempts out of the store, and list where they may still be."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from skillopt_mcp.actions.sessions import session_files, session_folders, session_id
from skillopt_mcp.core.calls import HOST
from skillopt_mcp.core.errors import Busy
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.redacting import Redactor
from skillopt_mcp.core.results import Result
from skillopt_mcp.core.text import counted
from skillopt_mcp.store.erasing import Doomed, Erasing
from skillopt_mcp.store.files import list_held_locks, lock_run
from skillopt_mcp.store.opening import Store
from skillopt_mcp.workspace.place import Place

ERASED_SHOWN = 20
WORDS_BYTES = 72
AT_ONCE = 200
CHARS_AT_ONCE = 4_000_000
LOG_WAIT_MS = 5_000


class ErasedRow(BaseModel):
    """An attempt that is erased, or would be; `words` begin its task, none of one at a held-out task."""

    id: str
    skill: str
    session: str
    at: str
    words: str


class Erasure(Result):
    """What is erased, or would be; `n` attempts, the first of them as `attempts`.

    `answers` of the optimizer lose their text; the unfinished `runs` go on without the attempts. What stays: candidates
    that were `made_from` the attempts, `copies` of the store next to it, and the hosts' own `transcripts`. `is_gone`:
    no byte of it is left in the store's files.
    """

    status: Literal["nothing", "planned", "erased"]
    n: int
    attempts: list[ErasedRow]
    answers: int = 0
    runs: list[str]
    made_from: list[str]
    copies: list[str]
    transcripts: list[str]
    is_gone: bool = True


def review_erasure(store: Store, redactor: Redactor, ids: Sequence[int]) -> Erasure:
    """What `erase` would take out, and what it would leave; nothing is changed."""
    erasing, path = store.table(Erasing), store.path
    doomed = list(erasing.walk_doomed(ids))
    doomed_ids, sessions = [each.id for each in doomed], {each.session_id for each in doomed if each.session_id}
    folders = session_folders(Path(os.path.expanduser("~")), os.environ) if sessions else []
    name = glob.escape(path.name)
    copies = (copy for kept in (f"{name}.replaced-*", f".{name}.*") for copy in path.parent.glob(kept))
    return Erasure(
        status="planned" if doomed else "nothing",
        n=len(doomed),
        attempts=[
            ErasedRow(
                id=f"trajectory:{each.id}", skill=store.skills.get_skill(each.skill_id).name,
                session=each.session_id or "", at=each.created_at, words=_words(store, redactor, each),
            )
            for each in doomed[:ERASED_SHOWN]
        ],
        answers=sum(each.has_text for each in erasing.list_shown(ids)),
        runs=[run for run, goes_on in erasing.list_holding(doomed_ids).items() if goes_on],
        made_from=erasing.list_made_of(doomed_ids),
        copies=sorted(str(copy) for copy in copies if copy.is_file()),
        transcripts=[
            str(file)
            for file in session_files([folder for folder in folders if folder.is_dir()])
            if session_id(file) in sessions
        ],
    )  # fmt: skip


def erase(store: Store, place: Place, ids: Sequence[int], advance: Callable[[int], None] = lambda _: None) -> Erasure:
    """Take attempts out, a few hundred per transaction; killed anywhere, it goes on when it is asked for again.

    `advance` is called with how many are done. Raises Busy where another process works with one of them; those that
    are left are unchanged then.
    """
    erasing = store.table(Erasing)
    described, doomed = review_erasure(store, place.redactor, ids), list(erasing.walk_doomed(ids))
    with ExitStack() as stack:
        runs = set[str]()  # the unfinished ones that may see the attempts, held so that none has them in memory

        def hold(ids: Sequence[int], n_gone: int = 0) -> None:
            while new := [run for run in erasing.list_holding(ids) if run not in runs]:
                for run in new:
                    lock = lock_run(store.locks_path, run)
                    if lock is None:
                        raise _busy(f"the run '{run}' is under way, and may see some of these attempts", n_gone)
                    stack.callback(lock.release)
                    runs.add(run)

        hold(ids)
        shown = erasing.list_shown(ids)
        for call in shown:
            if (
                not call.is_answered
                and call.owner != HOST
                and f"{call.owner}.owner" in list_held_locks(store.locks_path)
            ):
                raise _busy(f"some of these attempts are with an optimizer just now, for '{call.scope}'", 0)
        n_answers = _clear(store, place, [each.id for each in shown])
        n = 0
        for some in _chunks(doomed):
            some_ids = [each.id for each in some]
            while (n_gone := erasing.erase(some_ids, runs)) is None:
                hold(some_ids, n)
            n += n_gone
            advance(len(some))
        # Of all that was ever erased: what was on its way to a host meanwhile, and what a killed erasure left.
        n_answers += _clear(store, place, [each.id for each in erasing.list_shown(erasing.find_erased())])
    is_gone = store.compact(LOG_WAIT_MS)
    why = "another process reads the store, whose files may hold the texts until it ends"
    return described.model_copy(
        update={
            "status": "erased" if n or n_answers else "nothing",
            "n": n,
            "answers": n_answers,
            "is_gone": is_gone,
            "next_step": None if is_gone else NextStep(action="store erase", why=why),
        }
    )


def _clear(store: Store, place: Place, call_ids: Sequence[int]) -> int:
    """Empty answers, and take back what is out with hosts of the questions; return how many had a text."""
    n_answers = 0
    for start in range(0, len(call_ids), AT_ONCE):
        n, leases = store.table(Erasing).clear_calls(call_ids[start : start + AT_ONCE])
        place.work_folders.remove(leases)
        n_answers += n
    return n_answers


def _busy(why: str, n_gone: int) -> Busy:
    changed = f"{counted(n_gone, 'attempt is', 'attempts are')} erased already" if n_gone else "nothing was changed"
    return Busy(
        f"{why}: wait for it to end, or stop it (a replay goes on later without them), then erase again; {changed}"
    )


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


def _words(store: Store, redactor: Redactor, doomed: Doomed) -> str:
    """How an attempt's task begins, without secrets."""
    found = store.trajectories.get_trajectory(doomed.id)
    if found is None:
        return ""
    if store.trajectories.is_held_out(doomed.skill_id, doomed.id):
        return "(a held-out task)"
    words = " ".join(redactor.text(found[1].prompt).split())
    encoded = words.encode("utf-8", "replace")
    if len(encoded) <= WORDS_BYTES:
        return words
    return encoded[: WORDS_BYTES - 4].decode("utf-8", "ignore").rstrip() + " ..."
