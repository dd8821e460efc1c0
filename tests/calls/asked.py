"""What the tests of asking ask, whom they ask, and what other processes do meanwhile."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.core.calls import Call, Question, Reply, Rollout
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.judges.judging import parse_judge
from tests.processes import Parent

SKILL = SkillFiles((SkillFile(MAIN_FILE, b"# Skill\n- Be exact.\n"),))
JUDGE = parse_judge({"kind": "exact", "expected": "42"})


def rollouts(n: int, draw: str = "r-1/e1s1") -> list[Call]:
    tasks = [Task(i, 1, f"t{i}", f"what is {i}?", JUDGE, "train", f"{i:064x}") for i in range(n)]
    return [Call("target", "rollout", Rollout(SKILL, task), draw) for task in tasks]


def question(text: str = "evidence", refs: Sequence[str] = ()) -> Call:
    return Call("optimizer", "reflect", Question("Propose edits.", text, "patch", tuple(refs)), "r-1/e1s1/reflect")


def prompt(call: Call) -> str:
    assert isinstance(call.request, Rollout)
    return call.request.task.prompt


def texts(replies: Sequence[Reply]) -> list[str]:
    return [reply.text for reply in replies]


class Logging:
    """A backend that answers after a while, and notes every call that it is sent in a file that processes share.

    From the task `stuck_from` on it does not answer at all.
    """

    name = "logging"
    fingerprint = "logging:1"
    deferred = False

    def __init__(
        self, path: Path, latency_s: float = 0.0, stuck_from: float = 1000, parent: Parent | None = None
    ) -> None:
        self._path, self._latency_s, self._stuck_from, self._parent = path, latency_s, stuck_from, parent

    async def complete(self, call: Call) -> Reply:
        line = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(line, f"{call.draw} {prompt(call)}\n".encode())
        os.close(line)
        if self._parent:
            self._parent.send("sent", prompt(call))
        is_stuck = int(prompt(call).removeprefix("what is ").removesuffix("?")) >= self._stuck_from
        await asyncio.sleep(3600 if is_stuck else self._latency_s)
        return Reply(f"{call.draw} {prompt(call)} 42")


def sent(log: Path, draw: str) -> list[str]:
    """Return the prompts that were sent under a draw, in order."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [line.removeprefix(f"{draw} ") for line in lines if line.startswith(f"{draw} ")]


def ask_all(parent: Parent, path: Path, log: Path, n: int, draw: str, *backend: float) -> None:
    """Ask for `n` rollouts, reporting everything sent and everything answered, and in the end of all replies.

    `backend` is the latency in seconds and the first task that is never answered.
    """

    def reported(call: Call, _: Reply) -> None:
        parent.send("answered", prompt(call))

    target = Logging(log, *backend, parent=parent)
    with Store(path) as store, Asker(store, {"target": target}, draw.partition("/")[0], on_reply=reported) as ask:
        parent.wait_for_start()
        try:
            parent.send("all", texts(ask(rollouts(n, draw))))
        except KeyboardInterrupt:
            parent.send("interrupted")
