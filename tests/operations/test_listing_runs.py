from __future__ import annotations

import pytest
from hostwork import Clock, begun, driven
from workshop import SEED, Place, use

from benchmarks.host_agent import Agent
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.gates.racing import RaceRule
from skillopt_mcp.operations.host_work.handing_out import Room
from skillopt_mcp.operations.looks.inspecting import inspect
from skillopt_mcp.operations.looks.inspecting_runs import describe_run
from skillopt_mcp.operations.results import Proposed
from skillopt_mcp.operations.runs.replaying import replay, start_run
from skillopt_mcp.operations.runs.submitting import submit_work
from skillopt_mcp.operations.spending.accounting import told_repeats
from skillopt_mcp.operations.spending.charging import together
from skillopt_mcp.operations.spending.listing_runs import list_runs
from skillopt_mcp.operations.testing.calibrating import calibrate
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.testing.racing import race_candidates
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.calls import Call, Reply, Usage
from skillopt_mcp.store.ledger import LedgerRow

SMALL = Config(epochs=1, batch=10, slow_update=False, meta_skill=False, max_pairs=8)
OUT = "1 piece of work is out until 2027-01-15 08:15 UTC, and handed out again after that or once its server ends"


def test_what_a_host_drives_goes_on_by_its_work_and_not_by_replay(host: Workspace, proposal: Proposed) -> None:
    listed = list_runs(host)
    [row] = listed.runs
    assert (row.id, row.kind, row.status, row.work) == (proposal.job_id, "proposal", "running", OUT)
    way = f"{row.id} is under way, for any agent that the server serves: submit_work with job_id"
    assert listed.next_step == f"{way} {row.id}; {OUT}"
    shown = inspect(host, row.id)
    assert OUT in shown.text.splitlines()
    assert shown.next_step == listed.next_step


def test_work_that_was_abandoned_is_told_as_overdue_until_it_comes_back(
    host: Workspace, clock: Clock, proposal: Proposed
) -> None:
    clock.now += 3600
    overdue = "work was out until 2027-01-15 08:15 UTC and did not come back: whoever asks for work gets it anew"
    assert list_runs(host).runs[0].work == overdue
    again = submit_work(host, [], proposal.job_id)
    assert list_runs(host).runs[0].work == OUT.replace("08:15", "09:15")
    Agent(SEED).do(again.work[0].folder)
    submit_work(host, [{"work_id": again.work[0].work_id}])
    assert list_runs(host).runs[0].work == ""


def test_a_proposal_that_has_ended_is_listed_with_the_runs(host: Workspace, proposal: Proposed) -> None:
    agent = Agent(1)
    agent.do(proposal.work[0].folder)
    done = driven(host, agent, submit_work(host, [{"work_id": proposal.work[0].work_id}])).proposed
    assert done
    assert done.candidate_id
    listed = list_runs(host)
    [row] = listed.runs
    assert (row.status, row.verdict, row.n_calls, row.n_test_calls) == ("finished", None, 1, 0)
    assert listed.next_step == f"skillopt-mcp show {row.id}"
    shown = inspect(host, row.id)
    assert f"outcome: {done.status}; candidate {done.candidate_id}" in shown.text.splitlines()
    assert shown.next_step == ""


def test_nothing_goes_on_with_a_proposal_for_a_version_that_is_live_no_more(
    place: Place, host: Workspace, proposal: Proposed
) -> None:
    place.main.write_text("# Mine\n")
    host.skill("ledger-clerk")
    assert list_runs(host).next_step == f"skillopt-mcp show {proposal.job_id}"


def test_a_run_that_stopped_goes_on_by_replay(workspace: Workspace) -> None:
    run = start_run(workspace, "ledger-clerk", SMALL)
    assert list_runs(workspace).next_step == "skillopt-mcp replay ledger-clerk --resume"
    assert inspect(workspace, run.id).next_step == "skillopt-mcp replay ledger-clerk --resume"


def test_a_run_and_its_promotion_test_are_told_apart_and_together(workspace: Workspace) -> None:
    run = start_run(workspace, "ledger-clerk", SMALL)
    result = replay(workspace, run)
    [row] = list_runs(workspace).runs
    assert result.candidate_id
    assert (row.n_calls, row.tokens) == (result.n_calls, result.tokens_in + result.tokens_out)
    own = sum(each.n_calls for each in workspace.store.ledger.list_rows(run.id))
    assert 0 < row.n_test_calls == row.n_calls - own
    assert 0 < row.test_tokens < row.tokens
    [(test_id, _)] = workspace.store.runs.list_finishes(run.id)
    lines = inspect(workspace, run.id).text.splitlines()
    calls = {line[:21].strip(): int(line[21:27]) for line in lines if line.startswith(("the run ", "test t", "both "))}
    assert calls == {"the run": own, f"test {test_id}": row.n_test_calls, "both together": row.n_calls}
    assert f"outcome: {result.verdict}; candidate {result.candidate_id}; {result.reason}" in lines


