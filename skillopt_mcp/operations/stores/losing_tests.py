"""Losing tests: which promotion tests a backup does not know of, so that their error rate would be spent again."""

from __future__ import annotations

from pathlib import Path

from skillopt_mcp.documents.counts import counted
from skillopt_mcp.errors import SkillOptError
from skillopt_mcp.store.opening import Store


def lost_tests(store_path: Path, backup: Path) -> tuple[str, ...]:
    """Return by skill what a store has of promotion tests that a backup has not; nothing of one that cannot be read."""
    if not store_path.exists():
        return ()
    try:
        with Store(store_path) as store, Store(backup) as before:
            tests = [(skill, store.decisions.list_tests(skill.id)) for skill in store.skills.list_skills()]
            known = {each.id for _, of in tests for each in of if before.decisions.find_confirmation(each.id)}
    except SkillOptError:
        return ()
    return tuple(
        f"{counted(len(lost), 'promotion test')} of {skill.name}, which took {sum(each.alpha for each in lost):.3f} of "
        "its error rate"
        for skill, of in tests
        if (lost := [each for each in of if each.id not in known])
    )
