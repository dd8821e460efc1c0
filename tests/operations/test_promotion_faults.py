"""Promotion faults: whichever call of a promotion fails, store and skill agree afterwards, on a whole version."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from workshop import Place

from benchmarks.promotion_faults import failing, measure
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.changes.promoting import promote_skill, rollback_skill
from skillopt_mcp.operations.looks.history import history
from skillopt_mcp.operations.stores.verifying import verify_store
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.store import events


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES], ids=errno.errorcode.get)
def test_a_promotion_survives_a_fault_at_each_of_its_calls(tmp_path: Path, error: int) -> None:
    found = measure(Path(os.path.realpath(tmp_path)), errors=(error,))
    assert found.n >= 40
    assert found.wrong == []


def test_a_fault_comes_at_its_call_and_goes_with_it(tmp_path: Path) -> None:
    with failing(2, errno.ENOSPC, lasting=False) as failed:
        (tmp_path / "a").mkdir()
        with pytest.raises(OSError, match="No space left"):
            os.stat(tmp_path)
        os.stat(tmp_path)
    assert failed == ["stat"]


def test_a_clock_that_goes_back_changes_no_order(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = place.main.read_bytes()
    times = iter(f"20{year:02}-01-01T00:00:00.000Z" for year in range(99, 0, -1))
    monkeypatch.setattr(events, "now", lambda: next(times))
    candidate_id = place.accepted(workspace)
    assert promote_skill(workspace, candidate_id, Consent.PERSON_SIMULATED).status == "promoted"
    assert rollback_skill(workspace, "ledger-clerk", None, Consent.PERSON).status == "rolled_back"
    assert place.main.read_bytes() == before
    assert [row.kind for row in history(workspace, "ledger-clerk").rows] == ["rollback", "promote"]
    told = [event.told.at for event in workspace.store.events.walk()]
    assert told[-1] < told[-2]
    assert verify_store(place.store_path).problems == []
