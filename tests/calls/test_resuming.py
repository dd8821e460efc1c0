"""Resuming: a process may die at any moment; another goes on, pays no committed reply again, and comes to the same."""

import os
import random
import signal
from pathlib import Path
from typing import Any

from asked import Logging, ask_all, rollouts, sent, texts

from skillopt_mcp.calls.asking import Asker
from skillopt_mcp.store.opening import Store
from tests.processes import Spawn, start

KILLS, CALLS, CONCURRENCY = 12, 40, 8


def test_killed_in_the_middle_of_a_batch_nothing_committed_is_asked_again(
    store: Store, tmp_path: Path, spawn: Spawn
) -> None:
    log, chance = tmp_path / "sent", random.Random("kills")
    for n in range(KILLS):
        draw = f"r-{n}/e1s1"
        calls = rollouts(CALLS, draw)
        child = spawn(ask_all, store.path, log, CALLS, draw, 0.03)
        start([child])
        for _ in range(chance.randint(1, 2 * CALLS - 2)):
            child.receive()
        child.kill()
        keys = [call.key(Logging.fingerprint) for call in calls]
        committed = {call.request.task.prompt for call, key in zip(calls, keys, strict=True)
                     if key in store.calls.get_replies(keys)}  # fmt: skip
        with Asker(store, {"target": Logging(log)}, f"r-{n}", concurrency=CONCURRENCY) as ask:
            assert texts(ask(calls)) == [f"{draw} {call.request.task.prompt} 42" for call in calls]
        prompts = sent(log, draw)
        assert all(prompts.count(prompt) == 1 for prompt in committed)
        assert len(set(prompts)) == CALLS
        [row] = store.ledger.list_rows(f"r-{n}")
        n_repeats = len(prompts) - CALLS
        assert n_repeats <= row.n_repeated <= CONCURRENCY
        assert (row.n_calls, row.n_missing) == (CALLS, 0)


def test_killed_again_and_again_a_batch_still_comes_to_its_end(store: Store, tmp_path: Path, spawn: Spawn) -> None:
    log, draw = tmp_path / "sent", "r-1/e1s1"
    chance = random.Random("again")
    n_kills = 0
    for n_heard in [*(chance.randint(9, 20) for _ in range(8)), 1000]:
        child = spawn(ask_all, store.path, log, CALLS, draw, 0.01)
        start([child])
        heard: list[Any] = []
        while len(heard) < n_heard and (not heard or heard[-1][0] != "all"):
            heard.append(child.receive())
        if heard[-1][0] == "all":
            break
        child.kill()
        n_kills += 1
    assert n_kills >= 3
    assert heard[-1] == ("all", [f"{draw} {call.request.task.prompt} 42" for call in rollouts(CALLS, draw)])
    assert len(sent(log, draw)) <= CALLS + CONCURRENCY * n_kills


def test_interrupted_what_came_in_is_kept_and_the_rest_is_asked_later(
    store: Store, tmp_path: Path, spawn: Spawn
) -> None:
    log, draw = tmp_path / "sent", "r-1/e1s1"
    child = spawn(ask_all, store.path, log, CALLS, draw, 0.0, 20)
    start([child])
    heard = [child.receive() for _ in range(20 + 20 + CONCURRENCY)]
    assert child.process.pid
    os.kill(child.process.pid, signal.SIGINT)
    heard += child.rest()
    assert heard.pop() == "interrupted"
    answered = [prompt for what, prompt in heard if what == "answered"]
    calls = rollouts(CALLS, draw)
    kept = store.calls.get_replies([call.key(Logging.fingerprint) for call in calls])
    assert sorted(answered) == sorted(f"what is {n}?" for n in range(20))
    assert len(kept) == 20
    assert len(sent(log, draw)) == 20 + CONCURRENCY
    with Asker(store, {"target": Logging(log)}, "r-1") as ask:
        assert texts(ask(calls)) == [f"{draw} {call.request.task.prompt} 42" for call in calls]
    assert len(sent(log, draw)) == CALLS + CONCURRENCY
