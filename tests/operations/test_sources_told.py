"""Sources: a candidate tells which recorded attempts each of its edits came from."""

from __future__ import annotations

from benchmarks.lessons import LESSONS
from benchmarks.redteam import SESSIONS, honest, yard
from skillopt_mcp.operations.looks.inspecting import inspect


def test_a_candidate_names_the_attempts_that_its_edits_came_from() -> None:
    with yard() as made:
        assert honest(made, LESSONS[0]).proposed == "candidate"
        skill = made.workspace.store.skills.list_skills()[0]
        [candidate] = made.workspace.store.candidates.list_candidates(skill.id)
        told = inspect(made.workspace, candidate.id).text
    ids = ", ".join(f"trajectory:{n + 1}" for n in range(SESSIONS))
    assert f"edit 0: append SKILL.md: applied; from {SESSIONS} trajectories ({ids})" in told
