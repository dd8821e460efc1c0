"""Differences of two versions: which lines are the same (patience diff), as a unified diff, and as edits."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from skillopt_mcp.core.edits import Edit
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.core.text import BOM, escaped, is_text, to_lf
from skillopt_mcp.documents import frontmatter

_SMALL = 40_000
_Block = tuple[int, int, int, int]


def find_changes(old: Sequence[bytes], new: Sequence[bytes]) -> list[_Block]:
    """The differences as (old start, old end, new start, new end), in order; all else is the same line by line.

    Lines that both sides have exactly once part the rest, as in a patience diff; what is small is compared in full.
    """
    found: list[_Block] = []
    work: list[_Block] = [(0, len(old), 0, len(new))]
    while work:
        old_start, old_end, new_start, new_end = work.pop()
        while old_start < old_end and new_start < new_end and old[old_start] == new[new_start]:
            old_start, new_start = old_start + 1, new_start + 1
        while old_start < old_end and new_start < new_end and old[old_end - 1] == new[new_end - 1]:
            old_end, new_end = old_end - 1, new_end - 1
        block = (old_start, old_end, new_start, new_end)
        if old_start == old_end or new_start == new_end:
            found += [block] if old_start < old_end or new_start < new_end else []
        elif pairs := _pair_unique_lines(old, new, block):
            blocks = []
            for old_at, new_at in (*pairs, (old_end, new_end)):
                blocks.append((old_start, old_at, new_start, new_at))
                old_start, new_start = old_at + 1, new_at + 1
            work += reversed(blocks)
        elif (old_end - old_start) * (new_end - new_start) > _SMALL:
            found.append(block)
        else:
            matcher = SequenceMatcher(None, old[old_start:old_end], new[new_start:new_end], autojunk=False)
            found += [
                (old_start + i1, old_start + i2, new_start + j1, new_start + j2)
                for tag, i1, i2, j1, j2 in matcher.get_opcodes()
                if tag != "equal"
            ]
    return found


def _pair_unique_lines(old: Sequence[bytes], new: Sequence[bytes], block: _Block) -> list[tuple[int, int]]:
    """Return the longest rising series of lines that both sides have exactly once, as (old index, new index)."""
    old_start, old_end, new_start, new_end = block
    n_old, n_new = Counter(old[old_start:old_end]), Counter(new[new_start:new_end])
    place = {new[at]: at for at in range(new_start, new_end) if n_new[new[at]] == 1}
    pairs = [(at, place[old[at]]) for at in range(old_start, old_end) if n_old[old[at]] == 1 and old[at] in place]
    tails: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for index, (_, at) in enumerate(pairs):
        rank = bisect_left(tails, at)
        tails[rank : rank + 1] = [at]
        ends[rank : rank + 1] = [index]
        previous.append(ends[rank - 1] if rank else -1)
    series: list[tuple[int, int]] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        series.append(pairs[index])
        index = previous[index]
    return series[::-1]


_CONTEXT = 3
_NO_ENDING = "\n\\ No newline at end of file"


def unified_diff(before: SkillFiles, after: SkillFiles, name: str) -> str:
    r"""Return the unified diff of all files, empty when nothing changed; `name` (the skill's) leads the paths.

    Hidden, bidirectional and control characters are shown as \u{XXXX}. Line endings are shown so where the two sides do
    not all have the same kind. A file that is not text, or whose run bit changed, is one line.
    """
    paths = sorted({file.path for file in (*before.files, *after.files)})
    return "".join(_diff_file(before.get(path), after.get(path), name) for path in paths)


def differ_in_white_space_only(before: SkillFiles, after: SkillFiles) -> bool:
    """Whether two texts differ, and say the same words in the same order."""
    words = [[(file.path, file.content.split()) for file in files.files] for files in (before, after)]
    return before != after and words[0] == words[1]


def list_changed_lines(before: SkillFiles, after: SkillFiles) -> list[list[str]]:
    """The lines that each changed file lost and gained, as a diff shows them; none of a file that is not text."""
    rows: list[list[str]] = []
    for path in sorted({file.path for file in (*before.files, *after.files)}):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        rows.append([])
        was, now = (file.content if file else b"" for file in (old, new))
        if is_text(was) and is_text(now):
            lost, gained = was.splitlines(keepends=True), now.splitlines(keepends=True)
            for i1, i2, j1, j2 in find_changes(lost, gained):
                rows[-1] += (f"-{_show_line(line, show_ending=False)}" for line in lost[i1:i2])
                rows[-1] += (f"+{_show_line(line, show_ending=False)}" for line in gained[j1:j2])
    return rows


def _diff_file(old: SkillFile | None, new: SkillFile | None, name: str) -> str:
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
    lost, gained = was.splitlines(keepends=True), now.splitlines(keepends=True)
    groups: list[list[_Block]] = []
    for change in find_changes(lost, gained):
        if groups and change[0] - groups[-1][-1][1] <= 2 * _CONTEXT:
            groups[-1].append(change)
        else:
            groups.append([change])
    show_endings = len({_find_ending(line) for line in (*lost, *gained)} - {b""}) > 1
    return mode + head + "".join(_format_hunk(lost, gained, group, show_endings=show_endings) for group in groups)


def _format_hunk(old: Sequence[bytes], new: Sequence[bytes], group: list[_Block], *, show_endings: bool) -> str:
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
    head = f"@@ -{_format_range(old_start, old_end)} +{_format_range(new_start, new_end)} @@\n"
    return head + "".join(f"{mark}{_show_line(line, show_ending=show_endings)}\n" for mark, line in marked)


def _format_range(start: int, end: int) -> str:
    if end - start == 1:
        return str(start + 1)
    return f"{start + 1 if end > start else start},{end - start}"


def _show_line(line: bytes, *, show_ending: bool) -> str:
    ending = _find_ending(line)
    text = escaped(line.removesuffix(ending).decode())
    if not ending:
        return text + _NO_ENDING
    return text + escaped(ending.decode().removesuffix("\n")) if show_ending else text


def _find_ending(line: bytes) -> bytes:
    if line.endswith(b"\r\n"):
        return b"\r\n"
    return line[-1:] if line.endswith((b"\n", b"\r")) else b""


def derive_edits(before: SkillFiles, after: SkillFiles) -> tuple[Edit, ...]:
    """Return the edits of text files that lead from `before` to `after`, one for each place that differs.

    Each anchor is as many whole lines around its place as occur there alone. A file that went away gives none.
    """
    edits: list[Edit] = []
    for file in after.files:
        old = before.get(file.path)
        if old == file or not is_text(file.content):
            continue
        if old is None:
            edits.append(Edit("append", content=_decode(file.content), path=file.path))
        elif is_text(old.content):
            edits += _list_edits(file.path, old.content, file.content)
    return tuple(edits)


def _list_edits(path: str, old: bytes, new: bytes) -> Iterator[Edit]:
    fronts = frontmatter.read(old), frontmatter.read(new)
    if fronts[0] and fronts[1]:
        description = fronts[1].description
        if description is not None and description != fronts[0].description:
            yield Edit("set_description", content=description, path=path)
        old, new = old[fronts[0].end :], new[fronts[1].end :]
    lines, after = to_lf(old).splitlines(keepends=True), to_lf(new).splitlines(keepends=True)
    for start, end, inside in _find_unique_ranges(lines, find_changes(lines, after)):
        written, at = list[bytes](), start
        for old_start, old_end, new_start, new_end in inside:
            written += [*lines[at:old_start], *after[new_start:new_end]]
            at = old_end
        target, content = b"".join(lines[start:end]), b"".join([*written, *lines[at:end]])
        yield (
            Edit("replace", _decode(target), _decode(content), path)
            if target
            else Edit("append", None, _decode(content), path)
        )


def _find_unique_ranges(lines: list[bytes], found: list[_Block]) -> list[tuple[int, int, list[_Block]]]:
    """Return ranges of lines that no other place of the text is like, in order, each with the changes inside it."""
    apart: list[tuple[int, int, list[_Block]]] = []
    text = b"".join(lines)
    for change in found:
        start, end = change[0], change[1]
        while start > 0 or end < len(lines):
            part = b"".join(lines[start:end])
            if part and text.find(part, text.find(part) + 1) < 0:
                break
            start, end = max(start - 1, 0), min(end + 1, len(lines))
        inside = [change]
        while apart and start < apart[-1][1]:
            earlier = apart.pop()
            start, end, inside = min(start, earlier[0]), max(end, earlier[1]), [*earlier[2], *inside]
        apart.append((start, end, inside))
    return apart


def _decode(content: bytes) -> str:
    return content.removeprefix(BOM).decode("utf-8", "replace")
