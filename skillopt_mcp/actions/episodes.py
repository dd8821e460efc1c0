"""Episodes: the turns of a session, put together to the tasks that a person gave, and how each ended. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from skillopt_mcp.actions.labelling import label_reaction, stands_alone
from skillopt_mcp.actions.transcripts import SelfRecorded, SessionTurn, Use

_LAST = "~"  # later than every time
_SHORTEST = 3  # words of a task
_ABOUT_TESTS = re.compile(r"\b(?:tests?|suite|checks?|ci|build)\b", re.IGNORECASE)


@dataclass(slots=True)
class SessionEpisode:
    """One task that a person gave, with the turns that continue it.

    `rejected` is the turn whose answer they rejected first, with `correction`, their words; `last` is the turn of the
    last answer: the accepted one where that is the label. Where it is unknown, `rejected` and `correction` are the
    answer and the words that no rule understands, if there are any. `reason`: the words, or what else showed it.
    `until` is the index of the last turn; what is said once it `is_closed` changes the answer no more.
    """

    first: SessionTurn
    last: SessionTurn
    uses: dict[Use, None] = field(default_factory=dict)
    recorded: list[SelfRecorded] = field(default_factory=list)
    label: Literal["accepted", "rejected", "unknown"] = "unknown"
    why: str = ""
    rejected: SessionTurn | None = None
    correction: str = ""
    reason: str = ""
    is_closed: bool = False
    until: int = 0

    def reject(self, why: str, words: str) -> None:
        """Note that the last answer was rejected; the first rejection stays."""
        if self.label != "rejected" and (self.label == "accepted" or not self.why):
            self.rejected, self.correction = self.last, words
        self.label, self.why, self.is_closed = "rejected", why, False

    def accept(self, why: str, words: str) -> None:
        """Note that the last answer was accepted."""
        if self.label == "unknown":
            self.rejected, self.correction = None, ""
        self.label, self.why, self.reason, self.is_closed = "accepted", why, words, True


def group_turns(
    turns: Iterable[SessionTurn], side: Sequence[tuple[str, tuple[Use, ...]]] = ()
) -> Iterator[SessionEpisode]:
    """Yield the episodes of a session's turns, in order; `side`: when its sub-agents began, and what these opened.

    What a schedule or a program asked, and what was done in our own tools, belongs to none.
    """
    episode: SessionEpisode | None = None
    for turn in turns:
        is_persons = turn.said.by_person and not (turn.marked and turn.attempt.is_own)
        if episode and not (is_persons and _goes_on(episode, turn)):
            yield _with_side(episode, side, turn.said.at)
            episode = None
        elif episode is None and is_persons and not stands_alone(turn.said.text):
            # It is about what is not known. The first one of a session is a task if a skill was opened for it.
            about = ("accepted", "redo", "rejected") if turn.index else () if turn.marked else ("accepted", "redo")
            if label_reaction(turn.said.text) in about:
                continue
        if not is_persons:
            continue
        episode = episode or SessionEpisode(turn, turn)
        episode.until = turn.index
        if turn.marked:
            episode.uses |= dict.fromkeys(turn.attempt.uses)
            episode.recorded.append(turn.attempt.recorded)
        if not episode.is_closed:
            episode.last = turn
    if episode:
        yield _with_side(episode, side, "")


def _with_side(episode: SessionEpisode, side: Sequence[tuple[str, tuple[Use, ...]]], until: str) -> SessionEpisode:
    """An episode with what the sub-agents opened that began in it."""
    for at, uses in side:
        if episode.first.said.at and episode.first.said.at <= at < (until or _LAST):
            episode.uses |= dict.fromkeys(uses)
    return episode


def _goes_on(episode: SessionEpisode, turn: SessionTurn) -> bool:
    """Whether a turn continues an episode; what its words say of the last answer is noted."""
    words = turn.said.text
    is_relevant = bool(episode.uses) or turn.marked
    answer = episode.last.attempt.answer if is_relevant else ""
    if is_relevant and not answer:
        return True  # nothing was answered yet
    label = label_reaction(words, answer)
    if label == "rejected":
        episode.reject("said", words)
    elif label == "accepted":
        episode.accept("said", words)
        return not stands_alone(words)
    elif label == "unrelated" or episode.is_closed:
        return label != "unrelated" and len(words.split()) < _SHORTEST
    elif is_relevant and turn.attempt.reverted:
        episode.reject("reverted", words)
    elif is_relevant and turn.attempt.tested is not None and _ABOUT_TESTS.search(words):
        if turn.attempt.tested:
            episode.accept("tests", words)
        else:
            episode.reject("tests", words)
    elif label == "unknown":
        if episode.label == "unknown" and not episode.correction:
            episode.rejected, episode.correction = episode.last, words
        return not stands_alone(words)
    return True