def test_what_was_used_beside_runs_is_told_with_them(place: Place, workspace: Workspace) -> None:
    result = replay(workspace, start_run(workspace, "ledger-clerk", Config(epochs=1, batch=10, max_pairs=10)))
    assert result.n_pairs
    assert list_runs(workspace).beside == []
    candidate_id = place.propose(workspace)
    evaluate_candidate(workspace, candidate_id, rule=ConfirmRule(max_pairs=8))
    calibrated = calibrate(workspace, "ledger-clerk", 4, 1.0, ConfirmRule(max_pairs=1))
    raced = race_candidates(workspace, [candidate_id], RaceRule(max_laps=4))
    by_kind = {used.contest.partition("-")[0]: used for used in list_runs(workspace, "ledger-clerk").beside}
    assert (by_kind["calibrate"], by_kind["race"]) == (calibrated.used, raced.used)
    assert (calibrated.used.n_calls, raced.used.n_calls, len(by_kind)) == (8, 8, 3)
    assert str(calibrated.used).startswith("8 calls, ")
    assert str(calibrated.used).endswith(" tokens, $0.00")
    assert str(calibrated.used.model_copy(update={"usd": None})).endswith(" tokens, price unknown")


def test_the_tables_of_a_run_fit_eighty_columns(workspace: Workspace) -> None:
    run = start_run(workspace, "ledger-clerk", SMALL)
    replay(workspace, run)
    text = inspect(workspace, run.id).text
    tables = text[text.index("\nstep epoch") : text.index("\nboth together")]
    assert {"optimizer reflect", "target    rollout"} <= {line[:21].rstrip() for line in tables.splitlines()}
    assert max(map(len, tables.splitlines())) <= 80


def test_a_narrow_terminal_gets_the_tables_of_a_run_without_the_columns_that_can_be_spared(
    workspace: Workspace,
) -> None:
    run = start_run(workspace, "ledger-clerk", SMALL)
    replay(workspace, run)

    def tables(width: int | None) -> list[str]:
        text = describe_run(workspace, run.id, width)
        return text[text.index("\nstep ") + 1 : text.index("\n\nits promotion test")].splitlines()

    whole, at_60 = tables(None), tables(60)
    assert tables(80) == whole
    assert max(map(len, at_60)) <= 60
    assert at_60[0].split() == ["step", "epoch", "edits", "train", "candidate", "current", "best", "verdict"]
    assert "(too narrow for: budget)" in at_60
    assert "(too narrow for: repeated, missing, failed)" in at_60
    steps = [line.split() for line in whole if line.lstrip()[:1].isdigit()]
    assert [line.split() for line in at_60 if line.lstrip()[:1].isdigit()] == [[*row[:2], *row[3:]] for row in steps]
    used = [line.split() for line in at_60 if line.startswith("both together")]
    assert used == [
        [*row[:3], *row[6:]] for row in (line.split() for line in whole if line.startswith("both together"))
    ]


def test_work_on_a_promotion_test_is_told_with_the_test_and_its_candidate(place: Place, host: Workspace) -> None:
    candidate = place.propose(host)
    standing = begun(host, candidate)
    told = f"{len(standing.work)} pieces of work are out until {OUT.partition(' until ')[2]}"
    assert told in inspect(host, standing.job_id).text.splitlines()
    assert (
        f"promotion test {standing.job_id}: test 1 of the skill; {told}" in inspect(host, candidate).text.splitlines()
    )
    submit_work(host, [{"work_id": item.work_id, "failed": "no time"} for item in standing.work], room=Room(0))
    assert "work" not in inspect(host, standing.job_id).text


def test_what_was_lost_with_a_process_is_told_beside_the_sums(place: Place, workspace: Workspace) -> None:
    n_asked = 0

    def answer(call: Call) -> Reply:
        nonlocal n_asked
        n_asked += 1
        if n_asked == 5:
            raise ZeroDivisionError("a bug that ends the process")
        return Reply("no", usage=Usage(10, 5, 0.25))

    use(workspace, Scripted(answer))
    run = start_run(workspace, "ledger-clerk", SMALL)
    with pytest.raises(ZeroDivisionError):
        replay(workspace, run)
    [row] = list_runs(workspace).runs
    assert (row.n_repeated, row.tokens_repeated, row.usd_repeated) == (0, 0, 0.0)
    replay(workspace, run)

    [row] = list_runs(workspace).runs

    assert (row.n_repeated, row.tokens_repeated, row.usd_repeated) == (1, 15, 0.25)
    said = (
        "up to 1 call was lost with a process that ended, and sent again; not in these sums: about 15 tokens, $0.25, "
        "if each took what the reply in its place did"
    )
    assert describe_run(workspace, run.id).splitlines()[-1] == said


def test_a_price_that_is_not_known_is_told_as_that_of_what_was_lost_too() -> None:
    row = LedgerRow("target", "rollout", 3, 0, 2, 30, 15, None, 1.0, tokens_repeated=20, usd_repeated=None)
    assert "about 20 tokens, at a price that is not known, if each took" in told_repeats(row)
    assert told_repeats(together([row, row])).startswith("up to 4 calls were lost")
    assert told_repeats(together([])) == ""
