"""World: a vendor on the loopback, the same for both sides, in the environment of the old wheel: `world.py FOLDER`.

It writes SKILL.md and tasks.jsonl into the folder, prints its port, and answers as the old wheel's simulation, by what
it is sent alone: the n-th time that a prompt comes, it has its n-th answer. The bearer token names the file in the
folder that keeps the prompts in the order in which they came.
"""

import hashlib
import json
import sys
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from skillopt_mcp.backends.proposer import _BUDGET, Proposer

from skillopt_mcp.backends.world import World, make_skill, make_tasks, right_answer, taught_by, topics_of
from skillopt_mcp.records.calls import Question
from skillopt_mcp.records.replies import SCHEMAS

FOLDER, SEED, N_TASKS, PORT = Path(sys.argv[1]), 7, 30, 42877
WORLD, PROPOSER = World(seed=SEED), Proposer(SEED, helpful=0.5, harmful=0.2)
FORMS = {model.__name__: schema for schema, model in SCHEMAS.items()}
SEEN: Counter[tuple[str, str]] = Counter()


def answer(system: str, user: str, form: str, n: int) -> str:
    """Return the n-th answer to a prompt; `form` names the form of a question's reply and is empty for a task."""
    if form:  # the wording of the instructions changes no answer
        budget = _BUDGET.search(system)
        return PROPOSER.answer(Question(budget[0] if budget else "", user, FORMS[form]), str(n))
    taught = taught_by(system)
    chance = hashlib.sha256(f"{sorted(taught)} {user} {n}".encode()).digest()
    is_right = chance[0] < 256 * WORLD.pass_rate(taught, topics_of(user))
    return right_answer(SEED, user) if is_right else f"{chance[1]}.99"


class Handler(BaseHTTPRequestHandler):
    """Answers Chat Completions."""

    protocol_version, disable_nagle_algorithm, wbufsize = "HTTP/1.1", True, -1

    def do_POST(self) -> None:
        """Answer one request, and keep its prompt."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        system, user = (message["content"] for message in body["messages"])
        form = body.get("response_format", {}).get("json_schema", {}).get("name", "")
        side = self.headers["authorization"].removeprefix("Bearer ")
        SEEN[side, system + user] += 1
        with (FOLDER / f"{side}.jsonl").open("a") as log:
            log.write(json.dumps([form, system, user]) + "\n")
        message = {"role": "assistant", "content": answer(system, user, form, SEEN[side, system + user])}
        usage = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        sent = json.dumps({"id": "c", "model": "m", "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


(FOLDER / "SKILL.md").write_bytes(make_skill(SEED).files[0].content)
with (FOLDER / "tasks.jsonl").open("w") as lines:
    for n, task in enumerate(make_tasks(N_TASKS, SEED)):
        row = {"id": f"t{n}", "prompt": task.prompt, "judge": task.judge.model_dump(mode="json"), "tags": task.tags}
        lines.write(json.dumps(row | {"split": ("train", "val", "test")[n % 3]}) + "\n")
try:  # a backend is named by its port, and what a run shuffles by its backends: the same port, the same run
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
except OSError:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
