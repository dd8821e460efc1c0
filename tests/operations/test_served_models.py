"""Served models: a promotion test knows which model really answered, whatever name it was asked by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import pytest
from workshop import PLACEBO, Place, use

from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.promotions.consent import permit
from skillopt_mcp.actions.promotions.promoting import promote_skill
from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.actions.skill_checks import check_skills
from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.cli.main import main
from skillopt_mcp.core.calls import Call, Reply, Rollout
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.results import Evaluated
from skillopt_mcp.reports.listing import list_skills
from skillopt_mcp.store.calls import ServedRow
from skillopt_mcp.store.erasing import Erasing
from skillopt_mcp.workspace.workspace import Workspace

REAL = "anthropic:some-model"
PATCH = json.dumps({"reasoning": "", "edits": [{"op": "append", "content": "- Mind the units."}]})
Chooses = Callable[[Rollout, int], str]


def served_by(choose: Chooses) -> Scripted:
    """Return a target that counts as real, is better with the candidate, and is served by what is chosen per unit."""

    def answer(call: Call) -> Reply:
        assert isinstance(call.request, Rollout)
        n = int(call.draw.split("/")[1])
        rate = 0.95 if is_new(call.request) else 0.05
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


def evaluated(place: Place, workspace: Workspace, choose: Chooses) -> tuple[str, Evaluated]:
    """Return the candidate, and what its test came to under a standing permission."""
    candidate = place.learned(workspace, PLACEBO)
    use(workspace, served_by(choose))
    permit(workspace.store, workspace.place, "ledger-clerk", simulated=False)
    return candidate, evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate)


def learn(place: Place, workspace: Workspace) -> str:
    """Return the id of a run in which an optimizer said which model it is."""
    use(workspace, Scripted(lambda call: Reply(PATCH, served="optimizer-v1"), name=REAL), "optimizer")
    record_trajectory(workspace.store, workspace.place, str(place.skill), Recording("Do it.", hard=False, answer="no"))
    assert propose_from_evidence(workspace.store, workspace.models, workspace.place, str(place.skill)).candidate_id
    [run] = workspace.store.runs.list_runs(workspace.place.skill("ledger-clerk").id)
    return run.id


def test_where_each_text_had_a_model_of_its_own_nothing_is_decided_about_either(
    place: Place, workspace: Workspace
) -> None:
    candidate, result = evaluated(place, workspace, by_prompt)
    assert (result.accepted, result.test and result.test.void) == (False, "models")
    assert promote_skill(workspace.store, workspace.place, candidate, Consent.STANDING).status == "refused"
    use(workspace, dated := served_by(lambda rollout, n: "small-model-v1"))
    dated.name = dated.fingerprint = f"{REAL}-v1"
    assert evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate).accepted
    assert promote_skill(workspace.store, workspace.place, candidate, Consent.STANDING).status == "promoted"
    assert verify_store(place.store_path).problems == []


@pytest.mark.parametrize(
    ("choose", "accepted"),
    [
        (lambda _, n: "old-model" if n < 3 else "new-model", True),
        (lambda rollout, n: f"one-model/fp_{n}{is_new(rollout):d}", True),
        (lambda rollout, n: "old-model" if is_new(rollout) else "", True),
        (lambda rollout, n: "new-model" if is_new(rollout) and n % 3 == 0 else "old-model", False),
    ],
    ids=["an alias that switches for both", "fingerprints of one model", "not named for one", "a router now and then"],
)
def test_names_of_models_hold_a_test_up_where_they_differ_between_the_texts(
    place: Place, workspace: Workspace, choose: Chooses, accepted: bool
) -> None:
    assert evaluated(place, workspace, choose)[1].accepted is accepted


def test_a_name_of_a_programs_own_backend_is_kept_on_one_line_and_short(place: Place, workspace: Workspace) -> None:
    evaluated(place, workspace, lambda *_: " two\nlines \ud800" + "x" * 999)
    name = f"two lines \ufffd{'x' * 189}"
    [row] = workspace.store.tests.list_of_skill(1)
    assert {each.name for each in workspace.store.ledger.list_served(row.id)} == {name}


def test_an_erased_answer_keeps_who_gave_it_and_its_store_is_sound(place: Place, workspace: Workspace) -> None:
    run_id = learn(place, workspace)
    assert workspace.store.table(Erasing).clear_calls([1])[0] == 1
    assert verify_store(place.store_path).problems == []
    assert workspace.store.ledger.list_served(run_id) == [ServedRow("optimizer", "optimizer-v1", 1)]


def test_a_skill_that_was_tested_with_a_model_that_answers_no_more_is_named_with_how_both_are_compared(
    place: Place, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    def list_all() -> list[str]:
        [row] = list_skills(workspace.store, workspace.place).skills
        checked = check_skills(workspace.store, workspace.place, (str(place.skill),))
        found = [each.text for each in checked.skills[0].findings if "answers now" in each.text]
        assert main(["skills", "--store", str(place.store_path)]) == 0
        shown = [line for line in capsys.readouterr().out.splitlines() if "answers now" in line]
        assert [f"ledger-clerk: {text}" for text in found] == shown
        assert [row.outdated] == (found or [""])
        return found

    evaluated(place, workspace, lambda *_: "model-v1/fp_1")
    assert list_all() == []
    use(workspace, Scripted(lambda call: Reply(PATCH, served="optimizer-v1"), name=REAL), "optimizer")
    for served in ("model-v1/fp_2", "model-v2/fp_1"):
        use(workspace, Scripted(lambda _, served=served: Reply("no", served=served), name=REAL))
        found = list_all()  # after calls of the same model alone
        propose_from_evidence(workspace.store, workspace.models, workspace.place, str(place.skill), rollouts=2)
    assert found == []
    assert list_all() == [
        f"tested with model-v1, but model-v2 answers now: skillopt-mcp gate {place.skill} "
        f"--target anthropic:model-v1 --against-model {REAL}"
    ]
