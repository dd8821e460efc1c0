"""Promotion tests: which tasks they draw, running one in the background, its verdict; and what a test could find."""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, TypeVar

from pydantic import BaseModel, Field

from skillopt_mcp.answering import describe_own_backend
from skillopt_mcp.backends.base import Backend, environment_name
from skillopt_mcp.backends.host import is_host
from skillopt_mcp.calls.asking import Asker, Outstanding
from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.calls.spending import Budget
from skillopt_mcp.candidates import bring_back
from skillopt_mcp.costs import Used, check_caps, describe_in_flight, used_by
from skillopt_mcp.dispatch import Sender, check_batch, pace_of, pairs_of_new, pairs_of_open
from skillopt_mcp.documents.text import quoted
from skillopt_mcp.errors import BackendError, BadInput, Busy, NotFound, Refused
from skillopt_mcp.evidence import evidence_of, is_host_run, origins, shown_origin, try_programs
from skillopt_mcp.gates.calibration import WORST, Calibration, pairs_for, predicted_power, smallest_gain
from skillopt_mcp.gates.confirm import ConfirmRule, claimed, fewest_pairs
from skillopt_mcp.host_work import Capacity, estimate_host_test, hand_out, is_untouched, pace_for, withdraw
from skillopt_mcp.judges.judging import attemptable, is_form_alone
from skillopt_mcp.next_step import promotion
from skillopt_mcp.records.calls import Ask, Call, Reply, Role
from skillopt_mcp.records.candidates import Candidate, candidate_id, edited_on_top
from skillopt_mcp.records.evidence import Claim, Confirmation
from skillopt_mcp.records.next_step import NextStep
from skillopt_mcp.records.notes import Note
from skillopt_mcp.records.results import Arm, Evaluated, Replayed, Result
from skillopt_mcp.records.runs import Run
from skillopt_mcp.records.skills import Skill, SkillFiles, short
from skillopt_mcp.records.tasks import SPLITS, Split, Task
from skillopt_mcp.skill_folders import known
from skillopt_mcp.skills import check_merged, describe_endings
from skillopt_mcp.splits import stratified
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks import describe_near_train, near_train_tasks
from skillopt_mcp.tracing import span
from skillopt_mcp.training.calibration import Contest, latest_calibration, run_calibration
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.confirmation import (
    GATE,
    Test,
    count_restarts,
    described,
    held_out,
    id_of_test,
    open_test,
    paused_at,
    run_test,
    shortening,
    standing,
    upcoming_alpha,
    upcoming_test,
)
from skillopt_mcp.training.progress import Notify, Progress, silent
from skillopt_mcp.workspace import Workspace, shortened

_POLL_S = 0.2


@contextmanager
def only_here(store: Store, test: Test, notify: Notify | None = None) -> Iterator[None]:
    """Draw a test's pairs in no two processes at once, whatever they do it for. Raises Busy when another one does.

    With `notify` it waits for that one instead, and reports its progress.
    """
    lock = lock_run(store.locks_path, test.row.id)
    while lock is None:
        if notify is None:
            raise Busy(f"another process is running the test '{test.row.id}': call again to see its verdict")
        so_far = standing(test, store)
        notify(Progress(GATE, 0, so_far.n_pairs, test.rule.max_pairs, so_far.base_mean, so_far.candidate_mean))
        time.sleep(_POLL_S)
        lock = lock_run(store.locks_path, test.row.id)
    try:
        yield
    finally:
        lock.release()


def chosen_tasks(workspace: Workspace, skill: Skill, config: Config, only: Collection[str] | None = None) -> list[Task]:
    """Return the tasks of a run, in the order they were added; a limit keeps each kind (the first tag) in its share.

    With `only`, digests of tasks, it takes no others. Raises BackendError when no target is set.
    """
    found = [task for task in target_tasks(workspace, skill.id) if only is None or task.digest in only]
    kept = {task.id for split in SPLITS for task in _limited(found, split, config)}
    return [task for task in found if task.id in kept]


def target_tasks(workspace: Workspace, skill_id: int, *, retired: bool = False) -> list[Task]:
    """Return the tasks in use of a skill that its target can get a score for; with `retired`, those that were, too."""
    tasks = workspace.store.tasks
    found = tasks.list_tasks(skill_id) if retired else tasks.list_in_use(skill_id)
    return attemptable(found, environment_name(workspace.backend("target")))


