"""Calibrating: what it costs, reports and keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
from workshop import LESSONS, PLACEBO, Place, use

from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Answer, Scripted
from skillopt_mcp.candidates import propose_edits
from skillopt_mcp.errors import BadInput, Busy, Refused, SkillOptError
from skillopt_mcp.gates.calibration import Calibration
from skillopt_mcp.gates.confirm import ConfirmRule, no_worse
from skillopt_mcp.gates.recompute import recomputed
from skillopt_mcp.promotion_tests import (
    GainRow,
    calibrate,
    conclusion,
    describe_outlook,
    detectable,
    evaluate_candidate,
    outlook,
)
from skillopt_mcp.promotions.consent import Consent
from skillopt_mcp.promotions.promoting import promote_skill
from skillopt_mcp.records.calls import Call, Rollout
from skillopt_mcp.records.tasks import Split
from skillopt_mcp.workspace import Workspace

HARMS = "- Answer with nothing but the word no."


def passing(rate: Callable[[Rollout], float]) -> Scripted:
    """Return a target that passes with this probability, by a chance that the call's key decides."""

    def answer(call: Call) -> Answer:
        assert isinstance(call.request, Rollout)
        chance = int.from_bytes(hashlib.sha256(call.key("world")).digest()[:8], "big") / (1 << 64)
        expected = call.request.task.judge.model_dump()["expected"]
        return str(expected) if chance < rate(call.request) else "no"

    return Scripted(answer)


def by_text(rollout: Rollout) -> float:
    """Return the pass rate of a version by what it holds."""
    text = rollout.files.text
    return 0.5 + 0.4 * (LESSONS in text) - 0.4 * (HARMS in text)


def splits_asked(target: Scripted) -> set[Split]:
    """Return the splits whose tasks the target attempted."""
    return {call.request.task.split for call in target.calls if isinstance(call.request, Rollout)}


def test_calibration_tells_flips_failures_costs_and_what_a_gain_takes(place: Place, workspace: Workspace) -> None:
    target = passing(lambda rollout: 0.7)
    use(workspace, target)
    found = calibrate(workspace, "ledger-clerk", 100, gain=0.16)
    assert (found.n_pairs, target.n_calls, splits_asked(target)) == (100, 200, {"test"})
    assert found.flip_rate == pytest.approx(0.42, abs=0.12)
    assert found.failure_rate == pytest.approx(0.3, abs=0.1)
    assert found.smallest_gain is not None
    assert 0.1 < found.smallest_gain < 0.3
    (row,) = found.gains
    assert row.pairs is not None
    assert (row.gain, row.pairs > 100, 0.3 < row.power < 1) == (0.16, True, True)
    assert found.reason.startswith(f"a gain of 0.16 is accepted by {row.power:.0%} of the tests; ")
    assert (found.alpha, found.usd_per_rollout) == (pytest.approx(0.0304, abs=1e-4), None)
    again = calibrate(workspace, "ledger-clerk", 100, gain=0.16)
    assert (again, target.n_calls) == (found, 200)
    version = workspace.skill("ledger-clerk").live_version
    decision = workspace.store.decisions.latest(1, "calibrate", version, version)
    assert decision is not None
    assert recomputed(decision.gate, decision.inputs) == decision.verdict == "measured"


@pytest.mark.parametrize(("failing", "begins"), [(0.9, "gains show: "), (0.5, "only large gains show: ")])
def test_a_calibration_concludes_what_follows_from_its_numbers(failing: float, begins: str) -> None:
    found, rule = Calibration(100, 0.0, failing), ConfirmRule(max_pairs=30)
    least = detectable(found, rule)
    assert least is not None
    said = conclusion(found, rule, None, [])
    assert said.startswith(f"{begins}four of five tests of up to 30 pairs accept a candidate that fixes ")
    assert f"{least / failing:.0%} of what the live version fails here, which is {least:.2f} of {failing:.2f}" in said


