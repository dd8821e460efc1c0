"""What was found in a person's sessions, and the tasks that were drafted from what there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from skillopt_mcp.core.tasks import NewTask

Label = Literal["accepted", "rejected", "unknown"]
Source = Literal["skill", "sessions", "repo"]
SOURCES: tuple[Source, ...] = get_args(Source)


@dataclass(frozen=True, slots=True)
class Episode:
    """One task that a person gave in a session, with all turns that continue it; secrets are redacted.

    `skill` is the path of the tracked skill that arrived, "" for none. `answer` is the last one, `rejected` the first
    one that the person rejected ("" for none), `correction` their own words on it. `why` names the rule that gave the
    label, or is "asked" where a model did.
    """

    session: str
    index: int  # of the episode in its session, from 0
    skill: str
    prompt: str
    folder: str  # where the session worked
    answer: str
    rejected: str
    correction: str
    label: Label
    why: str
    at: str  # UTC, when the person gave it


@dataclass(frozen=True, slots=True)
class Draft:
    """A task that was mined, and what it was made from. It waits until a person keeps it.

    `origin` names where it is from: "<session>#<index>" of an episode, a commit, a rule of the skill's text, a
    complaint. `accepted` is an answer that its judge has to pass, `rejected` one that it has to fail, `correction` the
    person's words; "" where there is none.
    """

    task: NewTask
    source: Source
    origin: str
    accepted: str = ""
    rejected: str = ""
    correction: str = ""
