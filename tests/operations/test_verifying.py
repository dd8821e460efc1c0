from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from workshop import Place

from skillopt_mcp.actions.promotions.consent import permit, revoke
from skillopt_mcp.actions.promotions.promoting import promote_skill
from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.errors import BadInput, NotFound, StoreError
from skillopt_mcp.store.events import Events
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.workspace.workspace import Workspace


@pytest.fixture
def promoted(place: Place, workspace: Workspace) -> str:
    """Return the id of a candidate that is live."""
    candidate = place.accepted(workspace)
    assert promote_skill(workspace.store, workspace.place, candidate, Consent.PERSON_SIMULATED).status == "promoted"
    return candidate


def change(path: Path, *statements: str) -> None:
    pool = Pool(path)
    with pool.write() as connection:
        for sql in statements:
            connection.execute(sql)
    pool.close()


def problems(path: Path, holds: str | None = None) -> list[str]:
    return [str(each) for each in verify_store(path, holds).problems]


def test_a_store_in_use_is_sound_and_its_verdicts_recompute(place: Place, promoted: str) -> None:
    found = verify_store(place.store_path)
    assert (found.problems, found.notes, found.n_decisions) == ([], [], 1)
    assert len(found.head) == 64


def test_a_persons_later_edit_is_a_note_and_no_fault(place: Place, promoted: str) -> None:
    place.main.write_text(place.main.read_text() + "\nmine\n")
    found = verify_store(place.store_path)
    assert (found.problems, [(note.code, note.ids) for note in found.notes]) == (
        [],
        [("live_changed", ["ledger-clerk"])],
    )
    place.main.unlink()
    assert [note.code for note in verify_store(place.store_path).notes] == ["live_unreadable"]


def test_a_forged_verdict_does_not_follow_from_its_evidence(place: Place, promoted: str) -> None:
    change(place.store_path, "drop trigger event_is_never_removed", "update decision set verdict = 'reject'")
    found = problems(place.store_path)
    assert "the schema differs in trigger 'event_is_never_removed' from what this version makes" in found
    assert "decision 1 (promotion) does not recompute: it is reject, but better follows from its evidence" in found
    assert any(problem.startswith("decision 1 is not what event") for problem in found)
    assert "promotion 1 of 'ledger-clerk' rests on no accepting decision" in found


@pytest.mark.parametrize(
    "forgery",
    [
        "update test_attempt set score = 1.0 - score where unit = 0 and number = 0",
        "update test_attempt set cause = 'target' where unit = 0 and arm = 'base'",
        "update test_attempt set n_again = 1 where unit = 1",
        "delete from test_attempt where unit = 2 and arm = 'base'",
        "update promotion_test set plan = json_set(plan, '$.alpha', 0.4)",
        "update promotion_test set plan = json_set(plan, '$.attempts', 1)",
    ],
)
def test_a_verdict_does_not_recompute_from_changed_attempts_or_another_plan(
    place: Place, promoted: str, forgery: str
) -> None:
    change(place.store_path, "drop trigger promotion_test_is_frozen", forgery)
    assert any(each.startswith("decision 1 (promotion) does not recompute") for each in problems(place.store_path))


def test_a_hash_that_was_kept_shows_whether_history_was_removed(place: Place, promoted: str) -> None:
    head = verify_store(place.store_path).head
    with place.open() as workspace:
        workspace.store.permissions.add_root("/elsewhere")
    assert problems(place.store_path, head) == []
    with pytest.raises(BadInput, match="is not a hash of an event"):
        verify_store(place.store_path, head[:12])
    [problem] = verify_store(place.store_path, "0" * 64).problems
    assert (problem.code, problem.where) == ("head", "0" * 64)


def test_damage_of_the_file_is_reported_alone(place: Place, promoted: str) -> None:
    with place.open() as workspace:
        digest = workspace.store.tasks.list_tasks(1)[0].digest
    place.stack.close()
    raw = bytearray(place.store_path.read_bytes())
    raw[raw.find(digest.encode())] ^= 1
    place.store_path.write_bytes(bytes(raw))
    found = verify_store(place.store_path)
    assert {each.code for each in found.problems} == {"file"}
    assert found.next_step.action == "store restore"
    assert [note.code for note in found.notes] == ["rows_unchecked"]


def test_missing_tables_are_one_problem(place: Place, promoted: str) -> None:
    change(place.store_path, "drop table event", "drop table approval")
    [problem] = problems(place.store_path)
    assert problem.endswith("tables are missing: approval, event")


def test_no_store_is_made_and_an_empty_file_is_none(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no store"):
        verify_store(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "s.db").touch()
    with pytest.raises(StoreError, match=r"'.*s.db' is empty"):
        verify_store(tmp_path / "s.db")
    assert (tmp_path / "s.db").stat().st_size == 0


def test_what_another_process_changes_meanwhile_is_no_fault(
    place: Place, promoted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.open() as other:
        permit(other.store, other.place, str(place.skill), simulated=True)
        look = Events.digest
        meddled: list[Any] = []

        def meddle(events: Events, table: str, key: str) -> str:
            if not meddled:
                meddled.append(table)
                revoke(other.store, other.place, str(place.skill))
            return look(events, table, key)

        monkeypatch.setattr(Events, "digest", meddle)
        assert verify_store(place.store_path).problems == []
        assert meddled
