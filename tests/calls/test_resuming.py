"""Resuming: a process may die at any moment; another goes on, pays no committed reply again, and comes to the same."""

import random
from pathlib import Path

from asked import Logging, ask_all, rollouts, sent, texts

from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.store.opening import Store
from tests.processes import Spawn, start

KILLS, CALLS, CONCURRENCY = 12, 40, 8


def test_killed_in_the_middle_of_a_round_nothing_committed_is_asked_again(
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
