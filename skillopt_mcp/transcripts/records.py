"""Records: by what a turn shows that the agent itself recorded an attempt in it, by our tool."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from pydantic import JsonValue
from pydantic_core import from_json

from skillopt_mcp.records.calls import TOOL_CALL, Message

OWN_TOOL = re.compile(r"(?:mcp__)?(?:plugin_\w+_)?skillopt(?:__|\.)\w+")
_RECORD = "record_trajectory"
# A host may keep the result as text within a text.
_RECORDED = re.compile(r'\\?"trajectory_id\\?"\s*:\s*\\?"trajectory:(\d{1,18})\\?"')
_FRESH = re.compile(r'\\?"duplicate\\?"\s*:\s*false')
_SCORED = re.compile(r"trajectory:(\d{1,18})")


class SelfRecorded(NamedTuple):
    """The trajectories that our tool stored in a turn; `tasks` and `sessions` are what it was told of any of them."""

    ids: frozenset[int] = frozenset()
    tasks: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()


NOTHING = SelfRecorded()


def self_recorded(messages: Iterable[Message]) -> SelfRecorded:
    """Return what the agent recorded in a turn; an attempt that it only scored there was recorded before."""
    own = [message for message in messages if message.name and _is_record(message.name)]
    given = [_arguments(message.content) for message in own if message.role == TOOL_CALL]
    results = [(message.content, ids) for message in own if message.role == "tool" and (ids := _ids(message.content))]
    told = Counter(each for _, ids in results for each in ids)
    fresh = {each for content, ids in results if _FRESH.search(content) for each in ids}
    scored = Counter(int(found[1]) for each in given if (found := _SCORED.fullmatch(_text(each, "task"))))
    return SelfRecorded(
        frozenset(each for each in fresh if told[each] > scored[each]),
        frozenset(task for each in given if (task := _text(each, "task"))),
        frozenset(session for each in given if (session := _text(each, "session_id"))),
    )


def _is_record(name: str) -> bool:
    return name.endswith(_RECORD) and OWN_TOOL.fullmatch(name) is not None


def _ids(content: str) -> set[int]:
    return {int(found[1]) for found in _RECORDED.finditer(content)}


def _arguments(content: str) -> JsonValue:
    try:
        value: JsonValue = from_json(content)
    except ValueError:
        return None
    return value


def _text(arguments: JsonValue, name: str) -> str:
    value = arguments.get(name) if isinstance(arguments, dict) else None
    return value if isinstance(value, str) else ""
