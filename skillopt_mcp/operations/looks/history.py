"""History: what happened to a skill's live file, and what differs between two of its versions."""

from __future__ import annotations

from pydantic import ValidationError

from skillopt_mcp.documents.counts import counted
from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.confirm import claimed
from skillopt_mcp.gates.recompute import ConfirmInputs
from skillopt_mcp.operations.changes.declined import declined_changes
from skillopt_mcp.operations.finding import called
from skillopt_mcp.operations.results import History, HistoryRow
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.histories import Told
from skillopt_mcp.records.skills import short
from skillopt_mcp.store.histories import Histories
from skillopt_mcp.store.retirements import Retirement

_NEVER = "The live file never changed from this store."


def history(workspace: Workspace, skill: str) -> History:
    """Return the promotions and rollbacks of a skill, newest first. Raises NotFound."""
    tracked = workspace.kept(skill)
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
    name = called(workspace.store, tracked)
    undo = f"Undo the last change with: {_undo(name, rows[0])}" if rows else _NEVER
    if rows and rows[0].previous_version == short(tracked.live_version):
        undo = f"The files are as they were before the last change. {_once_more(name, rows[0])}"
    elif rows and rows[0].version != short(tracked.live_version):
        undo = (
            f"Somebody has edited the files since: they are version {short(tracked.live_version)} now. Undo the edit "
            f"alone with: skillopt-mcp rollback {name} {rows[0].version} --over-edit; and the last change, "
            f"too, with: {_undo(name, rows[0])} --over-edit"
        )
    undo = workspace.trouble(tracked) or undo
    last = workspace.store.promotions.last_begun(tracked.path)
    if last and last.is_open:
        undo = (
            f"A {last.kind} to version {short(last.to_version)} was cut short: it is finished or undone once the files "
            f"can be read and written. {undo}"
        )
    imported = [_imported(told) for told in workspace.store.room(Histories).list_archived(tracked.id)]
    # Each line begins with its time.
    imported = sorted(filter(None, imported), reverse=True)
    retired = [_retired(each) for each in workspace.store.retirements.list_retired(tracked.id).values()]
    return History(
        skill=tracked.name, rows=rows, imported=imported, retired=retired[::-1],
        declined=declined_changes(workspace, tracked.id),
        next_step=undo,
    )  # fmt: skip


def _retired(retirement: Retirement) -> str:
    drawn = f", drawn by {retirement.n_looks} promotion tests before" if retirement.n_looks else ""
    reason = f": {retirement.reason}" if retirement.reason else ""
    return f"{retirement.at} task '{retirement.name}' ({retirement.split}{drawn}){reason}"


def _undo(skill: str, last: HistoryRow) -> str:
    # Only a rollback has to name the version: without one it would go further back.
    version = f" {last.previous_version}" if last.kind == "rollback" else ""
    return f"skillopt-mcp rollback {skill}{version}"


def _once_more(skill: str, last: HistoryRow) -> str:
    """Return how to have the last change again, which somebody undid by another way."""
    if last.candidate_id and last.kind == "promote":
        return f"To write it again: skillopt-mcp promote {last.candidate_id}"
    return f"To have it again: skillopt-mcp rollback {skill} {last.version} --over-edit"


def _imported(told: Told) -> str:
    """Return a line on a decision or a change of another store, nothing for the rest."""
    if told.what not in ("decision", "promotion"):
        return ""
    content = {name: str(told.content.get(name, "")) for name in ("created_at", "verdict", "gate", "kind")}
    base, version = (short(str(told.content.get(name, ""))) for name in ("base_version", "version_id"))
    if told.what == "decision":
        decided = f"{content['created_at']} decision {content['gate']} {content['verdict']} {base} -> {version}"
        return decided + (_asked(told.content.get("inputs")) if content["gate"] == "confirm" else "")
    old, new = (short(str(told.content.get(name, ""))) for name in ("from_version", "to_version"))
    return f"{content['created_at']} {content['kind']} {old} -> {new}"


def _asked(inputs: object) -> str:
    """Return what the rule of another store's promotion test asked, nothing where it is none that is known here."""
    try:
        found = ConfirmInputs.model_validate_json(str(inputs))
        return f" ({claimed(found.rule)}: {counted(found.n_pairs, 'pair')}, at an error rate of {found.alpha:.3g})"
    except (BadInput, ValidationError):
        return ""


def diff_versions(workspace: Workspace, skill: str, old: str | None = None, new: str | None = None) -> str:
    """Return the unified diff between two versions; by default from the last promotion's parent to the live file."""
    tracked = workspace.kept(skill)
    store = workspace.store
    new_id = store.skills.get_version(tracked.id, new).id if new else tracked.live_version
    if old:
        old_id = store.skills.get_version(tracked.id, old).id
    else:
        changes = store.promotions.list_promotions(tracked.id)
        old_id = changes[0].from_version if changes else tracked.live_version
    files = (store.skills.get_files(tracked.id, old_id), store.skills.get_files(tracked.id, new_id))
    return unified_diff(*files, tracked.name)
