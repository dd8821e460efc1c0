"""Recording: keep what happened in one attempt of a real session."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillopt_mcp import limits
from skillopt_mcp.documents.counts import or_more
from skillopt_mcp.errors import BadInput, NotFound
from skillopt_mcp.operations.results import Recorded
from skillopt_mcp.operations.skills.resembling import told_likeness
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.calls import Message, messages_json, storable
from skillopt_mcp.records.skills import short
from skillopt_mcp.redaction.redacting import Redactor
from skillopt_mcp.store.erasing import Erasing
from skillopt_mcp.store.trajectories import MOST_COUNTED, NewTrajectory, Scoring

ENOUGH_TO_PROPOSE = 3
LARGEST_INDEX = 1 << 53
_UNSCORED = (
    "Nothing is learned from an attempt without a score: say how it ended, by record_trajectory with task "
    "trajectory:{} and hard."
)
_TOLD: dict[Scoring, str] = {
    "corrected": "Corrected; its reason tells the score that it had before.",
    "same": "It has that score already.",
    "unexplained": (
        "It had a score before, which stays. If that was wrong, give {} the right one with a reason for the correction."
    ),
    "learned from": (
        "It had a score before, which stays, as a run has learned from it: record the attempt anew with the right "
        "score, and let its reason say that {} was scored wrongly."
    ),
    "erased": "A person has erased {}: nothing is kept of it to score or to learn from. Go on without it.",
}
_RECORDED = re.compile("trajectory:[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Recording:
    """What a caller tells of one attempt; `messages` as {role, content, name?}, `index` its place in the session."""

    task: str
    hard: bool | None = None
    soft: float | None = None
    reason: str | None = None
    answer: str | None = None
    messages: Sequence[object] | None = None
    session_id: str | None = None
    index: int | None = None


def record_trajectory(workspace: Workspace, skill: str, recording: Recording) -> Recorded:
    """Store an attempt, once per (session_id, index); where `task` is the id of one, score that one.

    Raises BadInput, NotFound, BadSkill; then nothing is stored.
    """
    if _RECORDED.fullmatch(recording.task):
        return _scored(workspace, skill, recording)
    new = checked(recording, workspace.redactor, workspace.session)
    tracked = workspace.skill(skill)
    trajectory_id, added, n_new = workspace.store.trajectories.add_trajectory(tracked.id, tracked.live_version, new)
    # Told with the first attempts, and by every listing: looking for it takes a tenth of a millisecond each time.
    likeness = told_likeness(workspace, tracked.path) if n_new <= ENOUGH_TO_PROPOSE else ""
    step = _UNSCORED.format(trajectory_id) if added and new.hard is None else _next_step(n_new, added=added)
    if not added and workspace.store.room(Erasing).erased_of([trajectory_id]):
        step = f"{_TOLD['erased'].format(f'trajectory:{trajectory_id}')} Use the next index."
    return Recorded(
        trajectory_id=f"trajectory:{trajectory_id}",
        skill=tracked.name,
        version=short(tracked.live_version),
        n_new=n_new,
        duplicate=not added,
        next_step=f"First, {likeness}. {step}" if likeness else step,
    )


def _scored(workspace: Workspace, skill: str, recording: Recording) -> Recorded:
    """Say how an attempt ended that was recorded without a score, as hooks do, or correct a score."""
    new = checked(recording, workspace.redactor, workspace.session)
    if new.hard is None:
        raise BadInput(f"say how {recording.task} ended: give hard, or soft")
    tracked = workspace.skill(skill)
    number = int(recording.task.partition(":")[2])
    done = workspace.store.trajectories.score_trajectory(tracked.id, number, (new.hard, new.soft), new.reason)
    if done is None:
        raise NotFound(f"'{tracked.name}' has no {recording.task}: inspect the skill for those without a score")
    _, n_new = workspace.store.trajectories.count_trajectories(tracked.id)
    return Recorded(
        trajectory_id=recording.task,
        skill=tracked.name,
        version=short(tracked.live_version),
        n_new=n_new,
        duplicate=done not in ("scored", "corrected"),
        next_step=_after_score(workspace, tracked.id, n_new)
        if done == "scored"
        else _TOLD[done].format(recording.task),
    )


def _after_score(workspace: Workspace, skill_id: int, n_new: int) -> str:
    """Return what to do once an attempt was scored: others may have no score yet, and teach nothing."""
    n_scored = workspace.store.trajectories.count_new_scored(skill_id, ENOUGH_TO_PROPOSE)
    if n_scored >= min(n_new, ENOUGH_TO_PROPOSE):
        return _next_step(n_new, added=True)
    have = "has" if n_scored == 1 else "have"
    return (
        f"Of {or_more(n_new, MOST_COUNTED)} new attempts {n_scored} {have} a score, and the others teach nothing yet: "
        "score the next one (inspect the skill lists them)."
    )


def _next_step(n_new: int, *, added: bool) -> str:
    if not added:
        return "This session_id and index were recorded before; the first record stays. Use the next index."
    if n_new < ENOUGH_TO_PROPOSE:
        return "Record the next attempt. Once several show the same mistake, call propose_edits."
    many = or_more(n_new, MOST_COUNTED)
    return f"{many} attempts are new: call propose_edits with edits against the mistakes they share."


def checked(recording: Recording, redactor: Redactor, session: str) -> NewTrajectory:
    """Return what is stored of an attempt, secrets taken out. Raises BadInput where it cannot be stored."""
    if not recording.task.strip():
        raise BadInput("task is empty: say what was asked of the agent")
    if recording.soft is not None and not (math.isfinite(recording.soft) and 0 <= recording.soft <= 1):
        raise BadInput(f"soft '{recording.soft}' is no score: use a number from 0 to 1")
    if recording.hard and recording.soft == 0:
        raise BadInput("hard true and soft 0 say the contrary of each other: leave out soft, or say that it failed")
    if recording.index is not None and not 0 <= recording.index < LARGEST_INDEX:
        shown = recording.index if abs(recording.index) < LARGEST_INDEX else "of so many digits"
        raise BadInput(f"index '{shown}' is no place in a session: count its attempts from 0")
    if len(recording.session_id or "") > limits.NAME_CHARACTERS:
        raise BadInput(f"the session_id has more than {limits.NAME_CHARACTERS} characters: use a shorter one")
    hard = recording.hard if recording.hard is not None or recording.soft is None else recording.soft >= 1
    messages = [_message(n, each) for n, each in enumerate(recording.messages or ())]
    given = [recording.task, recording.answer or "", recording.reason or "", recording.session_id or ""]
    texts = [storable(text) for text in given] + [text for m in messages for text in (m.role, m.content, m.name or "")]
    written = messages_json(messages)
    size = sum(map(len, texts[:3])) + len(written)
    if size > limits.TRAJECTORY_CHARACTERS:
        raise BadInput(
            f"the trajectory has {size:,} characters, {limits.TRAJECTORY_CHARACTERS:,} are allowed: "
            "leave out tool output, or record the attempt in parts"
        )
    redacted = redactor.texts(texts)
    prompt, answer, reason, session_id, *rest = redacted
    if redacted != texts:
        told = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
        written = messages_json([Message(role, content, name or None) for role, content, name in told])
    return NewTrajectory(
        prompt=prompt,
        answer=answer,
        hard=hard,
        soft=recording.soft if recording.soft is not None or hard is None else float(hard),
        reason=reason,
        messages=written,
        session_id=session_id or (session if recording.index is None else None),
        position=recording.index,
        task_name=texts[0],
        known_to=session,  # as its host calls it; the name that a caller gives a session is its own
    )


def _message(n: int, value: object) -> Message:
    if isinstance(value, str):
        return Message("user", storable(value))
    if isinstance(value, Mapping):
        role, content, name = value.get("role"), value.get("content"), value.get("name")
        if isinstance(role, str) and isinstance(content, str) and (name is None or isinstance(name, str)):
            return Message(storable(role), storable(content), storable(name) if name else None)
    raise BadInput(f"message {n} is not {{role, content}} with texts: give each message as such an object")
