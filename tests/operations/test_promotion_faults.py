"""Promotion faults: a clock that goes back changes no order of promotions."""

from __future__ import annotations

import pytest
from workshop import Place

from skillopt_mcp.actions.promotions.promoting import promote_skill, rollback_skill
from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.reports.history import history
from skillopt_mcp.store import events
from skillopt_mcp.workspace.workspace import Workspace


def test_a_clock_that_goes_back_changes_no_order(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = place.main.read_bytes()
    times = iter(f"20{year:02}-01-01T00:00:00.000Z" for year in range(99, 0, -1))
    monkeypatch.setattr(events, "now", lambda: next(times))
    candidate_id = place.accepted(workspace)
    assert promote_skill(workspace.store, workspace.place, candidate_id, Consent.PERSON_SIMULATED).status == "promoted"
    assert (
        rollback_skill(workspace.store, workspace.place, "ledger-clerk", None, Consent.PERSON).status == "rolled_back"
    )
    assert place.main.read_bytes() == before
    assert [row.kind for row in history(workspace.store, workspace.place, "ledger-clerk").rows] == [
        "rollback",
        "promote",
    ]
    reported = [event.at for event in workspace.store.events.walk()]
    assert reported[-1] < reported[-2]
    assert verify_store(place.store_path).problems == []
