"""Scouting: one call finds out how a server wants to be asked, the others wait for it and ask in that way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

# Servers turn down at once what they do not understand; what takes longer is being answered.
PATIENCE_S = 5.0
AFTER_FAILURE_S = 10.0


class Scouting:
    """Whose turn it is to find out. Nobody waits for long, nor for what is known already."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._free_until = 0.0

    @asynccontextmanager
    async def turn(self, is_unknown: Callable[[], bool]) -> AsyncIterator[None]:
        """Enter when nothing `is_unknown` any more of how to ask, or at once when it is this call's turn to find out.

        After a call that failed all go ahead: a request that is turned down costs little, a queue of failures hours.
        """
        leads = await self._leads(is_unknown)
        try:
            yield
        except BaseException:
            if leads:
                self._free_until = asyncio.get_running_loop().time() + AFTER_FAILURE_S
            raise
        finally:
            if leads:
                self._lock.release()

    async def _leads(self, is_unknown: Callable[[], bool]) -> bool:
        """Return whether this call finds out, and holds the lock for that."""
        if not is_unknown() or self._is_free():
            return False
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._lock.acquire()
        except TimeoutError:
            return False
        if is_unknown() and not self._is_free():
            return True
        self._lock.release()
        return False

    def _is_free(self) -> bool:
        return asyncio.get_running_loop().time() < self._free_until
