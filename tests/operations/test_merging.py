"""Merging: nothing works on a skill with an unsettled git conflict."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from workshop import LESSONS, Place

from skillopt_mcp.actions.candidates import propose_edits, rebase_candidate
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.core.candidates import Candidate, NewCandidate, candidate_id
from skillopt_mcp.core.errors import Refused
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.workspace import Workspace

CONFLICT = "\n<<<<<<< HEAD\n- One.\n=======\n- Other.\n>>>>>>> feat\n"
EDIT = {"op": "append", "content": LESSONS}
SKILL = "ledger-clerk"
WORK: dict[str, Callable[[Workspace], object]] = {
    "propose edits": lambda workspace: propose_edits(workspace.store, workspace.place, SKILL, [EDIT]),
    "reflect": lambda workspace: propose_from_evidence(workspace.store, workspace.models, workspace.place, SKILL),
    "replay": lambda workspace: start_run(workspace.store, workspace.models, workspace.place, SKILL, Config(epochs=1)),
}


@pytest.mark.parametrize("work", WORK)
def test_nothing_is_built_on_an_unsettled_conflict(place: Place, workspace: Workspace, work: str) -> None:
    record_trajectory(
        workspace.store, workspace.place, str(place.skill), Recording(task="sum", hard=False, answer="no")
    )
    place.main.write_text(place.main.read_text() + CONFLICT)
    with pytest.raises(Refused, match=r'"SKILL.md" has the marks of an unfinished merge \(line \d+, \d+\): settle'):
        WORK[work](workspace)
    assert workspace.store.runs.list_runs(1) == []


def test_a_candidate_is_neither_rebased_onto_a_conflict_nor_tested_on_one(place: Place, workspace: Workspace) -> None:
    stale = place.propose(workspace)
    place.main.write_text(place.main.read_text() + CONFLICT)
    with pytest.raises(Refused, match="unfinished merge"):
        rebase_candidate(workspace.store, workspace.place, stale)
    skill = workspace.place.skill(SKILL)
    files = workspace.store.skills.get_files(skill.id, skill.live_version)
    better = files.replaced(type(files.files[0])("SKILL.md", files.main + LESSONS.encode(), False))
    id = candidate_id(skill.id, files.digest, better.digest)
    made = Candidate(id, skill.id, files.digest, better.digest, "host", "", ())
    workspace.store.candidates.add_candidate(NewCandidate(made, better, ()))
    with pytest.raises(Refused, match="unfinished merge"):
        evaluate_candidate(workspace.store, workspace.models, workspace.place, id)
    assert workspace.store.tests.list_of_skill(skill.id) == []


def test_once_it_is_settled_the_work_goes_on(place: Place, workspace: Workspace) -> None:
    stale, before = place.propose(workspace), place.main.read_text()
    place.main.write_text(before + CONFLICT)
    with pytest.raises(Refused, match="unfinished merge"):
        rebase_candidate(workspace.store, workspace.place, stale)
    place.main.write_text(before + "\n- Other.\n")
    assert rebase_candidate(workspace.store, workspace.place, stale).status == "candidate"
