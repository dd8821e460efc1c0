"""Shapes: what in a text a person should see before a host reads it, by its form alone and not by its wording."""

from __future__ import annotations

import base64
import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby, islice
from typing import NamedTuple

import re2

from skillopt_mcp.core.redacting import KnownSecrets, find_secrets
from skillopt_mcp.core.text import hidden_offsets, quoted, without_hidden
from skillopt_mcp.documents.code_lines import code_lines
from skillopt_mcp.documents.frontmatter import block_end
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
    returns = (found.start() for found in re.finditer("\r", text))  # a terminal writes over what stands before one
    for at in islice(chain(hidden_offsets(text), returns), _MAX_FOUND):
        left = text[max(at - 4, 0) : at].rpartition("\n")[2]
        key = text[at] + left + text[at : at + 5].partition("\n")[0]
        yield Passage(at, key, f"the hidden character U+{ord(text[at]):04X}")


_BLANK = r" \t\x{a0}\x{1680}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}"
_WIDE = re2.compile(rf"(?:(?:[{_BLANK}]|&nbsp;){{60,}}|\t{{15,}})[^\s{_BLANK}]")
_FEWEST_EMPTY = 20  # lines


def remote(text: str) -> Iterator[Passage]:
    """Yield lines that a reader has to scroll to: behind many blanks, or below many empty lines."""
    lines, at, n_empty, has_wide = text.split("\n"), 0, 0, _WIDE.search(text) is not None
    for n, line in enumerate(lines):
        # Each row of an aligned table shows how wide it is.
        is_row = line[:1] == "|" == line[-1:] and len(line) in map(len, (*lines[n - 1 : n], *lines[n + 1 : n + 2]))
        is_wide = has_wide and not is_row and _WIDE.search(line)
        if is_wide or (n_empty >= _FEWEST_EMPTY and line.strip()):
            flat = " ".join(line.split())
            yield Passage(at, flat, f"words far away from the others, {quoted(flat, _SHOWN)}")
        n_empty = 0 if line.strip() else n_empty + 1
        at += len(line) + 1


_DESTINATION = r"\(\s*(?:<[^<>\n]*>|(?:[^\s()<>]|\([^\s()]*\))*)"
_TITLE = r"""\s+(?:"(?:[^"\\]|\\.)+"|'(?:[^'\\]|\\.)+'|\((?:[^()\\]|\\.)+\))\s*\)"""
_ALT = r"!\[((?:\\.|\[[^\[\]]*\]|[^\[\]\\])*)\]"
_MARKUP = re2.compile(
    r"(?s)<!--.*?(?:-->|\z)"
    r"|<[!?][A-Za-z\[][^>]*>"
    r"""|</?[A-Za-z][\w-]*(?::[\w-]+)?(?:[\s/](?:"[^"]*"|'[^']*'|[^<>"'])*)?>"""
    r"|(?m:^)[ \t>*+-]*(?:\d+[.)][ \t]+)?</?[A-Za-z][\w-]*(?:[ \t/][^\n]*)?(?m:$)"
    r"|<\|[^|<>\n]*\|>"
    r"|(?m:^)[ \t>*+-]*(?:\d+[.)][ \t]+)?\[(?:[^\]\\^]|\\.)(?:[^\]\\]|\\.)*\]:[^\n]*"
    r"|&#?\w{1,32};"
    # Images with their alternative text, and titles of links.
    rf"|{_ALT}(?:({_DESTINATION})(?:({_TITLE})|\s*\))?|\[[^\]]*\])?|\]{_DESTINATION}{_TITLE}"
    # Comments of templates: Jinja, Liquid, Handlebars, Go, Blade, MDX, Smarty, Razor, ERB, JSP, FreeMarker, Obsidian.
    r"|(?s:\{#.*?#\}|\{%-?\s*(?:comment\b(?:.*?endcomment)?|#).*?%\}|\{\{[-~]?\s*(?:!|/\*|--).*?\}\}|\{/\*.*?\*/\}|\{\*\s.*?\*\}"
    r"|@\*.*?\*@|<%(?:#|--).*?%>|<%doc>.*?</%doc>|<#--.*?-->|#\*.*?\*#|\{::comment.*?\{:/|(?m:^|\s)%%(?:[^%]|%[^%])+%%)"
)
# What the edit engine writes; in what a model proposes it refuses them.
_MARKER = re2.compile(r"<!--\s*(?:SLOW_UPDATE|APPENDIX)_(?:START|END)\s*-->")
_LINE_START = " \n\t>*+-0123456789.)"
_PLAIN_ENTITY = re2.compile(r"&(?:amp|lt|gt|quot|apos|nbsp);")