def test_a_gain_that_was_asked_about_is_answered_where_it_is_not_possible_too() -> None:
    found, rule = Calibration(100, 0.1, 0.35), ConfirmRule(max_pairs=3)
    cannot = conclusion(found, rule, 0.8, [])
    assert cannot.startswith("a gain of 0.80 is not possible: the live version fails 35.0% of these tasks, and no cand")
    assert cannot.endswith(f"; {describe_outlook(outlook(found, rule))}")
    can = conclusion(found, rule, 0.3, [GainRow(gain=0.3, power=0.42, pairs=None)])
    assert can.startswith("a gain of 0.30 is accepted by 42% of the tests; ")


def test_where_nothing_fails_an_evaluation_says_that_it_cannot_succeed(place: Place, workspace: Workspace) -> None:
    use(workspace, passing(lambda rollout: 1.0))
    found = calibrate(workspace, "ledger-clerk", 30)
    assert found.smallest_gain is None
    assert found.gains == []
    assert found.reason.startswith("this test can hardly accept anything: the live version fails 0.0% of these tasks")
    result = evaluate_candidate(workspace, place.propose(workspace), rule=ConfirmRule(max_pairs=12))
    assert result.verdict == "undecided"
    assert [(note.code, note.numbers["max_pairs"]) for note in result.notes if note.numbers] == [("hardly_accepts", 12)]


def test_a_test_with_too_few_pairs_says_so_without_any_calibration(place: Place, workspace: Workspace) -> None:
    result = evaluate_candidate(workspace, place.propose(workspace, PLACEBO), rule=ConfirmRule(max_pairs=3))
    [note] = [note for note in result.notes if note.code == "cannot_accept"]
    assert (round(note.numbers["alpha"], 2), note.numbers["max_pairs"]) == (0.03, 3)


def test_calibration_without_tasks_or_answers_is_an_error_and_no_number(place: Place) -> None:
    workspace = place.open()
    workspace.skill(str(place.skill))
    with pytest.raises(BadInput, match="no held-out task"):
        calibrate(workspace, "ledger-clerk")
    place.add_tasks(workspace, 9)
    use(workspace, Scripted(lambda call: BackendFault("refusal", "no")))
    with pytest.raises(SkillOptError):
        calibrate(workspace, "ledger-clerk", 6)
    for wrong in ({"n_pairs": 0}, {"gain": 0.0}, {"gain": 2.0}):
        with pytest.raises(BadInput):
            calibrate(workspace, "ledger-clerk", **wrong)  # type: ignore[arg-type]


def test_two_processes_do_not_run_one_contest_at_once(workspace: Workspace) -> None:
    def once_more(rollout: Rollout) -> float:
        with pytest.raises(Busy, match=r"'calibrate-.* is locked by another process"):
            calibrate(workspace, "ledger-clerk", 1)
        return 0.5

    use(workspace, passing(once_more))
    assert calibrate(workspace, "ledger-clerk", 1).n_pairs == 1


def test_a_shorter_skill_is_accepted_when_a_larger_loss_is_excluded(place: Place, workspace: Workspace) -> None:
    use(workspace, passing(lambda rollout: 0.9))
    filler = next(line for line in place.main.read_text().splitlines() if line.startswith("- "))
    proposed = propose_edits(workspace, str(place.skill), [{"op": "delete", "target": filler}])
    assert proposed.candidate_id
    rule = no_worse(0.1)
    result = evaluate_candidate(workspace, proposed.candidate_id, rule=rule)
    assert (result.verdict, result.claim) == ("accept", "no worse by more than 0.1 on these 30 held-out tasks")
    assert result.reason.startswith("no worse by more than 0.1, and 8 % shorter on these tasks: evidence ")
    assert evaluate_candidate(workspace, proposed.candidate_id).claim == result.claim
    with pytest.raises(Refused, match=r"begun for another claim \(no worse by more than 0.1, on these 30"):
        evaluate_candidate(workspace, proposed.candidate_id, rule=no_worse(0.05))
    assert promote_skill(workspace, proposed.candidate_id, Consent.PERSON_SIMULATED).status == "promoted"


def test_a_longer_skill_that_is_no_worse_is_no_reason_to_promote(place: Place, workspace: Workspace) -> None:
    with pytest.raises(BadInput, match="is not 5 % shorter than the live version"):
        evaluate_candidate(workspace, place.propose(workspace), rule=no_worse(0.1))
