"""Watching: progress, cancellation and spans of tool calls."""

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp.shared._otel
import pytest
from full_server import World, call, with_client
from mcp import Client
from mcp.server.mcpserver.tools import Tool
from opentelemetry import trace

from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.resolved import resolve_spec
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core import tracing
from skillopt_mcp.core.budgets import Caps
from skillopt_mcp.core.calls import Call, Fault, Reply
from skillopt_mcp.core.errors import SkillOptError, Stopped
from skillopt_mcp.core.notes import Note, describe_note
from skillopt_mcp.core.results import SkillList
from skillopt_mcp.server import app as watching
from skillopt_mcp.server import tools
from skillopt_mcp.server.app import CallWatch, Services, SkillOptServer, watcher
from skillopt_mcp.server.lifecycle import Setup
from skillopt_mcp.server.services import open_services
from skillopt_mcp.training.progress import Progress
from skillopt_mcp.workspace.jobs import Wait

ERAS = pytest.mark.parametrize("era", ["auto", "legacy"])


def at(n: int) -> Progress:
    return Progress("confirm", 0, n, 4)


def test_a_host_that_asks_for_progress_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_NOTIFY_EVERY_S", 0.0)

    def list_skills() -> SkillList:
        notify = watcher()
        for n in range(1, 5):
            notify(at(n))
        return SkillList(skills=[])

    reported: list[tuple[float, float | None, str | None]] = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        reported.append((done, total, message))

    async def ask(client: Client) -> None:
        await client.call_tool("list_skills", {}, progress_callback=note)
        with anyio.fail_after(5):
            while len(reported) < 4:
                await anyio.sleep(0)

    with_client(SkillOptServer(lambda: Services([Tool.from_function(list_skills)])), ask)
    assert reported == [(n, 4, "confirm") for n in range(1, 5)]


def test_progress_is_shown_a_few_times_a_second_at_most_and_not_after_the_call() -> None:
    reported: list[Progress] = []
    watch = CallWatch(reported.append)
    for n in range(1000):
        watch.notify(at(n))
    watch.close()
    assert reported == [at(0)]
    unwatched = CallWatch(None)
    unwatched.notify(at(1))


@ERAS
def test_a_cancelled_call_stops_its_work_at_the_next_sign_of_progress(era: str) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def list_skills() -> SkillList:
        notify = watcher()
        begun.set()
        try:
            while True:
                notify(at(1))
        except Stopped:
            stopped.set()
            raise

    async def ask(client: Client) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "list_skills", {})
            await anyio.to_thread.run_sync(begun.wait)
            tasks.cancel_scope.cancel()

    with_client(SkillOptServer(lambda: Services([Tool.from_function(list_skills)])), ask, era)
    assert stopped.wait(5)


def test_a_cancelled_promotion_test_goes_on_from_where_it_stopped(tmp_path: Path) -> None:
    world = World(tmp_path)
    candidate_id = world.propose()
    watch = CallWatch(None)

    def cancel_after(progress: Progress) -> None:
        if progress.n_done:
            watch.cancel()
        watch.notify(progress)

    with pytest.raises(Stopped, match="the host cancelled the call: what was answered is kept"):
        evaluate_candidate(
            world.workspace.store,
            world.workspace.models,
            world.workspace.place,
            candidate_id,
            Wait(world.workspace.jobs, notify=cancel_after),
        )
    tests = world.workspace.store.tests
    [test] = tests.list_of_skill(1)
    kept = tests.list_attempts(test.id)
    assert kept
    result = evaluate_candidate(
        world.workspace.store, world.workspace.models, world.workspace.place, candidate_id, Wait(world.workspace.jobs)
    )
    assert result.accepted
    assert set(kept) < set(tests.list_attempts(test.id))


class Taking:
    """A tracer that keeps all that it is reported."""

    def __init__(self) -> None:
        self.reported: list[object] = []

    @contextmanager
    def start_as_current_span(self, name: str, **reported: Any) -> Iterator["Taking"]:
        self.reported += [name, reported]
        yield self

    def __getattr__(self, name: str) -> Any:
        return lambda *reported, **more: self.reported.append((name, reported, more))


def test_the_spans_of_tool_calls_show_the_tool_and_nothing_of_what_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, taking = World(tmp_path), Taking()
    monkeypatch.setattr(tracing, "_TRACER", taking)
    monkeypatch.setattr(tracing, "is_on", lambda: True)
    monkeypatch.setattr(mcp.shared._otel, "_tracer", taking)
    held = next(task for task in world.workspace.store.tasks.list_tasks(1) if task.split == "test")
    server = world.server()
    arguments = {"skill": "ledger-clerk", "task": held.prompt, "answer": "sk-ant-planted", "reason": "planted"}
    call(server, "record_trajectory", arguments)

    async def fail(client: Client) -> bool:
        results = [await client.call_tool(name, {"id": "planted"}) for name in ("inspect", "planted_tool")]
        return all(result.is_error for result in results)

    assert with_client(server, fail)
    ours = [name for name in taking.reported if isinstance(name, str) and name.startswith("tool ")]
    assert ours == ["tool record_trajectory", "tool inspect"]
    # What the client's own half of the SDK says in the same process is the host's business.
    reported = str([each for each in taking.reported if "MCP send" not in str(each)])
    assert ("error.type" in reported, "planted" in reported, held.prompt in reported) == (True, False, False)


