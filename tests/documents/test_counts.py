"""Counts: one of something is told in the singular."""

from __future__ import annotations

from skillopt_mcp.documents.counts import counted


def test_only_one_of_something_is_told_in_the_singular() -> None:
    assert [counted(n, "task") for n in (0, 1, 2, 1_000)] == ["0 tasks", "1 task", "2 tasks", "1,000 tasks"]
    assert [counted(n, "reply", "replies") for n in (1, 2)] == ["1 reply", "2 replies"]
