"""Retrying: what is done about each kind of fault, and how long a call waits before it is sent again."""

from __future__ import annotations

import random
from typing import NamedTuple

from skillopt_mcp.backends.base import RETRYABLE
from skillopt_mcp.records.calls import Fault

MAX_ATTEMPTS = 5
# Who asks to be left alone for longer ends the run, which can be gone on with then.
MAX_PAUSE_S = 900.0
MAX_CALL_S = 1800.0


class Policy(NamedTuple):
    """How a fault is dealt with: attempts in all, and the first wait in seconds, each `growth` times the last.

    `may_be_paid`: the vendor may have made an answer, though none came.
    """

    attempts: int = 1
    wait_s: float = 0.0
    growth: float = 2.0
    may_be_paid: bool = False


POLICIES: dict[Fault, Policy] = {
    # Most limits are per minute: four waits reach over 40 s.
    "rate_limit": Policy(MAX_ATTEMPTS, 1.0, 3.0),
    "overloaded": Policy(MAX_ATTEMPTS, 1.0, 3.0),
    "server": Policy(MAX_ATTEMPTS, 0.5),
    "connection": Policy(MAX_ATTEMPTS, 0.5, may_be_paid=True),
    "timeout": Policy(3, 0.5, may_be_paid=True),
    "malformed": Policy(3, 0.5, may_be_paid=True),
    # To send these again would bring the same: they are missing at once.
    "context_too_long": Policy(),
    "refusal": Policy(may_be_paid=True),
    "truncated": Policy(may_be_paid=True),
    "empty": Policy(may_be_paid=True),
    "internal": Policy(may_be_paid=True),
    # These end the run.
    "auth": Policy(),
    "model_not_found": Policy(),
    "unsupported": Policy(),
}


ONE_CHANCE: frozenset[Fault] = frozenset({"timeout", "malformed"})
"""Faults that an attempt at a task may bring upon itself: sent again, it would count the best of several attempts."""


class Wait(NamedTuple):
    """How long to wait before the next attempt; with a reason there is none, and the call is missing."""

    seconds: float = 0.0
    given_up: str | None = None


def wait_before_next(fault: Fault, n_attempts: int, retry_after: float | None, key: bytes, *, age_s: float) -> Wait:
    """Return the wait after the n-th attempt at a call failed, `age_s` seconds after it was first sent.

    What the server asked for is honoured, however long: whether anybody waits for that, the round decides. A jitter by
    key comes on top, so that callers do not come back all at once.
    """
    policy = POLICIES[fault]
    if fault not in RETRYABLE:
        return Wait(given_up="")
    if n_attempts >= policy.attempts:
        return Wait(given_up=f"given up after {n_attempts} attempts")
    asked = retry_after or 0.0
    chance = random.Random(key + bytes([n_attempts])).random()
    own = policy.wait_s * policy.growth ** (n_attempts - 1)
    seconds = max(asked + min(asked, own) * chance / 2, own * (0.5 + chance))
    if asked <= MAX_PAUSE_S and age_s + seconds > MAX_CALL_S:
        return Wait(given_up=f"given up {age_s:,.0f} s after it was first sent")
    return Wait(seconds)
