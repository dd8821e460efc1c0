"""Sources: a candidate tells which recorded attempts each of its edits came from."""

from __future__ import annotations

import pytest
from workshop import Place

from benchmarks.doors import rows
from benchmarks.lessons import LESSONS
from benchmarks.redteam import SESSIONS, honest, yard
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.records.candidates import Candidate, NewCandidate, candidate_id
from skillopt_mcp.records.edits import Edit, Patch
from skillopt_mcp.show.inspecting import inspect
from skillopt_mcp.workspace import Workspace

ALL = "4 trajectories (trajectory:2, trajectory:11; 2 rollouts)"
SHOWN = ("trajectory:11", "trial:9", "trajectory:2", "trial:10")


def test_a_candidate_names_the_attempts_that_its_edits_came_from() -> None:
    with yard() as made:
        assert honest(made, LESSONS[0]).proposed == "candidate"
        [(candidate,)] = rows(made.store, "select id from candidate")
        told = made.host.call("inspect", {"id": candidate})["text"]
    ids = ", ".join(f"trajectory:{n + 1}" for n in range(SESSIONS))
    assert f"edit 0: append SKILL.md: applied; from {SESSIONS} trajectories ({ids}), and rests on " in told
    assert told.partition(", and rests on ")[2].partition("\n")[0].endswith(" by its author's word")


@pytest.mark.parametrize(
    ("cited", "told"),
    [
        ((), ALL),
        (
            ("trajectory:11",),
            f"{ALL}, and rests on 1 trajectory (trajectory:11) by its author's word",
        ),
        (
            SHOWN,
            f"{ALL}, and rests on all of them by its author's word",
        ),
        (("unshown:9",), f"{ALL}; its author named a number that no attempt has: 9"),
        (
            ("trial:9", "unshown:0", "unshown:7"),
            f"{ALL}, and rests on 1 trajectory by its author's word; its author named numbers that no attempt has: "
            "0, 7",
        ),
    ],
)
def test_what_an_author_names_is_told_beside_all_that_it_was_shown(
    place: Place, workspace: Workspace, cited: tuple[str, ...], told: str
) -> None:
    edit = Edit("append", None, "- New.", sources=SHOWN, cited=cited)
    skill = workspace.skill(str(place.skill))
    base = workspace.live(skill)
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
    assert f"applied; from {told}\n" in inspect(workspace, made.id).text
