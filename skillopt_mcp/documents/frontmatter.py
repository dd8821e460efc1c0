"""Front matter: the YAML block on top of a SKILL.md, read strictly, and one value of it rewritten in place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml

from skillopt_mcp.core.limits import DESCRIPTION_CHARACTERS, FRONT_MATTER_BYTES, FRONT_MATTER_DEPTH, FRONT_MATTER_LINES
from skillopt_mcp.core.text import BOM, quoted

Value = str | list["Value"] | dict[str, "Value"]

_OPENING = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*(?:\r\n|\n|\r)")
_CLOSING = re.compile(rb"(?:(?<=[\r\n]))---[ \t]*(?:\r\n|\n|\r|\Z)")
_LINE_BREAKS = re.compile(r"[ \t]*[\r\n\x85\u2028\u2029][\s]*")
_YAML_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
# A plain scalar that every YAML reader takes for this very string: it has a space, so it is no number, null or boolean.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9.]* [A-Za-z0-9 ,.'()/;_-]*[A-Za-z0-9.)]")
_CONTROLS = (*range(0x20), *range(0x7F, 0xA1), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF)
_ESCAPES = {code: f"\\u{code:04x}" for code in _CONTROLS} | {ord('"'): '\\"', ord("\\"): "\\\\"}


# Ten times as fast; but a tab, or a byte order mark, in a value it takes otherwise.
_FAST = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_TAKEN_OTHERWISE = re.compile(rb"\t|\xef\xbb\xbf")
_LINE_OF_FIRST_FIELD = 2
_TOO_DEEP = f"it is nested deeper than {FRONT_MATTER_DEPTH}"
_TOO_LARGE = f"it has more than {FRONT_MATTER_LINES} lines or {FRONT_MATTER_BYTES:,} bytes"
OWN_LIMITS = (_TOO_DEEP, _TOO_LARGE)
"""Faults that are none to a host."""
_FIELD = re.compile(r"[ -]*([\w-]+):[ \t]+([^\s\"'\[{|>#].*)")
_CLOSED = re.compile(r"---[ \t]*|")
_WHY = {
    "mapping values are not allowed here": "a colon and a space stand within a value",
    "found character '\\t' that cannot start any token": "a tab stands where a value or an indent begins: use spaces",
}


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """A block that could be read: `end` is the offset after its closing line, offsets count bytes of the document.

    `fields` holds every key with its value as JSON. `value_start` and `value_end` enclose the description's value as
    it is written, and are None when there is no description that is a text.
    """

    end: int
    fields: tuple[tuple[str, str], ...]
    name: str | None
    description: str | None
    value_start: int | None
    value_end: int | None
    plain: bool


class _Opaque(Exception):
    """The block is none that this reader accepts; `line` is where in it, from 0."""

    def __init__(self, why: str, event: yaml.Event | None = None) -> None:
        super().__init__(why)
        self.line = event.start_mark.line if event and event.start_mark else 0


def block_end(content: bytes) -> int | None:
    """Return the offset after the closing line of a leading `---` block, readable or not; None without one."""
    opening = _OPENING.match(content)
    if not opening:
        return None
    closing = _CLOSING.search(content, opening.end())
    return closing.end() if closing else None


def body_of(text: str) -> str:
    """The text of a skill below its front matter; all of it where there is nothing below."""
    lines = text.removeprefix("\ufeff").splitlines(keepends=True)
    if not lines or lines[0].strip() != "---":
        return text
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
    return "".join(lines[end + 1 :]).strip() or text


def read(content: bytes) -> FrontMatter | None:
    """Return the front matter of a document, or None when it is absent or not plain, small, safe YAML (opaque)."""
    if not content.startswith((b"---", BOM)):
        return None
    window = content[: FRONT_MATTER_BYTES + len(BOM)]
    end = block_end(window)
    # A closing line that the window cut short is no closing line.
    if end is None or (end == len(window) < len(content) and window[-1:] not in b"\r\n"):
        return None
    return _read_block(content[: end + 1 if content[end - 1 : end + 1] == b"\r\n" else end])


def find_fault(content: bytes) -> tuple[int, str] | None:
    """The line of the document, from 1, that keeps a closed block from being read, and why; None without one."""
    end = block_end(content)
    if end is None or read(content) is not None:
        return None
    try:
        _parse_block(content[:end])
    except _Opaque as error:
        return error.line + _LINE_OF_FIRST_FIELD, str(error)
    except yaml.MarkedYAMLError as error:
        return _explain_fault(_YAML_BREAK.split(content[:end].decode("utf-8", "replace")), error)
    except (yaml.YAMLError, ValueError, OverflowError):
        return 1, "a character or an escape in it is none that YAML allows"
    return 1, _TOO_LARGE


def _explain_fault(lines: list[str], error: yaml.MarkedYAMLError) -> tuple[int, str]:
    """Return where YAML stumbled and why, and how to write a value that is not quoted; it may be a secret."""
    marks = (mark for mark in (error.problem_mark, error.context_mark) if mark)
    places = [min(mark.line + _LINE_OF_FIRST_FIELD, len(lines)) for mark in marks]
    # What is never closed is noticed at the end.
    line = next((place for place in places if _CLOSED.fullmatch(lines[place - 1]) is None), 1)
    why = error.problem or "it is no YAML"
    if line != places[0]:
        why = "what begins here is never closed"
    field = _FIELD.fullmatch(lines[line - 1])
    if field is None:
        return line, _WHY.get(why, why)
    mark = "'" if '"' in field[2] or "\\" in field[2] else '"'
    return line, f"{_WHY.get(why, why)}; write the value in quotes, {field[1]}: {mark}...{mark}"


def one_line(description: str) -> str:
    """Return a description without its line breaks: each becomes a space, those at both ends nothing."""
    return _LINE_BREAKS.sub(" ", description.strip())


def refusal(front: FrontMatter | None, description: str) -> str:
    """Return why `description` cannot be written into `front`, or an empty string when it can."""
    if front is None:
        return "the file has no front matter that can be read; a person must add `name` and `description` first"
    if front.value_start is None:
        return "the front matter has no `description` that is a text; a person must add it first"
    n = len(one_line(description))
    if not 1 <= n <= DESCRIPTION_CHARACTERS:
        return f"a description has 1 to {DESCRIPTION_CHARACTERS} characters; this one has {n}"
    return ""


def scalar(front: FrontMatter, description: str) -> bytes:
    """Return the bytes to put in the place of the description's value: one line, plain where it was and is safe."""
    text = one_line(description)
    written = text if front.plain and _PLAIN.fullmatch(text) else f'"{text.translate(_ESCAPES)}"'
    return (written if front.value_start != front.value_end else " " + written).encode()


