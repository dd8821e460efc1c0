"""Evidence: trials, pairs of them, and the verdicts that gates reach on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from skillopt_mcp.records.calls import Message, Reply
from skillopt_mcp.records.tasks import Task

SearchVerdict = Literal["accept_best", "accept", "reject"]
ConfirmVerdict = Literal["accept", "reject", "undecided"]
Metric = Literal["hard", "soft", "mixed"]
Claim = Literal["these", "like_these"]
SearchGate = Literal["strict", "fresh", "paired_se", "no_regression"]
Change = Literal["regressed", "persistent_fail", "improved", "stable_success"]
PairPolicy = Literal["mixed", "changed", "unchanged"]


class Attempted(NamedTuple):
    """What the judges of a task look at: the answer and the recorded messages of one attempt, on whose draw."""

    task: Task
    answer: str
    messages: tuple[Message, ...]
    draw: str


class Trial(NamedTuple):
    """One rollout kept as evidence. `hard` and `soft` are None when the reply was missing: that is not a zero."""

    version: str
    task: Task
    draw: str
    reply: Reply
    hard: bool | None
    soft: float | None
    reason: str = ""

    @property
    def missing(self) -> bool:
        """Return whether the trial has no score."""
        return self.hard is None


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean scores over the `n` trials that have one, and how many were missing. With n = 0 both means are 0.0."""

    hard: float
    soft: float
    n: int
    n_missing: int = 0


@dataclass(frozen=True, slots=True)
class Trajectory:
    """What happened in one attempt, whether a rollout or a real session: what reflection reads.

    `id` is the reference that provenance keeps ("trial:..." or "trajectory:..."); `reason` is the judge's or the
    person's word on it, and may quote what was expected.
    `task_id` is known of rollouts only, `session` of sessions: two that name none may be of the same one.
    """

    id: str
    prompt: str
    answer: str
    messages: tuple[Message, ...]
    hard: bool | None
    soft: float | None
    reason: str
    source: Literal["rollout", "session"]
    task_id: int | None = None
    session: str = ""


@dataclass(frozen=True, slots=True)
class Longitudinal:
    """One train task under the versions of two adjacent epochs: both attempts have a score."""

    before: Trajectory
    after: Trajectory

    @property
    def change(self) -> Change:
        """Return what became of the task from one epoch to the next."""
        if self.before.hard:
            return "stable_success" if self.after.hard else "regressed"
        return "improved" if self.after.hard else "persistent_fail"


@dataclass(frozen=True, slots=True)
class Pair:
    """Scores in [0, 1] of base and candidate on one drawn task; None where the rollout stayed missing."""

    base: float | None
    candidate: float | None

    @property
    def missing(self) -> bool:
        """Return whether an arm has no score."""
        return self.base is None or self.candidate is None


@dataclass(frozen=True, slots=True)
class Served:
    """The models that answered for the live version and for the candidate, as reported by their vendors.

    Empty where none was reported.
    """

    base: tuple[str, ...] = ()
    candidate: tuple[str, ...] = ()

    @property
    def differ(self) -> bool:
        """Return whether any model answered for one version alone."""
        return self.base != self.candidate

    @property
    def are_disjoint(self) -> bool:
        """Return whether no model answered for both, as far as they are known."""
        return bool(self.base and self.candidate) and not set(self.base) & set(self.candidate)


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The verdict of the promotion gate, and everything it stands on.

    `wealth` is the e-process at the end (accept at >= 1/alpha); `n_pairs` the pairs it used, `n_expected` how many more
    are expected to reach a verdict (None when no estimate can be made); means are of the used pairs with both scores.
    `served` are the models that answered; where it `is_mixed` each version had its own, and no pair more decides.
    """

    verdict: ConfirmVerdict
    reason: str
    n_pairs: int
    n_expected: int | None
    alpha: float
    wealth: float
    base_mean: float
    candidate_mean: float
    n_missing: int = 0
    served: Served = Served()
    is_mixed: bool = False

    @property
    def is_over(self) -> bool:
        """Return whether no pair more is drawn, whatever is asked."""
        return self.verdict != "undecided" or self.is_mixed