def tasks_to_test(
    workspace: Workspace, candidate: Candidate, tasks: Sequence[Task]
) -> tuple[list[Task], tuple[Task, ...]]:
    """Return which of these tasks the promotion test of a candidate may draw, and the held-out ones that it rests on.

    Retired tasks are left out, unless the test was opened before: what it draws is chosen before the evidence is seen.
    """
    store, skill_id = workspace.store, candidate.skill_id
    gone = store.retirements.list_retired(skill_id).keys()
    in_use = [task for task in tasks if task.id not in gone]
    by_id = {task.id: task for task in store.tasks.list_tasks(skill_id)} if gone else {}
    for row in store.decisions.list_confirmations(skill_id, candidate.base_version, candidate.version_id):
        if gone.isdisjoint(row.tasks) or origins(row.backend)[0] != workspace.backend("target").fingerprint:
            continue
        own = tuple(by_id[task_id] for task_id in row.tasks)
        if row.backend in {evidence_of(workspace.backends_for(held)) for held in (own, held_out(tasks))}:
            return [*own, *(task for task in in_use if task not in own)], own
    return in_use, held_out(in_use)


def _limited(tasks: list[Task], split: Split, config: Config) -> list[Task]:
    own = [task for task in tasks if task.split == split]
    limit = {"train": config.limit_train, "val": config.limit_val, "test": config.limit_test}[split] or len(own)
    # By content, so that the same tasks are chosen in whatever order they were added.
    own.sort(key=lambda task: task.digest)
    kinds = [task.tags[0] if task.tags else "" for task in own]
    return [own[at] for at in stratified(kinds, limit, f"limit {split} {config.seed}")]


Found = TypeVar("Found")


def promotion_tasks(workspace: Workspace, skill_id: int) -> list[Task]:
    """Return the tasks that a promotion test draws from. Raises BadInput when there is none."""
    tasks = list(held_out(target_tasks(workspace, skill_id)))
    if not tasks:
        raise BadInput("the skill has no held-out task (val or test): add tasks with add_tasks or 'tasks add'")
    return tasks


def new_contest(
    workspace: Workspace, kind: str, skill_id: int, arms: Sequence[SkillFiles], tasks: Sequence[Task]
) -> Contest:
    """Return the contest of these arms on these tasks; the same ones again have the same name, and so their replies.

    Raises Refused where git left a conflict in the first of them.
    """
    check_merged(arms[0])
    evidence = evidence_of(workspace.backends_for(tasks))
    parts = [kind, str(skill_id), evidence, *(arm.digest for arm in arms), *(str(task.id) for task in tasks)]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return Contest(f"{kind}-{digest[:12]}", skill_id, tuple(arms), tuple(tasks))


def run_contest(workspace: Workspace, contest: Contest, work: Callable[[Ask], Found]) -> Found:
    """Return what `work` finds with the contest's own asker.

    Raises Busy when another process holds its lock. A KeyboardInterrupt has a note on what was under sender.
    """
    lock = lock_run(workspace.store.locks_path, contest.name)
    if lock is None:
        raise Busy(f"'{contest.name}' is locked by another process; wait for it, or stop it")
    try:
        backends = workspace.backends_for(contest.tasks)
        budget = Budget(contest.name, workspace.caps)
        check_caps(workspace.caps, backends)
        with Asker(
            workspace.store,
            backends,
            contest.name,
            concurrency=workspace.concurrency,
            budget=budget,
            on_reply=workspace.on_reply,
        ) as ask:
            return work(ask)
    except KeyboardInterrupt as stop:
        if under_way := describe_in_flight(workspace.store, [contest.name]):
            stop.add_note(under_way)
        raise
    finally:
        lock.release()


ON_TOP = "It was promoted, and the file was edited since: there is nothing to be done with it"
_SIMULATED = "simulated"
# A person's quota pays for them: a test that a host runs pauses sooner.
HOST_PAIRS = 40
# That a candidate is no worse lets its tasks lose so much, and asks for so much less text.
MOST_LOSS, LEAST_SHORTENING = 0.1, 0.05
Evidence = Literal["", "host-run", "host-run, exposed"]
_ORIGINS: dict[Evidence, str] = {
    "host-run": "the host's own agents made or judged the attempts",
    "host-run, exposed": "the host's own agents made or judged the attempts, in a session that had seen these tasks",
}


def describe_redraws(store: Store, row: ConfirmationRow) -> str:
    """Return how often attempts of a test were begun again, where its verdict does not say so by itself."""
    redraws = count_restarts(store, row)
    return f"; {redraws}" if str(redraws) and not redraws.n_charged else ""


def default_rule(workspace: Workspace) -> ConfirmRule:
    """Return the rule of a promotion test by default."""
    return ConfirmRule(max_pairs=HOST_PAIRS) if is_host(workspace.backend("target").name) else ConfirmRule()


def foreseen_test(workspace: Workspace, candidate: Candidate, rule: ConfirmRule) -> Test:
    """Return the promotion test of a candidate as it stands, or as it would be opened now.

    Raises BadInput when the skill has no held-out task, Refused when nothing can come of the test.
    """
    return _test(workspace, candidate, rule, opening=False)


