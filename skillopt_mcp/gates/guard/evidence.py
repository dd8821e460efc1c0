"""Evidence: what an edit rests on, and whose words it may not repeat."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from skillopt_mcp.core.edits import Edit, EditReport
from skillopt_mcp.core.evidence import ROLLOUT, Trajectory
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.text import quoted, without_hidden

FEWEST_SESSIONS = 2
# In words; a character of a script that sets no blanks between them is half a one.
COPIED_WORDS = 8
FEWEST_WORDS = 4  # of a line; all of a text is known by one less
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d"
    "\U00020000-\U0003ffff"
)
_PLAIN_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
# More than what an optimizer is shown of one text: it can copy from nowhere else.
_SHOWN = 24_000
_TOOLS = ("tool", "tool_result", "function")
_OF_AN_EDIT = re.compile(r"edit \d+ ")
Run = tuple[str, ...]


def find_unsupported(
    edits: Sequence[tuple[Edit, EditReport]], evidence: Sequence[Trajectory], before: SkillFiles
) -> tuple[str, ...]:
    """Return one sentence for every applied edit that an outsider could have brought about alone.

    An edit that comes from recorded sessions names the attempts that it rests on, of two sessions or of our own
    rollouts. What repeats the words of a tool, or of one session, is held whatever it names.
    """
    by_id = {each.id: each for each in evidence}
    applied = [(n, edit) for n, (edit, report) in enumerate(edits) if report.status == "applied"]
    thin = [f"edit {n} {why}" for n, edit in applied if (why := _describe_lack(edit, by_id))]
    return (*thin, *find_copied(applied, evidence, before, alone=True))


def keep_findings(found: Sequence[str]) -> tuple[str, ...]:
    """Return those of a candidate's findings that are about its edits' evidence: they hold wherever the edits go."""
    return tuple(finding for finding in found if _OF_AN_EDIT.match(finding))


def find_copied(
    edits: Sequence[tuple[int, Edit]], evidence: Sequence[Trajectory], before: SkillFiles, *, alone: bool
) -> tuple[str, ...]:
    """Return one sentence for every edit that repeats what a tool returned, or `alone`, what one session says."""
    added = {n: _runs(edit.content or "") for n, edit in edits}
    every = frozenset[Run]().union(*added.values())
    new = every - _Wanted(every).among([before.text])
    if not new:
        return ()
    wanted, tools, sessions = _Wanted(new), set[Run](), dict[Run, set[str]]()
    for each in evidence:
        tools |= wanted.among(_texts(each, of_tools=True))
        for run in wanted.among(_texts(each, of_tools=False)) if alone else ():
            sessions.setdefault(run, set()).add(_session(each))
    return tuple(
        f"edit {n} {why}" for n, runs in added.items() if (why := _describe_repeated(runs & new, tools, sessions))
    )


def _describe_lack(edit: Edit, by_id: dict[str, Trajectory]) -> str:
    """Return what an edit's evidence lacks, empty when it is enough."""
    if not any(source in by_id and by_id[source].source == "session" for source in edit.sources):
        return ""
    cited = [source for source in edit.cited if source in edit.sources]
    if not cited:
        return "does not name the attempts that it rests on"
    if any(source.startswith(ROLLOUT) for source in cited):
        return ""
    sessions = {_session(by_id[source]) for source in cited if source in by_id}
    return "" if len(sessions) >= FEWEST_SESSIONS else "rests on one recorded session alone"


def _describe_repeated(runs: frozenset[Run], tools: set[Run], sessions: dict[Run, set[str]]) -> str:
    from_tools = runs & tools
    if from_tools:
        return f"repeats what a tool returned: {quoted(' '.join(min(from_tools)))}"
    alone = [each for each in runs if len(sessions.get(each, ())) == 1 and ROLLOUT not in sessions[each]]
    return f"repeats the words of one session: {quoted(' '.join(min(alone)))}" if alone else ""


def _session(trajectory: Trajectory) -> str:
    """Return whose evidence it is: ours, or a session's. Those that name no session might all be of one."""
    return ROLLOUT if trajectory.source == "rollout" else f"session {trajectory.session}"


def _texts(trajectory: Trajectory, *, of_tools: bool) -> Iterator[str]:
    if not of_tools:
        yield from (trajectory.prompt, trajectory.answer)
    yield from (each.content for each in trajectory.messages if (each.role in _TOOLS) is of_tools)


def _runs(content: str) -> frozenset[Run]:
    """Return the runs of words that a text is known again by; a short line, or all of a short text, is one."""
    whole, *lines = [tuple(_words(part)) for part in (content, *content.splitlines())]
    known = [(FEWEST_WORDS - 1, whole), *((FEWEST_WORDS, words) for words in lines)]
    short = {words for least, words in known if least <= sum(map(_weight, words)) < COPIED_WORDS}
    return frozenset((*short, *_walk_runs(whole)))


def _walk_runs(words: Sequence[str]) -> Iterator[Run]:
    """Yield from each word the shortest run that is long enough."""
    weight, end = 0.0, 0
    for start, word in enumerate(words):
        while weight < COPIED_WORDS and end < len(words):
            weight += _weight(words[end])
            end += 1
        if weight < COPIED_WORDS:
            return
        yield tuple(words[start:end])
        weight -= _weight(word)


def _weight(word: str) -> float:
    return 0.5 if _IS_UNSPACED.match(word) else 1


class _Wanted:
    """Runs of words that are looked for, by the longest word of each: few texts hold even that."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._by_word: dict[str, list[Run]] = {}
        for run in runs:
            self._by_word.setdefault(max(run, key=len), []).append(run)

    def among(self, texts: Iterable[str]) -> set[Run]:
        """Return those of the runs that the texts hold."""
        found = set[Run]()
        for text in texts:
            for part in (text,) if len(text) <= 2 * _SHOWN else (text[:_SHOWN], text[-_SHOWN:]):
                folded = _fold_text(part)
                near = [run for word, runs in self._by_word.items() if word in folded for run in runs]
                possible = {run for run in near if all(word in folded for word in run)}
                words = _PLAIN_WORD.findall(folded) if possible else []
                for size in {len(run) for run in possible}:
                    found |= possible.intersection(zip(*(words[at:] for at in range(size)), strict=False))
        return found


def _words(text: str) -> list[str]:
    return _PLAIN_WORD.findall(_fold_text(text))


def _fold_text(text: str) -> str:
    return without_hidden(text).casefold()
