"""Pacing: how many calls a backend is sent at once, by what it says of its load, and when it is better left alone."""

from __future__ import annotations

from collections import Counter, deque

from skillopt_mcp.records.calls import Fault

REJECTIONS: frozenset[Fault] = frozenset({"rate_limit", "overloaded"})
# What a task or a skill brings upon itself is no outage: missing replies are the gates' business.
OF_THE_CALL: frozenset[Fault] = frozenset({"refusal", "context_too_long"})
N_IN_A_ROW = 3
WINDOW = 20
MAX_FAILED = 10


class Pace:
    """The calls that one backend takes at once: additive increase, decrease by the share that it rejects.

    After each window of as many answers as calls at once, a window that was rejected whole halves them, one without a
    rejection adds one; between, DCTCP's rule (Alizadeh et al., 2010) keeps single rejections from halving them.
    """

    def __init__(self, n_slots: int) -> None:
        self.n_slots = n_slots
        self.closed_until = 0.0
        self._limit = float(n_slots)
        self._n_seen = self._n_rejected = self._n_in_a_row = 0

    @property
    def limit(self) -> int:
        """Return how many calls may be under way at once, 1 or more."""
        return round(self._limit)

    def answered(self) -> None:
        """Note an answer, or a fault that says nothing about load."""
        self._n_in_a_row = 0
        self._seen()

    def rejected(self, now: float, retry_after: float | None) -> None:
        """Note that the backend wants fewer calls; when it says so again and again, it gets none for `retry_after`."""
        self._n_rejected += 1
        self._n_in_a_row += 1
        if retry_after and self._n_in_a_row >= min(N_IN_A_ROW, self.limit):
            self.closed_until = max(self.closed_until, now + retry_after)
        self._seen()

    def _seen(self) -> None:
        self._n_seen += 1
        if self._n_seen >= self.limit:
            share = self._n_rejected / self._n_seen
            paced = self._limit * (1 - share / 2) + (1 - share)
            self._limit = min(float(self.n_slots), max(1.0, paced))
            self._n_seen = self._n_rejected = 0


class Breaker:
    """Whether most of the last calls to a backend came to nothing."""

    def __init__(self) -> None:
        self._last: deque[Fault | None] = deque(maxlen=WINDOW)

    def note(self, fault: Fault | None) -> None:
        """Note how a call ended."""
        self._last.append(fault)

    @property
    def is_open(self) -> bool:
        """Return whether more than half of the last 20 calls failed; fewer calls than that prove nothing."""
        return len(self._last) == WINDOW and WINDOW - self._last.count(None) > MAX_FAILED

    def __str__(self) -> str:
        faults = Counter(fault for fault in self._last if fault)
        kinds = ", ".join(f"{n} {fault}" for fault, n in faults.most_common())
        return f"{faults.total()} of the last {len(self._last)} calls failed ({kinds})"
