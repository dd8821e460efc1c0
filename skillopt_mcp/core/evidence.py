"""Evidence: trials, pairs of them, and the verdicts that gates reach on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import BaseModel, Field

from skillopt_mcp.core.calls import Message, Reply
from skillopt_mcp.core.tasks import Task

SearchVerdict = Literal["accept_best", "accept", "reject"]
Verdict = Literal["better", "worse", "not_better", "cant_tell", "no_worse", "better_here", "worse_here", "not_tested"]
"""What a promotion test says; see docs/evidence.md."""
ACCEPTED: tuple[Verdict, ...] = ("better", "no_worse")
"""The verdicts that a promotion may rest on."""
Arm = Literal["base", "candidate"]
EvidenceKind = Literal["own", "host", "simulated", "unattended"]
"""Who made the attempts of a test: our own processes, a host's agents, a simulation, or our processes for a script."""
Metric = Literal["hard", "soft", "mixed"]
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
        """Whether the trial has no score."""
        return self.hard is None


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean scores over the `n` trials that have one, and how many were missing. With n = 0 both means are 0.0."""

    hard: float
    soft: float
    n: int
    n_missing: int = 0


ROLLOUT = "trial:"
"""How the id of a rollout begins, as an edit keeps it among its sources; that of a recorded session is another."""


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
        """What became of the task from one epoch to the next."""
        if self.before.hard:
            return "stable_success" if self.after.hard else "regressed"
        return "improved" if self.after.hard else "persistent_fail"


class TestAttempt(NamedTuple):
    """One attempt of a promotion test: its arm, the places of its unit and of itself, both from 0, and its score.

    `cause` says why there is no answer: `target` failed by itself; `bounded`: lost for a cause that nobody verified,
    and counted against the candidate. One that was lost so and repeated has its score, and says how often (`n_again`).
    `models` are the names that it was served by, `at` is when it was answered (seconds since 1970). `opened` says
    whether the skill was, and is None where the target has no way to open one.
    """

    arm: Arm
    unit: int
    number: int
    score: float
    cause: Literal["", "target", "bounded"] = ""
    n_again: int = 0
    call_id: int | None = None
    models: tuple[str, ...] = ()
    at: float = 0.0
    opened: bool | None = None


class Units(BaseModel):
    """How many units a verdict has seen of all, and on how many of them the candidate did better, equal or worse."""

    seen: int = 0
    of: int = 0
    better: int = 0
    same: int = 0
    worse: int = 0


class Solved(BaseModel):
    """The share of attempts at the units seen that solved their task."""

    before: float
    after: float


class KindResult(BaseModel):
    """The units of the kind of task that an edit is about, by its tag, and the share of them solved."""

    tag: str
    units: int
    solved: Solved | None = None


class Gain(BaseModel):
    """The gain in the share of solved tasks, with its 95 % interval."""

    mean: float
    low: float
    high: float


class RunCounts(BaseModel):
    """Attempts made, those beyond the deciding unit among them."""

    candidate: int = 0
    base: int = 0


class Opened(BaseModel):
    """In how many attempts with each text the skill was opened, of how many that could open one."""

    before: int
    before_of: int
    after: int
    after_of: int


class Triggering(BaseModel):
    """The share of a skill's openings that were wanted, and of the wanted ones that came, in so many attempts."""

    attempts: int
    precision: float | None
    recall: float | None

    @classmethod
    def count(cls, pairs: Sequence[tuple[bool, bool]]) -> Triggering | None:
        """The figures of attempts as (wanted, opened), a share of nothing None; None without attempts."""
        right, (wanted, opened) = pairs.count((True, True)), (sum(each[n] for each in pairs) for n in (0, 1))
        precision, recall = right / opened if opened else None, right / wanted if wanted else None
        return cls(attempts=len(pairs), precision=precision, recall=recall) if pairs else None

    @property
    def text(self) -> str:
        """The figures in words."""
        shares = ("none" if each is None else f"{each:.0%}" for each in (self.precision, self.recall))
        return "precision {}, recall {}".format(*shares)


class Lost(BaseModel):
    """Attempts without an answer: failed by the target itself, repeated for an unverified cause, or counted against."""

    target: int = 0
    asked_again: int = 0
    bounded: int = 0


class Standing(BaseModel):
    """Where a test stands. `verdict` is None while it goes on; `void` says why its attempts may not be compared.

    `p_bound` bounds the chance of this verdict if nothing were better, or worse; None where it
    claims nothing.
    `passes` is how often each unit is asked at most, `pairs` how many pairs were read, `pilot` how many attempts of the
    candidate were read before the first pair. `repeats`: the target repeats itself. `live`: the tested text is live.
    """

    verdict: Verdict | None
    void: Literal["", "models", "hours"] = ""
    alpha: float
    p_bound: float | None = None
    units: Units
    passes: int = 0
    pairs: int = 0
    pilot: int = 0
    solved: Solved | None = None
    gain: Gain | None = None
    kind: KindResult | None = None
    elsewhere: Solved | None = None
    runs: RunCounts
    lost: Lost
    opened: Opened | None = None
    models: list[str] = Field(default_factory=list)
    few_tasks: bool = False
    repeats: bool = False
    live: bool = False
    margin: float | None = None

    @property
    def accepted(self) -> bool:
        """Whether a promotion may rest on it: all that the author of edits learns."""
        return self.verdict in ACCEPTED


class Unanswered(BaseModel):
    """The attempts of a test, by arm, that a target brought to one fault, and the backend's words on one of them."""

    fault: str
    base: int
    candidate: int
    reason: str


class Decides(BaseModel):
    """What would probably decide: so many more tasks of a tag; or, without one, of any kind, or more passes."""

    tag: str = ""
    add: int = 0
    passes: int = 0


class TestReport(Standing):
    """A promotion test for people: where it stands, and where it is in its release. An agent never sees one.

    `promotions_here` counts the promotions that rest on its tasks: from the fifth on, replace half of them. A
    `pasted` text stood in the target's prompt, and no host loaded it. Of `in_part` of its tasks graders of their owner
    are left out. `triggering`: how the skill opened with each text, where tasks ask that. `loading` says what a host
    changed by loading the texts, and what was not checked. `on_cases`: the author of the text can read the tasks, so
    that what it claims is so on these alone. `against` is the new model, where two are compared on one text.
    """

    test_id: str
    release: int = 0
    test_in_release: int
    decides: Decides | None = None
    promotions_here: int = 0
    backend: str = ""
    unanswered: list[Unanswered] = Field(default_factory=list)
    pasted: bool = False
    in_part: int = 0
    triggering: dict[Arm, Triggering] = Field(default_factory=dict)
    loading: list[str] = Field(default_factory=list)
    on_cases: bool = False
    against: str = ""