def prepare(workspace: Workspace, candidate: Candidate, rule: ConfirmRule) -> Test:
    """Return the opened promotion test of a candidate; what was never open takes its error rate of the skill's with it.

    Raises what `foreseen_test` raises.
    """
    return _test(workspace, candidate, rule, opening=True)


def most_pairs(workspace: Workspace, candidate_id: str, rule: ConfirmRule) -> int:
    """Return after how many more pairs a test of this rule pauses: fresh tasks may be fewer. Raises NotFound.

    A test that is open goes on with its own claim, to where its turn ends; one that has decided draws no pair.
    """
    store = workspace.store
    candidate = store.candidates.get_candidate(known(candidate_id))
    tasks, held = tasks_to_test(workspace, candidate, target_tasks(workspace, candidate.skill_id, retired=True))
    versions = (candidate.skill_id, candidate.base_version, candidate.version_id)
    evidence = evidence_of(workspace.backends_for(held))
    rows = [row for row in store.decisions.list_confirmations(*versions) if row.backend == evidence]
    return pairs_of_open(store, rows, tasks, rule.max_pairs) if rows else pairs_of_new(store, tasks, rule)


def check_claimed(test: Test, rule: ConfirmRule, candidate_id: str) -> None:
    """Raise Refused when the test of a candidate was begun for another claim than a rule makes."""
    if (rule.margin and test.rule.margin != rule.margin) or rule.claim not in ("these", test.rule.claim):
        raise _other_claim(test, candidate_id)


def check_same_claim(workspace: Workspace, candidate_id: str, rule: ConfirmRule) -> None:
    """Raise Refused when the test of a candidate was begun for another claim than a rule makes that names one.

    A rule without a claim goes on with what the test was begun for. Raises what `foreseen_test` and
    `get_candidate` raise.
    """
    test = foreseen_test(workspace, workspace.store.candidates.get_candidate(known(candidate_id)), rule)
    if test.rule.claim != rule.claim:
        raise _other_claim(test, candidate_id)


def _other_claim(test: Test, candidate_id: str) -> Refused:
    return Refused(
        f"the test of '{candidate_id}' was begun for another claim ({claimed(test.rule)}, "
        f"{described(test.row.claim, test.tasks)}): it is chosen before the evidence is seen, and stays"
    )


def _check_no_worse(candidate: Candidate, arms: tuple[SkillFiles, SkillFiles], rule: ConfirmRule) -> None:
    """Raise BadInput where it would be no reason to promote a candidate that it is no worse by so much."""
    if rule.margin >= 0:
        return
    if rule.margin < -MOST_LOSS:
        raise BadInput(f"a loss of {-rule.margin:g} is more than a shorter skill is worth: use {MOST_LOSS:g} or less")
    base, files = arms
    if shortening(base, files) < LEAST_SHORTENING:
        raise BadInput(
            f"candidate '{candidate.id}' is not {LEAST_SHORTENING * 100:g} % shorter than the live version "
            f"({len(files.text):,} and {len(base.text):,} characters), so that it is no worse would be no reason to "
            "promote it"
        )


def evidence_so_far(workspace: Workspace, row: ConfirmationRow) -> Evidence:
    """Return whether a host made or judged the attempts of a test, in a session that knew its tasks; empty for none."""
    if not is_host_run(row.backend):
        return ""
    return "host-run, exposed" if workspace.store.exposures.exposed(row.id) else "host-run"


def candidate_of_job(workspace: Workspace, job: str) -> str:
    """Return the id of the candidate whose promotion test a job is, open or only foreseen. Raises NotFound."""
    row = workspace.store.decisions.find_confirmation(job)
    if row is not None:
        return candidate_id(row.skill_id, row.base_version, row.version_id)
    found = next((each.id for each in _foreseen_of(workspace, job)), None)
    if found is None:
        raise NotFound(
            f"there is no job {quoted(job)}: use the job_id that came with the work, or that evaluate_candidate gives"
        )
    return found


def _foreseen_of(workspace: Workspace, job: str) -> Iterator[Candidate]:
    """Yield the candidates whose test would have this name: of a test that is not open, nothing else is kept."""
    store = workspace.store
    for skill in store.skills.list_skills():
        candidates = store.candidates.list_candidates(skill.id, steps=True)
        everything = target_tasks(workspace, skill.id, retired=True) if candidates else []
        yield from (each for each in reversed(candidates) if _name(workspace, each, everything) == job)


def _name(workspace: Workspace, candidate: Candidate, everything: Sequence[Task]) -> str:
    """Return what the test of a candidate is named; empty where it can have none now."""
    try:
        _, held = tasks_to_test(workspace, candidate, everything)
        evidence = evidence_of(workspace.backends_for(held))
    except (BackendError, Refused):
        # Another skill's: its judge may not be named, or nothing may be left to test it with.
        return ""
    return id_of_test(candidate.skill_id, candidate.base_version, candidate.version_id, evidence)


