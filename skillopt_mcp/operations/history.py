"""History: what happened to a skill's live file, and what differs between two of its versions."""

from __future__ import annotations

from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.operations.results import History, HistoryRow
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.histories import Told
from skillopt_mcp.records.skills import short
from skillopt_mcp.store.histories import Histories


def history(workspace: Workspace, skill: str) -> History:
    """Return the promotions and rollbacks of a skill, newest first. Raises NotFound."""
    tracked = workspace.skill(skill)
    rows = [
        HistoryRow(
            at=each.created_at,
            kind=each.kind,
            version=short(each.to_version),
            previous_version=short(each.from_version),
            candidate_id=each.candidate_id,
            verdict=each.verdict,
            by=each.consent,
        )
        for each in workspace.store.promotions.list_promotions(tracked.id)
    ]
    undo = f"Undo the last change with: {_undo(tracked.name, rows[0])}" if rows else "The live file never changed."
    imported = [_imported(told) for told in workspace.store.room(Histories).list_archived(tracked.id)]
    return History(skill=tracked.name, rows=rows, imported=[each for each in imported if each], next_step=undo)


def _undo(skill: str, last: HistoryRow) -> str:
    # Only a rollback has to name the version: without one it would go further back.
    version = f" {last.previous_version}" if last.kind == "rollback" else ""
    return f"skillopt-mcp rollback {skill}{version}"


def _imported(told: Told) -> str:
    """Return a line on a decision or a change of another store, nothing for the rest."""
    if told.what not in ("decision", "promotion"):
        return ""
    content = {name: str(told.content.get(name, "")) for name in ("created_at", "verdict", "gate", "kind")}
    base, version = (short(str(told.content.get(name, ""))) for name in ("base_version", "version_id"))
    if told.what == "decision":
        return f"{content['created_at']} decision {content['gate']} {content['verdict']} {base} -> {version}"
    old, new = (short(str(told.content.get(name, ""))) for name in ("from_version", "to_version"))
    return f"{content['created_at']} {content['kind']} {old} -> {new}"


def diff_versions(workspace: Workspace, skill: str, old: str | None = None, new: str | None = None) -> str:
    """Return the unified diff between two versions; by default from the last promotion's parent to the live file."""
    tracked = workspace.skill(skill)
    store = workspace.store
    new_id = store.skills.get_version(tracked.id, new).id if new else tracked.live_version
    if old:
        old_id = store.skills.get_version(tracked.id, old).id
    else:
        changes = store.promotions.list_promotions(tracked.id)
        old_id = changes[0].from_version if changes else tracked.live_version
    files = (store.skills.get_files(tracked.id, old_id), store.skills.get_files(tracked.id, new_id))
    return unified_diff(*files, tracked.name)