def set_description(content: bytes, description: str) -> bytes | None:
    """Return `content` with only the description's value changed; None when `refusal` has a reason, or YAML would."""
    front = read(content)
    if front is None or front.value_start is None or front.value_end is None or refusal(front, description):
        return None
    new = content[: front.value_start] + scalar(front, description) + content[front.value_end :]
    after = read(new)
    if after is None or after.description != one_line(description) or len(after.fields) != len(front.fields):
        return None
    pairs = zip(front.fields, after.fields, strict=True)
    return new if all(was == now or was[0] == now[0] == "description" for was, now in pairs) else None


@lru_cache(maxsize=128)
def _read_block(block: bytes) -> FrontMatter | None:
    try:
        return _parse_block(block, yaml.BaseLoader if _TAKEN_OTHERWISE.search(block) else _FAST)
    # PyYAML lets a bad escape such as "\Uffffffff" out as the error of chr().
    except (yaml.YAMLError, ValueError, OverflowError, _Opaque):
        return None


def _parse_block(block: bytes, loader: Any = yaml.BaseLoader) -> FrontMatter:
    opening = _OPENING.match(block)
    start = opening.end() if opening else 0
    closing = _CLOSING.search(block, start)
    inner = block[start : closing.start() if closing else None]
    if len(block) > FRONT_MATTER_BYTES or len(inner.splitlines()) > FRONT_MATTER_LINES:
        raise _Opaque(_TOO_LARGE)
    text = inner.decode()
    fields, scalars = _read_root(yaml.parse(text, Loader=loader))
    value_start = value_end = None
    if event := scalars.get("description"):
        if event.start_mark is None or event.end_mark is None:
            raise _Opaque("it cannot be read in place")
        written = text[event.start_mark.index : event.end_mark.index]
        if event.style in ("|", ">"):
            # The parser counts the line ending and the blank lines below a block scalar as part of it.
            written = written.rstrip()
        value_start = start + len(text[: event.start_mark.index].encode())
        value_end = value_start + len(written.encode())
    name, description = fields.get("name"), fields.get("description")
    return FrontMatter(
        end=len(block),
        fields=tuple((key, json.dumps(value, sort_keys=True)) for key, value in fields.items()),
        name=name if isinstance(name, str) else None,
        description=description if isinstance(description, str) else None,
        value_start=value_start,
        value_end=value_end,
        plain=event is not None and event.style in (None, "") and not inner.lstrip().startswith(b"{"),
    )