def _test(workspace: Workspace, candidate: Candidate, rule: ConfirmRule, *, opening: bool) -> Test:
    store = workspace.store
    base = store.skills.get_files(candidate.skill_id, candidate.base_version)
    check_merged(base)
    files = store.skills.get_files(candidate.skill_id, candidate.version_id)
    everything = target_tasks(workspace, candidate.skill_id, retired=True)
    tasks, held = tasks_to_test(workspace, candidate, everything)
    if is_form_alone(held):
        raise Refused(
            f"all {len(held)} held-out tasks judge the form of an answer alone (length, heading), which promotes "
            "nothing: add held-out tasks with a judge of what is said; nothing was spent"
        )
    _check_no_worse(candidate, (base, files), rule)
    find = open_test if opening else upcoming_test
    test = find(store, (base, files), tasks, evidence_of(workspace.backends_for(held)), rule)
    said = evidence_so_far(workspace, test.row)
    origin = f"; {said}: {_ORIGINS[said]}" if said else ""
    twins = describe_near_train(store, candidate.skill_id, test.tasks, tasks)
    test = replace(test, origin=origin + test.origin + (twins and f"; {twins}"))
    check_claimed(test, rule, candidate.id)
    return test


def describe_step_of_run(workspace: Workspace, candidate: Candidate) -> str:
    """Return that a candidate builds on earlier steps of its run, and what of that is tested; "" where it does not."""
    if candidate.origin != "step" or candidate.run_id is None:
        return ""
    run = workspace.store.runs.get_run(candidate.run_id)
    if candidate.base_version == run.base_version:
        return ""
    numbers = [step.n for step in workspace.store.runs.list_steps(run.id) if step.candidate_id == candidate.id]
    step = f"step {numbers[0]}" if numbers else "a step"
    return f"candidate '{candidate.id}' is {step} of run {run.id}, made on top of its earlier steps: {_way_on(run)}"


def _way_on(run: Run) -> str:
    if run.result:
        made = Replayed.model_validate_json(run.result).candidate_id
        return (
            f"what they came to together is the run's own candidate: skillopt-mcp evaluate {made}" if made
            else "no version of the run was better than the one that it began with, and it has no candidate"
        )  # fmt: skip
    if own := describe_own_backend(run):
        return f"what they came to together is tested when the run finishes; {own}"
    return f"test what they came to together: skillopt-mcp evaluate {run.id}"


GAINS = (0.08, 0.16, 0.30)
DEFAULT_PAIRS = 40
_SMALL_POWER = 0.2
_LARGE_SHARE = 0.5


class GainRow(BaseModel):
    """What a gain takes: its chance of an accept at the first pause, and the pairs after which four of five have it."""

    gain: float
    power: float
    pairs: int | None


class Calibrated(Result):
    """What was measured of the live version against itself, and what a promotion test can find on these tasks."""

    skill: str
    version: str
    n_tasks: int
    n_pairs: int
    flip_rate: float = Field(description="Share of repeats of one task that come out differently")
    failure_rate: float
    missing_rate: float
    tokens_per_rollout: float
    usd_per_rollout: float | None
    alpha: float = Field(description="Error rate of the next promotion test")
    max_pairs: int
    smallest_gain: float | None = Field(description="Smallest gain that four of five tests accept within max_pairs")
    gains: list[GainRow]
    reason: str
    used: Used


def calibrate(
    workspace: Workspace,
    skill: str,
    n_pairs: int = DEFAULT_PAIRS,
    gain: float | None = None,
    rule: ConfirmRule | None = None,
    notify: Notify = silent,
) -> Calibrated:
    """Return what the live version of a skill shows against itself on its held-out tasks, and what follows from it.

    The rollouts are paid once: asked again, or with more pairs, it goes on where it stopped. Raises BadInput without a
    held-out task or when no rollout has a score, BackendError when no target is set.
    """
    if n_pairs < 1:
        raise BadInput(f"pairs '{n_pairs}' is not possible: use 1 or more")
    if gain is not None and not 0 < gain <= 1:
        raise BadInput(f"gain '{gain}' is no gain in mean score: use a number above 0, up to 1")
    tracked = workspace.recorded(skill)
    store = workspace.store
    files = store.skills.get_files(tracked.id, tracked.live_version)
    tasks = promotion_tasks(workspace, tracked.id)
    contest = new_contest(workspace, "calibrate", tracked.id, (files, files), tasks)

    def work(ask: Ask) -> Calibration:
        return run_calibration(contest, n_pairs, store, ask, notify)

    found = run_contest(workspace, contest, work)
    asked = rule or ConfirmRule()
    evidence = evidence_of(workspace.backends_for(tasks))
    asked = replace(asked, alpha=upcoming_alpha(store, tracked.id, evidence, asked.alpha))
    rows = [row for row in store.ledger.list_rows(contest.name) if row.role == "target"]
    n_calls = max(1, sum(row.n_calls for row in rows))
    prices = [row.usd for row in rows]
    gains = [_row(found, each, asked) for each in ((gain,) if gain else GAINS) if each <= found.failure_rate]
    return Calibrated(
        skill=tracked.name,
        version=short(tracked.live_version),
        n_tasks=len(tasks),
        n_pairs=found.n,
        flip_rate=round(found.flip_rate, 4),
        failure_rate=round(found.failure_rate, 4),
        missing_rate=round(found.missing_rate, 4),
        tokens_per_rollout=round(sum(row.tokens_in + row.tokens_out for row in rows) / n_calls, 1),
        usd_per_rollout=None if None in prices else sum(price for price in prices if price is not None) / n_calls,
        alpha=round(asked.alpha, 6),
        max_pairs=asked.max_pairs,
        smallest_gain=detectable(found, asked),
        gains=gains,
        reason=conclusion(found, asked, gain, gains),
        used=used_by(workspace.store, contest.name),
        next_step=NextStep(
            action="add_tasks" if outlook(found, asked) else "propose_edits", arguments={"skill": tracked.name}
        ),
    )


