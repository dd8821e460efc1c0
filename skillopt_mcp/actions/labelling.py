"""Labelling: what a person means by what they say after an answer, by rules alone. Pure.

The rules abstain unless a message says nothing but praise, or says clearly that something is wrong: a wrong label costs
more than none, since a model can be asked about what has none.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

Label = Literal["accepted", "rejected", "redo", "continues", "unrelated", "unknown"]

MAX_CHARACTERS = 2_000
"""How much of the beginning of a message is looked at."""
_MAX_OTHER = 1  # words that say nothing, in a clause that praises
_MAX_REDO = 6  # words besides those that ask for another try
_LONG = 6  # from so many words on a message may stand alone


def _join(pattern: str) -> re.Pattern[str]:
    """A pattern that is written over several lines."""
    return re.compile(pattern.replace("\n", ""), re.MULTILINE)


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text)


_GOOD = frozenset(
    _words("""
perfect perfectly great awesome excellent brilliant amazing lovely fantastic wonderful beautiful superb super good cool
neat nice fine exactly lgtm approved correct right thanks thank thx ty tysm ta cheers kthx kthxbye works fixed green
match matches passes happy impressive flawless danke perfekt passt lauft merci parfait nickel gracias perfecto funciona
grazie obrigado valeu otimo dzieki działa
""")
)
_MILD = frozenset(
    _words("""
