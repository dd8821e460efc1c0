"""Sampling: which held-out tasks a promotion test draws, and what its verdict may claim for that.

Drawn with replacement, tasks stand for themselves: "on these tasks". For "on tasks like these" every pair must be a new
draw from where the tasks come from: a test task that no promotion test has drawn, once, and no two that say the same.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from skillopt_mcp.documents.text import counted
from skillopt_mcp.errors import BadInput, Refused, Waiting
from skillopt_mcp.gates import confirm as gates_confirm
from skillopt_mcp.gates.confirm import (
    PAIRS_AT_ONCE,
    Alike,
    ConfirmRule,
    Redraws,
    Restarts,
    alike,
    claimed,
    confirm,
    fewest_pairs,
    next_alpha,
    redraws_of,
    refund,
)
from skillopt_mcp.gates.recompute import ConfirmInputs, asked_of, confirmed, inputs_of, rule_asking
from skillopt_mcp.gates.serving import Serving, as_served
from skillopt_mcp.judges.checking import distinct
from skillopt_mcp.judges.judging import is_form_alone, scored_by
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.candidates import Decision
from skillopt_mcp.records.evidence import Claim, Confirmation, Pair, Trial
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import SPLITS, Task
from skillopt_mcp.stages.rollout import Attempt
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.store.ledger import Servings
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.outage import Draw, buffer_pairs, rollout_with_retries, score
from skillopt_mcp.training.progress import Notify, Progress, silent


def held_out(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return the tasks of a promotion test: the test split."""
    return tuple(task for task in tasks if task.split == "test")


def fresh(tasks: Sequence[Task], looks: Mapping[int, int], spent: Sequence[Task] = ()) -> tuple[Task, ...]:
    """Return the test tasks that no promotion test has drawn (`looks` by task id) and that are alone in what they say.

    A verdict on a task steers what is proposed next, and so does a train or val task that says nearly the same, or one
    that is `spent`: no longer in use, or another folder's of the same skill.
    """
    known = [task for split in SPLITS for task in tasks if task.split == split]
    known.sort(key=lambda task: task.split == "test" and not looks.get(task.id))
    in_use = {task.id for task in tasks}
    return tuple(
        task
        for task in distinct([*spent, *known])
        if task.id in in_use and task.split == "test" and not looks.get(task.id)
    )


def in_random_order(tasks: Sequence[Task], key: str) -> tuple[Task, ...]:
    """Return the tasks in an order that the key decides, and not the one in which they were added."""
    order = sorted(tasks, key=lambda task: task.id)
    random.Random(key).shuffle(order)
    return tuple(order)


def check_fresh(tasks: Sequence[Task], rule: ConfirmRule, n_worn: int = 0) -> None:
    """Raise Refused when a test that draws each of these fresh tasks once cannot accept anything.

    Besides, `n_worn` test tasks would be fresh, if tasks that are out of use did not ask nearly the same.
    """
    fewest = fewest_pairs(rule)
    if len(tasks) < fewest:
        worn = (
            f" ({n_worn} more ask nearly what a retired task asked, or one of another folder of this skill, that was "
            "drawn or learned from)"
        )
        raise Refused(
            f"the claim 'like_these' draws each test task once, and only those that no promotion test has drawn: there "
            f"are {len(tasks)}{worn if n_worn else ''}, and a candidate that wins every pair takes {fewest} at an "
            f"error rate of {rule.alpha:.2g}; add {fewest - len(tasks)} or more test tasks, or claim 'these'"
        )
    if is_form_alone(tasks):
        raise Refused(
            f"all {len(tasks)} fresh test tasks judge the form of an answer alone (length, heading), which promotes "
            "nothing: add test tasks with a judge of what is said"
        )


def place(claim: Claim, chance: random.Random, n: int, n_tasks: int) -> int:
    """Return the place of the task of the n-th pair (from 0) among a test's tasks; `like_these` takes them in order."""
    return n if claim == "like_these" else chance.randrange(n_tasks)


def described(claim: Claim, tasks: Sequence[Task]) -> str:
    """Return what tasks a verdict speaks of, in words."""
    if claim == "like_these":
        return f"on tasks like these, if the {len(tasks)} test tasks are a fair sample of them (each is drawn once)"
    both = " (val and test together)" if len({task.split for task in tasks}) > 1 else ""
    return f"on these {len(tasks)} held-out tasks{both}"


def describe_changed_tasks(store: Store, row: ConfirmationRow) -> str:
    """Describe tasks that were retired, or came late: who chooses the tasks can choose the verdict."""
    return f"{_describe_late(store, row)}{_describe_retired(store, row)}"


