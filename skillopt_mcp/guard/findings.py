"""Findings: what in the texts of a skill, or in the evidence of an edit, a person should see before a host runs it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import re2

from skillopt_mcp.documents.text import hidden_offsets, quoted, without_hidden
from skillopt_mcp.records.edits import Edit, EditReport
from skillopt_mcp.records.evidence import ROLLOUT, Trajectory
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.redaction.redacting import KnownSecrets, find_secrets


class Passage(NamedTuple):
    """A place in a text, what identifies it in a comparison with the parent, and its description, after "adds "."""

    at: int
    key: str
    text: str


_COMMENT = re2.compile(r"(?s)<!--.*?(?:-->|\z)")
# What the edit engine writes; in what a model proposes it refuses them.
_MARKER = re2.compile(r"<!--\s*(?:SLOW_UPDATE|APPENDIX)_(?:START|END)\s*-->")
_UNSEEN = re2.compile(
    r"""(?im)<(?:script|iframe|object|embed|style|details)\b[^>]*>|\bstyle\s*=\s*["'][^"']*display\s*:\s*none"""
    r"""|^\[(?://|comment|_)\]:\s*#[^\n]*"""
)
_PRIVATE_KEY = re2.compile("-----BEGIN [A-Z ]*PRIVATE KEY-----")
_WORD = re2.compile(r"[\pL\pM]+")
_LONG_SECRET = 20
_MAX_FOUND = 10_000  # a text with so many is looked at by a person anyway
_SHORTEST_WORD = 4  # shorter ones are formulas and units
_LOOK_ALIKE = {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"}


def hidden(text: str) -> Iterator[Passage]:
    """Yield characters that a reader cannot see, each with its neighbours on the line: moved, it is a new one."""
    for at in islice(hidden_offsets(text), _MAX_FOUND):
        left = text[max(at - 4, 0) : at].rpartition("\n")[2]
        key = text[at] + left + text[at : at + 5].partition("\n")[0]
        yield Passage(at, key, f"the hidden character U+{ord(text[at]):04X}")


def comments(text: str) -> Iterator[Passage]:
    """Yield comments and folded or invisible parts, which a model reads and a person is not shown."""
    for pattern in (_COMMENT, _UNSEEN):
        for found in pattern.finditer(text):
            if not _MARKER.fullmatch(found.group()):
                part = " ".join(found.group().split())
                yield Passage(found.start(), part, f"a part that a rendered page does not show, {quoted(part, 60)}")


def disguised(text: str) -> Iterator[Passage]:
    """Yield words that mix alphabets whose letters look alike, as no language does."""
    if text.isascii():
        return
    for found in _WORD.finditer(text):
        word = found.group()
        if word.isascii() or len(word) < _SHORTEST_WORD:
            continue
        if len({_alphabet(letter) for letter in word} & _LOOK_ALIKE) > 1:
            yield Passage(found.start(), word, f"a word that mixes alphabets, {quoted(word)}")


def secrets(text: str, known: KnownSecrets) -> Iterator[Passage]:
    """Yield what looks like a secret, or is one that is known; only its beginning is shown."""
    for secret in find_secrets(text.encode("utf-8", "replace"), known):
        value = secret.value.decode("utf-8", "replace")
        yield Passage(max(text.find(value), 0), value, f"what looks like a secret{_beginning(value)}")
    for found in _PRIVATE_KEY.finditer(text):
        yield Passage(found.start(), found.group(), f"what looks like a secret{_beginning(found.group())}")


def _beginning(secret: str) -> str:
    """Return the first characters of a secret that is long enough to stay one without them."""
    return f" ({quoted(secret[:4])[1:-1]}...)" if len(secret) >= _LONG_SECRET else ""


def _alphabet(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


FEWEST_SESSIONS = 2
COPIED_WORDS = 8
FEWEST_WORDS = 4
_PLAIN_WORD = re.compile(r"[^\W_]+")
# More than what an optimizer is shown of one text: it can copy from nowhere else.
_SHOWN = 24_000
_TOOLS = ("tool", "tool_result", "function")
_OF_AN_EDIT = re.compile(r"edit \d+ ")
Run = tuple[str, ...]


def unsupported(
    edits: Sequence[tuple[Edit, EditReport]], evidence: Sequence[Trajectory], before: SkillFiles
) -> tuple[str, ...]:
    """Return one sentence for every applied edit that an outsider could have brought about alone.

    An edit that comes from recorded sessions names the attempts that it rests on, of two sessions or of our own
    rollouts. What repeats the words of a tool, or of one session, is held whatever it names.
    """
    by_id = {each.id: each for each in evidence}
    applied = [(n, edit) for n, (edit, report) in enumerate(edits) if report.status == "applied"]
    thin = [f"edit {n} {why}" for n, edit in applied if (why := _thin(edit, by_id))]
    return (*thin, *copied(applied, evidence, before, alone=True))


def carried(found: Sequence[str]) -> tuple[str, ...]:
    """Return those of a candidate's findings that are about its edits' evidence: they hold wherever the edits go."""
    return tuple(finding for finding in found if _OF_AN_EDIT.match(finding))


def copied(
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
    return tuple(f"edit {n} {why}" for n, runs in added.items() if (why := _repeated(runs & new, tools, sessions)))


def _thin(edit: Edit, by_id: dict[str, Trajectory]) -> str:
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


def _repeated(runs: frozenset[Run], tools: set[Run], sessions: dict[Run, set[str]]) -> str:
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
    """Return the runs of words that a text is known again by; a short line is one as a whole."""
    lines = [_words(line) for line in content.splitlines()]
    short = {tuple(words) for words in lines if FEWEST_WORDS <= len(words) < COPIED_WORDS}
    return frozenset((*short, *_of_size(_words(content), COPIED_WORDS)))


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
                folded = _folded(part)
                near = [run for word, runs in self._by_word.items() if word in folded for run in runs]
                possible = {run for run in near if all(word in folded for word in run)}
                words = _PLAIN_WORD.findall(folded) if possible else []
                for size in {len(run) for run in possible}:
                    found |= possible.intersection(_of_size(words, size))
        return found


def _of_size(words: Sequence[str], size: int) -> Iterator[Run]:
    return zip(*(words[at:] for at in range(size)), strict=False)


def _words(text: str) -> list[str]:
    return _PLAIN_WORD.findall(_folded(text))


def _folded(text: str) -> str:
    return without_hidden(text).casefold()
