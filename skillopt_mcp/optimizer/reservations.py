"""Reservations: what the verdict of a promotion test must say of how its tasks and its attempts came about."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from skillopt_mcp.documents.counts import counted
from skillopt_mcp.gates.confirm import ConfirmRule, claimed
from skillopt_mcp.gates.redraws import Anew, Redraws, redraws_of
from skillopt_mcp.gates.repeats import Alike, alike
from skillopt_mcp.optimizer.sampling import place
from skillopt_mcp.records.evidence import Confirmation, Pair, Trial
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.store.opening import Store


def told_tasks(store: Store, row: ConfirmationRow) -> str:
    """Return what to say of tasks that were retired, or came late: whoever chooses the tasks can choose the verdict."""
    return f"{_told_late(store, row)}{_told_retired(store, row)}"


def _told_late(store: Store, row: ConfirmationRow) -> str:
    if row.claim != "like_these":
        return ""
    late = store.decisions.find_joined_late(row.id)
    return f"; {late.n} of {len(row.tasks)} tasks joined after {late.n_pairs} pairs were seen" if late else ""


def _told_retired(store: Store, row: ConfirmationRow) -> str:
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
    """Return how many answers a test speaks of, where its target gives the same one each time. None under `like_these`:
    each of its tasks is drawn once."""
    return alike(drawn_pairs(row, pairs)) if row.claim == "these" and pairs else None


def told_alike(row: ConfirmationRow, pairs: Sequence[Pair]) -> str:
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


def told_shorter(verdict: Confirmation, rule: ConfirmRule, base: SkillFiles, candidate: SkillFiles) -> Confirmation:
    """Return an accept of what is no worse with the words that say what it is accepted for."""
    claim = claimed(rule)
    shorter = f"{claim}, and {shortening(base, candidate) * 100:.0f} % shorter"
    return replace(verdict, reason=f"{shorter}{verdict.reason.removeprefix(claim)}")


def begun_anew(store: Store, row: ConfirmationRow) -> Redraws:
    """Return how often the attempts of a test's pairs were begun anew without an answer."""
    return redraws_of(store.decisions.list_begun_anew(row))


def anew_of(row: ConfirmationRow, trials: Sequence[Trial], times: dict[int, int]) -> Anew:
    """Return how often the attempts of one pair were begun anew, by the `times` of their calls."""
    by_version = {trial.version: times.get(trial.reply.id, 0) for trial in trials}
    return Anew(by_version.get(row.base_version, 0), by_version.get(row.version_id, 0))