def _describe_late(store: Store, row: ConfirmationRow) -> str:
    if row.claim != "like_these":
        return ""
    late = store.decisions.find_joined_late(row.id)
    return f"; {late.n} of {len(row.tasks)} tasks joined after {late.n_pairs} pairs were seen" if late else ""


def _describe_retired(store: Store, row: ConfirmationRow) -> str:
    retired = store.retirements.list_retired(row.skill_id)
    before = [
        each
        for task_id, each in retired.items()
        if each.split != "train" and each.n_tests < row.j and task_id not in row.tasks
    ]
    n_drawn = sum(each.n_looks > 0 for each in before)
    n_kept = len(retired.keys() & set(row.tasks))
    said = ""
    if before:
        drawn = f", {n_drawn} of them after promotion tests had drawn them" if n_drawn else ""
        many = counted(len(before), "held-out task was", "held-out tasks were")
        said = f"; {many} retired since {before[0].at[:10]}, before this test began{drawn}"
    were, stay = ("was", "stays") if n_kept == 1 else ("were", "stay")
    return f"{said}; {n_kept} of its tasks {were} retired since it began, and {stay} in it" if n_kept else said


def retired_losses(store: Store, row: ConfirmationRow) -> int:
    """Return how many tasks were retired before a test began that earlier candidates over the same base had lost."""
    retired = store.retirements.list_retired(row.skill_id)
    gone = {id for id, each in retired.items() if each.n_looks and each.n_tests < row.j and id not in row.tasks}
    if not gone:
        return 0
    lost: set[int] = set()
    for test in store.decisions.list_tests(row.skill_id):
        if test.j >= row.j or test.base_version != row.base_version:
            continue
        gains: dict[int, float] = {}
        for task_id, pair in drawn_pairs(test, store.decisions.list_pairs(test.id)):
            if task_id in gone and pair.base is not None and pair.candidate is not None:
                gains[task_id] = gains.get(task_id, 0.0) + pair.candidate - pair.base
        lost |= {task_id for task_id, gain in gains.items() if gain < 0}
    return len(lost)


def drawn_pairs(row: ConfirmationRow, pairs: Sequence[Pair]) -> list[tuple[int, Pair]]:
    """Return the pairs of a test, in drawn order, with the ids of their tasks: the draw decides them."""
    return [
        (row.tasks[place(row.claim, random.Random(f"{row.id}/{n}"), n, len(row.tasks))], pair)
        for n, pair in enumerate(pairs)
    ]


def answers_alike(row: ConfirmationRow, pairs: Sequence[Pair]) -> Alike | None:
    """Return how many answers a test rests on, where its target gives the same one each time. None under `like_these`:
    each of its tasks is drawn once."""
    return alike(drawn_pairs(row, pairs)) if row.claim == "these" and pairs else None


def describe_alike(row: ConfirmationRow, pairs: Sequence[Pair]) -> str:
    """Return what an accept on a target that answers alike each time is worth, empty for any other."""
    found = answers_alike(row, pairs)
    if found is None:
        return ""
    return (
        f"; the target answers alike each time (none of {found.n_repeats} repeats differed): the verdict rests on "
        f"{found.n_answers} different answers, some of which any other words would change, too; to see more of a next "
        "edit, a person tests it on tasks that are drawn once each (skillopt-mcp evaluate with --claim like_these)"
    )


def shortening(base: SkillFiles, candidate: SkillFiles) -> float:
    """Return what share of the live version's text a candidate does without; below 0 when it is longer."""
    return 1 - len(candidate.text) / max(1, len(base.text))


def with_shortening(verdict: Confirmation, rule: ConfirmRule, base: SkillFiles, candidate: SkillFiles) -> Confirmation:
    """Return an accept of what is no worse with the words that say what it is accepted for."""
    claim = claimed(rule)
    shorter = f"{claim}, and {shortening(base, candidate) * 100:.0f} % shorter"
    return replace(verdict, reason=f"{shorter}{verdict.reason.removeprefix(claim)}")


def count_restarts(store: Store, row: ConfirmationRow) -> Redraws:
    """Return how often the attempts of a test's pairs were restarted without an answer."""
    return redraws_of(store.decisions.list_restarts(row))


def restarts_of(row: ConfirmationRow, trials: Sequence[Trial], times: dict[int, int]) -> Restarts:
    """Return how often the attempts of one pair were restarted, by the `times` of their calls."""
    by_version = {trial.version: times.get(trial.reply.id, 0) for trial in trials}
    return Restarts(by_version.get(row.base_version, 0), by_version.get(row.version_id, 0))


MOST = 16
FEW = 6


