"""Near misses: edits of an optimizer that do not fit the skill are mended by their author, or told, and never lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from workshop import Place, use

from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.operations.candidates.proposing import propose_edits
from skillopt_mcp.operations.evidence.recording import Recording, record_trajectory
from skillopt_mcp.operations.host_work.conforming import unplaced
from skillopt_mcp.operations.results import Proposed
from skillopt_mcp.operations.runs.reflecting import propose_from_evidence
from skillopt_mcp.operations.runs.submitting import submit_work
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.replies import AwarePatchReply, EditReply, MergeReply, PatchReply
from skillopt_mcp.records.skills import SkillFile, SkillFiles

MISSED = {"op": "replace", "target": "- No such line.", "content": "- New.", "path": "SKILL.md", "evidence": [1]}
MADE = {"op": "append", "target": None, "content": "- Add VAT.", "path": "SKILL.md", "evidence": [1]}
WHY = (
    "none of its edits can be made in the skill that it is about: edits.0 (replace): the target is not in the file; "
    "copy the text exactly as it stands there"
)
FILES = SkillFiles((SkillFile("SKILL.md", b"---\nname: a\ndescription: b\n---\n\n- Answer in one word.\n"),))


def reply(*edits: dict[str, object]) -> str:
    return json.dumps({"reasoning": "r", "edits": edits})


def test_edits_of_which_none_fits_the_skill_are_refused_and_mended_by_their_agent(
    host: Workspace, proposal: Proposed
) -> None:
    [item] = proposal.work
    refused = submit_work(host, [{"work_id": item.work_id, "reply": reply(MISSED)}])
    assert refused.status == "running"
    [receipt] = refused.receipts
    assert receipt.status == "refused"
    assert receipt.reason.startswith(f"the reply cannot be used ({WHY})")
    assert Path(item.folder, "reply.schema.json").exists()
    mended = submit_work(host, [{"work_id": item.work_id, "reply": reply(MADE)}])
    assert mended.proposed
    assert mended.proposed.candidate_id


def test_an_edit_that_fits_is_not_lost_with_one_that_does_not(host: Workspace, proposal: Proposed) -> None:
    [item] = proposal.work
    done = submit_work(host, [{"work_id": item.work_id, "reply": reply(MISSED, MADE)}])
    assert done.receipts[0].status == "accepted"
    assert done.proposed
    assert done.proposed.candidate_id
    assert [edit.status for edit in done.proposed.edits] == ["unmatched", "applied"]


@pytest.mark.parametrize("model", [PatchReply, AwarePatchReply, MergeReply])
def test_every_reply_with_edits_is_tried_on_the_skill(model: type[PatchReply]) -> None:
    missed, made = EditReply.model_validate(MISSED), EditReply.model_validate(MADE)
    assert unplaced(model(edits=[missed]), FILES) == WHY
    assert unplaced(model(edits=[missed, made]), FILES) == ""
    assert unplaced(model(), FILES) == ""


def test_notes_on_lapses_are_not_lost_with_edits_that_do_not_fit() -> None:
    assert unplaced(AwarePatchReply(edits=[EditReply.model_validate(MISSED)], notes=["Read rule 2."]), FILES) == ""


def test_edits_of_a_model_that_do_not_fit_are_told_and_can_be_corrected_and_its_attempts_are_new_again(
    place: Place, workspace: Workspace
) -> None:
    use(workspace, Scripted(lambda _: "0.00"))
    use(workspace, Scripted(lambda _: reply(MISSED)), "optimizer")
    skill = str(place.skill)
    for n in range(3):
        record_trajectory(workspace, skill, Recording(task=f"{n}: book it", answer="1", hard=False, reason="wrong"))
    found = propose_from_evidence(workspace, skill)
    assert (found.status, found.candidate_id) == ("no_change", None)
    assert found.next_step == (
        "Reflection proposed edits, but none could be made in the file: correct them (they stand in notes) as their "
        "details say, and call propose_edits with edits. The recorded attempts count as new again."
    )
    assert workspace.store.trajectories.count_trajectories(workspace.skill(skill).id)[1] == 3
    told = json.loads(found.notes[0].removeprefix("edits.0: "))
    assert told == {name: MISSED[name] for name in ("op", "target", "content", "path")}
    corrected = {**told, "op": "append"}
    del corrected["target"]
    assert propose_edits(workspace, skill, [corrected]).candidate_id
    assert propose_from_evidence(workspace, skill).status == "no_change"
