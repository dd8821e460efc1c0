"""Redacting: finds secrets in a text and replaces them by placeholders.

They are also found under escapes (JSON, URL, HTML), colour codes, zero-width characters, line wraps and base64.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

import re2

from skillopt_mcp.core.secret_shapes import (  # fmt: skip
    LATIN1,
    SHAPES,
    UTF8,
    SecretPattern,
    SecretSpan,
    is_code,
    is_expression,
    is_kind_of_value,
    is_memorable,
    is_password,
    is_random,
    is_stand_in,
    is_wrapped,
    is_written_for_one,
)

MAX_DEPTH = 4
_BACKSLASH = (
    r"\\(?:[nrt\"'\\/bf]|u00[0-7][0-9a-fA-F]|x[2-7][0-9a-fA-F]|x1[bB]|033|e(?=\[)"
    r"|u(?:00[aA][dD]|20(?:0[b-fB-F]|2[a-eA-E]|6[0-4])|[fF][eE][fF][fF]))"
)
_OTHER = r"%(?:[2-7][0-9A-Fa-f]|0[9ADad])|&(?:[a-z]{2,6}|#\d{2,7}|#[xX][0-9A-Fa-f]{2,6});"
# A pattern that begins with one letter is searched ten times as fast as one of several.
_BACKSLASH_ESCAPE = re.compile(f"({_BACKSLASH})".encode())
_ANY_ESCAPE = re.compile(f"({_BACKSLASH}|{_OTHER})".encode())
_OTHER_ESCAPE = re2.compile(_OTHER)
_PLAIN = {
    b"\\n": b"\n", b"\\r": b"\r", b"\\t": b"\t", b"\\b": b"\b", b"\\f": b"\f", b"\\\\": b"\\", b"\\/": b"/",
    b'\\"': b'"', b"\\'": b"'",
}  # fmt: skip
_PLAIN.update({b"\\u00%02x" % code: bytes([code]) for code in range(128)})
_PLAIN.update({b"\\x%02x" % code: bytes([code]) for code in range(32, 128)})
_PLAIN.update({b"%%%02x" % code: bytes([code]) for code in (9, 10, 13, *range(32, 128))})
_PLAIN.update({b"\\x1b": b"\x1b", b"\\033": b"\x1b", b"\\e": b"\x1b"})
_ZERO_WIDTH = (0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065), 0xFEFF)
_PLAIN.update({b"\\u%04x" % code: chr(code).encode() for code in _ZERO_WIDTH})
# What a screen shows nothing of: codes of a terminal, those of a link without its address, and zero-width characters.
_INVISIBLE = re2.compile(
    rb"(?:\x1b(?:\[[0-?]*[ -/]*[@-~]|\](?:8;;|[0-9]{1,4};)?|[ -/]*[0-Z\\^-~])?|\xc2\x9b[0-?]*[ -/]*[@-~]"
    rb"|\^\[\[[0-9;]*[A-Za-z]|\x07|\xc2\xad|\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xa4]|\xef\xbb\xbf)+",
    LATIN1,
)
# Text of two bytes a character, as Windows writes it.
_WIDE = re2.compile(rb"\0(?:[\t\n\r -~]\0){7,}", LATIN1)
# The bytes of an ASCII text leave one bit in eight of its base64 form at 0.
_ENCODED = re2.compile(
    rb"(?:\A|[^A-Za-z0-9+/_-])(?:[A-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]){6}"
    rb"[A-Za-z0-9+/_-]*={0,2}",
    LATIN1,
)
_CHARACTERS_64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_CONTROL = re.compile(rb"[\0-\x08\x0b-\x1f\x7f]")
_USER_AND_TOKEN = re.compile(rb"[\w.@+-]{1,64}:(\S{12,200})\s?")
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")
# A pattern that begins with one byte is searched five times as fast.
_WRAP = re.compile(
    rb"\n(?:(?<=[A-Za-z0-9+/_\\\r-]\n)"
    rb"(?:[A-Za-z+/_.~%-]{0,24}+[0-9]|[A-Za-z0-9+/_.~%-][a-z0-9+/_.~%-]{0,24}+[A-Z])"
    rb"|(?<=[A-Za-z0-9+/_\\\r-]{10}\n)(?P<indent>[ \t]{1,32})"
    rb"(?:[A-Za-z+/_.~%-]*+[0-9]|[A-Za-z0-9+/_.~%-][a-z0-9+/_.~%-]*+[A-Z]|[A-Z][A-Za-z0-9+/_.~%-]{7}))"
)
_RUN_BEFORE = re.compile(rb"[A-Za-z0-9+/_.~%-]+")
_RUN_AFTER = re.compile(rb"[ \t]{0,32}([A-Za-z0-9+/_.~%-]+)={0,2}(?![^\s\"'`<>,;)\]}\\])")


@dataclass
class View:
    """A text, and the one `below` that it was made of; each second one of its `parts` reads as another in `plain`."""

    text: bytes
    _below: View | None = None
    _parts: Sequence[bytes] = ()
    _plain: Sequence[bytes] = ()

    def undone(self) -> View | None:
        """Return the view of this text without one level of escapes, None when it has none."""
        has_other = (b"%" in self.text or b"&" in self.text) and _OTHER_ESCAPE.search(self.text)
        if not has_other and b"\\" not in self.text:
            return None
        parts = (_ANY_ESCAPE if has_other else _BACKSLASH_ESCAPE).split(self.text)
        if len(parts) == 1:
            return None
        plain = parts.copy()
        plain[1::2] = [
            html.unescape(escape.decode()).encode("utf-8", "surrogatepass")
            if escape.startswith(b"&")
            else _PLAIN.get(escape) or _PLAIN[escape.lower()]
            for escape in parts[1::2]
        ]
        return View(b"".join(plain), self, parts, plain)

    def replaced(self, stretches: Iterable[tuple[int, int, bytes]]) -> View | None:
        """Return the view in which the bytes from one place to another read as others, None when there are none."""
        parts, plain, done = list[bytes](), list[bytes](), 0
        for start, end, instead in stretches:
            parts += (self.text[done:start], self.text[start:end])
            plain += (self.text[done:start], instead)
            done = end
        if not parts:
            return None
        rest = self.text[done:]
        return View(b"".join((*plain, rest)), self, (*parts, rest), (*plain, rest))

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Return from where to where in the first text the bytes from `start` to `end` of this one come."""
        if self._below is None:
            return start, end
        return self._below.origin(self._under(start)[0], self._under(end - 1)[1])

    def _under(self, at: int) -> tuple[int, int]:
        """Return from where to where in the view below the byte at `at` comes."""
        plain_starts, starts = self._starts
        part = bisect_right(plain_starts, at) - 1
        if part % 2:
            return starts[part], starts[part + 1]
        start = starts[part] + at - plain_starts[part]
        return start, start + 1

    @cached_property
    def _starts(self) -> tuple[list[int], list[int]]:
        """Return where each part starts in this text and in the one below."""
        return [0, *accumulate(map(len, self._plain))], [0, *accumulate(map(len, self._parts))]


