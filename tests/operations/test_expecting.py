"""Expecting: how many agent runs a host's test still takes, told while it is under way."""

from __future__ import annotations

import re

from workshop import PLACEBO, SEED, Place

from benchmarks.host_agent import Agent
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.operations.host_work.handing_out import Room
from skillopt_mcp.operations.runs.submitting import submit_work
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace

ROOM = Room(16)
RUNS = re.compile(r"^(\d+) pairs? (?:is|are) done.*from (\d+) to (\d+) more agent runs")


def told(reason: str) -> tuple[int, ...]:
    """Return the pairs that are done, and the least and the most runs that are still to be made."""
    found = RUNS.match(reason)
    assert found
    return tuple(map(int, found.groups()))


def test_a_batch_of_one_version_leaves_the_same_number_of_the_other_to_make(place: Place, host: Workspace) -> None:
    agent, candidate_id = Agent(SEED), place.propose(host, PLACEBO)
    offered = evaluate_candidate(host, candidate_id)
    assert told(offered.reason) == (0, 12, 80)
    batch = submit_work(host, [], offered.job_id, ROOM)
    shown = []
    for _ in range(3):
        for item in batch.work:
            agent.do(item.folder)
        batch = submit_work(host, [{"work_id": item.work_id} for item in batch.work], room=ROOM)
        shown.append((len(batch.work), *told(batch.reason)))
    assert shown == [(6, 0, 6, 74), (6, 6, 2, 68), (6, 6, 1, 62)]


def test_a_test_that_has_drawn_each_fresh_task_is_told_as_that_and_not_with_a_price(
    place: Place, host: Workspace
) -> None:
    agent, candidate_id, rule = Agent(SEED), place.propose(host, PLACEBO), ConfirmRule(max_pairs=20, claim="like_these")
    assert told(evaluate_candidate(host, candidate_id, rule=rule).reason) == (0, 12, 40)
    for n_done in (20, 30):
        while (standing := evaluate_candidate(host, candidate_id, rule=rule, room=ROOM)).work:
            for item in standing.work:
                agent.do(item.folder)
            submit_work(host, [{"work_id": item.work_id} for item in standing.work], room=Room(items=0))
        assert (standing.verdict, standing.pairs_done) == ("undecided", n_done)
        price = evaluate_candidate(host, candidate_id, rule=rule)
        if n_done == 20:
            assert told(price.reason)[2] == 20
            assert "and after 30 it pauses" in price.reason
    assert (price.verdict, price.work) == ("undecided", [])
    assert "all 30 fresh test tasks are drawn" in price.reason