def markup(text: str) -> Iterator[Passage]:
    """Yield what a rendered page does not show as it is written: comments, tags, titles and definitions, entities.

    In code a page shows all of it. The alternative text of an image may repeat the name of its file.
    """
    for found in _MARKUP.finditer(blank_code(text)):
        part = found.group().lstrip(_LINE_START)
        at = found.end() - len(part)
        alt, file, title = (re.sub(r"[\W_]", "", each or "").casefold() for each in found.groups())
        is_call = part[-1] == "]" and text[at - 1 : at].isalnum()  # of a macro, as vec![1, 2]
        if part.startswith("![") and not title and (is_call or alt in file):
            continue
        is_entity = part.startswith("&")
        if _MARKER.fullmatch(part) or (is_entity and (html.unescape(part) == part or _PLAIN_ENTITY.fullmatch(part))):
            continue
        flat = " ".join(part.split())
        yield Passage(at, flat, f"a part that a rendered page does not show, {quoted(flat, _SHOWN)}")


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


# Claude Code 2.1.332 runs these in prose, lists and code; nothing that a letter or a backtick stands before.
RUN_BLOCK = re2.compile(
    r"(?ms)(?:^[ \t>]*|[^\w`])(!`[^`]+`|(?:```+|~~~+)[ \t]*!.*?(?:^[ \t>]*(?:```+|~~~+)[ \t]*$|\z))"
)
_INTERPRETER = r"(?:[\w.-]*/)*(?:(?:ba|c|da|fi|k|z)?sh|python[\d.]*|perl|ruby|node|php|pwsh|iex)\b"
_FED = re2.compile(
    rf"(?:\|\s*(?:sudo\s+|env\s+|exec\s+)*{_INTERPRETER}"
    rf"|(?:^|[\s`;&|(])(?:{_INTERPRETER}|source|eval|\.)\s[^\n]*?[<$]\().*"
)


def runs(text: str) -> Iterator[Passage]:
    """Yield blocks that Claude Code runs before the model reads the skill, and code that feeds an interpreter."""
    for found in RUN_BLOCK.finditer(text):
        block = found[1].strip()
        yield Passage(found.start(1), block, f"a command block that the host runs, {quoted(block, _SHOWN)}")
    inside, at = code_lines(text.encode()) if _FED.search(text) else frozenset[int](), 0
    for n, line in enumerate(text.split("\n") if inside else ()):
        is_of_table = line.strip()[:1] == "|" == line.strip()[-1:]
        if n in inside and not is_of_table and (fed := _FED.search(line)):
            command = " ".join(fed.group().split()).strip("`")
            yield Passage(at, command, f"a command that runs what another one writes, {quoted(command, _SHOWN)}")
        at += len(line) + 1


# What it reaches


