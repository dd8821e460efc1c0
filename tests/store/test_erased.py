"""Erased attempts at rest: all or nothing at a kill, never filled again, and no byte of them is left."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from children import SKILL, attempt

from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.core.errors import StoreError
from skillopt_mcp.store.erasing import Erasing
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.store.trajectories import NewTrajectory
from tests.processes import Parent, Spawn, start

N = 120


def filled(store: Store, n: int = N) -> list[int]:
    skill = store.skills.track("s", "/s", SKILL)
    new = (attempt("s", position) for position in range(n))
    return [store.trajectories.add_trajectory(skill.id, skill.live_version, each)[0] for each in new]


def erase_one_by_one(parent: Parent, path: Path) -> None:
    with Store(path) as store:
        erasing = store.table(Erasing)
        ids = erasing.choose(1)
        parent.wait_for_start()
        for start_at in range(0, len(ids), 3):
            parent.send(erasing.erase(ids[start_at : start_at + 3]))


def test_a_kill_leaves_each_attempt_whole_or_erased_and_it_goes_on(store: Store, spawn: Spawn) -> None:
    filled(store)
    chance, n_kills = random.Random("erase"), 6
    for _ in range(n_kills):
        child = spawn(erase_one_by_one, store.path)
        start([child])
        for _ in range(chance.randint(1, 4)):
            child.receive()
        child.kill()
        pool = Pool(store.path)
        rows = pool.rows(
            "select prompt = '' and answer = '' and messages = '[]', id in (select trajectory_id from erased)"
            " from trajectory"
        )
        pool.close()
        assert all(is_empty == is_erased for is_empty, is_erased in rows)
        assert verify_store(store.path).problems == []
    left = store.table(Erasing).choose(1)
    assert 0 < len(left) <= N - 3 * n_kills
    assert store.table(Erasing).erase(left) == len(left)
    assert verify_store(store.path).problems == []


def test_an_erased_attempt_is_never_filled_again(store: Store) -> None:
    filled(store, 2)
    store.table(Erasing).erase([1])
    for change in ("prompt = 'back'", "messages = '[[]]'", "hard = 0"):
        with pytest.raises(StoreError, match="an erased attempt stays empty"), store._pool.write() as connection:
            connection.execute(f"update trajectory set {change} where id = 1")
    for change in ("delete from erased", "update erased set trajectory_id = 2"):
        with pytest.raises(StoreError, match="an erasure is never rewritten"), store._pool.write() as connection:
            connection.execute(change)
    with store._pool.write() as connection:
        connection.execute("update trajectory set prompt = 'other' where id = 2")


def test_no_byte_of_what_was_erased_is_left_however_often_it_was_written(store: Store) -> None:
    chance = random.Random("bytes")
    skill = store.skills.track("s", "/s", SKILL)
    sizes = (1, 5, 40, 200)
    for n in range(200):
        text = f"CANARY{n:04d}" * chance.choice(sizes)
        new = NewTrajectory(text, "", True, 1.0, "", "[]", "s", n)
        store.trajectories.add_trajectory(skill.id, skill.live_version, new)
    for _ in range(200):
        n = chance.randrange(200)
        with store._pool.write() as connection:
            text = f"CANARY{n:04d}" * chance.choice(sizes)
            connection.execute("update trajectory set answer = ? where id = ?", [text, n + 1])
    gone = chance.sample(range(200), 100)
    assert store.table(Erasing).erase([n + 1 for n in gone]) == 100
    assert store.compact(1_000)
    raw = b"".join(path.read_bytes() for path in store.path.parent.iterdir() if path.is_file())
    assert [n for n in gone if f"CANARY{n:04d}".encode() in raw] == []
    assert all(f"CANARY{n:04d}".encode() in raw for n in range(200) if n not in gone)
