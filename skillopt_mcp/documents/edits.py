"""Edits: the engine that applies a patch to a skill's files and leaves every other byte alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import get_args

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.lines import is_text
from skillopt_mcp.documents.paths import collision, path_refusal, unportable
from skillopt_mcp.documents.placing import Miss, Place, append_gap, place
from skillopt_mcp.documents.readable import unreadable
from skillopt_mcp.documents.spans import Document, has_marker, parse
from skillopt_mcp.errors import BadInput
from skillopt_mcp.limits import EDIT_BYTES, FILE_BYTES, KIB, MIB, PATCH_EDITS
from skillopt_mcp.records.edits import Applied, Edit, EditReport, Op, Patch
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles

_ANCHORED: tuple[Op, ...] = ("insert_after", "replace", "delete")
_Outcomes = dict[int, Place | Miss]


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
    twin = next((i for i, other in enumerate(earlier) if _same(edit, other)), None)
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


def _same(edit: Edit, other: Edit) -> bool:
    fields = (edit.op, edit.path, edit.target, edit.content)
    return fields == (other.op, other.path, other.target, other.content)


def _absence(path: str, files: SkillFiles, edited: Iterable[str]) -> Miss | None:
    """Return why a file cannot be edited or created, or None; an append may create a reference file."""
    file = files.get(path)
    if file:
        return None if is_text(file.content) else Miss("invalid", f"{quoted(path)} is not a text file")
    others = (*(file.path for file in files.files), *edited)
    if path == files.main_path:
        return Miss("not_found", f"the skill has no {MAIN_FILE}")
    if unportable(path):
        return Miss("invalid", f"{quoted(path)} is a name that some systems do not take; choose another name")
    if other := collision(path, others):
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


def _places(outcomes: _Outcomes) -> dict[int, Place]:
    return {index: outcome for index, outcome in outcomes.items() if isinstance(outcome, Place)}


def _drop_overlaps(outcomes: _Outcomes) -> None:
    """Turn every edit that overlaps another into a miss: which of the two is meant, nobody can say."""
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


def _keeps_seals(document: Document, places: dict[int, Place]) -> bool:
    described = {index: place for index, place in places.items() if place.op == "set_description"}
    expected = parse(_spliced(document, described)) if described else document
    return _seals(parse(_spliced(document, places))) == _seals(expected)


def _seals(document: Document) -> tuple[bytes, ...]:
    front = document.content[: document.front.end] if document.front else b""
    return (front, *(document.content[start:end] for start, end in document.protected))


def _spliced(document: Document, places: dict[int, Place]) -> bytes:
    """Return the content after the changes, which do not overlap."""
    changes = [place for place in places.values() if place.op != "append"]
    appended = [place.content for place in places.values() if place.op == "append"]
    if appended:
        gap = append_gap(document)
        text = (document.ending * 2).join(appended)
        changes.append(Place("append", gap.at, gap.at, gap.before + text + gap.after))
    pieces: list[bytes] = []
    at = 0
    for change in sorted(changes, key=lambda place: (place.start, place.end)):
        pieces += (document.content[at : change.start], change.content)
        at = change.end
    return b"".join((*pieces, document.content[at:]))


def _report(index: int, edit: Edit, outcome: Place | Miss) -> EditReport:
    if isinstance(outcome, Place):
        return EditReport(index, edit.op, edit.path, "applied")
    return EditReport(index, edit.op, edit.path, "unmatched", outcome.reason, outcome.detail)
