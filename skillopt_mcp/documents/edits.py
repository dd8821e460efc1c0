"""The edit engine: where edits land in a skill, and what rewrites, protected regions and notes make of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from skillopt_mcp.core.edits import Applied, Edit, EditReport, Op, Patch, UnmatchedReason
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.limits import EDIT_BYTES, FILE_BYTES, KIB, MIB, PATCH_EDITS
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.core.text import (  # fmt: skip
    BOM,
    find_collision,
    is_text,
    is_unportable,
    line_end,
    path_refusal,
    quoted,
    to_lf,
    unreadable,
)
from skillopt_mcp.documents import frontmatter
from skillopt_mcp.documents.frontmatter import block_end
from skillopt_mcp.documents.markdown import Document, has_marker, parse

_HEADING = re.compile(rb" {0,3}#{1,6}(?:[ \t]|\Z)")
_SHOWN = re.compile(r"\\u\{[0-9A-F]{4,6}\}")


@dataclass(frozen=True, slots=True)
class Placement:
    """Bytes from `start` up to `end` become `content`; an insertion has `start == end`."""

    op: Op
    start: int
    end: int
    content: bytes

    def overlaps(self, other: Placement) -> bool:
        """Return whether both cannot be applied: spans that share a byte, or an insertion inside a span."""
        if self.op == other.op == "set_description":
            return True
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class Miss:
    """An edit that does not apply, and what to change about it."""

    reason: UnmatchedReason
    detail: str


@dataclass(frozen=True, slots=True)
class Gap:
    """Where appended text goes: `before` parts it from the text above, `after` from what follows."""

    at: int
    before: bytes
    after: bytes


def place(edit: Edit, document: Document) -> Placement | Miss:
    """Return where the edit lands. The edit's fields are known to be usable (`edits.fault`)."""
    if edit.op == "append":
        return _appended(edit.content or "", document)
    if edit.op == "set_description":
        return _described(edit.content or "", document)
    anchor = _anchor(edit.target or "", document)
    if isinstance(anchor, Miss):
        return anchor
    if edit.op == "insert_after":
        return _inserted(edit.content or "", anchor[1], document)
    return _replaced(edit, anchor, document)


def append_gap(document: Document) -> Gap:
    """Return the place for appended text: after the last line of text, before trailing protected regions.

    One blank line parts it from the text above. Blank lines that were there stay below it, so that they part it from a
    protected region; where there were none, `after` brings one. A file that ended without a line ending still does.
    """
    content, ending = document.content, document.ending
    limit = _trailing_start(document)
    text_end = max(len(content[:limit].rstrip()), document.body_start)
    region_follows = limit < len(content)
    if text_end == document.body_start and not document.front:
        blank_below = b"\n" in to_lf(content[text_end:limit])
        return Gap(text_end, b"", ending * 2 if region_follows and not blank_below else ending)
    at = text_end if content[text_end - 1 : text_end] in (b"\n", b"\r") else line_end(content, text_end)
    if at is None or at > limit:
        return Gap(limit, ending * 2, ending * 2 if region_follows else b"")
    blank_below = b"\n" in to_lf(content[at:limit])
    return Gap(at, ending, ending * 2 if region_follows and not blank_below else ending)


def _trailing_start(document: Document) -> int:
    start = len(document.content)
    for region_start, region_end in reversed(document.protected):
        if document.content[region_end:start].strip():
            break
        start = region_start
    return start


def _appended(content: str, document: Document) -> Placement | Miss:
    lines = to_lf(content.encode()).split(b"\n")
    while lines and not lines[0].strip():
        del lines[0]
    while lines and not lines[-1].strip():
        del lines[-1]
    if not lines:
        return Miss("no_change", "the content is blank; give the text to append")
    at = append_gap(document).at
    return Placement("append", at, at, document.ending.join(lines))


def _described(description: str, document: Document) -> Placement | Miss:
    front = document.front
    refusal = frontmatter.refusal(front, description)
    if refusal or front is None or front.value_start is None or front.value_end is None:
        return Miss("invalid", refusal)
    if frontmatter.one_line(description) == frontmatter.one_line(front.description or ""):
        return Miss("no_change", "the description is this one already")
    if frontmatter.set_description(document.content, description) is None:
        return Miss("invalid", "the front matter could not be read after the change; a person must edit it")
    value = frontmatter.scalar(front, description)
    return Placement("set_description", front.value_start, front.value_end, value)


