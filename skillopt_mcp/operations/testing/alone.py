"""Alone: one process at a time draws the pairs of a promotion test."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.errors import Busy
from skillopt_mcp.optimizer.confirmation import GATE, Test, standing
from skillopt_mcp.optimizer.progress import Notify, Progress
from skillopt_mcp.store.opening import Store

_POLL_S = 0.2


@contextmanager
def only_here(store: Store, test: Test, notify: Notify | None = None) -> Iterator[None]:
    """Draw a test's pairs in no two processes at once, whatever they do it for. Raises Busy when another one does.

    Whoever says whom to `notify` waits for that one instead, and hears how far it has come.
    """
    lock = lock_run(store.locks_path, test.row.id)
    while lock is None:
        if notify is None:
            raise Busy(f"another process is running the test '{test.row.id}': call again to see its verdict")
        so_far = standing(test, store)
        notify(Progress(GATE, 0, so_far.n_pairs, test.rule.max_pairs, so_far.base_mean, so_far.candidate_mean))
        time.sleep(_POLL_S)
        lock = lock_run(store.locks_path, test.row.id)
    try:
        yield
    finally:
        lock.release()
