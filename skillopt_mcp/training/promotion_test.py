"""The promotion test's runner: which units a test has, their attempts wave by wave, and what a lost one counts."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.core.calls import LOST, OF_THE_TARGET, Ask, ask_next_to
from skillopt_mcp.core.candidates import GATE, Decision
from skillopt_mcp.core.errors import BadInput, Outage, Waiting
from skillopt_mcp.core.evidence import Arm, Standing, TestAttempt, Trial
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.documents.frontmatter import body_of
from skillopt_mcp.gates.promotion import MAX_AGAIN, MIN_UNITS, Plan, alpha_of, attempts_per_arm, next_wave, stand
from skillopt_mcp.gates.rounds import MAX_PAIRS, SMALL_SUITE_PAIRS
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.promotion_tests import Draft, NewTest, TestRow
from skillopt_mcp.tasks.judges.checking import families
from skillopt_mcp.training.outage import rollout_with_retries
from skillopt_mcp.training.progress import Notify, Progress, silent
from skillopt_mcp.training.stages.rollout import PlannedRollout


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a test: with a `margin` whether a text is no worse, by at most `max_pairs`; or whether it is
    better. `graded` compares soft scores.

    With `opens` the target opens a skill by itself, or does not. A `salt` is given where a result is to come about
    again (simulations).
    """

    margin: float | None = None
    max_pairs: int | None = None
    graded: bool = False
    opens: bool = False
    salt: str | None = None

    def __post_init__(self) -> None:
        if self.margin is not None and not 0 < self.margin < 1:
            raise BadInput(f"no_worse must be above 0 and below 1, got {self.margin:g}")
        if self.max_pairs is not None and not 1 <= self.max_pairs <= MAX_PAIRS:
            raise BadInput(f"max_pairs must be 1-{MAX_PAIRS:,}, got {self.max_pairs}")


BETTER = Asked()


@dataclass(frozen=True, slots=True)
class Test:
    """A promotion test: its row, both texts, the task of each unit, and the other document of its run, if there is one.

    A test that is `foreseen` is not in the store.
    """

    row: TestRow
    base: SkillFiles
    candidate: SkillFiles
    tasks: tuple[Task, ...]
    other: SkillFiles | None
    foreseen: bool = False

    def files(self, arm: Arm) -> SkillFiles:
        """Return the text of an arm."""
        return self.candidate if arm == "candidate" else self.base


def is_front_matter_alone(base: SkillFiles, candidate: SkillFiles) -> bool:
    """Whether two texts differ in nothing but what stands on top of the main document."""
    other, ours, theirs = candidate.get(base.main_path), body_of(candidate.text), body_of(base.text)
    return other is not None and ours == theirs and base.replaced(other) == candidate