def _anchor(target: str, document: Document) -> tuple[int, int] | Miss:
    """Return the one stretch outside reserved spans that is the target, whatever the kind of line ending."""
    unified = document.unified
    needle = to_lf(target.removeprefix("\ufeff").encode())
    if not needle:
        return Miss("invalid", "the target is empty; copy the exact text that the edit is about")
    first, count, at = -1, 0, 0
    for start, end in (*document.reserved, (len(document.content), len(document.content))):
        stop = unified.from_original(start)
        found = unified.text.find(needle, at, stop)
        if found >= 0:
            first = first if count else found
            again = unified.text.find(needle, found + 1, stop) >= 0
            count += max(unified.text.count(needle, at, stop), 1 + again)
        at = unified.from_original(end)
    if count > 1:
        return Miss("ambiguous", f"the target is found {count} times; copy more of the text around it")
    if count == 0 and needle in unified.text:
        return Miss("protected", "the target is in the front matter or in a protected region; choose other text")
    if count == 0:
        if shown := _SHOWN.search(target):
            hint = f"{shown[0]} stands for a hidden character: give the character itself, or text without it"
            return Miss("not_found", f"the target is not in the file; {hint}")
        return Miss("not_found", "the target is not in the file; copy the text exactly as it stands there")
    return unified.to_original(first), unified.to_original(first + len(needle))


def _inserted(content: str, anchor_end: int, document: Document) -> Placement | Miss:
    if not content:
        return Miss("no_change", "the content is empty; give the text to insert")
    new = _with_ending(content, document)
    end: int | None = anchor_end
    if document.content[anchor_end - 1 : anchor_end] not in (b"\n", b"\r"):
        end = line_end(document.content, anchor_end)
    above = document.content[: len(document.content) if end is None else end]
    is_code = any(block.start < len(above) < block.end for block in document.code)
    if not is_code and _HEADING.match(above.splitlines()[-1]) and to_lf(new).split(b"\n", 1)[0].strip():
        new = document.ending + new
    if end is None:
        # The file ends without a line ending, and goes on doing so.
        end = len(document.content)
        new = document.ending + new.removesuffix(document.ending)
    elif not new.endswith(document.ending):
        new += document.ending
    if any(start < end < stop for start, stop in document.reserved):
        return Miss("protected", "a protected region begins on the target's last line; choose a line above it")
    return Placement("insert_after", end, end, new)


def _replaced(edit: Edit, anchor: tuple[int, int], document: Document) -> Placement | Miss:
    start, end = anchor
    old = document.content[start:end]
    new = _with_ending(edit.content or "", document)
    if new and old[-1:] in (b"\n", b"\r") and not new.endswith(document.ending):
        # The target named whole lines: the last of the new ones must not run into the line below.
        new += document.ending
    if to_lf(new) == to_lf(old):
        return Miss("no_change", "the content is the target; give the text to put in its place")
    return Placement(edit.op, start, end, new)


def _with_ending(content: str, document: Document) -> bytes:
    text = to_lf(content.encode())
    return text if document.ending == b"\n" else text.replace(b"\n", document.ending)


_ANCHORED: tuple[Op, ...] = ("insert_after", "replace", "delete")
_Outcomes = dict[int, Placement | Miss]


def apply_patch(files: SkillFiles, patch: Patch, *, budget: int | None = None) -> Applied:
    """Return the files after the patch, with one report per edit.

    All anchors resolve against `files`, so the order of the edits does not matter, but for text that is added at the
    same place: it keeps the order of the patch, what was inserted after a line before what was appended. An edit that
    does not apply is reported, and the rest of the patch applies. Raises BadInput when there are more edits than
    `budget`, or than any patch may have. An edit of SKILL.md is one of the main document, whatever its name.
    """
    _check_count(len(patch.edits), budget)
    patch = Patch(tuple(_addressed(edit, files.main_path) for edit in patch.edits), patch.reasoning)
    outcomes: _Outcomes = {}
    by_path: dict[str, dict[int, Edit]] = {}
    for index, edit in enumerate(patch.edits):
        miss = _fault(edit, patch.edits[:index], files.main_path)
        if miss:
            outcomes[index] = miss
        else:
            by_path.setdefault(edit.path, {})[index] = edit
    changed: list[SkillFile] = []
    for path, edits in by_path.items():
        file = files.get(path) or SkillFile(path, b"")
        new, placed = _edit_file(file, edits, _absence(path, files, by_path))
        outcomes |= placed
        if new != file.content:
            changed.append(SkillFile(path, new, file.executable))
    after = files.replaced(*changed) if changed else files
    fault = unreadable(after) if changed else ""
    if fault:
        after = files
        outcomes |= dict.fromkeys(_places(outcomes), Miss("invalid", fault))
    return Applied(after, tuple(_report(index, edit, outcomes[index]) for index, edit in enumerate(patch.edits)))


