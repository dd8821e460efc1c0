"""Results: what each operation answers, with everything the model or the terminal needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.core.evidence import EvidenceKind, Metric, TestReport, Triggering, Verdict
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.notes import Note
from skillopt_mcp.core.skills import SkillRow, SplitCounts
from skillopt_mcp.core.tasks import Task


class Result(BaseModel):
    """What every result shares."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    next_step: NextStep | None = Field(default=None, description="What to do now")


RecordOutcome = Literal["recorded", "duplicate", "scored", "corrected", "same", "unexplained", "learned_from", "erased"]


class Recorded(Result):
    """A stored trajectory; `n_new` counts the skill's trajectories since its last proposal, up to 10,000.

    Nothing changed where the `outcome` is duplicate (the session_id and index were recorded before), same (it has that
    score), unexplained (a correction needs a reason), learned_from (a run has used the score: record the attempt again)
    or erased.
    """

    trajectory_id: str
    skill: str
    version: str
    n_new: int
    outcome: RecordOutcome = "recorded"

    @property
    def duplicate(self) -> bool:
        """Whether nothing changed."""
        return self.outcome not in ("recorded", "scored", "corrected")


class Wave(BaseModel):
    """Work that is handed out at once: `count` folders in `dir`, named by numbers from 1 on, each for one fresh agent.

    Of a wave that a session has already, the folders without an answer are left.
    """

    dir: str
    count: int


class WorkEstimate(BaseModel):
    """What a proposal or a test takes, each as (least, most): attempts at tasks, and judgements of them.

    `by_host` names the roles that the host's agents fill: each is an agent run of about `tokens_each` tokens, mostly
    cached. `is_default`: that was not measured in this store.
    """

    attempts: tuple[int, int] = (0, 0)
    judgements: tuple[int, int] = (0, 0)
    questions: tuple[int, int] = (0, 0)
    tokens_each: int = 0
    is_default: bool = True
    by_host: list[str] = Field(default_factory=list)

    def agent_runs(self) -> tuple[int, int]:
        """How many runs of the host's agents that is."""
        counts = [("target", self.attempts), ("judge", self.judgements), ("optimizer", self.questions)]
        own = [each for role, each in counts if role in self.by_host]
        return sum(each[0] for each in own), sum(each[1] for each in own)


class Rejected(BaseModel):
    """A task that was not added: its place in the list and why."""

    index: int
    reason: str


class TasksAdded(Result):
    """`splits` counts all tasks of the skill after the call; `rejected` are the first of `n_rejected`.

    `evals`: what was read of another tool's evals, in one sentence. Of tasks that were drafted, `drafted` counts those
    of each tag, and `dropped` says why others were not kept; with status work there is `work` to do before, part of the
    job `job_id`.
    """

    skill: str
    added: int
    duplicates: int
    rejected: list[Rejected]
    splits: SplitCounts
    n_rejected: int = 0
    notes: list[Note] = Field(default_factory=list)
    evals: str = ""
    status: Literal["done", "work", "running"] = "done"
    drafted: dict[str, int] = Field(default_factory=dict)
    dropped: list[str] = Field(default_factory=list)
    estimate: WorkEstimate | None = None
    job_id: str = ""
    work: Wave | None = None


class EditOutcome(BaseModel):
    """What became of one edit, in the order given."""

    index: int
    op: str
    path: str
    status: Literal["applied", "unmatched"]
    reason: str | None = None
    detail: str = ""


class Proposed(Result):
    """A candidate (status candidate), or why there is none; held: the guard wants a person to look first; rejected: the
    edits lead to a candidate that was tested before and rejected.

    With status work there is `work` to do before, part of the job `job_id`. `left_out` are the texts of edits that were
    beyond the budget. `repeats` says which edit it makes again that a person rolled back or a test rejected.
    """

    status: Literal["candidate", "no_change", "held", "rejected", "work", "running"]
    skill: str
    candidate_id: str | None
    diff: str
    edits: list[EditOutcome]
    findings: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    left_out: list[str] = Field(default_factory=list)
    repeats: str = ""
    rollouts: int | None = None
    estimate: WorkEstimate | None = None
    job_id: str = ""
    work: Wave | None = None


