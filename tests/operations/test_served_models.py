"""Served models: a promotion test knows which model really answered, whatever name it was asked by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import pytest
from workshop import PLACEBO, Place, as_if_real, use

from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.dispatch import has_decided
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.maintenance.verify import verify_store
from skillopt_mcp.promotion_tests import evaluate_candidate
from skillopt_mcp.promotions.consent import Consent, permit
from skillopt_mcp.promotions.promoting import promote_skill
from skillopt_mcp.promotions.review import review_candidate
from skillopt_mcp.proposals import propose_from_evidence
from skillopt_mcp.records.calls import Call, Reply, Rollout
from skillopt_mcp.records.results import Evaluated
from skillopt_mcp.show.inspecting import inspect
from skillopt_mcp.store.erasing import Erasing
from skillopt_mcp.store.ledger import ServedBy, Servings
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.trajectories import Recording, record_trajectory
from skillopt_mcp.workspace import Workspace

REAL = "anthropic:some-model"
PATCH = json.dumps({"reasoning": "", "edits": [{"op": "append", "content": "- Mind the units."}]})
MIXED = "live answered by small-model-v1, candidate by big-model-v2: this compares models, not texts"
Chooses = Callable[[Rollout, int], str]


def served_by(choose: Chooses, better: float = 0.95, live: float = 0.05) -> Scripted:
    """Return a target that counts as real, is better with the candidate, and is served by what is chosen per pair."""

    def answer(call: Call) -> Reply:
        assert isinstance(call.request, Rollout)
        n = int(call.draw.split("/")[1])
        rate = better if PLACEBO in call.request.files.text else live
        chance = hashlib.sha256(f"{call.request.digest} {call.draw}".encode()).digest()[0] / 256
        expected = str(call.request.task.judge.model_dump()["expected"])
        return Reply(expected if chance < rate else "no", served=choose(call.request, n))

    return Scripted(answer, name=REAL)


def is_new(rollout: Rollout) -> bool:
    """Return whether an attempt is the candidate's."""
    return PLACEBO in rollout.files.text


def by_prompt(rollout: Rollout, n: int) -> str:
    """Choose as a router does that looks at the prompt."""
    return "big-model-v2/fp_2" if is_new(rollout) else "small-model-v1/fp_1"


def evaluated(place: Place, workspace: Workspace, choose: Chooses, **rates: float) -> tuple[str, Evaluated]:
    """Return the candidate, and what its test came to under a standing permission."""
    use(workspace, served_by(choose, **rates))
    permit(workspace, "ledger-clerk", simulated=False)
    candidate = place.propose(workspace, PLACEBO)
    return candidate, evaluate_candidate(workspace, candidate)


def id_of_test(workspace: Workspace) -> str:
    """Return the id of the only promotion test."""
    [row] = workspace.store.decisions.list_tests(1)
    return row.id


def learn(place: Place, workspace: Workspace) -> str:
    """Return the id of a run in which an optimizer said which model it is."""
    use(workspace, Scripted(lambda call: Reply(PATCH, served="optimizer-v1"), name=REAL), "optimizer")
    record_trajectory(workspace, str(place.skill), Recording("Do it.", hard=False, answer="no"))
    assert propose_from_evidence(workspace, str(place.skill)).candidate_id
    [run] = workspace.store.runs.list_runs(workspace.skill("ledger-clerk").id)
    return run.id


def test_where_each_version_had_a_model_of_its_own_no_text_wins_and_no_more_is_paid(
    place: Place, workspace: Workspace
) -> None:
    candidate, result = evaluated(place, workspace, by_prompt)
    target = workspace.backend("target")
    assert isinstance(target, Scripted)
    assert (result.verdict, result.reason) == ("undecided", f"{MIXED}, and decides nothing about them")
    assert (result.pairs_done, result.pairs_expected, target.n_calls) == (8, None, 16)
    assert "name a dated model as the target" in result.next_step.why
    assert evaluate_candidate(workspace, candidate, wait_s=0) == result
    assert target.n_calls == 16
    [row] = workspace.store.decisions.list_tests(1)
    assert has_decided(workspace.store, row)
    assert promote_skill(workspace, candidate, Consent.STANDING).status == "undecided"
    assert verify_store(place.store_path).problems == []


def test_it_rejects_nothing_then_either(place: Place, workspace: Workspace) -> None:
    _, result = evaluated(place, workspace, by_prompt, better=0.0, live=1.0)
    assert (result.verdict, MIXED in result.reason) == ("undecided", True)


