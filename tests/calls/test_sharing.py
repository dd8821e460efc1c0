"""Sharing: processes that need the same replies send each call once between them, and none waits for the dead."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from asked import Logging, ask_all, rollouts, sent, texts

from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.core.budgets import NO_CAPS, Cost, Spent
from skillopt_mcp.store.calls import Bill, Settlement
from skillopt_mcp.store.files import Owner, lock_run
from skillopt_mcp.store.opening import Store
from tests.processes import Parent, Spawn, start, together

DRAW, N = "r-1/e1s1", 30
EXPECTED = [f"{DRAW} what is {n}? 42" for n in range(N)]


def hold_run(parent: Parent, folder: Path, name: str) -> None:
    lock = lock_run(folder, name)
    parent.send(lock is not None)
    parent.wait_for_start()


def own(parent: Parent, folder: Path) -> None:
    owner = Owner(folder)
    parent.send(owner.name)
    parent.wait_for_start()


def test_two_processes_send_each_call_once_and_both_get_every_reply(store: Store, tmp_path: Path, spawn: Spawn) -> None:
    log = tmp_path / "sent"
    said = together([spawn(ask_all, store.path, log, N, DRAW, 0.005) for _ in range(2)])
    assert [each[-1] for each in said] == [("all", EXPECTED)] * 2
    assert sorted(sent(log, DRAW)) == sorted(f"what is {n}?" for n in range(N))
    assert [row.n_repeated for row in store.ledger.list_rows("r-1")] == [0]


def test_when_one_is_killed_the_other_takes_its_calls_over(store: Store, tmp_path: Path, spawn: Spawn) -> None:
    log = tmp_path / "sent"
    stuck = spawn(ask_all, store.path, log, N, DRAW, 600.0)
    start([stuck])
    held = {stuck.receive()[1] for _ in range(8)}
    other = spawn(ask_all, store.path, log, N, DRAW)
    start([other])
    heard = [other.receive() for _ in range(2 * (N - 8))]
    assert {prompt for what, prompt in heard if what == "answered"} == {f"what is {n}?" for n in range(N)} - held
    stuck.kill()
    assert other.rest()[-1] == ("all", EXPECTED)
    prompts = sent(log, DRAW)
    assert {prompt for prompt in prompts if prompts.count(prompt) == 2} == held
    assert len(prompts) == N + 8
    assert [row.n_repeated for row in store.ledger.list_rows("r-1")] == [8]


def test_an_asker_that_was_closed_lets_go_of_its_claims(store: Store, tmp_path: Path) -> None:
    first, second = (Asker(store, {"target": Logging(tmp_path / "sent")}, "r-1") for _ in range(2))
    calls = rollouts(3, DRAW)
    keyed = [(call.key(Logging.fingerprint), call) for call in calls]
    bill = Bill("r-1", NO_CAPS, Spent(), [Cost()] * 3)
    settled = store.calls.settle(Settlement([], [], 0, keyed, "r-1", first._owner.name, bill))
    assert {claim.owner for claim in settled.claims} == {first._owner.name}
    first.close()
    assert texts(second(calls)) == EXPECTED[:3]
    second.close()
    assert list(store.locks_path.iterdir()) == []


def test_an_owner_is_alive_until_it_lets_go(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    one, two = Owner(folder), Owner(folder)
    assert [one.is_alive(one.name), one.is_alive(two.name), one.is_alive("f" * 16)] == [True, True, False]
    two.close()
    assert not one.is_alive(two.name)
    one.close()
    assert list(folder.iterdir()) == []


def test_an_owner_dies_with_its_process(tmp_path: Path, spawn: Spawn) -> None:
    child = spawn(own, tmp_path)
    name = child.receive()
    mine = Owner(tmp_path)
    assert mine.is_alive(name)
    child.kill()
    assert not mine.is_alive(name)
    mine.close()


def test_a_lock_that_another_process_only_tests_can_be_taken(tmp_path: Path) -> None:
    probe = lock_run(tmp_path, "r-1")
    assert probe
    with ThreadPoolExecutor(1) as thread:
        taken = thread.submit(lock_run, tmp_path, "r-1")
        time.sleep(0.01)
        probe.release()
        mine = taken.result()
    assert mine
    mine.release()


def test_one_process_advances_a_run_and_its_lock_dies_with_it(tmp_path: Path, spawn: Spawn) -> None:
    child = spawn(hold_run, tmp_path, "r-1")
    assert child.receive() is True
    assert lock_run(tmp_path, "r-1") is None
    other = lock_run(tmp_path, "r-2")
    assert other
    other.release()
    child.kill()
    mine = lock_run(tmp_path, "r-1")
    assert mine
    assert lock_run(tmp_path, "r-1") is None
    mine.release()