class PowerRow(BaseModel):
    """The chance that a test finds a gain in the share of solved tasks, and the attempts that it makes on average."""

    gain: float
    chance: float
    runs: int


class UnitRow(BaseModel):
    """A unit of a promotion test: the task that stands for it, and the scores of its attempts with both texts.

    `prompt` is the beginning of the task's, on one line.
    Of a test that its pilot ended, those of the old text are earlier ones.
    """

    task: str
    outcome: Literal["better", "same", "worse"]
    before: list[float]
    after: list[float]
    prompt: str

    @property
    def scores(self) -> tuple[float, float]:
        """Return the mean scores with the old text and with the new one."""
        return fmean(self.before or [0.0]), fmean(self.after or [0.0])

    @property
    def group(self) -> Literal["worse", "better", "fails with both", "same"]:
        """Under what it is listed; in this order."""
        if self.outcome == "same":
            return "same" if any(self.scores) else "fails with both"
        return self.outcome


def cut_prompt(prompt: str) -> str:
    """The one line of at most 60 characters that a task is called by."""
    line = " ".join(prompt.split())
    return line if len(line) <= 60 else f"{line[:57].rstrip()}..."


GROUPS: tuple[Literal["worse", "better", "fails with both", "same"], ...] = (
    "worse", "better", "fails with both", "same",
)  # fmt: skip


class KindOfTask(BaseModel):
    """A tag, how many units of a test carry it, and how many are needed for it to weigh more."""

    tag: str
    units: int
    needs: int


class Foreseen(BaseModel):
    """What a promotion test can find, and what it takes, before its first attempt; nothing was asked.

    Where the base was tried on these tasks before, the candidate's first `pilot` attempts end most vain tests early.
    Units of the `kind` weigh more; `few_of_kind` is one that an edit is about and that has too few units for that.
    Half of the tests find a gain of `found_in_half`. `tokens_each` is what an attempt took on average; before the first
    one a dated default (`is_default`), or None. `beyond_permission` says why no standing permission covers what it
    tests, even if that is better, and `reach` whether the caps reach a verdict ("" without caps).
    """

    units: int
    passes: int
    test_in_release: int
    alpha: float
    pilot: int = 0
    kind: KindOfTask | None = None
    few_of_kind: KindOfTask | None = None
    found_in_half: float | None = None
    power: list[PowerRow]
    most_runs: int
    few_tasks: bool
    margin: float | None = None
    tokens_each: int | None = None
    is_default: bool = False
    beyond_permission: list[str] = Field(default_factory=list)
    reach: str = ""


class Evaluated(Result):
    """The state of a promotion test: whether it accepted the candidate is all that its author learns.

    With status estimate nothing has begun: the same call again begins it. `test` is for people alone: the server leaves
    it out. With `same_session` a session that proposed or saw the edit made attempts of its test.
    """

    status: Literal["verdict", "running", "work", "estimate"]
    candidate_id: str
    accepted: bool | None = None
    evidence: EvidenceKind = "own"
    same_session: bool = False
    attempts_done: int = 0
    foreseen: Foreseen | None = None
    test: TestReport | None = None
    notes: list[Note] = Field(default_factory=list)
    estimate: WorkEstimate | None = None
    job_id: str = ""
    work: Wave | None = None

    def for_agents(self) -> Evaluated:
        """Return it without what only a person sees."""
        return self.model_copy(
            update={"test": None, "attempts_done": 0 if self.status == "verdict" else self.attempts_done}
        )


class BaselineTask(BaseModel):
    """A task of a baseline: how many of its attempts passed, of those with a score."""

    task: str
    tag: str
    prompt: str
    held_out: bool
    passed: int
    of: int

    @property
    def outcome(self) -> Literal["solved", "failing", "flaky", "unanswered"]:
        """What its attempts came to."""
        if not self.of:
            return "unanswered"
        return "solved" if self.passed == self.of else "flaky" if self.passed else "failing"