def _read_root(events: Iterator[yaml.Event]) -> tuple[dict[str, Value], dict[str, yaml.ScalarEvent]]:
    next(events)
    document = next(events)
    if not isinstance(document, yaml.DocumentStartEvent) or document.explicit or document.version or document.tags:
        raise _Opaque("a document, a directive or a tag begins here", document)
    root = _check_event(next(events))
    if not isinstance(root, yaml.MappingStartEvent):
        raise _Opaque("there are no fields: write name: and description:", root)
    fields, scalars = _read_mapping(events, 1)
    for end in (yaml.DocumentEndEvent, yaml.StreamEndEvent):
        if not isinstance(event := next(events), end):
            raise _Opaque("the fields end before the block does", event)
    return fields, scalars


def _read_mapping(events: Iterator[yaml.Event], depth: int) -> tuple[dict[str, Value], dict[str, yaml.ScalarEvent]]:
    fields: dict[str, Value] = {}
    scalars: dict[str, yaml.ScalarEvent] = {}
    while not isinstance(key := _check_event(next(events)), yaml.MappingEndEvent):
        if not isinstance(key, yaml.ScalarEvent) or key.value == "<<":
            raise _Opaque("a name of a field is no plain text", key)
        if key.value in fields:
            raise _Opaque(f"{quoted(key.value)} is given twice: keep one", key)
        event = _check_event(next(events))
        if isinstance(event, yaml.ScalarEvent):
            scalars[key.value] = event
        fields[key.value] = _read_value(event, events, depth)
    return fields, scalars


def _read_value(event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> Value:
    if isinstance(event, yaml.ScalarEvent):
        return str(event.value)
    if depth >= FRONT_MATTER_DEPTH:
        raise _Opaque(_TOO_DEEP, event)
    if isinstance(event, yaml.MappingStartEvent):
        return _read_mapping(events, depth + 1)[0]
    items: list[Value] = []
    while not isinstance(item := _check_event(next(events)), yaml.SequenceEndEvent):
        items.append(_read_value(item, events, depth + 1))
    return items


def _check_event(event: yaml.Event) -> yaml.Event:
    if getattr(event, "anchor", None) is not None or getattr(event, "tag", None) is not None:
        raise _Opaque("a value begins with &, * or !, which are no text in YAML: write it in quotes", event)
    if isinstance(event, yaml.ScalarEvent):
        event.value.encode()
    return event
