"""Flips: a bit that turns over on the disk is noticed, wherever in the file it is."""

import random
from pathlib import Path

import pytest

from benchmarks.flips import Flips, dump, flip, is_noticed, make_store

N_BYTES = 150


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make_store(tmp_path_factory.mktemp("flips")).read_bytes()


def test_a_flip_that_changes_a_dump_is_noticed(sound: bytes) -> None:
    written = [offset for offset, byte in enumerate(sound) if byte]  # what is empty changes no dump
    found = flip(sound, random.Random(1).sample(written, N_BYTES))
    assert found == Flips(N_BYTES, found.flips_changing_dump, [])
    assert found.flips_changing_dump > N_BYTES / 4


def test_a_change_of_a_dump_is_seen_where_there_is_one(sound: bytes, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(sound)
    whole = dump(path)
    assert whole is not None
    assert not is_noticed(path)
    path.write_bytes(sound.replace(b"ledger-clerk", b"ledger-clerc"))
    assert dump(path) != whole
    path.write_bytes(b"\0" * 100)
    assert (dump(path), is_noticed(path)) in [(None, True), ([[]], True)]
