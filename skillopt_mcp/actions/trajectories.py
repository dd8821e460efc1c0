"""Recording: keep what happened in one attempt of a real session."""

from __future__ import annotations

import json
import math
import re
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast

from pydantic import JsonValue

from skillopt_mcp.actions.transcripts import SelfRecorded
from skillopt_mcp.backends.agents.claude_events import text_of
from skillopt_mcp.core import limits
from skillopt_mcp.core.advice import ENOUGH_SCORED
from skillopt_mcp.core.calls import TOOL_CALL, Message, messages_json
from skillopt_mcp.core.errors import BadInput, NotFound
from skillopt_mcp.core.mining import Episode
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.redacting import Redactor
from skillopt_mcp.core.results import Recorded, RecordOutcome
from skillopt_mcp.core.skills import Skill, short
from skillopt_mcp.core.text import or_more, quoted, storable
from skillopt_mcp.store.episodes import Episodes
from skillopt_mcp.store.erasing import Erasing
from skillopt_mcp.store.events import now
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pending import MOST_COUNTED
from skillopt_mcp.store.trajectories import NewTrajectory
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import handle

LARGEST_INDEX = 1 << 53
_RECORDED = re.compile("trajectory:[0-9]{1,18}")
_MESSAGE_FIELDS = ("role", "content", "name", "tool_calls")


@dataclass(frozen=True, slots=True)
class Recording:
    """What a caller says of one attempt; `messages` as {role, content, name?}, `index` its place in the session.

    Without `hard`, it is what the person `accepted`; what has a `correction`, their words, was not.
    """

    task: str
    hard: bool | None = None
    soft: float | None = None
    reason: str | None = None
    answer: str | None = None
    messages: Sequence[object] | None = None
    session_id: str | None = None
    index: int | None = None
    accepted: bool | None = None
    correction: str | None = None


def record_trajectory(store: Store, place: Place, skill: str, recording: Recording) -> Recorded:
    """Store an attempt, once per (session_id, index); where `task` is the id of one, score that one.

    Raises BadInput, NotFound, BadSkill; then nothing is stored.
    """
    new = checked(recording, place.redactor, place.session)
    tracked, trajectories = place.skill(skill), store.trajectories
    outcome: RecordOutcome
    is_corrected = False
    if _RECORDED.fullmatch(recording.task):
        trajectory_id = recording.task
        outcome, n_new = _score(store, tracked, trajectory_id, new)
    else:
        number, is_new, n_new = trajectories.add_trajectory(tracked.id, tracked.live_version, new)
        trajectory_id = f"trajectory:{number}"
        is_erased = not is_new and store.table(Erasing).find_erased([number])
        outcome = "recorded" if is_new else "erased" if is_erased else "duplicate"
        is_corrected = is_new and bool((recording.correction or "").strip())
        if is_corrected:
            # A task can be made of it, as of one that was found in a session.
            [_, kept] = trajectories.get_trajectory(number) or (0, None)
            session, index = new.session_id or place.session, number if new.position is None else new.position
            prompt = kept.prompt if kept else new.prompt
            store.table(Episodes).store_episode(tracked.id, index, Episode(
                session, index, tracked.path, prompt, "", new.answer, new.answer, new.reason, "rejected", "said", now()
            ))  # fmt: skip
    return Recorded(
        trajectory_id=trajectory_id,
        skill=tracked.name,
        version=short(tracked.live_version),
        n_new=n_new,
        outcome=outcome,
        next_step=NextStep(
            action="add_tasks",
            arguments={"skill": handle(store, tracked), "source": "sessions"},
            why="a task can be drafted of the correction",
            command=shlex.join(["skillopt-mcp", "tasks", "mine", handle(store, tracked), "--sessions"]),
        )
        if is_corrected
        else _next_step(store, tracked, n_new, trajectory_id if outcome == "recorded" and new.hard is None else ""),
    )


def _score(store: Store, skill: Skill, trajectory_id: str, new: NewTrajectory) -> tuple[RecordOutcome, int]:
    """Say how an attempt ended that was recorded without a score, as hooks do, or correct a score."""
    if new.hard is None:
        raise BadInput(f"say how {trajectory_id} ended: give hard, accepted, correction or soft")
    trajectories, number = store.trajectories, int(trajectory_id.partition(":")[2])
    done = trajectories.score_trajectory(skill.id, number, (new.hard, new.soft), new.reason)
    if done is None:
        raise NotFound(f"'{skill.name}' has no {trajectory_id}: inspect the skill for those without a score")
    return cast(RecordOutcome, done.replace(" ", "_")), trajectories.count_trajectories(skill.id)[1]


