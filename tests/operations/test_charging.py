"""Charging: a run pays for its own calls, and of a promotion test for the pairs alone that it asked for."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from workshop import LESSONS, Place, right_when_taught, use

from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.gates.racing import RaceRule
from skillopt_mcp.operations.looks.inspecting_runs import describe_run, steps_of
from skillopt_mcp.operations.results import Replayed
from skillopt_mcp.operations.runs.concluding import on_store
from skillopt_mcp.operations.runs.replaying import replay, start_run
from skillopt_mcp.operations.spending.accounting import Accounted, told_repeats, told_sends
from skillopt_mcp.operations.spending.charging import Account, Part, shares, together, told_price, told_under_way
from skillopt_mcp.operations.spending.listing_runs import RunRow, list_runs, told_own, way_on
from skillopt_mcp.operations.testing.crediting import credit_candidate
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.testing.racing import race_candidates
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.optimizer.progress import Progress
from skillopt_mcp.records.budgets import Caps, Spent
from skillopt_mcp.records.calls import Call, Question, Reply, Rollout, Usage
from skillopt_mcp.store.ledger import LedgerRow
from skillopt_mcp.store.locations import store_path

SMALL = Config(epochs=1, batch=30, sessions=0, slow_update=False, meta_skill=False, step_buffer=False, max_pairs=2)
PATCH = json.dumps({"reasoning": "r", "edits": [{"op": "append", "content": LESSONS}]})
PRICED = Usage(50, 10, 0.25)


def taught(workspace: Workspace, patch: str = PATCH, answer: Callable[[Call], str] = right_when_taught) -> None:
    """Let every run of a workspace end in the same best version, at 0.25 dollars a rollout."""
    use(workspace, Scripted(lambda call: Reply(answer(call), usage=PRICED), name="simulated:honest"))
    use(workspace, Scripted(lambda _: Reply(patch, usage=Usage(100, 20, 1.0)), name="simulated:honest"), "optimizer")


def trained(workspace: Workspace, seed: int = 1) -> Replayed:
    return replay(workspace, start_run(workspace, "ledger-clerk", SMALL.model_copy(update={"seed": seed})))


def rows(workspace: Workspace) -> dict[str, RunRow]:
    return {row.id: row for row in list_runs(workspace).runs}


def test_runs_that_share_a_promotion_test_are_charged_with_the_pairs_that_each_asked_for(workspace: Workspace) -> None:
    taught(workspace)
    first = trained(workspace)
    assert (first.verdict, first.pairs_before, first.n_pairs) == ("undecided", 0, 2)
    before = rows(workspace)[first.run_id]
    second = trained(workspace, seed=2)
    assert (second.pairs_before, second.n_pairs) == (2, 4)

    listed = list_runs(workspace)
    told = {row.id: row for row in listed.runs}
    assert told[first.run_id] == before
    for result in (first, second):
        row = told[result.run_id]
        assert row.n_calls == row.n_sent == row.n_answered == result.n_calls
        assert row.n_sent == workspace.store.budgets.get_spent(row.id).calls
        assert (row.usd, row.usd_at_most, row.n_test_calls) == (result.usd, result.usd, 4)
    [(n_all, usd)] = workspace.store._pool.rows("select count(*), sum(usd) from reply")
    assert sum(row.n_calls for row in listed.runs) == n_all
    assert sum(row.usd or 0.0 for row in listed.runs) == usd
    assert ([(each.n_calls, each.usd) for each in listed.tests], listed.beside) == ([(8, 2.0)], [])
    shown = describe_run(workspace, second.run_id)
    assert ": charged here with pairs 3 to 4, which this run asked for; the whole test has used 8 calls, 480" in shown


def test_pairs_that_were_asked_for_by_hand_are_beside_the_runs_that_share_their_test(
    place: Place, workspace: Workspace
) -> None:
    taught(workspace)
    first = trained(workspace)
    assert first.candidate_id
    done = evaluate_candidate(workspace, first.candidate_id, rule=ConfirmRule(max_pairs=3))
    assert done.pairs_done == 5
    second = trained(workspace, seed=2)
    assert second.pairs_before == 5
    listed = list_runs(workspace)
    assert [each.n_calls for each in listed.beside] == [6]
    other = place.root / "other"
    other.mkdir()
    (other / "SKILL.md").write_text("---\nname: other\ndescription: Another.\n---\n\n# Other\n")
    workspace.skill(str(other))
    elsewhere = list_runs(workspace, "other")
    assert (elsewhere.runs, elsewhere.beside, elsewhere.tests) == ([], listed.beside, [])
    [(n_all,)] = workspace.store._pool.rows("select count(*) from reply")
    assert sum(row.n_calls for row in listed.runs) + 6 == n_all


def test_a_run_waits_for_a_turn_of_its_test_that_is_drawn_elsewhere_and_draws_none_of_its_own(
    place: Place, workspace: Workspace
) -> None:
    taught(workspace)
    first = trained(workspace)
    [(test_id, _)] = workspace.store.runs.list_finishes(first.run_id)
    other, told = place.open(), list[Progress]()
    taught(other)
    elsewhere = lock_run(workspace.store.locks_path, test_id)
    assert elsewhere

    def hear(progress: Progress) -> None:
        if progress.stage == "confirm" and not told:
            told.append(progress)
            elsewhere.release()
            assert evaluate_candidate(other, str(first.candidate_id), rule=ConfirmRule(max_pairs=2)).pairs_done == 4

    second = replay(workspace, start_run(workspace, "ledger-clerk", SMALL.model_copy(update={"seed": 2})), hear)
    assert [(each.n_done, each.n_total) for each in told] == [(2, 2)]
    assert (second.verdict, second.n_pairs) == ("undecided", 4)


def test_no_pair_is_in_the_parts_of_two_runs_whichever_of_them_ends_first(workspace: Workspace) -> None:
    taught(workspace)
    first, second = trained(workspace), trained(workspace, seed=2)
    [(test_id, _)] = workspace.store.runs.list_finishes(first.run_id)
    assert shares(workspace.store, test_id) == {
        first.run_id: Part(test_id, 0, 2), second.run_id: Part(test_id, 2, 4),
    }  # fmt: skip
    third = start_run(workspace, "ledger-clerk", SMALL.model_copy(update={"seed": 3}))
    fourth = start_run(workspace, "ledger-clerk", SMALL.model_copy(update={"seed": 4}))
    for run in (third, fourth):
        workspace.store.runs.begin_finish(run.id, test_id, 4)
    parts = shares(workspace.store, test_id)
    assert (parts[fourth.id], parts[third.id].is_empty) == (Part(test_id, 4, None), True)
    assert str(parts[third.id]) == "none of its pairs"
    done = replay(workspace, third)
    assert (done.pairs_before, done.n_pairs) == (4, 6)
    parts = shares(workspace.store, test_id)
    assert (parts[third.id], parts[fourth.id]) == (Part(test_id, 4, 6), Part(test_id, 6, None))


def test_checks_by_commands_are_no_calls() -> None:
    asked = LedgerRow("target", "rollout", 8, 1, 0, 400, 80, 2.0, 900.0)
    checked = LedgerRow("judge", "check", 7, 0, 0, 0, 0, 0.0, 30.0)
    assert together([asked, checked]) == replace(asked, role="", stage="")


def test_one_failed_attempt_of_unknown_price_leaves_the_others_told(workspace: Workspace) -> None:
    taught(workspace)
    n_asked = 0

    def answer(call: Call) -> Reply:
        nonlocal n_asked
        n_asked += 1
        if n_asked == 5:
            raise BackendFault("internal", "a bug of the backend")
        return Reply(right_when_taught(call), usage=PRICED)

    use(workspace, Scripted(answer, name="simulated:honest"))
    result = trained(workspace)
    row = rows(workspace)[result.run_id]
    assert (row.usd, row.n_unpriced, row.n_failed) == (None, 1, 1)
    assert row.n_sent == row.n_answered + 1 == row.n_calls
    [(known,)] = workspace.store._pool.rows("select sum(usd) from reply")
    assert row.usd_known == known
    assert f"; ${known:.2f} + 1 send of unknown price" in describe_run(workspace, result.run_id)


def test_what_caps_were_charged_tells_a_price_only_as_far_as_it_is_known(workspace: Workspace) -> None:
    workspace.caps = Caps(calls=1000)
    taught(workspace)
    priced = trained(workspace)
    n_sent = priced.n_calls
    told = f"caps: --max-calls 1000; used {n_sent} sends, {priced.tokens_in + priced.tokens_out:,} tokens"
    assert f"{told}, ${priced.usd:.2f}, " in describe_run(workspace, priced.run_id)
    unpriced = Scripted(lambda call: Reply(right_when_taught(call), usage=Usage(50, 10)), name="simulated:honest")
    use(workspace, unpriced)
    free = trained(workspace, seed=2)
    n_asked = unpriced.n_calls
    assert f" tokens, $5.00 + {n_asked} sends of unknown price, " in describe_run(workspace, free.run_id)
    use(workspace, Scripted(lambda _: Reply(PATCH, usage=Usage(9, 9)), name="simulated:honest"), "optimizer")
    assert " tokens, price unknown, " in describe_run(workspace, trained(workspace, seed=3).run_id)


def test_what_was_sent_is_told_whole_while_nothing_came_back(place: Place, workspace: Workspace) -> None:
    workspace.caps = Caps(calls=1000)
    n_asked = 0

    def answer(call: Call) -> Reply:
        nonlocal n_asked
        n_asked += 1
        if n_asked == 5:
            raise ZeroDivisionError("a bug that ends the process")
        return Reply("no", usage=PRICED)

    use(workspace, Scripted(answer, name="simulated:honest"))
    run = start_run(workspace, "ledger-clerk", SMALL)
    with pytest.raises(ZeroDivisionError):
        replay(workspace, run)
    row = rows(workspace)[run.id]
    spent = workspace.store.budgets.get_spent(run.id)
    assert (row.n_sent, row.n_answered, row.n_unanswered) == (spent.calls, spent.calls - 1, 1)
    assert told_sends(row).startswith(f"{spent.calls} sent: {spent.calls - 1} answered, 1 without an answer (")
    assert told_under_way(workspace.store, run.id).startswith("up to 1 call was under way: ")
    replay(workspace, run)
    after = rows(workspace)[run.id]
    assert (after.n_sent - after.n_answered, after.n_unanswered, after.n_repeated) == (1, 1, 1)
    assert told_under_way(workspace.store, run.id) == ""


def test_of_sends_without_an_answer_those_of_a_host_are_billed_by_no_api() -> None:
    told = Accounted(n_sent=9, n_answered=4, n_unanswered=5, n_with_host=2, n_repeated=3, n_host_again=1)
    assert told_sends(told) == (
        "9 sent: 4 answered, 5 without an answer (2 of them with a host, or never handed in: each may have taken an "
        "agent run, and no API was billed for it; the others under way, or lost with a process that ended: they may be "
        "paid for all the same)"
    )
    assert told_repeats(told) == (
        "1 work item handed out again, as nobody had handed in an answer in time; up to 2 calls were lost with a "
        "process that ended, and sent again; not in these sums: about 0 tokens, $0.00, if each took what the reply in "
        "its place did"
    )


@pytest.mark.parametrize(
    ("known", "n_unpriced", "at_most", "told"),
    [
        (0.14, 0, 0.14, "$0.14"),
        (0.14, 0, 0.21, "$0.14, at most $0.21"),
        (0.39, 65, 0.0, "$0.39 + 65 sends of unknown price"),
        (0.39, 1, 0.5, "$0.39 + 1 send of unknown price, at most $0.50"),
        (0.39, 130, 0.0, "$0.39 + 130 sends of unknown price"),
        (0.0, 100, 0.0, "price unknown"),
    ],
)
def test_a_price_is_told_as_far_as_it_is_known(known: float, n_unpriced: int, at_most: float, told: str) -> None:
    assert told_price(known, n_unpriced, 100, at_most) == told


def test_the_steps_of_a_run_name_their_candidates_and_so_does_the_way_to_credit_its_best(workspace: Workspace) -> None:
    def answer(call: Call) -> str:
        assert isinstance(call.request, Rollout)
        lesson = ("- A.", "- B.")[zlib.crc32(call.request.task.prompt.encode()) % 2]
        right = str(call.request.task.judge.model_dump()["expected"])
        return right if lesson in call.request.files.text else "no"

    def patch(call: Call) -> str:
        assert isinstance(call.request, Question)
        learned = "- A." if call.stage == "reflect" else "- B."
        lesson = "- B." if learned in call.request.evidence else "- A."
        edits = [{"op": "append", "content": text} for text in (lesson, f"{lesson[:-1]} again.")]
        return json.dumps({"reasoning": "r", "edits": edits})

    taught(workspace, answer=answer)
    use(workspace, Scripted(patch, name="simulated:honest"), "optimizer")
    result = replay(
        workspace, start_run(workspace, "ledger-clerk", SMALL.model_copy(update={"batch": 15, "gate": "strict"}))
    )
    assert [step.verdict for step in result.steps] == ["accept_best", "accept_best"]
    steps = steps_of(workspace, result.run_id)
    assert steps == result.steps
    named = [step.candidate_id for step in steps]
    lines = describe_run(workspace, result.run_id).splitlines()
    assert [line.split()[1] for line in lines if line.startswith("     candidate c-")] == named
    assert result.candidate_id
    assert result.candidate_id not in named
    wanted = (
        f"'{result.candidate_id}' has 0 applied edits of its own: there is nothing to tell apart; it is the best "
        f"version of run {result.run_id}: name a candidate of its steps: {named[0]} (step 1, accept best), {named[1]} "
        "(step 2, accept best)"
    )
    with pytest.raises(BadInput, match=re.escape(wanted)):
        credit_candidate(workspace, result.candidate_id)


def test_replies_that_could_not_be_used_are_counted_by_role(workspace: Workspace) -> None:
    taught(workspace)
    n_asked = 0

    def answer(call: Call) -> str:
        nonlocal n_asked
        n_asked += 1
        return "not json" if n_asked == 1 else PATCH

    use(workspace, Scripted(answer, name="simulated:honest"), "optimizer")
    result = trained(workspace)
    lines = describe_run(workspace, result.run_id).splitlines()
    assert "asked again, as the reply could not be used: optimizer 1" in lines


def test_the_settings_of_a_run_that_differ_from_the_defaults_are_listed(workspace: Workspace) -> None:
    taught(workspace)
    result = trained(workspace)
    row = rows(workspace)[result.run_id]
    defaults = Config().model_dump(mode="json")
    settings = SMALL.model_copy(update={"seed": 1}).model_dump(mode="json")
    assert row.config == {name: value for name, value in settings.items() if value != defaults[name]}
    assert row.config["seed"] == 1
    assert "alpha" not in row.config


def test_a_run_of_a_backend_that_no_command_can_name_goes_on_by_its_program(workspace: Workspace) -> None:
    run = replace(start_run(workspace, "ledger-clerk", SMALL), status="stopped")
    assert told_own(run) == ""
    own = replace(run, target="slow")
    told = f"{run.id} was begun by a program with a backend of its own ('slow'): call train(...) again with the same"
    assert way_on(workspace, own) == told_own(own) == f"{told} arguments"
    assert "('env:nowhere')" in told_own(replace(run, target="env:nowhere"))
    assert "('mine')" in told_own(replace(run, judge="mine"))


def test_what_watches_a_contest_or_a_test_hears_of_each_reply(place: Place, workspace: Workspace) -> None:
    taught(workspace)
    heard: list[Call] = []
    workspace.on_reply = lambda call, _: heard.append(call)
    candidate = place.propose(workspace)
    race_candidates(workspace, [candidate], RaceRule(max_laps=4))
    assert len(heard) == 8
    evaluate_candidate(workspace, candidate, rule=ConfirmRule(max_pairs=4))
    assert len(heard) == 16


def test_commands_name_the_store_unless_it_is_the_users_own(tmp_path: Path) -> None:
    text = "skillopt-mcp promote c-1, or: skillopt-mcp show r-1"
    assert on_store(text, store_path(None, {})) == text
    path = tmp_path / "my store.db"
    named = f"skillopt-mcp --store '{path}'"
    assert on_store(text, path) == f"{named} promote c-1, or: {named} show r-1"


def test_what_a_sum_of_prices_leaves_behind_is_not_told() -> None:
    charged = Spent(usd=0.007080000000000003)
    assert Account((), (), charged).told.usd_at_most == 0.00708
    used = LedgerRow("target", "rollout", 2, 0, 0, 2, 2, 0.1 + 0.2, 5.0, usd_known=0.1 + 0.2)
    told = Account((used,), (), Spent(2, 4, 0.1 + 0.2)).told
    assert (told.usd_known, told.usd_at_most, together([used]).usd) == (0.3, 0.3, 0.3)
