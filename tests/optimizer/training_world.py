"""Training world: a skill with tasks in a store of its own, and targets and optimizers to train it with."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Self

from skillopt_mcp.backends import world
from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.simulated import open_simulated
from skillopt_mcp.core.calls import Call, Question, Reply, Rollout, make_prefix
from skillopt_mcp.core.evidence import Trajectory
from skillopt_mcp.core.runs import Run, StepOutcome, StepRecord, TriedEdit
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.core.tasks import SPLITS, NewTask, Task
from skillopt_mcp.prompts.loading import load_prompts
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.judges.kinds.text import Exact
from skillopt_mcp.tasks.splits import DEFAULT_SHARES
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.loop import train
from skillopt_mcp.training.plan import RunPlan, State
from skillopt_mcp.training.progress import Progress

RUN = "r-test"
PROMPTS = load_prompts()
PLAIN: dict[str, bool] = {"step_buffer": False, "slow_update": False, "meta_skill": False}
SKILL = SkillFiles(
    (
        SkillFile(
            MAIN_FILE,
            b"---\nname: clerk\ndescription: Counts.\n---\n\n# Clerk\n\n- Read the page.\n\n```\ncode  \n```\n\n"
            b"<!-- SLOW_UPDATE_START -->\nkept\n<!-- SLOW_UPDATE_END -->\n",
        ),
    )
)


def new_tasks(n: int) -> list[NewTask]:
    """Return n tasks, a third in each split, the k-th of which wants "right k"."""
    return [NewTask(f"the task number <{k}>", Exact(expected=f"right {k}"), f"t{k}", SPLITS[k % 3]) for k in range(n)]


def stored(new: Sequence[NewTask]) -> tuple[Task, ...]:
    """Return tasks as a store would, without one."""
    return tuple(
        Task(n, 1, each.name or "", each.prompt, each.judge, each.split or "train", each.digest)
        for n, each in enumerate(new, start=1)
    )


class Bench:
    """A store with one skill, its tasks and one run of it."""

    def __init__(self, folder: Path, files: SkillFiles, tasks: Sequence[NewTask]) -> None:
        self.store = Store(folder / "s.db")
        self.base = files
        self.skill = self.store.skills.track("clerk", str(folder / "clerk"), files)
        self.store.tasks.add_tasks(self.skill.id, tasks, DEFAULT_SHARES)
        self.tasks = tuple(self.store.tasks.list_tasks(self.skill.id))
        self.store.runs.add_run(
            Run(RUN, self.skill.id, files.digest, "{}", json.dumps(asdict(PROMPTS)), (), (), "t", "o", "running")
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def plan(self, config: Config, sessions: tuple[Trajectory, ...] = ()) -> RunPlan:
        """Return the plan of the run."""
        return plan_of(self.base, self.tasks, config, sessions, skill_id=self.skill.id)

    def ask(self, backend: Backend, scope: str = RUN, concurrency: int = 4) -> Asker:
        """Return an asker with `backend` in both roles."""
        return Asker(self.store, {"target": backend, "optimizer": backend}, scope, concurrency=concurrency)

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """Return all rows of a select."""
        return list(self.store.runs._pool.rows(sql))


def plan_of(
    base: SkillFiles, tasks: Sequence[Task], config: Config, sessions: tuple[Trajectory, ...] = (), *, skill_id: int = 1
) -> RunPlan:
    """Return a plan over the tasks' own splits."""
    train, val = (tuple(task for task in tasks if task.split == split) for split in ("train", "val"))
    return RunPlan(RUN, skill_id, base, config, PROMPTS, train, val, sessions)


class MemoryRuns:
    """Steps that are kept in memory."""

    def __init__(self) -> None:
        self.outcomes: list[StepOutcome] = []

    def list_steps(self, run_id: str, epoch: int | None = None) -> list[StepRecord]:
        """Return the records of the finished steps, or of those of an epoch."""
        return [each.record for each in self.outcomes if epoch in (None, each.record.epoch)]

    def list_tried(self, run_id: str, epoch: int | None) -> list[TriedEdit]:
        """Return the edits that the steps of an epoch tried."""
        return [
            TriedEdit(record.n, record.epoch, record.verdict, edit, record.current, record.candidate)
            for outcome in self.outcomes
            for record in [outcome.record]
            for edit, _ in (outcome.candidate.edits if outcome.candidate else ())
            if epoch in (None, record.epoch)
        ]

    def list_rejected(self, run_id: str, limit: int) -> list[TriedEdit]:
        """Return the edits that were turned down, the latest step first."""
        rejected = [tried for tried in self.list_tried(run_id, None) if tried.verdict == "reject"]
        return sorted(rejected, key=lambda tried: -tried.n)[:limit]

    def latest_note(self, run_id: str, before_epoch: int) -> str | None:
        """Return the latest note of an earlier epoch."""
        notes = [each.note for each in self.outcomes if each.note and each.record.epoch < before_epoch]
        return notes[-1] if notes else None

    def add_step(self, run_id: str, outcome: StepOutcome) -> None:
        """Keep a finished step."""
        self.outcomes.append(outcome)


class MemoryStore:
    """As much of a store as `train` needs that is never interrupted."""

    def __init__(self, base: SkillFiles = SKILL) -> None:
        self.runs = MemoryRuns()
        self.skills = self
        self._base = base

    @property
    def records(self) -> list[StepRecord]:
        """Return the records of the finished steps."""
        return self.runs.list_steps(RUN)

    def get_files(self, skill_id: int, version_id: str) -> SkillFiles:
        """Return the files of a version."""
        made = [outcome.candidate.files for outcome in self.runs.outcomes if outcome.candidate]
        return next(files for files in (self._base, *made) if files.digest == version_id)