def _next_step(store: Store, skill: Skill, n_new: int, unscored_id: str) -> NextStep | None:
    """What to do once an attempt is there: without a score it teaches nothing."""
    arguments: dict[str, JsonValue] = {"skill": handle(store, skill)}
    if unscored_id:
        why = f"{unscored_id} has no score: say whether it succeeded (hard)"
        return NextStep(action="record_trajectory", arguments=arguments | {"task": unscored_id}, why=why)
    n_scored = store.trajectories.count_new_scored(skill.id, ENOUGH_SCORED)
    if n_scored == ENOUGH_SCORED:
        why = f"{or_more(n_new, MOST_COUNTED)} attempts are new"
        return NextStep(action="propose_edits", arguments=arguments, why=why)
    if n_scored < n_new:
        why = f"{n_scored} of {or_more(n_new, MOST_COUNTED)} new attempts have a score"
        return NextStep(action="record_trajectory", arguments=arguments, why=why)
    return None


def checked(recording: Recording, redactor: Redactor, session: str) -> NewTrajectory:
    """What is stored of an attempt, secrets taken out. Raises BadInput where it cannot be stored."""
    if not recording.task.strip():
        raise BadInput("task is empty: say what was asked of the agent")
    if recording.soft is not None and not (math.isfinite(recording.soft) and 0 <= recording.soft <= 1):
        raise BadInput(f"soft must be 0-1, got {recording.soft}")
    if recording.index is not None and not 0 <= recording.index < LARGEST_INDEX:
        shown = recording.index if abs(recording.index) < LARGEST_INDEX else "a larger number"
        raise BadInput(f"index must be 0 to 2^53 - 1, got {shown}: count the attempts of a session from 0")
    if len(recording.session_id or "") > limits.NAME_CHARACTERS:
        raise BadInput(f"the session_id has more than {limits.NAME_CHARACTERS} characters: use a shorter one")
    hard, correction = recording.hard, (recording.correction or "").strip()
    if hard is None and (correction or recording.accepted is not None):
        hard = not correction and bool(recording.accepted)
    hard = hard if hard is not None or recording.soft is None else recording.soft >= 1
    messages, called = list[Message](), dict[str, str]()
    for n, each in enumerate(recording.messages or ()):
        messages += _read_message(n, each, called)
    if hard and recording.soft == 0:
        raise BadInput("hard is true and soft is 0: leave out soft, or say that it failed")
    reason = "\n".join(filter(None, [correction, recording.reason]))
    given = [recording.task, recording.answer or "", reason, recording.session_id or ""]
    texts = [storable(text) for text in given] + [text for m in messages for text in (m.role, m.content, m.name or "")]
    written = messages_json(messages)
    size = sum(map(len, texts[:3])) + len(written)
    if size > limits.TRAJECTORY_CHARACTERS:
        raise BadInput(
            f"the trajectory has {size:,} characters, at most {limits.TRAJECTORY_CHARACTERS:,}: leave out tool output"
        )
    redacted = redactor.texts(texts)
    prompt, answer, reason, session_id, *rest = redacted
    if redacted != texts:
        parts = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
        written = messages_json([Message(role, content, name or None) for role, content, name in parts])
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
    )


def _read_message(n: int, value: object, called: dict[str, str]) -> Iterator[Message]:
    """Yield a message as it is stored: its text, and each call of a tool as a message of its own, as with each result.

    Texts may stand in blocks, as vendors have them; `called` is the tools' names by the ids of their calls, and grows.
    """
    value = {"role": "user", "content": value} if isinstance(value, str) else value
    role, content, name, calls = map((value if isinstance(value, Mapping) else {}).get, _MESSAGE_FIELDS)
    blocks = [{"text": content}] if isinstance(content, str) else content or []
    calls = calls or []
    if not (isinstance(role, str) and isinstance(name, str | None) and isinstance(blocks, list)
            and isinstance(calls, list) and (content is not None or calls)):  # fmt: skip
        raise BadInput(f"message {n} must be {{role, content}} with texts")
    assert isinstance(value, Mapping)
    name = name or called.get(str(value.get("tool_call_id")))
    for block in [*({"text": each} if isinstance(each, str) else each for each in blocks), *calls]:
        if not isinstance(block, Mapping):
            raise BadInput(f"message {n} must be {{role, content}} with texts")
        inner = block.get("function")
        call = inner if isinstance(inner, Mapping) else block
        kind, text = block.get("type"), block.get("text")
        if isinstance(text, str):
            yield Message(storable(role), storable(text), storable(name) if name else None)
        elif kind == "tool_use" or block in calls:
            called[str(block.get("id"))] = tool = storable(str(call.get("name")))
            given = call.get("arguments", call.get("input"))
            yield Message(TOOL_CALL, storable(given if isinstance(given, str) else json.dumps(given or {})), tool)
        elif kind == "tool_result":
            yield Message("tool", storable(text_of(block.get("content"))), called.get(str(block.get("tool_use_id"))))
        elif isinstance(thoughts := block.get("thinking"), str):
            yield Message(storable(role), storable(thoughts), "thinking")
        else:
            yield Message(storable(role), f"[{storable(str(kind))}]")


