from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from workshop import Place

from skillopt_mcp.errors import BadInput, NotFound, StoreError
from skillopt_mcp.maintenance.verify import verify_store
from skillopt_mcp.promotions.consent import Consent, permit, revoke
from skillopt_mcp.promotions.promoting import promote_skill
from skillopt_mcp.store.events import Events, Key
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.workspace import Workspace


@pytest.fixture
def promoted(place: Place, workspace: Workspace) -> str:
    """Return the id of a candidate that is live."""
    candidate = place.accepted(workspace)
    assert promote_skill(workspace, candidate, Consent.PERSON_SIMULATED).status == "promoted"
    return candidate


def change(path: Path, *statements: str) -> None:
    pool = Pool(path)
    with pool.write() as connection:
        for sql in statements:
            connection.execute(sql)
    pool.close()


def test_a_store_in_use_is_sound_and_its_verdicts_recompute(place: Place, promoted: str) -> None:
    found = verify_store(place.store_path)
    assert (found.problems, found.notes, found.n_decisions) == ([], [], 1)
    assert len(found.head) == 64


def test_a_persons_later_edit_is_a_note_and_no_fault(place: Place, promoted: str) -> None:
    place.main.write_text(place.main.read_text() + "\nmine\n")
    found = verify_store(place.store_path)
    assert found.problems == []
    [note] = found.notes
    assert note.startswith("the live files of 'ledger-clerk' are version")
    place.main.unlink()
    [note] = verify_store(place.store_path).notes
    assert "cannot be compared" in note


def test_a_forged_verdict_does_not_follow_from_its_evidence(place: Place, promoted: str) -> None:
    change(place.store_path, "update decision set verdict = 'reject'")
    found = verify_store(place.store_path)
    assert "decision 1 (confirm) says reject, but accept follows from its evidence" in found.problems
    assert any("decision: 1 is not what event" in problem for problem in found.problems)
    assert "promotion 1 of 'ledger-clerk' rests on no accepting decision" in found.problems


def test_a_verdict_without_its_pairs_does_not_recompute(place: Place, promoted: str) -> None:
    change(place.store_path, "delete from pair where n > 2")
    [problem] = verify_store(place.store_path).problems
    assert problem.startswith("decision 1 (confirm) does not recompute: it rests on")


def test_a_hash_that_was_kept_tells_whether_history_was_taken_away(place: Place, promoted: str) -> None:
    head = verify_store(place.store_path).head
    with place.open() as workspace:
        workspace.store.permissions.add_root("/elsewhere")
    assert verify_store(place.store_path, head).problems == []
    with pytest.raises(BadInput, match="is no hash of an event"):
        verify_store(place.store_path, head[:12])
    [problem] = verify_store(place.store_path, "0" * 64).problems
    assert "the chain has no event with the hash" in problem


def test_damage_that_sqlite_finds_is_told_and_looked_into_no_further(place: Place, promoted: str) -> None:
    with place.open() as workspace:
        digest = workspace.store.tasks.list_tasks(1)[0].digest
    place.stack.close()
    raw = bytearray(place.store_path.read_bytes())
    raw[raw.find(digest.encode())] ^= 1
    place.store_path.write_bytes(bytes(raw))
    found = verify_store(place.store_path)
    assert found.problems
    assert all(problem.startswith("SQLite: ") for problem in found.problems)
    assert found.next_step.action == "store restore"
    assert found.notes == ["the rows were not looked at: the file itself is damaged"]


def test_a_schema_that_differs_keeps_no_row_from_being_looked_at(place: Place, promoted: str) -> None:
    change(place.store_path, "drop trigger event_is_never_removed", "update decision set verdict = 'reject'")
    problems = verify_store(place.store_path).problems
    assert problems[0] == "the schema differs in trigger 'event_is_never_removed' from what this version makes"
    assert "decision 1 (confirm) says reject, but accept follows from its evidence" in problems


def test_a_table_that_is_gone_is_told_and_the_others_are_looked_at(place: Place, promoted: str) -> None:
    change(
        place.store_path,
        "drop trigger event_is_never_removed",
        "update decision set verdict = 'reject'",
        "drop table event",
    )
    problems = verify_store(place.store_path).problems
    assert "the schema differs in table 'event' from what this version makes" in problems
    assert "decision 1 (confirm) says reject, but accept follows from its evidence" in problems
    assert len(set(problems)) == len(problems)


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no store"):
        verify_store(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


def test_what_another_process_changes_meanwhile_is_no_fault(
    place: Place, promoted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.open() as other:
        permit(other, str(place.skill), simulated=True)
        look = Events.rows_digest
        meddled: list[Any] = []

        def meddle(events: Events, kind: str, key: Sequence[Key]) -> str:
            if not meddled:
                meddled.append(kind)
                revoke(other, str(place.skill))
            return look(events, kind, key)

        monkeypatch.setattr(Events, "rows_digest", meddle)
        assert verify_store(place.store_path).problems == []
        assert meddled


def test_an_empty_file_is_no_sound_store(tmp_path: Path) -> None:
    (tmp_path / "s.db").touch()
    with pytest.raises(StoreError, match=r"'.*s.db' is empty"):
        verify_store(tmp_path / "s.db")
    assert (tmp_path / "s.db").stat().st_size == 0
