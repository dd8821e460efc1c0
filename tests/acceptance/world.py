"""World: greetings. A skill that has the lesson of a kind of guest solves that kind's tasks, and fails all others.

The same rules answer as a host's agent from a work folder, as a vendor's model over HTTP, and as a script.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

KINDS = {"morning": "salve", "noon": "ave", "evening": "vale", "night": "bonum"}
HARMFUL = "- Always answer with silence."
SKILL = "---\nname: NAME\ndescription: Greet the guests of an inn.\n---\n\n# Greeting\n\n- Be friendly.\n"
# What the skill is before anybody has trained it, and after all was learned.
TAUGHT = SKILL + "".join(f"- In the {kind} say {greeting}.\n" for kind, greeting in KINDS.items())
GUIDANCE, NOTES = "Guidance: keep greetings short.", "Notes: lessons about one kind of guest help."
_TASK = re.compile(r"\(\w+ \d+\) comes in the (\w+)")
_WORDS = (
    "amber", "baker", "cedar", "delta", "ember", "fjord", "grain", "harbor", "island", "jasmine", "kettle", "lantern",
    "meadow", "nutmeg", "orchard", "pepper", "quartz", "ribbon", "saddle", "timber", "umbrella", "velvet", "willow",
)  # fmt: skip

Fault = Literal["http 500", "http 429", "http 400", "hang", "reset", "garbage", "html", "empty", "cut"]


def lesson(kind: str) -> str:
    """Return the line that solves the tasks of a kind."""
    return f"- In the {kind} say {KINDS[kind]}."


def prompt(split: str, n: int) -> str:
    """Return the n-th task's prompt; the kinds take turns, and no two prompts are near duplicates."""
    first, second, third, fourth = random.Random(f"{split} {n}").sample(_WORDS, 4)
    kind = list(KINDS)[n % len(KINDS)]
    return f"The {first} {second} guest ({split} {n}) comes in the {kind}. Greet them, {third} {fourth}."


def make_tasks(sizes: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return tasks as a user writes them, so many for each split."""
    return [
        {
            "id": f"{split}-{n}",
            "prompt": prompt(split, n),
            "judge": {"kind": "exact", "expected": list(KINDS.values())[n % len(KINDS)]},
            "split": split,
        }
        for split, size in sizes.items()
        for n in range(size)
    ]


def greet(skill: str, task: str) -> str:
    """Return the answer to a task of an agent that has read this skill."""
    found = _TASK.search(task)
    assert found, task
    return KINDS[found[1]] if lesson(found[1]) in skill and HARMFUL not in skill else "hello"


def advise(text: str, schema: Mapping[str, Any], n_lessons: int = 1) -> str:
    """Return the optimizer's reply to a question: the next lessons that the text lacks, as the schema has it.

    A merge gives the last lesson that the text has: all of its edits are that one.
    """
    fields = schema["properties"]
    missing = [lesson(kind) for kind in KINDS if lesson(kind) not in text]
    known = [lesson(kind) for kind in KINDS if lesson(kind) in text]
    lines = known[-1:] if "merged_from" in fields else missing[:n_lessons]
    edit = {"op": "append", "target": None, "path": "SKILL.md", "evidence": [1]}
    reply: dict[str, Any] = {
        "reasoning": "the lesson is missing",
        "edits": [edit | {"content": line} for line in lines],
        "suggestions": [{"instruction": line, "where": ""} for line in lines],
        "skill": SKILL.replace("NAME", "greeter") + "".join(f"{line}\n" for line in [*known, *lines]),
        "merged_from": [1] if "skill" in fields else [[1]] * len(lines),
        "classified": [],
        "notes": [] if "classified" in fields else NOTES,
        "n": 1,
        "ranking": [1],
        "guidance": GUIDANCE,
        "grade": "all",
    }
    return json.dumps({name: reply[name] for name in fields})


def answer_work(folder: Path) -> str:
    """Return the answer of an agent that knows a work folder alone."""
    text = "\n".join(path.read_text() for path in sorted(folder.rglob("*.md")))
    schema = folder / "reply.schema.json"
    return advise(text, json.loads(schema.read_text()), len(KINDS)) if schema.exists() else greet(text, text)


def script() -> dict[str, Any]:
    """Return a file of replies for attempts: the same rules for `scripted:`."""
    right = [{"match": [lesson(kind), f"comes in the {kind}."], "reply": greeting} for kind, greeting in KINDS.items()]
    return {"rollout": [{"match": HARMFUL, "reply": "..."}, *right, "hello"]}


@dataclass(frozen=True)
class Request:
    """One request as the vendor got it; `body` is its digestible form, the same for the same question."""

    body: str
    schema: Mapping[str, Any] | None
    text: str


Act = Callable[[int, Request], Fault | str | None]


@dataclass
class Vendor:
    """A model behind a loopback endpoint. `act` sees each request first: it may break it, or answer in its place."""

    act: Act = lambda _n, _request: None
    requests: list[Request] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        self.lock, self.over = threading.Lock(), threading.Event()

    @property
    def spec(self) -> str:
        """Return how a backend option names this model."""
        return f"openai:m,base_url=http://127.0.0.1:{self.port}/v1,api=chat"

    def reset(self) -> None:
        """Forget all requests, and answer by the rules again."""
        self.requests, self.act = [], lambda _n, _request: None

    def answer(self, payload: Mapping[str, Any]) -> Fault | str:
        """Return what a request gets."""
        messages = payload["messages"]
        shape = payload.get("response_format", {}).get("json_schema", {}).get("schema")
        text = "\n".join(str(message["content"]) for message in messages)
        request = Request(json.dumps(messages), shape, text)
        with self.lock:
            self.requests.append(request)
            acted = self.act(len(self.requests), request)
        if acted is not None:
            return acted
        return advise(text, shape) if shape else greet(text, str(messages[-1]["content"]))


@contextmanager
def vending(act: Act = lambda _n, _request: None) -> Iterator[Vendor]:
    """Yield a vendor that answers at a port of this machine."""
    vendor = Vendor(act)
    with _Server(("127.0.0.1", 0), _handler(vendor)) as server:
        vendor.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.002})
        thread.start()
        try:
            yield vendor
        finally:
            vendor.over.set()
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads, block_on_close, request_queue_size = True, False, 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet: clients that are killed are part of the tests."""


def _handler(vendor: Vendor) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_POST(self) -> None:
            answer = vendor.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            status, body = 200, b""
            if answer == "hang":
                vendor.over.wait(30)
                self.close_connection = True
                return
            if answer == "reset":
                self.close_connection = True
                return
            if answer.startswith("http "):
                status, body = int(answer.split()[1]), json.dumps({"error": {"message": answer}}).encode()
            elif answer == "html":
                body = b"<html><body>Bad gateway</body></html>"
            elif answer == "garbage":
                body = b'{"choices": [{"mess'
            else:
                ending = "length" if answer == "cut" else "stop"
                reply = "" if answer in ("empty", "cut") else answer
                choice = {"index": 0, "finish_reason": ending, "message": {"role": "assistant", "content": reply}}
                usage = {"prompt_tokens": 400, "completion_tokens": 10, "total_tokens": 410}
                completion = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
                body = json.dumps({**completion, "choices": [choice], "usage": usage}).encode()
            self.send_response(status)
            self.send_header("content-type", "text/html" if answer == "html" else "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

    return Handler


def advise_by_name(text: str, form: str) -> str:
    """Return the reply to a question whose form is given by name, as callables get it."""
    fields = {"patch": ("reasoning", "edits"), "merge": ("reasoning", "edits", "merged_from")}[form]
    return advise(text, {"properties": fields})