class Baseline(Result):
    """How good a skill's live text is now: `attempts` at each of its tasks, held-out ones for a person alone.

    `uncovered` counts by tag the failing held-out tasks that no train task is like; `triggering` is of the tasks that
    ask whether the skill opens. No verdict rests on it.
    """

    skill: str
    version: str
    attempts: int
    evidence: EvidenceKind
    tasks: list[BaselineTask]
    uncovered: dict[str, int] = Field(default_factory=dict)
    triggering: Triggering | None = None
    notes: list[Note] = Field(default_factory=list)

    @classmethod
    def of(
        cls, skill: str, version: str, tasks: Sequence[Task], scores: Mapping[int, Sequence[float]], kind: EvidenceKind
    ) -> Self:
        """A baseline of these tasks, by the passes of each."""
        rows = [
            BaselineTask(
                task=task.name,
                tag=task.tags[0] if task.tags else "",
                prompt=cut_prompt(task.prompt),
                held_out=task.split != "train",
                passed=sum(map(round, scores.get(task.id, ()))),
                of=len(scores.get(task.id, ())),
            )
            for task in tasks
        ]
        covered = {tag for task in tasks if task.split == "train" for tag in task.tags or ("",)}
        failing = [
            row.tag for task, row in zip(tasks, rows, strict=True)
            if row.held_out and row.outcome == "failing" and covered.isdisjoint(task.tags or ("",))
        ]  # fmt: skip
        return cls(
            skill=skill, version=version, attempts=max((row.of for row in rows), default=0), evidence=kind,
            tasks=rows, uncovered=dict(Counter(failing).most_common()),
        )  # fmt: skip

    @property
    def headline(self) -> str:
        """How many of its tasks are solved, by tag, too: "changelog: 13 of 24 solved; hotfix 1/4, ordinary 12/20"."""
        tags = dict[str, list[bool]]()
        for each in self.tasks:
            tags.setdefault(each.tag, []).append(each.outcome == "solved")
        by_tag = ", ".join(f"{tag or 'no tag'} {sum(solved)}/{len(solved)}" for tag, solved in sorted(tags.items()))
        n = sum(map(sum, tags.values()))
        return f"{self.skill}: {n} of {len(self.tasks)} solved{f'; {by_tag}' if by_tag else ''}"

    @property
    def failing(self) -> str:
        """Of how many failing held-out tasks no edit can be learned, and what to add; "" for none."""
        n, some = sum(self.uncovered.values()), ", ".join(f"`{tag or 'no tag'}`" for tag in self.uncovered)
        one = f"this {n} failing held-out task has" if n == 1 else f"these {n} failing held-out tasks have"
        return f"{one} no train task like {'it' if n == 1 else 'them'}: no train task of {some}: add one" if n else ""

    def for_agents(self) -> Baseline:
        """Return it with the train tasks alone."""
        shown = [each for each in self.tasks if not each.held_out]
        return self.model_copy(update={"tasks": shown, "uncovered": {}, "triggering": None})


class Receipt(BaseModel):
    """What became of one submitted reply."""

    work_id: str
    status: Literal["accepted", "duplicate", "late", "withdrawn", "unknown", "refused"]
    reason: str = ""


class Submitted(Result):
    """What became of the replies, and where their job stands: more `work`, `running`, or its result.

    `collected` answers lay in folders of work, and were taken; `receipts` are of the replies that were given, and of
    answers that lay there and cannot be used. `notes` are caveats of a job that goes on.
    """

    status: Literal["work", "running", "done", "stopped"]
    job_id: str
    receipts: list[Receipt]
    collected: int = 0
    work: Wave | None = None
    estimate: WorkEstimate | None = None
    proposed: Proposed | None = None
    evaluated: Evaluated | None = None
    added: TasksAdded | None = None
    notes: list[str] = Field(default_factory=list)
    reason: str = ""


class Promoted(Result):
    """What became of a promotion or a rollback; the file changed only with status promoted (or rolled_back).

    `undo` takes it back. `permit` would let tools make such changes from now on, where a person agrees to it once.
    """

    status: Literal["promoted", "rolled_back", "refused", "stale", "held", "needs_approval"]
    skill: str
    skill_path: str
    version: str
    previous_version: str
    diff: str
    reason: str = ""
    undo: NextStep | None = None
    permit: NextStep | None = None