class MemoryAsk:
    """An `Ask` that answers by a function of the call, each key once; `sent` keeps what had no reply yet."""

    def __init__(self, answer: Callable[[Call], str | Reply]) -> None:
        self.sent: list[Call] = []
        self._answer = answer
        self._replies: dict[bytes, Reply] = {}

    def __call__(self, calls: Sequence[Call], /) -> list[Reply]:
        for call in calls:
            key = call.key("memory")
            if key not in self._replies:
                self.sent.append(call)
                answer = self._answer(call)
                reply = Reply(answer) if isinstance(answer, str) else answer
                self._replies[key] = reply._replace(id=len(self.sent))
        return [self._replies[call.key("memory")] for call in calls]


class Killed(Exception):
    """What a test stops a run with."""


class Mortal:
    """A backend that answers like another, and dies after `n_left` answers."""

    deferred = False

    def __init__(self, backend: Backend, n_left: int | None = None) -> None:
        self.name, self.fingerprint = backend.name, backend.fingerprint
        self.n_sent, self.sent = 0, list[bytes]()
        self._backend = backend
        self._n_left = n_left

    async def complete(self, call: Call) -> Reply:
        """Return the other's answer, or raise Killed."""
        if self._n_left is not None and self.n_sent >= self._n_left:
            raise Killed
        self.n_sent += 1
        self.sent.append(call.key(self.fingerprint))
        return await self._backend.complete(call)


def simulated(folder: Path, seed: int = 3) -> tuple[Bench, Backend]:
    """Return a bench of the simulated world, 18 tasks in three splits, and its backend."""
    tasks = [replace(task, split=SPLITS[n % 3]) for n, task in enumerate(world.make_tasks(18, seed))]
    return Bench(folder, world.make_skill(seed), tasks), open_simulated(f"honest,seed={seed},noise=0.2,harmful=0.3")


def rollout_of(call: Call) -> Rollout:
    """Return the rollout that a target call asks for."""
    assert isinstance(call.request, Rollout)
    return call.request


def question_of(call: Call) -> Question:
    """Return the question of an optimizer call."""
    assert isinstance(call.request, Question)
    return call.request


def right(call: Call) -> str:
    """Return the right answer to a task of `new_tasks`."""
    return "right " + rollout_of(call).task.prompt.split("<")[1].rstrip(">")


def outcome_of(bench: Bench, state: State) -> tuple[object, ...]:
    """Return all that a run came to, but for times, sequence numbers and attempts.

    How much of an evaluation that ends with a rejection was asked depends on what landed first, too.
    """
    rejected = "select version_id from decision where verdict = 'reject'"
    trials = bench.rows(
        "select call.scope, version_id, task_id, draw, hard, soft, reason from trial t"
        f" join call on call.id = call_id where draw not like '%/val' or version_id not in ({rejected})"
        " order by 2, 3, 4"
    )
    decisions = bench.rows(
        "select gate, base_version, version_id, scope, verdict, reason, iif(verdict = 'reject', '', inputs)"
        " from decision order by id"
    )
    versions = bench.rows("select id, parent_id from version order by id")
    candidates = bench.rows(
        "select id, base_version, version_id, origin, reasoning, findings from candidate order by id"
    )
    edits = bench.rows("select candidate_id, n, op, path, target, content, status, reason from edit order by 1, 2")
    n_sources = bench.rows("select candidate_id, n, json_array_length(sources) from edit order by 1, 2")
    cut = {make_prefix(f"{RUN}/val", str(version)) for [version] in bench.rows(rejected)}
    keys = [bytes.fromhex(str(key)) for [key] in bench.rows("select hex(key) from call order by key")]
    calls = [key for key in keys if key[:6] not in cut]
    notes = bench.rows("select run_id, epoch, text from meta_note order by epoch")
    # The ids of attempts depend on the order in which replies came.
    steps = [
        each.model_copy(update={"left_out": tuple(replace(edit, sources=(), cited=()) for edit in each.left_out)})
        for each in bench.store.runs.list_steps(RUN)
    ]
    return (state, steps, trials, decisions, versions, candidates, edits, n_sources, calls, notes)


def without_ids(state: State) -> State:
    """Return a state whose replies have no sequence numbers and no latencies."""

    def plain(reply: Reply) -> Reply:
        return reply._replace(id=0, usage=reply.usage._replace(latency_ms=0.0))

    evaluations = [
        replace(each, trials=tuple(trial._replace(reply=plain(trial.reply)) for trial in each.trials))
        for each in (state.evaluation, state.best_evaluation)
    ]
    return replace(state, evaluation=evaluations[0], best_evaluation=evaluations[1])


def finished(bench: Bench, backend: Backend, config: Config) -> State:
    """Return the end of a run that nothing interrupts any more."""
    with bench.ask(backend) as ask:
        return without_ids(train(bench.plan(config), bench.store, ask))


def resumed_at_every_stage(bench: Bench, backend: Backend, config: Config) -> tuple[State, int]:
    """Return the end of a run that died at every stage of every step, and how often it did."""
    seen: set[tuple[str, int]] = set()

    def die_once_here(progress: Progress) -> None:
        if (progress.stage, progress.n_done) not in seen:
            seen.add((progress.stage, progress.n_done))
            raise Killed

    n_deaths = 0
    while True:
        with bench.ask(backend) as ask:
            try:
                return without_ids(train(bench.plan(config), bench.store, ask, die_once_here)), n_deaths
            except Killed:
                n_deaths += 1
