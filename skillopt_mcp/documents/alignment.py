"""Alignment: which lines of two texts are the same, in time that stays close to linear (patience diff)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

Line = bytes
_SMALL = 40_000
_Block = tuple[int, int, int, int]


def changes(old: Sequence[Line], new: Sequence[Line]) -> list[tuple[int, int, int, int]]:
    """Return what differs as (old start, old end, new start, new end), in order; all else is the same line by line."""
    found: list[_Block] = []
    work: list[_Block] = [(0, len(old), 0, len(new))]
    while work:
        block = _trimmed(old, new, work.pop())
        old_start, old_end, new_start, new_end = block
        if old_start == old_end and new_start == new_end:
            continue
        pairs = _unique_pairs(old, new, block) if old_start < old_end and new_start < new_end else []
        if pairs:
            work += reversed(_between(block, pairs))
        else:
            found += _compared(old, new, block)
    return found


def _trimmed(old: Sequence[Line], new: Sequence[Line], block: _Block) -> _Block:
    old_start, old_end, new_start, new_end = block
    while old_start < old_end and new_start < new_end and old[old_start] == new[new_start]:
        old_start, new_start = old_start + 1, new_start + 1
    while old_start < old_end and new_start < new_end and old[old_end - 1] == new[new_end - 1]:
        old_end, new_end = old_end - 1, new_end - 1
    return old_start, old_end, new_start, new_end


def _unique_pairs(old: Sequence[Line], new: Sequence[Line], block: _Block) -> list[tuple[int, int]]:
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


def _between(block: _Block, pairs: list[tuple[int, int]]) -> list[_Block]:
    old_start, old_end, new_start, new_end = block
    blocks = []
    for old_at, new_at in pairs:
        blocks.append((old_start, old_at, new_start, new_at))
        old_start, new_start = old_at + 1, new_at + 1
    return [*blocks, (old_start, old_end, new_start, new_end)]


def _compared(old: Sequence[Line], new: Sequence[Line], block: _Block) -> list[_Block]:
    old_start, old_end, new_start, new_end = block
    if (old_end - old_start) * (new_end - new_start) > _SMALL:
        return [block]
    matcher = SequenceMatcher(None, old[old_start:old_end], new[new_start:new_end], autojunk=False)
    return [
        (old_start + i1, old_start + i2, new_start + j1, new_start + j2)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]
