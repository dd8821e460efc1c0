from __future__ import annotations

import errno
import os
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from skillopt_mcp.core.errors import Refused, Stale
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.documents import live_files as livefiles
from skillopt_mcp.documents.live_files import TEMPORARY, replace_files, sweep
from skillopt_mcp.workspace.skill_folders import read_skill

OLD = SkillFiles(
    (SkillFile("SKILL.md", b"old\n"), SkillFile("references/a.md", b"old a\n"), SkillFile("gone.md", b"x"))
)
NEW = SkillFiles(
    (
        SkillFile("SKILL.md", b"new\n"),
        SkillFile("references/a.md", b"new a\n"),
        SkillFile("references/deep/b.md", b"b\n"),
    )
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the disk: what a power cut would leave is not looked at here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = Path(os.path.realpath(tmp_path)) / "skill"
    put(place, OLD)
    return place


def put(place: Path, files: SkillFiles) -> None:
    for file in files.files:
        (place / file.path).parent.mkdir(parents=True, exist_ok=True)
        (place / file.path).write_bytes(file.content)


def strays(place: Path) -> list[Path]:
    return list(place.rglob(f"{TEMPORARY}*"))


def test_files_are_changed_made_and_removed_and_no_temporary_file_stays(folder: Path) -> None:
    replace_files(folder, OLD, NEW)
    assert read_skill(folder) == NEW
    assert strays(folder) == []
    replace_files(folder, NEW, OLD)
    assert read_skill(folder) == OLD


def test_skill_md_is_written_last(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    real = livefiles._write
    monkeypatch.setattr(livefiles, "_write", lambda where, old, new: (order.append(new.path), real(where, old, new)))
    replace_files(folder, OLD, NEW)
    assert order == ["references/a.md", "references/deep/b.md", "SKILL.md"]


def test_a_file_is_on_the_disk_before_it_is_in_its_place_and_its_folder_after(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    real = livefiles.exchange  # type: ignore[attr-defined]
    monkeypatch.setattr(
        os, "fsync", lambda fd: order.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
    )
    monkeypatch.setattr(livefiles, "exchange", lambda *names: (order.append("swap"), real(*names))[1])
    replace_files(folder, OLD, OLD.replaced(SkillFile("SKILL.md", b"new\n")))
    assert order == ["file", "swap", "folder"]


def test_a_file_keeps_its_mode_and_owner(folder: Path) -> None:
    main = folder / "SKILL.md"
    main.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(main, 65534, 65534)
    before = main.stat()
    replace_files(folder, OLD, NEW)
    after = main.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def acl(*entries: tuple[int, int, int]) -> bytes:
    """Return a POSIX ACL as Linux keeps it: (tag, permissions, id) of each entry."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def attributes(path: Path) -> dict[str, bytes]:
    return {name: os.getxattr(path, name) for name in os.listxattr(path) if not name.startswith("security.")}


ANY = 0xFFFFFFFF
ACL = acl((1, 6, ANY), (2, 6, 65534), (4, 4, ANY), (16, 6, ANY), (32, 0, ANY))
INHERITED = acl((1, 7, ANY), (2, 7, 65533), (4, 5, ANY), (16, 7, ANY), (32, 5, ANY))
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="sets extended attributes as Linux does")


@needs_linux
def test_a_file_keeps_its_extended_attributes_and_its_acl_through_a_change_and_back(folder: Path) -> None:
    main, other = folder / "SKILL.md", folder / "references/a.md"
    try:
        os.setxattr(main, "user.origin", b"\x00by me")
        os.setxattr(main, "system.posix_acl_access", ACL)
        os.setxattr(folder / "references", "system.posix_acl_default", INHERITED)
    except OSError as error:
        pytest.skip(f"this file system keeps none: {error}")
    kept = (attributes(main), main.stat().st_mode, attributes(other), other.stat().st_mode)
    assert set(kept[0]) == {"user.origin", "system.posix_acl_access"}
    for before, after in ((OLD, NEW), (NEW, OLD)):
        replace_files(folder, before, after)
        assert (attributes(main), main.stat().st_mode, attributes(other), other.stat().st_mode) == kept


@needs_linux
def test_a_change_that_cannot_keep_an_attribute_is_refused_with_nothing_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    try:
        os.setxattr(folder / "SKILL.md", "user.origin", b"by me")
    except OSError as error:
        pytest.skip(f"this file system keeps none: {error}")
    monkeypatch.setattr(os, "setxattr", full)
    with pytest.raises(
        Refused, match=r"SKILL\.md' has an attribute that its new version cannot keep \(user\.origin: No"
    ):
        replace_files(folder, OLD, OLD.replaced(SkillFile("SKILL.md", b"new\n")))
    assert read_skill(folder) == OLD
    assert strays(folder) == []


def test_a_new_file_never_replaces_one_that_somebody_made(folder: Path) -> None:
    (folder / "references/deep").mkdir()
    (folder / "references/deep/b.md").write_bytes(b"mine")
    with pytest.raises(Refused, match=r"b\.md"):
        replace_files(folder, OLD, NEW)
    assert (folder / "references/deep/b.md").read_bytes() == b"mine"
    assert strays(folder) == []


Edit = Callable[[Path], None]


def _in_place(main: Path) -> None:
    main.write_bytes(b"edited by a person\n")


def _as_editors_do(main: Path) -> None:
    (main.parent / "SKILL.md~new").write_bytes(b"edited by a person\n")
    os.replace(main.parent / "SKILL.md~new", main)


@pytest.mark.parametrize("edit", [_in_place, _as_editors_do])
@pytest.mark.parametrize("can_exchange", [True, False])
@pytest.mark.parametrize("before_call", ["open", "write", "fsync", "fchmod", "exchange", "unlink", "mkdir", "stat"])
def test_an_edit_by_a_person_is_never_lost_whenever_it_comes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, edit: Edit, can_exchange: bool, before_call: str
) -> None:
    """The edit comes before the n-th call of one kind, for every n; it is live then, or kept next to its place."""
    if not can_exchange and before_call in ("exchange", "unlink"):
        pytest.skip("without an exchange the last step cannot be guarded")
    main = folder / "SKILL.md"
    for nth in range(1, 40):
        put(folder, OLD)
        for stray in [*strays(folder), folder / "references/deep/b.md"]:
            stray.unlink(missing_ok=True)
        with monkeypatch.context() as patched:
            n_seen = _edit_before(patched, before_call, nth, lambda: edit(main), can_exchange=can_exchange)
            try:
                replace_files(folder, OLD, NEW)
            except Refused:
                outcome = "refused"
            else:
                outcome = "replaced"
        n_calls = n_seen()
        if n_calls < nth:
            assert nth > 1 or before_call in ("unlink", "mkdir")
            return
        kept = [main.read_bytes(), *(stray.read_bytes() for stray in strays(folder))]
        assert b"edited by a person\n" in kept, (before_call, nth, outcome)
        assert main.read_bytes() == b"edited by a person\n"
        assert strays(folder) == []


def _edit_before(
    patched: pytest.MonkeyPatch, name: str, nth: int, edit: Callable[[], None], *, can_exchange: bool
) -> Callable[[], int]:
    n_calls, busy = 0, False
    module = livefiles if name == "exchange" else os
    real = getattr(module, name)

    def wrapped(*args: object, **kwargs: object) -> object:
        nonlocal n_calls, busy
        if not busy:
            n_calls += 1
            if n_calls == nth:
                busy = True
                edit()
                busy = False
        return real(*args, **kwargs)

    patched.setattr(module, name, wrapped)
    if not can_exchange:
        patched.setattr(livefiles, "exchange", lambda *_: False)
        patched.setattr(livefiles, "move_new", lambda *_: False)
    return lambda: n_calls


def test_two_edits_in_a_row_both_survive_the_swap(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main, edits = folder / "SKILL.md", iter([b"first\n", b"second\n"])
    real = livefiles.exchange  # type: ignore[attr-defined]

    def edited_before_each(parent: int, one: str, other: str) -> bool:
        (folder / "~").write_bytes(next(edits))
        os.replace(folder / "~", main)
        return real(parent, one, other)

    monkeypatch.setattr(livefiles, "exchange", edited_before_each)
    with pytest.raises(Stale):
        replace_files(folder, OLD, OLD.replaced(SkillFile("SKILL.md", b"new\n")))
    assert {main.read_bytes(), *(stray.read_bytes() for stray in strays(folder))} == {b"first\n", b"second\n"}


@pytest.mark.parametrize("has_no_replace", [True, False])
def test_an_edit_of_a_file_that_goes_away_comes_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch, has_no_replace: bool
) -> None:
    real = os.rename
    if not has_no_replace:
        monkeypatch.setattr(livefiles, "move_new", lambda *_: False)

    def edited_before(source: str, *args: object, **kwargs: object) -> None:
        if source == "gone.md":
            (folder / source).write_bytes(b"mine")
        real(source, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", edited_before)
    with pytest.raises(Stale, match=r"gone\.md"):
        replace_files(folder, OLD, OLD.__class__(tuple(file for file in OLD.files if file.path != "gone.md")))
    assert (folder / "gone.md").read_bytes() == b"mine"
    assert strays(folder) == []


def test_a_link_in_any_place_is_refused_and_what_it_names_is_untouched(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    put(outside, OLD)
    for linked in ("SKILL.md", "references/a.md", "references", ""):
        put(folder, OLD)
        place = folder / linked
        aside = tmp_path / "aside"
        place.rename(aside)
        place.symlink_to(outside / linked)
        with pytest.raises(Refused):
            replace_files(folder, OLD, NEW)
        place.unlink()
        aside.rename(place)
        assert read_skill(outside) == OLD, linked
        assert read_skill(folder).main == b"old\n", linked


def test_nothing_is_written_when_one_of_the_files_has_a_hard_link(folder: Path, tmp_path: Path) -> None:
    os.link(folder / "SKILL.md", tmp_path / "other")
    with pytest.raises(Refused, match=r"SKILL\.md' has 2 hard links: make it a copy"):
        replace_files(folder, OLD, NEW)
    assert read_skill(folder) == OLD


@pytest.mark.parametrize("path", [file.path for file in OLD.files if NEW.get(file.path) != file])
def test_nothing_is_written_when_one_of_the_files_is_write_protected(folder: Path, path: str) -> None:
    (folder / path).chmod(0o444)
    with pytest.raises(Refused, match=f"is write-protected, and stays .*chmod u\\+w {folder / path}"):
        replace_files(folder, OLD, NEW)
    assert read_skill(folder) == OLD
    (folder / path).chmod(0o644)
    replace_files(folder, OLD, NEW)
    assert read_skill(folder) == NEW


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not write")
def test_a_folder_that_cannot_be_written_is_refused_with_nothing_changed(folder: Path) -> None:
    program = """
import os, sys
from pathlib import Path
from skillopt_mcp.core.errors import Refused
from skillopt_mcp.documents.live_files import replace_files
from skillopt_mcp.core.skills import SkillFile, SkillFiles
os.setuid(65534)
try:
    old, new = (SkillFiles((SkillFile("SKILL.md", text),)) for text in (b"old\\n", b"new"))
    replace_files(Path(sys.argv[1]), old, new)
except Refused as error:
    print(error)
"""
    for above in folder.parents:
        if above.stat().st_mode & 0o005 != 0o005 and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o055)
    done = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith(
        "cannot be written (Permission denied): check it and its folders, links are not followed"
    )
    assert read_skill(folder) == OLD
    assert strays(folder) == []


def test_a_reader_sees_each_file_whole_old_or_new(folder: Path) -> None:
    one = OLD.replaced(SkillFile("SKILL.md", b"1" * 200_000))
    two = OLD.replaced(SkillFile("SKILL.md", b"2" * 200_000))
    replace_files(folder, OLD, one)
    seen: list[bytes] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append((folder / "SKILL.md").read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(50):
        replace_files(folder, one, two)
        replace_files(folder, two, one)
    done.set()
    reader.join()
    assert set(seen) <= {b"1" * 200_000, b"2" * 200_000}
    assert len(seen) > 20


def test_a_sweep_takes_only_what_a_killed_process_left(folder: Path, tmp_path: Path) -> None:
    for content in (b"", b"ne", b"new\n", b"old a\n"):
        (folder / livefiles._temporary(folder, "SKILL.md")).write_bytes(content)
    (folder / "references" / livefiles._temporary(folder, "references/a.md")).write_bytes(b"new a\n")
    edit = livefiles._temporary(folder, "SKILL.md")
    (folder / edit).write_bytes(b"saved by a person in that very moment")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    away = elsewhere / livefiles._temporary(folder, "references/deep/b.md")
    away.write_bytes(b"")
    (folder / "references/deep").symlink_to(elsewhere)
    sweep(folder, (OLD, NEW))
    assert [stray.name for stray in strays(folder)] == [edit]
    assert away.exists()


def test_a_sweep_leaves_what_is_being_written_for_another_skill_in_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def memory(name: str, content: bytes) -> SkillFiles:
        return SkillFiles((SkillFile(name, content),))

    old, new = memory("CLAUDE.md", b"# C\n"), memory("CLAUDE.md", b"# C, new\n")
    put(tmp_path, old)
    write_all = livefiles._write_all

    def swept(descriptor: int, content: bytes) -> None:
        sweep(tmp_path, (memory("AGENTS.md", b"# A\n"), memory("AGENTS.md", b"# C, new\n")))
        write_all(descriptor, content)
        sweep(tmp_path, (memory("AGENTS.md", b"# A\n"), memory("AGENTS.md", b"# C, new\n")))

    monkeypatch.setattr(livefiles, "_write_all", swept)
    replace_files(tmp_path, old, new)
    assert (tmp_path / "CLAUDE.md").read_bytes() == b"# C, new\n"
