from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from workshop import LESSONS, PLACEBO, Place, by_new_lines, is_taught, solving, use

from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.promotions.promoting import promote_skill, rollback_skill
from skillopt_mcp.backends.world import make_skill
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.errors import BadInput, BadSkill, Busy, Refused
from skillopt_mcp.documents import live_files as livefiles
from skillopt_mcp.reports.history import history
from skillopt_mcp.store.files import lock_run
from skillopt_mcp.workspace.skill_folders import lock_name, read_skill, recover
from skillopt_mcp.workspace.workspace import Workspace

PERSON = Consent.PERSON_SIMULATED


def test_what_a_real_target_came_to_counts_before_a_simulation(place: Place, workspace: Workspace) -> None:
    """A simulation's verdict cannot pass for a real one, nor can a later failure of a real target be passed over."""
    candidate_id = place.accepted(workspace)
    use(workspace, solving(lambda _: False))
    assert evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id).accepted is False
    assert promote_skill(workspace.store, workspace.place, candidate_id, PERSON).status == "refused"
    use(workspace, place.open().models.backend("target"))
    assert evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id, again=True).accepted
    assert promote_skill(workspace.store, workspace.place, candidate_id, PERSON).status == "refused"


def test_of_two_tests_that_decided_the_newer_one_counts(place: Place, workspace: Workspace) -> None:
    use(workspace, solving(is_taught, "anthropic:model-a"))
    candidate_id = place.accepted(workspace)
    use(workspace, solving(lambda call: not is_taught(call), "anthropic:model-b"))
    assert evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id).accepted is False
    assert promote_skill(workspace.store, workspace.place, candidate_id, Consent.PERSON).status == "refused"
    unproven = replace(Consent.PERSON, unproven=True)
    assert promote_skill(workspace.store, workspace.place, candidate_id, unproven).status == "promoted"
    [row] = history(workspace.store, workspace.place, "ledger-clerk").rows
    assert row.verdict == "unproven"


def test_rollback_goes_back_a_promotion_at_a_time_and_then_says_so(place: Place, workspace: Workspace) -> None:
    use(workspace, solving(by_new_lines))
    versions = [place.main.read_bytes()]
    for n in range(2):
        assert (
            promote_skill(
                workspace.store, workspace.place, place.accepted(workspace, f"- New line {n}."), PERSON
            ).status
            == "promoted"
        )
        versions.append(place.main.read_bytes())
    for expected in (versions[1], versions[0]):
        done = rollback_skill(workspace.store, workspace.place, "ledger-clerk", None, Consent.PERSON)
        assert done.status == "rolled_back"
        assert place.main.read_bytes() == expected
        # Whoever takes it back names the version, as without one it would go further back.
        assert done.undo
        assert done.undo.arguments == {"skill": "ledger-clerk", "version": done.previous_version}
    with pytest.raises(BadInput, match="no text of 'ledger-clerk' before the live one is known"):
        rollback_skill(workspace.store, workspace.place, "ledger-clerk", None, Consent.PERSON)
    newest = history(workspace.store, workspace.place, "ledger-clerk").rows[-1].version
    assert (
        rollback_skill(workspace.store, workspace.place, "ledger-clerk", newest, Consent.PERSON).status == "rolled_back"
    )
    assert place.main.read_bytes() == versions[1]


def test_a_tool_goes_back_to_nothing_where_nothing_was_promoted(place: Place, workspace: Workspace) -> None:
    first = workspace.place.skill("ledger-clerk").live_version
    place.main.write_text("# Mine\n")
    result = rollback_skill(workspace.store, workspace.place, "ledger-clerk", first, Consent.STANDING)
    assert (result.status, result.next_step.command) == (
        "stale", f"skillopt-mcp rollback ledger-clerk {result.version}"
    )  # fmt: skip
    assert place.main.read_text() == "# Mine\n"


OVER = replace(Consent.PERSON, over_edit=True)


def test_only_the_edit_that_a_person_has_seen_is_written_over(place: Place, workspace: Workspace) -> None:
    promote_skill(workspace.store, workspace.place, place.accepted(workspace), PERSON)
    promoted = workspace.place.skill("ledger-clerk").live_version
    place.main.write_text("# Mine\n")
    seen = workspace.place.skill("ledger-clerk").live_version
    place.main.write_text("# Mine, and more\n")
    for consent, version in ((OVER, seen), (OVER, None), (OVER, promoted), (Consent.PERSON, None)):
        assert (
            rollback_skill(workspace.store, workspace.place, "ledger-clerk", None, consent, version).status == "stale"
        )
    assert place.main.read_text() == "# Mine, and more\n"


def test_a_link_that_took_the_folders_place_is_not_followed(place: Place, workspace: Workspace) -> None:
    candidate_id = place.accepted(workspace)
    elsewhere = place.folder / "elsewhere"
    place.skill.rename(elsewhere)
    place.skill.symlink_to(elsewhere)
    with pytest.raises(BadSkill, match="is reached through a link now: put the folder itself back"):
        promote_skill(workspace.store, workspace.place, candidate_id, PERSON)
    assert (elsewhere / "SKILL.md").read_bytes() == make_skill(3).main


