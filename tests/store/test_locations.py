"""Locations: a store is one store by whatever path it is named, so that two processes share its locks and its salt."""

import os
from pathlib import Path

from skillopt_mcp.store.files import lock_run, store_path
from skillopt_mcp.store.opening import Store


def test_a_link_to_a_store_leads_to_the_same_locks(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "folder").symlink_to(tmp_path / "real")
    (tmp_path / "other.db").symlink_to(tmp_path / "real/s.db")
    names = [str(tmp_path / name) for name in ("real/s.db", "folder/s.db", "other.db")]
    names.append(os.path.relpath(names[2]))
    assert {store_path(name, {}) for name in names} == {tmp_path.resolve() / "real/s.db"}
    with Store(store_path(names[0], {})) as one, Store(store_path(names[2], {})) as two:
        held = lock_run(one.locks_path, "r")
        assert held
        assert lock_run(two.locks_path, "r") is None
        held.release()