def held_out(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return the tasks of promotion tests: those of split `test`."""
    return tuple(task for task in tasks if task.split == "test")


def open_test(store: Store, new: NewTest, tasks: Sequence[Task], asked: Asked = BETTER) -> Test:
    """Return a new promotion test of two stored versions on the held-out ones of these tasks.

    It takes its share of the release's error rate with its first answer. Raises BadInput without a held-out task.
    """
    return stored_test(store, store.tests.open(new, _draft(store, new, tasks, asked)))


def foreseen_test(store: Store, new: NewTest, tasks: Sequence[Task], asked: Asked = BETTER) -> Test:
    """Return the promotion test that `open_test` would open now. Raises what that raises."""
    row = store.tests.foresee(new, _draft(store, new, tasks, asked))
    return replace(stored_test(store, row), foreseen=True)


def stored_test(store: Store, row: TestRow) -> Test:
    """Return a stored test with its texts and tasks."""
    base, candidate = (store.skills.get_files(row.skill_id, each) for each in (row.base_version, row.version_id))
    by_id = {task.id: task for task in store.tasks.list_by_id(row.tasks)}
    other = store.skills.get_files(*row.other) if row.other else None
    return Test(row, base, candidate, tuple(by_id[task_id] for task_id in row.tasks), other)


def in_order(tasks: Sequence[Task], salt: str) -> list[Task]:
    """Return one task of each family, in the order that the salt decides: SHA-256(salt/digest), the least first."""

    def place(task: Task) -> bytes:
        return hashlib.sha256(f"{salt}/{task.digest}".encode()).digest()

    drawn = [(min(map(place, family)), min(family, key=place)) for family in families(tasks)]
    return [task for _, task in sorted(drawn, key=lambda each: each[0])]


def run_test(test: Test, store: Store, ask: Ask, notify: Notify = silent) -> Standing:
    """Return the verdict of a test, asking wave by wave; each attempt is stored, so that it resumes where it stopped.

    Raises Waiting while a deferred backend is to answer, Outage where answers were lost on the way or not judged: the
    test waits then, and nothing is counted.
    """
    attempts, ask = store.tests.list_attempts(test.row.id), ask_next_to(ask, test.other)
    # The first answer fixes the error rate: until then it is that of the next test.
    while (standing := stand(plan := (store.tests.find(test.row.id) or test.row).plan, attempts)).verdict is None:
        notify(Progress(GATE, 0, len(attempts), plan.most_runs))
        there = {(each.arm, each.unit, each.number) for each in attempts}
        wanted = [each for each in next_wave(plan, attempts) if each not in there]
        wave = _Wave(test, store, ask, MAX_AGAIN - standing.lost.asked_again)
        store.tests.add_attempts(test.row.id, wave.attempts(wanted), wave.trials)
        if wave.lost:
            # What was lost is forgotten, so that it is asked again.
            unjudged = {trial.draw for trial in wave.lost if not trial.reply.missing}
            store.calls.forget(test.row.id, {trial.reply.id for trial in wave.lost}, unjudged)
            what = "could not be judged" if unjudged else "were lost on the way"
            reason = wave.lost[-1].reason.strip().rstrip(".")
            raise Outage(
                f"{len(wave.lost)} attempts of the test {what}, the last one because: {reason}; resume when that is "
                "fixed"
            )
        attempts = store.tests.list_attempts(test.row.id)
    store.decisions.add_decision(decision_of(test.row, standing, attempts))
    notify(Progress(GATE, 0, len(attempts), plan.most_runs, note="accepted" if standing.accepted else "not accepted"))
    return standing


def standing_of(test: Test, store: Store) -> Standing:
    """Return where a test stands by its stored attempts; nothing is asked."""
    if test.foreseen:
        return stand(test.row.plan, ())
    return stand((store.tests.find(test.row.id) or test.row).plan, store.tests.list_attempts(test.row.id))


class PromotionInputs(BaseModel):
    """What the decision of a test keeps: its standing, and the digest of the attempts that it recomputes from."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    standing: Standing
    attempts: str


def decision_of(row: TestRow, standing: Standing, attempts: Sequence[TestAttempt]) -> Decision:
    """Return the decision of a test, which follows from its plan and its attempts."""
    rows = sorted(
        (each.unit, each.arm, each.number, each.score, each.cause, each.n_again, each.models, each.opened)
        for each in attempts
    )
    digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    units = standing.units
    return Decision(
        skill_id=row.skill_id,
        gate=GATE,
        base_version=row.base_version,
        version_id=row.version_id,
        scope=row.id,
        verdict=standing.verdict or "",
        reason=f"{units.better} better, {units.worse} worse, {units.same} same; {units.seen} of {units.of} seen",
        inputs=PromotionInputs(standing=standing, attempts=digest).model_dump_json(exclude_defaults=True),
    )


class _Wave:
    """The attempts of one wave: asked, and scored by what became of them; what is to be asked again is `lost`."""

    def __init__(self, test: Test, store: Store, ask: Ask, n_left: int) -> None:
        self._test, self._store, self._ask = test, store, ask
        self._n_left = n_left  # repeats that are left for causes that nobody verified
        self.trials: list[Trial] = []
        self.lost: list[Trial] = []

    def attempts(self, wanted: Sequence[tuple[Arm, int, int]]) -> list[TestAttempt]:
        """Return those of the wanted attempts that have a score. Raises Waiting when none has one yet."""
        test = self._test
        coins = {each: f"{test.row.salt}/{each[1]}/{each[2]}/{each[0]}" for each in wanted}
        # Of the two arms of an attempt neither is always first.
        asked = sorted(wanted, key=lambda each: (*each[1:], hashlib.sha256(coins[each].encode()).digest()))
        calls = [
            PlannedRollout(test.files(arm), test.tasks[unit], f"{test.row.id}/{unit}/{arm}/{number}")
            for arm, unit, number in asked
        ]
        trials, waiting = self._answered(calls)
        found = []
        for place, call, trial in zip(asked, calls, trials, strict=True):
            if trial is None:
                continue
            try:
                attempt = self._scored(*place, call, trial)
            except Waiting as error:
                waiting = error
            else:
                found += [attempt] if attempt else []
        if waiting and not found and not self.lost:
            raise waiting
        return found

    def _answered(self, calls: Sequence[PlannedRollout]) -> tuple[list[Trial | None], Waiting | None]:
        try:
            return [*rollout_with_retries(self._ask, calls)], None
        except Waiting as error:
            waiting = error
        trials: list[Trial | None] = []
        for call in calls:  # each, so that a judge that is a host finds what it can judge already
            try:
                trials += rollout_with_retries(self._ask, [call])
            except Waiting:
                trials.append(None)
        return trials, waiting

    def _scored(self, arm: Arm, unit: int, number: int, call: PlannedRollout, trial: Trial) -> TestAttempt | None:
        """Return an attempt with its score; None where it is lost, and asked again when the test resumes."""
        n_again = self._n_lost(trial)
        while trial.missing and trial.reply.missing and trial.reply.fault not in OF_THE_TARGET | LOST:
            n_again += 1
            if n_again > self._n_left:
                break
            again = PlannedRollout(call.files, call.task, f"{call.draw}/again{n_again}")
            trial = rollout_with_retries(self._ask, [again])[0]
            n_again += self._n_lost(trial)
        cause: Literal["", "target", "bounded"] = ""
        score = trial.soft if self._test.row.plan.graded else trial.hard
        if n_again > self._n_left:  # it took the repeats that were left
            cause, score, n_again = "bounded", float(arm == "base"), self._n_left
        elif trial.reply.fault in OF_THE_TARGET:
            cause = "target"
        if score is None:
            self.lost.append(trial)
            return None
        self._n_left -= n_again
        self.trials.append(trial)
        return TestAttempt(arm, unit, number, float(score), cause, n_again, trial.reply.id)

    def _n_lost(self, trial: Trial) -> int:
        """Return how often the attempt was under way when its process died, or its lease ran out."""
        return self._store.calls.n_lost([trial.reply.id]).get(trial.reply.id, 0)


def _draft(store: Store, new: NewTest, tasks: Sequence[Task], asked: Asked) -> Draft:
    held = held_out(tasks)
    if not held:
        raise BadInput("the skill has no held-out task (split test): add tasks with add_tasks or 'tasks add'")
    versions = (new.skill_id, new.base_version), (new.skill_id, new.version_id)
    earlier = store.tests.scores_of(*versions[0], new.backend, graded=asked.graded, other=new.other)

    def draft(test_id: str, number: int) -> tuple[str, list[int], Plan]:
        salt = hashlib.sha256(f"{asked.salt}/{test_id}".encode()).hexdigest()[:32] if asked.salt else _salt()
        units = in_order(held, salt)
        plan = plan_of(units, earlier, asked, number)
        is_open = plan.known is not None and store.tests.is_ever_opened(*versions[0], new.backend)
        if asked.opens and not is_open and not is_front_matter_alone(*(store.skills.get_files(*v) for v in versions)):
            plan = plan.model_copy(update={"needs_opening": True})
        return salt, [task.id for task in units], plan

    return draft


def _salt() -> str:
    return secrets.token_hex(16)


def plan_of(units: Sequence[Task], earlier: Mapping[int, Sequence[float]], asked: Asked, number: int) -> Plan:
    """Return what a test fixes before its first attempt, by the base's `earlier` scores at each task.

    Raises BadInput where no round of a test in rounds is within its pairs.
    """
    alpha, n_units = alpha_of(number), len(units)
    if asked.margin is not None or n_units < MIN_UNITS:
        max_pairs = asked.max_pairs or (SMALL_SUITE_PAIRS if asked.margin is None else MAX_PAIRS)
        if max_pairs < n_units:
            raise BadInput(f"max_pairs must be {n_units} or more, a pair for each task, got {max_pairs}")
        return Plan(
            n_units=n_units, attempts=1, alpha=alpha, margin=asked.margin, max_pairs=max_pairs, graded=asked.graded
        )
    by_unit = [earlier.get(task.id, ()) for task in units]
    attempts = attempts_per_arm(by_unit)
    is_known = all(len(scores) >= attempts for scores in by_unit)
    return Plan(
        n_units=n_units,
        attempts=attempts,
        alpha=alpha,
        graded=asked.graded,
        known=tuple(tuple(scores[:attempts]) for scores in by_unit) if is_known else None,
    )
