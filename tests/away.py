"""Away: a change of a live file that rests on a standing permission alone."""

from __future__ import annotations

from pathlib import Path

from skillopt_mcp.actions.promotions.consent import permit
from skillopt_mcp.core.candidates import Consent, Promotion
from skillopt_mcp.workspace.workspace import Workspace


def promote_alone(store_path: Path, folder: Path) -> tuple[str, str]:
    """Record a promotion by a standing permission; return the skill's name and the version that it replaced."""
    with Workspace(store_path) as workspace:
        permit(workspace.store, workspace.place, str(folder), simulated=True)
        skill = workspace.place.skill(str(folder))
        (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "\nOther.\n")
        new = workspace.place.skill(str(folder)).live_version
        by, on = Consent.STANDING.agreed_by, Consent.STANDING.agreed_on
        begun = workspace.store.promotions.begin(
            Promotion(0, skill.id, "promote", None, skill.live_version, new, "pending", "better", by, on)
        )
        assert begun
        workspace.store.promotions.finish(begun)
        return skill.name, skill.live_version
