"""Cut short: a change of a live skill that a kill or a full disk ended half-way, and those who look meanwhile."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from workshop import LESSONS, Place, as_if_real, use

from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.promotions import promoting
from skillopt_mcp.actions.promotions.consent import LiveChange, Ready
from skillopt_mcp.actions.promotions.promoting import promote_skill, rollback_skill
from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.errors import BadSkill, NotFound, Refused, StoreError
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.documents import live_files as livefiles
from skillopt_mcp.reports.history import history
from skillopt_mcp.reports.lookup import inspect
from skillopt_mcp.store.files import lock_run
from skillopt_mcp.workspace import skill_folders as looking
from skillopt_mcp.workspace.skill_folders import lock_name, read_skill, recover
from skillopt_mcp.workspace.workspace import Workspace

Spoils = Callable[[Place], Callable[[], None]]


@pytest.fixture
def candidate(place: Place, workspace: Workspace) -> str:
    """Return an accepted candidate that changes two files, references/more.md before SKILL.md."""
    use(workspace, as_if_real())
    (place.skill / "references").mkdir()
    (place.skill / "references" / "more.md").write_text("old words\n")
    edits = [
        {"op": "append", "content": LESSONS},
        {"op": "replace", "path": "references/more.md", "target": "old words", "content": "new words"},
    ]
    candidate_id = str(propose_edits(workspace.store, workspace.place, "ledger-clerk", edits).candidate_id)
    assert evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id).accepted
    return candidate_id


def new_version(workspace: Workspace, candidate_id: str) -> str:
    return workspace.store.candidates.get_candidate(candidate_id).version_id


def killed(workspace: Workspace, candidate_id: str, monkeypatch: pytest.MonkeyPatch, *, half: bool) -> None:
    """Promote, and die between the two files or right after the second one."""

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(promoting, "take_back", lambda *_: None)
        if half:
            patched.setattr(livefiles, "_swap", _only_the_first(die))
        else:
            patched.setattr(workspace.store.promotions, "finish", die)
        with pytest.raises(KeyboardInterrupt):
            promote_skill(workspace.store, workspace.place, candidate_id, Consent.PERSON)


def _only_the_first(then: Callable[..., None]) -> Callable[..., None]:
    real, n_swaps = livefiles._swap, 0

    def swap(*arguments: object) -> None:
        nonlocal n_swaps
        n_swaps += 1
        if n_swaps > 1:
            then()
        real(*arguments)  # type: ignore[arg-type]

    return swap


def a_link(place: Place) -> Callable[[], None]:
    link = place.skill / "broken"
    link.symlink_to("/nowhere")
    return link.unlink


def no_disk(place: Place) -> Callable[[], None]:
    away = place.folder / "away"
    place.skill.rename(away)

    def back() -> None:
        away.rename(place.skill)

    return back


def an_empty_folder(place: Place) -> Callable[[], None]:
    away = place.folder / "away"
    place.skill.rename(away)
    place.skill.mkdir()

    def back() -> None:
        place.skill.rmdir()
        away.rename(place.skill)

    return back


@pytest.mark.parametrize(("spoil", "half"), [(a_link, True), (a_link, False), (no_disk, True), (an_empty_folder, True)])
def test_a_promotion_cut_short_waits_until_its_files_can_be_read_again(
    place: Place, workspace: Workspace, candidate: str, monkeypatch: pytest.MonkeyPatch, spoil: Spoils, half: bool
) -> None:
    killed(workspace, candidate, monkeypatch, half=half)
    mend = spoil(place)
    other = place.open()
    assert [each.state for each in other.store.promotions.list_pending()] == ["pending"]
    with pytest.raises(BadSkill, match="; a change of it was cut short, and is settled once its files can be read"):
        other.place.skill(str(place.skill))
    assert "promotion_unfinished" in [note.code for note in verify_store(place.store_path).notes]
    mend()
    assert other.place.skill("ledger-clerk").live_version == new_version(workspace, candidate)
    assert read_skill(place.skill).digest == new_version(workspace, candidate)
    assert [row.kind for row in history(other.store, other.place, "ledger-clerk").rows] == ["promote"]
    assert rollback_skill(other.store, other.place, "ledger-clerk", None, Consent.PERSON).status == "rolled_back"


def test_files_that_cannot_be_read_while_a_change_waits_refuse_the_next_one(
    place: Place, workspace: Workspace, candidate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(workspace, candidate, monkeypatch, half=True)
    change = LiveChange(workspace.store.skills.get_skill(1), "ledger-clerk", "rollback", "0" * 64, "1" * 64)
    a_link(place)
    with pytest.raises(Refused, match=r"is a link.*a change of it was cut short"):
        promoting._write(workspace.store, workspace.place, Ready(change, Consent.PERSON, ""))
    assert len(workspace.store.promotions.list_pending()) == 1


def disk_full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def refused(place: Place, workspace: Workspace, candidate: str, monkeypatch: pytest.MonkeyPatch) -> SkillFiles:
    """Promote while the disk takes one file, and not even that one back; return the files as they were."""
    before = read_skill(place.skill)
    with monkeypatch.context() as patched:
        patched.setattr(livefiles, "_swap", _only_the_first(disk_full))
        with pytest.raises(Refused, match=r"No space left on device.*is taken back when the store is used next"):
            promote_skill(workspace.store, workspace.place, candidate, Consent.PERSON)
    assert read_skill(place.skill) != before
    return before


def test_what_was_refused_never_happens_later(
    place: Place, workspace: Workspace, candidate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = refused(place, workspace, candidate, monkeypatch)
    assert [each.state for each in workspace.store.promotions.list_pending()] == ["undoing"]
    other = place.open()
    assert other.place.skill("ledger-clerk").live_version == before.digest
    assert read_skill(place.skill) == before
    assert other.store.promotions.list_pending() == []
    assert history(other.store, other.place, "ledger-clerk").rows == []
    assert promote_skill(other.store, other.place, candidate, Consent.PERSON).status == "promoted"
    assert verify_store(place.store_path).problems == []


def test_what_was_refused_is_taken_back_even_where_every_file_was_written(
    place: Place, workspace: Workspace, candidate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, replace_files = read_skill(place.skill), livefiles.replace_files

    def written_but_not_synced(*arguments: object) -> None:
        replace_files(*arguments)  # type: ignore[arg-type]
        raise Refused("the folder cannot be synced (Input/output error)")

    with monkeypatch.context() as patched:
        patched.setattr(promoting, "replace_files", written_but_not_synced)
        patched.setattr("skillopt_mcp.workspace.skill_folders.replace_files", written_nothing)
        with pytest.raises(Refused, match="is taken back when the store is used next"):
            promote_skill(workspace.store, workspace.place, candidate, Consent.PERSON)
    assert read_skill(place.skill).digest == new_version(workspace, candidate)
    recover(workspace.store)
    assert read_skill(place.skill) == before


def test_a_change_that_was_cut_short_waits_for_a_file_that_was_write_protected_since(
    place: Place, workspace: Workspace, candidate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = place.main.read_bytes()
    killed(workspace, candidate, monkeypatch, half=True)
    place.main.chmod(0o444)
    recover(workspace.store)
    assert (place.main.read_bytes(), len(workspace.store.promotions.list_pending())) == (before, 1)
    place.main.chmod(0o644)
    recover(workspace.store)
    assert workspace.store.promotions.list_pending() == []
    assert read_skill(place.skill).digest == new_version(workspace, candidate)


def written_nothing(*_: object) -> None:
    raise Refused("the file cannot be written (No space left on device)")


def test_taking_back_keeps_what_a_person_edited_since(
    place: Place, workspace: Workspace, candidate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(place, workspace, candidate, monkeypatch)
    place.main.write_text("# Mine\n")
    place.open().place.skill("ledger-clerk")
    assert place.main.read_text() == "# Mine\n"
    assert (place.skill / "references" / "more.md").read_text() == "old words\n"


def test_where_the_store_is_full_too_it_is_not_reported_as_refused(
    place: Place, workspace: Workspace, candidate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise StoreError("the store is full")

    monkeypatch.setattr(workspace.store.promotions, "undo", full)
    monkeypatch.setattr(livefiles, "_swap", _only_the_first(disk_full))
    with pytest.raises(StoreError, match=r"No space left.*the store is full: the change is finished or taken back"):
        promote_skill(workspace.store, workspace.place, candidate, Consent.PERSON)


def test_half_a_change_is_never_taken_for_an_edit(
    place: Place, workspace: Workspace, candidate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process reads between the two files, and writes down what it saw once the change is done."""
    other, real_swap, real_read = place.open(), livefiles._swap, read_skill
    before, seen = other.place.skill("ledger-clerk"), list[SkillFiles]()

    def swap_and_read(*arguments: object) -> None:
        real_swap(*arguments)  # type: ignore[arg-type]
        if not seen:
            seen.append(real_read(place.skill))
            assert other.place.skill("ledger-clerk") == before  # and this one writes it down at once

    monkeypatch.setattr(livefiles, "_swap", swap_and_read)
    reads = iter(
        [
            lambda: (
                promote_skill(workspace.store, workspace.place, candidate, Consent.PERSON).status == "promoted"
                and seen[0]
            )
        ]
    )

    def read_late(*arguments: object) -> SkillFiles:
        late = next(reads, None)
        found = late() if late else None
        return found or real_read(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(looking, "read_skill", read_late)
    other.place.forget(before)
    assert other.place.skill("ledger-clerk").live_version == new_version(workspace, candidate)
    mixture = seen[0]
    assert SkillFile("references/more.md", b"new words\n") in mixture.files
    assert mixture.digest != new_version(workspace, candidate)
    with pytest.raises(NotFound, match="no single version"):
        rollback_skill(other.store, other.place, "ledger-clerk", mixture.digest, Consent.PERSON)


@pytest.mark.parametrize("half", [True, False], ids=["between two files", "after the last"])
def test_a_look_while_a_change_cannot_be_settled_stores_nothing(
    place: Place, workspace: Workspace, candidate: str, monkeypatch: pytest.MonkeyPatch, half: bool
) -> None:
    before = workspace.place.skill("ledger-clerk")
    killed(workspace, candidate, monkeypatch, half=half)
    monkeypatch.setattr(looking, "TICK_NS", -(10**12))  # as if the files had been at rest for long
    lock = lock_run(workspace.store.locks_path, lock_name(1))
    assert lock
    other, version = place.open(), new_version(workspace, candidate)[:12]
    assert other.place.skill("ledger-clerk") == before
    waits = history(other.store, other.place, "ledger-clerk")
    assert waits.rows == []
    assert f"to version {version} was interrupted" in inspect(other.store, other.place, "ledger-clerk").text
    lock.release()
    assert other.place.skill("ledger-clerk").live_version == new_version(workspace, candidate)
