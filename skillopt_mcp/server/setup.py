"""Setup: what a server is started with, whichever way it is reached."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LEASE_MINUTES = 15.0


@dataclass(frozen=True, slots=True)
class Setup:
    """The store, the backends that were named, and whether every change of a live file needs a person's approval.

    `lease_minutes` is how long work is in a host's hands; the caps are those of every test and proposal.
    """

    store_path: Path
    target: str | None = None
    optimizer: str | None = None
    judge: str | None = None
    require_approval: bool = False
    lease_minutes: float = LEASE_MINUTES
    max_calls: int | None = None
    max_tokens: int | None = None
    max_usd: float | None = None
    max_minutes: float | None = None
