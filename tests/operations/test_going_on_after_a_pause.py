"""Going on after a pause: a host is told the price of a test's next turn before anything of it is handed out."""

from __future__ import annotations

from hostwork import Clock, begun
from workshop import PLACEBO, SEED, Place

from benchmarks.host_agent import Agent
from skillopt_mcp.operations.host_work.going_on import host_tests
from skillopt_mcp.operations.host_work.handing_out import Room
from skillopt_mcp.operations.looks.listing import list_skills
from skillopt_mcp.operations.looks.standing import told_candidates
from skillopt_mcp.operations.results import Evaluated, Submitted
from skillopt_mcp.operations.runs.submitting import submit_work
from skillopt_mcp.operations.speaking import as_commands
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace

NOTHING_YET = "Nothing is handed out yet. Tell the user what it takes (40 pairs are done (80 answers are handed in); "


def to_its_pause(host: Workspace, agent: Agent, standing: Submitted) -> Evaluated:
    while not standing.evaluated:
        for item in standing.work:
            agent.do(item.folder)
        standing = submit_work(host, [{"work_id": item.work_id} for item in standing.work], standing.job_id, Room(16))
    assert standing.evaluated.verdict == "undecided"
    return standing.evaluated


def paused(place: Place, host: Workspace, agent: Agent) -> Evaluated:
    return to_its_pause(host, agent, begun(host, place.propose(host, PLACEBO)))


def test_going_on_after_a_pause_tells_the_price_and_hands_nothing_out(place: Place, host: Workspace) -> None:
    done = paused(place, host, Agent(SEED))
    assert f"call evaluate_candidate with candidate_id {done.candidate_id} again" in done.next_step
    assert "(each costs two agent runs)" in done.next_step
    told = [evaluate_candidate(host, done.candidate_id) for _ in range(2)]
    assert told[0] == told[1]
    assert (told[0].status, told[0].work) == ("work", [])
    assert told[0].next_step.startswith(NOTHING_YET)
    assert "and after 80 it pauses" in told[0].reason
    assert told[0].next_step.endswith(f"take the first work: submit_work with job_id {told[0].job_id}.")
    assert not host.store.leases.unanswered_of(told[0].job_id)

    first = submit_work(host, [], told[0].job_id)
    assert (first.status, len(first.work)) == ("work", 4)
    again = evaluate_candidate(host, done.candidate_id)
    assert [item.work_id for item in again.work] == [item.work_id for item in first.work]


def test_a_turn_of_which_no_pair_is_whole_yet_is_not_told_as_not_begun(place: Place, host: Workspace) -> None:
    agent = Agent(SEED)
    done = paused(place, host, agent)
    job = evaluate_candidate(host, done.candidate_id).job_id
    [item] = submit_work(host, [], job, Room(items=1)).work
    agent.do(item.folder)
    submit_work(host, [{"work_id": item.work_id}], room=Room(items=0))
    assert host.store.leases.unanswered_of(job) == []
    under_way = evaluate_candidate(host, done.candidate_id)
    assert "40 pairs are done (81 answers are handed in)" in under_way.reason
    assert under_way.work
    assert "Nothing is handed out yet" not in under_way.next_step


def test_a_person_who_takes_time_to_agree_leaves_no_mark_on_the_verdict(
    place: Place, host: Workspace, clock: Clock
) -> None:
    agent = Agent(SEED)
    done = paused(place, host, agent)
    told = evaluate_candidate(host, done.candidate_id)
    clock.now += 3600
    assert evaluate_candidate(host, done.candidate_id) == told
    verdict = to_its_pause(host, agent, submit_work(host, [], told.job_id))
    assert verdict.pairs_done == 80
    assert "begun anew" not in verdict.reason


def test_the_turn_after_a_second_pause_has_its_price_told_too(place: Place, host: Workspace) -> None:
    agent = Agent(SEED)
    done = paused(place, host, agent)
    for n in (80, 120):
        told = evaluate_candidate(host, done.candidate_id)
        assert (told.work, told.reason.startswith(f"{n - 40} pairs are done")) == ([], True)
        verdict = to_its_pause(host, agent, submit_work(host, [], told.job_id))
        assert (verdict.verdict, verdict.pairs_done) == ("undecided", n)


def test_a_pause_that_an_agent_came_to_is_told_to_whoever_asks_for_more_work(place: Place, host: Workspace) -> None:
    agent = Agent(SEED)
    standing = begun(host, place.propose(host, PLACEBO))
    while standing.status == "work":
        for item in standing.work:
            agent.do(item.folder)
            submit_work(host, [{"work_id": item.work_id}], room=Room(items=0))
        standing = submit_work(host, [], standing.job_id, Room(16))
    assert standing.evaluated
    assert (standing.status, standing.evaluated.verdict, standing.evaluated.pairs_done) == ("done", "undecided", 40)
    assert submit_work(host, [], standing.job_id, Room(16)) == standing
    assert host.store.leases.unanswered_of(standing.job_id) == []

    told = evaluate_candidate(host, standing.evaluated.candidate_id)
    assert told.next_step.startswith(NOTHING_YET)
    assert len(submit_work(host, [], standing.job_id).work) == 4


def test_an_agent_is_not_told_the_price_in_place_of_whoever_drives_it(place: Place, host: Workspace) -> None:
    agent = Agent(SEED)
    standing = begun(host, place.propose(host, PLACEBO))
    last = standing.work[-1]
    to_its_pause(host, agent, standing)
    answer = submit_work(host, [{"work_id": last.work_id}], room=Room(items=0))
    assert [each.status for each in answer.receipts] == ["duplicate"]
    assert submit_work(host, [], standing.job_id).status == "done"


def test_a_test_that_paused_is_under_way_wherever_its_skill_is_looked_at(place: Place, host: Workspace) -> None:
    done = paused(place, host, Agent(SEED))
    [test] = host.store.decisions.list_tests(host.skill(str(place.skill)).id)
    told = f"the test of {done.candidate_id} by a host ({test.id}) is under way, 40 pairs done"
    [row] = list_skills(host).skills
    assert row.next_step == f"{told}: evaluate_candidate {done.candidate_id} goes on with it"
    assert as_commands(row.next_step) == f"{told}: ask your agent to go on with it (evaluate_candidate)"
    skill, candidate = host.skill(str(place.skill)), host.store.candidates.get_candidate(done.candidate_id)
    assert host_tests(host, [candidate]) == {candidate.version_id: told}
    assert told_candidates(host, skill, 5) == [f"candidate {candidate.id}: undecided"]


def test_a_test_that_has_not_paused_yet_is_no_lack_of_one(place: Place, host: Workspace) -> None:
    agent, standing = Agent(SEED), begun(host, place.propose(host, PLACEBO))
    while not host.store.decisions.list_pairs(standing.job_id):
        for item in standing.work:
            agent.do(item.folder)
        standing = submit_work(host, [{"work_id": item.work_id} for item in standing.work], standing.job_id, Room(8))
    [told] = told_candidates(host, host.skill(str(place.skill)), 5)
    assert told.endswith(": under test")
