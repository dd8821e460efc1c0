"""Text: hidden characters, line endings, and which files may stand in a skill."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from skillopt_mcp.core.limits import FILE_BYTES, MIB, NAME_BYTES, PATH_CHARACTERS, SKILL_BYTES, SKILL_DEPTH, SKILL_FILES
from skillopt_mcp.core.skills import EVIDENCE_FILE, MAIN_FILE, SkillFiles

HIDDEN_RANGES = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HIDDEN = re.compile(f"[{HIDDEN_RANGES}\ud800-\udfff]")
# Those of them that are ASCII: bytes are rid of them an order of magnitude faster than text is, and by a table, even
# one that changes nothing, in half the time that it takes without.
_HIDDEN_BYTES = bytes(code for code in range(128) if _HIDDEN.match(chr(code)))
_AS_THEY_ARE = bytes(range(256))
_EMOJI = re.compile("[\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]")
_BEFORE_SELECTOR = re.compile("[0-9#*\u00a9\u00ae\u203c\u2049\u2122\u2139\u24c2\u2934\u2935\u3030\u303d\u3297\u3299]")
_JOINER = "\u200d"
_OVERLAP = 4096  # characters behind a cut in which a secret may end that lies across it
_SELECTORS = "\ufe0e\ufe0f"


def hidden_offsets(text: str) -> Iterator[int]:
    """Yield where `text` has hidden, bidirectional, tag or control characters; joined emoji are not hidden."""
    for found in _HIDDEN.finditer(text):
        at = found.start()
        character, before, after = text[at], text[at - 1 : at], text[at + 1 : at + 2]
        if character == _JOINER:
            if before and before in _SELECTORS:
                before = text[at - 2 : at - 1]
            is_shown = bool(_EMOJI.match(before) and _EMOJI.match(after))
        else:
            is_shown = character in _SELECTORS and bool(_EMOJI.match(before) or _BEFORE_SELECTOR.match(before))
        if not is_shown:
            yield at


def without_hidden(text: str) -> str:
    """Return `text` without any hidden character, joined emoji taken apart too."""
    if not text.isascii():
        return _HIDDEN.sub("", text)
    return text.encode().translate(_AS_THEY_ARE, _HIDDEN_BYTES).decode()


def escaped(text: str) -> str:
    r"""Return `text` with its hidden characters and carriage returns as \u{XXXX}; tabs and newlines stay."""
    if text.isascii() and text.isprintable():
        return text
    offsets = set(hidden_offsets(text))
    if not offsets and "\r" not in text:
        return text
    return "".join(
        rf"\u{{{ord(character):04X}}}" if at in offsets or character == "\r" else character
        for at, character in enumerate(text)
    )


def shown(text: str) -> str:
    """Return `text` with its hidden characters escaped, for a model to read: line endings stay as they are."""
    return "\r\n".join(map(escaped, text.split("\r\n")))


def on_line(text: str) -> str:
    """Return `text` on one line, with what would end it or hide in it as escapes."""
    return escaped(text).replace("\n", r"\n").replace("\t", r"\t")


def quoted(text: str, limit: int = 80) -> str:
    """Return `text` on one line in double quotes for a message, cut after `limit` characters."""
    if len(text) <= limit:
        return f'"{on_line(text)}"'
    from skillopt_mcp.core.redacting import redact  # noqa: PLC0415  # of a secret, the cut might leave a part

    return f'"{on_line(redact(text[: limit + _OVERLAP])[:limit])}..."'


def counted(n: int, one: str, many: str = "") -> str:
    """Return a number with its noun, which is `many` (else `one` with an s) unless there is just one."""
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def or_more(n: int, most: int) -> str:
    """Return a number that was counted up to `most` and no further."""
    return f"{n:,} or more" if n >= most else f"{n:,}"


BOM = b"\xef\xbb\xbf"
_CRLF = re.compile(rb"\r\n")


@dataclass(frozen=True)
class Unified:
    """A text with every line ending as a line feed, and the way between its offsets and the original's.

    A carriage return with its line feed is one ending: no offset that is mapped ever falls between the two.
    """

    original: bytes

    @cached_property
    def text(self) -> bytes:
        """Return the text with line feeds only."""
        return to_lf(self.original)

    def to_original(self, at: int) -> int:
        """Return the offset in the original of the offset `at` in `text`."""
        return at + bisect_left(self._pairs[1], at)

    def from_original(self, at: int) -> int:
        """Return the offset in `text` of the offset `at` in the original."""
        return at - bisect_right(self._pairs[0], at - 2)

    @cached_property
    def _pairs(self) -> tuple[list[int], list[int]]:
        """Where carriage returns with their line feeds begin, in the original and in `text`."""
        starts = [found.start() for found in _CRLF.finditer(self.original)] if b"\r\n" in self.original else []
        return starts, [at - number for number, at in enumerate(starts)]


def to_lf(text: bytes) -> bytes:
    """Return `text` with every line ending as a line feed."""
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in text else text


def dominant_ending(text: bytes) -> bytes:
    r"""Return the line ending that `text` uses most: \n, \r\n or \r; \n when there is none, or as many of each."""
    if b"\r" not in text:
        return b"\n"
    pairs = text.count(b"\r\n")
    counts = {b"\n": text.count(b"\n") - pairs, b"\r\n": pairs, b"\r": text.count(b"\r") - pairs}
    return max(counts, key=lambda ending: counts[ending])


def line_end(text: bytes, at: int) -> int | None:
    """Where the line that holds offset `at` ends, its ending included; None when it has no ending."""
    feed, carriage = text.find(b"\n", at), text.find(b"\r", at)
    if feed < 0 and carriage < 0:
        return None
    if carriage < 0 or 0 <= feed < carriage:
        return feed + 1
    return carriage + 2 if feed == carriage + 1 else carriage + 1


def is_text(content: bytes) -> bool:
    """Whether a file is text: UTF-8 without NUL."""
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False


_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\\]")


def is_passed_over(name: str) -> bool:
    """Whether a file or folder of this name is none of a skill's: dot files, caches and recorded evidence."""
    return name.startswith(".") or name in ("__pycache__", EVIDENCE_FILE)


