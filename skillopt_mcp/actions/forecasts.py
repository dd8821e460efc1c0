"""Forecasts: what a promotion test takes at most, whether caps hold that, and what it could find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from skillopt_mcp.actions.promotions.consent import permission_gaps
from skillopt_mcp.core.budgets import Caps, Spent
from skillopt_mcp.core.calls import Role
from skillopt_mcp.core.candidates import candidate_id
from skillopt_mcp.core.results import Foreseen, KindOfTask, PowerRow
from skillopt_mcp.core.runs import Run
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.gates.power import power_of, smallest_gain_found
from skillopt_mcp.gates.promotion import ENOUGH_UNITS, least_of_kind
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.judges.checking import families
from skillopt_mcp.tasks.judges.judging import n_votes
from skillopt_mcp.training.promotion_test import BETTER, Test, held_out, plan_of
from skillopt_mcp.workspace.costs import default_tokens
from skillopt_mcp.workspace.evidence import evidence_of
from skillopt_mcp.workspace.models import Models


class TestPrice(NamedTuple):
    """The promotion tests that a run may end with: their attempts at most, and the judge's calls of each."""

    n_runs: int
    votes: int


def price_of_run(store: Store, models: Models, run: Run, tasks: Sequence[Task]) -> TestPrice:
    """The price of the tests of a run on these tasks, if it finds a better version of each of its documents."""
    held = held_out(tasks)
    if not held:
        return TestPrice(0, 0)
    backend = evidence_of(models.backends_for(held))
    # What was tested without a memory file says nothing of how often the skill succeeds with it.
    earlier = {} if run.memory else store.tests.scores_of(run.skill_id, run.base_version, backend)
    plan = plan_of([family[0] for family in families(held)], earlier, BETTER, 1, "")
    return TestPrice(run.n_documents * plan.most_runs, max(map(n_votes, held)))


def caps_of_search(store: Store, models: Models, caps: Caps, price: TestPrice) -> Caps | None:
    """What a search may use of caps: all but the price of its promotion test; None where they do not hold that.

    Tokens and money are those of such calls before, or a default.
    """
    target = models.backend("target")
    usual = store.ledger.usual("target", target.name, target.fingerprint)
    n_calls = price.n_runs * (1 + price.votes)
    tokens = round(n_calls * (usual.tokens if usual else default_tokens(target.name)))
    left = Caps(
        None if caps.calls is None else caps.calls - n_calls,
        None if caps.tokens is None else caps.tokens - tokens,
        None if caps.usd is None else caps.usd - n_calls * ((usual.usd if usual else None) or 0.0),
        caps.minutes,
    )
    return None if any(each is not None and each < 0 for each in (left.calls, left.tokens, left.usd)) else left


def describe_reach(store: Store, models: Models, caps: Caps, price: TestPrice, spent: Spent) -> str:
    """Whether caps reach a verdict, where that much is spent before the test; "" without caps, or without a test."""
    caps = replace(caps, minutes=None)
    if not caps.options or not price.n_runs:
        return ""
    left = caps_of_search(store, models, caps, price)
    reached = "a verdict" if left and not left.exceeded(spent) else "no verdict"
    what = f"the promotion test takes up to {price.n_runs:,} runs"
    return f"The cap ({caps.options}{caps.origin}) reaches {reached}: {what}."


def foresee(store: Store, models: Models, test: Test) -> Foreseen:
    """Return what a test could find and what it takes, by the attempts that exist at its base; nothing is asked."""
    plan, row = test.row.plan, test.row
    candidate = store.candidates.get_candidate(candidate_id(row.skill_id, row.base_version, row.version_id))
    earlier = store.tests.scores_of(row.skill_id, row.base_version, row.backend, graded=plan.graded, other=row.other)
    by_unit = [earlier.get(task_id, ()) for task_id in row.tasks]
    rows = power_of(plan, by_unit)
    n_tagged = sum(plan.tag in task.tags for task in test.tasks)
    kind = KindOfTask(tag=plan.tag, units=n_tagged, needs=least_of_kind(plan.number)) if plan.tag else None
    target = models.backend("target")
    usual = store.ledger.usual("target", target.name, target.fingerprint)
    n_done = 0 if test.foreseen else store.tests.count_attempts(row.id)
    price = TestPrice(max(0, plan.most_runs - n_done), max(map(n_votes, test.tasks)))
    spent = store.budgets.get_spent(row.id)
    smallest = None if plan.in_rounds else smallest_gain_found(plan, by_unit)
    return Foreseen(
        units=plan.n_units,
        passes=plan.passes,
        test_in_release=row.number,
        alpha=float(plan.alpha),
        pilot=plan.n_pilot,
        kind=kind if plan.kind else None,
        few_of_kind=kind if kind and kind.units < kind.needs and not plan.in_rounds else None,
        found_in_half=smallest.gain if smallest else None,
        power=[PowerRow(gain=each.gain, chance=round(each.chance, 2), runs=round(each.runs)) for each in rows],
        most_runs=test.row.plan.most_runs,
        few_tasks=plan.n_units < ENOUGH_UNITS,
        margin=plan.margin,
        tokens_each=round(usual.tokens) if usual else default_tokens(target.name) or None,
        is_default=usual is None,
        beyond_permission=permission_gaps(store, candidate, test.tasks, row.backend),
        reach=describe_reach(store, models, models.caps, price, spent),
    )


def estimate_test(test: Test, done: int = 0) -> dict[Role, int]:
    """Return the calls that a promotion test may still ask of each role at most, so many attempts being done."""
    left = max(0, test.row.plan.most_runs - done)
    return {"target": left, "judge": left * max(map(n_votes, test.tasks))}