# A letter beyond ASCII is one of a name, too.
_DOTS = r"\\?\."  # Markdown drops the backslash
_LABEL, _TOP_LABEL = r"[\w\x{80}-\x{10FFFF}-]+", r"[a-z\x{80}-\x{10FFFF}]{2,}"
# Top-level domains. A file or an attribute is called like those of the second list: they count outside of code.
_TOP = "ai|biz|br|ca|ch|cn|co|com|de|edu|eu|example|fr|gov|icu|invalid|io|jp|net|nl|onion|org|pizza|ru|se|test|tv|uk|us"
_TOP_OF_PROSE = (
    "app|ar|at|au|be|cc|click|cloud|cz|dev|digital|dk|email|es|fi|fun|gg|gr|hk|host|hu|id|ie|il|in|info|internal|ir|it|kr|link"
    "|live|local|me|museum|mx|name|network|no|nz|online|page|pl|pro|ro|sg|shop|site|space|store|su|systems|team|tech|to"
    "|tools|top|tr|tw|ua|vip|vn|website|work|world|ws|xyz|za|zone"
)
_HOST = re2.compile(
    r"""(?im)\b(?:[a-z][a-z0-9+.-]+:/[/\\]+|(?:https?|wss?|ftp):[/\\]*)"""
    r"""(?:[^\s/\\?#"'<>]*@)?(\[[0-9a-f:.]+\]|[^\s/\\?#"'<>`|)\]},;\x{3001}\x{3002}]+)"""
    rf"""|(?:^|[^\w:/\\])//({_LABEL}(?:{_DOTS}{_LABEL})+)"""
    r"""|\]\(\s*<?[/\\]{2,}([\w.-]+)"""
    rf"""|\bwww{_DOTS}({_LABEL}(?:{_DOTS}{_LABEL})+)"""
    rf"""|\b([\w.+-]{{1,64}}@{_LABEL}(?:{_DOTS}{_LABEL})*{_DOTS}{_TOP_LABEL})"""
    r"""|\b[\w.-]{1,64}@([\w.-]+):[\w/]"""
    rf"""|(?:^|[^\w./\\@-])((?:{_LABEL}{_DOTS})+{_TOP_LABEL})(?::\d{{2}}|/|\?\w)"""
    r"""|\b((?:\d{1,3}\.){3}\d{1,3})\b|(?:^|[^\w:.\[])([0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7})"""
    rf"""|((?:{_LABEL}{_DOTS}){{2,}}(?:{_TOP}|({_TOP_OF_PROSE})))\b"""
)
_OWN_MACHINE = re2.compile(r"(?:localhost|127\.[\d.]+|0\.0\.0\.0|\[::1?\]|::1?)(?::\d+)?")
_DATA_LINK = re2.compile(r"(?i)\b(?:data:[a-z]+/[a-z0-9.+-]+[;,]|javascript:)")
# Between signs that set no blanks, the dots of IDNA end a sentence.
_DOT = re.compile("(?<=[0-9A-Za-z\u00c0-\u2dff])\u3002(?=[0-9A-Za-z\u00c0-\u2dff])")


def hosts(text: str) -> Iterator[Passage]:
    """Yield every host, and every address of mail, that a text names, once each: twice is no more than once."""
    # As a browser reads them: NFKC, and the dots of IDNA. Signs that become several are left, so that offsets stay.
    narrow = ((ord(each), unicodedata.normalize("NFKC", each)) for each in (() if text.isascii() else set(text)))
    table = {wide: plain for wide, plain in narrow if len(plain) == 1} | {0xFF0E: "\u3002"}
    text, prose, seen = _DOT.sub(".", text.translate(table)), "", set[str]()
    for found in _HOST.finditer(text):
        host = next(group for group in found.groups() if group).casefold().replace("\\", "").rstrip(".:")
        is_v6 = re.search(r"\d.*:\w|\w:.*\d", host) and (host.count("::") == 1 or host.count(":") == 7)
        if found[10]:
            prose = prose or blank_code(text)
            is_name = text[found.start() - 1 : found.start()] == "$" or text[found.end() : found.end() + 1] in (
                "(",
                "=",
                "[",
            )
            if is_name or (found[11] and prose[found.start()] == " "):
                continue
        elif found[9] and not is_v6:
            continue
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
# Files that hold keys, or that a shell, git or a host reads by itself, wherever they are.
_KEY_OR_HOOK = re.compile(
    r"(?i)(?<![\w)\]}.-])(?<!~/)(?:\.(?:env(?![._-](?:example|sample|template|dist)\b)(?:[._-][\w.-]*\w)?|netrc|npmrc|pypirc"
    r"|pgpass|my\.cnf|git-credentials|gitconfig|htpasswd|dockercfg|(?:ba|z|k|c|tc)?sh(?:rc|env)|envrc|claude\.json"
    r"|(?:bash_|z)(?:profile|log(?:in|out))|(?:cursor|windsurf|cline)rules|pre-commit-config\.yaml)|_netrc)(?![\w-])"
    r"|\b(?:(?:CLAUDE|AGENTS|GEMINI)(?:\.local|\.override)?\.md|copilot-instructions\.md|settings\.local\.json"
    r"|(?:hooks|mcp|claude_desktop_config)\.json|authorized_keys|id_(?:rsa|dsa|ecdsa|ed25519)|(?:core\.)?hooksPath"
    r"|(?<!\.git[/\\])(?:git)?hooks[/\\](?:(?:pre|post|prepare|commit|update|applypatch|push|reference)-[\w-]+|[\w-]+\.sh))\b"
    r"|[\"']hooks[\"']\s*:|\bhooks?\b[^\n]{0,60}\bsettings\.json\b|\bsettings\.json\b[^\n]{0,60}\bhooks?\b"
)
_AROUND = " \t\n`\"'()<>[]{}=:;,|*_\u201c\u201d\u2018\u2019"
_VARIABLE = re2.compile(
    r"\$\{?\w*(?:KEY|TOKEN|SECRET|PASSW)\w*|\b[A-Z0-9]+_(?:[A-Z0-9]+_)*(?:KEY|TOKEN|SECRET|PASSWORD)\b"
)