def _check_count(n_edits: int, budget: int | None) -> None:
    if budget is not None and n_edits > budget:
        raise BadInput(f"the patch has {n_edits} edits and the budget is {budget}; leave out the least valuable ones")
    if n_edits > PATCH_EDITS:
        raise BadInput(f"the patch has {n_edits} edits; {PATCH_EDITS} are the most, so propose them in parts")


def _addressed(edit: Edit, main_path: str) -> Edit:
    return edit if edit.path != MAIN_FILE or main_path == MAIN_FILE else replace(edit, path=main_path)


def _fault(edit: Edit, earlier: Sequence[Edit], main_path: str) -> Miss | None:
    """Return what is wrong with an edit whatever the files hold."""
    if edit.op not in get_args(Op):
        return Miss("invalid", f"there is no op {quoted(str(edit.op))}; use one of {', '.join(get_args(Op))}")
    if refusal := path_refusal(edit.path, main_path):
        return Miss("invalid", refusal)
    if edit.op == "set_description" and edit.path != main_path:
        return Miss("invalid", f"only {MAIN_FILE} has a description; leave out the path")
    if edit.op in _ANCHORED and not edit.target:
        return Miss("invalid", f"{edit.op} needs a target; copy the exact text that the edit is about")
    if edit.op == "delete" and edit.content:
        return Miss("invalid", "delete takes no content; use replace to put other text in the target's place")
    if edit.op != "delete" and edit.content is None:
        return Miss("invalid", f"{edit.op} needs content")
    for field, text in (("target", edit.target or ""), ("content", edit.content or "")):
        if problem := text_fault(text):
            return Miss("invalid", f"the {field} {problem}")
    if has_marker(edit.content or ""):
        return Miss("invalid", "the content has a marker of a protected region; leave the marker out")
    fields = (edit.op, edit.path, edit.target, edit.content)
    twin = next(
        (i for i, each in enumerate(earlier) if fields == (each.op, each.path, each.target, each.content)), None
    )
    return None if twin is None else Miss("no_change", f"the same as edit {twin}")


def text_fault(text: str) -> str:
    """Return what is wrong with a text that is to stand in a skill, as the end of a sentence; empty when nothing is."""
    if "\0" in text:
        return "has a NUL character; leave it out"
    if len(text) > EDIT_BYTES:
        return f"is larger than {EDIT_BYTES // KIB} KiB; make it smaller"
    try:
        n_bytes = len(text.encode())
    except UnicodeEncodeError:
        return "has half a surrogate pair, which is no character; leave it out"
    return f"is larger than {EDIT_BYTES // KIB} KiB; make it smaller" if n_bytes > EDIT_BYTES else ""


def _absence(path: str, files: SkillFiles, edited: Iterable[str]) -> Miss | None:
    """Return why a file cannot be edited or created, or None; an append may create a reference file."""
    file = files.get(path)
    if file:
        return None if is_text(file.content) else Miss("invalid", f"{quoted(path)} is not a text file")
    others = (*(file.path for file in files.files), *edited)
    if path == files.main_path:
        return Miss("not_found", f"the skill has no {MAIN_FILE}")
    if is_unportable(path):
        return Miss("invalid", f"{quoted(path)} is a name that some systems do not take; choose another name")
    if other := find_collision(path, others):
        return Miss("invalid", f"{quoted(path)} would collide with {quoted(other)}; choose another name")
    return None


def _edit_file(file: SkillFile, edits: dict[int, Edit], absence: Miss | None) -> tuple[bytes, _Outcomes]:
    if absence:
        return file.content, dict.fromkeys(edits, absence)
    document = parse(file.content)
    outcomes: _Outcomes = {index: place(edit, document) for index, edit in edits.items()}
    _drop_overlaps(outcomes)
    _drop_unsealing(outcomes, document)
    new = _spliced(document, _places(outcomes))
    if len(new) > FILE_BYTES:
        miss = Miss("invalid", f"{quoted(file.path)} would be larger than {FILE_BYTES // MIB} MiB")
        return file.content, outcomes | dict.fromkeys(_places(outcomes), miss)
    return new, outcomes


def _places(outcomes: _Outcomes) -> dict[int, Placement]:
    return {index: outcome for index, outcome in outcomes.items() if isinstance(outcome, Placement)}


