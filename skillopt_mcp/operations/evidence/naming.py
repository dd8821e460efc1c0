"""Naming: which recorded attempts a person means, by their ids, or as those of a skill that meet what is said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import BadInput, NotFound
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.store.erasing import Choice, Erasing
from skillopt_mcp.store.searching import spellings

_ID = re.compile(r"trajectory:([0-9]{1,18})")
_AGO = re.compile(r"([0-9]{1,6})d")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person says: names, and what the attempts of a skill are to meet; `everything` is all of them."""

    names: Sequence[str]
    session: str | None = None
    before: str | None = None
    containing: str | None = None
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Meant:
    """The attempts that are meant, and the text that is looked for beside them, in all its spellings."""

    ids: Sequence[int]
    needles: Sequence[str] = ()


def attempts_meant(workspace: Workspace, wanted: Wanted) -> Meant:
    """Return the attempts that are meant. Raises BadInput, NotFound."""
    filters = [wanted.session, wanted.before, wanted.containing]
    is_narrowed = any(each is not None for each in filters)
    numbers = [_ID.fullmatch(name) for name in wanted.names]
    if any(numbers):
        if not all(numbers) or is_narrowed or wanted.everything:
            raise BadInput("name attempts alone (trajectory:7 trajectory:9), or one skill and which of its attempts")
        return Meant([_there(workspace, int(number[1])) for number in numbers if number])
    if len(wanted.names) != 1:
        raise BadInput(f"{len(wanted.names)} skills are named: name one, and which of its attempts")
    if is_narrowed == wanted.everything:
        raise BadInput(
            f"say which attempts of {quoted(wanted.names[0])}: --session, --before, --containing (all that are given "
            "have to be met), or --all alone"
        )
    if wanted.containing is not None and not wanted.containing.strip():
        raise BadInput("the text to look for is empty: give one")
    needles = spellings(wanted.containing) if wanted.containing else []
    before = _moment(wanted.before, workspace.clock()) if wanted.before is not None else None
    skill = workspace.kept(wanted.names[0])
    choice = Choice(session=wanted.session, before=before, containing=needles)
    return Meant(workspace.store.room(Erasing).choose(skill.id, choice), needles)


def _there(workspace: Workspace, number: int) -> int:
    if not workspace.store.trajectories.version_of(number):
        raise NotFound(f"the store has no trajectory:{number}: skillopt-mcp show SKILL names those of a skill")
    return number


def _moment(text: str, now: float) -> str:
    """Return a day, a time, or so many days ago, as the store writes times. Raises BadInput."""
    try:
        if ago := _AGO.fullmatch(text):
            at = datetime.fromtimestamp(now, UTC) - timedelta(days=int(ago[1]))
        else:
            at = datetime.fromisoformat(text)
            at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise BadInput(f"{quoted(text)} is no day: give one as 2026-08-01, or days ago as 90d") from None
    return f"{at.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
