"""Session lines: transcripts as Claude Code and Codex write them, made of what was said and done."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable

FOLDER = "/home/me/project"
_IDS = itertools.count()


def line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def claude_user(text: object, **more: object) -> bytes:
    return line({"type": "user", "cwd": FOLDER, "message": {"role": "user", "content": text}, **more})


def claude_said(text: str) -> bytes:
    return _claude([{"type": "text", "text": text}])


def claude_call(name: str, arguments: object, result: str) -> list[bytes]:
    call_id = f"t{next(_IDS)}"
    answer = {"type": "tool_result", "tool_use_id": call_id, "content": result}
    return [_claude([{"type": "tool_use", "id": call_id, "name": name, "input": arguments}]), claude_user([answer])]


def claude_skill(path: str) -> list[bytes]:
    name = path.rpartition("/")[2]
    told = [{"type": "text", "text": f"Base directory for this skill: {path}\n\n# {name}"}]
    return [*claude_call("Skill", {"skill": name}, f"Launching skill: {name}"), claude_user(told, isMeta=True)]


def codex_meta() -> bytes:
    return line({"type": "session_meta", "payload": {"id": "x", "cwd": FOLDER}})


def codex_user(text: str) -> bytes:
    item = {"type": "UserMessage", "content": [{"type": "text", "text": text}]}
    return line({"type": "event_msg", "payload": {"type": "item_completed", "item": item}})


def codex_said(text: str) -> bytes:
    return _codex({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})


def codex_shell(command: str, output: str) -> list[bytes]:
    call_id = f"c{next(_IDS)}"
    arguments = json.dumps({"cmd": command})
    return [
        _codex({"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": call_id}),
        _codex({"type": "function_call_output", "call_id": call_id, "output": output}),
    ]


def codex_tool(namespace: str, name: str, arguments: object, output: str) -> list[bytes]:
    call: dict[str, object] = {"type": "function_call", "namespace": namespace, "name": name}
    answer: dict[str, object] = {"type": "function_call_output", "output": output}
    call_id = f"c{next(_IDS)}"
    return [
        _codex({**call, "arguments": json.dumps(arguments), "call_id": call_id}),
        _codex({**answer, "call_id": call_id}),
    ]


def joined(*parts: bytes | Iterable[bytes]) -> list[bytes]:
    return [each for part in parts for each in ([part] if isinstance(part, bytes) else part)]


def _claude(blocks: list[object]) -> bytes:
    return line({"type": "assistant", "cwd": FOLDER, "message": {"role": "assistant", "content": blocks}})


def _codex(payload: dict[str, object]) -> bytes:
    return line({"type": "response_item", "payload": payload})