def _drop_overlaps(outcomes: _Outcomes) -> None:
    """Turn every edit that overlaps another into a miss: which of the two is meant is not clear."""
    places = _places(outcomes)
    for index, one in places.items():
        rivals = [str(other) for other, place in places.items() if other != index and one.overlaps(place)]
        if rivals:
            outcomes[index] = Miss("overlap", f"overlaps edit {', '.join(rivals)}; make them one edit")


def _drop_unsealing(outcomes: _Outcomes, document: Document) -> None:
    """Turn edits into misses that would change what is protected: by an unclosed code fence, or a marker in pieces."""
    places = _places(outcomes)
    miss = Miss("protected", "would change where the front matter or a protected region begins or ends")
    if _keeps_seals(document, places):
        return
    culprits = [index for index, place in places.items() if not _keeps_seals(document, {index: place})]
    left = {index: place for index, place in places.items() if index not in culprits}
    outcomes.update(dict.fromkeys(culprits if _keeps_seals(document, left) else places, miss))


def _keeps_seals(document: Document, places: dict[int, Placement]) -> bool:
    described = {index: place for index, place in places.items() if place.op == "set_description"}
    expected = parse(_spliced(document, described)) if described else document
    return _seals(parse(_spliced(document, places))) == _seals(expected)


def _seals(document: Document) -> tuple[bytes, ...]:
    front = document.content[: document.front.end] if document.front else b""
    return (front, *(document.content[start:end] for start, end in document.protected))


def _spliced(document: Document, places: dict[int, Placement]) -> bytes:
    """Return the content after the changes, which do not overlap."""
    changes = [place for place in places.values() if place.op != "append"]
    appended = [place.content for place in places.values() if place.op == "append"]
    if appended:
        gap = append_gap(document)
        text = (document.ending * 2).join(appended)
        changes.append(Placement("append", gap.at, gap.at, gap.before + text + gap.after))
    pieces: list[bytes] = []
    at = 0
    for change in sorted(changes, key=lambda place: (place.start, place.end)):
        pieces += (document.content[at : change.start], change.content)
        at = change.end
    return b"".join((*pieces, document.content[at:]))


def _report(index: int, edit: Edit, outcome: Placement | Miss) -> EditReport:
    if isinstance(outcome, Placement):
        return EditReport(index, edit.op, edit.path, "applied")
    return EditReport(index, edit.op, edit.path, "unmatched", outcome.reason, outcome.detail)


def rewritten(files: SkillFiles, text: str) -> SkillFiles | str:
    """Return the files with `text` as their main document, or a sentence that says why it may not be.

    Front matter and protected regions have to be in it as they are, whatever the line endings; they keep their bytes.
    """
    old = files.get(files.main_path)
    if old is None:
        return f"the skill has no {MAIN_FILE}"
    body = _body(old.content, text)
    if isinstance(body, str):
        return body
    document = parse(old.content)
    front = old.content[: _front_end(old.content)]
    content = front + (body if document.ending == b"\n" else body.replace(b"\n", document.ending))
    new = _with_regions(content, [old.content[start:end] for start, end in document.protected])
    if new is None:
        return "a protected region is changed, moved, added or left out; copy each one, markers and all, exactly"
    after = files.replaced(SkillFile(old.path, new, old.executable))
    return unreadable(after) or after


def _body(old: bytes, text: str) -> bytes | str:
    """Return the body of the new text with line feeds, or what is wrong with the text."""
    try:
        raw = text.removeprefix("\ufeff").encode()
    except UnicodeEncodeError:
        return "the new text has half a surrogate pair, which is no character"
    if b"\0" in raw:
        return "the new text has a NUL character"
    new = to_lf(raw)
    front = to_lf(old[: _front_end(old)].removeprefix(BOM))
    if block_end(old) is not None:
        new = new.lstrip(b"\n")
    if new[: block_end(new) or 0] != front:
        return "the front matter is changed; copy it exactly"
    body = new[len(front) :]
    if not body.strip():
        return "the new text has no body"
    return body.rstrip(b"\n") + b"\n" * to_lf(old).endswith(b"\n")


def _front_end(content: bytes) -> int:
    return block_end(content) or (len(BOM) if content.startswith(BOM) else 0)


