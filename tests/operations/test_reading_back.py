"""Reading back: a version is promoted only where what was written is what is read, and nothing is in its way."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from workshop import LESSONS, SEED, Place

from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.promotions import promoting
from skillopt_mcp.actions.promotions.promoting import next_step, promote_skill, rollback_skill
from skillopt_mcp.backends.world import make_skill
from skillopt_mcp.core.candidates import Candidate, Consent, NewCandidate, candidate_id
from skillopt_mcp.core.errors import Refused
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.workspace import skill_folders as recovery
from skillopt_mcp.workspace.skill_folders import read_skill
from skillopt_mcp.workspace.workspace import Workspace


@pytest.fixture
def before(place: Place) -> bytes:
    return place.main.read_bytes()


def accepted_as(place: Place, workspace: Workspace, after: SkillFiles) -> str:
    """Return the id of a candidate that another release made and tested, whatever its files are."""
    tracked = workspace.place.skill(str(place.skill))
    before = read_skill(place.skill)
    made = Candidate(
        candidate_id(tracked.id, before.digest, after.digest), tracked.id, before.digest, after.digest, "host", "", ()
    )
    workspace.store.candidates.add_candidate(NewCandidate(made, after))
    assert evaluate_candidate(workspace.store, workspace.models, workspace.place, made.id).accepted
    return made.id


def taught(*others: SkillFile) -> SkillFiles:
    files = make_skill(SEED)
    return files.replaced(SkillFile("SKILL.md", files.main + LESSONS.encode() + b"\n"), *others)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("references/__pycache__/x.md", "is passed over when a skill is read"),
        ("references/a/b/c/d/e/f/g/x.md", "is nested too deep"),
        ("references/" + "n" * 256, "which no disk takes as a name"),
    ],
)
def test_a_version_that_would_not_be_read_back_is_not_promoted(
    place: Place, workspace: Workspace, before: bytes, path: str, why: str
) -> None:
    candidate = accepted_as(place, workspace, taught(SkillFile(path, b"x")))
    result = promote_skill(workspace.store, workspace.place, candidate, Consent.PERSON_SIMULATED)
    assert (result.status, why in result.reason) == ("refused", True)
    assert (place.main.read_bytes(), list(place.skill.iterdir())) == (before, [place.main])
    assert workspace.store.promotions.list_promotions(1) == []


def test_a_disk_that_keeps_no_run_bits_is_left_as_it_was(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.main.chmod(0o755)
    before = read_skill(place.skill)
    main = SkillFile("SKILL.md", taught().main, executable=True)
    candidate = accepted_as(place, workspace, before.replaced(main, SkillFile("references/more.md", b"More.")))
    kept = os.fchmod
    monkeypatch.setattr(os, "fchmod", lambda descriptor, mode: kept(descriptor, mode | 0o111))
    with pytest.raises(Refused, match=r'"references/more\.md" does not read as it was written .* is taken back$'):
        promote_skill(workspace.store, workspace.place, candidate, Consent.PERSON_SIMULATED)
    assert read_skill(place.skill) == before
    assert workspace.store.promotions.list_pending() == []
    made = workspace.store.candidates.get_candidate(candidate)
    step = next_step(workspace.store, workspace.place, made, Consent.PERSON_SIMULATED)
    assert step
    assert (step.action, step.arguments) == ("promote_skill", {"candidate_id": candidate})


def test_a_disk_that_lists_a_new_file_by_another_name_is_left_as_it_was(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_skill(place.skill)
    candidate = accepted_as(place, workspace, taught(SkillFile("references/more.md", b"More.")))

    def listed_otherwise(folder: Path) -> SkillFiles:
        files = read_skill(folder).files
        return SkillFiles(tuple(replace(file, path=file.path.replace("more", "MORE")) for file in files))

    with monkeypatch.context() as disk:
        for module in (recovery, promoting):
            disk.setattr(module, "read_skill", listed_otherwise)
        with pytest.raises(Refused, match=r'"references/more\.md" does not read as it was written'):
            promote_skill(workspace.store, workspace.place, candidate, Consent.PERSON_SIMULATED)
    assert read_skill(place.skill) == before


def test_what_a_person_wrote_over_a_new_file_is_not_taken_back(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_skill(place.skill)
    candidate = accepted_as(place, workspace, taught(SkillFile("references/more.md", b"More.")))
    written, mine = promoting.replace_files, SkillFile("references/more.md", b"Mine.")  # type: ignore[attr-defined]

    def edited_since(folder: Path, old: SkillFiles, new: SkillFiles) -> None:
        written(folder, old, new)
        (folder / mine.path).write_bytes(mine.content)

    monkeypatch.setattr(promoting, "replace_files", edited_since)
    with pytest.raises(Refused, match=r'"references/more\.md" does not read as it was written'):
        promote_skill(workspace.store, workspace.place, candidate, Consent.PERSON_SIMULATED)
    assert read_skill(place.skill) == before.replaced(mine)


def test_a_rollback_to_what_cannot_be_read_back_names_what_fits_a_rollback(place: Place, workspace: Workspace) -> None:
    tracked = workspace.place.skill(str(place.skill))
    earlier = taught(SkillFile("references/__pycache__/x.md", b"x"))
    for files in (earlier, read_skill(place.skill)):
        workspace.store.skills.track(tracked.name, tracked.path, files)
    result = rollback_skill(workspace.store, workspace.place, "ledger-clerk", earlier.digest, Consent.PERSON)
    assert (result.status, result.next_step.action) == ("refused", "inspect")


def test_what_stands_in_the_way_of_a_new_file_uses_up_no_approval(place: Place, workspace: Workspace) -> None:
    candidate = accepted_as(place, workspace, taught(SkillFile("references/x.md", b"x")))
    (place.skill / "references" / "x.md").mkdir(parents=True)
    with pytest.raises(Refused, match="is there already, and none of the skill's files"):
        promote_skill(workspace.store, workspace.place, candidate, Consent.PERSON_SIMULATED)
    assert workspace.store.promotions.list_promotions(1) == []
