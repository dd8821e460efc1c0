"""Attaching: what a transcript shows of an attempt that the agent recorded itself, put to that record of it."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_mcp.operations.evidence.recording import Recording, checked
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.calls import parse_messages
from skillopt_mcp.transcripts.records import SelfRecorded


def recorded_itself(workspace: Workspace, skill_id: int, found: SelfRecorded, recording: Recording) -> list[int]:
    """Return the trajectories of a skill that the agent recorded in a turn, which `recording` is the transcript of.

    Ids of another store may be the same: what is stored must be of that session, or tell the task as the agent did. A
    turn in which a held-out task was asked, and another one recorded, is a record of its own: its session knows that.
    """
    if not found.ids:
        return []
    sessions = {recording.session_id, *found.sessions}
    tasks = set(workspace.redactor.texts(sorted(found.tasks)))
    is_held_out = workspace.store.tasks.is_held_out(skill_id, recording.task)
    kept = []
    for each in sorted(found.ids):
        # What it asked is gone: by its number alone it is taken for the one of this turn, so that none brings it back.
        if workspace.store.trajectories.is_erased(skill_id, each):
            kept.append(each)
            continue
        owner, stored = workspace.store.trajectories.find_sound(each) or (None, None)
        if stored is None or owner != skill_id or not (stored.session in sessions or stored.prompt in tasks):
            continue
        if not is_held_out or stored.prompt.strip() == recording.task.strip():
            kept.append(each)
    return kept


def attach_transcript(workspace: Workspace, skill_id: int, trajectory_ids: list[int], recording: Recording) -> None:
    """Put the transcript to the attempt that it is of; of several in one turn nobody can tell which.

    What is told of an attempt already stays, and so does all that a run has learned from. Raises BadInput.
    """
    if len(trajectory_ids) != 1:
        return
    _, stored = workspace.store.trajectories.find_sound(trajectory_ids[0]) or (0, None)
    if stored and not stored.messages:
        new = checked(recording, workspace.redactor, workspace.session)
        workspace.store.trajectories.attach_transcript(skill_id, trajectory_ids[0], new)


def attach_reaction(workspace: Workspace, skill_id: int, recording: Recording, of_itself: Sequence[int] = ()) -> None:
    """Put what the person said next to an attempt that was taken from a transcript before they said it.

    So it is where a session ends and is taken up again. It is the last message of `recording`, the same attempt as it
    is told now; with `of_itself`, the agent had recorded it in other words. Raises BadInput.
    """
    store = workspace.store.trajectories
    trajectory_id = store.find_unanswered(skill_id, recording.session_id or "", recording.index or 0)
    found = store.find_sound(trajectory_id) if trajectory_id else None
    if trajectory_id is None or found is None or found[1].messages[0].role != "skill":
        return
    new = checked(recording, workspace.redactor, workspace.session)
    # An agent may have given another attempt this place in its session.
    if trajectory_id in of_itself or new.prompt == found[1].prompt:
        store.add_reaction(skill_id, trajectory_id, parse_messages(new.messages)[-1])
