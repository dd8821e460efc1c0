from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from workshop import Place

from skillopt_mcp.actions.promotions.consent import permit
from skillopt_mcp.actions.promotions.promoting import promote_skill
from skillopt_mcp.admin.backup import Restored, back_up, restore_store
from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.errors import BadInput, Busy, NotFound, Refused, StoreError
from skillopt_mcp.store import copying
from skillopt_mcp.store.files import Owner
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import connect
from skillopt_mcp.workspace.workspace import Workspace
from tests.processes import exit_code


def run_sql(path: Path, *statements: str) -> None:
    connection = connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def roots(path: Path) -> list[str]:
    with Store(path) as store:
        return store.permissions.list_roots()


@pytest.fixture
def backup(place: Place, workspace: Workspace, tmp_path: Path) -> Path:
    """Return a backup that was made while the store is in use."""
    permit(workspace.store, workspace.place, str(place.skill), simulated=False)
    made = back_up(place.store_path, tmp_path / "copy.db")
    assert (made.file, made.head) == (str(tmp_path / "copy.db"), verify_store(place.store_path).head)
    return tmp_path / "copy.db"


def test_a_backup_shows_progress_and_is_of_one_moment_though_others_write(
    place: Place, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_PAGES", 1)
    reported = list[tuple[str, int, int]]()
    with Store(place.store_path) as other:

        def advance(what: str, n_done: int, n_total: int) -> None:
            reported.append((what, n_done, n_total))
            if what == "copying" and n_done % 10 == 0:
                other.permissions.add_root(str(tmp_path / str(n_done)))

        workspace.place.skill(str(place.skill))
        begun = verify_store(place.store_path).head
        made = back_up(place.store_path, tmp_path / "copy.db", advance=advance)
    assert made.head == begun
    copied = [(n_done, n_total) for what, n_done, n_total in reported if what == "copying"]
    assert copied == [(n, len(copied)) for n in range(1, len(copied) + 1)]
    assert [what for what, *_ in reported if what != "copying"] == [
        "checking the file",
        "checking the rows",
        "checking the chain of events",
        "recomputing the decisions",
        "checking the promotions",
    ]


def test_a_backup_overwrites_nothing(place: Place, backup: Path) -> None:
    before = backup.read_bytes()
    with pytest.raises(BadInput, match="is not overwritten"):
        back_up(place.store_path, backup)
    assert backup.read_bytes() == before
    with pytest.raises(BadInput, match="cannot be made"):
        back_up(place.store_path, backup / "inside")
    with pytest.raises(NotFound):
        back_up(place.store_path.with_name("none.db"), backup.with_name("new.db"))


def test_a_restored_store_is_the_backup_and_the_other_is_kept(place: Place, backup: Path) -> None:
    with place.open() as later:
        later.store.permissions.add_root("/another")
    place.stack.close()
    restored = restore_store(place.store_path, backup)
    assert roots(place.store_path) == [str(place.root)]
    assert roots(Path(restored.kept)) == ["/another", str(place.root)]
    assert restored.kept.startswith(f"{place.store_path}.replaced-")
    assert verify_store(place.store_path).problems == []
    with Store(place.store_path) as store:
        assert store._pool.row("pragma journal_mode") == ("wal",)
    again = restore_store(place.store_path, backup)
    assert again.kept != restored.kept
    names = {path.name for path in place.store_path.parent.iterdir() if path.suffix not in (".salt", ".locks")}
    assert names == {place.store_path.name, Path(restored.kept).name, Path(again.kept).name}


def reviewed(place: Place, file: Path) -> Restored:
    """Return what a person is asked about, who declines."""
    asked = list[Restored]()

    def decline(found: Restored) -> None:
        asked.append(found)
        raise Refused("no")

    before = sorted(path.name for path in place.store_path.parent.iterdir())
    with pytest.raises(Refused, match="no"):
        restore_store(place.store_path, file, decline)
    assert sorted(path.name for path in place.store_path.parent.iterdir()) == before
    return asked[0]


def test_a_person_is_asked_with_what_the_backup_lacks_before_anything_is_changed(place: Place, backup: Path) -> None:
    assert reviewed(place, backup).lost == []
    with place.open() as later:
        candidate = place.accepted(later)
        promote_skill(later.store, later.place, candidate, Consent.PERSON_SIMULATED)
    found = reviewed(place, backup)
    assert [(lost.kind, lost.skill, round(lost.alpha, 3)) for lost in found.lost or ()] == [
        ("promotion test", "ledger-clerk", 0.017),
        ("promote", "ledger-clerk", 0.0),
    ]
    assert f"promotions of {place.skill.name} without asking" in found.allows
    place.stack.close()
    place.store_path.write_bytes(b"\0" * 4096)
    assert reviewed(place, backup).lost is None


def killed_at(path: Path, backup: Path, call: int) -> None:
    """Restore, but end at once before the n-th change of a file."""
    n = 0

    def ending(real: Callable[..., object]) -> Callable[..., object]:
        def change(*arguments: object, **named: object) -> object:
            nonlocal n
            n += 1
            if n == call:
                os._exit(9)
            return real(*arguments, **named)

        return change

    for name in ("link", "unlink", "replace"):
        setattr(os, name, ending(getattr(os, name)))
    restore_store(path, backup)
    os._exit(0)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_restore_that_is_killed_leaves_the_old_store_or_the_backup(
    place: Place, backup: Path, is_damaged: bool
) -> None:
    with place.open() as later:
        later.store.permissions.add_root("/another")
    place.stack.close()
    path, folder = place.store_path, place.store_path.parent
    if is_damaged:
        path.write_bytes(b"\0" * 100 + path.read_bytes()[100:])
        path.with_name(f"{path.name}-wal").write_bytes(b"of the old one")
    before = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
    ended, sound = [], set[bytes]()
    for call in range(1, 30):
        ended.append(exit_code(killed_at, path, backup, call, within_s=60))
        if is_damaged and path.read_bytes() == before[path.name]:
            whole = [
                name
                for name in (path.name, *(each.name for each in folder.glob(f"{path.name}.replaced-*")))
                if (folder / f"{name}-wal").exists() and (folder / name).read_bytes() == before[path.name]
            ]
            assert whole, "the old store is somewhere with all of its files"
        else:
            assert roots(path) in ([str(place.root)], ["/another", str(place.root)])
            if (content := path.read_bytes()) not in sound:
                assert verify_store(path).problems == []
                sound.add(content)
        if ended[-1] == 0:
            break
        for each in folder.iterdir():
            if each.is_file():
                each.unlink()
        for name, content in before.items():
            (folder / name).write_bytes(content)
    assert roots(path) == [str(place.root)]
    assert len(ended) > 2
    assert set(ended[:-1]) == {9}


def test_nothing_is_restored_while_another_has_the_store_open(place: Place, backup: Path) -> None:
    with Store(place.store_path) as store:
        with pytest.raises(Busy, match="another process has the store"):
            restore_store(place.store_path, backup)
        store.permissions.add_root("/also here")
        assert store._pool.row("pragma journal_mode") == ("wal",)
    assert roots(place.store_path) == ["/also here", str(place.root)]


def test_nothing_is_restored_while_a_process_holds_a_lock(place: Place, backup: Path) -> None:
    place.stack.close()
    owner = Owner(place.store_path.with_name(f"{place.store_path.name}.locks"))
    with pytest.raises(Busy, match="another process works on the store"):
        restore_store(place.store_path, backup)
    owner.close()
    restore_store(place.store_path, backup)


@pytest.mark.parametrize(
    ("statement", "error", "said"),
    [
        ("pragma user_version = 999", StoreError, "was made by another version of skillopt-mcp; move it aside"),
        ("pragma application_id = 1", StoreError, "a database of another program"),
        ("update skill_root set path = 'x'", Refused, "is not sound"),
    ],
)
def test_a_backup_that_cannot_be_trusted_changes_nothing(
    place: Place, backup: Path, statement: str, error: type[Exception], said: str
) -> None:
    place.stack.close()
    run_sql(backup, statement)
    before = sorted(path.name for path in place.store_path.parent.iterdir())
    with pytest.raises(error, match=said):
        restore_store(place.store_path, backup)
    assert sorted(path.name for path in place.store_path.parent.iterdir()) == before


def test_a_store_is_restored_where_there_is_none(backup: Path, tmp_path: Path) -> None:
    path = tmp_path / "new" / "place" / "skillopt.db"
    restored = restore_store(path, backup)
    assert (restored.kept, verify_store(path).problems) == ("", [])
    with pytest.raises(BadInput, match="is the store itself"):
        restore_store(path, path)
    with pytest.raises(NotFound, match="there is no backup at"):
        restore_store(path, tmp_path / "none.db")


def test_what_is_no_backup_is_named_as_that_and_nothing_is_made_for_it(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("hello")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(tmp_path.iterdir())
    for name in ("empty", "text", "pipe", "."):
        with pytest.raises(BadInput) as reported:
            restore_store(tmp_path / "new" / "skillopt.db", tmp_path / name)
        no_backup = "is not a backup: name a file that 'store backup' wrote; nothing was changed"
        assert str(reported.value) == f"'{tmp_path / name}' {no_backup}"
    assert sorted(tmp_path.iterdir()) == before


def test_damage_is_reported_of_the_store_that_has_it_and_not_of_the_copy(
    place: Place, workspace: Workspace, tmp_path: Path
) -> None:
    workspace.place.skill("ledger-clerk")
    place.stack.close()
    raw = bytearray(place.store_path.read_bytes())
    raw[1024:4096] = bytes(3072)
    place.store_path.write_bytes(bytes(raw))
    with pytest.raises(Refused) as reported:
        back_up(place.store_path, tmp_path / "b.db")
    assert str(reported.value).startswith(f"'{place.store_path}' is")
    assert "use another backup" not in str(reported.value)
    assert list(tmp_path.glob("*b.db*")) == []


def test_side_files_of_a_removed_store_are_not_used_by_the_restored_one(place: Place, backup: Path) -> None:
    place.stack.close()
    place.store_path.unlink()
    journal = place.store_path.with_name(f"{place.store_path.name}-wal")
    journal.write_bytes(b"of another")
    restored = restore_store(place.store_path, backup)
    assert not journal.exists()
    assert Path(f"{restored.kept}-wal").read_bytes() == b"of another"
