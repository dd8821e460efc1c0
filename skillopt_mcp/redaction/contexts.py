"""Contexts: secrets that show by what stands before them: a name, a header, a flag, the user of an address."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

import re2

from skillopt_mcp.redaction import chance
from skillopt_mcp.redaction.shapes import UTF8, Found, Pattern

_LONGEST = 4096
_LOOKED_AT = 256
_USER_INFO_BYTES = 512
_KEY_OWNERS = (
    "api|access|private|signing|encryption|encrypt|master|account|license|service|auth|storage|subscription|deploy|admin"
    "|shared|secret|client|app|rest|write|ingest|session|cookie|crypto|jwt|hmac|webhook|consumer"
)
_NAME = (
    r"pass(?:word|wd|phrase|code)s?|pwd|pgpass|secrets?|tokens?|(?:" + _KEY_OWNERS + r")[ _-]?keys?|[A-Za-z0-9]_keys?"
    r"|credentials?|authorization|bearer|mnemonic|x-[a-z-]{1,20}-(?:key|token|secret)"
)
# A name and what says that a value follows; or a flag, a header, a sentence, a line of .netrc.
CONTEXT_SIGN = (
    rf"(?i)(?:{_NAME})[\w.-]{{0,20}}[\"'`\])]{{0,3}}[ \t]{{0,3}}(?:[=:>|]|[ \t](?:is|was)[ \t:])"
    rf"|--[a-z-]{{0,24}}(?:password|passwd|passphrase|token|secret|api-?key)[ \t]"
    r"|(?:\b|_)auth[\"']?[ \t]{0,3}[=:]"
    r"|[?&](?:sig|signature|x-amz-signature|key)="
    r"|\bbearer[ \t]"
    r"|[ \t](?:-u|--user)[ \t=]"
    r"|\bsshpass[ \t]{1,3}(?-i:-p)"
    r"|\b(?:mysql|mariadb)[a-z-]{0,12}[ \t](?:[^\n|;&]{0,80}?[ \t])?(?-i:-p)"
    r"|\blogin[ \t\n]{1,4}[^\s]{1,64}[ \t\n]{1,4}password[ \t]{1,2}"
    r"|\b(?:set-)?cookie[\"']?[ \t]{0,2}[:=]"
    r"|://"
)
"""What stands before every secret that shows by its context."""
_HINT: Pattern = re2.compile(CONTEXT_SIGN, UTF8)
_COOKIE = re.compile(rb"(?i)(?:set-)?cookie\W+\Z")
# What may stand between the sign and the value: a type, the prefix of a string, its quote, the scheme of a header.
_LEAD = re.compile(
    rb"[=>]{0,2}[ \t]{0,3}(?:[A-Za-z_][\w.|\[\]]{0,24}[ \t]?=[ \t]{1,2}(?=[\"'`]))?"
    rb"(?:[bBrRuUfF]{0,2}(?P<quote>\"{3}|'{3}|[\"'`]))?(?:(?i:bearer|basic|token|bot|apikey)[ \t]{1,2})?"
)
_UNQUOTED = re.compile(rb"(?:[^\s\"'`<>\\\0]|\\[^nrtu\"'\\\s])+")
_NAME_BEFORE = re.compile(rb"[\w.-]*\Z")
# A placeholder of ours, and the name of a type or a resource: what follows these is no value.
_NOT_BEFORE = (b"[redacted:", b"::")
_LOOSE = re.compile(
    rb"(?i)(?:pass(?:word|wd|phrase|code)s?|pwd|pgpass|secret|credentials?)(?:[_-]?\d{0,2}|[_-][a-z]{2,7})?\Z|sshpass|(?:mysql|mariadb).*-p\Z"
)
# Where nothing but a password can follow: the variable of an environment, or an option of a command.
_TELLING = re.compile(
    rb"(?:(?:[A-Z0-9_]*_|PG)?(?:PASSWORD|PASSWD|PASSPHRASE)|[A-Z0-9]_PWD|--[a-z-]{0,24}pass(?:word|wd|phrase))=\Z"
    rb"|(?P<client>mysql|mariadb).* -p\Z|(?P<apart>sshpass[ \t]+-p|--[a-z-]{0,24}pass(?:word|wd|phrase)[ \t])\Z"
)
# A name that tells of something about a password: a screen, a fault, a switch.
_ABOUT_ONE = re.compile(
    rb"(?i)(?:\A|[_-])(?:re?set|change|invalid|wrong|weak|forgot(?:ten)?|update|err(?:or)?|no|missing|bad|incorrect|confirm"
    rb"|show|hide|toggle|validate|check|verify|expired?|required?|has|is)[_-]"
)
# Where a command begins.
_COMMAND_BEFORE = re.compile(rb"(?:\A|[\n;|&(`$>\"':]|--|\b(?:sudo|exec|time|then|do|run))[ \t]*\Z")
_PASSWORD = re.compile(rb"(?i)pass(?:word|wd|phrase)\Z")
_NO_VALUE = re.compile(
    rb"(?i)public|(?:next|page|client|request|lock|idempotency|continuation|change|action|pagination|sync|resume|work_?unit)"
    rb"[_-]?token\Z|(?:file|path|url|uri|hash|digest|type|name|field|policy|hint|nonce|signature|method|version|status"
    rb"|error|len|length|count|class|regexp?|pattern|arn|id|ids)\Z"
)
_SIGN = re.compile(rb"(?:[ \t]+(?:is|was))?[ \t=:>|\"'`\])]*\Z")
_NO_LETTER = re.compile(rb"[0-9!@#$%^&*?~+]")
_NO_WORD = re.compile(rb"[\W_]+")
_ANY_KEY = re.compile(rb"(?i)[a-z0-9]_keys?\Z")
_USER_INFO = re2.compile(
    r"([^\s/?#\"'<>@:\\`]{0,100}):([^\s/\"'<>\\`]{1,200})@[\w\[{$*.-]|([^\s/?#\"'<>@:\\`]{16,200})@[\w\[]"
)
_PAIR = re.compile(rb"([\w.-]{1,64})=([^\s;,\"'\\\0]{8,4096})")
_SESSION = re.compile(rb"(?i)sess|sid\Z|token|auth|jwt|csrf|xsrf|key|secret|remember|login")
_PORT = re.compile(rb"\d{1,5}\Z")


def find_contexts(text: bytes) -> Iterator[Found]:
    """Yield the secrets that show by what stands before them."""
    runs = _Runs(text)
    done = line_end = 0
    for match in _HINT.finditer(text):
        start, end = match.span()
        if start < done:
            continue
        if text.endswith(b"://", start, end):
            yield from _user_info(text, end)
        elif _COOKIE.match(text, start, end):
            if end > line_end:
                line_end = _index(text, b"\n", end, len(text))
                yield from _cookies(text, end, line_end)
        else:
            found = _value_after(runs, start, end)
            if found:
                done = found.end
                yield found


class _Runs:
    """The unquoted runs of a text; the end of one is sought once, however many names stand in it."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._start = self._end = 0

    def end(self, at: int) -> int:
        """Return where the run ends that goes on at `at`."""
        if not self._start <= at < self._end:
            match = _UNQUOTED.match(self.text, at)
            self._start, self._end = at, match.end() if match else at
        return self._end


