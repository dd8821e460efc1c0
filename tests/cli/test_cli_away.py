"""Away: a person at a terminal is shown what a permission promoted without them, once."""

from __future__ import annotations

import pytest
from changes import at_a_terminal

from skillopt_mcp.promotions.consent import Consent, permit
from skillopt_mcp.records.candidates import Promotion
from skillopt_mcp.workspace import Workspace

NOTE = "promoted while you were away"


@pytest.mark.parametrize("command", [("skills",), ("show", "ledger-clerk")])
def test_a_person_at_a_terminal_is_shown_what_was_promoted_without_them_once(cli, make_place, command) -> None:
    place = make_place()
    with Workspace(place.store_path) as workspace:
        permit(workspace, str(place.skill_path), simulated=True)
        skill = workspace.skill(str(place.skill_path))
        old = skill.live_version
        (place.skill_path / "SKILL.md").write_text("# Other\n")
        new = workspace.skill(str(place.skill_path)).live_version
        by, on = Consent.STANDING.agreed_by, Consent.STANDING.agreed_on
        begun = workspace.store.promotions.begin(
            Promotion(0, skill.id, "promote", None, old, new, "pending", "better", by, on)
        )
        assert begun
        workspace.store.promotions.finish(begun)
        handle = skill.name
    command = tuple(handle if word == "ledger-clerk" else word for word in command)
    for _ in range(2):
        assert NOTE in cli(*command, store=place.store_path).stdout, "a pipe is no person"
    code, screen = at_a_terminal(place, *command, answer="")
    assert (code, NOTE in screen, f"rollback {handle} {old[:12]}" in screen) == (0, True, True)
    code, screen = at_a_terminal(place, *command, answer="")
    assert (code, NOTE in screen) == (0, False)