def _wraps(text: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the ends of lines over which a word goes on that was drawn at random."""
    for match in _WRAP.finditer(text):
        start = end = match.start()
        start -= text[start - 1 : start] == b"\r"
        start -= text[start - 1 : start] == b"\\"  # a shell goes on in the next line
        n_least = 10 if match["indent"] else 1
        if start >= n_least and _CHARACTERS_64.issuperset(text[start - n_least : start]):
            after = _RUN_AFTER.match(text, end + 1, end + 4096)
            before = _RUN_BEFORE.match(text[max(start - 128, 0) : start][::-1]) if after else None
            if before and after and is_wrapped(before[0][::-1], after[1]):
                yield start, after.start(1), b""


def _encoded(text: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield what reads as text when it is decoded from base64."""
    for match in _ENCODED.finditer(text):
        start, end = match.span()
        start += text[start] not in _CHARACTERS_64
        run = text[start:end].rstrip(b"=").translate(_TO_STANDARD)
        plain = base64.b64decode(run[: len(run) - (len(run) % 4 == 1)] + b"==").replace(b"\0", b"")
        if not _CONTROL.search(plain, 0, 18):
            pair = _USER_AND_TOKEN.fullmatch(plain)
            # A user and a token are encoded for this header.
            yield start, end, b"authorization: " * bool(pair and is_random(pair[1], 12)) + plain


def views(text: bytes) -> list[View]:
    """Return the text and what it reads as with one level of escapes undone after the other, the deepest first."""
    found = [View(text)]
    while len(found) <= MAX_DEPTH and (deeper := found[0].undone()):
        found.insert(0, deeper)
    return found


_LONGEST = 4096
_LOOKED_AT = 256
_USER_INFO_BYTES = 512
_KEY_OWNERS = (
    "api|access|private|signing|encryption|encrypt|master|account|license|service|auth|storage|subscription|deploy|admin"
    "|shared|secret|client|app|rest|write|ingest|session|cookie|crypto|jwt|hmac|webhook|consumer"
)
_NAME = (
    rf"pass(?:word|wd|phrase|code)s?|pwd|pgpass|secrets?|tokens?|(?:{_KEY_OWNERS})[ _-]?keys?"
    r"|[A-Za-z0-9]_(?:keys?|p(?:ass|w))|credentials?|authorization|bearer|mnemonic|x-[a-z-]{1,20}-(?:key|token|secret)"
)
# A name and what says that a value follows, also in the next attribute or element; or a flag, a header, a sentence, a
# line of .netrc.
_HINTS = (
    rf"(?i)(?:{_NAME})[\w.-]{{0,20}}[\"'`\])]{{0,3}}(?:[ \t]{{0,3}}(?:[=:>|]|[ \t](?:is|was)[ \t:])"
    r"|[ \t\r\n,]{1,40}[\"']?value[\"']?[ \t]{0,2}[=:]|</\w{1,9}>[ \t\r\n]{0,40}<\w{1,9}>)"
    rf"|--[a-z-]{{0,24}}(?:password|passwd|passphrase|token|secret|api-?key)[ \t]"
    r"|(?:\b|_)auth[\"']?[ \t]{0,3}[=:]"
    r"|[?&](?:sig|signature|x-amz-signature|key)="
    r"|\bbearer[ \t]"
    r"|[ \t](?:-u|--user)[ \t=]"
    r"|\bsshpass[ \t]{1,3}(?-i:-p)"
    r"|\b(?:mysql|mariadb)[a-z-]{0,12}[ \t](?:[^\n|;&]{0,80}?[ \t])?(?-i:-p)"
    r"|\bhtpasswd[ \t]+(?-i:-\w*(?:n\w*b|b\w*n)\w*|-\w*b\w*(?:[ \t]+(?:-\w+|\d{1,2}))*[ \t]+[^\s-]\S*)"
    r"(?:[ \t]+(?:-\w+|\d{1,2}))*[ \t]+[^\s-]\S*[ \t]+"
    r"|\blogin[ \t\n]{1,4}[^\s]{1,64}[ \t\n]{1,4}password[ \t]{1,2}"
    r"|\b(?:set-)?cookie[\"']?[ \t]{0,2}[:=]"
)
_HINT: SecretPattern = re2.compile(_HINTS, UTF8)
_HINT_OR_ADDRESS: SecretPattern = re2.compile(rf"{_HINTS}|://", UTF8)
_COOKIE = re.compile(rb"(?i)(?:set-)?cookie\W+\Z")
# What may stand between the sign and the value: the head of a block of YAML; a type, the prefix of a string, its quote,
# the scheme of a header.
_LEAD = re.compile(
    rb"(?:[ \t]{1,3}[|>][\d+-]{0,2}[ \t]*(?:#[^\n]*)?\r?\n[ \t]{1,40}|[=>]{0,2}[ \t]{0,3})"
    rb"(?:[A-Za-z_][\w.|\[\]]{0,24}[ \t]?=[ \t]{1,2}(?=[\"'`]))?"
    rb"(?:[bBrRuUfF]{0,2}(?P<quote>\"{3}|'{3}|[\"'`]))?(?:(?i:bearer|basic|token|bot|apikey)[ \t]{1,2})?"
)
_UNQUOTED = re.compile(rb"(?:[^\s\"'`<>\\\0]|\\[^nrtu\"'\\\s])+")
_NAME_BEFORE = re.compile(rb"[\w.-]*\Z")
# A placeholder of ours, and the name of a type or a resource: what follows these is no value.
_NOT_BEFORE = (b"[redacted:", b"::")
_LOOSE = re.compile(
    rb"(?i)(?:pass(?:word|wd|phrase|code)s?|_p(?:ass|w)|pwd|pgpass|secret|credentials?)(?:[_-]?\d{0,2}|[_-][a-z]{2,7})?\Z|sshpass|htpasswd|(?:mysql|mariadb).*-p\Z"
)
# Where nothing but a password can follow: the variable of an environment, or an option of a command.
_STATEMENT = re.compile(
    rb"(?:(?:[A-Z0-9_]*_|PG)?(?:PASSWORD|PASSWD|PASSPHRASE)|[A-Z0-9]_P(?:WD|W|ASS)|--[a-z-]{0,24}pass(?:word|wd|phrase))=\Z"
    rb"|(?P<client>mysql|mariadb).* -p\Z|(?P<apart>sshpass[ \t]+-p|htpasswd .*"
    rb"|--[a-z-]{0,24}pass(?:word|wd|phrase)[ \t])\Z"
)
# A name of something about a password: a screen, a fault, a switch.
_ABOUT_ONE = re.compile(
    rb"(?i)(?:\A|[_-])(?:re?set|change|invalid|wrong|weak|forgot(?:ten)?|update|err(?:or)?|no|missing|bad|incorrect|confirm"
    rb"|show|hide|toggle|validate|check|verify|expired?|required?|has|is)[_-]"
)
# Where a command begins.
_COMMAND_BEFORE = re.compile(rb"(?:\A|[\n;|&(`$>\"':]|--|\b(?:sudo|exec|time|then|do|run))[ \t]*\Z")
_PASSWORD = re.compile(rb"(?i)(?:pass(?:word|wd|phrase)|_p(?:ass|w))\Z")
# What grep -n writes before a line.
_LINE_NUMBER = re.compile(rb"(?:\A|[\n:])\d{1,6}:\Z")
_NO_VALUE = re.compile(
    rb"(?i)public|(?:next|page|client|request|lock|idempotency|continuation|change|action|pagination|sync|resume|work_?unit)"
    rb"[_-]?token\Z|(?:file|path|url|uri|hash|digest|type|name|field|policy|hint|nonce|signature|method|version|status"
    rb"|error|len|length|count|class|regexp?|pattern|arn|id|ids)\Z"
)
_SIGN = re.compile(rb"(?:[ \t]+(?:is|was)|[\"'`\s,]+value|</\w+>\s*<\w+)?[ \t=:>|\"'`\])]*\Z")
_NO_LETTER = re.compile(rb"[0-9!@#$%^&*?~+]")
_NO_WORD = re.compile(rb"[\W_]+")
_ANY_KEY = re.compile(rb"(?i)[a-z0-9]_keys?\Z")
_USER_INFO = re2.compile(
    r"([^\s/?#\"'<>@:\\`]{0,100}):([^\s/\"'<>\\`]{1,200})@[\w\[{$*.-]|([^\s/?#\"'<>@:\\`]{16,200})@[\w\[]"
)
_PAIR = re.compile(rb"([\w.-]{1,64})=([^\s;,\"'\\\0]{8,4096})")
_SESSION = re.compile(rb"(?i)sess|sid\Z|token|auth|jwt|csrf|xsrf|key|secret|remember|login")
_PORT = re.compile(rb"\d{1,5}\Z")
# A cell of a table's head that names a secret.
_HEAD = re2.compile(rf"(?i)(?:{_NAME})[ \"'`*\w-]{{0,12}}[\r\n,;|\t]", UTF8)
_COLUMN = re.compile(rf"(?i)(?:{_NAME})[\w -]{{0,12}}\Z".encode())
_HEADS = re.compile(rb"[\w .#/-]{1,40}\Z")
_CELL_ENDS = (b",", b";", b"|", b"\t")
_CELLS = {end: re.compile(rb"(?:\A|\%b)([ ]*\"[^\"]*\"[^%b]*|[^%b]*)" % (end, end, end)) for end in _CELL_ENDS}
_AROUND_CELL = b" \t\r\"'`*"
_RULE = re.compile(rb"[-+:=| \t\r]+\Z")


def find_contexts(text: bytes) -> Iterator[SecretSpan]:
    """Yield the secrets that show by what stands before them."""
    runs = _Runs(text)
    done = line_end = 0
    for match in (_HINT_OR_ADDRESS if b"@" in text else _HINT).finditer(text):
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


def _value_after(runs: _Runs, start: int, end: int) -> SecretSpan | None:
    """Return the secret that the name from `start` to `end`, its sign included, is given, if it is one."""
    text = runs.text
    before = _NAME_BEFORE.search(text, max(start - 40, 0), start)
    name_start = before.start() if before else start
    name = _SIGN.sub(b"", text[name_start:end])
    lead = _LEAD.match(text, end, end + 64)
    in_a_path = text[name_start - 1 : name_start] == text[end - 1 : end] == b":" and not (
        text[end : end + 1] in b" \t" or _LINE_NUMBER.search(text, max(name_start - 8, 0), name_start)
    )
    if lead is None or in_a_path or text.endswith(_NOT_BEFORE, 0, name_start):
        return None
    value_start, quote = lead.end(), lead["quote"]
    value_end = _end_of_value(runs, value_start, quote)
    if text[max(name_start - 1, 0) : name_start + 1].startswith((b"?", b"&")):
        limit = min(value_end, value_start + _LONGEST)
        value_end = min(_index(text, each, value_start, limit) for each in (b"&", b"#"))
    value = text[value_start : min(value_end, value_start + _LOOKED_AT)]
    if len(value) < 6:
        return None
    closes = quote is None or text.startswith(quote, value_end)
    before_it = text[max(name_start - 24, 0) : name_start]
    sign, between = text[name_start:end], text[end:value_start]
    is_stated = closes and _is_stated(before_it, sign, between, value, quoted=quote is not None)
    if not (is_stated or _is_secret(name, value, quoted=quote is not None)):
        return None
    return SecretSpan(value_start, value_end, "password" if _LOOSE.search(name) else "credential")


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


def _is_stated(before: bytes, sign: bytes, between: bytes, value: bytes, *, quoted: bool) -> bool:
    """Return whether what stands before a value leaves no doubt that it is a password, whatever it looks like."""
    statement = _STATEMENT.search(sign)
    if statement is None or is_written_for_one(value) or is_kind_of_value(value):
        return False
    if _ABOUT_ONE.search(sign) or value.startswith(b"/") or _plain(value) in _plain(sign):
        return False
    if statement["client"] and not (_COMMAND_BEFORE.search(before) and (quoted or _NO_LETTER.search(value))):
        return False
    if statement["apart"] is None and between.strip(b"\"'`"):
        return False
    # An option is also spoken of: what follows then is the next word.
    if sign[-1:] in b" \t" and not (sign.startswith(b"htpasswd") or _NO_LETTER.search(value)):
        return False
    return quoted or not is_expression(value)


def _plain(text: bytes) -> bytes:
    return _NO_WORD.sub(b"", text).lower()


def _is_secret(name: bytes, value: bytes, *, quoted: bool) -> bool:
    if len(value) < 8 or not _NO_LETTER.search(value) or _NO_VALUE.search(name) or is_stand_in(value):
        return False
    if not quoted and is_code(value):
        return False
    if _LOOSE.search(name) and (is_password(value) or (_PASSWORD.search(name) and is_memorable(value))):
        return True
    return is_random(value, 20 if _ANY_KEY.search(name) else 16) or _is_user_and_password(value)


def _is_user_and_password(value: bytes) -> bool:
    """Return whether a value is "user:password", or that in base64, as in a header of basic authentication."""
    try:
        user, colon, password = base64.b64decode(value, validate=True).partition(b":")
    except ValueError:
        user, colon, password = value.partition(b":")
    return bool(colon and user.isascii() and password.isascii() and is_password(password))


def _cookies(text: bytes, start: int, end: int) -> Iterator[SecretSpan]:
    for pair in _PAIR.finditer(text, start, end):
        name, value = pair.groups()
        if is_stand_in(value[:_LOOKED_AT]):
            continue
        if is_random(value) or (_SESSION.search(name) and is_random(value, 8)):
            yield SecretSpan(pair.start(2), pair.end(2), "cookie")


def find_columns(text: bytes) -> Iterator[SecretSpan]:
    """Yield the secrets in a table, as of CSV or Markdown, that the head of their column shows."""
    done = 0
    for match in _HEAD.finditer(text):
        if match.start() < done:
            continue
        done = _index(text, b"\n", match.end() - 1, len(text))
        head = text[text.rfind(b"\n", 0, match.start()) + 1 : done]
        between = max(_CELL_ENDS, key=head.count)
        names = [name.strip(_AROUND_CELL) for name in head.split(between)]
        is_framed = between == b"|" and not (names[0] or names[-1])
        if len(names) < 2 or not all(map(_HEADS.match, names[1:-1] if is_framed else names)):
            continue
        columns = [n for n, name in enumerate(names) if _COLUMN.search(name)]
        while done < len(text):
            start, end = done + 1, _index(text, b"\n", done + 1, len(text))
            row = text[start:end]
            cells = [cell.span(1) for cell in _CELLS[between].finditer(row)]
            if len(cells) != len(names) and not _RULE.match(row):
                break
            done = end
            for n in columns if len(cells) == len(names) else ():
                value = row[slice(*cells[n])].strip(_AROUND_CELL)
                if b" " not in value and _is_secret(names[n], value, quoted=False):
                    at = start + row.index(value, cells[n][0])
                    yield SecretSpan(at, at + len(value), "password" if _LOOSE.search(names[n]) else "credential")


def _user_info(text: bytes, start: int) -> Iterator[SecretSpan]:
    end = start + _USER_INFO_BYTES
    match = _USER_INFO.match(text, start, end) if text.find(b"@", start, end) >= 0 else None
    if match is None:
        return
    user, password, alone = match.groups()
    if alone is not None:
        if is_random(alone):
            yield SecretSpan(match.start(3), match.end(3), "url-password")
    elif len(password) >= 4 and password != user and not (_PORT.match(password) or is_stand_in(password)):
        yield SecretSpan(match.start(2), match.end(2), "url-password")


MIN_BYTES = 8
_MAX_KNOWN = 1_000
_NAME_known = re.compile(
    r"(?:\A|_)(?:API_?KEY|KEY|TOKEN|PAT|SECRETS?|PASS|PASSWD|PASSWORD|PASSPHRASE|PWD|PGPASS|CREDENTIALS?|MNEMONIC|DSN)"
    r"(?:\Z|_)|(?:PASSWORD|SECRET|TOKEN|APIKEY)\Z",
    re.IGNORECASE,
)
_PASSWORD_known = re.compile(r"PASS(?:WORD|WD|PHRASE)?\Z", re.IGNORECASE)
_PLACE = re.compile(rb"\A(?:~|\.{0,2}/|[A-Za-z]:[\\/]|[a-z][a-z0-9+.-]*:/)")
_WORDS = re.compile(rb"\A(?:[a-z]+(?:[ _-][a-z]+)*|[\d.,: -]+)\Z", re.IGNORECASE)
_WORD_BYTE = re.compile(rb"\w")


class KnownSecrets:
    """Values that are secret whatever stands around them, each with its kind; shorter than 8 bytes is none."""

    def __init__(self, kinds: Mapping[bytes, str]) -> None:
        self._kinds = {value: kind for value, kind in kinds.items() if len(value) >= MIN_BYTES}

    def __len__(self) -> int:
        return len(self._kinds)

    def find(self, text: bytes) -> Iterator[SecretSpan]:
        """Yield where a value stands, not as a part of a longer word."""
        if not self._kinds:
            return
        for match in self._pattern.finditer(text):
            start, end = match.start(), match.end()
            if not (_goes_on(text, start) or _goes_on(text, end)):
                yield SecretSpan(start, end, self._kinds[text[start:end]])

    @cached_property
    def _pattern(self) -> SecretPattern:
        longest_first = sorted(self._kinds, key=len, reverse=True)[:_MAX_KNOWN]
        pattern: SecretPattern = re2.compile(b"|".join(map(re2.escape, longest_first)), LATIN1)
        return pattern


NOTHING_KNOWN = KnownSecrets({})


def known_secrets(environ: Mapping[str, str], files: Iterable[str] = ()) -> KnownSecrets:
    """Return what a process knows: variables whose names say so, and what its credential files hold."""
    kinds: dict[bytes, str] = {}
    for name, value in environ.items():
        raw = value.encode("utf-8", "surrogateescape")
        for found in _found_in(raw):
            kinds[raw[found.start : found.end]] = found.kind
        # A place, or a choice, stands in such variables without being secret.
        is_choice = _WORDS.search(raw) and not _PASSWORD_known.search(name)
        if raw not in kinds and _NAME_known.search(name) and not (_PLACE.search(raw) or is_choice or is_stand_in(raw)):
            kinds[raw] = "environment"
    for text in files:
        raw = text.encode("utf-8", "surrogateescape")
        kinds.update({raw[found.start : found.end]: found.kind for found in _found_in(raw)})
    return KnownSecrets(kinds)


def _found_in(text: bytes) -> Iterator[SecretSpan]:
    for look in (find_contexts, find_columns, *SHAPES):
        yield from look(text)


def _goes_on(text: bytes, at: int) -> bool:
    """Return whether a word goes on across `at`."""
    return bool(0 < at < len(text) and _WORD_BYTE.match(text, at - 1) and _WORD_BYTE.match(text, at))


Look = Callable[[bytes], Iterable[SecretSpan]]


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret of a text: from where to where it stands, in bytes, its kind, and its value without escapes."""

    start: int
    end: int
    kind: str
    value: bytes


def find_secrets(text: bytes, known: KnownSecrets = NOTHING_KNOWN) -> list[Secret]:
    """Return the secrets of a text in order; what is learned by a name is found again where it stands without."""
    seen = [each for view in views(text) for each in _looks(view, known)]
    secrets = _apart(_all_found(seen))
    if not secrets:
        return []
    # What showed by its context alone can be known again without it.
    by_context = [each for each in secrets if each.kind in ("password", "credential", "cookie", "url-password")]
    kinds = {each.value: each.kind for each in by_context if is_password(each.value) or is_random(each.value, 8)}
    learned = KnownSecrets(kinds)
    return _apart([*secrets, *_all_found((view, (learned.find,)) for view, _ in seen)]) if len(learned) else secrets


def find_plain_secrets(text: bytes) -> list[Secret]:
    """The secrets of a text as it stands, in order: what is escaped, wrapped or encoded is not looked for."""
    return _apart(Secret(*span, text[span.start : span.end]) for span in _found_in(text))


def _looks(view: View, known: KnownSecrets, n_undone: int = 0) -> Iterator[tuple[View, tuple[Look, ...]]]:
    """Yield the ways to look at a text; then without its codes, unwrapped, and decoded."""
    text = view.text
    nuls = (at for match in _WIDE.finditer(text) for at in range(match.start(), match.end(), 2))
    if n_undone < 1 and (narrow := view.replaced((at, at + 1, b"") for at in nuls)):
        view, text = narrow, narrow.text
    has_sign = any(sign in text for sign in (b"\x1b", b"\x07", b"^"))
    if n_undone < 1 and (has_sign or not text.isascii()) and _INVISIBLE.search(text):
        for instead in (b"", b" "):  # codes may stand in a word, or part two
            if shown := view.replaced((*match.span(), instead) for match in _INVISIBLE.finditer(text)):
                yield from _looks(shown, known, 1)
        return
    yield view, (known.find, *SHAPES, find_contexts, find_columns)
    if n_undone < 2 and (joined := view.replaced(_wraps(text))):
        yield from _looks(joined, known, 2)
    if n_undone < 3 and (decoded := view.replaced(_encoded(text))):
        yield from _looks(decoded, known, 3)


def _all_found(seen: Iterable[tuple[View, tuple[Look, ...]]]) -> Iterator[Secret]:
    for view, looks in seen:
        for look in looks:
            for found in look(view.text):
                start, end = view.origin(found.start, found.end)
                yield Secret(start, end, found.kind, view.text[found.start : found.end])


def _apart(secrets: Iterable[Secret]) -> list[Secret]:
    """Return secrets in order; of those that overlap, the longest and first found one, over all that they cover."""
    apart: list[Secret] = []
    for each in sorted(secrets, key=lambda secret: secret.start):
        if not apart or each.start >= apart[-1].end:
            apart.append(each)
            continue
        last = apart[-1]
        widest = each if each.end - each.start > last.end - last.start else last
        apart[-1] = replace(widest, start=last.start, end=max(last.end, each.end))
    return apart


# Nothing that is looked for goes on over it, so texts that stand around it are read at once and apart. It does not end
# as it begins, so where it stands is clear whatever a text ends with.
_BETWEEN = "\r\n\0\n"


@dataclass(frozen=True, slots=True)
class Redactor:
    """Replaces secrets by "[redacted:KIND:ID]"; without `salt` the id, four hex digits, cannot be made from a guess.

    What stands in an `allowed` text is left: a task may be about a value that looks like a secret.
    """

    salt: bytes = b""
    known: KnownSecrets = NOTHING_KNOWN

    def text(self, text: str, allowed: str = "") -> str:
        """Return a text without secrets; where there is none it is returned unchanged."""
        raw = text.encode("utf-8", "surrogatepass")
        secrets = find_secrets(raw, self.known)
        if allowed and secrets:
            left = allowed.encode("utf-8", "surrogatepass")
            secrets = [secret for secret in secrets if secret.value not in left]
        return self._replaced(raw, secrets).decode("utf-8", "surrogatepass") if secrets else text

    def texts(self, texts: Sequence[str], allowed: str = "") -> list[str]:
        """Return several texts without secrets; what one of them shows to be a secret is known in all."""
        joined = _BETWEEN.join(texts)
        cleaned = self.text(joined, allowed)
        if cleaned is joined:
            return list(texts)
        redacted = cleaned.split(_BETWEEN)
        return redacted if len(redacted) == len(texts) else [self.text(text, allowed) for text in texts]

    def _replaced(self, raw: bytes, secrets: Sequence[Secret]) -> bytes:
        pieces: list[bytes] = []
        done = 0
        for secret in secrets:
            start, end = _whole_characters(raw, secret.start, secret.end)
            pieces += (raw[done:start], self._placeholder(secret))
            done = end
        return b"".join((*pieces, raw[done:]))

    def _placeholder(self, secret: Secret) -> bytes:
        digest = hashlib.blake2b(secret.value, digest_size=2, key=self.salt[: hashlib.blake2b.MAX_KEY_SIZE])
        return f"[redacted:{secret.kind}:{digest.hexdigest()}]".encode()


def _whole_characters(raw: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the bounds moved out of the middle of characters."""
    while start > 0 and raw[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(raw) and raw[end] & 0xC0 == 0x80:
        end += 1
    return start, end


def redact(text: str, known: KnownSecrets = NOTHING_KNOWN) -> str:
    """Return a text without secrets, each replaced by a placeholder that names its kind."""
    return Redactor(known=known).text(text)
