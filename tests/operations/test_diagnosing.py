from __future__ import annotations

import os
from pathlib import Path

import pytest

from skillopt_mcp.admin import doctor as diagnosing
from skillopt_mcp.admin.doctor import diagnose
from skillopt_mcp.core.errors import StoreError
from skillopt_mcp.store.pool import connect
from skillopt_mcp.workspace.workspace import Workspace


def test_a_folder_that_cannot_hold_the_store_is_a_problem(tmp_path: Path, home: Path) -> None:
    (tmp_path / "file").write_text("")
    with Workspace(tmp_path / "file" / "inner" / "store.db") as workspace:
        [problem] = diagnose(workspace.store, workspace.models, workspace.place).problems
    assert problem.startswith(f"the folder '{tmp_path / 'file'}' of the store cannot be written (Not a directory): ")
    assert problem.endswith("or name a store elsewhere with --store or SKILLOPT_STORE")


def test_what_is_there_and_can_be_no_store_is_a_problem(tmp_path: Path, home: Path) -> None:
    for path, what in ((tmp_path, "a folder"), (Path("/"), "a folder"), (Path("/dev/null"), "not a regular file")):
        with Workspace(path) as workspace:
            [problem] = diagnose(workspace.store, workspace.models, workspace.place).problems
            assert problem.startswith(f"'{path}' is {what}: name a file")
            with pytest.raises(StoreError, match=f"is {what[:13]}"):
                workspace.store.open()


def test_a_store_that_cannot_be_written_any_more_is_a_problem(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    with Workspace(path) as workspace:
        workspace.store.open()
    # The rights of a file do not bind every user that tests run as.
    monkeypatch.setattr(os, "access", lambda place, mode: (place, mode) != (path, os.W_OK))
    with Workspace(path) as workspace:
        [problem] = diagnose(workspace.store, workspace.models, workspace.place).problems
    assert problem.startswith(f"the store '{path}' cannot be written: chmod 600 it")


def test_a_skill_in_a_root_that_cannot_be_read_is_reported(tmp_path: Path, home: Path) -> None:
    skill = home / ".claude" / "skills" / "latin"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_bytes("---\nname: latin\ndescription: Büro.\n---\n".encode("latin-1"))
    with Workspace(tmp_path / "store.db") as workspace:
        found = diagnose(workspace.store, workspace.models, workspace.place)
    (reported,) = [each for each in found.lacking if "latin" in each]
    assert reported.startswith(f'a skill cannot be read: "{skill}/SKILL.md" is not UTF-8 at byte ')
    assert reported.endswith(f": skillopt-mcp check {skill}")


def test_damaged_pages_are_a_problem(tmp_path: Path, home: Path) -> None:
    path = tmp_path / "store.db"
    with Workspace(path) as workspace:
        for n in range(200):
            workspace.store.permissions.add_root(f"/root-{n}")
        assert diagnose(workspace.store, workspace.models, workspace.place).store.pages == "sound"
    raw = bytearray(path.read_bytes())
    page = raw.find(b"/root-150") // 1024 * 1024
    raw[page : page + 8] = bytes(8)
    path.write_bytes(bytes(raw))
    with Workspace(path) as workspace:
        found = diagnose(workspace.store, workspace.models, workspace.place)
    assert found.store.pages == "damaged"
    assert any("is damaged" in each and "skillopt-mcp store restore FILE" in each for each in found.problems)


def test_a_log_that_a_reader_keeps_from_being_brought_in_is_a_problem(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosing, "_MOST_LOGGED", 1 << 16)
    path = tmp_path / "store.db"
    with Workspace(path) as workspace:
        workspace.store.permissions.add_root("/root")
        reader = connect(path)
        reader.execute("begin")
        reader.execute("select * from skill_root").fetchall()
        for n in range(40):
            workspace.store.permissions.add_root(f"/root-{n}")
        (reported,) = diagnose(workspace.store, workspace.models, workspace.place).problems
        assert reported.startswith(f"the log '{path}-wal' has grown to 0 MiB")
        assert "end idle hosts" in reported
        reader.execute("commit")
        reader.close()
        assert diagnose(workspace.store, workspace.models, workspace.place).problems == []
