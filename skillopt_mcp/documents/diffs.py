"""Diffs: what changed between two versions of a skill, for people and models to read."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_mcp.documents.alignment import changes
from skillopt_mcp.documents.characters import escaped
from skillopt_mcp.documents.lines import is_text
from skillopt_mcp.records.skills import SkillFile, SkillFiles

_CONTEXT = 3
_NO_ENDING = "\n\\ No newline at end of file"
_Change = tuple[int, int, int, int]


def unified_diff(before: SkillFiles, after: SkillFiles, name: str) -> str:
    r"""Return the unified diff of all files, empty when nothing changed; `name` (the skill's) leads the paths.

    Hidden, bidirectional and control characters are shown as \u{XXXX}. Line endings are shown so where the two sides do
    not all have the same kind. A file that is not text, or whose run bit changed, is told in one line.
    """
    paths = sorted({file.path for file in (*before.files, *after.files)})
    return "".join(_file_diff(before.get(path), after.get(path), name) for path in paths)


def changed_lines(before: SkillFiles, after: SkillFiles) -> list[list[str]]:
    """Return what each changed file lost and gained, as a diff shows it: line by line, of what is text."""
    paths = sorted({file.path for file in (*before.files, *after.files)})
    sides = [(before.get(path), after.get(path)) for path in paths]
    return [_file_lines(old, new) for old, new in sides if old != new]


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


def first_and_last(text: str, n: int, rest: str) -> str:
    """Return the first and the last of `n` lines of a text, with how many are left out between; `rest` says where."""
    lines = text.splitlines(keepends=True)
    if len(lines) <= n:
        return text
    n_last = n // 3
    note = f"[... {len(lines) - n} lines left out: {rest} ...]\n"
    return "".join([*lines[: n - n_last], note, *lines[len(lines) - n_last :]])


def _cut_note(n_characters: int) -> str:
    return f"\n[... {n_characters} characters left out ...]\n"


def _file_lines(old: SkillFile | None, new: SkillFile | None) -> list[str]:
    was, now = (file.content if file else b"" for file in (old, new))
    if not (is_text(was) and is_text(now)):
        return []
    lost, gained = was.splitlines(keepends=True), now.splitlines(keepends=True)
    sides = [(lost[i1:i2], gained[j1:j2]) for i1, i2, j1, j2 in changes(lost, gained)]
    marked = [(mark, line) for side in sides for mark, lines in zip("-+", side, strict=True) for line in lines]
    return [f"{mark}{_shown(line, show_ending=False)}" for mark, line in marked]


def _file_diff(old: SkillFile | None, new: SkillFile | None, name: str) -> str:
    present = new or old
    if present is None or old == new:
        return ""
    label = escaped(f"{name}/{present.path}").replace("\n", r"\u{000A}")
    was = old.content if old else b""
    now = new.content if new else b""
    mode = ""
    if (old.executable if old else False) != (new.executable if new else False):
        mode = f"Run bit of {label} {'set' if new and new.executable else 'cleared'}\n"
    if was == now and old and new:
        return mode
    if not (is_text(was) and is_text(now)):
        return f"{mode}Binary file {label} changed ({len(was)} -> {len(now)} bytes)\n"
    place = label.lstrip("/")
    head = f"--- {f'a/{place}' if old else '/dev/null'}\n+++ {f'b/{place}' if new else '/dev/null'}\n"
    return mode + head + _hunks(was.splitlines(keepends=True), now.splitlines(keepends=True))


def _hunks(old: Sequence[bytes], new: Sequence[bytes]) -> str:
    show_endings = len({_ending(line) for line in (*old, *new)} - {b""}) > 1
    groups: list[list[_Change]] = []
    for change in changes(old, new):
        if groups and change[0] - groups[-1][-1][1] <= 2 * _CONTEXT:
            groups[-1].append(change)
        else:
            groups.append([change])
    return "".join(_hunk(old, new, group, show_endings=show_endings) for group in groups)


def _hunk(old: Sequence[bytes], new: Sequence[bytes], group: list[_Change], *, show_endings: bool) -> str:
    lead = min(_CONTEXT, group[0][0])
    old_start, new_start = group[0][0] - lead, group[0][2] - lead
    trail = min(_CONTEXT, len(old) - group[-1][1])
    old_end, new_end = group[-1][1] + trail, group[-1][3] + trail
    marked: list[tuple[str, bytes]] = []
    at = old_start
    for i1, i2, j1, j2 in group:
        marked += ((" ", line) for line in old[at:i1])
        marked += (("-", line) for line in old[i1:i2])
        marked += (("+", line) for line in new[j1:j2])
        at = i2
    marked += ((" ", line) for line in old[at:old_end])
    head = f"@@ -{_range(old_start, old_end)} +{_range(new_start, new_end)} @@\n"
    return head + "".join(f"{mark}{_shown(line, show_ending=show_endings)}\n" for mark, line in marked)


def _range(start: int, end: int) -> str:
    if end - start == 1:
        return str(start + 1)
    return f"{start + 1 if end > start else start},{end - start}"


def _shown(line: bytes, *, show_ending: bool) -> str:
    ending = _ending(line)
    text = escaped(line.removesuffix(ending).decode())
    if not ending:
        return text + _NO_ENDING
    return text + escaped(ending.decode().removesuffix("\n")) if show_ending else text


def _ending(line: bytes) -> bytes:
    if line.endswith(b"\r\n"):
        return b"\r\n"
    return line[-1:] if line.endswith((b"\n", b"\r")) else b""
