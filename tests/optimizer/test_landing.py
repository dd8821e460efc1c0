"""Landing: answers are used as they come, and no stage waits for one that it does not need."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from training_world import PLAIN, RUN, SKILL, Bench, new_tasks, right, rollout_of

from skillopt_mcp.core.calls import Call, Reply
from skillopt_mcp.core.runs import StepRecord
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.loop import train
from skillopt_mcp.training.progress import Progress

N_EACH, SLOTS = 12, 4
EDIT = json.dumps({"reasoning": "r", "edits": [{"op": "append", "content": "- Rule."}]})


class Gated:
    """A backend that answers at once, but for a call that it holds back until an event of another call."""

    name = fingerprint = "gated"
    deferred = False

    def __init__(self, answer: Callable[[Call], str], hold: Callable[[Call], Awaitable[object] | None]) -> None:
        self.sent = list[Call]()
        self._answer, self._hold = answer, hold

    async def complete(self, call: Call) -> Reply:
        """Answer, once nothing holds the call back."""
        self.sent.append(call)
        await asyncio.sleep(0.01)
        held = self._hold(call)
        if held is not None:
            await asyncio.wait_for(held, 20)
        return Reply(self._answer(call))


def n_of(call: Call) -> int:
    return int(rollout_of(call).task.name.removeprefix("t"))


def is_candidates(call: Call) -> bool:
    return call.role == "target" and "Rule." in rollout_of(call).files.text


def trained(
    folder: Path, backend: Gated, n_epochs: int = 1, notify: Callable[[Progress], None] = lambda _: None
) -> list[StepRecord]:
    config = Config(batch=N_EACH, epochs=n_epochs, minibatch=2, max_edits=1, min_edits=1, **PLAIN)
    with Bench(folder, SKILL, new_tasks(3 * N_EACH)) as bench:
        with bench.ask(backend, concurrency=SLOTS) as ask:
            train(bench.plan(config), bench.store, ask, notify)
        assert max(Counter(call.key("gated") for call in backend.sent).values()) == 1
        return bench.store.runs.list_steps(RUN)


def test_a_minibatch_is_read_before_the_last_attempt_has_landed(tmp_path: Path) -> None:
    first_read = asyncio.Event()

    def hold(call: Call) -> Awaitable[object] | None:
        if call.stage == "reflect":
            first_read.set()
        return first_read.wait() if call.role == "target" and n_of(call) == 0 else None

    [step] = trained(tmp_path, Gated(lambda call: "wrong" if call.role == "target" else EDIT, hold))
    assert step.n_proposed >= 1


def test_a_candidate_that_can_only_be_rejected_waits_for_none_of_its_last_attempts(tmp_path: Path) -> None:
    """Of its 12 val tasks the live version solves 6, so that 6 failures decide: two answers come after the step."""

    def answer(call: Call) -> str:
        if call.role == "optimizer":
            return EDIT
        is_right = n_of(call) % 2 == 0 and "Rule." not in rollout_of(call).files.text
        return right(call) if is_right else "wrong"

    ended = threading.Event()

    async def wait() -> None:
        while not ended.is_set():
            await asyncio.sleep(0.01)

    def hold(call: Call) -> Awaitable[object] | None:
        return wait() if is_candidates(call) and n_of(call) in (1, 4) else None

    def notify(progress: Progress) -> None:
        if progress.stage == "step":
            ended.set()

    backend = Gated(answer, hold)
    [step] = trained(tmp_path, backend, notify=notify)
    assert (step.verdict, step.candidate, step.current, step.at_most, step.val) == ("reject", 0.5, 0.5, True, None)
    assert step.show_score(2) == "≤0.50"
    assert sum(map(is_candidates, backend.sent)) < N_EACH


def test_the_next_step_begins_once_a_candidate_is_sure_to_be_accepted(tmp_path: Path) -> None:
    second_began = asyncio.Event()

    def answer(call: Call) -> str:
        if call.role == "optimizer":
            return EDIT
        return right(call) if is_candidates(call) and n_of(call) not in (0, 4) else "wrong"

    def hold(call: Call) -> Awaitable[object] | None:
        if not is_candidates(call):
            return None
        if rollout_of(call).task.split == "train":
            second_began.set()
        return second_began.wait() if n_of(call) == 1 else None

    first, _ = trained(tmp_path, Gated(answer, hold), n_epochs=2)
    assert first.verdict == "accept_best"
    assert first.candidate == pytest.approx(11 / 12)
    assert not first.at_most