def is_unfit(name: str) -> bool:
    """Whether a skill refuses to hold what has this name: one with control characters, or no text."""
    return _UNFIT.search(name) is not None


def is_too_deep(path: str) -> bool:
    """Whether a file at this path inside a skill lies deeper than one is read."""
    return path.count("/") >= SKILL_DEPTH


def path_fault(path: str) -> str:
    """Why no file is read at this path inside a skill, as the end of a sentence; empty when one is."""
    parts = path.split("/")
    if "" in parts:
        return "is no relative path"
    if any(map(is_unfit, parts)):
        return "has control characters, a backslash or no text in it"
    if any(map(is_passed_over, parts)):
        return "has a part that is passed over when a skill is read (dot files, __pycache__, evidence)"
    if is_too_deep(path):
        return f"is nested too deep; {SKILL_DEPTH} levels are the most"
    if any(len(part.encode()) > NAME_BYTES for part in parts):
        return f"has a part of more than {NAME_BYTES} bytes, which no disk takes as a name"
    return ""


def unreadable(files: SkillFiles) -> str:
    """Why these files, written to a folder, would not be read back as they are; empty when they would."""
    main = files.get(files.main_path)
    if main is None or ("/" in main.path):
        return f"the skill has no {MAIN_FILE}"
    if not is_text(main.content):
        return f"{quoted(main.path)} is not UTF-8 text"
    if len(files.files) > SKILL_FILES:
        return f"the skill would have more than {SKILL_FILES} files"
    if sum(len(file.content) for file in files.files) > SKILL_BYTES:
        return f"the skill would be larger than {SKILL_BYTES // MIB} MiB"
    paths = {file.path for file in files.files}
    folders = {str(folder) for path in paths for folder in PurePosixPath(path).parents}
    for file in files.files:
        if fault := path_fault(file.path):
            return f"{quoted(file.path)} {fault}"
        if len(file.content) > FILE_BYTES:
            return f"{quoted(file.path)} would be larger than {FILE_BYTES // MIB} MiB"
    if len(paths) < len(files.files) or paths & folders:
        return "two of its files would have the same place"
    return ""