def _outlook(workspace: Workspace, skill_id: int, version: str, rule: ConfirmRule) -> Note | None:
    return outlook(latest_calibration(workspace.store, skill_id, version) or WORST, rule)


def prospect(workspace: Workspace, skill_id: int, version: str, rule: ConfirmRule) -> str:
    """Return why a promotion test of `rule` is unlikely to accept anything, "" when it may; nothing is asked."""
    return describe_outlook(_outlook(workspace, skill_id, version, rule))


def run_prospect(workspace: Workspace, skill: str, config: Config, only: Collection[str] | None = None) -> str:
    """Return why the promotion test that ends a run of a skill is unlikely to accept anything, "" when it may.

    It draws from the tasks of the run: those within its limits and of these digests `only`, fresh ones by its claim.
    """
    tracked, store = workspace.recorded(skill), workspace.store
    tasks = chosen_tasks(workspace, tracked, config, only)
    evidence = evidence_of(workspace.backends_for(held_out(tasks)))
    rule = replace(config.promotion_rule, max_pairs=max(1, pairs_of_new(store, tasks, config.promotion_rule)))
    rule = replace(rule, alpha=upcoming_alpha(store, tracked.id, evidence, config.alpha))
    return prospect(workspace, tracked.id, tracked.live_version, rule)


def outlook(calibration: Calibration, rule: ConfirmRule) -> Note | None:
    """Return why a promotion test cannot accept anything, or hardly can, on such tasks; None when it can."""
    fewest, failing = fewest_pairs(rule), calibration.failure_rate
    numbers: dict[str, float] = {"alpha": rule.alpha, "max_pairs": rule.max_pairs}
    if fewest > rule.max_pairs:
        return Note(code="cannot_accept", numbers=numbers | {"fewest_pairs": fewest})
    if not calibration.n:
        return None
    numbers |= {"failure_rate": failing}
    if failing <= 0 or _power(calibration, failing, rule) < _SMALL_POWER:
        return Note(code="hardly_accepts", numbers=numbers)
    return None if detectable(calibration, rule) is not None else Note(code="may_stay_undecided", numbers=numbers)


def describe_outlook(note: Note | None) -> str:
    """Return an outlook as a sentence; "" for None."""
    if note is None:
        return ""
    n = note.numbers
    if note.code == "cannot_accept":
        return (
            f"this test cannot accept anything: at an error rate of {n['alpha']:.2g} a candidate that wins every pair "
            f"needs {n['fewest_pairs']:.0f} pairs, and max_pairs is {n['max_pairs']:.0f}"
        )
    what = "can hardly accept anything" if note.code == "hardly_accepts" else "may stay undecided"
    return (
        f"this test {what}: the live version fails {n['failure_rate']:.1%} of these tasks, and max_pairs is "
        f"{n['max_pairs']:.0f}"
    )


def conclusion(calibration: Calibration, rule: ConfirmRule, gain: float | None, rows: Sequence[GainRow]) -> str:
    """Return what follows from what was measured: for the gain that was asked about, and for a promotion test."""
    follows = describe_outlook(outlook(calibration, rule)) or _found(calibration, rule)
    return follows if gain is None else f"{_asked_about(calibration, gain, rows)}; {follows}"


