"""Sources: a candidate lists the recorded attempts each of its edits came from."""

from __future__ import annotations

from pathlib import Path

import pytest
from workshop import Place

from skillopt_mcp.core.candidates import Candidate, NewCandidate, candidate_id
from skillopt_mcp.core.edits import Edit, Patch
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.reports.lookup import inspect
from skillopt_mcp.workspace.skill_folders import read_skill
from skillopt_mcp.workspace.workspace import Workspace

ALL = "4 trajectories (trajectory:2, trajectory:11, 2 rollouts)"
SHOWN = ("trajectory:11", "trial:9", "trajectory:2", "trial:10")


@pytest.mark.parametrize(
    ("cited", "shown"),
    [
        ((), ALL),
        (("trajectory:11",), f"{ALL}; its author cites 1 trajectory (trajectory:11)"),
        (SHOWN, f"{ALL}; its author cites all of them"),
        (("unshown:9",), f"{ALL}; its author cites unknown numbers (9)"),
        (("trial:9", "unshown:0", "unshown:7"), f"{ALL}; its author cites 1 trajectory and unknown numbers (0, 7)"),
    ],
)
def test_what_an_author_cites_is_listed_next_to_all_that_it_was_shown(
    place: Place, workspace: Workspace, cited: tuple[str, ...], shown: str
) -> None:
    edit = Edit("append", None, "- New.", sources=SHOWN, cited=cited)
    skill = workspace.place.skill(str(place.skill))
    base = read_skill(Path(skill.path))
    applied = apply_patch(base, Patch((edit,)))
    made = Candidate(
        candidate_id(skill.id, base.digest, applied.files.digest),
        skill.id,
        base.digest,
        applied.files.digest,
        "host",
        "",
    )
    workspace.store.candidates.add_candidate(NewCandidate(made, applied.files, ((edit, applied.reports[0]),)))
    [(stored, _)] = workspace.store.candidates.list_edits(made.id)
    assert stored == edit
    assert f"applied; from {shown}\n" in inspect(workspace.store, workspace.place, made.id).text