@dataclass(frozen=True, slots=True)
class Pace:
    """How many pairs are asked ahead at `most`; where it is said that no verdict takes less than `sure`, often fewer.

    `besides` are asked for those that may never come back. It follows from how many pairs are done and not from their
    scores: who makes the attempts sees what is asked.
    """

    most: int = PAIRS_AT_ONCE
    sure: int | None = None
    besides: int = 0

    def ahead(self, n_done: int) -> int:
        """Return how many pairs to ask ahead of so many that are done: what is surely used, or half as many, or few."""
        if self.sure is None:
            return self.most
        serving = max(self.sure - n_done, n_done // 2, FEW)
        return max(1, min(min(self.most, serving) + self.besides, MOST))


USUAL = Pace()


GATE = gates_confirm.GATE


@dataclass(frozen=True, slots=True)
class Test:
    """One promotion test: both arms, the held-out tasks, and the row that names it.

    `origin` is what every verdict adds: who made the attempts, where no backend did, and that tasks were retired; pairs
    are asked ahead at a `pace`. One that is not open is what `upcoming_test` foresees: its row is not in the store.
    """

    row: ConfirmationRow
    base: SkillFiles
    candidate: SkillFiles
    tasks: tuple[Task, ...]
    rule: ConfirmRule
    origin: str = ""
    pace: Pace = USUAL
    is_open: bool = True


def open_test(
    store: Store, arms: tuple[SkillFiles, SkillFiles], tasks: Sequence[Task], backend: str, rule: ConfirmRule
) -> Test:
    """Return the promotion test of a (base, candidate) pair of files, opened as the skill's next when it is new.

    The j-th test of a skill has an error rate of its own, so that all of its life together they keep `rule.alpha`; what
    earlier rejections left unspent is in it. Skills that share a version, as a renamed or copied folder does, have one
    life. Tests of simulations keep it among themselves, and take nothing of those of real models. From its opening on a
    test keeps what it asks and its claim, whatever rule comes later: but for `max_pairs`, they are chosen before the
    evidence is seen. Raises BadInput when there is no held-out task, Refused when those that the claim allows are too
    few to accept anything.
    """
    new = _unopened(store, arms, tasks, backend, rule)
    refunded = _refunded(store, new.skill_id, backend)
    row = store.decisions.open_confirmation(new, lambda n, staked: next_alpha(n, rule.alpha, staked, refunded))
    return _on(store, row, arms, rule)


def upcoming_test(
    store: Store, arms: tuple[SkillFiles, SkillFiles], tasks: Sequence[Task], backend: str, rule: ConfirmRule
) -> Test:
    """Return the promotion test that `open_test` would return now; a new one is not opened, and takes no error rate.

    Raises what that raises.
    """
    new = _unopened(store, arms, tasks, backend, rule)
    if store.decisions.find_confirmation(new.id):
        return open_test(store, arms, tasks, backend, rule)
    alpha = upcoming_alpha(store, new.skill_id, backend, rule.alpha)
    row = replace(new, j=store.decisions.count_tests(new.skill_id) + 1, alpha=alpha)
    return replace(_on(store, row, arms, rule), is_open=False)


def id_of_test(skill_id: int, base: str, candidate: str, backend: str) -> str:
    """Return what names the promotion test of two versions with a backend, whether it is open or not."""
    name = hashlib.sha256(f"{skill_id}:{base}:{candidate}:{backend}".encode()).hexdigest()
    return f"t-{name[:12]}"


def _unopened(
    store: Store, arms: tuple[SkillFiles, SkillFiles], tasks: Sequence[Task], backend: str, rule: ConfirmRule
) -> ConfirmationRow:
    """Return the row of a test before it has a place in the skill's life, and an error rate."""
    base, candidate = arms
    held = held_out(tasks)
    if not held:
        raise BadInput("the skill has no held-out task (val or test): add tasks with add_tasks or 'tasks add'")
    skill_id = held[0].skill_id
    name = id_of_test(skill_id, base.digest, candidate.digest, backend)
    new = ConfirmationRow(name, skill_id, base.digest, candidate.digest, 0, 0.0, backend, (), rule.claim)
    return _with_tasks(store, replace(new, rule=asked_of(rule)), tasks, rule)


def _on(store: Store, row: ConfirmationRow, arms: tuple[SkillFiles, SkillFiles], rule: ConfirmRule) -> Test:
    by_id = {task.id: task for task in store.tasks.list_tasks(row.skill_id)}
    frozen = tuple(by_id[task_id] for task_id in row.tasks)
    asked = rule_asking(row.rule, rule) if row.rule else rule
    most = min(rule.max_pairs, len(frozen)) if row.claim == "like_these" else rule.max_pairs
    rule = replace(asked, alpha=row.alpha, max_pairs=most, claim=row.claim)
    return Test(row, *arms, frozen, rule, describe_changed_tasks(store, row))


def _with_tasks(store: Store, new: ConfirmationRow, tasks: Sequence[Task], rule: ConfirmRule) -> ConfirmationRow:
    """Return the row of a test with the tasks that it may draw now: by its own claim, if it is there already."""
    known = store.decisions.find_confirmation(new.id)
    if (known or new).claim == "these":
        return replace(new, tasks=tuple(task.id for task in held_out(tasks)))
    if known is None:
        check_claim(store, new.skill_id, tasks, new.backend, rule)
    left = fresh_tasks(store, new.skill_id, tasks)
    key = f"{new.id}/{len(known.tasks) if known else 0}"
    return replace(new, tasks=tuple(task.id for task in in_random_order(left, key)))


def check_claim(store: Store, skill_id: int, tasks: Sequence[Task], backend: str, rule: ConfirmRule) -> None:
    """Raise Refused when the next promotion test of a skill can accept nothing, for the claim that the rule makes."""
    if rule.claim == "like_these":
        left, alpha = fresh_tasks(store, skill_id, tasks), upcoming_alpha(store, skill_id, backend, rule.alpha)
        n_worn = len(fresh(tasks, store.tasks.list_looks(skill_id))) - len(left)
        check_fresh(left, replace(rule, alpha=alpha), n_worn)


def fresh_tasks(store: Store, skill_id: int, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return which of these tasks in use a promotion test draws that claims something of tasks like these."""
    return fresh(tasks, store.tasks.list_looks(skill_id), store.tasks.list_spent(skill_id))


def run_test(test: Test, store: Store, ask: Ask, notify: Notify = silent, since: int | None = None) -> Confirmation:
    """Return the verdict, drawing pairs until it is reached or the test pauses; the store keeps every pair.

    It pauses `max_pairs` after the last pause: a call after `undecided` draws as many more, one after a crash the rest.
    `since`: after how many pairs the caller's turn began; it draws no more than that turn.
    Pairs are asked a few ahead; those beyond the deciding one are not counted. While a deferred backend is to answer,
    those that are complete up to the first that is not are counted; raises Waiting when there is none.
    """
    pairs, redraws = store.decisions.list_pairs(test.row.id), count_restarts(store, test.row)
    serving = store.table(Servings).serving(test.row)
    verdict = _verdict(test, pairs, redraws, serving)
    limit = (paused_at(test.row, store) if since is None else since) + test.rule.max_pairs
    limit = min(limit, len(test.tasks)) if test.row.claim == "like_these" else limit
    with buffer_pairs(store, test.row.id) as keep:
        while not verdict.is_over and len(pairs) < limit:
            notify(Progress(GATE, 0, len(pairs), limit, verdict.base_mean, verdict.candidate_mean))
            first = len(pairs)
            drawn, trials = _drawn(test, ask, range(first, min(first + test.pace.ahead(first), limit)))
            drawn = _charged(test, store, drawn, trials, first, redraws)
            serving.hear(first, trials, test.row.version_id)
            keep(Draw(first, drawn, trials))
            pairs += [pair for _, pair in drawn]
            verdict = _verdict(test, pairs, redraws, serving)
    store.decisions.add_decision(_decision(test, verdict))
    notify(Progress(GATE, 0, verdict.n_pairs, limit, verdict.base_mean, verdict.candidate_mean, verdict.verdict))
    return verdict


def standing(test: Test, store: Store) -> Confirmation:
    """Return the verdict on the pairs stored so far, with nothing asked."""
    pairs, redraws = store.decisions.list_pairs(test.row.id), count_restarts(store, test.row)
    return _verdict(test, pairs, redraws, store.table(Servings).serving(test.row))


def upcoming_alpha(store: Store, skill_id: int, backend: str, alpha: float) -> float:
    """Return the error rate that a skill's next promotion test with a backend would have, nothing being opened."""
    n, staked = store.decisions.staked(skill_id, backend)
    return next_alpha(n + 1, alpha, staked, _refunded(store, skill_id, backend))


def net_staked(store: Store, skill_id: int, backend: str) -> float:
    """Return what the promotion tests of a skill stake of its error rate together, without what they gave back."""
    return store.decisions.staked(skill_id, backend)[1] - _refunded(store, skill_id, backend)


def _refunded(store: Store, skill_id: int, backend: str) -> float:
    """Return what the rejected tests of a skill left of their error rates; a rejection is final."""
    left = 0.0
    for test_id, taken_in in store.decisions.list_rejections(skill_id, backend):
        inputs = ConfirmInputs.model_validate_json(taken_in)
        left += refund(inputs.alpha, confirmed(store.decisions.list_pairs(test_id), inputs).wealth)
    return left


def paused_at(row: ConfirmationRow, store: Store) -> int:
    """Return after how many pairs a test last paused; 0 when it never did."""
    last = store.decisions.latest_in(row.id)
    return ConfirmInputs.model_validate_json(last.inputs).n_pairs if last else 0


def _verdict(test: Test, pairs: Sequence[Pair], redraws: Redraws, serving: Serving) -> Confirmation:
    verdict = confirm(pairs, replace(test.rule, max_pairs=max(1, len(pairs))))
    if verdict.verdict == "accept" and test.rule.margin < 0:
        verdict = with_shortening(verdict, test.rule, test.base, test.candidate)
    verdict = as_served(verdict, serving.before(verdict.n_pairs))
    is_worn = not verdict.is_over and test.row.claim == "like_these" and len(pairs) >= len(test.tasks)
    worn = f"; all {len(pairs)} fresh test tasks are drawn: add others, and the test goes on with them"
    said = [worn] if is_worn else []
    said += [describe_alike(test.row, pairs[: verdict.n_pairs])] if verdict.verdict == "accept" else []
    # What one interruption explains is shown next to a verdict, not in it: it is the same as without.
    said += [f"; {redraws}"] if redraws.n_charged else []
    return replace(verdict, reason=f"{verdict.reason}{''.join(said)}{scored_by(test.tasks)}{test.origin}")


def _charged(
    test: Test, store: Store, drawn: list[tuple[int, Pair]], trials: list[Trial], first: int, redraws: Redraws
) -> list[tuple[int, Pair]]:
    """Return drawn pairs with those missing whose attempt at the candidate was restarted too often (see Redraws)."""
    times = store.calls.n_restarts([trial.reply.id for trial in trials])
    found = []
    for k, (task_id, pair) in enumerate(drawn):
        is_charged = redraws.take(first + k, restarts_of(test.row, trials[2 * k : 2 * k + 2], times))
        found.append((task_id, Pair(pair.base, None) if is_charged else pair))
    return found


def _drawn(test: Test, ask: Ask, numbers: range) -> tuple[list[tuple[int, Pair]], list[Trial]]:
    """Return the pairs of these numbers, or those before the first that waits for a deferred backend.

    Raises Waiting when the first of them does; the calls of all are left open then.
    """
    try:
        return _draw(test, ask, numbers)
    except Waiting:
        pairs: list[tuple[int, Pair]] = []
        trials: list[Trial] = []
        is_complete = True
        for n in numbers:
            # Every pair is asked, so that a judge that is a host finds what it can judge already.
            try:
                pair, both = _draw(test, ask, range(n, n + 1))
            except Waiting:
                is_complete = False
            else:
                pairs, trials = (pairs + pair, trials + both) if is_complete else (pairs, trials)
        if not pairs:
            raise
        return pairs, trials


def _draw(test: Test, ask: Ask, numbers: range) -> tuple[list[tuple[int, Pair]], list[Trial]]:
    """Return the pairs of these numbers as (task id, pair), and their trials.

    Every pair draws its task (as the claim asks), and the order of its arms, from the test's name and the pair's
    number: the same pair is drawn again after a crash, and no result can move a later draw.
    """
    attempts: list[Attempt] = []
    swapped: list[bool] = []
    for n in numbers:
        chance = random.Random(f"{test.row.id}/{n}")
        task = test.tasks[place(test.row.claim, chance, n, len(test.tasks))]
        swapped.append(chance.random() < 0.5)
        arms = (test.candidate, test.base) if swapped[-1] else (test.base, test.candidate)
        attempts += [Attempt(files, task, f"{test.row.id}/{n}") for files in arms]
    trials = rollout_with_retries(ask, attempts)
    pairs = []
    for k, swap in enumerate(swapped):
        first, second = trials[2 * k], trials[2 * k + 1]
        base, candidate = (second, first) if swap else (first, second)
        pairs.append((base.task.id, Pair(score(base), score(candidate))))
    return pairs, trials


def _decision(test: Test, verdict: Confirmation) -> Decision:
    return Decision(
        skill_id=test.row.skill_id,
        gate=GATE,
        base_version=test.row.base_version,
        version_id=test.row.version_id,
        scope=test.row.id,
        verdict=verdict.verdict,
        reason=verdict.reason,
        inputs=inputs_of(test.row.id, test.rule, verdict),
    )
