"""The index of skills that hosts read: one answer, however many skills there are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from full_server import World

from skillopt_mcp.server.library import Library


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_index_of_many_skills_is_one_answer_and_says_how_many_are_left_out(world: World) -> None:
    def track(numbers: range) -> None:
        for n in numbers:
            folder = world.main.parent.parent / f"another-skill-{n:03d}"
            folder.mkdir()
            (folder / "SKILL.md").write_text(f"# {n}\n")
            world.workspace.skill(str(folder))

    def index() -> list[dict[str, object]]:
        told, _ = Library(world.workspace).read("skillopt://skills")
        assert isinstance(told, str)
        assert len(told.encode()) < 10_000
        rows: list[dict[str, object]] = json.loads(told)
        return rows

    track(range(60))
    rows = index()
    assert (len(rows), rows[0]) == (61, {"name": "another-skill-000", "tracked": True, "next_step": "add_tasks"})
    track(range(60, 400))
    *rows, last = index()
    assert last == {"left_out": 401 - len(rows), "next_step": "list_skills lists all, a page at a time"}
    assert len(rows) > 100