ok okay k yes yep yeah alright sure wow oh ah hey hm well so then now finally again very really much both all same that
thats this it its they the a an i im ive me we you u my mine your is was are were be to of and in on at for as what had
mind asked wanted needed looks look reads does did job work help code test tests build ci please pls quick man mate sir
""")
)
_BAD = _join(r"""
\b(but|however|except|although|though|yet|only|not|never|wrong|missing|forgot|instead|without|still|no|nothing|nobody|
if|because|until|try|[a-z]+nt|cannot|almost|myself|pas|nicht|aber|mais|pero)\b
""")
# "No errors", "nothing to add", "not bad": what is good by what it denies.
_DENIED = _join(r"""
\b(errors?|problem|issue|bug|warning|crash) (is|are) (gone|fixed|solved)\b|\b(did|does) the trick\b|\bspot on\b|
\b(reads|works) (well|fine|great)\b|\b(all|[1-9]\d*)( tests?)? (pass|passed|passing|green)\b|\b(no|nothing|none|cant|
not)( (more|further|any|find|anything|have|at|to|else|a))* (errors?|complaints?|problems?|issues?|objections?|
questions?|comments?|remarks?|notes?|wrong|add|complain|bad)\b
""")
# Praise of a plan, or of what was asked.
_OF_A_PLAN = re.compile(r"\b(sounds|good|great|nice|fair|cool) (idea|question|point|plan|to know|luck|start|try)\b")
# What is done with an answer that is right.
_ADOPTED = _join(r"""
^((ok|okay|k|yes|yep|great|good|alright|then|now|and|so|please|pls|just|lets|go|no|i|im|ill) )*(((merge|commit|push|
ship|keep|leave|approve|close)(?= (it|this|that|them|and)\b|$)|merged|pushed|shipped|committed|approved|approving|
(tagg|clos|merg|publish|push|shipp|deploy)ing)\b( (it|this|that|them|(as|the way) (is|it is|you have it)|like (this|
that)|version|now|then|pls|please|and|push|merge|commit|the (ticket|issue|pr|jira)|\d+))*|thats (it|the one)|thatll do|
(we are|were|im|all) (done|good|set)( here)?( then)?)$|(^|\bbut )(youre|you are|you were) right( about [\w ]+)?$
""")
_FAILED = _join(r"""
^traceback \(most|^(\S+: )? *([\w.]*(error|exception)|fatal|panic)(\[\w+\])?:|^[^\w\n]*[1-9]\d* failed\b|
\bexit(ed)?( with)? code [1-9]|segmentation fault|\*\*\* |^failed \S+|^ *expected\b.{0,200}\n?.{0,200}\b(got|received|
actual|but was)\b
""")
_ASKS = re.compile(r"\?|\b(how|what|why|explain|here is|heres|attach\w*|my new)\b")
_AGAIN = _join(r"""
(^|[.!,] )(again|retry|redo|regenerate)\b|\b(do|try|send|write|run|roll) (\w+ ){0,3}(again|anew|over)\b|\bstart (over|
fresh)\b|\bfrom scratch\b|\b(one|once) more\b|\banother (go|try|take|attempt|version|stab|shot)\b|\bsecond (try|
time)\b|\bdifferent version\b|\bnoch ?(ein)?mal\b
""")
_OTHER_TOPIC = re.compile(r"\b(new|different|other) (task|topic|thing|bug)\b|\bunrelated\b|^btw\b|\bswitch to\b")
_NEXT = _join(r"""
^((ok|okay|good|great|right|alright|yes|and|so|please|pls|then) )*(next\b|on ?to (the|to)\b|(now|then|also|
please) (add|make|do|write|run|put|the same|squash|create|update|move|extract|open)\b|(can|could) (you|we) also\b|
continue|go (on|ahead)|proceed|carry on|do the same|(commit|tag|push|merge|release|ship|deploy)\b)
""")
_CONTRAST = _join(r"""
\b(but|however|except|apart from|though|although|only thing|tiny thing|just not|aber|mais|
pero)\b(?=(\W+\w+){2})(?! (let|ill|im|no|also|can|could|dont)\b)
""")
# What speaks of the answer, or of who gave it, wherever it stands.
_WRONG = _join(r"""
^(jesus |hm+ )?\W*(no|nope|nah|almost|close|not quite)( -|[,.:!])+ (?!(thats|it|nothing|no|we|im|i|leave|keep|go|dont|
need)\b)\w+\W+\w+|\bno,? i meant\b|\bnot what (i|we)\b|\bthe opposite of\b|(?<!what )(?<!as )\b(i|we) (had )?(said|
asked (for|you|about))\b|(?<!what )\bwe (had )?agreed\b|\bas i said\b|\bdidnt i\b|\byou(ve| have)? (just )?(forgot|
missed|dropped|broke|deleted|changed (?!my)|ignored|skip\w*|invented|swapped|mocked|did it again)|\bwho (asked|
told) you\b|\bwhere did (the|all|my|our) .*\bgo\b|^(please )?(undo|revert|roll back|put back)\b|
^(please )?stop \w+ing\b|^are you (kidding|serious)\b|^(its |it )?still (null|empty|wrong|broken|fail\w*|crash\w*|
hang\w*|no|not|\d+|seeing|getting|shows?|missing|the same)\b|^same (error|problem|issue|bug|stack trace)\b|
\bshouldnt (it|this|that|the)\b|\bim afraid (the|it|this|that|there)\b
""")
# What speaks of a thing that is wrong, which may be one that is to be mended.
_FAULTY = _join(r"""
\b(should|must|has to) be\b(?! (good|fine|ok|enough|all|live|done|easy|able|obvious|safe|possible))|\b(is|its|are|be|
want|wanted|thats)\b[^.\n]*, not \w|\b(undo|revert) (it|that)\b|\bwe (dont (use|do|say)|say)\b|\b(its|thats|is|
are) (still |all |just |now )*(wrong|missing|incorrect|off by|backwards|garbage|in the wrong|a duplicate)\b|^(its |
thats )?(way |much |a bit )?too (long|short|verbose|many|slow|formal|vague)\b|^(it |this )?(doesnt|wont) (work|compile|
run|build|start|match)\b|\b(it|this|that|now) (still )?(fails?|breaks?|crashes|hangs?|wipes)\b
""")
# How a request or a question begins that may be about something else.
_REQUEST = _join(r"""
\bif\b|^((ok|hi|hey|please|pls|so|now|and|also) )*(find|write|explain|fix|add|make|create|look|check|show|give|draft|
convert|set|translate|review|need|run|yes|i (need|have|want|am|get|was)|im|my|our|customers?|users?|we (have|need|
want)|how|what|when|which|who|can|could|would|does|theres?|heres?)\b
""")
_SIGN = re.compile(r"\+1|[👍🎉✅👌]+[👍🎉✅👌🏻-🏿 .!]*")
_NO_PRAISE = re.compile("[👎😡🙄🙃]")
_POINTS_BACK = _join(r"""
\b(it|its|this|that|thats|these|those|them|they|same|also|too|instead|das|es|dies\w*|ca|cela|eso|esto|isso)\b
""")


def label_reaction(text: str, answer: str = "") -> Label:
    """What a message says of the `answer` before it: `redo` asks for another try, `unrelated` begins something else."""
    plain = unicodedata.normalize("NFKD", text[:MAX_CHARACTERS].lower())
    plain = re.sub("[\u0300-\u036f'’`]", "", plain).strip()
    if _NO_PRAISE.search(plain) or _SIGN.fullmatch(plain):
        return "unknown" if _NO_PRAISE.search(plain) else "accepted"
    is_other = bool(_OTHER_TOPIC.search(plain))
    if _FAILED.search(plain):
        return "unknown" if is_other or _ASKS.search(plain) else "rejected"
    plain = _DENIED.sub("flawless", _OF_A_PLAN.sub("ok", plain))
    clauses = _split(plain)
    words, praise = " ".join(clauses), [_praise(clause) for clause in clauses]
    # Clauses at the beginning that praise, or say nothing; then there is the rest.
    n_first = praise.index(None) if None in praise else len(praise)
    is_praised, rest = any(praise[:n_first]), clauses[n_first:]
    is_adopted = bool(clauses) and bool(_ADOPTED.search(clauses[-1]))
    is_wrong = _WRONG.search(plain) or (_FAULTY.search(plain) and not any(map(_REQUEST.search, clauses)))
    if (contrast := _CONTRAST.search(plain)) and not is_adopted:
        before = [_praise(clause) for clause in _split(plain[: contrast.start()])]
        if any(before) and None not in before and _GOOD.isdisjoint(plain[contrast.end() :].split()):
            return "rejected"
    says_why = is_wrong or re.search(r"\b(again|it|this|that) with|\bwrong\b|\bstill\b", words)
    if _AGAIN.search(plain) and not says_why and len(_AGAIN.sub(" ", plain).split()) <= _MAX_REDO:
        return "redo"
    was_asked = answer.rstrip().endswith("?")  # then "no" and "yes" are answers
    if not (was_asked or is_wrong or "?" in plain):
        moves_on = not rest or _NEXT.match(rest[0]) or _OTHER_TOPIC.search(rest[0])
        if is_adopted or (is_praised and moves_on and not contrast):
            return "accepted"
    if is_wrong and not (is_other or is_adopted or was_asked) and _GOOD.isdisjoint(" ".join(rest).split()):
        return "rejected"
    return "unrelated" if is_other else "continues" if _NEXT.match(words) else "unknown"


def stands_alone(text: str) -> bool:
    """Whether a message may be a task of its own: long enough, and its beginning does not point back."""
    words = text[:MAX_CHARACTERS].lower().split()
    return len(words) >= _LONG and not _POINTS_BACK.search(" ".join(words[:_LONG]))


def _split(text: str) -> list[str]:
    """The clauses of a text, without marks."""
    parts = re.split(r"[.!?]+(?!\w)|[,;:\n()]+|\s[-–—]+\s", text)
    return [clause for part in parts if (clause := " ".join(_words(part)))]


def _praise(clause: str) -> bool | None:
    """True for a clause that praises, False for one that says nothing, None for all others."""
    if _ADOPTED.search(clause):
        return True
    words = clause.split()
    n_other = sum(word not in _GOOD and word not in _MILD for word in words)
    is_good = not _GOOD.isdisjoint(words)
    n_max = len(words) if "flawless" in words else _MAX_OTHER if is_good else 0
    return None if _BAD.search(clause) or n_other > n_max else is_good
