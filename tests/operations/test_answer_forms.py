"""Answer forms: what the instructions of a piece of work show is what a host may answer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hostwork import begun
from workshop import Place

from skillopt_mcp.operations.host_work.conforming import broken
from skillopt_mcp.operations.results import Proposed
from skillopt_mcp.operations.runs.submitting import submit_work
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.replies import PatchReply

EXAMPLE = re.compile(r"```json\n(.*?)\n```", re.DOTALL)


def test_the_example_of_the_instructions_is_taken(place: Place, host: Workspace, proposal: Proposed) -> None:
    [item] = proposal.work
    [example] = EXAMPLE.findall(Path(item.folder, "INSTRUCTIONS.md").read_text())
    reply = json.loads(example)
    assert set(reply["edits"][1]) == {"op", "content", "evidence"}
    done = submit_work(host, [{"work_id": item.work_id, "reply": reply}])
    assert [receipt.status for receipt in done.receipts] == ["accepted"]


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ({"edits": []}, 'the object: "reasoning" missing (needed are reasoning, edits, and no others)'),
        (
            {"reasoning": "", "edits": [{"content": "x", "where": "here"}]},
            'edits.0: "op", "evidence" missing and "where" not known '
            "(needed are op, evidence, possible target, content, path, and no others)",
        ),
    ],
)
def test_what_is_missing_or_unknown_is_told(reply: dict[str, object], told: str) -> None:
    assert broken(reply, PatchReply) == told


def test_whoever_asks_for_work_after_a_refusal_is_told_that_it_is_to_be_mended(
    host: Workspace, proposal: Proposed
) -> None:
    [item] = proposal.work
    wait = f"Wait for those of them that your own agents have (inspect {proposal.job_id} lists them)"
    assert f"{wait}; otherwise stop here" in submit_work(host, [], proposal.job_id).next_step
    submit_work(host, [{"work_id": item.work_id, "reply": "no json"}])
    told = submit_work(host, [], proposal.job_id).next_step
    assert f"{wait}, and see that 1 reply that was refused is mended and submitted again; otherwise stop here" in told


def test_whoever_has_a_reply_to_mend_is_not_told_to_stop(place: Place, host: Workspace) -> None:
    first, *_, last = begun(host, place.propose(host)).work
    replies = [{"work_id": first.work_id, "reply": "1"}, {"work_id": last.work_id, "reply": " "}]
    while (answer := submit_work(host, replies)).work:
        pass
    assert answer.status == "running"
    assert answer.next_step == (
        "1 of 2 replies was NOT taken (the reply is empty: give the answer, or say why there is none as failed): mend "
        "that, and submit again."
    )
