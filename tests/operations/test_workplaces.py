"""WorkFolders: the folders of work come and go with the work, for this store and for those that are gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillopt_mcp.backends import work_folders
from skillopt_mcp.backends.work import HandedWork
from skillopt_mcp.backends.work_folders import WorkFolders
from skillopt_mcp.core.errors import StoreError

WORK = HandedWork("# Work\n", ())


def places(tmp_path: Path, store: str = "a.db") -> WorkFolders:
    return WorkFolders(tmp_path / store, {"SKILLOPT_WORK": str(tmp_path / "work")})


def test_the_folder_of_a_store_goes_with_its_last_work_and_comes_with_the_next(tmp_path: Path) -> None:
    here = places(tmp_path)
    for _ in range(2):
        here.make("w-a-1", WORK)
        here.make("w-a-2", WORK)
        here.remove(["w-a-1"])
        assert here.root.is_dir()
        here.remove(["w-a-2"])
        assert list((tmp_path / "work").iterdir()) == []


def test_work_is_made_though_the_folder_around_it_is_being_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, made, removals = places(tmp_path), Path.mkdir, [1, 1]

    def mkdir(path: Path, *args: object, **more: object) -> None:
        if path.name == "1" and removals:
            removals.pop()
            here.folder("w-a-1").parent.rmdir()
            here.root.rmdir()
        made(path, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", mkdir)
    assert (here.make("w-a-1", WORK) / "WORK.md").read_text() == "# Work\n"
    here.remove(["w-a-1"])
    removals.extend([1, 1, 1])
    with pytest.raises(StoreError, match="cannot be made"):
        here.make("w-a-1", WORK)


def test_only_work_of_its_own_store_that_is_a_day_old_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other, here = places(tmp_path, "other.db"), places(tmp_path)
    other.make("w-other-1", WORK)
    assert here.stale() == []
    here.make("w-old-1", WORK)
    (here.root / "mine").mkdir()
    assert here.stale() == []
    monkeypatch.setattr(work_folders, "_STALE_S", -1.0)
    assert here.stale() == ["w-old-1"]


def test_a_folder_of_work_is_named_without_links_and_the_same_for_everybody(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    found = {WorkFolders(tmp_path / "a.db", {"SKILLOPT_WORK": str(tmp_path / way)}).root for way in ("real", "link")}
    assert len(found) == 1
    assert found.pop().parent == tmp_path / "real"