def _value_after(runs: _Runs, start: int, end: int) -> Found | None:
    """Return the secret that the name from `start` to `end`, its sign included, is given, if it is one."""
    text = runs.text
    before = _NAME_BEFORE.search(text, max(start - 40, 0), start)
    name_start = before.start() if before else start
    name = _SIGN.sub(b"", text[name_start:end])
    lead = _LEAD.match(text, end, end + 64)
    in_a_path = text[name_start - 1 : name_start] == text[end - 1 : end] == b":"
    if lead is None or in_a_path or text.endswith(_NOT_BEFORE, 0, name_start):
        return None
    value_start, quote = lead.end(), lead["quote"]
    value_end = _end_of_value(runs, value_start, quote)
    if text[max(name_start - 1, 0) : name_start + 1].startswith((b"?", b"&")):
        limit = min(value_end, value_start + _LONGEST)
        value_end = min(_index(text, each, value_start, limit) for each in (b"&", b"#"))
    value = text[value_start : min(value_end, value_start + _LOOKED_AT)]
    closes = quote is None or text.startswith(quote, value_end)
    before_it = text[max(name_start - 24, 0) : name_start]
    sign, between = text[name_start:end], text[end:value_start]
    is_told = closes and _is_told(before_it, sign, between, value, quoted=quote is not None)
    if not (is_told or _is_secret(name, value, quoted=quote is not None)):
        return None
    return Found(value_start, value_end, "password" if _LOOSE.search(name) else "credential")


