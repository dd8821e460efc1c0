"""Fake OpenAI: enough of the Responses API to drive the real Codex on loopback."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from scripted_model import Api, Json, Turn, first_object


class Responses(Api):
    """The Responses API, streamed."""

    def results(self, request: Json) -> list[Json]:
        """Return the tool results in the conversation."""
        outputs = [item["output"] for item in request["input"] if item.get("type") == "function_call_output"]
        return [_result(output) for output in outputs]

    def events(self, request: Json, turn: Turn) -> Iterator[tuple[str, Json]]:
        """Yield a response with one item per part of the turn."""
        items = [_item(part) for part in turn]
        usage = {"input_tokens": 10, "output_tokens": 20, "total_tokens": 30}
        response = {
            "id": f"resp_{uuid.uuid4().hex}",
            "object": "response",
            "created_at": int(time.time()),
            "model": request["model"],
            "status": "in_progress",
            "output": [],
        }
        yield "response.created", {"sequence_number": 0, "response": response}
        number = 0
        for index, item in enumerate(items):
            for name, state in (("added", "in_progress"), ("done", "completed")):
                number += 1
                yield (
                    f"response.output_item.{name}",
                    {"sequence_number": number, "output_index": index, "item": {**item, "status": state}},
                )
        done = {**response, "status": "completed", "output": items, "usage": usage}
        yield "response.completed", {"sequence_number": number + 1, "response": done}


def _item(part: Any) -> Json:
    if isinstance(part, str):
        content = [{"type": "output_text", "text": part, "annotations": []}]
        return {"type": "message", "id": f"msg_{uuid.uuid4().hex[:20]}", "role": "assistant", "content": content}
    return {
        "type": "function_call",
        "id": f"fc_{uuid.uuid4().hex[:20]}",
        "call_id": f"call_{uuid.uuid4().hex[:20]}",
        "name": part.tool,
        **({"namespace": f"mcp__{part.server}"} if part.server else {}),
        "arguments": json.dumps(part.arguments),
    }


def _result(output: Any) -> Json:
    """Return the object in a tool's output: text, or text parts, behind the host's own "Wall time ... Output:"."""
    text = output if isinstance(output, str) else "".join(part.get("text", "") for part in output)
    return first_object(text.partition("Output:")[2] or text)
