"""Shapes: what in a text a person should see before a host reads it, by its form alone and not by its wording."""

from __future__ import annotations

import base64
import html
import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import groupby, islice
from typing import NamedTuple

import re2

from skillopt_mcp.core.redacting import KnownSecrets, find_secrets
from skillopt_mcp.core.text import hidden_offsets, quoted, without_hidden
from skillopt_mcp.documents.code_lines import code_lines
from skillopt_mcp.documents.markdown import fenced_code


class Passage(NamedTuple):
    """A place in a text, what identifies it in a comparison with the parent, and its description, after "adds "."""

    at: int
    key: str
    text: str


_SHOWN = 60
_MAX_FOUND = 10_000  # a text with so many is looked at by a person anyway


# What a reader cannot see


def hidden(text: str) -> Iterator[Passage]:
    """Yield characters that a reader cannot see, each with its neighbours on the line: moved, it is a new one."""
    for at in islice(hidden_offsets(text), _MAX_FOUND):
        left = text[max(at - 4, 0) : at].rpartition("\n")[2]
        key = text[at] + left + text[at : at + 5].partition("\n")[0]
        yield Passage(at, key, f"the hidden character U+{ord(text[at]):04X}")


_MARKUP = re2.compile(
    r"(?s)<!--.*?(?:-->|\z)"
    r"|<[!?][A-Za-z\[][^>]*>"
    r"""|</?[A-Za-z][\w-]*(?::[\w-]+)?(?:[\s/](?:"[^"]*"|'[^']*'|[^<>"'])*)?>"""
    r"|(?m:^)[ \t>*+-]*(?:\d+[.)][ \t]+)?</?[A-Za-z][\w-]*(?:[ \t/][^\n]*)?(?m:$)"
    r"|<\|[^|<>\n]*\|>"
    r"|(?m:^)[ \t>*+-]*(?:\d+[.)][ \t]+)?\[(?:[^\]\\^]|\\.)(?:[^\]\\]|\\.)*\]:[^\n]*"
    r"|&#?\w{1,32};"
)
# What the edit engine writes; in what a model proposes it refuses them.
_MARKER = re2.compile(r"<!--\s*(?:SLOW_UPDATE|APPENDIX)_(?:START|END)\s*-->")
_LINE_START = " \t>*+-0123456789.)"
_PLAIN_ENTITY = re2.compile(r"&(?:amp|lt|gt|quot|apos|nbsp);")


def markup(text: str) -> Iterator[Passage]:
    """Yield what a rendered page does not show as it is written: comments, tags, definitions of links, entities.

    In code a page shows all of it.
    """
    for found in _MARKUP.finditer(blank_code(text)):
        part = found.group().lstrip(_LINE_START)
        is_entity = part.startswith("&")
        if _MARKER.fullmatch(part) or (is_entity and (html.unescape(part) == part or _PLAIN_ENTITY.fullmatch(part))):
            continue
        flat = " ".join(part.split())
        yield Passage(found.start(), flat, f"a part that a rendered page does not show, {quoted(flat, _SHOWN)}")


_SPAN = re.compile(r"(?<![`\\])(`+)(?!`)[^\n]{1,500}?(?<!`)\1(?!`)")


def blank_code(text: str) -> str:
    """Return a text with blanks for its code, fenced or in backticks, and everything else in its place."""
    content, parts, at = text.encode(), list[str](), 0
    for block in fenced_code(content, 0):
        code = content[block.start : block.end].decode()
        parts += [content[at : block.start].decode(), re.sub(r"[^\n]", " ", code)]
        at = block.end
    return _SPAN.sub(lambda found: " " * len(found[0]), "".join([*parts, content[at:].decode()]))


