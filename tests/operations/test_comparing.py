"""Calibrating, racing, crediting, rotating, and other gates on old evidence: what each pays, tells and keeps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import pytest
from workshop import LESSONS, PLACEBO, Place, as_if_real, right_when_taught, use

from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Answer, Scripted
from skillopt_mcp.errors import BadInput, Busy, NotFound, Refused, SkillOptError
from skillopt_mcp.gates.calibration import Calibration
from skillopt_mcp.gates.confirm import ConfirmRule, no_worse
from skillopt_mcp.gates.credit import CreditRule
from skillopt_mcp.gates.racing import RaceRule
from skillopt_mcp.gates.recompute import recomputed
from skillopt_mcp.operations.candidates.proposing import propose_edits
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.changes.promoting import promote_skill, rollback_skill
from skillopt_mcp.operations.evidence.recording import Recording, record_trajectory
from skillopt_mcp.operations.runs.policies import replay_policy
from skillopt_mcp.operations.runs.replaying import replay, start_run
from skillopt_mcp.operations.tasks.rotating import review_rotation, rotate_worn_tasks
from skillopt_mcp.operations.testing.calibrating import GainRow, calibrate, conclusion, detectable, outlook
from skillopt_mcp.operations.testing.concluding import NO_GAIN
from skillopt_mcp.operations.testing.crediting import credit_candidate, rescue_candidate
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.testing.racing import race_candidates
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.calls import Call, Question, Rollout
from skillopt_mcp.records.tasks import Split

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


def bundle(place: Place, workspace: Workspace, *contents: str) -> str:
    """Return a candidate of one edit per content."""
    edits = [{"op": "append", "content": content} for content in contents]
    proposed = propose_edits(workspace, str(place.skill), edits)
    assert proposed.candidate_id
    return proposed.candidate_id


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
    assert cannot.endswith(f"; {outlook(found, rule)}")
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
    assert "so no candidate can gain more, and 12 pairs do not show that much" in result.reason


def test_a_test_with_too_few_pairs_says_so_without_any_calibration(place: Place, workspace: Workspace) -> None:
    result = evaluate_candidate(workspace, place.propose(workspace, PLACEBO), rule=ConfirmRule(max_pairs=3))
    assert "this test cannot accept anything: at an error rate of 0.03" in result.reason
    assert "and 3 are allowed" in result.reason


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


def test_a_race_shares_the_live_version_drops_the_hopeless_and_accepts_nobody(
    place: Place, workspace: Workspace
) -> None:
    target = passing(by_text)
    use(workspace, target)
    good, bad = place.propose(workspace), place.propose(workspace, HARMS)
    found = race_candidates(workspace, [bad, good], RaceRule(max_laps=40), controls=["none"])
    by_arm = {row.arm: row for row in found.rows}
    assert found.leader == good
    assert by_arm[bad].dropped
    assert by_arm[bad].n < by_arm[good].n <= found.laps
    assert set(by_arm) == {good, bad, "no skill"}
    assert splits_asked(target) == {"val"}
    n_calls = target.n_calls
    assert race_candidates(workspace, [bad, good], RaceRule(max_laps=40), controls=["none"]) == found
    assert target.n_calls == n_calls
    assert promote_skill(workspace, good, Consent.PERSON_SIMULATED).status == "refused"


def test_a_race_that_is_led_by_what_needs_no_test_names_another_step(place: Place, workspace: Workspace) -> None:
    use(workspace, passing(by_text))
    good, bad = place.accepted(workspace), place.propose(workspace, HARMS)

    def step(*names: str) -> str:
        found = race_candidates(workspace, names, RaceRule(max_laps=10))
        assert found.leader == good
        return found.next_step

    test = f"Call evaluate_candidate with candidate_id {good}: only a promotion test accepts."
    assert step(good, bad) == test
    assert promote_skill(workspace, good, Consent.PERSON_SIMULATED).status == "promoted"
    assert step(good, bad) == f"{good} leads, but candidate '{good}' is what is live already: there is nothing to test."
    rollback_skill(workspace, "ledger-clerk", None, Consent.PERSON)
    assert step(good, bad).startswith(f"{good} leads. It was live, and a person rolled it back. To have it back")
    place.main.write_text(place.main.read_text() + "\n- Mine.\n")
    assert "rolled it back" in step(good, bad)


def test_a_race_of_what_was_made_from_another_version_says_to_rebase_it(place: Place, workspace: Workspace) -> None:
    use(workspace, passing(by_text))
    good = place.propose(workspace)
    place.main.write_text(place.main.read_text() + "\n- Mine.\n")
    step = race_candidates(workspace, [good], RaceRule(max_laps=10)).next_step
    assert step.startswith(f"{good} leads, but the live file of 'ledger-clerk' is version ")
    assert step.endswith(f"propose the edits again, or run: skillopt-mcp rebase {good}.")


def test_a_race_that_is_led_by_what_a_test_rejected_sends_it_to_no_other(place: Place, workspace: Workspace) -> None:
    use(workspace, passing(by_text))
    good = place.propose(workspace)
    use(workspace, passing(lambda rollout: 1.0 - by_text(rollout)))
    while (tested := evaluate_candidate(workspace, good)).verdict == "undecided":
        pass
    assert tested.verdict == "reject"
    use(workspace, passing(by_text))
    found = race_candidates(workspace, [good], RaceRule(max_laps=10))
    assert found.next_step == f"{good} leads, but its promotion test has rejected it. {NO_GAIN}"


def tutor(text: str) -> Scripted:
    """Return an optimizer that rewrites the skill to end with a text."""

    def answer(call: Call) -> str:
        assert isinstance(call.request, Question)
        skill = call.request.evidence.partition("skill\n")[2].partition("\n```")[0]
        return json.dumps({"reasoning": "all at once", "skill": f"{skill}\n{text}\n"})

    return Scripted(answer)


def recorded(workspace: Workspace) -> None:
    """Record a failed attempt."""
    new = Recording(task="Add up the page.", answer="41", hard=False, reason="it is 42")
    record_trajectory(workspace, "ledger-clerk", new)


def test_a_one_shot_rewrite_races_as_a_control_and_is_paid_once(place: Place, workspace: Workspace) -> None:
    target, optimizer = passing(by_text), tutor(LESSONS)
    use(workspace, target)
    use(workspace, optimizer, "optimizer")
    weak = place.propose(workspace, PLACEBO)
    start = start_run(workspace, "ledger-clerk", Config(epochs=1, batch=10))
    use(workspace, Scripted(lambda call: BackendFault("refusal", "no")), "optimizer")
    replay(workspace, start)
    use(workspace, optimizer, "optimizer")
    n_trained = target.n_calls
    found = race_candidates(workspace, [weak], RaceRule(max_laps=30), controls=["rewrite", "none", "rewrite"])
    assert [row.arm for row in found.rows] == [weak, "no skill", "one-shot rewrite"]
    assert found.rows[2].gain > 0.2
    assert optimizer.n_calls == 1
    assert target.n_calls - n_trained <= 4 * 30
    [question] = [call.request for call in optimizer.calls]
    assert isinstance(question, Question)
    assert len(question.refs) == 30
    assert found.leader in (weak, None)
    assert (
        f"Mind that the control one-shot rewrite gained more. The rewrite is candidate {found.rewrite_id}"
        in found.next_step
    )
    n_calls = target.n_calls
    assert race_candidates(workspace, [weak], RaceRule(max_laps=30), controls=["none", "rewrite"]) == found
    assert (target.n_calls, optimizer.n_calls) == (n_calls, 1)
    assert found.rewrite_id
    made = workspace.store.candidates.get_candidate(found.rewrite_id)
    assert LESSONS in workspace.store.skills.get_files(made.skill_id, made.version_id).text


def test_a_skill_alone_races_its_controls(place: Place, workspace: Workspace) -> None:
    use(workspace, passing(lambda rollout: 0.9 if rollout.files.files else 0.1))
    found = race_candidates(workspace, ["ledger-clerk"], RaceRule(max_laps=30), controls=["none"])
    assert ([row.arm for row in found.rows], found.leader, found.rewrite_id) == (["no skill"], None, None)
    assert found.rows[0].dropped
    assert found.next_step == "The live skill holds its own beside the controls."
    use(workspace, Scripted(lambda _: "no", name="never"))
    tie = race_candidates(workspace, ["ledger-clerk"], RaceRule(max_laps=4), controls=["none"])
    assert tie.next_step.startswith("No difference was found: on these tasks the live skill does no better")
    with pytest.raises(BadInput, match="alone is no race"):
        race_candidates(workspace, ["ledger-clerk"])


def test_a_rewrite_needs_evidence_an_optimizer_and_a_usable_text(place: Place, workspace: Workspace) -> None:
    target = passing(by_text)
    use(workspace, target)
    names = ["ledger-clerk"]
    with pytest.raises(BadInput, match="there is nothing to rewrite the skill from"):
        race_candidates(workspace, names, controls=["rewrite"])
    recorded(workspace)
    for reply in ('{"reasoning": "fine as it is", "skill": ""}', "sorry", '{"reasoning": "", "skill": "# All else"}'):
        use(workspace, Scripted(lambda call, reply=reply: reply), "optimizer")  # type: ignore[misc]
        with pytest.raises(BadInput, match="the optimizer gave no rewrite to race"):
            race_candidates(workspace, names, controls=["rewrite"])
    assert target.n_calls == 0


def test_only_candidates_of_one_version_race(place: Place, workspace: Workspace) -> None:
    first = place.propose(workspace)
    with pytest.raises(BadInput, match="no candidate was named"):
        race_candidates(workspace, [])
    with pytest.raises(NotFound):
        race_candidates(workspace, [first, "c-000000000000"])
    place.main.write_text(place.main.read_text() + "\n- Mine.\n")
    with pytest.raises(BadInput, match="one version of one skill"):
        race_candidates(workspace, [first, place.propose(workspace, PLACEBO)])


def test_two_processes_do_not_run_one_contest_at_once(place: Place, workspace: Workspace) -> None:
    candidate = place.propose(workspace)

    def racing(rollout: Rollout) -> float:
        with pytest.raises(Busy, match="another process is at 'race-"):
            race_candidates(workspace, [candidate])
        return 0.5

    use(workspace, passing(racing))
    assert race_candidates(workspace, [candidate], RaceRule(max_laps=1)).laps == 1


def test_credit_tells_edits_apart_and_keeps_a_smaller_candidate(place: Place, workspace: Workspace) -> None:
    target = passing(by_text)
    use(workspace, target)
    whole = bundle(place, workspace, LESSONS, HARMS)
    found = credit_candidate(workspace, whole, CreditRule())
    assert [row.verdict for row in found.rows] == ["helps", "harms"]
    assert found.rows[1].gain < 0 < found.rows[0].gain
    assert splits_asked(target) == {"val"}
    assert found.rescued_id is not None
    kept = workspace.store.candidates.get_candidate(found.rescued_id)
    files = workspace.store.skills.get_files(kept.skill_id, kept.version_id)
    assert (LESSONS in files.text, HARMS in files.text) == (True, False)
    assert evaluate_candidate(workspace, kept.id).verdict == "accept"


def test_the_good_part_of_a_rejected_bundle_is_rescued(place: Place, workspace: Workspace) -> None:
    use(workspace, passing(by_text))
    whole = bundle(place, workspace, LESSONS, HARMS, PLACEBO)
    found = rescue_candidate(workspace, whole)
    assert found.rows[0].verdict == "kept"
    assert found.rows[1].verdict == "left out"
    assert found.rescued_id is not None


def test_a_candidate_of_one_edit_has_nothing_to_tell_apart(place: Place, workspace: Workspace) -> None:
    candidate = place.propose(workspace)
    for operation in (credit_candidate, rescue_candidate):
        with pytest.raises(BadInput, match="has 1 applied edits of its own"):
            operation(workspace, candidate)


def test_worn_test_tasks_move_into_train_and_the_move_is_on_record(place: Place, workspace: Workspace) -> None:
    use(workspace, passing(lambda rollout: 0.5))
    for n in range(2):
        evaluate_candidate(workspace, place.propose(workspace, f"- Note {n}."), rule=ConfirmRule(max_pairs=16))
    skill = workspace.skill("ledger-clerk")
    looks = workspace.store.tasks.list_looks(skill.id)
    twice = [task_id for task_id, n in looks.items() if n == 2]
    assert 0 < len(twice) < len(looks) == 30
    review = review_rotation(workspace, "ledger-clerk", 2)
    found = rotate_worn_tasks(workspace, "ledger-clerk", 2)
    assert (sorted(row.id for row in review.rows), {row.n_tests for row in review.rows}) == (sorted(found.rotated), {2})
    assert (len(found.rotated), found.most_looks) == (len(twice), 2)
    assert (found.splits.train, found.splits.test) == (30 + len(twice), 30 - len(twice))
    by_id = {task.id: task for task in workspace.store.tasks.list_tasks(skill.id)}
    assert all(by_id[task_id].split == "train" for task_id in twice)
    assert rotate_worn_tasks(workspace, "ledger-clerk", 2).rotated == []


def test_the_last_test_tasks_and_those_of_an_unfinished_run_stay(place: Place, workspace: Workspace) -> None:
    use(workspace, passing(lambda rollout: 0.5))
    evaluate_candidate(workspace, place.propose(workspace, "- Note."), rule=ConfirmRule(max_pairs=40))
    use(workspace, as_if_real(), "optimizer")
    start_run(workspace, "ledger-clerk", Config())
    with pytest.raises(Refused, match="is unfinished and its tasks are frozen"):
        rotate_worn_tasks(workspace, "ledger-clerk", 1)
    evaluate_candidate(workspace, place.propose(workspace, "- Other."), rule=ConfirmRule(max_pairs=400))
    with pytest.raises(Refused, match="add fresh test tasks first"):
        rotate_worn_tasks(workspace, "ledger-clerk", 1)
    with pytest.raises(BadInput):
        rotate_worn_tasks(workspace, "ledger-clerk", 0)


def test_another_gate_answers_from_recorded_rows_without_a_model(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace, "ledger-clerk", Config(epochs=1, batch=10))
    replay(workspace, run)
    idle = Scripted(right_when_taught)
    use(workspace, idle, "target", "optimizer")
    same = replay_policy(workspace, run.id, "strict")
    assert same.n_differing == 0
    assert all(row.other == row.verdict for row in same.rows)
    assert same.rows
    for policy in ("fresh", "paired_se", "no_regression", "confirm"):
        other = replay_policy(workspace, "ledger-clerk", policy)
        assert (other.run_id, len(other.rows)) == (run.id, len(same.rows))
    assert idle.n_calls == 0
    with pytest.raises(BadInput, match="no gate is called 'luck'"):
        replay_policy(workspace, "ledger-clerk", "luck")


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
