"""The promotion test's runner: which units a test has, its attempts as slots come free, and what a lost one counts."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from pydantic_core import to_json

from skillopt_mcp.core.calls import AGAINST, LOST, OF_THE_TARGET, Ask, AskNextTo, Sharing, lends_threads
from skillopt_mcp.core.candidates import GATE, Decision
from skillopt_mcp.core.errors import BadInput, Outage, Waiting
from skillopt_mcp.core.evidence import Arm, RunCounts, Standing, TestAttempt, Trial
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.core.text import counted
from skillopt_mcp.documents.frontmatter import body_of
from skillopt_mcp.gates.promotion import (
    MAX_AGAIN,
    MAX_PASSES,
    Plan,
    Reading,
    least_of_kind,
    order_units,
    passes_for,
)
from skillopt_mcp.gates.rounds import MAX_PAIRS, SMALL_SUITE_PAIRS
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.promotion_tests import Draft, NewTest, TestRow
from skillopt_mcp.tasks.judges.checking import families
from skillopt_mcp.tasks.judges.judging import asks_opening
from skillopt_mcp.training.outage import rollout_with_retries
from skillopt_mcp.training.progress import Notify, Progress, silent
from skillopt_mcp.training.stages.rollout import PlannedRollout

_HOST_SLOTS = 32
"""Attempts that a host is given to answer at once, at most."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a test: whether a text is better, or no worse by a `margin`, in at most `max_pairs`.

    Of a `live` text also whether it is worse. `graded` compares soft scores. Units with the `tag` weigh more, if there
    are enough of them; with `cases_alone` the test is on these alone, in rounds. Each unit is asked `passes` times, if
    that is given. With `opens` the target opens a skill by itself, or does not. A `salt` is given where a result is to
    come about again (simulations). Tests of a `series` are numbered apart; this one is the `number`-th or a later one.
    """

    margin: float | None = None
    max_pairs: int | None = None
    graded: bool = False
    live: bool = False
    tag: str = ""
    cases_alone: bool = False
    passes: int | None = None
    opens: bool = False
    salt: str | None = None
    series: str = ""
    number: int = 1

    def __post_init__(self) -> None:
        if self.margin is not None and not 0 < self.margin < 1:
            raise BadInput(f"no_worse must be above 0 and below 1, got {self.margin:g}")
        if self.max_pairs is not None and not 1 <= self.max_pairs <= MAX_PAIRS:
            raise BadInput(f"max_pairs must be 1-{MAX_PAIRS:,}, got {self.max_pairs}")
        if self.passes is not None and not 1 <= self.passes <= MAX_PASSES:
            raise BadInput(f"passes must be 1-{MAX_PASSES}, got {self.passes}")

    def is_of(self, plan: Plan) -> bool:
        """Whether a test with this plan answers it: one of a live text answers more."""
        same = (self.margin, self.graded, plan.live, self.tag, self.cases_alone)
        return plan.question == same and plan.live >= self.live


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


def open_test(
    store: Store, new: NewTest, tasks: Sequence[Task], asked: Asked = BETTER, *, foreseen: bool = False
) -> Test:
    """A new promotion test of two stored versions on the held-out ones of these tasks; `foreseen`, it is not stored.

    It takes its share of the release's error rate with its first answer. Raises BadInput without a held-out task.
    """
    make = store.tests.foresee if foreseen else store.tests.open
    return replace(stored_test(store, make(new, _draft_plan(store, new, tasks, asked))), foreseen=foreseen)


def stored_test(store: Store, row: TestRow) -> Test:
    """Return a stored test with its texts and tasks."""
    base, candidate = (store.skills.get_files(row.skill_id, each) for each in (row.base_version, row.version_id))
    by_id = {task.id: task for task in store.tasks.list_by_id(row.tasks)}
    other = store.skills.get_files(*row.other) if row.other else None
    return Test(row, base, candidate, tuple(by_id[task_id] for task_id in row.tasks), other)


def in_order(tasks: Sequence[Task], salt: str) -> list[Task]:
    """One task of each family, in the order that the salt decides."""
    by_name = {task.digest: task for task in tasks}
    drawn = [order_units([task.digest for task in family], salt)[0] for family in families(tasks)]
    return [by_name[name] for name in order_units(drawn, salt)]


def run_test(test: Test, store: Store, ask: Ask, notify: Notify = silent) -> Standing:
    """The verdict of a test; as many attempts are under way as the target takes at once.

    Each attempt is stored as it comes, so that the test resumes where it stopped; those that are under way at the
    verdict are paid, and waited for. Raises Waiting while a deferred backend is to answer, Outage where answers were
    lost on the way or not judged: the test waits then, and nothing is counted.
    """
    # The first answer fixes the number: until then it is that of the next test.
    reading = _read_again(test, store)
    n_slots = ask.slots("target") if isinstance(ask, Sharing) else 1
    ask_with_both = AskNextTo(ask, test.other)
    # What is left of them in the test, whichever thread takes them.
    repeats = threading.Semaphore(max(0, MAX_AGAIN - reading.n_repeated))
    under_way: dict[Future[tuple[TestAttempt | None, Trial]], tuple[Arm, int, int]] = {}
    left_open: dict[tuple[Arm, int, int], Waiting] = {}
    lost: list[Trial] = []
    with ask.shared() if isinstance(ask, Sharing) else nullcontext():

        def begin(place: tuple[Arm, int, int]) -> Future[tuple[TestAttempt | None, Trial]]:
            if lends_threads(ask):
                return ask.submit(partial(_make_attempt, test, store, ask_with_both, repeats, place))
            made = Future[tuple[TestAttempt | None, Trial]]()
            try:
                made.set_result(_make_attempt(test, store, ask_with_both, repeats, place))
            except Waiting as error:
                made.set_exception(error)
            return made

        while True:
            standing = reading.standing()
            n_there = standing.runs.candidate + standing.runs.base
            note = "" if standing.verdict is None else "accepted" if standing.accepted else "not accepted"
            notify(Progress(GATE, 0, n_there, reading.plan.most_runs, note=note))
            if standing.verdict:
                store.decisions.add_decision(decision_of(test.row, reading))
            elif not lost:
                busy = {*under_way.values(), *left_open}
                under_way |= {begin(place): place for place in reading.wanted(n_slots or _HOST_SLOTS, busy)}
            if not under_way:
                break
            found, trials = list[TestAttempt](), list[Trial]()
            for each in wait(under_way, return_when=FIRST_COMPLETED).done:
                place = under_way.pop(each)
                try:
                    attempt, trial = each.result()
                except Waiting as error:
                    left_open[place] = error
                except Exception:
                    if not standing.verdict:
                        raise
                else:
                    if attempt is None:
                        lost.append(trial)
                    else:
                        found.append(attempt)
                        trials.append(trial)
            store.tests.add_attempts(test.row.id, found, trials)
            if n_there:
                reading.add(store.tests.list_attempts(test.row.id))
            else:
                reading = _read_again(test, store)
    if standing.verdict:
        return standing
    raise _make_outage(store, test.row.id, lost) if lost else next(reversed(left_open.values()))


def _read_again(test: Test, store: Store) -> Reading:
    row = store.tests.find(test.row.id) or test.row
    return Reading(row.plan, store.tests.list_attempts(row.id))


def standing_of(test: Test, store: Store) -> Standing:
    """Where a test stands by its stored attempts; nothing is asked."""
    return _read_again(test, store).standing()


def decision_of(row: TestRow, reading: Reading) -> Decision:
    """The decision of a test, which follows from its plan and the attempts that count, of which it keeps the digest."""
    rows = sorted(
        (each.unit, each.arm, each.number, each.score, each.cause, each.n_again, each.models, each.opened)
        for each in reading.counted
    )
    digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    standing = reading.standing().model_copy(update={"runs": RunCounts()})  # these depend on how many were under way
    units = standing.units
    return Decision(
        skill_id=row.skill_id,
        gate=GATE,
        base_version=row.base_version,
        version_id=row.version_id,
        scope=row.id,
        verdict=standing.verdict or "",
        reason=f"{units.better} better, {units.worse} worse, {units.same} same; {units.seen} of {units.of} seen",
        inputs=to_json({"standing": standing.model_dump(exclude_defaults=True), "attempts": digest}).decode(),
    )


def _make_attempt(
    test: Test, store: Store, ask: Ask, repeats: threading.Semaphore, place: tuple[Arm, int, int]
) -> tuple[TestAttempt | None, Trial]:
    """One attempt, asked, and scored by what became of it; None where it is lost, to be asked when the test resumes."""
    arm, unit, number = place
    call = PlannedRollout(test.files(arm), test.tasks[unit], f"{test.row.id}/{unit}/{arm}/{number}")
    trial = rollout_with_retries(ask, [call])[0]
    n_again, is_bounded = 0, False

    def repeat(n: int) -> None:
        nonlocal n_again, is_bounded
        taken = sum(repeats.acquire(blocking=False) for _ in range(n))
        n_again, is_bounded = n_again + taken, is_bounded or taken < n

    def n_lost() -> int:  # it was under way when its process died, or its lease ran out
        return store.calls.n_lost([trial.reply.id]).get(trial.reply.id, 0)

    repeat(n_lost())
    while not is_bounded and trial.missing and trial.reply.missing and trial.reply.fault not in OF_THE_TARGET | LOST:
        repeat(1)
        if not is_bounded:
            again = PlannedRollout(call.files, call.task, f"{call.draw}/again{n_again}")
            trial = rollout_with_retries(ask, [again])[0]
            repeat(n_lost())
    cause: Literal["", "target", "bounded"] = ""
    score = trial.soft if test.row.plan.graded else trial.hard
    if is_bounded:
        cause, score = "bounded", float(arm == "base")
    elif trial.reply.fault in OF_THE_TARGET:
        cause = "target"
    if score is None:
        return None, trial
    return TestAttempt(arm, unit, number, float(score), cause, n_again, trial.reply.id), trial


def _make_outage(store: Store, test_id: str, lost: Sequence[Trial]) -> Outage:
    """Return why a test waits; what was lost is forgotten, so that it is asked again."""
    unjudged = [trial for trial in lost if not trial.reply.missing]
    store.calls.forget(test_id, {trial.reply.id for trial in lost}, {trial.draw for trial in unjudged})
    reason = lost[-1].reason.strip().rstrip(".")
    what = "could not be judged" if unjudged else f"{'was' if len(lost) == 1 else 'were'} lost on the way"
    n = counted(len(lost), "attempt")
    return Outage(f"{n} of the test {what}, the last one because: {reason}; resume when that is fixed")


def _draft_plan(store: Store, new: NewTest, tasks: Sequence[Task], asked: Asked) -> Draft:
    held = held_out(tasks)
    if not held:
        raise BadInput("the skill has no held-out task (split test): add tasks with add_tasks or 'tasks add'")
    versions = (new.skill_id, new.base_version), (new.skill_id, new.version_id)
    earlier = store.tests.scores_of(*versions[0], new.backend, graded=asked.graded, other=new.other)

    def draft(test_id: str, number: int) -> tuple[list[int], Plan]:
        salt = hashlib.sha256(f"{asked.salt}/{test_id}".encode()).hexdigest()[:32] if asked.salt else draw_salt()
        units = in_order([task for task in held if not asked.cases_alone or asked.tag in task.tags], salt)
        plan = plan_of(units, earlier, asked, max(number, asked.number), salt)
        is_open = plan.n_pilot and store.tests.is_ever_opened(*versions[0], new.backend)
        is_measured = all(asks_opening(task.judge) for task in units)  # that it never opens is what these tasks tell
        texts, one_text = (store.skills.get_files(*each) for each in versions), versions[0] == versions[1]
        if AGAINST in new.backend and not one_text:
            raise BadInput("two models are compared on one text alone: skillopt-mcp gate --against-model BACKEND:NEW")
        plan = plan.model_copy(update={"one_text": one_text})
        if asked.opens and not (is_open or is_measured or (is_front_matter_alone(*texts) and not one_text)):
            plan = plan.model_copy(update={"needs_opening": True})
        return [task.id for task in units], plan

    return draft


def draw_salt() -> str:
    """16 random bytes in hex."""
    return secrets.token_hex(16)


def plan_of(
    units: Sequence[Task], earlier: Mapping[int, Sequence[float]], asked: Asked, number: int, salt: str
) -> Plan:
    """What a test fixes before its first attempt, by the base's `earlier` scores at each task.

    Raises BadInput where no round of a test in rounds is within its pairs.
    """
    names, n_units = tuple(task.digest for task in units), len(units)
    fixed = Plan(
        salt=salt, units=names, passes=1, number=number, graded=asked.graded, margin=asked.margin, live=asked.live,
        tag=asked.tag, cases_alone=asked.cases_alone,
    )  # fmt: skip
    if fixed.in_rounds:
        max_pairs = asked.max_pairs or (SMALL_SUITE_PAIRS if asked.margin is None else MAX_PAIRS)
        if max_pairs < n_units:
            raise BadInput(f"max_pairs must be {n_units} or more, a pair for each task, got {max_pairs}")
        return fixed.model_copy(update={"max_pairs": max_pairs})
    by_unit = [tuple(earlier.get(task.id, ())) for task in units]
    tagged = tuple(at for at, task in enumerate(units) if asked.tag in task.tags)
    return fixed.model_copy(
        update={
            "passes": asked.passes or passes_for(by_unit),
            "kind": tagged if least_of_kind(number) <= len(tagged) <= n_units / 2 and not asked.live else (),
            "earlier": tuple(by_unit) if any(by_unit) else (),
        }
    )
