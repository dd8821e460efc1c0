"""Sourcing: which attempts an edit came from, and which of them its author names."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_mcp.documents.counts import counted
from skillopt_mcp.records.edits import UNSHOWN, Edit

_RECORDED = "trajectory:"
_SHOWN = 20


def told_sources(edit: Edit) -> str:
    """Return from how many attempts an edit came, which can be inspected, and those that it rests on by its author."""
    return f"{_told(edit.sources)}{_cited(edit)}"


def _cited(edit: Edit) -> str:
    cited = [each for each in edit.cited if not each.startswith(UNSHOWN)]
    strange = [each.removeprefix(UNSHOWN) for each in edit.cited if each.startswith(UNSHOWN)]
    named = "all of them" if set(cited) == set(edit.sources) else _told(cited)
    rests = f", and rests on {named} by its author's word" if cited else ""
    numbers = "a number that no attempt has" if len(strange) == 1 else "numbers that no attempt has"
    return f"{rests}; its author named {numbers}: {', '.join(strange[:_SHOWN])}" if strange else rests


def _told(ids: Sequence[str]) -> str:
    """Return how many attempts these are, and the names of those that were recorded."""
    numbers = (id.removeprefix(_RECORDED) for id in ids if id.startswith(_RECORDED))
    recorded = sorted(int(number) for number in numbers if number.isascii() and number.isdigit() and len(number) < 19)
    n_own = len(ids) - len(recorded)
    more = f" and {len(recorded) - _SHOWN:,} more" if len(recorded) > _SHOWN else ""
    named = [f"{', '.join(f'{_RECORDED}{n}' for n in recorded[:_SHOWN])}{more}"] if recorded else []
    own = [counted(n_own, "rollout")] if n_own and recorded else []
    shown = f" ({'; '.join([*named, *own])})" if named else ""
    return f"{counted(len(ids), 'trajectory', 'trajectories')}{shown}"