def test_a_failure_goes_out_by_its_kind_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    taking = Taking()
    monkeypatch.setattr(tracing, "_TRACER", taking)
    monkeypatch.setattr(tracing, "is_on", lambda: True)
    with pytest.raises(SkillOptError), tracing.span("tool inspect"):
        raise SkillOptError("planted")
    assert ("set_attribute", ("error.type", "SkillOptError"), {}) in taking.reported
    assert ("set_status", (trace.StatusCode.ERROR,), {}) in taking.reported
    assert "planted" not in str(taking.reported)


class CutOff(Scripted):
    """A target of six answers, four of them cut off; the rest come when it is released."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(
            lambda _: BackendFault(fault, "a task's text; raise max_tokens=N") if self.n_calls % 3 else "no"
        )
        self.released = threading.Event()

    async def complete(self, call: Call) -> Reply:
        while self.n_calls >= 6 and not self.released.is_set():
            await asyncio.sleep(0.01)
        return await super().complete(call)


@pytest.mark.parametrize("tool", ["evaluate_candidate", "propose_edits"])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("truncated", "answers cut off: a task's text; raise max_tokens=N"),
        ("refusal", "answers refused: reword the tasks"),
    ],
)
def test_missing_answers_are_named_with_the_way_out_while_a_test_or_proposal_is_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, fault: Fault, said: str
) -> None:
    monkeypatch.setattr(tools, "CALL_WAIT_S", 1.5)
    world, target = World(tmp_path), CutOff(fault)
    for role in ("target", "optimizer"):
        world.workspace._specs[role], world.workspace.models._backends[role] = target.name, target
    server = world.server()
    arguments = {"candidate_id": world.propose()}
    if tool == "propose_edits":
        arguments = {"skill": "ledger-clerk", "rollouts": 9}
    elif call(server, tool, arguments)["status"] == "estimate":
        assert target.n_calls == 0
    standing = call(server, tool, arguments)
    target.released.set()
    assert standing["status"] == "running"
    [note] = standing["notes"]
    text = describe_note(Note.model_validate(note)) if isinstance(note, dict) else note
    assert text.startswith(f"4 of the first 6 {said}")
    assert ("a task's text" in json.dumps(standing)) == (fault == "truncated")


@pytest.mark.parametrize(
    ("kind", "max_minutes", "said"),
    [
        (
            "claude-code",
            None,
            "The cap (--max-calls 500; it is the default with a login, about 7,000,000 tokens: raise",
        ),
        ("codex", None, "The cap (--max-calls 500; it is the default with a login, about 7,000,000 tokens: raise"),
        ("claude-code", 30.0, ""),
        ("simulated:honest", None, ""),
    ],
)
def test_a_login_has_a_default_cap_that_the_estimate_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, max_minutes: float | None, said: str
) -> None:
    world, program = World(tmp_path), tmp_path / "agent"
    candidate_id = world.propose()
    program.write_text("#!/bin/sh\necho '2.1.0 (Claude Code)'\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    target = kind if ":" in kind else f"{kind}:m,binary={program}"
    if kind != target:
        parts = resolve_spec(target).parts
        world.workspace.store.permissions.remember_backend(parts, target, "a person")
    setup = Setup(tmp_path / "store.db", target=target, caps=(None, None, None, max_minutes))
    server = SkillOptServer(lambda: open_services(setup, Future()))
    standing = call(server, "evaluate_candidate", {"candidate_id": candidate_id})
    reach = (standing.get("foreseen") or {}).get("reach", "")
    assert reach.startswith(said) if said else not reach
    assert not said or (standing["status"], "reaches a verdict" in reach) == ("estimate", True)


def test_a_host_learns_before_the_first_work_whether_the_cap_reaches_a_verdict(tmp_path: Path) -> None:
    world = World(tmp_path, target="host")
    world.workspace.models.caps = Caps(calls=40)
    standing = call(world.server(), "evaluate_candidate", {"candidate_id": world.propose()})
    assert standing["foreseen"]["reach"] == (
        "The cap (--max-calls 40) reaches no verdict: "
        f"the promotion test takes up to {standing['foreseen']['most_runs']} runs."
    )
