"""Promotion faults: a promotion in which one call into the system fails, or all of them from one on, each in turn."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.fault_children import RULE, Shop, open_shop
from skillopt_mcp import livefiles
from skillopt_mcp.errors import Refused, SkillOptError, StoreError
from skillopt_mcp.folders import read_skill
from skillopt_mcp.livefiles import TEMPORARY
from skillopt_mcp.operations.candidates.proposing import propose_edits
from skillopt_mcp.operations.changes import promoting
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.changes.promoting import promote_skill, rollback_skill
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import Promotion
from skillopt_mcp.store.promotions import Promotions

ERRORS = (errno.ENOSPC, errno.EROFS, errno.EACCES)
_CALLS = ("open", "write", "fsync", "fchmod", "fchown", "mkdir", "rename", "unlink", "stat")


class Faults(NamedTuple):
    """How many promotions met a fault, and what was wrong afterwards."""

    n: int
    wrong: list[str]


@contextmanager
def failing(at: int, error: int, *, lasting: bool) -> Iterator[list[str]]:
    """Let the `at`-th call fail that a promotion makes to the system or the journal, and with `lasting` all after it.

    Yields the names of the calls that failed.
    """
    n_calls, failed = 0, list[str]()

    def fault(name: str) -> bool:
        nonlocal n_calls
        n_calls += 1
        if n_calls == at or (lasting and n_calls > at):
            failed.append(name)
            return True
        return False

    with ExitStack() as stack:
        for name in _CALLS:
            _put(stack, os, name, fault, lambda: OSError(error, os.strerror(error)))
        for name in ("exchange", "move_new"):
            _put(stack, livefiles, name, fault, lambda: OSError(error, os.strerror(error)))
        for name in ("begin", "give_up", "finish"):
            _put(stack, Promotions, name, fault, lambda: StoreError("the disk is full"))
        yield failed


def _put(
    stack: ExitStack, owner: object, name: str, fault: Callable[[str], bool], error: Callable[[], Exception]
) -> None:
    real = getattr(owner, name)

    def called(*args: object, **kwargs: object) -> object:
        if fault(name):
            raise error()
        return real(*args, **kwargs)

    setattr(owner, name, called)
    stack.callback(setattr, owner, name, real)


def measure(folder: Path, *, errors: tuple[int, ...] = ERRORS) -> Faults:
    """Return what came of a promotion of two files with a fault at every one of its calls."""
    shop = Shop(folder)
    with open_shop(shop.store_path, folder, lambda text: RULE in text) as workspace:
        edits = [
            {"op": "append", "content": f"{RULE}one."},
            {"op": "append", "content": "x", "path": "references/a.md"},
        ]
        candidate = propose_edits(workspace, "ledger-clerk", edits).candidate_id or ""
        while evaluate_candidate(workspace, candidate).verdict == "undecided":
            pass
        version = workspace.store.candidates.get_candidate(candidate).version_id
    n, wrong = 0, list[str]()
    for error in errors:
        for lasting in (False, True):
            at, failed = 0, ["begin"]
            while failed:
                at += 1
                failed, refused = _promoted_with(shop, candidate, at, error, lasting=lasting)
                said = f"{errno.errorcode[error]} at call {at} ({', '.join(failed[:3])}{', ...' if lasting else ''})"
                wrong += [f"{said}: {each}" for each in _wrong(shop, version, refused=refused)]
                n += bool(failed)
    return Faults(n, wrong)


def _promoted_with(shop: Shop, candidate: str, at: int, error: int, *, lasting: bool) -> tuple[list[str], bool]:
    """Return which calls failed of a promotion, and whether a person is told that it was refused."""
    refused = False
    with open_shop(shop.store_path, shop.folder) as workspace:
        workspace.skill("ledger-clerk")
        with ExitStack() as stack:
            failed = list[str]()

            def armed(*args: object) -> None:
                inner = stack.enter_context(failing(at, error, lasting=lasting))
                stack.callback(lambda: failed.extend(inner))
                livefiles.replace_files(*args)  # type: ignore[arg-type]

            stack.callback(setattr, promoting, "replace_files", livefiles.replace_files)
            setattr(promoting, "replace_files", armed)  # noqa: B010 (for the time of one promotion)
            try:
                promote_skill(workspace, candidate, Consent.PERSON)
            except SkillOptError as told:
                refused = isinstance(told, Refused)
    return failed, refused


def _wrong(shop: Shop, version: str, *, refused: bool) -> Iterator[str]:
    """Yield what is not as it must be, once the disk works again and a command opens the store; go back after it."""
    with open_shop(shop.store_path, shop.folder) as workspace:
        tracked = workspace.skill("ledger-clerk")
        found = read_skill(shop.skill).digest
        known = {each.from_version for each in _changes(workspace)} | {version, _first(workspace)}
        if found not in known:
            yield "the skill is no known version"
        if tracked.live_version != found:
            yield "the store takes another version for the live one"
        if workspace.store.promotions.list_pending():
            yield "a promotion is pending"
        if strays := [path.name for path in shop.skill.rglob(f"{TEMPORARY}*")]:
            yield f"left over: {strays}"
        if found == version:
            if refused:
                yield "it was refused, and happened all the same"
            rollback_skill(workspace, "ledger-clerk", None, Consent.PERSON)
            if read_skill(shop.skill).digest == version:
                yield "it cannot be rolled back"


def _changes(workspace: Workspace) -> list[Promotion]:
    return workspace.store.promotions.list_promotions(1)


def _first(workspace: Workspace) -> str:
    return next(each.base_version for each in workspace.store.candidates.list_candidates(1))