@pytest.mark.parametrize("linked", ["SKILL.md", "references"])
def test_a_skill_with_a_link_is_tested_and_what_would_write_through_it_is_refused(
    place: Place, workspace: Workspace, linked: str
) -> None:
    (place.skill / "references").mkdir()
    (place.skill / "references" / "notes.md").write_text("# Notes\n")
    elsewhere = place.folder / "elsewhere"
    (place.skill / linked).rename(elsewhere)
    (place.skill / linked).symlink_to(elsewhere)
    skill = workspace.place.skill("ledger-clerk")
    assert bool(workspace.place.describe_locked(skill)) == (linked == "SKILL.md")
    before = read_skill(place.skill)
    edits = [{"op": "append", "content": LESSONS, "path": path} for path in ("SKILL.md", "references/notes.md")]
    made = propose_edits(workspace.store, workspace.place, "ledger-clerk", edits)
    assert made.candidate_id
    assert evaluate_candidate(workspace.store, workspace.models, workspace.place, made.candidate_id).accepted
    with pytest.raises(Refused, match=r"is a link or no regular file|links are not followed"):
        promote_skill(workspace.store, workspace.place, made.candidate_id, PERSON)
    assert (read_skill(place.skill), (place.skill / linked).is_symlink()) == (before, True)
    assert history(workspace.store, workspace.place, "ledger-clerk").rows == []


def test_an_attempt_that_fails_half_way_takes_back_what_it_wrote(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate_id = two_files(place, workspace)
    before = read_skill(place.skill)
    real = livefiles._swap

    def failing(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(livefiles, "_swap", failing)
    with pytest.raises(Refused, match=r"SKILL\.md' cannot be written \(No space left on device\)"):
        promote_skill(workspace.store, workspace.place, candidate_id, PERSON)
    monkeypatch.setattr(livefiles, "_swap", real)
    assert read_skill(place.skill) == before
    assert history(workspace.store, workspace.place, "ledger-clerk").rows == []
    assert workspace.store.promotions.list_pending() == []
    assert promote_skill(workspace.store, workspace.place, candidate_id, PERSON).status == "promoted"


def two_files(place: Place, workspace: Workspace) -> str:
    """Return an accepted candidate that changes SKILL.md and adds a reference."""
    edits = [{"op": "append", "content": LESSONS}, {"op": "append", "path": "references/more.md", "content": "More."}]
    candidate_id = str(propose_edits(workspace.store, workspace.place, "ledger-clerk", edits).candidate_id)
    assert evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id).accepted
    return candidate_id


def test_a_store_opens_though_a_pending_promotion_cannot_be_finished(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate_id = two_files(place, workspace)
    with monkeypatch.context() as patched:
        patched.setattr(livefiles, "_swap", lambda *_: _die())
        patched.setattr("skillopt_mcp.actions.promotions.promoting.take_back", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            promote_skill(workspace.store, workspace.place, candidate_id, PERSON)
    assert (place.skill / "references" / "more.md").exists()
    os.link(place.main, place.folder / "twin")
    other = place.open()
    assert len(other.store.promotions.list_pending()) == 1
    assert other.place.skill("ledger-clerk").name == "ledger-clerk"
    (place.folder / "twin").unlink()
    version = workspace.store.candidates.get_candidate(candidate_id).version_id
    assert place.open().place.skill("ledger-clerk").live_version == version
    assert other.store.promotions.list_pending() == []


def _die() -> None:
    raise KeyboardInterrupt


def test_a_finished_promotion_is_not_undone_by_a_recovery_that_comes_late(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate_id = place.accepted(workspace)
    other = place.open()
    pending = other.store.promotions.list_pending
    promote_skill(workspace.store, workspace.place, candidate_id, PERSON)
    (done,) = workspace.store.promotions.list_promotions(1)
    rollback_skill(workspace.store, workspace.place, "ledger-clerk", None, Consent.PERSON)
    answers = iter([[done]])
    monkeypatch.setattr(other.store.promotions, "list_pending", lambda: next(answers, None) or pending())
    recover(other.store)
    assert [row.kind for row in history(workspace.store, workspace.place, "ledger-clerk").rows] == [
        "rollback",
        "promote",
    ]


def test_a_change_under_way_elsewhere_makes_this_one_busy(place: Place, workspace: Workspace) -> None:
    candidate_id = place.accepted(workspace)
    lock = lock_run(workspace.store.locks_path, lock_name(1))
    assert lock
    with pytest.raises(Busy, match="another process is changing 'ledger-clerk'"):
        promote_skill(workspace.store, workspace.place, candidate_id, PERSON)
    lock.release()
    assert promote_skill(workspace.store, workspace.place, candidate_id, PERSON).status == "promoted"


def test_of_eight_processes_that_promote_two_candidates_exactly_one_wins(place: Place, workspace: Workspace) -> None:
    ids = [place.accepted(workspace, LESSONS), place.accepted(workspace, f"{LESSONS}\n{PLACEBO}")]
    outcomes = in_processes(place, *ids)
    assert outcomes["statuses"].count("promoted") == 1
    assert set(outcomes["statuses"]) <= {"promoted", "busy", "stale", "refused"}
    (change,) = workspace.store.promotions.list_promotions(1)
    assert read_skill(place.skill).digest == change.to_version


def in_processes(place: Place, *candidate_ids: str) -> dict[str, Any]:
    script = Path(__file__).with_name("promoting_processes.py")
    command = [sys.executable, str(script), str(place.store_path), str(place.folder), *candidate_ids]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
