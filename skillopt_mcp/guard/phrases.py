"""Demands: what in a text works against people: orders to override, to hide, to grant, to leak, to spread."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import re2

from skillopt_mcp.documents.lint import Problem
from skillopt_mcp.documents.text import hidden_offsets, is_text, quoted, to_lf, without_hidden
from skillopt_mcp.guard.findings import Passage
from skillopt_mcp.records.skills import SkillFile, SkillFiles
from skillopt_mcp.redaction.redacting import find_secrets

_SHOWN = 60

_PERSON = r"(?:the |your |a |any )?(?:user|human|person|operator|developer|owner|reviewer|maintainer|customer)s?\b"
_NEVER = r"(?:never|not|don't|dont|without|avoid|stop)"
# A verb right behind one of these is forbidden, and not demanded.
_FORBIDDEN = r"(?P<forbidden>\b(?:never|not|don't|dont|cannot|can't|avoid) (?:\w+(?:, \w+)*,? n?or )?)?"
_FORBIDDEN_BEFORE = r"(?P<forbidden>\b(?:never|not|don't|dont|cannot|can't|avoid|nothing|nobody)\b[^.\n]{0,100}?)?"
# What only comes after a person's yes waits for it, and claims none; "after the start, the user has agreed" claims it.
_WHERE = (
    r"(?P<forbidden>\b(?:(?:if|once|until|unless|whether|only|as soon as)\b[^.,:;\n]{0,60}?|"
    r"(?:when|whenever|after|before) (?:(?:the|a|an|any|your|our|each|every|one|some|another|at least|both|all) )*))?"
)
_AGREED = (
    rf"{_WHERE}\b(?:user|human|person|operator|developer|owner|reviewer|maintainer|admin(?:istrator)?|security team)s? "
    r"(?:(?:has|have|had|already|previously|explicitly|now|just|long) )*"
)
_ASKED = (
    r"(?:permission|approval|confirmation|consent|security|authori[sz]ation|tool|access) (?:prompt|request|dialog|"
    r"question|pop-?up|call)s?\b"
)
_ALL = r"(?:(?:all|any|every|the|your|of|these|those|other|its|their|whole|entire|existing|user's|full) )*"
_KEPT = (
    r"(?:credentials?|secrets?|passwords?|passphrases?|api[ -]keys?|private keys?|ssh keys?|access[ -]tokens?|"
    r"auth(?:entication)? tokens?|session cookies|environment variables?|env vars?|keychain|wallets?|"
    r"conversation history|chat history|system prompt|memory files?)\b"
)
_CHECKS = (
    r"(?:sandbox(?:ing)?|guards?|guardrails?|safety(?: checks?| filters?| rules?)?|security(?: checks?| controls?| "
    r"warnings?)?|permission(?:s| checks?| prompts?)|approvals?|confirmation(?:s| prompts?)?|authori[sz]ation|"
    r"certificate checks?|antivirus|firewall|audit(?: log(?:s|ging)?)|content filters?|human review|code review)\b"
)
# Those that hardly a skill has that is what it says; the others are suspicious in what an edit adds.
_TAKES_OVER = (
    r"\b(?:ignore|disregard|forget|override|bypass|discard|drop)s? (?:(?:all|any|the|your|of|these|those|every|other|"
    r"my|what|everything) )*(?:previous|prior|above|earlier|preceding|existing|system|developer|safety|original|other) "
    r"(?:instruction|rule|prompt|message|guideline|direction|order|constraint|polic|restriction)(?:s|y|ies)?\b",
    r"\b(?:ignore|disregard|forget|discard) (?:all |any |every |the |your )*(?:rule|instruction|guideline|prompt|order)"
    r"s? (?:above|before|so far|until now|given earlier)\b",
    r"\b(?:ignore|disregard|forget|discard) (?:everything|anything|all|whatever|what)(?: that)? (?:you|the agent) \w+",
    r"\b(?:instructions?|system prompt|guidelines?|safety rules?|restrictions?|usual limits)\b[^.\n]{0,30}"
    r"\b(?:no longer|do not|don't|does not|doesn't|never|cease to) (?:apply|hold|count|matter|bind)\b",
    r"\b(?:reveal|print|output|repeat|send|show) (?:your|the) (?:system prompt|hidden instructions)\b",
    rf"\bwithout {_PERSON} (?:knowing|noticing|seeing|being told)",
    rf"\b(?:mislead|deceive|trick|lie to|fool|manipulate) {_PERSON}",
)
_AGAINST_PEOPLE = (
    *_TAKES_OVER,
    r"\b(?:outranks?|supersedes?|(?:takes?|has|have) (?:precedence|priority) over) (?:all |any |every |the |your "
    r"|other )*(?:instruction|rule|prompt|guideline|skill|user|person)s?\b",
    rf"\b{_NEVER} (?:ever )?(?:tell|telling|ask|asking|inform|informing|notify|notifying|alert|alerting|warn|warning|"
    rf"mention|mentioning|disclose|disclosing|reveal|revealing|show|showing|report|reporting)"
    rf"(?: (?:this|that|it|them|these|anything)(?: (?:rule|step|action|change|note|line)s?)?(?: to)?)? {_PERSON}",
    rf"\b{_NEVER} (?:ever )?(?:ask|asking|seek|seeking|request|requesting|wait|waiting|need|require)(?: for)? "
    rf"(?:(?:any|the|user|human|explicit|prior|further|your) )*"
    r"(?:approval|permission|confirmation|consent|authori[sz]ation|review|sign-off)\b",
    rf"\b(?:hide|conceal|keep) [^.\n]*\bfrom {_PERSON}",
    r"\b(?:keep|treat) (?:this|these|it|them)(?: \w+)? (?:as )?(?:a )?(?:secret|confidential|hidden)\b",
    rf"\b(?:do|does|perform|run|make|apply|commit)\b[^.\n]{{0,60}}\b(?:silently|secretly|covertly|behind the scenes|"
    rf"without {_PERSON} (?:knowing|noticing|seeing))",
)
_OF_JUDGES = (
    r"\b(?:award|give|assign|grant|grade|score|rate|mark) [^.\n]*\b(?:full|maximum|perfect|highest|top) "
    r"(?:score|mark|point|credit|grade|rating)s?\b",
    r"\b(?:the )?(?:judge|grader|evaluator|optimizer|reviewer model|gate) (?:must|should|shall|will|has to|needs to)\b",
    r"\b(?:score|grade|verdict|rating)s? (?:is|are|must be|should be|of|=|:) ?(?:1(?:\.0+)?|100 ?%|accept|pass)"
    r"(?:\s|$|[.,;!])",
    r"\b(?:note|message|instruction)s? (?:to|for) (?:the )?(?:judge|grader|evaluator|optimizer|ai|llm|language model|"
    r"assistant|agent|model)\b",
)
_FORGED = (
    r"<\|[a-z ]+\|>|\[/?inst\]|<<\/?sys>>|</?(?:system|assistant|user|system-reminder|human|instructions?|tool_result|"
    r"function_calls?|antml:[a-z]+)>",
    r"(?:^|[.!?#>*\-\[] ?)(?:system|developer|administrator|admin)(?: (?:override|message|notice|update|prompt|alert|"
    r"instruction|note))?\]? ?:",
    r"\b(?:new|updated|real|actual|hidden) (?:system )?(?:instructions?|prompt|orders?) ?(?::|follow|are|is)",
    r"\byou are (?:now|no longer)\b",
    r"\b(?:developer|god|admin|debug|maintenance|unrestricted|jailbreak|dan|root) mode\b",
    r"\b(?:message|notice|order|instructions?|request|update) from (?:anthropic|openai|the (?:administrator|admin|"
    r"security team|system|vendor|provider|platform|company))\b",
)
_GRANTS = (
    r"\b(?:you|the agent|the assistant|agents?|claude|codex) (?:have|has|are|is) (?:(?:now|hereby|always|already|full|"
    r"complete|blanket|standing|explicit|been) )*(?:permission|permitted|authori[sz]ed|authori[sz]ation|allowed|"
    r"cleared|approved|granted|trusted|free) (?:to|for)\b",
    r"\b(?:all|every|any) (?:\w+ ){0,2}(?:tool|command|action|request|change|edit|operation|permission|shell command|"
    r"call)s? (?:is|are|has been|have been|counts? as|may be)(?: (?:considered|treated as|now|always|already))? "
    r"(?:pre-?)?(?:approved|allowed|authori[sz]ed|trusted|granted|permitted|safe|accepted)\b",
    rf"{_FORBIDDEN}\b(?:automatically|always|auto-?)[ -]?(?:approve|accept|allow|confirm|grant|consent|agree|click)\b",
    r"\b(?:answer|reply|say|respond|click|press|choose|select)(?: with)? [\"']?(?:yes|allow|approve|always allow|"
    r"accept|y)[\"']?,? (?:to|on|at|when|whenever|for|in) [^.\n]{0,40}\b(?:prompt|question|dialog|permission|"
    r"confirmation|approval)s?\b",
    r"\b(?:with|has|have|use|using|grant|gain|get|request) (?:full|root|admin|administrator|elevated|unrestricted|"
    r"superuser|write) (?:access|permissions?|rights?|privileges?)\b",
    rf"{_FORBIDDEN}\b(?:disable|disabling|turn off|turning off|switch off|bypass|bypassing|skip|skipping|circumvent|"
    rf"circumventing|evade|evading|suppress|suppressing|work around|deactivate) {_ALL}{_CHECKS}",
    r"\b(?:approval|permission|confirmation|consent|authori[sz]ation|review)s? (?:is|are) (?:not|never|no longer) "
    r"(?:needed|required|necessary)\b",
    rf"{_AGREED}(?:approved|agreed|consented|authori[sz]ed|permitted|confirmed|allowed|accepted|signed off|okayed)"
    r"(?: (?:to|on|of|for))? (?:all|any|every|everything|anything|each|whatever|this|these|those|it|(?:the |your |its "
    r")?(?:\w+ )?(?:change|edit|command|action|tool|request|plan|step|call|permission|prompt)s?)\b",
    rf"{_AGREED}(?:gave|given|granted) (?:\w+ ){{0,3}}(?:approval|permission|consent|leave|access|authori[sz]ation)\b",
    rf"{_FORBIDDEN}\b(?:approve|accept|allow|confirm|grant|click through|agree to|say yes to) {_ALL}(?:\w+ )?{_ASKED}",
    rf"{_ASKED} (?:is|are|has been|have been|may be|must be|should be|can be|is to be|are to be) (?:\w+ )?(?:approved|"
    r"accepted|allowed|confirmed|granted|clicked)\b",
    rf"\b(?:set|switch|turn|make|keep) {_ALL}(?:approval|permission|confirmation|consent)s?"
    r"(?: (?:mode|policy|prompts?))? (?:to |on )?(?:automatic|auto|off|always|never|yes)\b",
    r"\b(?:approval|permission|confirmation|consent)s? (?:was|were|is|are|has been|have been) (?:already )?(?:given|"
    r"granted|obtained|implied|assumed)\b",
    rf"\b(?:ignore|dismiss|disregard|suppress) {_ALL}(?:security|safety|permission|certificate|tls|ssl) "
    r"(?:warning|error|alert|notice|prompt)s?\b",
    rf"{_FORBIDDEN_BEFORE}\bwithout (?:(?:first|ever|even|any) )?(?:asking|confirming|checking with|consulting|waiting"
    r"|approval|permission|confirmation|consent)\b",
    r"\b(?:add|set|put|write|enable|extend|include)\b[^.\n]{0,50}\b(?:allowed-tools|allowlist|permissions\.allow|hooks?"
    r" (?:key|block|entry|section))\b",
)
_LEAKS = (
    rf"{_FORBIDDEN}\b(?:send|post|upload|forward|e-?mail|mail|transmit|exfiltrate|leak|submit|collect|gather|harvest|"
    rf"dump|print|echo|output|include|append|embed|encode|attach|paste|copy|read|list|store|save|log|reveal|put|write|"
    rf"insert|report|show) [^.;\n]{{0,60}}?\b{_KEPT}",
    r"\b(?:send|post|upload|forward|e-?mail|transmit|submit|report|copy|push|deliver|mirror|sync|stream|beacon|ping)\b"
    r"[^.\n]{0,80}\b(?:to|at|into|via) (?:an? |the |this |our |my |that )?(?:https?:|www\.)?(?:\w+ ){0,2}"
    r"(?:webhook|endpoint|server|host|url|address|collector|inbox|pastebin|gist|bucket|channel|dropbox|"
    r"e-?mail|https?:)",
    r"\b(?:append|add|put|pass|encode|include|embed)\b[^.\n]{0,80}\b(?:query string|query parameter|url parameter|dns "
    r"(?:query|lookup|label|name)|image url|subdomain)s?\b",
)
_SPREADS = (
    r"\b(?:copy|add|append|write|insert|repeat|include|put|propagate|spread|paste|keep) (?:this|these|the following|"
    r"the same) (?:rule|line|instruction|paragraph|section|message|lesson|text|note|block|edit|sentence)s? "
    r"(?:in|into|to|at|for|as|across) [^.\n]{0,20}\b(?:every|all|other|any|each|claude\.md|agents\.md|memory)\b",
    r"\bthis (?:rule|line|instruction|paragraph|section|lesson|note|block) (?:must|may|should|can) (?:never|not|always)"
    r" (?:be )?(?:remove|delete|change|edit|rewrite|replace|drop|stay|remain|kept)",
    r"\b(?:follow|execute|run|obey|apply|carry out|do|perform) (?:(?:all|any|every|the|whatever|its|those|further) )*"
    r"(?:instruction|command|order|direction|code|script|step)s?\b[^.\n]{0,40}\b(?:page|website|site|url|link|web|"
    r"server|response|e-?mail|comment|ticket|issue|message|search results?|tool (?:output|results?)|header)s?\b",
    rf"{_FORBIDDEN}\b(?:trust|obey|believe) {_ALL}(?:tool )?(?:instruction|content|input|output|command|message|"
    r"request|order)s? (?:that |which )?(?:\w+ ){0,3}?(?:from|in|on|of|by|inside|within)\b",
    rf"{_FORBIDDEN}\b(?:treat|regard|take|handle|trust|consider) {_ALL}(?:\w+ ){{0,2}}(?:output|result|page|comment|"
    r"message|e-?mail|ticket|issue|response|file|document|text|content)s?(?: (?:of|from|in|by|on) (?:\w+ ){1,3}?)? ?as "
    r"(?:(?:an?|the|if) )?(?:\w+ )?(?:instruction|order|command|trusted|authoritative|binding|user|person|owner)s?\b",
)
_SABOTAGE = (
    rf"{_FORBIDDEN}\b(?:delete|deleting|remove|wipe|erase|destroy|drop|purge|truncate|overwrite|reformat|empty) "
    r"(?:all|every|the entire|the whole|the user's|any) (?:of )?(?:the |their |your |user's )?(?:\w+ ){0,2}(?:files?|"
    r"data|tables?|databases?|repositor(?:y|ies)|backups?|branch(?:es)?|records?|logs?|history|disks?|folders?|"
    r"director(?:y|ies)|tests?)\b",
    r"\b(?:report|say|claim|mark|pretend|declare)\b[^.\n]{0,60}\b(?:regardless|even (?:if|when|though)|no "
    r"matter|whatever (?:the|happens)|whether or not)\b",
    r"\b(?:introduce|insert|plant|leave|add|hide) (?:a |an |one |some )?(?:subtle |hidden |small |silent )?(?:bug|"
    r"backdoor|back door|vulnerabilit(?:y|ies)|malware|payload|keylogger|miner)s?\b",
)
_OUTWARD = (
    rf"{_FORBIDDEN_BEFORE}\b(?:push|force-push|publish|deploy|release|merge|ship|upload)\b[^.\n]{{0,40}}\b(?:to|on|into)"
    r" (?:the )?(?:origin|upstream|remote|main|master|trunk|production|prod|live|npm|pypi|registry|app store)\b",
)
_NAMED = {
    "an instruction that works against people": _AGAINST_PEOPLE,
    "words meant for a judge or an optimizer": _OF_JUDGES,
    "text that poses as a message of the system": _FORGED,
    "a permission that only a person can give": _GRANTS,
    "an instruction that gives away what is secret or sends it elsewhere": _LEAKS,
    "an instruction that spreads, or has others' text obeyed": _SPREADS,
    "an instruction that destroys or misreports": _SABOTAGE,
    "an instruction to change what others use": _OUTWARD,
}
_DEMANDS = {kind: tuple(re2.compile(pattern) for pattern in patterns) for kind, patterns in _NAMED.items()}
_TAKING_OVER = _DEMANDS["an instruction that works against people"][: len(_TAKES_OVER)]
_EMPHASIS = str.maketrans({"*": None, "`": None, "_": " ", "\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"'})


def demands(text: str) -> Iterator[Passage]:
    """Yield demands as they read without emphasis, line breaks and disguise."""
    flowing, line_of = _flowing(text)
    for kind, patterns in _DEMANDS.items():
        for pattern in patterns:
            for found in pattern.finditer(flowing):
                if "forbidden" not in pattern.groupindex or found.group("forbidden") is None:
                    words = found.group().strip()
                    yield Passage(line_of(found.start()), words, f"{kind}, {quoted(words, _SHOWN)}")


def taking_over(text: str) -> Iterator[Passage]:
    """Yield what reads like an injected instruction: to drop what others have said, or to deceive people."""
    flowing, line_of = _flowing(text)
    for pattern in _TAKING_OVER:
        for found in pattern.finditer(flowing):
            words = found.group().strip()
            yield Passage(line_of(found.start()), words, quoted(words, _SHOWN))


def _flowing(text: str) -> tuple[str, Callable[[int], int]]:
    """Return a text as one plain line, and a function from a place in it to that of its line in `text`."""
    lines, starts, places = list[str](), list[int](), list[int]()
    length = at = 0
    for line in text.splitlines(keepends=True):
        words = " ".join(plain(line).split())
        if words:
            lines.append(words)
            starts.append(length)
            places.append(at)
            length += len(words) + 1
        at += len(line)
    return " ".join(lines), lambda place: places[bisect_right(starts, place) - 1] if places else 0


def plain(line: str) -> str:
    """Return a line as it reads without emphasis and disguise, in lower case."""
    seen = unicodedata.normalize("NFKC", without_hidden(line.lstrip("> \t")))
    return seen.translate(_EMPHASIS).casefold()


_SHOWN_dangers = 5
_MARKDOWN = (".md", ".markdown")
_BYTE_ORDER_MARK = "\ufeff"
_PAGE_BREAK = "\f"
_JOINERS = "\u200c\u200d"
# Persian, Hindi and their like cannot be spelled without joiners.
_JOINED = re.compile("[\u0600-\u0dff]")


def dangers(files: SkillFiles) -> Iterator[Problem]:
    """Yield what is dangerous in the texts of a skill, with its line; of a secret only its kind is shown."""
    for file in files.files:
        if is_text(file.content):
            yield from _dangers(file)


def _dangers(file: SkillFile) -> Iterator[Problem]:
    shown, content = quoted(file.path), to_lf(file.content)
    text = content.decode()
    breaks = [found.start() for found in re.finditer(b"\n", content)]
    secrets = ((bisect_left(breaks, each.start), each.kind) for each in find_secrets(content))
    if places := _places(secrets):
        cure = "take it out, revoke it, and write a made-up value such as <TOKEN>"
        yield Problem("error", f"{shown} holds what looks like a secret: {places}; {cure}")
    if not text.isascii():
        breaks = [found.start() for found in re.finditer("\n", text)]
    unseen = ((bisect_left(breaks, at), f"U+{ord(text[at]):04X}") for at in _unseen(text))
    if places := _places(unseen):
        what = "characters that a reader does not see, or that turn text around"
        yield Problem("error", f"{shown} holds {what}: {places}; remove them")
    if file.path.lower().endswith(_MARKDOWN):
        orders = ((bisect_left(breaks, found.at), found.text) for found in taking_over(text))
        if places := _places(orders):
            yield Problem("advice", f"{shown} reads like an injected instruction: {places}; make sure who wrote it")


def _places(found: Iterable[tuple[int, str]]) -> str:
    """Return what was found where, in order and each once; the last ones as a number."""
    places = sorted(set(found))
    shown = ", ".join(f"{what} in line {n_before + 1}" for n_before, what in places[:_SHOWN_dangers])
    return f"{shown} and {len(places) - _SHOWN_dangers:,} more" if len(places) > _SHOWN_dangers else shown


def _unseen(text: str) -> Iterator[int]:
    """Yield where a text has hidden characters that it could do without."""
    for at in hidden_offsets(text):
        character = text[at]
        is_first_mark = at == 0 and character == _BYTE_ORDER_MARK
        is_spelling = character in _JOINERS and _JOINED.match(text, at - 1) and at
        if not (is_first_mark or is_spelling or character == _PAGE_BREAK):
            yield at


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
_MAX_COMPARED = 200


def lost(before: Iterable[str], after: Iterable[str]) -> Iterator[str]:
    """Yield each restraint of the texts `before` that stands in none of those `after`, as it reads.

    A sentence that holds it and more keeps it, unless what is more makes an exception.
    """
    sentences = {each for text in after for each in _sentences(text)}
    gone = dict.fromkeys(each for text in before for each in _sentences(text) if each not in sentences)
    for n, restraint in enumerate(filter(_restrains, gone)):
        around = (each.replace(restraint, "") for each in sentences if restraint in each)
        if n >= _MAX_COMPARED or all(_EXCEPTS.search(rest) for rest in around):
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
    return tuple(bare for sentence in sentences if (bare := sentence.strip(" .!;:")))


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
