"""Work of a host: what it is told when a reply cannot be used, when nothing is to be had, and what goes on where."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from hostwork import Clock, begun, driven, server
from workshop import LESSONS, PLACEBO, SEED, Place, right_when_taught, use

from benchmarks.host_agent import Agent
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.errors import NotFound
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.operations.candidates.proposing import propose_edits
from skillopt_mcp.operations.candidates.rebasing import rebase_candidate
from skillopt_mcp.operations.host_work.handing_out import MAX_ITEMS, Room
from skillopt_mcp.operations.host_work.receiving import receive
from skillopt_mcp.operations.looks.inspecting import inspect
from skillopt_mcp.operations.looks.listing import list_skills
from skillopt_mcp.operations.results import Proposed, Submitted
from skillopt_mcp.operations.runs.replaying import start_run
from skillopt_mcp.operations.runs.submitting import HANDED_IN, submit_work
from skillopt_mcp.operations.tasks.adding import add_tasks
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.calls import Call, Rollout

HANDS_IN = Room(items=0)
EDITED = "---\nname: ledger-clerk\ndescription: mine\n---\n# Mine\n"
GRADE = json.dumps({"reasoning": "so it says", "grade": "all"})


def handed_in(host: Workspace, work_id: str, **fields: object) -> Submitted:
    return submit_work(host, [{"work_id": work_id, **fields}], room=HANDS_IN)


def next_of(workspace: Workspace) -> str:
    (row,) = list_skills(workspace).skills
    return row.next_step


def taught(call: Call) -> bool:
    return isinstance(call.request, Rollout) and PLACEBO in call.request.files.text


def right_answer_of(call: Call) -> str:
    assert isinstance(call.request, Rollout)
    return str(call.request.task.judge.model_dump()["expected"])


def with_rubrics(place: Place, clock: Clock, n: int, votes: int = 1) -> Workspace:
    """Return a host whose skill has `n` held-out tasks that a rubric judges, and 10 that are computed."""
    rubric = {"kind": "rubric", "rubric": "Is it kind?", "votes": votes}
    exact = {"kind": "exact", "expected": "yes"}
    tasks = [{"prompt": f"{k}: greet", "judge": rubric, "split": "test"} for k in range(n)]
    tasks += [{"prompt": f"{k}: say yes", "judge": exact, "split": "test"} for k in range(10)]
    add_tasks(place.open(), str(place.skill), tasks)
    return server(place, clock, place.folder / "work")


def first_question(host: Workspace, job: str) -> str:
    """Return the id of the first question to a judge; attempts that come before are made."""
    while work := submit_work(host, [], job).work:
        for item in work:
            if Path(item.folder, "reply.schema.json").exists():
                return item.work_id
            handed_in(host, item.work_id, reply="Hello.")
    raise AssertionError("no judge was asked")


def test_a_reply_that_is_refused_is_never_told_as_handed_in(place: Place, host: Workspace) -> None:
    first, second, *_ = begun(host, place.propose(host)).work
    refused = handed_in(host, first.work_id)
    assert refused.receipts[0].status == "refused"
    assert refused.next_step == (
        "1 of 1 reply was NOT taken (there is no reply, and no 'answer.md' in the folder of the work: write it, or "
        "give the reply): mend that, and submit again."
    )
    both = submit_work(
        host, [{"work_id": first.work_id, "reply": "1", "score": 1}, {"work_id": second.work_id, "reply": "1"}],
        room=HANDS_IN,
    )  # fmt: skip
    assert both.next_step.startswith("1 of 2 replies was NOT taken (a score is taken from a host only where")
    assert handed_in(host, first.work_id, reply="1").next_step == HANDED_IN


def test_whoever_takes_more_work_is_told_of_refused_and_unknown_replies_first(place: Place, host: Workspace) -> None:
    first, *_ = begun(host, place.propose(host)).work
    answer = submit_work(host, [{"work_id": first.work_id}, {"work_id": f"w-{0:032x}"}])
    assert (answer.status, answer.work) == ("running", [])
    assert answer.next_step.startswith("2 of 2 replies were NOT taken (there is no reply")
    assert answer.next_step.endswith("; nobody was ever given work of this id): mend that, and submit again.")
    partly = submit_work(host, [{"work_id": first.work_id, "reply": "1"}, {"work_id": f"w-{0:032x}"}])
    assert partly.work
    assert "nobody was ever given work of this id): mend that, and submit again. For each of these" in (
        partly.next_step
    )


def test_many_reasons_are_told_by_the_first_of_them(place: Place, host: Workspace) -> None:
    standing = begun(host, place.propose(host))
    replies = [{"work_id": standing.work[0].work_id, f"field{n}": 1} for n in range(5)]
    assert "; and 2 more reasons): mend that" in submit_work(host, replies, room=HANDS_IN).next_step


def test_broken_calls_of_tools_are_refused_by_the_name_of_their_file(place: Place, host: Workspace) -> None:
    item, *_ = begun(host, place.propose(host)).work
    Path(item.folder, "answer.md").write_text("1.00")
    Path(item.folder, "tool_calls.jsonl").write_text("garbage{{\n")
    [receipt] = handed_in(host, item.work_id).receipts
    assert (receipt.status, receipt.reason) == ("refused", "\"garbage{{\" in 'tool_calls.jsonl' is no JSON: correct it")


@pytest.mark.parametrize("unusable", ["I think the skill is fine.", '{"reasoning": "x"}', '{"edits": 1}', '{"edits"'])
def test_an_answer_to_a_question_that_cannot_be_used_is_refused_while_its_agent_is_there(
    host: Workspace, proposal: Proposed, unusable: str
) -> None:
    [item] = proposal.work
    [receipt] = handed_in(host, item.work_id, reply=unusable).receipts
    assert receipt.status == "refused"
    assert receipt.reason.startswith("the reply cannot be used (")
    assert receipt.reason.endswith("): give one JSON object that is valid under 'reply.schema.json'")
    Agent(SEED).do(item.folder)
    assert handed_in(host, item.work_id).receipts[0].status == "accepted"
    assert driven(host, Agent(SEED), submit_work(host, [], proposal.job_id)).proposed


PATCH = {"op": "append", "target": None, "content": "- Add VAT.", "path": "SKILL.md", "evidence": [1]}
EDIT_KEYS = "(needed are op, evidence, possible target, content, path, and no others)"


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (
            {"reasoning": "r", "edits": [{"op": "append", "content": "- Add VAT.", "sources": [1, 2]}]},
            f'edits.0: "evidence" missing and "sources" not known {EDIT_KEYS}',
        ),
        (
            {"edits": [PATCH]},
            'the object: "reasoning" missing (needed are reasoning, edits, and no others)',
        ),
        (
            {"reasoning": "r", "edits": [{**PATCH, "evidence": ["1"]}]},
            "edits.0.evidence.0: '1' is not of type 'integer'",
        ),
    ],
)
def test_an_answer_that_breaks_the_schema_of_its_work_is_refused_with_what_is_wrong(
    host: Workspace, proposal: Proposed, reply: object, fault: str
) -> None:
    [item] = proposal.work
    [receipt] = handed_in(host, item.work_id, reply=reply).receipts
    assert (receipt.status, receipt.reason) == (
        "refused",
        f"the reply cannot be used ({fault}): give one JSON object that is valid under 'reply.schema.json'",
    )
    assert Path(item.folder, "reply.schema.json").exists()
    mended = handed_in(host, item.work_id, reply={"reasoning": "r", "edits": [PATCH]})
    assert mended.receipts[0].status == "accepted"


def test_many_faults_of_an_answer_are_told_by_the_first_of_them(host: Workspace, proposal: Proposed) -> None:
    [item] = proposal.work
    edits = [{"op": "append", "content": f"- {n}"} for n in range(6)]
    [receipt] = handed_in(host, item.work_id, reply={"reasoning": "r", "edits": edits}).receipts
    assert receipt.reason == (
        'the reply cannot be used (edits.0, edits.1, edits.2 and 3 more: "evidence" missing '
        f"{EDIT_KEYS}): give one JSON object that is valid under 'reply.schema.json'"
    )


def test_work_is_handed_in_as_done_or_as_given_up_never_as_both(place: Place, host: Workspace) -> None:
    item, other, *_ = begun(host, place.propose(host)).work
    [receipt] = handed_in(host, item.work_id, reply="1.00", failed="no").receipts
    assert (receipt.status, receipt.reason) == (
        "refused",
        "a reply has an answer or was given up, never both: give reply, or failed, and leave out the other",
    )
    assert handed_in(host, item.work_id, reply="1.00", failed="").receipts[0].status == "accepted"
    assert handed_in(host, other.work_id, reply="", failed="no tool").receipts[0].reason == "it is missing now"
    assert sum(row.n_missing for row in host.store.ledger.list_rows(host.store.decisions.list_tests(1)[0].id)) == 1


def test_a_host_that_lost_its_list_of_work_finds_it_by_inspecting_the_job(
    place: Place, host: Workspace, clock: Clock
) -> None:
    job = (standing := begun(host, place.propose(host))).job_id
    clock.now += 60
    later = submit_work(host, [], job, Room(items=1)).work
    shown = inspect(host, job)
    head = f"this session has out, each in the folder of its name below {host.workplaces.root}:\n"
    *lines, how = shown.text.partition(head)[2].splitlines()
    assert how.startswith("  submit_work takes replies: [{work_id}] for the answer.md in its folder, or")
    assert lines == [
        *(f"  {item.work_id} since 2027-01-15 08:00 UTC, until 2027-01-15 08:15 UTC" for item in standing.work),
        *(f"  {item.work_id} since 2027-01-15 08:01 UTC, until 2027-01-15 08:16 UTC" for item in later),
    ]
    assert shown.next_step.startswith("Hand in first what is done of the work listed. Call evaluate_candidate")
    Agent(SEED).do(standing.work[0].folder)
    handed_in(host, standing.work[0].work_id)
    assert standing.work[0].work_id not in inspect(host, job).text


def test_the_list_of_work_is_shown_to_the_session_alone_that_took_it(
    place: Place, host: Workspace, clock: Clock
) -> None:
    job = (standing := begun(host, place.propose(host))).job_id
    shown = inspect(server(place, clock, place.folder / "work"), job)
    assert "4 pieces of work are out until 2027-01-15 08:15 UTC" in shown.text
    assert not any(item.work_id in shown.text for item in standing.work)
    assert "this session has out" not in shown.text
    assert not shown.next_step.startswith("Hand in")


def test_work_that_came_back_to_its_session_is_listed_once(place: Place, host: Workspace, clock: Clock) -> None:
    job = (standing := begun(host, place.propose(host))).job_id
    clock.now += 901
    again = [item for _ in range(2) for item in submit_work(host, [], job, Room(items=16)).work]
    listed = [line.split()[0] for line in inspect(host, job).text.splitlines() if line.startswith("  w-")]
    assert sorted(listed) == sorted(item.work_id for item in again)
    assert not {item.work_id for item in standing.work} & set(listed)


def test_the_list_of_a_proposals_work_is_found_as_well(host: Workspace, proposal: Proposed) -> None:
    shown = inspect(host, proposal.job_id)
    assert f"\n  {proposal.work[0].work_id} since " in shown.text
    assert "\n  submit_work takes replies: " in shown.text


def test_answers_that_no_pair_is_made_of_yet_are_told_as_handed_in(place: Place, host: Workspace) -> None:
    job = begun(host, place.propose(host)).job_id
    ids = [lease.id for lease in host.store.leases.unanswered_of(job)]
    while work := submit_work(host, [], job, Room(items=4)).work:
        ids += [item.work_id for item in work]
    first = host.store.decisions.list_tests(1)[0]
    handed_in(host, ids[0], reply="1.00")
    told = submit_work(host, [], job, Room(items=0)).reason
    assert told.startswith("0 pairs are done (1 answer is handed in); a verdict takes 6 more at the very least")
    assert "from 11 to 79 more agent runs" in told
    assert "\nhanded in: 1 answer; a pair takes an answer of each version, judged, and pairs count in order\n" in (
        inspect(host, first.id).text
    )


def test_a_judgement_that_is_handed_in_is_not_told_as_an_answer_of_a_pair(place: Place, clock: Clock) -> None:
    host = with_rubrics(place, clock, 20)
    job = evaluate_candidate(host, place.propose(host)).job_id
    work_id = first_question(host, job)
    n_answers = host.store.leases.count_answered(job or "")["target"]
    handed_in(host, work_id, reply=GRADE)
    told = submit_work(host, [], job, Room(items=0)).reason
    assert f" ({n_answers} answers and 1 judgement are handed in); " in told
    assert f"\nhanded in: {n_answers} answers and 1 judgement; a pair takes" in inspect(host, job or "").text


def test_one_item_is_told_as_one(host: Workspace, proposal: Proposed) -> None:
    assert proposal.next_step.startswith("For this 1 item start a fresh agent that is told its folder and nothing else")


def test_who_judges_is_shown_without_commands_where_there_are_none(place: Place, clock: Clock) -> None:
    host = with_rubrics(place, clock, 20)
    told = evaluate_candidate(host, place.propose(host))
    assert told.backend == "host judged by host"
    job = submit_work(host, [], told.job_id).job_id
    assert "\nanswered by: host judged by host\n" in inspect(host, job).text
    [test] = host.store.decisions.list_tests(1)
    assert test.backend == "host judged by host+command:e3b0c44298fc1c14"


def test_a_judge_that_never_answers_in_json_leaves_no_score_and_blocks_nothing(place: Place, clock: Clock) -> None:
    host = with_rubrics(place, clock, 20)
    job = evaluate_candidate(host, place.propose(host)).job_id
    work_id = first_question(host, job)
    assert [handed_in(host, work_id, reply=f"banana {n}").receipts[0].status for n in range(2)] == ["refused"] * 2
    last = handed_in(host, work_id, reply="banana").receipts[0]
    assert last.status == "accepted"
    assert last.reason.startswith("it is missing now, after 3 replies that could not be used (the reply has no JSON")
    again = handed_in(host, work_id, reply=GRADE).receipts[0]
    assert (again.status, again.reason) == ("duplicate", "it is missing already: nothing more is taken for it")
    assert not Path(host.workplaces.folder(work_id)).exists()
    assert sum(row.n_missing for row in host.store.ledger.list_rows(job)) == 1


def test_replies_that_cannot_be_used_count_with_those_that_were_given_up(place: Place, clock: Clock) -> None:
    host = with_rubrics(place, clock, 20)
    job = evaluate_candidate(host, place.propose(host)).job_id
    work_id = first_question(host, job)
    handed_in(host, work_id, reply="banana")
    assert handed_in(host, work_id, failed="too hard").receipts[0].reason == "it is handed out again"
    call_id = next(lease.call_id for lease in host.store.leases.list_of(job) if lease.id == work_id)
    while submit_work(host, [], job, Room(items=MAX_ITEMS)).work:
        pass
    out = [each for each in host.store.leases.unanswered_of(job) if each.call_id == call_id]
    assert handed_in(host, out[0].id, reply="banana").receipts[0].reason.startswith("it is missing now")


def test_a_test_whose_judge_never_answers_usably_ends_without_a_score(place: Place, clock: Clock) -> None:
    rubric = {"kind": "rubric", "rubric": "Is it kind?"}
    tasks = [{"prompt": f"{k}: greet", "judge": rubric, "split": "test"} for k in range(12)]
    add_tasks(place.open(), str(place.skill), tasks)
    host = server(place, clock, place.folder / "work")
    candidate_id, rule = place.propose(host), ConfirmRule(max_pairs=4)
    job = (standing := evaluate_candidate(host, candidate_id, rule=rule, room=Room(16))).job_id
    while standing.status == "work":
        receive(host, [{"work_id": item.work_id, "reply": f"banana {n}"} for n in range(3) for item in standing.work])
        standing = evaluate_candidate(host, candidate_id, rule=rule, room=Room(16))
    assert (standing.verdict, standing.pairs_done, standing.base.n, standing.candidate.n) == ("undecided", 4, 0, 0)
    assert "pairs so far: 4, 4 of them without a score;" in inspect(host, job).text


@pytest.mark.parametrize(("votes", "expected"), [(1, "8 to 54"), (3, "16 to 160")])
def test_what_judging_takes_is_told_beforehand(place: Place, clock: Clock, votes: int, expected: str) -> None:
    host = with_rubrics(place, clock, 20, votes)
    told = evaluate_candidate(host, place.propose(host))
    assert "from 12 to 80 more agent runs" in told.reason
    assert (
        f"; besides, about {expected} agent runs judge their answers, as 20 of 30 held-out tasks are judged by a rubric"
        in told.reason
    )


def test_what_others_than_the_hosts_agents_do_is_told_as_that(place: Place, clock: Clock) -> None:
    host = with_rubrics(place, clock, 20)
    use(host, Scripted(lambda call: "banana", name="anthropic:m"))
    told = evaluate_candidate(host, place.propose(host)).reason
    assert "to 400 more target calls (none by your agents), each of which reads up to" in told
    assert "267 agent runs judge their answers" in told

    host = with_rubrics(place, clock, 20)
    use(host, Scripted(lambda call: "banana", name="anthropic:m"), "judge")
    told = evaluate_candidate(host, place.propose(host)).reason
    assert "from 12 to 80 more agent runs, each of which reads up to" in told
    assert "about 8 to 54 calls of the judge (none by your agents) judge their answers" in told


def test_nothing_is_told_of_judging_where_nobody_is_asked_to(place: Place, host: Workspace) -> None:
    assert "judge their answers" not in evaluate_candidate(host, place.propose(host)).reason


def test_whoever_gets_no_work_is_told_when_there_will_be_some(place: Place, host: Workspace) -> None:
    candidate_id = place.propose(host)
    job = begun(host, candidate_id).job_id
    while (standing := submit_work(host, [], job, Room(items=1))).work:
        pass
    n_out = len(host.store.leases.unanswered_of(job))
    step = (
        f"Nothing can be handed out before 2027-01-15 08:15 UTC ({n_out} items are out). Wait for those of them that "
        f"your own agents have (inspect {job} lists them); otherwise stop here, do not poll, and call submit_work with "
        f"job_id {job} then."
    )
    assert (standing.status, standing.next_step) == ("running", step)
    told = evaluate_candidate(host, candidate_id, room=Room(items=1))
    assert (told.status, told.work, told.next_step) == ("running", [], step)


def test_a_proposal_whose_work_is_out_says_when_there_will_be_some(
    host: Workspace, clock: Clock, proposal: Proposed
) -> None:
    clock.now += 30
    standing = submit_work(host, [], proposal.job_id)
    assert (standing.status, standing.work) == ("running", [])
    assert standing.next_step.startswith("Nothing can be handed out before 2027-01-15 08:15 UTC (1 item is out). ")
    clock.now += 870.5
    assert submit_work(host, [], proposal.job_id).work


def test_no_time_is_told_at_which_nothing_is_free_yet(host: Workspace, clock: Clock, proposal: Proposed) -> None:
    clock.now += 900.5
    assert submit_work(host, [], proposal.job_id).work
    assert " before 2027-01-15 08:31 UTC " in submit_work(host, [], proposal.job_id).next_step


def test_a_host_that_was_killed_with_work_out_does_not_stop_the_test_for_another_one(
    place: Place, host: Workspace, clock: Clock
) -> None:
    job = begun(host, place.propose(host)).job_id
    while submit_work(host, [], job, Room(items=4)).work:
        pass
    stuck = len(host.store.leases.unanswered_of(job))
    other, n_done = server(place, clock, place.folder / "work"), 0
    while (standing := submit_work(other, [], job)).work:
        for item in standing.work:
            handed_in(other, item.work_id, reply="1.00")
        n_done += len(standing.work)
    assert standing.status == "running"
    assert 0 < n_done <= 2 * MAX_ITEMS - stuck
    assert f"({stuck} items are out)" in standing.next_step
    clock.now += 901
    done = driven(other, Agent(SEED), submit_work(other, [], job))
    assert done.evaluated


def test_a_session_finds_the_test_and_the_proposal_that_another_one_began(
    place: Place, host: Workspace, proposal: Proposed
) -> None:
    way = f"submit_work with job_id {proposal.job_id}; 1 piece of work is out until 2027-01-15 08:15 UTC"
    assert way in next_of(host)
    candidate_id = place.propose(host)
    assert way in next_of(host)
    job = begun(host, candidate_id).job_id
    assert next_of(host).startswith(
        f"the test of {candidate_id} is under way: submit_work with job_id {job}; 4 pieces of work are out until"
    )


def test_a_candidate_that_an_edit_by_hand_made_stale_is_told_until_it_is_rebased(place: Place, host: Workspace) -> None:
    candidate_id = place.propose(host)
    job = begun(host, candidate_id).job_id
    for n in range(2):
        place.main.write_text(f"{EDITED}{n}\n")
        assert next_of(host).startswith(f"{candidate_id} is stale, as the file has changed since: call propose_edits")
    for each in (job, candidate_id):
        shown = inspect(host, each).next_step
        assert "evaluate_candidate" not in shown
        assert f"skillopt-mcp rebase {candidate_id}; " in shown
    rebased = rebase_candidate(host, candidate_id)
    assert next_of(host) == f"evaluate_candidate {rebased.candidate_id}"


def test_a_candidate_that_was_rejected_is_not_told_as_stale(place: Place, workspace: Workspace) -> None:
    use(workspace, Scripted(lambda call: "no" if taught(call) else right_answer_of(call)))
    candidate_id = place.propose(workspace, PLACEBO)
    while (verdict := evaluate_candidate(workspace, candidate_id).verdict) == "undecided":
        pass
    assert verdict == "reject"
    place.main.write_text(EDITED)
    assert candidate_id not in next_of(workspace)


def test_what_was_live_and_edited_since_is_not_stale(place: Place, workspace: Workspace) -> None:
    candidate_id = place.propose(workspace, LESSONS)
    version = workspace.store.candidates.get_candidate(candidate_id).version_id
    place.main.write_text(workspace.store.skills.get_files(1, version).text)
    assert workspace.skill(str(place.skill)).live_version == version
    place.main.write_text(EDITED)
    assert candidate_id not in next_of(workspace)


def test_a_proposal_whose_base_moved_ends_with_the_word_to_rebase_it(
    place: Place, host: Workspace, proposal: Proposed
) -> None:
    place.main.write_text(f"{place.main.read_text()}\nCredit notes are negative.\n")
    for item in proposal.work:
        Agent(1).do(item.folder)
    done = submit_work(host, [{"work_id": item.work_id} for item in proposal.work])
    done = driven(host, Agent(1), done)
    assert done.proposed
    assert done.proposed.candidate_id
    made = done.proposed.candidate_id
    told = f"{made} is stale, as the file has changed since: call propose_edits with its edits again (inspect {made}"
    assert done.next_step.startswith(told)
    assert submit_work(host, [], proposal.job_id).next_step == done.next_step


def test_a_job_that_is_none_is_told_as_such_whatever_its_id_looks_like(place: Place, host: Workspace) -> None:
    run = start_run(place.open(), str(place.skill), Config())
    for job in ("r-nope", "r-000000000000", run.id, "c-000000000000"):
        with pytest.raises(NotFound, match=f'there is no job "{job}": use the job_id that came with the work'):
            submit_work(host, [], job)


def test_a_second_session_that_asks_for_a_test_under_way_is_told_that_it_runs(
    place: Place, workspace: Workspace
) -> None:
    let_go = threading.Event()
    use(workspace, Scripted(lambda call: (let_go.wait(30), right_when_taught(call))[1]))
    candidate_id = place.propose(workspace)
    evaluate_candidate(workspace, candidate_id, wait_s=0.05)
    other = place.open()
    use(other, Scripted(right_when_taught))
    told = evaluate_candidate(other, candidate_id, wait_s=30)
    assert (told.status, told.verdict) == ("running", None)
    let_go.set()
    assert evaluate_candidate(workspace, candidate_id).verdict == "accept"
    assert evaluate_candidate(other, candidate_id, wait_s=30).verdict == "accept"


def test_edits_of_ones_own_are_not_told_as_stale_while_their_base_is_live(place: Place, workspace: Workspace) -> None:
    made = propose_edits(workspace, str(place.skill), [{"op": "append", "content": PLACEBO}])
    assert next_of(workspace) == f"evaluate_candidate {made.candidate_id}"
