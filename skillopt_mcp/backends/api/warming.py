"""Warming: one call goes ahead and writes a prompt cache, the others of its batch wait for it and read it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LEAST_CHARACTERS = 4096
WARM_S = 240.0
AFTER_FAILURE_S = 10.0


class Warming:
    """Whose turn it is to write the cache of a prefix. Prefixes too short to be cached wait for nobody."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def turn(self, prefix: str) -> AsyncIterator[None]:
        """Enter when `prefix` is cached, or at once when it is this call's turn to write it.

        After a call that failed all go ahead: a cache saves money, and is not worth a queue of failures.
        """
        if len(prefix) < LEAST_CHARACTERS:
            yield
            return
        lock = self._locks.setdefault(prefix, asyncio.Lock())
        leads = not self._is_warm(prefix) and await lock.acquire()
        if leads and self._is_warm(prefix):
            lock.release()
            leads = False
        warm_s = AFTER_FAILURE_S
        try:
            yield
            warm_s = WARM_S
        finally:
            now = asyncio.get_running_loop().time()
            self._until[prefix] = max(self._until.get(prefix, 0.0), now + warm_s)
            if leads:
                lock.release()

    def _is_warm(self, prefix: str) -> bool:
        return asyncio.get_running_loop().time() < self._until.get(prefix, 0.0)
