"""Near misses: edits that do not fit the skill are corrected by their author, or reported, and never lost."""

from __future__ import annotations

import json
from pathlib import Path

from workshop import Place, use

from benchmarks.host_agent import items_of
from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core.results import Proposed
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.workspace import Workspace

MISSED = {"op": "replace", "target": "- No such line.", "content": "- New.", "path": "SKILL.md", "evidence": [1]}
MADE = {"op": "append", "target": None, "content": "- Add VAT.", "path": "SKILL.md", "evidence": [1]}


def reply(*edits: dict[str, object]) -> str:
    return json.dumps({"reasoning": "r", "edits": edits})


def test_edits_of_which_none_fits_the_skill_are_refused_and_mended_by_their_agent(
    host: Workspace, proposal: Proposed
) -> None:
    [item] = items_of(proposal.work)
    refused = submit_work(
        host.store, host.models, host.place, [{"work_id": item.work_id, "reply": reply(MISSED)}], wait=Wait(host.jobs)
    )
    assert refused.status == "running"
    [receipt] = refused.receipts
    assert receipt.status == "refused"
    assert "no edit applies to the skill: edits.0 (replace): the target is not in the file" in receipt.reason
    assert Path(item.folder, "reply.schema.json").exists()
    mended = submit_work(
        host.store, host.models, host.place, [{"work_id": item.work_id, "reply": reply(MADE)}], wait=Wait(host.jobs)
    )
    assert mended.proposed
    assert mended.proposed.candidate_id


def test_an_edit_that_fits_is_not_lost_with_one_that_does_not(host: Workspace, proposal: Proposed) -> None:
    [item] = items_of(proposal.work)
    done = submit_work(
        host.store,
        host.models,
        host.place,
        [{"work_id": item.work_id, "reply": reply(MISSED, MADE)}],
        wait=Wait(host.jobs),
    )
    assert done.receipts[0].status == "accepted"
    assert done.proposed
    assert done.proposed.candidate_id
    assert [edit.status for edit in done.proposed.edits] == ["unmatched", "applied"]


def test_edits_of_a_model_that_do_not_fit_are_reported_and_can_be_corrected(place: Place, workspace: Workspace) -> None:
    use(workspace, Scripted(lambda _: "0.00"))
    use(workspace, Scripted(lambda _: reply(MISSED)), "optimizer")
    skill = str(place.skill)
    for n in range(3):
        record_trajectory(
            workspace.store,
            workspace.place,
            skill,
            Recording(task=f"{n}: book it", answer="1", hard=False, reason="wrong"),
        )
    found = propose_from_evidence(workspace.store, workspace.models, workspace.place, skill)
    assert (found.status, found.candidate_id) == ("no_change", None)
    assert found.next_step.action == "propose_edits"
    assert workspace.store.trajectories.count_trajectories(workspace.place.skill(skill).id)[1] == 3
    reported = json.loads(found.notes[0].removeprefix("edits.0: "))
    assert reported == {name: MISSED[name] for name in ("op", "target", "content", "path")}
    corrected = {**reported, "op": "append"}
    del corrected["target"]
    assert propose_edits(workspace.store, workspace.place, skill, [corrected]).candidate_id
    assert propose_from_evidence(workspace.store, workspace.models, workspace.place, skill).status == "no_change"
