"""A skill and a memory file are consolidated one after the other, each behind the gates, each seen in every attempt."""

from __future__ import annotations

from pathlib import Path

import pytest
from workshop import SIMULATION, Place

from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.memory_files import Document, Training, consolidate, documents, with_companion
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.workspace import Workspace

CONFIG = Config(seed=3, batch=15, epochs=2, slow_update=False, meta_skill=False)
MEMORY = "# Project\n\n- Answer in one line.\n"


@pytest.fixture
def memory(place: Place) -> Path:
    path = place.folder / "project" / "AGENTS.md"
    path.parent.mkdir()
    path.write_text(MEMORY)
    return path


@pytest.mark.parametrize(
    ("trained", "outcomes"), [("skill", (True, False)), ("memory", (False, True)), ("both", (True, True))]
)
def test_the_skill_alone_the_memory_alone_or_both_are_trained_and_no_file_is_written(
    place: Place, workspace: Workspace, memory: Path, trained: Document, outcomes: tuple[bool, bool]
) -> None:
    before = place.main.read_bytes()
    both = documents(workspace, str(place.skill), str(memory), trained)

    result = consolidate(workspace, both, Training(CONFIG))

    assert (result.skill is not None, result.memory is not None) == outcomes
    for outcome, name in ((result.skill, "ledger-clerk"), (result.memory, "project:AGENTS.md")):
        assert outcome is None or outcome.skill == name
    if not result.skill or not result.memory:
        [outcome] = [outcome for outcome in (result.skill, result.memory) if outcome]
        assert outcome.verdict == "better"
    assert (place.main.read_bytes(), memory.read_text()) == (before, MEMORY)


def test_the_memory_is_trained_with_the_skill_that_its_test_accepted(
    place: Place, workspace: Workspace, memory: Path
) -> None:
    both = documents(workspace, str(place.skill), str(memory))
    result = consolidate(workspace, both, Training(CONFIG))
    assert result.skill
    assert result.memory
    assert result.skill.verdict == "better"
    assert result.skill.backend == f"{SIMULATION} beside {both.memory.name}@{both.memory.live_version[:12]}"
    assert result.memory.backend == f"{SIMULATION} beside ledger-clerk@{result.skill.best_version}"


def test_the_memory_gets_the_skills_tasks_in_the_skills_splits_once(
    place: Place, workspace: Workspace, memory: Path
) -> None:
    for _ in range(2):
        both = documents(workspace, str(place.skill), str(memory))
    rows = [
        sorted((task.name, task.prompt, task.split) for task in workspace.store.tasks.list_tasks(document.id))
        for document in (both.skill, both.memory)
    ]
    assert len(rows[0]) == 90
    assert rows[0] == rows[1]


def test_evidence_with_a_companion_is_not_evidence_without_one(
    place: Place, workspace: Workspace, memory: Path
) -> None:
    both = documents(workspace, str(place.skill), str(memory))
    proposed = propose_edits(workspace, str(place.skill), [{"op": "append", "content": "- Ask."}])
    assert proposed.candidate_id
    alone = evaluate_candidate(workspace, proposed.candidate_id)
    with with_companion(workspace, both.memory, both.memory.live_version) as joint:
        joined = evaluate_candidate(joint, proposed.candidate_id)
    assert alone.test
    assert joined.test
    assert alone.test.test_id != joined.test.test_id


def test_a_consolidation_that_stopped_between_its_runs_goes_on_with_the_second(
    place: Place, workspace: Workspace, memory: Path
) -> None:
    both = documents(workspace, str(place.skill), str(memory), "skill")
    first = consolidate(workspace, both, Training(CONFIG)).skill
    again = documents(workspace, str(place.skill), str(memory), "both")

    result = consolidate(workspace, again, Training(CONFIG, resume=True))

    assert result.skill == first
    assert result.memory
    assert len(workspace.store.runs.list_runs(both.skill.id)) == 1
    assert consolidate(workspace, again, Training(CONFIG, resume=True)) == result


def test_two_paths_that_are_no_skill_and_memory_file_are_refused(
    place: Place, workspace: Workspace, memory: Path
) -> None:
    for pair in ((str(memory), str(place.skill)), (str(place.skill), str(place.skill)), (str(memory), str(memory))):
        with pytest.raises(BadInput, match="a memory file"):
            documents(workspace, *pair)
    (place.skill / "AGENTS.md").write_text("# Of the skill\n")
    with pytest.raises(BadInput, match="has a file with the name"):
        documents(workspace, str(place.skill), str(memory))
