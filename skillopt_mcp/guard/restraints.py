"""Restraints: what a skill forbids, or lets nobody do without a person; no edit may take one away unseen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from skillopt_mcp.guard.demands import plain

_BEGINS = re.compile(r"\s*(?:[-*+]|\d+[.)]|#+|>|\|)\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?;:])\s+")
_FORBIDS = re.compile(
    r"\b(?:never|(?:do|must|may|should|shall|can|could|is|are)(?: not|n't|nt)|cannot|only (?:if|when|after|with|once)"
    r"|unless|not without|no (?:one|body)|forbidden|prohibited)\b"
)
_ACTS = re.compile(
    r"\b(?:push|tag|publish|deploy|releas|merg|delet|remov|drop|overwrit|wip|eras|commit|forc|send|e-?mail|post|shar|ship"
    r"|upload|run|execut|install|buy|pay|order|transfer|sign|approv|grant|clos|disabl|bypass|skip|touch|chang|edit|modif"
    r"|writ|access|print|log|echo|reveal|stor|leak|expos|rotat|restart|shut|kill|migrat|creat|call|contact|book|cancel"
    r"|rebas|reset|download|open|click|trust|follow|obey|cop)\w*"
)
_ASKS = re.compile(
    r"\b(?:ask|confirm|check|consult|wait|stop|tell|warn)\w*\b.{0,40}\b(?:user|person|human|owner|maintainer|reviewer"
    r"|team|first|before|approval|confirmation|permission|consent)\b"
    r"|\b(?:needs?|requires?|only with|get|obtain)\b.{0,40}\b(?:approval|confirmation|permission|consent|review)\b"
)
_NOT_ASKED = re.compile(
    r"\b(?:no need to|don't|do not|never|not) (?:\w+ )?(?:ask|confirm|check|consult|wait|tell|warn)"
)
_UNASKED = re.compile(r"\bwithout (?:\w+ )?(?:ask|confirm|check|consult|wait|tell|warn)")
_EXCEPTS = re.compile(
    r"\b(?:unless|except|excluding|if|when|while|until|but|only|apart|besides|however|though|may|can)\b"
)

# So many are looked for within other sentences; the next ones have gone.
_MOST_COMPARED = 200


def lost(before: Iterable[str], after: Iterable[str]) -> Iterator[str]:
    """Yield each restraint of the texts `before` that stands in none of those `after`, as it reads.

    A sentence that holds it and more keeps it, unless what is more makes an exception.
    """
    sentences = {each for text in after for each in _sentences(text)}
    told = dict.fromkeys(each for text in before for each in _sentences(text) if each not in sentences)
    for n, restraint in enumerate(filter(_restrains, told)):
        around = (each.replace(restraint, "") for each in sentences if restraint in each)
        if n >= _MOST_COMPARED or all(_EXCEPTS.search(rest) for rest in around):
            yield restraint


def _restrains(sentence: str) -> bool:
    if _NOT_ASKED.search(sentence):
        return False
    if _FORBIDS.search(sentence) and _ACTS.search(sentence):
        return True
    return bool(_ASKS.search(sentence)) and not _UNASKED.search(sentence)


@lru_cache(maxsize=32)
def _sentences(text: str) -> tuple[str, ...]:
    sentences = (sentence for block in _blocks(text) for sentence in _SENTENCE_END.split(block))
    return tuple(told for sentence in sentences if (told := sentence.strip(" .!;:")))


def _blocks(text: str) -> Iterator[str]:
    """Yield what belongs together, as one plain line each: an item of a list, a heading, a paragraph."""
    block: list[str] = []
    for line in (*text.splitlines(), ""):
        begun = _BEGINS.match(line)
        if block and (begun or not line.strip()):
            yield " ".join(" ".join(block).split())
            block = []
        if line.strip():
            block.append(plain(line[begun.end() :] if begun else line))
