"""Arrival: how often the skill was opened in a test, tests in which nobody opened it, and texts that are pasted."""

from __future__ import annotations

import pytest
from workshop import LESSONS, Place, right_when_taught, use

from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.errors import Refused
from skillopt_mcp.maintenance.verify import verify_store
from skillopt_mcp.promotion_tests import candidate_of_files, evaluate_candidate
from skillopt_mcp.promotions.consent import Consent
from skillopt_mcp.promotions.promoting import promote_skill
from skillopt_mcp.records.calls import Call, Message, Reply
from skillopt_mcp.show.inspecting import look_up
from skillopt_mcp.verdicts import caveats
from skillopt_mcp.workspace import Workspace


@pytest.fixture
def fresh(place: Place) -> Workspace:
    workspace = place.open()
    place.add_held_out(workspace, 12)
    return workspace


def opening(state: str, base: str = "") -> Scripted:
    """Return a command line of a host that opens the skill, or does not: the base as `base` says where given."""

    def answer(call: Call) -> Reply:
        said = base if base and "/base/" in call.draw else state
        return Reply(right_when_taught(call), (Message("skill", said, "demo"), Message("assistant", "Hm.")))

    return Scripted(answer, name="claude-code:m")


def test_a_test_in_which_nobody_opened_the_skill_compares_nothing_and_uses_nothing_up(
    place: Place, fresh: Workspace
) -> None:
    use(fresh, opening("not opened"))
    candidate_id = place.propose(fresh)
    found = evaluate_candidate(fresh, candidate_id)
    assert found.test
    assert (found.test.verdict, found.accepted, found.test.test_in_release) == ("not_tested", False, 1)
    assert found.attempts_done == 80, "the first block alone was made"
    assert [note.code for note in found.notes] == ["never_opened"]
    assert found.next_step
    assert "description" in found.next_step.why
    assert promote_skill(fresh, candidate_id, Consent.PERSON).status == "refused"
    assert "NOT TESTED" in look_up(fresh, found.test.test_id, 4000).text
    assert verify_store(fresh.store_path).problems == []
    use(fresh, opening("opened", base="not opened"))
    again = evaluate_candidate(fresh, candidate_id, again=True).test
    assert again
    assert (again.verdict, again.test_in_release) == ("better", 1), "it has the whole share of the error rate"


@pytest.mark.parametrize("base", ["opened", "not opened"])
def test_a_verdict_says_how_often_the_skill_was_opened(place: Place, fresh: Workspace, base: str) -> None:
    use(fresh, opening("opened", base))
    found = evaluate_candidate(fresh, place.propose(fresh)).test
    assert found
    assert found.verdict == "better"
    assert found.opened
    n = found.runs.base
    assert found.opened.model_dump() == {"before": n * (base == "opened"), "before_of": n, "after": n, "after_of": n}
    said = f"opened in {n * (base == 'opened')} of {n} attempts with the old text, {n} of {n} with the new one"
    assert said in caveats(found)[0]
    assert said in look_up(fresh, found.test_id, 4000).text


def test_targets_that_cannot_open_a_skill_and_edits_of_the_description_are_tested_all_the_same(
    place: Place, fresh: Workspace
) -> None:
    use(fresh, Scripted(right_when_taught, name="mine"))
    plain = evaluate_candidate(fresh, place.propose(fresh)).test
    assert plain
    assert (plain.verdict, plain.opened, plain.pasted) == ("better", None, False)
    use(fresh, opening("not opened"))
    candidate = described(place, fresh)
    other = evaluate_candidate(fresh, candidate).test
    assert other
    assert other.verdict == "not_better"


def described(place: Place, workspace: Workspace) -> str:
    """Return a candidate that changes the description alone."""
    new = place.root / "new.md"
    text = (place.skill / "SKILL.md").read_text()
    assert "description: " in text
    new.write_text(text.replace("description: ", "description: For all of it. "))
    return candidate_of_files(workspace, str(place.skill), new).id


@pytest.mark.parametrize("name", ["openai:m", "anthropic:m"])
def test_a_pasted_text_says_so_and_its_front_matter_cannot_be_tested(place: Place, fresh: Workspace, name: str) -> None:
    use(fresh, Scripted(right_when_taught, name=name))
    found = evaluate_candidate(fresh, place.propose(fresh, LESSONS)).test
    assert found
    assert found.pasted
    assert any("pasted, not loaded by a host" in line for line in caveats(found))
    with pytest.raises(Refused, match="front matter alone"):
        evaluate_candidate(fresh, described(place, fresh))
