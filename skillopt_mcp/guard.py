"""Guard: what a new version of a skill could do, hide or demand that its parent could not."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import re2

from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.characters import hidden_offsets, quoted, without_hidden
from skillopt_mcp.documents.lines import BOM, is_text
from skillopt_mcp.records.skills import SkillFile, SkillFiles
from skillopt_mcp.redaction.finding import find_secrets

# What is found in a text is compared with what was in the parent, so a pattern that runs to the end of the line makes a
# new finding of a changed command, and none of one that only moved.
_LINE_REST = r"[^\n]*"
_COMMANDS = (
    r"\b(?:curl|wget)\b[^\n|]*\|\s*(?:sudo\s+)?(?:ba|z|da|k|fi)?sh\b",
    r"\|\s*(?:sudo\s+)?(?:bash|sh|zsh|python3?|perl|ruby|node)\b(?:\s+-)?\s*$",
    r"\b(?:ba|z|da|k)?sh\s+-c\b",
    r"(?:\b(?:bash|sh|zsh|source)|(?:^|\s)\.)\s+<\(",
    r"\b(?:python3?|perl|ruby|node)\s+-[ce]\b",
    r"""\beval(?:\s*\(|\s+["'$`])""",
    r"\bexec\s*\(",
    r"\b__import__\s*\(",
    r"\bos\.(?:system|popen|exec[lv]p?e?)\s*\(",
    r"\bsubprocess\.(?:run|call|Popen|check_call|check_output|getoutput|getstatusoutput)\b",
    r"\bshell\s*=\s*True\b",
    r"\bchild_process\b",
    r"(?i)\b(?:Invoke-Expression|iex)\b\s*[($]",
    r"(?i)\bpowershell(?:\.exe)?\s+-(?:e|enc|encodedcommand|c|command)\b",
    r"\bbase64\s+(?:-d|-D|--decode)\b",
    r"/dev/(?:tcp|udp)/",
    r"\b(?:nc|ncat|netcat)\s+-[a-z]*e",
    r"\brm\s+-[a-zA-Z]*(?:rf|fr|r\s+-f)",
    r"\bsudo\s+\S",
    r"\bchmod\s+(?:[ugoa]*\+[rwxst]*x|0?[0-7]*7[0-7]*)\b",
    r"\bcrontab\b",
    r"\bosascript\b",
    r"\A#!",
)
_COMMAND = re2.compile("(?m)(?:" + "|".join(f"(?:{pattern})" for pattern in _COMMANDS) + ")" + _LINE_REST)
_INLINE_BLOCK = re2.compile(r"!`[^`\n]+`")
_FENCED_BLOCK = re2.compile(r"(?ms)^[ \t>]*(?:```+|~~~+)[ \t]*!.*?(?:^[ \t>]*(?:```+|~~~+)[ \t]*$|\z)")
_HOST = re2.compile(r"""(?i)\bhttps?://(?:[^\s/?#@"'<>]*@)?([^\s/?#"'<>`|)\]},;]+)""")
_BASE64 = re2.compile(r"[A-Za-z0-9+/_-]{200,}|(?:[A-Za-z0-9+/]{60,}\s*\n[ \t]*){3,}(?:[A-Za-z0-9+/]{20,}={0,2})?")
_PRIVATE_KEY = re2.compile("-----BEGIN [A-Z ]*PRIVATE KEY-----")
_LONG_SECRET = 20
_PERSON = r"(?:the |your |a |any )?(?:user|human|person|operator|developer|owner|reviewer)s?\b"
_NEVER = r"(?:never|not|don't|dont|without|avoid|stop)"
_IMPERATIVES = (
    r"\b(?:ignore|disregard|forget|override|bypass) (?:(?:all|any|the|your|of|these|those|every|other) )*"
    r"(?:previous|prior|above|earlier|preceding|existing|system|developer|safety) "
    r"(?:instruction|rule|prompt|message|guideline|direction|order|constraint)s?\b",
    rf"\b{_NEVER} (?:ever )?(?:tell|telling|ask|asking|inform|informing|notify|notifying|alert|alerting) {_PERSON}",
    rf"\b{_NEVER} (?:ever )?(?:ask|asking|seek|seeking|request|requesting|wait|waiting|need|require)(?: for)? "
    rf"(?:(?:any|the|user|human|explicit|prior|further|your) )*"
    r"(?:approval|permission|confirmation|consent|authori[sz]ation)\b",
    rf"\b(?:hide|conceal|keep) [^.\n]*\bfrom {_PERSON}",
    r"\b(?:reveal|print|output|repeat|send|show) (?:your|the) (?:system prompt|hidden instructions)\b",
    r"\b(?:award|give|assign|grant|grade|score|rate|mark) [^.\n]*\b(?:full|maximum|perfect|highest|top) "
    r"(?:score|mark|point|credit|grade|rating)s?\b",
    r"\b(?:the )?(?:judge|grader|evaluator|optimizer) (?:must|should|shall|will|has to|needs to)\b",
    r"<\|[a-z ]+\|>|\[/?inst\]|</?(?:system|assistant|system-reminder)>",
)
_IMPERATIVE = re2.compile("|".join(f"(?:{pattern})" for pattern in _IMPERATIVES))
_EMPHASIS = str.maketrans({"*": None, "`": None, "_": " ", "\u2019": "'", "\u2018": "'"})
_MOST = 50


@dataclass(frozen=True, slots=True)
class _Look:
    """One thing to look for in a text; `told` says in words what a match means (a secret is never quoted)."""

    matches: Callable[[str], Iterator[str]]
    told: Callable[[str], str]


def findings(before: SkillFiles, after: SkillFiles) -> tuple[str, ...]:
    """Return one sentence for everything that `after` adds and a person should see before it is used; none is good."""
    if before.digest == after.digest:
        return ()
    looks = (_front_matter_findings, _file_findings, _text_findings)
    found = tuple(dict.fromkeys(finding for look in looks for finding in look(before, after)))
    if len(found) <= _MOST:
        return found
    return (*found[:_MOST], f"and {len(found) - _MOST} more findings")


def _front_matter_findings(before: SkillFiles, after: SkillFiles) -> Iterator[str]:
    old, new = frontmatter.read(before.main), frontmatter.read(after.main)
    if old is None and new is None:
        start, end = frontmatter.block_end(before.main), frontmatter.block_end(after.main)
        if end is not None and (start is None or before.main[:start] != after.main[:end]):
            yield f"{quoted(after.main_path)}: changes front matter that cannot be read"
        return
    if new is None:
        yield f"{quoted(after.main_path)}: the front matter can no longer be read"
        return
    was, now = dict(old.fields if old else ()), dict(new.fields)
    for key in dict.fromkeys((*was, *now)):
        if key == "description" and old is not None:
            continue
        if was.get(key) != now.get(key):
            verb = "removes" if key not in now else "changes" if key in was else "adds"
            yield f"{quoted(after.main_path)}: {verb} the front matter key {quoted(key)}"


def _file_findings(before: SkillFiles, after: SkillFiles) -> Iterator[str]:
    for file in after.files:
        old = before.get(file.path)
        if old == file:
            continue
        shown = quoted(file.path)
        if file.path.startswith("scripts/") and (old is None or old.content != file.content):
            yield f"{shown}: {'changes' if old else 'adds'} a script"
        if file.executable and not (old and old.executable):
            yield f"{shown}: becomes executable"
        if (old is None or old.content != file.content) and not is_text(file.content):
            yield f"{shown}: is not text, so it cannot be checked"


def _text_findings(before: SkillFiles, after: SkillFiles) -> Iterator[str]:
    old_texts, new_texts = _texts(before), _texts(after)
    for look in _LOOKS:
        old = {path: Counter(look.matches(text)) for path, text in old_texts.items()}
        new = {path: Counter(look.matches(text)) for path, text in new_texts.items()}
        added = _total(new) - _total(old)
        for path, counts in new.items():
            here = counts - old.get(path, Counter())
            for match in here:
                if match in added:
                    del added[match]
                    yield f"{quoted(path)}: {look.told(match)}"


def _texts(files: SkillFiles) -> dict[str, str]:
    return {file.path: _text(file) for file in files.files if is_text(file.content)}


def _text(file: SkillFile) -> str:
    return file.content.removeprefix(BOM).decode().replace("\r\n", "\n").replace("\r", "\n")


def _total(counts: dict[str, Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counts.values():
        total.update(count)
    return total


def _hidden(text: str) -> Iterator[str]:
    # The character comes first; what is beside it on its line makes one that was put elsewhere a new one.
    for at in hidden_offsets(text):
        left = text[max(at - 4, 0) : at].rpartition("\n")[2]
        yield text[at] + left + text[at : at + 5].partition("\n")[0]


def _commands(text: str) -> Iterator[str]:
    for found in _COMMAND.finditer(text.replace("\\\n", " ")):
        yield " ".join(found.group().split())


def _blocks(text: str) -> Iterator[str]:
    for pattern in (_INLINE_BLOCK, _FENCED_BLOCK):
        yield from (found.group().strip() for found in pattern.finditer(text))


def _hosts(text: str) -> Iterator[str]:
    # A set: a host that is linked twice is no more than a host.
    yield from sorted({found.group(1).casefold().rstrip(".:") for found in _HOST.finditer(text)})


def _base64(text: str) -> Iterator[str]:
    runs = ("".join(found.group().split()) for found in _BASE64.finditer(text))
    return (run for run in runs if len(run) >= 200 and len(set(run)) >= 10)


def _secrets(text: str) -> Iterator[str]:
    yield from (secret.value.decode("utf-8", "replace") for secret in find_secrets(text.encode("utf-8", "replace")))
    yield from (found.group() for found in _PRIVATE_KEY.finditer(text))


def _beginning(secret: str) -> str:
    """Return the first characters of a secret that is long enough to stay one without them."""
    return f" ({quoted(secret[:4])[1:-1]}...)" if len(secret) >= _LONG_SECRET else ""


def _imperatives(text: str) -> Iterator[str]:
    plain = unicodedata.normalize("NFKC", without_hidden(text)).translate(_EMPHASIS).casefold()
    flowing = " ".join(plain.replace("\n>", "\n").split())
    return (found.group() for found in _IMPERATIVE.finditer(flowing))


_LOOKS = (
    _Look(_hidden, lambda match: f"adds the hidden character U+{ord(match[0]):04X}"),
    _Look(_blocks, lambda match: f"adds a command block that the host runs, {quoted(match, 60)}"),
    _Look(_hosts, lambda match: f"adds a link to the host {quoted(match)}"),
    _Look(_commands, lambda match: f"adds a command, {quoted(match, 60)}"),
    _Look(_base64, lambda match: f"adds {len(match)} characters that look like encoded data"),
    _Look(_secrets, lambda match: f"adds what looks like a secret{_beginning(match)}"),
    _Look(_imperatives, lambda match: f"adds an instruction that works against people, {quoted(match, 60)}"),
)
