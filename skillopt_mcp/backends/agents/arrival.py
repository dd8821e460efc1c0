"""Arrival: a text is driven once through the real host, against a server of ours, to see whether the host loads it.

No model and no login take part: the host starts from an empty environment, with a made-up key.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any, NamedTuple, cast

from skillopt_mcp.backends.agents.events import BASE
from skillopt_mcp.core.calls import Arrival
from skillopt_mcp.core.text import quoted
from skillopt_mcp.documents.frontmatter import body_of
from skillopt_mcp.gates.guard.shapes import RUN_BLOCK

CHECK_S = 60.0
# What a host replaces, or runs: such a line may come as another one, or not at all.
_REPLACED = re.compile(r"\$(?:ARGUMENTS|\d|\{CLAUDE_)|\\\$|!`[^`]+`")
_SHELLS = ("exec_command", "shell_command", "shell")
_PART_CHARACTERS = 6000
_ALIKE, _COMPARED, _MOST_PAIRS = 0.5, 500, 10**7
_SHOWN = 3
Json = dict[str, Any]


class HostRequests(NamedTuple):
    """What the host sent: its requests, in order, and the headers of each."""

    bodies: list[Json]
    headers: list[dict[str, str]]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    asked: HostRequests
    folder: str
    parts: Sequence[str]


class _Api(BaseHTTPRequestHandler):
    """The few words of the Messages and the Responses API that have a host open a skill, and then end."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer("application/json", b"")

    def do_GET(self) -> None:
        self._answer("application/json", b'{"data": [], "models": [], "has_more": false}')

    def do_POST(self) -> None:
        content, path = self.rfile.read(int(self.headers.get("content-length") or 0)), self.path.partition("?")[0]
        if not path.endswith(("/messages", "/responses")):
            self._answer("application/json", b'{"input_tokens": 1}')
            return
        body: Json = json.loads(content)
        self.server.asked.bodies.append(body)
        self.server.asked.headers.append(dict(self.headers))
        events = self._messages(body) if path.endswith("/messages") else self._responses(body)
        if path.endswith("/messages") and not body.get("stream"):
            message = {**_MESSAGE, "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"}
            self._answer("application/json", json.dumps(message).encode())
            return
        lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self._answer("text/event-stream", "".join(lines).encode())

    def _answer(self, kind: str, content: bytes) -> None:
        self.send_response(200)
        for name, value in (("content-type", kind), ("content-length", str(len(content)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _messages(self, body: Json) -> Iterator[Json]:
        """The events of a reply that opens the skill, where that was not asked for yet."""
        tools = {tool.get("name") for tool in body.get("tools") or ()}
        opens = "Skill" in tools and self.server.folder and not _is_opened(body)
        block: Json = {"type": "text", "text": ""}
        delta: Json = {"type": "text_delta", "text": "ok"}
        if opens:
            block = {"type": "tool_use", "id": "toolu_1", "name": "Skill", "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps({"skill": self.server.folder})}
        yield {"type": "message_start", "message": {**_MESSAGE, "model": body.get("model") or "m"}}
        yield {"type": "content_block_start", "index": 0, "content_block": block}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        stop = {"stop_reason": "tool_use" if opens else "end_turn", "stop_sequence": None}
        yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}}
        yield {"type": "message_stop"}

    def _responses(self, body: Json) -> Iterator[Json]:
        """The events of a reply that reads the next part of the skill's file, until all of it was read."""
        n_read = sum(item.get("type") == "function_call_output" for item in body.get("input") or ())
        tools = {tool.get("name") for tool in body.get("tools") or ()}
        shell = next((name for name in _SHELLS if name in tools), None)
        if shell and n_read < len(self.server.parts) and is_listed(body, self.server.folder):
            command = self.server.parts[n_read]
            given: Json = {"cmd": command} if shell == "exec_command" else {"command": command}
            if shell == "shell":
                given = {"command": ["bash", "-lc", command]}
            item: Json = {"type": "function_call", "id": f"fc_{n_read}", "call_id": f"call_{n_read}", "name": shell}
            item |= {"arguments": json.dumps(given), "status": "completed"}
        else:
            text = {"type": "output_text", "text": "ok", "annotations": []}
            item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        response: Json = {"id": "resp_1", "object": "response", "created_at": 0, "model": body.get("model")}
        response["output"] = []
        yield {"type": "response.created", "response": {**response, "status": "in_progress"}}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        done = {**response, "status": "completed", "output": [item], "usage": usage}
        yield {"type": "response.completed", "response": done}


_MESSAGE: Json = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
    "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip


@contextmanager
def serve_host(folder: str, text: str, skills_path: str) -> Iterator[tuple[str, HostRequests]]:
    """Serve on loopback; enter with the address, and what is asked there. Without a `folder` no skill is opened."""
    server = _Server(("127.0.0.1", 0), _Api)
    path = shlex.quote(f"{skills_path}/{folder}/SKILL.md")
    lines = text.splitlines(keepends=True)
    ends, size = [0], 0
    for n, line in enumerate(lines, 1):
        size += len(line)
        if size >= _PART_CHARACTERS or n == len(lines):
            ends.append(n)
            size = 0
    # Hosts cut long output: a part at a time.
    server.parts = [f"sed -n {start + 1},{end}p {path}" for start, end in pairwise(ends)]
    server.asked, server.folder = HostRequests([], []), folder
    threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.asked
    finally:
        server.shutdown()
        server.server_close()


async def first_request(asked: HostRequests, running: asyncio.Task[Any]) -> bool:
    """Whether a request came within a minute, or before the host ended."""
    for _ in range(int(CHECK_S * 10)):
        if asked.bodies or running.done():
            break
        await asyncio.sleep(0.1)
    return bool(asked.bodies)


def compare_texts(text: str, arrived: str) -> Arrival:
    """Whether the body of a skill arrived, line by line in order: a missing line refuses it, a changed one is named."""
    # A block that the host runs may come as anything, and a command within a line is one line of it.
    texts = (
        RUN_BLOCK.sub(
            lambda found: found[0].replace(found[1], found[1].replace("\n", " ") * (found[1][0] == "!")), each
        )
        for each in (body_of(text), arrived)
    )
    wanted, came = ([line.strip() for line in each.splitlines() if line.strip(" \t>*+-")] for each in texts)
    start = next((n for n, pair in enumerate(zip(wanted, came, strict=False)) if pair[0] != pair[1]), None)
    start = min(len(wanted), len(came)) if start is None else start
    wanted, came = wanted[start:], came[start:]
    missing, changed = list[str](), list[str]()
    if len(wanted) * len(came) > _MOST_PAIRS:
        there = set(came)
        missing = [line for line in wanted if line not in there]
    else:
        for kind, i, i_end, j, j_end in SequenceMatcher(None, wanted, came, autojunk=False).get_opcodes():
            others = came[j:j_end]
            for line in wanted[i:i_end] if kind in ("replace", "delete") else ():
                pairs = ((other, SequenceMatcher(None, line[:_COMPARED], other[:_COMPARED])) for other in others)
                near = next((other for other, pair in pairs if pair.ratio() >= _ALIKE), None)
                (missing if near is None else changed).append(line)
                others = others[others.index(near) + 1 :] if near is not None else others
    changed += [line for line in missing if _REPLACED.search(line)]
    missing = [line for line in missing if not _REPLACED.search(line)]
    if missing:
        return Arrival("refused", f"{len(missing)} lines did not arrive: {_quote_lines(missing)}")
    return Arrival("arrived", f"the host changes {len(changed)} lines: {_quote_lines(changed)}" if changed else "")


def _quote_lines(lines: Sequence[str]) -> str:
    return ", ".join(quoted(line, 60) for line in lines[:_SHOWN])


def _is_opened(body: Json) -> bool:
    """Whether a conversation holds the skill's text, or the answer of a tool."""
    messages = body.get("messages") or ()
    blocks = [each for message in messages if isinstance(message.get("content"), list) for each in message["content"]]
    is_answered = any(block.get("type") == "tool_result" for block in blocks)
    return is_answered or any(text.startswith(BASE) for text in find_texts(messages))


def is_listed(body: Json, folder: str) -> bool:
    return any(f"/{folder}/SKILL.md" in text for text in find_texts([body.get("instructions"), body.get("input")]))


def find_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from find_texts(each)
    elif isinstance(value, dict):
        for name in ("text", "content", "output"):
            yield from find_texts(cast(Json, value).get(name))