_ID = re.compile(r"trajectory:([0-9]{1,18})")
_AGO = re.compile(r"([0-9]{1,6})d")


@dataclass(frozen=True, slots=True)
class AttemptQuery:
    """What a person says: names, and what the attempts of a skill are to meet; `everything` is all of them."""

    names: Sequence[str]
    session: str | None = None
    before: str | None = None
    everything: bool = False


def find_attempts(store: Store, place: Place, wanted: AttemptQuery) -> list[int]:
    """Return the ids of the attempts that are meant. Raises BadInput, NotFound."""
    is_narrowed = wanted.session is not None or wanted.before is not None
    numbers = [_ID.fullmatch(name) for name in wanted.names]
    if any(numbers):
        if not all(numbers) or is_narrowed or wanted.everything:
            raise BadInput("name attempts alone (trajectory:7 trajectory:9), or one skill and which of its attempts")
        ids = [int(number[1]) for number in numbers if number]
        for each in ids:
            if not store.trajectories.version_of(each):
                raise NotFound(f"the store has no trajectory:{each}: skillopt-mcp show SKILL names those of a skill")
        return ids
    if len(wanted.names) != 1:
        raise BadInput(f"{len(wanted.names)} skills are named: name one, and which of its attempts")
    if is_narrowed == wanted.everything:
        raise BadInput(
            f"say which attempts of {quoted(wanted.names[0])}: --session, --before (both have to be met if both are "
            "given), or --all alone"
        )
    before = None
    if wanted.before is not None:  # a day, a time, or so many days ago
        try:
            if ago := _AGO.fullmatch(wanted.before):
                at = datetime.fromtimestamp(time.time(), UTC) - timedelta(days=int(ago[1]))
            else:
                at = datetime.fromisoformat(wanted.before)
                at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
        except (ValueError, OverflowError):
            raise BadInput(f"{quoted(wanted.before)} is not a date: give 2026-08-01, or 90d for days ago") from None
        before = f"{at.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"  # as the store writes times
    skill = place.find_kept(wanted.names[0])
    return store.table(Erasing).choose(skill.id, wanted.session, before)


def recorded_itself(store: Store, skill_id: int, found: SelfRecorded, new: NewTrajectory) -> list[int]:
    """Return the trajectories of a skill that the agent recorded in a turn, which `new` is the transcript of.

    Ids of another store may be the same: what is stored must be of that session, or name the task as the agent did. A
    turn in which a held-out task was asked, and another one recorded, is a record of its own: its session knows that.
    """
    if not found.ids:
        return []
    asked = {each.prompt.strip() for each in store.tasks.list_tasks(skill_id) if each.split != "train"}
    kept = []
    for each in sorted(found.ids):
        # What it asked is gone: by its number alone it is taken for the one of this turn, so that none brings it back.
        if store.trajectories.is_erased(skill_id, each):
            kept.append(each)
            continue
        owner, stored = store.trajectories.get_trajectory(each) or (None, None)
        if stored is None or owner != skill_id:
            continue
        if stored.session not in {new.session_id, *found.sessions} and stored.prompt not in found.tasks:
            continue
        if new.prompt.strip() not in asked or stored.prompt.strip() == new.prompt.strip():
            kept.append(each)
    return kept


def attach_transcript(store: Store, skill_id: int, trajectory_ids: list[int], new: NewTrajectory) -> None:
    """Put the transcript to the attempt that it is of; of several in one turn, it is not clear which.

    What an attempt has already stays, and so does all that a run has learned from.
    """
    if len(trajectory_ids) == 1:
        store.trajectories.attach_transcript(skill_id, trajectory_ids[0], new)
