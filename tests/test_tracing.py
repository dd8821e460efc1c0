"""Tracing: spans of runs, steps and calls where the process has set a provider."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace

from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.backends import world
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core import tracing
from skillopt_mcp.core.calls import Call
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.workspace import Workspace

SPEC = "simulated:honest,seed=3"


class Taking:
    """A tracer that keeps the name, the attributes and the parent of every span."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, dict[str, Any], str | None]] = []
        self._open: list[str] = []

    @contextmanager
    def start_as_current_span(self, name: str, attributes: dict[str, Any], **recording: bool) -> Iterator[trace.Span]:
        assert recording == {"record_exception": False, "set_status_on_exception": False}
        self._take(name, attributes)
        self._open.append(name)
        yield trace.INVALID_SPAN
        self._open.pop()

    def start_span(self, name: str, *, kind: object, attributes: dict[str, Any], start_time: int) -> trace.Span:
        assert kind is trace.SpanKind.CLIENT
        self._take(name, attributes)
        return trace.INVALID_SPAN

    def _take(self, name: str, attributes: dict[str, Any]) -> None:
        self.spans.append((name, attributes, self._open[-1] if self._open else None))


@pytest.fixture
def taking(monkeypatch: pytest.MonkeyPatch) -> Taking:
    tracer = Taking()
    monkeypatch.setattr(tracing, "_TRACER", tracer)
    monkeypatch.setattr(tracing, "is_on", lambda: True)
    return tracer


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    folder = tmp_path / "skills" / "ledger-clerk"
    folder.mkdir(parents=True)
    for file in world.make_skill(3).files:
        (folder / file.path).write_bytes(file.content)
    with Workspace(tmp_path / "kept" / "store.db", target=SPEC, optimizer=SPEC, project=tmp_path) as workspace:
        tracked = workspace.place.skill(str(folder))
        workspace.store.tasks.add_tasks(tracked.id, world.make_tasks(30, 3), {"train": 1, "val": 1, "test": 1})
        yield workspace


def run(workspace: Workspace) -> None:
    [skill] = (path.parent for path in workspace.store.path.parent.parent.glob("skills/*/SKILL.md"))
    replay(
        workspace.store,
        workspace.models,
        workspace.place,
        start_run(workspace.store, workspace.models, workspace.place, str(skill), Config(epochs=1, batch=5)),
    )


def test_a_run_its_steps_and_its_calls_are_spans_and_tell_nothing_that_was_said(
    workspace: Workspace, taking: Taking
) -> None:
    run(workspace)
    names = [name for name, _, _ in taking.spans]
    assert names[0] == "run"
    assert names.count("step") == 2
    calls = [(attributes, parent) for name, attributes, parent in taking.spans if name == "chat honest"]
    assert len(calls) > 20
    assert {parent for _, parent in calls} == {"run", "step"}
    first = calls[0][0]
    assert first["gen_ai.operation.name"] == "chat"
    assert (first["gen_ai.provider.name"], first["gen_ai.request.model"]) == ("simulated", "honest")
    assert first["gen_ai.usage.input_tokens"] > 0
    assert (first["skillopt.role"], first["skillopt.stage"]) == ("target", "rollout")
    assert "invoice" not in str(taking.spans)


def test_a_failed_attempt_is_a_span_that_names_the_fault(workspace: Workspace, taking: Taking) -> None:
    failures = [BackendFault("refusal", "no")]

    def answer(call: Call) -> str | BackendFault:
        return failures.pop() if failures else "no"

    workspace.models._backends["target"] = Scripted(answer)
    run(workspace)
    assert next(attributes.get("error.type") for name, attributes, _ in taking.spans if name == "chat") == "refusal"
