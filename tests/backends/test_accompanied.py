"""A target with a companion sees both documents, and its evidence counts for that companion alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from skillopt_mcp.backends.agents.places import Place
from skillopt_mcp.backends.agents.working_copy import lay_out
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.wrappers import WithCompanion
from skillopt_mcp.judges.kinds.text import Exact
from skillopt_mcp.records.calls import Call, Question, Rollout
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.records.tasks import Task

TASK = Task(1, 1, "one", "What is due?", Exact(expected="1"), "train", "digest")
SKILL = SkillFiles((SkillFile(MAIN_FILE, b"# Skill\n"), SkillFile("references/more.md", b"More.\n")))
MEMORY = SkillFiles((SkillFile("CLAUDE.md", b"# Memory\n"),))


def asked(backend: WithCompanion, request: Rollout | Question) -> None:
    stage = "rollout" if isinstance(request, Rollout) else "reflect"
    asyncio.run(backend.complete(Call("target", stage, request, "draw")))  # type: ignore[arg-type]


def test_an_attempt_sees_the_skill_and_the_memory_whichever_is_trained() -> None:
    target = Scripted(lambda call: "1")
    asked(WithCompanion(target, MEMORY, "project:CLAUDE.md"), Rollout(SKILL, TASK))
    asked(WithCompanion(target, SKILL, "clerk"), Rollout(MEMORY, TASK))
    first, second = (call.request for call in target.calls)
    assert first == second == Rollout(SkillFiles((*SKILL.files, *MEMORY.files)), TASK, "CLAUDE.md")
    assert first.files.text == "# Skill\n\n\n=== CLAUDE.md ===\n# Memory\n\n\n=== references/more.md ===\nMore.\n"


def test_name_and_fingerprint_include_the_companion() -> None:
    target = Scripted(lambda call: "1")
    other = SkillFiles((SkillFile("CLAUDE.md", b"# Other memory\n"),))
    ours, theirs = (WithCompanion(target, files, "project:CLAUDE.md") for files in (MEMORY, other))
    assert ours.name == f"scripted beside project:CLAUDE.md@{MEMORY.digest[:12]}"
    assert len({target.fingerprint, ours.fingerprint, theirs.fingerprint}) == 3
    assert ours.fingerprint == WithCompanion(target, MEMORY, "renamed:CLAUDE.md").fingerprint


def test_a_host_finds_the_memory_where_its_work_begins_and_the_skill_where_skills_are(tmp_path: Path) -> None:
    both, alone = Place(tmp_path / "both"), Place(tmp_path / "alone")
    whole = SkillFiles((*SKILL.files, *MEMORY.files))
    assert lay_out(both, Rollout(whole, TASK, "CLAUDE.md"), ".claude/skills") == "skill"
    assert (both.work / "CLAUDE.md").read_text() == "# Memory\n"
    assert sorted(each.name for each in (both.work / ".claude/skills/skill").iterdir()) == [MAIN_FILE, "references"]
    assert lay_out(alone, Rollout(MEMORY, TASK), ".claude/skills") is None
    assert [each.name for each in alone.work.iterdir()] == ["CLAUDE.md"]
