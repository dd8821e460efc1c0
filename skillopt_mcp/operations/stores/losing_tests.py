"""Losing tests: which promotion tests a backup does not know of, so that their error rate would be spent again."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from skillopt_mcp.documents.counts import counted
from skillopt_mcp.errors import SkillOptError
from skillopt_mcp.store.copying import read_tests


def lost_tests(store_path: Path, backup: Path) -> tuple[str, ...]:
    """Return by skill what a store has of promotion tests that a backup has not; nothing of one that cannot be read."""
    if not store_path.exists():
        return ()
    try:
        tests, known = read_tests(store_path), {test for test, _, _ in read_tests(backup)}
    except SkillOptError:
        return ()
    lost: dict[str, list[float]] = defaultdict(list)
    for test, skill, alpha in tests:
        if test not in known:
            lost[skill].append(alpha)
    return tuple(
        f"{counted(len(of), 'promotion test')} of {skill}, which took {sum(of):.3f} of its error rate"
        for skill, of in lost.items()
    )