class SkillList(Result):
    """Skills found and tracked; `cursor` asks for the next page."""

    skills: list[SkillRow]
    cursor: str | None = None


class HistoryRow(BaseModel):
    """One change of the live file."""

    at: str
    kind: Literal["promote", "rollback", "recorded"]
    version: str
    previous_version: str | None
    candidate_id: str | None
    verdict: str
    by: str


class History(Result):
    """The changes of a skill's live file, newest first."""

    skill: str
    rows: list[HistoryRow]
    retired: list[str] = Field(default_factory=list, description="Tasks that a person took out of use, newest first")
    declined: list[str] = Field(default_factory=list, description="Changes that a person said no to, newest first")


class SeriesPoint(BaseModel):
    """How well a version did: the share of `n` held-out tasks that it solved, with its 95 % interval (Wilson).

    A `baseline` of a skill without held-out tasks is of all. `models` are those that answered, where they are known.
    """

    at: str
    kind: Literal["baseline", "promotion"]
    version: str
    n: int
    solved: float
    low: float
    high: float
    models: list[str]

    def __str__(self) -> str:
        models = f", by {', '.join(self.models)}" if self.models else ""
        return (
            f"{self.at[:16]}  {self.kind:<9}  {self.version}  {100 * self.solved:.0f} of 100 "
            f"({100 * self.low:.0f} to {100 * self.high:.0f}), {self.n} tasks{models}"
        )


class StepRow(BaseModel):
    """One training step of a run, as a table row; a slow update or a meta note (`kind`) ends an epoch.

    `current`, `candidate` and `best` are val scores by the run's metric; the others say which one they are, those on
    train of the version that the step began with.
    """

    epoch: int
    step: int
    train_hard: float | None
    n_edits: int
    verdict: str
    current: float
    candidate: float | None
    best: float
    kind: Literal["step", "memory", "slow", "meta"] = "step"
    candidate_id: str | None = None
    train_soft: float | None = None
    candidate_hard: float | None = None
    candidate_soft: float | None = None
    at_most: bool = Field(default=False, description="Whether the candidate's score is at most that")


class MemoryOutcome(BaseModel):
    """What a run made of its memory file; `verdict` is the promotion test's on the best version of that."""

    skill: str
    best_version: str
    candidate_id: str | None
    verdict: Verdict | None
    accepted: bool | None
    reason: str
    test: TestReport | None = None


class Replayed(Result):
    """The outcome of a run. `verdict` is the promotion test's on the best version, and `test` all of that test.

    Scores on val are by the run's `metric` (hard, soft or mixed): `baseline`, the live version's before the first step,
    and `current`, `candidate` and `best` of the steps. Those that say so are means of `hard` or `soft`.
    `simulated`: a simulation attempted or judged the tasks. None is what was unknown when the run ended.

    `n_calls` are the run's own calls that have ended: answered, or given up (`n_missing`); `n_test_calls`,
    `test_tokens` and `test_usd` those of its promotion tests. `changes` lists after which steps other models answered.
    `memory` is there in a run with a memory file alone.
    """

    run_id: str
    skill: str
    status: Literal["finished", "stopped"]
    steps: list[StepRow]
    best_version: str
    candidate_id: str | None
    verdict: Verdict | None
    accepted: bool | None = None
    reason: str
    test: TestReport | None = None
    n_calls: int
    n_missing: int
    tokens_in: int
    tokens_out: int
    usd: float | None
    n_test_calls: int = 0
    test_tokens: int = 0
    test_usd: float | None = None
    backend: str
    changes: list[str] = Field(default_factory=list)
    metric: Metric | None = None
    baseline: float | None = None
    baseline_hard: float | None = None
    baseline_soft: float | None = None
    simulated: bool | None = None
    memory: MemoryOutcome | None = Field(default=None, exclude_if=lambda value: value is None)

    def for_agents(self) -> Replayed:
        """Return it without what only a person sees of its promotion tests."""
        unseen = {"test": None, "verdict": None}
        memory = self.memory and self.memory.model_copy(update=unseen)
        used = {"n_test_calls": 0, "test_tokens": 0, "test_usd": None}
        return self.model_copy(update={**unseen, **used, "memory": memory})
