"""Fake host: a program that records what it was given, plays a plan, and may refuse to end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROGRAM = """\
#!{python} -IS
import sys
if "--version" in sys.argv:
    sys.exit(print("9.8.7 (Fake)"))
import json, os, signal
here = os.path.dirname(os.path.abspath(__file__))
with open(here + "/plan.json") as file:
    plan = json.load(file)
place = os.path.dirname(os.path.dirname(os.getcwd()))
files = {{}}
for folder, _, names in os.walk(place):
    for name in names:
        path = os.path.join(folder, name)
        with open(path, errors="replace") as file:
            files[os.path.relpath(path, place)] = [file.read(), os.access(path, os.X_OK), os.path.islink(path)]
seen = dict(argv=sys.argv[1:], environ=dict(os.environ), cwd=os.getcwd(), prompt=sys.stdin.read(), files=files)
seen["mode"] = oct(os.stat(place).st_mode & 0o777)
for line in plan["lines"]:
    print(line.replace("CWD", os.getcwd()), flush=True)
print(plan["errors"], file=sys.stderr)
for path, text in plan["files"].items():
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text.replace("CWD", os.getcwd()))
if plan["locked"]:
    os.makedirs("locked/inner")
    os.chmod("locked/inner", 0)
    os.chmod("locked", 0o500)
pids = [os.getpid()]
if plan["leaves"]:
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(done, b"1")
        signal.pause()
    os.read(ready, 1)
    pids.append(child)
with open(here + "/seen.new", "w") as file:
    json.dump(dict(seen, pids=pids), file)
os.rename(here + "/seen.new", here + "/seen.json")
if os.path.exists(here + "/cue"):
    with open(here + "/cue", "w") as file:
        file.write("seen")
if plan["deaf"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
while plan["hangs"]:
    signal.pause()
if plan["signal"]:
    os.kill(os.getpid(), plan["signal"])
sys.exit(plan["exit"])
"""
_PLAN = {"lines": [], "errors": "", "exit": 0, "signal": 0, "hangs": False, "deaf": False, "leaves": False}


@dataclass(frozen=True)
class FakeHost:
    """The program at `path`; `play` says what it will do, `seen` what it last found."""

    path: Path

    def play(self, *lines: object, **more: object) -> None:
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        plan = {**_PLAN, "locked": False, "files": {}, **more, "lines": texts}
        (self.path.parent / "plan.json").write_text(json.dumps(plan))

    @property
    def seen(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path.parent / "seen.json").read_text())
        return found

    def cue(self) -> Path:
        """Return a pipe that the program writes to once it has recorded what it found."""
        path = self.path.parent / "cue"
        os.mkfifo(path)
        return path


def make_host(folder: Path, name: str) -> FakeHost:
    """Return a fake program in a folder of its own."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(_PROGRAM.format(python=sys.executable))
    path.chmod(0o755)
    host = FakeHost(path)
    host.play()
    return host


def claude_lines(
    answer: str = "done", *tools: tuple[str, dict[str, object], str], **result: object
) -> Iterator[object]:
    """Yield what Claude Code prints of a session that calls tools, given as (name, arguments, result), and answers."""
    yield {"type": "system", "subtype": "init", "tools": []}
    for number, (name, arguments, result_text) in enumerate(tools):
        use = {"type": "tool_use", "id": f"t{number}", "name": name, "input": arguments}
        yield {"type": "assistant", "message": {"role": "assistant", "content": [use]}, "parent_tool_use_id": None}
        back: dict[str, object] = {
            "type": "tool_result",
            "tool_use_id": f"t{number}",
            "content": [{"type": "text", "text": result_text}],
        }
        back["is_error"] = result_text.startswith("Error: ")
        yield {"type": "user", "message": {"role": "user", "content": [back]}, "parent_tool_use_id": None}
        if result_text.startswith("Launching"):
            base = f"Base directory for this skill: CWD/.claude/skills/{arguments['skill']}\n\n# The text of it\n"
            text = {"role": "user", "content": [{"type": "text", "text": base}]}
            yield {"type": "user", "message": text, "parent_tool_use_id": None, "isSynthetic": True}
    yield {"type": "assistant", "message": {"content": [{"type": "text", "text": answer}]}, "parent_tool_use_id": None}
    used = {"inputTokens": 10, "outputTokens": 5, "cacheReadInputTokens": 30, "cacheCreationInputTokens": 2}
    ending = {"type": "result", "subtype": "success", "is_error": False, "result": answer, "total_cost_usd": 0.25}
    yield {**ending, "modelUsage": {"m": used, "small": {"inputTokens": 1, "outputTokens": 1}}, **result}


def codex_lines(answer: str = "done", *commands: tuple[str, str, int]) -> Iterator[object]:
    """Yield what Codex prints of a session that runs commands, given as (command, output, exit code), and answers."""
    yield {"type": "thread.started", "thread_id": "1"}
    for command, output, code in commands:
        item = {"type": "command_execution", "command": command, "aggregated_output": output, "exit_code": code}
        yield {"type": "item.started", "item": item}
        yield {"type": "item.completed", "item": {**item, "status": "completed"}}
    yield {"type": "item.completed", "item": {"type": "agent_message", "text": answer}}
    yield {"type": "turn.completed", "usage": {"input_tokens": 40, "cached_input_tokens": 30, "output_tokens": 6}}