_WORD = re.compile(r"(?:[^\W\d_][\u0300-\u036f]*)+")
_SHORTEST_WORD = 4  # shorter ones are formulas and units
_LOOK_ALIKE = {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"}
_OF_ANY_SCRIPT = {"LATIN", "COMBINING", "MODIFIER", ""}


def disguised(text: str) -> Iterator[Passage]:
    """Yield words that mix alphabets whose letters look alike, as no language does."""
    for found in _foreign_words(text):
        word = found.group()
        if len(word) >= _SHORTEST_WORD and len({_script(letter) for letter in word} & _LOOK_ALIKE) > 1:
            yield Passage(found.start(), word, f"a word that mixes alphabets, {quoted(word)}")


def scripts(text: str) -> Iterator[Passage]:
    """Yield the scripts of a text beyond Latin, once each: of a single letter, as in a formula, it has none."""
    seen = set[str]()
    for found in _foreign_words(text):
        for script, letters in groupby(found.group(), _script):
            if script not in seen | _OF_ANY_SCRIPT and len(list(letters)) > 1:
                seen.add(script)
                shown = quoted(found.group(), _SHOWN)
                yield Passage(found.start(), script, f"words in a script that the skill did not have, {shown}")


def _foreign_words(text: str) -> Iterator[re.Match[str]]:
    return (found for found in (() if text.isascii() else _WORD.finditer(text)) if not found.group().isascii())


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


_BASE64 = re2.compile(r"[A-Za-z0-9+/_-]{200,}|(?:[A-Za-z0-9+/]{60,}\s*\n[ \t]*){3,}(?:[A-Za-z0-9+/]{20,}={0,2})?")
_SHORT_BASE64 = re2.compile(r"\b[A-Za-z0-9+/]{24,199}={0,2}")
_ESCAPES = re2.compile(r"(?:\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}){6,}")
_ENCODED_AT_LEAST = 200
_FEWEST_KINDS = 10


def encoded(text: str) -> Iterator[Passage]:
    """Yield runs of characters that look like encoded data: long ones, and shorter ones that read as text decoded."""
    for found in _BASE64.finditer(text):
        run = "".join(found.group().split())
        if len(run) >= _ENCODED_AT_LEAST and len(set(run)) >= _FEWEST_KINDS:
            yield Passage(found.start(), run, f"{len(run)} characters that look like encoded data")
    for found in _SHORT_BASE64.finditer(text):
        if said := _decode_words(found.group()):
            yield Passage(found.start(), found.group(), f"encoded text that says {quoted(said)}")
    for found in _ESCAPES.finditer(text):
        yield Passage(found.start(), found.group(), f"escaped characters, {quoted(found.group(), _SHOWN)}")


def _decode_words(run: str) -> str:
    """Return what a run says when it is base64 of plain words, else nothing: an identifier or a path says nothing."""
    try:
        plain = base64.b64decode(run + "=" * (-len(run) % 4), validate=True)
    except ValueError:
        return ""
    return plain.decode() if b" " in plain and plain.isascii() and plain.decode().isprintable() else ""


# What runs


RUN_BLOCK = re2.compile(r"(?ms)!`[^`\n]+`|^[ \t>]*(?:```+|~~~+)[ \t]*!.*?(?:^[ \t>]*(?:```+|~~~+)[ \t]*$|\z)")
_INTERPRETER = r"(?:[\w.-]*/)*(?:(?:ba|c|da|fi|k|z)?sh|python[\d.]*|perl|ruby|node|php|pwsh|iex)\b"
_FED = re2.compile(
    rf"(?:\|\s*(?:sudo\s+|env\s+|exec\s+)*{_INTERPRETER}"
    rf"|(?:^|[\s`;&|(])(?:{_INTERPRETER}|source|eval|\.)\s[^\n]*?[<$]\().*"
)


def runs(text: str) -> Iterator[Passage]:
    """Yield blocks that Claude Code runs before the model reads the skill, and code that feeds an interpreter."""
    for found in RUN_BLOCK.finditer(text):
        block = found.group().strip()
        yield Passage(found.start(), block, f"a command block that the host runs, {quoted(block, _SHOWN)}")
    inside, at = code_lines(text.encode()) if _FED.search(text) else frozenset[int](), 0
    for n, line in enumerate(text.split("\n") if inside else ()):
        is_of_table = line.strip()[:1] == "|" == line.strip()[-1:]
        if n in inside and not is_of_table and (fed := _FED.search(line)):
            command = " ".join(fed.group().split()).strip("`")
            yield Passage(at, command, f"a command that runs what another one writes, {quoted(command, _SHOWN)}")
        at += len(line) + 1


# What it reaches


# A letter beyond ASCII is one of a name, too.
_LABEL, _TOP_LABEL = r"[\w\x{80}-\x{10FFFF}-]+", r"[a-z\x{80}-\x{10FFFF}]{2,}"
_HOST = re2.compile(
    r"""(?im)\b(?:[a-z][a-z0-9+.-]+:/[/\\]+|(?:https?|wss?|ftp):[/\\]*)"""
    r"""(?:[^\s/\\?#"'<>]*@)?(\[[0-9a-f:.]+\]|[^\s/\\?#"'<>`|)\]},;]+)"""
    rf"""|(?:^|[^\w:/\\])//({_LABEL}(?:\.{_LABEL})+)"""
    r"""|\]\(\s*<?[/\\]{2,}([\w.-]+)"""
    rf"""|\bwww\.({_LABEL}(?:\.{_LABEL})+)"""
    rf"""|\b([\w.+-]{{1,64}}@{_LABEL}(?:\.{_LABEL})*\.{_TOP_LABEL})"""
    r"""|\b[\w.-]{1,64}@([\w.-]+):[\w/]"""
    rf"""|(?:^|[^\w./\\@-])((?:{_LABEL}\.)+{_TOP_LABEL})(?::\d{{2}}|/|\?\w)"""
    r"""|\b((?:\d{1,3}\.){3}\d{1,3})\b|\b(\d[0-9a-f]{0,3}(?::[0-9a-f]{1,4})+::[0-9a-f:]*)"""
)
_OWN_MACHINE = re2.compile(r"(?:localhost|127\.[\d.]+|0\.0\.0\.0|\[::1?\])(?::\d+)?")
_DATA_LINK = re2.compile(r"(?i)\b(?:data:[a-z]+/[a-z0-9.+-]+[;,]|javascript:)")


def hosts(text: str) -> Iterator[Passage]:
    """Yield every host, and every address of mail, that a text names, once each: twice is no more than once."""
    seen = set[str]()
    for found in _HOST.finditer(text):
        host = next(group for group in found.groups() if group).casefold().rstrip(".:")
        if host not in seen and not _OWN_MACHINE.fullmatch(host):
            seen.add(host)
            yield Passage(found.end(), host, f"a link to the host {quoted(host)}")
    for found in _DATA_LINK.finditer(text):
        yield Passage(found.start(), found.group(), f"a link that holds its own content, {quoted(found.group())}")


# What stands before a path: not a word, a part of a path or a closing bracket.
_BEFORE = r"(?:^|(?:^|\s)[*_]{1,3}|[^\w*./\\)>\]}~$@!-])"
_PLACE = re2.compile(
    r"(?m)(?:~(?:[a-z_][\w-]*)?|\$HOME|\$\{HOME\}|%\w+%)[/\\][^\s`\"')]*"
    rf"|{_BEFORE}/[A-Za-z][\w.-]*/+[\w*.~-][^\s`\"')]*"
    r"|(?:\.\.[/\\]){2,}[^\s`\"')]*"
    rf"|(?:{_BEFORE}|[/\\])\.[A-Za-z][\w-]*[/\\][\w*][^\s`\"')]*"
    r"|\b[A-Za-z]:\\[^\s`\"')]*|(?:^|[\s`\"'(=])[A-Za-z]:/[^\s`\"')]+"
    r"|(?:^|[\s`\"'(=:])\\\\[\w.?$-]+\\[^\s`\"')]+"
)
_AROUND = " \t\n`\"'()<>[]{}=:;,|*_\u201c\u201d\u2018\u2019"
_VARIABLE = re2.compile(
    r"\$\{?\w*(?:KEY|TOKEN|SECRET|PASSW)\w*|\b[A-Z0-9]+_(?:[A-Z0-9]+_)*(?:KEY|TOKEN|SECRET|PASSWORD)\b"
)


def places(text: str) -> Iterator[Passage]:
    """Yield places outside of a project: a home, an absolute path, a drive, a share, folders above, dot folders."""
    for found in _PLACE.finditer(text):
        written = found.group().lstrip(_AROUND)
        name = written.rstrip(f".{_AROUND}")
        yield Passage(found.end() - len(written), name, f"a place outside of the project, {quoted(name)}")


def variables(text: str) -> Iterator[Passage]:
    """Yield variables of the environment that hold secrets by their name."""
    for found in _VARIABLE.finditer(text):
        yield Passage(found.start(), found.group(), f"a variable that holds a secret, {quoted(found.group())}")


_PRIVATE_KEY = re2.compile("-----BEGIN [A-Z ]*PRIVATE KEY-----")
_LONG_SECRET = 20


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


LOOKS: tuple[Callable[[str], Iterator[Passage]], ...] = (
    hidden, markup, disguised, scripts, encoded, runs, hosts, places, variables,
)  # fmt: skip


# How it reads


_BEGINS = re.compile(r"\s*(?:[-*+]|\d+[.)]|#+|>|\|)\s+")
_EMPHASIS = str.maketrans({"*": None, "`": None, "_": " ", "\u2019": "'"})


def blocks(text: str) -> Iterator[str]:
    """Yield what belongs together, as one line in lower case: an item of a list, a heading, a paragraph."""
    block: list[str] = []
    for line in (*text.splitlines(), ""):
        begun = _BEGINS.match(line)
        if block and (begun or not line.strip()):
            plain = unicodedata.normalize("NFKC", without_hidden(" ".join(block))).translate(_EMPHASIS)
            yield " ".join(plain.casefold().split())
            block = []
        if line.strip():
            block.append(line[begun.end() :] if begun else line)
