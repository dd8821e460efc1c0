"""Fake Anthropic: enough of the Messages API to drive the real Claude Code on loopback."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from itertools import dropwhile
from typing import Any

from scripted_model import Api, Json, Turn, first_object

# What an older Claude Code answers while a server is not ready after two seconds; a model then tries again.
_NOT_READY = "No such tool available"


class Messages(Api):
    """The Messages API, streamed."""

    def results(self, request: Json) -> list[Json]:
        """Return the tool results in the conversation, but for calls before the host had connected to the server."""
        blocks = [
            block
            for message in request["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "tool_result"
        ]
        texts = [_text(block.get("content")) for block in blocks]
        return [first_object(text) for text in dropwhile(lambda text: _NOT_READY in text, texts)]

    def events(self, request: Json, turn: Turn) -> Iterator[tuple[str, Json]]:
        """Yield a message with one block per part of the turn."""
        blocks = [_block(part) for part in turn]
        calls = any(block["type"] == "tool_use" for block in blocks)
        usage = {"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
        yield (
            "message_start",
            {
                "message": {
                    "id": f"msg_{uuid.uuid4().hex}",
                    "type": "message",
                    "role": "assistant",
                    "model": request["model"],
                    "content": [],
                    "stop_reason": None,
                    "stop_sequence": None,
                    "usage": usage,
                }
            },
        )
        for index, block in enumerate(blocks):
            if block["type"] == "text":
                start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
            else:
                start = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield "content_block_start", {"index": index, "content_block": start}
            yield "content_block_delta", {"index": index, "delta": delta}
            yield "content_block_stop", {"index": index}
        stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
        yield "message_delta", {"delta": stop, "usage": {"output_tokens": 20}}
        yield "message_stop", {}


def _block(part: Any) -> Json:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    call_id = f"toolu_{uuid.uuid4().hex[:20]}"
    name = f"mcp__{part.server}__{part.tool}" if part.server else part.tool
    return {"type": "tool_use", "id": call_id, "name": name, "input": part.arguments}


def _text(content: object) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return str(content or "")
