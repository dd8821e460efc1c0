"""Kills: what a store said it keeps is there after its writers were killed in the middle."""

import random

from children import attempt, record

from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool
from tests.processes import Spawn, start

ROUNDS, WRITERS = 8, 5


def test_no_acknowledged_trajectory_is_lost_to_forty_kills(store: Store, spawn: Spawn) -> None:
    chance = random.Random("kills")
    acknowledged: dict[int, tuple[str, int]] = {}
    for n in range(ROUNDS):
        writers = [spawn(record, store.path, f"s{n}.{i}", 1_000_000) for i in range(WRITERS)]
        start(writers)
        for writer in chance.sample(writers, WRITERS):  # the others write on, and recover what it left
            reported = [writer.receive() for _ in range(chance.randint(1, 20))]
            acknowledged |= {each[2]: each[:2] for each in [*reported, *writer.kill()]}
    assert len(acknowledged) > ROUNDS * WRITERS
    pool = Pool(store.path)
    stored = {row[0]: row[1:] for row in pool.rows("select id, session_id, position, answer from trajectory")}
    for trajectory_id, (session, position) in acknowledged.items():
        assert stored[trajectory_id] == (session, position, attempt(session, position).answer)
    assert pool.rows("pragma integrity_check") == [("ok",)]
    assert pool.rows("pragma foreign_key_check") == []
    pool.close()
    assert len(stored) <= len(acknowledged) + ROUNDS * WRITERS, "a kill loses its last word at most"