def test_a_dated_model_decides_in_a_test_of_its_own(place: Place, workspace: Workspace) -> None:
    candidate, mixed = evaluated(place, workspace, by_prompt)
    use(workspace, dated := served_by(lambda rollout, n: "small-model-v1"))
    dated.name = dated.fingerprint = f"{REAL}-v1"
    result = evaluate_candidate(workspace, candidate)
    assert (mixed.verdict, result.verdict, "answered" in result.reason) == ("undecided", "accept", False)
    assert promote_skill(workspace, candidate, Consent.STANDING).status == "promoted"
    assert verify_store(place.store_path).problems == []


def test_an_alias_that_switches_for_both_versions_is_reported_and_no_more(place: Place, workspace: Workspace) -> None:
    candidate, result = evaluated(place, workspace, lambda _, n: "old-model" if n < 3 else "new-model")
    assert result.verdict == "accept"
    caveat = "; both versions were answered by new-model and old-model: the model changed in the course of the test"
    assert caveat in result.reason
    assert promote_skill(workspace, candidate, Consent.STANDING).status == "promoted"


@pytest.mark.parametrize("other", ["", "new-model"])
def test_an_accept_with_other_models_for_one_version_is_a_persons_to_promote(
    place: Place, workspace: Workspace, other: str
) -> None:
    def now_and_then(rollout: Rollout, n: int) -> str:
        if not other:
            return "old-model" if is_new(rollout) else ""
        return other if is_new(rollout) and n % 3 == 0 else "old-model"

    candidate, result = evaluated(place, workspace, now_and_then)
    assert result.verdict == "accept"
    assert "in part this compares models, not texts" in result.reason
    asked = promote_skill(workspace, candidate, Consent.STANDING)
    assert asked.status == "needs_approval"
    assert "in part this compares models, not texts" in asked.reason
    assert "in part" in str(review_candidate(workspace, candidate).reason)
    assert verify_store(place.store_path).problems == []


def test_fingerprints_of_one_model_are_kept_and_hold_nothing_up(place: Place, workspace: Workspace) -> None:
    candidate, result = evaluated(place, workspace, lambda rollout, n: f"one-model/fp_{n}{is_new(rollout):d}")
    assert (result.verdict, "answered" in result.reason) == ("accept", False)
    assert promote_skill(workspace, candidate, Consent.STANDING).status == "promoted"
    assert "live one-model/fp_00 (1)" in inspect(workspace, id_of_test(workspace)).text


def test_a_name_of_a_programs_own_backend_is_kept_on_one_line_and_short(place: Place, workspace: Workspace) -> None:
    evaluated(place, workspace, lambda *_: " two\nlines \ud800" + "x" * 999)
    name = f"two lines \ufffd{'x' * 189}"
    [row] = workspace.store.decisions.list_tests(1)
    assert {each.name for each in workspace.store.table(Servings).list_of_test(row)} == {name}


def test_without_the_names_of_models_a_verdict_stays_as_it_is(place: Place, workspace: Workspace) -> None:
    use(workspace, as_if_real())
    place.accepted(workspace)
    [(_, decision)] = workspace.store.decisions.list_decisions()
    assert "served" not in decision.inputs
    assert "models that answered" not in inspect(workspace, id_of_test(workspace)).text


def test_a_few_pairs_of_a_router_that_takes_turns_hold_nothing_up(place: Place, workspace: Workspace) -> None:
    use(workspace, served_by(by_prompt, better=0.5, live=0.5))
    candidate, rule = place.propose(workspace, PLACEBO), ConfirmRule()
    first = evaluate_candidate(workspace, candidate, rule=rule)
    assert (first.verdict, first.pairs_done) == ("undecided", 4)
    assert first.reason.count(MIXED) == 1
    assert first.next_step.action == "evaluate_candidate"
    use(workspace, served_by(lambda rollout, n: "small-model-v1"))
    assert evaluate_candidate(workspace, candidate, rule=rule).pairs_done == 8


def test_a_forged_word_on_who_answered_does_not_verify(place: Place, workspace: Workspace) -> None:
    evaluated(place, workspace, by_prompt)
    forged = "replace(inputs, 'big-model-v2', 'small-model-v1')"
    pool = Pool(place.store_path)
    with pool.write() as connection:
        connection.execute(f"update decision set inputs = {forged}")
    pool.close()
    problems = [str(each) for each in verify_store(place.store_path).problems]
    assert "decision 1 (confirm) does not recompute: its pairs were answered by other models" in problems


def test_an_erased_answer_keeps_who_gave_it_and_its_store_is_sound(place: Place, workspace: Workspace) -> None:
    run_id = learn(place, workspace)
    assert workspace.store.table(Erasing).clear_calls([1])[0] == 1
    assert verify_store(place.store_path).problems == []
    assert workspace.store.table(Servings).list_of_scope(run_id) == [ServedBy("optimizer", "optimizer-v1", 1)]
