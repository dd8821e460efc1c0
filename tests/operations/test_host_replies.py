"""Replies of a host: what is taken, what is refused, what each session learns, and what a job takes beforehand."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pytest
from hostwork import FEW, Clock, begun, begun_proposal, driven, server
from workshop import SEED, Place

from benchmarks.host_agent import Agent, items_of
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.backends.work import EVIDENCE
from skillopt_mcp.core.errors import BadInput, NotFound
from skillopt_mcp.core.results import Proposed, Receipt
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.workspace.jobs import Capacity, Wait
from skillopt_mcp.workspace.workspace import Workspace

HANDS_IN = Capacity(items=0)
EDITED = "---\nname: ledger-clerk\ndescription: mine\n---\n# Mine\n"
EDIT = {"op": "append", "content": "- Add VAT."}
EXAMPLE = re.compile(r"```json\n(.*?)\n```", re.DOTALL)


def handed_in(host: Workspace, *replies: object) -> list[Receipt]:
    return submit_work(
        host.store, host.models, host.place, list(replies), wait=Wait(host.jobs, capacity=HANDS_IN)
    ).receipts


@pytest.mark.parametrize(
    "reply",
    [
        "I think the skill is fine.",
        '{"reasoning": "x"}',
        '{"edits": 1}',
        '{"edits"',
        {"edits": [{"op": "replace", "target": "not in the skill", "content": "x"}]},
    ],
)
def test_an_unusable_answer_is_refused_while_its_agent_can_correct_it(
    host: Workspace, proposal: Proposed, reply: object
) -> None:
    [item] = items_of(proposal.work)
    [receipt] = handed_in(host, {"work_id": item.work_id, "reply": reply})
    assert (receipt.status, "valid under the schema in WORK.md" in receipt.reason) == ("refused", True)
    assert Path(item.folder, "reply.schema.json").exists()
    Agent(SEED).do(item.folder)
    assert handed_in(host, item.work_id)[0].status == "accepted"


def test_the_example_of_the_instructions_is_taken(host: Workspace, proposal: Proposed) -> None:
    [item] = items_of(proposal.work)
    [example] = EXAMPLE.findall(Path(item.folder, "WORK.md").read_text().partition(EVIDENCE)[0])
    assert handed_in(host, {"work_id": item.work_id, "reply": json.loads(example)})[0].status == "accepted"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"reply": " "},
        {"reply": 5},
        {"reply": ["12"]},
        {"reply": "1", "score": 1},
        {"reply": "1", "failed": "no"},
        {"reply": "1", "outcome": "good"},
        {"reply": "1", "tool_calls": "none"},
    ],
)
def test_a_broken_reply_is_refused_and_can_be_corrected(
    place: Place, host: Workspace, fields: dict[str, object]
) -> None:
    first, *_ = items_of(begun(host, place.propose(host)).work)
    answer = submit_work(
        host.store,
        host.models,
        host.place,
        [{"work_id": first.work_id, **fields}],
        wait=Wait(host.jobs, capacity=HANDS_IN),
    )
    assert [each.status for each in answer.receipts] == ["refused"]
    assert answer.next_step.action == "submit_work"
    assert answer.next_step.arguments == {"replies": [{"work_id": first.work_id}]}
    unset = {"failed": None, "score": None}
    assert handed_in(host, {"work_id": first.work_id, "reply": "1.00", **unset})[0].status == "accepted"
    assert handed_in(host, {"work_id": first.work_id, "reply": "2.00"})[0].status == "duplicate"


def test_no_part_of_a_secret_is_left_of_a_failure_that_is_cut(place: Place, host: Workspace) -> None:
    items, secret = items_of(begun(host, place.propose(host)).work), "ghp_QmZ2xWk7VtRjab9QmZx4Wkcd1VtRjef3QmZx"
    for n, item in enumerate(items[:12]):
        handed_in(host, {"work_id": item.work_id, "failed": f"{'it stood ' * 200}"[: 998 - 3 * n] + f" {secret} there"})
    with closing(Pool(host.store.path)) as pool:
        found = "".join(row[0] for row in pool.rows("select text from reply"))
    assert "it stood" in found
    assert [part for at in range(4, 35) if (part := secret[at : at + 6]) in found] == []


def test_unknown_ids_and_jobs_are_named(place: Place, host: Workspace) -> None:
    begun(host, place.propose(host))
    answer = submit_work(
        host.store,
        host.models,
        host.place,
        [*(f"w-{n:032x}" for n in range(50)), {"reply": "1"}, {"work_id": 5}],
        wait=Wait(host.jobs),
    )
    assert [each.status for each in answer.receipts] == ["unknown"] * 50 + ["refused"] * 2
    assert (answer.status, len(answer.model_dump_json()) < 10_000) == ("stopped", True)
    for job in ("t-000000000000", "r-000000000000", "c-1", "x"):
        with pytest.raises(NotFound):
            submit_work(host.store, host.models, host.place, [], job, Wait(host.jobs))
    for capacity in ((25, 1), (-1, 1), (1, 0)):
        with pytest.raises(BadInput):
            Capacity(*capacity)
    with pytest.raises(BadInput):
        submit_work(host.store, host.models, host.place, [], wait=Wait(host.jobs))


def test_an_agent_that_hands_in_learns_nothing_of_its_job(place: Place, host: Workspace, proposal: Proposed) -> None:
    job = begun(host, place.propose(host))
    first, second, *_ = items_of(job.work)
    answer = submit_work(
        host.store,
        host.models,
        host.place,
        [{"work_id": first.work_id, "reply": "1"}],
        wait=Wait(host.jobs, capacity=HANDS_IN),
    )
    assert (answer.status, answer.reason, answer.work, answer.next_step) == ("running", "", None, None)
    [item] = items_of(proposal.work)
    last = submit_work(
        host.store,
        host.models,
        host.place,
        [{"work_id": item.work_id, "reply": {"edits": [EDIT]}}],
        wait=Wait(host.jobs, capacity=HANDS_IN),
    )
    assert (last.status, last.proposed, last.next_step) == ("done", None, None)
    assert submit_work(host.store, host.models, host.place, [], proposal.job_id, Wait(host.jobs)).proposed
    place.main.write_text(EDITED)
    answer = submit_work(
        host.store,
        host.models,
        host.place,
        [{"work_id": second.work_id, "reply": "1"}],
        wait=Wait(host.jobs, capacity=HANDS_IN),
    )
    assert (answer.status, answer.reason, answer.next_step) == ("done", "", None)
    driver = submit_work(host.store, host.models, host.place, [], job.job_id, Wait(host.jobs))
    assert (driver.status, driver.next_step.action) == ("stopped", "propose_edits")


def test_a_session_without_free_work_is_given_the_job_and_a_time(
    place: Place, host: Workspace, clock: Clock, proposal: Proposed
) -> None:
    answer = submit_work(host.store, host.models, host.place, [], proposal.job_id, Wait(host.jobs))
    assert (answer.status, answer.work) == ("running", None)
    assert answer.next_step.arguments == {"job_id": proposal.job_id}
    assert re.search("1 items are out .* at 2027-01-15 08:15 UTC", answer.next_step.why)
    clock.now += 901
    assert (
        len(items_of(submit_work(host.store, host.models, host.place, [], proposal.job_id, Wait(host.jobs)).work)) == 1
    )


def test_a_proposal_gives_its_estimate_before_any_work(place: Place, host: Workspace) -> None:
    offer = propose_from_evidence(
        host.store, host.models, host.place, str(place.skill), rollouts=6, wait=Wait(host.jobs)
    )
    assert (offer.status, offer.work, offer.rollouts) == ("work", None, 6)
    assert offer.estimate.agent_runs() == (6, 10)
    assert (offer.estimate.tokens_each, offer.estimate.is_default) == (35_000, True)
    assert host.store.leases.list_of(offer.job_id) == []
    assert (
        propose_from_evidence(host.store, host.models, host.place, str(place.skill), rollouts=6, wait=Wait(host.jobs))
        == offer
    )
    assert (
        propose_from_evidence(
            host.store, host.models, host.place, str(place.skill), rollouts=64, wait=Wait(host.jobs)
        ).rollouts
        == 30
    )
    smaller = begun_proposal(host, str(place.skill), rollouts=2)
    assert (len(items_of(smaller.work)), smaller.rollouts) == (2, 2)
    assert host.store.runs.get_run(offer.job_id).status == "stopped"
    assert (
        propose_from_evidence(
            host.store, host.models, host.place, str(place.skill), rollouts=3, wait=Wait(host.jobs)
        ).job_id
        == smaller.job_id
    )
    place.main.write_text(EDITED)
    assert (
        propose_from_evidence(
            host.store, host.models, host.place, str(place.skill), rollouts=4, wait=Wait(host.jobs)
        ).job_id
        != smaller.job_id
    )
    stopped = submit_work(
        host.store,
        host.models,
        host.place,
        [{"work_id": items_of(smaller.work)[0].work_id, "reply": "{}"}],
        wait=Wait(host.jobs),
    )
    assert (stopped.status, stopped.next_step.action) == ("stopped", "propose_edits")


def test_a_proposal_does_not_count_attempts_that_an_earlier_one_made(place: Place, host: Workspace) -> None:
    first = begun_proposal(host, str(place.skill), rollouts=6)
    for item in items_of(first.work):
        Agent(SEED).do(item.folder)
    hands_in = [{"work_id": item.work_id} for item in items_of(first.work)]
    going_on = submit_work(host.store, host.models, host.place, hands_in, wait=Wait(host.jobs, capacity=FEW))
    driven(host, Agent(SEED), going_on)
    assert host.store.runs.get_run(first.job_id).status == "finished"

    def offered(rollouts: int) -> tuple[tuple[int, int], int | None]:
        wait = Wait(host.jobs)
        offer = propose_from_evidence(host.store, host.models, host.place, str(place.skill), rollouts, wait)
        assert offer.estimate
        return offer.estimate.attempts, offer.rollouts

    assert offered(30) == ((24, 24), 30)
    place.main.write_text(EDITED)
    assert offered(12) == ((12, 12), 12)


@pytest.mark.parametrize(
    ("rubric", "n_each"),
    [({}, 0), ({"rubric": "Is it kind?"}, 1), ({"rubric": "Is it kind?", "votes": 3}, 3), ({"points": ["Kind"]}, 3)],
)
def test_a_test_gives_its_estimate_before_any_work(
    place: Place, clock: Clock, rubric: dict[str, object], n_each: int
) -> None:
    judge = {"kind": "rubric", **rubric} if rubric else {"kind": "exact", "expected": "yes"}
    tasks = [{"prompt": f"{n * n}: greet", "judge": judge, "split": "test"} for n in range(30)]
    opened = place.open()
    add_tasks(opened.store, opened.place, str(place.skill), tasks)
    host = server(place, clock, place.folder / "work")
    offer = evaluate_candidate(host.store, host.models, host.place, place.propose(host), Wait(host.jobs, 1.0))
    assert offer.foreseen
    assert offer.estimate
    most = offer.foreseen.most_runs
    least, upmost = offer.estimate.attempts
    assert (offer.status, offer.work, upmost) == ("work", None, most)
    assert 0 < least < most == 2 * offer.foreseen.passes * offer.foreseen.units
    assert offer.estimate.judgements[1] <= n_each * most
    assert bool(offer.estimate.judgements[1]) is bool(rubric)
    assert host.store.tests.list_of_skill(1) == []
    work = items_of(submit_work(host.store, host.models, host.place, [], offer.job_id, Wait(host.jobs)).work)
    handed_in(host, {"work_id": work[0].work_id, "reply": "yes"})
    left = evaluate_candidate(host.store, host.models, host.place, offer.candidate_id, Wait(host.jobs)).estimate
    assert left
    assert left.attempts[1] == (most if rubric else most - 1), "an attempt is done once it is judged"