def _with_regions(content: bytes, regions: list[bytes]) -> bytes | None:
    """Return the content with each protected region byte for byte as it was, or None when they are not the same."""
    found = parse(content).protected
    if [_core(content[start:end]) for start, end in found] != [_core(region) for region in regions]:
        return None
    pieces, at = [], 0
    for (start, end), region in zip(found, regions, strict=True):
        pieces += [content[at:start], region]
        at = end
    whole = b"".join((*pieces, content[at:]))
    return whole if [whole[start:end] for start, end in parse(whole).protected] == regions else None


def _core(region: bytes) -> bytes:
    return to_lf(region).rstrip(b"\n")


Region = Literal["SLOW_UPDATE", "APPENDIX"]


def region_text(files: SkillFiles, name: Region) -> str:
    """Return the text of a region, with line feeds and without blank ends; empty when there is no such region."""
    document = parse(files.main)
    found = document.region(name)
    return to_lf(document.content[slice(*found)]).decode("utf-8", "replace").strip() if found else ""


def with_region(files: SkillFiles, name: Region, text: str) -> SkillFiles:
    """Return the files with `text` as the region of their main document; where there is none, it is put at the end.

    All other bytes stay. Raises BadInput when the text has a marker, or would change where a protected part ends.
    """
    main = files.get(files.main_path)
    fault = text_fault(text)
    if main is None:
        raise BadInput(f"the skill has no {MAIN_FILE}: a region has no place")
    if fault or has_marker(text):
        raise BadInput(f"the text of the region {fault or 'has a marker of a protected region'}")
    document = parse(main.content)
    lines = to_lf(text.strip().encode())
    inner = b"\n" + lines + b"\n" if lines else b"\n"
    new = _written(document, name, inner.replace(b"\n", document.ending))
    after = files.replaced(SkillFile(main.path, new, main.executable))
    if fault := unreadable(after):
        raise BadInput(f"the text of the region cannot be added: {fault}")
    if region_text(after, name) != lines.decode() or _sealed(parse(new), name) != _sealed(document, name):
        raise BadInput("the text of the region would change where a protected part of the skill begins or ends")
    return after


def _written(document: Document, name: Region, inner: bytes) -> bytes:
    content, ending = document.content, document.ending
    found = document.region(name)
    if found:
        return content[: found[0]] + inner + content[found[1] :]
    gap = b"" if not content.strip() else ending * (1 if content.endswith((b"\n", b"\r")) else 2)
    start, end = (f"<!-- {name}_{edge} -->".encode() for edge in ("START", "END"))
    return content + gap + start + inner + end + ending


def _sealed(document: Document, name: Region) -> tuple[bytes, ...]:
    """Return what writing one region must leave alone: the front matter, and every other protected region."""
    own = document.region(name)
    others = [span for span in document.protected if own is None or not span[0] <= own[0] <= span[1]]
    return (document.content[: document.body_start], *(document.content[start:end] for start, end in others))


HEADING = "## Rules that are easily passed over"
NOTE_CHARACTERS = 300
_BULLET = re.compile(r"^[-*]\s+")
_WORD = re.compile(r"\w+")
_ALIKE = 0.8


def notes_in(files: SkillFiles) -> tuple[str, ...]:
    """Return the notes of the appendix, the oldest first."""
    lines = region_text(files, "APPENDIX").splitlines()
    return tuple(_BULLET.sub("", line).strip() for line in lines if _BULLET.match(line))


def clean_note(text: str) -> str | None:
    """Return a note in one line, or None when it is blank, too long, or holds a marker or a code fence."""
    note = _BULLET.sub("", " ".join(text.split()))
    unfit = not _WORD.search(note) or len(note) > NOTE_CHARACTERS or has_marker(note) or "```" in note or "~~~" in note
    return None if unfit else note


def compacted(old: Sequence[str], new: Sequence[str], most: int) -> tuple[str, ...]:
    """Return at most `most` notes (0: all), one of several alike in its latest wording, the most recent need last."""
    kept: list[tuple[str, frozenset[str]]] = []
    for note in (*old, *new):
        words = frozenset(_WORD.findall(note.casefold()))
        kept = [(other, theirs) for other, theirs in kept if len(words & theirs) < _ALIKE * len(words | theirs)]
        kept.append((note, words))
    return tuple(note for note, _ in kept[-most:])


def with_notes(files: SkillFiles, notes: Sequence[str], most: int) -> SkillFiles:
    """Return the files with clean `notes` added to the appendix, compacted. Raises BadInput as `with_region` does."""
    together = compacted(notes_in(files), notes, most)
    return with_region(files, "APPENDIX", "\n".join([HEADING, "", *(f"- {note}" for note in together)]))