def places(text: str) -> Iterator[Passage]:
    """Yield places outside of a project: absolute paths, shares, folders above, dot folders, files of keys, hooks."""
    for found in chain(_PLACE.finditer(text), _KEY_OR_HOOK.finditer(text)):
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
    hidden, remote, markup, disguised, scripts, encoded, runs, hosts, places, variables,
)  # fmt: skip


# How it reads


_BEGINS = re.compile(r"\s*(?:[-*+]|\d+[.)]|#+|>|\|)\s+")
_ITEM = re.compile(r"(?:[-*+]|\d+[.)])\s")
_HEADING = re.compile(r" {0,3}(#{1,6})\s")
_UNDERLINE = re.compile(r" {0,3}(?:=+|(-+))\s*")
_BOLD = re.compile(r"\s*(\*\*|__)[^*_]+\1:?\s*")
_FENCE = re.compile(r"[\s>]*(?:(?:[-*+]|\d+[.)])\s+)?(```+|~~~+)")
_EMPHASIS = str.maketrans({"*": None, "`": None, "_": " ", "\u2019": "'"})


def blocks(text: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield what belongs together (an item of a list, a heading, a paragraph) as lines, after its parents.

    These are headings and items above it, the line that leads to it (bold, or with a colon), marks of quotes and code.
    """
    # Headings have the ranks -6 to -1, items their indent, and what leads to one half a rank less.
    above, leading = list[tuple[float, str]](), (-9.0, "")
    for lines, is_code in _group_lines(text):
        if is_code:
            yield (*(each for _, each in above), "```"), lines
            continue
        if _MARKER.match(lines[0].strip()):
            above.clear()  # edits go before such a region, and it stays what it is
        bare = lines[0].lstrip(" \t>")
        container = lines[0].removesuffix(bare)
        heading, underline = _HEADING.match(lines[0]), _UNDERLINE.fullmatch(lines[-1]) if len(lines) > 1 else None
        is_item, words = _ITEM.match(bare) is not None, flatten_lines(lines)
        rank = len(container.rpartition(">")[2].expandtabs(4)) - (0.0 if is_item else 0.5)
        if heading or underline:
            rank = len(heading[1]) - 7.0 if heading else -5.0 if underline and underline[1] else -6.0
        leads = leading if is_item and leading[0] == rank else None
        while above and above[-1][0] >= rank - (0.5 if leads else 0):
            above.pop()
        above += [(rank - 0.5, leads[1])] if leads else []
        yield (*(each for _, each in above), ">" * container.count(">")), lines
        if heading or underline or is_item or words.endswith(":") or _BOLD.fullmatch(lines[0]):
            above.append((rank, words))
        leading = (rank, words) if is_item and words.endswith(":") else (-9.0, "")


def _group_lines(text: str) -> Iterator[tuple[list[str], bool]]:
    """Yield the lines of each block, and whether it is code, or front matter."""
    content = text.encode()
    n_front = content[: block_end(content) or 0].count(b"\n")
    block, fence = list[str](), ""
    for n, line in enumerate((*text.split("\n"), "")):
        opened = _FENCE.match(line) if n >= n_front else None
        closes = bool(opened and fence and opened[1].startswith(fence) and line.strip(" \t>") == opened[1])
        is_apart = not line.strip() or _BEGINS.match(line) or (opened and (closes or not fence))
        if block and not fence:
            is_apart = is_apart or _HEADING.match(block[0]) or _UNDERLINE.fullmatch(block[-1])
        if block and n >= n_front and (is_apart or n == n_front):
            yield block, bool(fence) or n == n_front
            block = []
        if opened and (closes or not fence):
            fence = "" if closes else opened[1]
        elif line.strip():
            block.append(line)


def flatten_lines(lines: Sequence[str]) -> str:
    """The words of a block as one line in lower case."""
    begun = _BEGINS.match(lines[0]) if lines else None
    words = " ".join((lines[0][begun.end() :], *lines[1:]) if begun else lines)
    return " ".join(unicodedata.normalize("NFKC", without_hidden(words)).translate(_EMPHASIS).casefold().split())