@functools.lru_cache(maxsize=256)
def detectable(calibration: Calibration, rule: ConfirmRule) -> float | None:
    """Return the smallest gain that four of five tests accept, rounded up to hundredths, None when there is none."""
    least = smallest_gain(calibration, rule)
    return None if least is None else min(1.0, -(-round(least * 1000) // 10) / 100)


@functools.lru_cache(maxsize=256)
def _power(calibration: Calibration, gain: float, rule: ConfirmRule) -> float:
    return predicted_power(calibration, gain, rule, 300).power


def _row(calibration: Calibration, gain: float, rule: ConfirmRule) -> GainRow:
    power = predicted_power(calibration, gain, rule).power
    return GainRow(gain=gain, power=round(power, 3), pairs=pairs_for(calibration, gain, rule))


def _asked_about(calibration: Calibration, gain: float, rows: Sequence[GainRow]) -> str:
    if not rows:
        return (
            f"a gain of {gain:.2f} is not possible: the live version fails {calibration.failure_rate:.1%} of these "
            "tasks, and no candidate can gain more"
        )
    return f"a gain of {gain:.2f} is accepted by {rows[0].power:.0%} of the tests"


def _found(calibration: Calibration, rule: ConfirmRule) -> str:
    """Return which gains a promotion test finds, where it finds some."""
    room, least = calibration.failure_rate, detectable(calibration, rule) or 0.0
    share = min(1.0, least / room)
    only = "only large gains show" if share > _LARGE_SHARE else "gains show"
    return (
        f"{only}: four of five tests of up to {rule.max_pairs} pairs accept a candidate that fixes {share:.0%} of what "
        f"the live version fails here, which is {least:.2f} of {room:.2f}; of smaller gains more stay undecided"
    )


def evaluate_candidate(
    workspace: Workspace, candidate_id: str, wait_s: float | None = None, notify: Notify = silent,
    rule: ConfirmRule | None = None, capacity: Capacity | None = None,
) -> Evaluated:  # fmt: skip
    """Return the verdict on a candidate, or `running` after `wait_s` seconds (None waits to the end), or `work`.

    The test goes on in the background; a later call attaches to it, and a call after the process died resumes it. A
    verdict stands, and nothing more is spent. Where a host is the target, its work is handed out as far as there is
    `capacity`; without, the first call, and the first after a pause, give the estimate alone. A test opens, and takes
    its share of the skill's error rate, with the first work or call, not before.

    Raises Refused when the live file is no longer the one that the candidate was made from, BackendError when no target
    is set.
    """
    store, candidate = workspace.store, workspace.store.candidates.get_candidate(known(candidate_id))
    check_testable(workspace, candidate)
    rule = rule or default_rule(workspace)
    test = foreseen_test(workspace, candidate, rule)
    if standing(test, store).is_over:
        # Noted again: a process may have died between its last pair and the note of the verdict.
        return _concluded(workspace, candidate, test, run_test(test, store, _nothing_to_ask))

    # A host gets the estimate of a turn before any of its work. The last reply of a turn comes from an agent, which
    # learns nothing of the pause: the session that drives the test has to ask for the next turn.
    at_host = is_host(workspace.backend("target").name)
    if at_host and is_untouched(test, store):
        turn = f"{test.row.id} after {paused_at(test.row, store)} pairs"
        if capacity is None:
            workspace.jobs.offer(turn)
        if not (capacity and capacity.items):
            return _open(workspace, candidate, test)
        if test.is_open and not workspace.jobs.is_offered(turn):
            return _concluded(workspace, candidate, test, standing(test, store))

    if not test.is_open:
        _able(workspace, test)
        test = prepare(workspace, candidate, rule)
    if at_host:
        test = replace(test, pace=pace_for(workspace, test, capacity or Capacity()))
    job = workspace.jobs.attach(test.row.id, functools.partial(_run, workspace, test, wait_s is None))
    job.watch(notify)
    is_done = job.wait(wait_s)
    if is_done:
        workspace.jobs.drop(test.row.id, job)
    # Where another session's call runs it, it is running as well; submit_work reports that itself.
    busy = is_done and wait_s is not None and capacity is None and isinstance(job.result.exception(), Busy)
    if busy or not is_done:
        result = _evaluated(workspace, candidate, test, standing(test, store))
        result = _without_scores(result) if result.evidence else result
        step = _evaluation(candidate, "it is still running")
        return result.model_copy(update={"status": "running", "verdict": None, "next_step": step})
    outcome = job.result.result()
    if isinstance(outcome, Confirmation):
        return _concluded(workspace, candidate, test, outcome)

    # What the host is to do next, as far as its capacity goes.
    begun = bool(store.leases.list_of(test.row.id))
    if capacity is None and not begun:
        return _open(workspace, candidate, test)
    work, step = hand_out(workspace, test.row.id, outcome, capacity)
    if not (work or begun):
        return _open(workspace, candidate, test)
    status = "work" if work else "running"
    return _open(workspace, candidate, test).model_copy(update={"status": status, "work": work, "next_step": step})


def check_testable(workspace: Workspace, candidate: Candidate) -> None:
    """Raise Refused when a candidate is live, or when the live file is not the one that it was made from."""
    skill = workspace.again(workspace.store.skills.get_skill(candidate.skill_id))
    if skill.live_version == candidate.version_id:
        raise Refused(f"candidate '{candidate.id}' is what is live already: there is nothing to test")
    if edited_on_top(workspace.store.promotions.list_promotions(skill.id), candidate.version_id, skill.live_version):
        raise Refused(f"candidate '{candidate.id}' is not to be tested. {ON_TOP}")
    if skill.live_version != candidate.base_version:
        if made_by_run := describe_step_of_run(workspace, candidate):
            raise Refused(made_by_run)
        versions = (candidate.base_version, skill.live_version)
        endings = describe_endings(*(workspace.store.skills.get_files(skill.id, each) for each in versions))
        raise Refused(
            f"the live file of '{skill.name}' is version {short(skill.live_version)}, the candidate was made from "
            f"{short(candidate.base_version)}: propose the edits again, or run: skillopt-mcp evaluate "
            f"{candidate.id} --rebase{endings and f'. {endings}'}"
        )


def _nothing_to_ask(calls: Sequence[Call], /) -> list[Reply]:
    raise AssertionError(f"a decided test asks nothing, but asked {len(calls)} calls")


def _run(workspace: Workspace, test: Test, waits: bool, notify: Notify) -> Confirmation | Outstanding:
    store = workspace.store
    # Where another process draws the turn that was asked for, it is not drawn twice.
    since = paused_at(test.row, store)
    with only_here(store, test, notify if waits else None):
        backends, budget = _able(workspace, test), Budget(test.row.id, workspace.caps)
        if workspace.batch:
            test = replace(test, pace=pace_of(backends))
        sender = Sender(workspace, budget, notify, workspace.on_reply, workspace.concurrency)
        with span("promotion_test", test=test.row.id):
            return sender.send(backends, test.row.id, lambda ask: run_test(test, store, ask, notify, since))


def _able(workspace: Workspace, test: Test) -> dict[Role, Backend]:
    """Return who answers in a test. Raises BadInput for caps or a batch that they cannot have."""
    backends = workspace.backends_for(test.tasks)
    try_programs(workspace.store, test.tasks)
    check_caps(workspace.caps, backends)
    check_batch(workspace, backends)
    return backends


def _concluded(workspace: Workspace, candidate: Candidate, test: Test, verdict: Confirmation) -> Evaluated:
    """Return a verdict; what a host still has in hand for it is taken back."""
    if is_host_run(test.row.backend):
        withdraw(workspace, test.row.id)
    result = _evaluated(workspace, candidate, test, verdict)
    counts = workspace.store.decisions.latest(candidate.skill_id, GATE, candidate.base_version, candidate.version_id)
    if verdict.verdict == "undecided" or counts is None or counts.scope == test.row.id:
        return result
    # Another test of the candidate, with other backends, counts for more than this one.
    other = workspace.store.decisions.find_confirmation(counts.scope)
    note = Note(code=f"other_test_{counts.verdict}", ids=[counts.scope, other.backend if other else ""])
    step = _after(workspace, candidate, counts.verdict)
    return result.model_copy(update={"notes": [*result.notes, note], "next_step": step})


def _open(workspace: Workspace, candidate: Candidate, test: Test) -> Evaluated:
    """Return where an open test of a host stands, and what its turn takes; the work itself is not handed out here."""
    estimate = estimate_host_test(test, workspace.store)
    least, most = estimate.agent_runs()
    why = f"takes {least} to {most} agent runs: ask the user first"
    step = NextStep(action="submit_work", arguments={"job_id": test.row.id}, why=why)
    so_far = _without_scores(_evaluated(workspace, candidate, test, standing(test, workspace.store)))
    near = near_train_tasks(workspace.store, candidate.skill_id, test.tasks)
    notes = [*so_far.notes, *([near] if near else [])]
    update = {
        "status": "work", "verdict": None, "estimate": estimate, "job_id": test.row.id, "notes": notes,
        "next_step": step,
    }  # fmt: skip
    return so_far.model_copy(update=update)


def _without_scores(result: Evaluated) -> Evaluated:
    """Return an open test's result without what reveals, pair by pair, how a host's replies were scored."""
    base, arm = (each.model_copy(update={"mean": None}) for each in (result.base, result.candidate))
    return result.model_copy(update={"base": base, "candidate": arm, "pairs_expected": None, "reason": ""})


def _evaluated(workspace: Workspace, candidate: Candidate, test: Test, verdict: Confirmation) -> Evaluated:
    claim = f"{claimed(test.rule)} " if test.rule.margin else ""
    n = verdict.n_pairs - verdict.n_missing
    return Evaluated(
        status="verdict",
        candidate_id=candidate.id,
        verdict=verdict.verdict,
        base=Arm(version=short(candidate.base_version), mean=round(verdict.base_mean, 4), n=n),
        candidate=Arm(version=short(candidate.version_id), mean=round(verdict.candidate_mean, 4), n=n),
        pairs_done=verdict.n_pairs,
        pairs_expected=verdict.n_expected,
        alpha=round(verdict.alpha, 6),
        claim=f"{claim}{described(test.row.claim, test.tasks)}",
        reason=verdict.reason,
        backend=shortened(shown_origin(test.row.backend), 300),
        evidence=evidence_so_far(workspace, test.row),
        notes=_notes(workspace, candidate, test, verdict),
        next_step=_after(workspace, candidate, verdict.verdict, verdict),
    )


def _notes(workspace: Workspace, candidate: Candidate, test: Test, verdict: Confirmation) -> list[Note]:
    """Return the caveats of a test as it stands."""
    store, notes = workspace.store, list[Note]()
    if verdict.n_missing:
        notes.append(Note(code="missing_replies", numbers={"n": verdict.n_missing, "pairs": verdict.n_pairs}))
    if is_simulated(test.row.backend):
        notes.append(Note(code="simulated"))
    if bring_back(store, candidate):
        notes.append(Note(code="rolled_back", ids=[candidate.id]))
    if verdict.is_over:
        return notes
    if why := _outlook(workspace, candidate.skill_id, candidate.base_version, test.rule):
        notes.append(why)
    if not workspace.root_of(store.skills.get_skill(candidate.skill_id)):
        notes.append(Note(code="outside_skill_roots"))
    verdicts = store.decisions.verdicts(candidate.skill_id, GATE, candidate.base_version)
    others = [
        row.id
        for row in store.decisions.list_tests(candidate.skill_id)
        if row.base_version == candidate.base_version
        and row.version_id != candidate.version_id
        and verdicts.get(row.version_id, "undecided") == "undecided"
    ]
    return [*notes, Note(code="other_test_open", ids=others[-1:])] if others else notes


def _after(workspace: Workspace, candidate: Candidate, verdict: str, test: Confirmation | None = None) -> NextStep:
    """Return what to do after a verdict: promote it, go on with the test, or propose other edits."""
    is_rolled_back = bring_back(workspace.store, candidate) is not None
    if verdict == "accept" and not is_rolled_back:
        return promotion(candidate.id, len(candidate.findings))
    if test and test.is_mixed:
        why = "each version was answered by models of its own: name a dated model as the target"
        return _evaluation(candidate, why)
    is_undecided = verdict == "undecided" and not is_rolled_back
    if is_undecided and not (test and test.n_missing > test.n_pairs // 2):
        return _evaluation(candidate, "undecided: more pairs may decide it")
    why = f"{candidate.id} was {'rolled back by a person' if is_rolled_back else 'not accepted'}"
    why = "most replies were missing: see that the target works" if is_undecided else why
    skill = workspace.store.skills.get_skill(candidate.skill_id).name
    return NextStep(action="propose_edits", arguments={"skill": skill}, why=why)


def _evaluation(candidate: Candidate, why: str) -> NextStep:
    return NextStep(action="evaluate_candidate", arguments={"candidate_id": candidate.id}, why=why)


def is_simulated(backend: str) -> bool:
    """Return whether a simulation (or a script) attempted or judged: no evidence of a real model."""
    return any(origin.startswith((_SIMULATED, "scripted")) for origin in origins(backend))


def twins_in_run(workspace: Workspace, skill: str, config: Config, only: Collection[str] | None = None) -> str:
    """Return `describe_near_train` of a run, on the tasks of these digests `only`. Raises NotFound, BadSkill."""
    tracked = workspace.recorded(skill)
    tasks = chosen_tasks(workspace, tracked, config, only)
    return describe_near_train(workspace.store, tracked.id, [task for task in tasks if task.split != "train"], tasks)


def twins_in_test(workspace: Workspace, candidate_id: str, claim: Claim) -> str:
    """Return `describe_near_train` of a promotion test, open or to be opened for a claim. Raises NotFound."""
    store, candidate = workspace.store, workspace.store.candidates.get_candidate(known(candidate_id))
    tasks, held = tasks_to_test(workspace, candidate, target_tasks(workspace, candidate.skill_id, retired=True))
    evidence = evidence_of(workspace.backends_for(held))
    rows = store.decisions.list_confirmations(candidate.skill_id, candidate.base_version, candidate.version_id)
    drawn: Collection[int] | None = next((row.tasks for row in rows if row.backend == evidence), None)
    if drawn is None:
        # Under the other claim a test draws no task that is like another one.
        drawn = {task.id for task in held} if claim == "these" else ()
    return describe_near_train(store, candidate.skill_id, _of(tasks, drawn))


def _of(tasks: Collection[Task], ids: Collection[int]) -> list[Task]:
    return [task for task in tasks if task.id in ids]
