"""A model on loopback that answers "ok", and the two hosts run against it: in a home of their own, without a login."""

import json
import os
import pathlib
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BIN, HOME, PROJECT = (pathlib.Path(each).resolve() for each in ("node_modules/.bin", "home", "project"))
for folder in (HOME / ".codex", PROJECT):
    folder.mkdir(parents=True, exist_ok=True)
bodies = []


class Model(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        bodies.append(body)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for name, data in (messages if "messages" in self.path else responses)(body.get("model", "")):
            self.wfile.write(f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode())


def messages(model):
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage}
    yield "message_start", {"message": {**message, "stop_reason": None}}
    yield "content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}
    yield "content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "ok"}}
    yield "content_block_stop", {"index": 0}
    yield "message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
    yield "message_stop", {}


def responses(model):
    content = [{"type": "output_text", "text": "ok", "annotations": []}]
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    response = {"id": "resp_1", "object": "response", "created_at": 0, "model": model, "output": []}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    yield "response.created", {"response": {**response, "status": "in_progress"}}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    yield "response.completed", {"response": {**response, "status": "completed", "output": [item], "usage": usage}}


def write_skill(host, name, front, body):
    folder = PROJECT / host / "skills" / name
    folder.mkdir(parents=True)
    front = front if "name:" in front or host != ".claude" else f"name: {name}\n{front}"
    (folder / "SKILL.md").write_text(f"---\n{front}\n---\n\n{body}\n")


def run(program, arguments, **more):
    env = {"PATH": os.environ["PATH"], "HOME": str(HOME), "NO_PROXY": "127.0.0.1", **more}
    return subprocess.run(
        [str(BIN / program), *arguments],
        cwd=PROJECT,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def serve():
    bodies.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def claude(*arguments, **more):
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    return run("claude", arguments, **quiet, **more)


def run_claude(prompt):
    options = ("--model", "claude-sonnet-4-5", "--output-format", "stream-json", "--verbose")
    done = claude("-p", prompt, *options, ANTHROPIC_BASE_URL=serve(), ANTHROPIC_API_KEY="none")
    return done, list(bodies)


def run_codex(prompt, config="", **more):
    provider = f'name = "local"\nbase_url = "{serve()}/v1"\nenv_key = "LOCAL_KEY"\nwire_api = "responses"\n'
    head = 'model = "local"\nmodel_provider = "local"\n[model_providers.local]\n'
    (HOME / ".codex/config.toml").write_text(head + provider + config)
    done = run("codex", ("exec", "--json", "--skip-git-repo-check", prompt), LOCAL_KEY="none", **more)
    return done, list(bodies)


def events_of(done):
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
