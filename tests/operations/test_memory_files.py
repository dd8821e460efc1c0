"""Memory files (CLAUDE.md, AGENTS.md) train as documents of their own, behind the gates that skills have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from workshop import EVEN, LESSONS, SEED, SIMULATION, Place

from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.promotions.consent import add_root
from skillopt_mcp.actions.promotions.promoting import promote_skill, rollback_skill
from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.backends.world import make_skill, make_tasks
from skillopt_mcp.core.candidates import Consent, Promotion
from skillopt_mcp.core.errors import BadInput, BadSkill
from skillopt_mcp.documents import live_files as livefiles
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.skill_folders import read_skill, recover, skill_name
from skillopt_mcp.workspace.workspace import Workspace

PERSON = Consent.PERSON_SIMULATED


@pytest.fixture
def memory(place: Place) -> Path:
    """Return a memory file in a project with other files next to it."""
    project = place.folder / "project"
    project.mkdir()
    (project / "CLAUDE.md").write_bytes(make_skill(SEED).main)
    (project / "main.py").write_text("print('not the memory')\n")
    return project / "CLAUDE.md"


@pytest.fixture
def workspace(place: Place, memory: Path) -> Workspace:
    workspace = place.open(SIMULATION)
    tracked = workspace.place.skill(str(memory))
    workspace.store.tasks.add_tasks(tracked.id, make_tasks(90, SEED), EVEN)
    return workspace


def test_a_memory_file_is_one_document_under_its_own_name(memory: Path, workspace: Workspace) -> None:
    files = read_skill(memory)
    tracked = workspace.place.skill(str(memory))

    assert [file.path for file in files.files] == ["CLAUDE.md"]
    assert files.main == files.text.encode() == memory.read_bytes()
    assert (tracked.name, tracked.path) == ("project:CLAUDE.md", str(memory))
    assert workspace.place.skill("project:CLAUDE.md") == tracked
    assert skill_name(memory) == tracked.name


def test_training_a_memory_file_gains_and_the_promotion_writes_that_file_alone(
    memory: Path, workspace: Workspace
) -> None:
    before = memory.read_bytes()
    memory.chmod(0o600)
    add_root(workspace.store, str(memory))
    outcome = replay(
        workspace.store,
        workspace.models,
        workspace.place,
        start_run(workspace.store, workspace.models, workspace.place, str(memory), Config(batch=15, epochs=2)),
    )
    assert (outcome.verdict, outcome.skill) == ("better", "project:CLAUDE.md")
    assert outcome.candidate_id

    promoted = promote_skill(workspace.store, workspace.place, outcome.candidate_id, PERSON)

    assert promoted.status == "promoted"
    assert memory.read_bytes() != before
    assert memory.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in memory.parent.iterdir()) == ["CLAUDE.md", "main.py"]
    assert rollback_skill(workspace.store, workspace.place, str(memory), None, Consent.PERSON).status == "rolled_back"
    assert memory.read_bytes() == before


def test_without_a_person_who_allows_it_a_memory_file_is_not_written(memory: Path, workspace: Workspace) -> None:
    candidate_id = _accepted(memory, workspace)
    refused = promote_skill(workspace.store, workspace.place, candidate_id, PERSON)
    assert refused.status == "refused"
    assert refused.next_step.command == f"skillopt-mcp skills add-root {memory}"
    assert LESSONS not in memory.read_text()

    assert add_root(workspace.store, str(memory)) == memory
    assert promote_skill(workspace.store, workspace.place, candidate_id, PERSON).status == "promoted"
    assert LESSONS in memory.read_text()


def test_allowing_a_memory_file_allows_nothing_next_to_it(memory: Path, workspace: Workspace) -> None:
    add_root(workspace.store, str(memory))
    other = memory.with_name("AGENTS.md")
    other.write_text("# Agents\n")
    assert workspace.place.root_of(workspace.place.skill(str(memory))) == memory
    assert workspace.place.root_of(workspace.place.skill(str(other))) is None


def test_a_persons_edit_of_a_memory_file_is_kept(memory: Path, workspace: Workspace) -> None:
    add_root(workspace.store, str(memory))
    candidate_id = _accepted(memory, workspace)
    memory.write_text("# Mine\n")
    assert promote_skill(workspace.store, workspace.place, candidate_id, PERSON).status == "stale"
    assert memory.read_text() == "# Mine\n"


def test_a_promotion_that_was_killed_before_it_wrote_is_undone(memory: Path, workspace: Workspace) -> None:
    candidate = workspace.store.candidates.get_candidate(_accepted(memory, workspace))
    tracked = workspace.place.skill(str(memory))
    workspace.store.promotions.begin(
        Promotion(0, tracked.id, "promote", candidate.id, candidate.base_version, candidate.version_id, "pending",
                  "accept", "person", "terminal")
    )  # fmt: skip
    left = memory.with_name(livefiles._temporary(memory.parent, memory.name))
    left.write_bytes(workspace.store.skills.get_files(tracked.id, candidate.version_id).main)

    recover(workspace.store)

    assert not left.exists()
    assert workspace.store.promotions.list_pending() == []
    assert read_skill(memory).digest == candidate.base_version


def test_what_is_no_memory_file_to_train_is_refused(memory: Path, workspace: Workspace) -> None:
    link = memory.with_name("AGENTS.md")
    link.symlink_to(memory)
    with pytest.raises(BadSkill, match=r'AGENTS\.md" is a link'):
        workspace.place.skill(str(link))
    with pytest.raises(BadSkill, match="does not exist"):
        workspace.place.skill(str(memory.parent / "missing" / "CLAUDE.md"))
    memory.write_bytes(b"\xff")
    with pytest.raises(BadSkill, match=r'CLAUDE\.md" is not UTF-8'):
        workspace.place.skill(str(memory))
    with pytest.raises(BadInput, match="or a memory file"):
        add_root(workspace.store, os.fspath(memory.with_name("main.py")))


def _accepted(memory: Path, workspace: Workspace) -> str:
    proposed = propose_edits(workspace.store, workspace.place, str(memory), [{"op": "append", "content": LESSONS}])
    assert proposed.candidate_id
    assert evaluate_candidate(workspace.store, workspace.models, workspace.place, proposed.candidate_id).accepted
    return proposed.candidate_id
