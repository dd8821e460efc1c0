"""Answer forms: what the instructions of a piece of work show is what a host may answer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
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