TEXT_SUFFIXES = (".md", ".markdown", ".txt", ".rst", ".csv", ".tsv", ".json", ".yaml", ".yml", ".toml", ".xml")
_UNPORTABLE = re.compile(r'[<>:"|?*]|[. ](?:/|\Z)|(?i:(?:\A|/)(?:con|prn|aux|nul|com\d|lpt\d)(?:[./]|\Z))')
_ALLOWED = f'an edit may name "{MAIN_FILE}" or a text file under "references/"'


def path_refusal(path: str, main_path: str = MAIN_FILE) -> str:
    """Why an edit may not touch `path`, or an empty string when it may. A memory file is one document alone."""
    if path == main_path:
        return ""
    if main_path != MAIN_FILE:
        return f"{quoted(path)} is out of reach; {quoted(main_path)} stands alone, so leave out the path"
    if path.startswith("scripts/"):
        return f"{quoted(path)} is a script; changing it needs a person"
    if not path.isprintable() or path != unicodedata.normalize("NFC", path) or len(path) > PATH_CHARACTERS:
        return f"{quoted(path)} is not a plain path; {_ALLOWED}"
    if "\\" in path or ":" in path or path != str(PurePosixPath(path)):
        return f"{quoted(path)} is not a normalised relative path with forward slashes; {_ALLOWED}"
    parts = path.split("/")
    if any(part.startswith(".") or part != part.strip() for part in parts):
        return f"{quoted(path)} has a hidden, dotted or padded part; {_ALLOWED}"
    if len(parts) < 2 or parts[0] != "references" or not path.lower().endswith(TEXT_SUFFIXES):
        return f"{quoted(path)} is out of reach; {_ALLOWED} ({', '.join(TEXT_SUFFIXES)})"
    if fault := path_fault(path):
        return f"{quoted(path)} {fault}"
    return ""


def is_unportable(path: str) -> bool:
    """Whether some system takes a part of the path for a device, or another name than it is."""
    return _UNPORTABLE.search(path) is not None


def find_collision(path: str, others: Iterable[str]) -> str:
    """Return the one of `others` that a new file at `path` would collide with on some disk, or an empty string.

    It does where one is a folder of the other, or parts that some disk takes for the same are written differently.
    """
    for other in others:
        pairs = zip(path.split("/"), other.split("/"), strict=False)
        differing = next(((new, old) for new, old in pairs if new != old), None)
        if other != path and (differing is None or _fold_name(differing[0]) == _fold_name(differing[1])):
            return other
    return ""


def _fold_name(part: str) -> str:
    """Return a name as a disk sees it that ignores case and how an accent is written."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", part).casefold())


def storable(text: str) -> str:
    """Return text without lone surrogates, which a model's JSON may hold and no store takes; each becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def truncate_middle(text: str, limit: int) -> str:
    """Return `text` in at most `limit` characters: lines of its middle give way to a note of how many are gone."""
    if len(text) <= limit:
        return text
    room = limit - len(_cut_note(len(text)))
    if room < 2:
        return text[: max(limit, 0)]
    head, tail = text[: room - room // 2], text[len(text) - room // 2 :]
    head = head[: head.rfind("\n") + 1] or head
    tail = tail[tail.find("\n") + 1 :] or tail
    return head + _cut_note(len(text) - len(head) - len(tail)) + tail


def _cut_note(n_characters: int) -> str:
    return f"\n[... {n_characters} characters left out ...]\n"