def _end_of_value(runs: _Runs, start: int, quote: bytes | None) -> int:
    text = runs.text
    if quote:
        end = text.find(quote, start, start + _LOOKED_AT)
        if end >= 0 and len(text[start:end].split()) <= 1:
            return end
    end = runs.end(start)
    while end > start and text[end - 1] in b".,;:)]}":
        end -= 1
    return end


def _index(text: bytes, sought: bytes, start: int, end: int) -> int:
    at = text.find(sought, start, end)
    return end if at < 0 else at


def _is_told(before: bytes, sign: bytes, between: bytes, value: bytes, *, quoted: bool) -> bool:
    """Return whether what stands before a value leaves no doubt that it is a password, whatever it looks like."""
    telling = _TELLING.search(sign)
    if telling is None or len(value) < 6 or chance.is_written_for_one(value) or chance.is_kind_of_value(value):
        return False
    if _ABOUT_ONE.search(sign) or value.startswith(b"/") or _plain(value) in _plain(sign):
        return False
    if telling["client"] and not (_COMMAND_BEFORE.search(before) and (quoted or _NO_LETTER.search(value))):
        return False
    if telling["apart"] is None and between.strip(b"\"'`"):
        return False
    # An option is also spoken of: what follows then is the next word.
    if sign[-1:] in b" \t" and not _NO_LETTER.search(value):
        return False
    return quoted or not chance.is_expression(value)


def _plain(text: bytes) -> bytes:
    return _NO_WORD.sub(b"", text).lower()


def _is_secret(name: bytes, value: bytes, *, quoted: bool) -> bool:
    if len(value) < 8 or not _NO_LETTER.search(value) or _NO_VALUE.search(name) or chance.is_stand_in(value):
        return False
    if not quoted and chance.is_code(value):
        return False
    if _LOOSE.search(name) and (chance.is_password(value) or (_PASSWORD.search(name) and chance.is_memorable(value))):
        return True
    return chance.is_random(value, 20 if _ANY_KEY.search(name) else 16) or _is_user_and_password(value)


def _is_user_and_password(value: bytes) -> bool:
    """Return whether a value is "user:password", or that in base64, as in a header of basic authentication."""
    try:
        user, colon, password = base64.b64decode(value, validate=True).partition(b":")
    except ValueError:
        user, colon, password = value.partition(b":")
    return bool(colon and user.isascii() and password.isascii() and chance.is_password(password))


def _cookies(text: bytes, start: int, end: int) -> Iterator[Found]:
    for pair in _PAIR.finditer(text, start, end):
        name, value = pair.groups()
        if chance.is_stand_in(value[:_LOOKED_AT]):
            continue
        if chance.is_random(value) or (_SESSION.search(name) and chance.is_random(value, 8)):
            yield Found(pair.start(2), pair.end(2), "cookie")


def _user_info(text: bytes, start: int) -> Iterator[Found]:
    match = _USER_INFO.match(text, start, start + _USER_INFO_BYTES)
    if match is None:
        return
    user, password, alone = match.groups()
    if alone is not None:
        if chance.is_random(alone):
            yield Found(match.start(3), match.end(3), "url-password")
    elif len(password) >= 4 and password != user and not (_PORT.match(password) or chance.is_stand_in(password)):
        yield Found(match.start(2), match.end(2), "url-password")
