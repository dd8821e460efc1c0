from __future__ import annotations

import json

import pytest

from skillopt_mcp.actions.transcripts import NOTHING, SelfRecorded, self_recorded
from skillopt_mcp.core.calls import TOOL_CALL, Message

RECORD = "mcp__skillopt__record_trajectory"


def turn(task: str, result: str, name: str = RECORD, **more: str) -> list[Message]:
    return [Message(TOOL_CALL, json.dumps({"task": task, **more}), name), Message("tool", result, name)]


def result(n: int, outcome: str = "recorded", indent: int | None = None) -> str:
    return json.dumps({"trajectory_id": f"trajectory:{n}", "n_new": 1, "outcome": outcome}, indent=indent)


@pytest.mark.parametrize(
    "result", [result(7), result(7, indent=2), json.dumps({"content": [{"text": result(7)}], "structured": {}})]
)
@pytest.mark.parametrize(
    "name", [RECORD, "mcp__plugin_skillopt_skillopt__record_trajectory", "mcp__skillopt.record_trajectory"]
)
def test_what_the_agent_recorded_is_found_however_its_host_writes_it(result: str, name: str) -> None:
    found = self_recorded(turn("Close March", result, name, session_id="s"))
    assert found == SelfRecorded(frozenset({7}), frozenset({"Close March"}), frozenset({"s"}))


@pytest.mark.parametrize(
    "messages",
    [
        turn("trajectory:7", result(7, "scored")),
        turn("Close", result(7, "duplicate")),
        turn("Close", "Error: task is empty"),
        turn("Close", result(7), "mcp__other__record_trajectory"),
        turn("Close", result(7), "Bash"),
    ],
    ids=["only scored", "known before", "refused", "another server", "another tool"],
)
def test_what_was_not_recorded_in_this_turn_is_not_taken_for_it(messages: list[Message]) -> None:
    assert self_recorded(messages).ids == NOTHING.ids
