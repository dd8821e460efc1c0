"""Linting: where a live skill departs from the Agent Skills specification."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.documents.lint import lint
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.skills import short


class Linted(BaseModel):
    """The problems of one version of a skill, one sentence each."""

    model_config = ConfigDict(frozen=True)
    skill: str
    skill_path: str
    version: str
    problems: list[str]


def lint_skill(workspace: Workspace, skill: str) -> Linted:
    """Return what is wrong with a skill as it is on disk. Raises NotFound, BadSkill."""
    tracked = workspace.skill(skill)
    files = workspace.store.skills.get_files(tracked.id, tracked.live_version)
    return Linted(
        skill=tracked.name,
        skill_path=tracked.path,
        version=short(tracked.live_version),
        problems=list(lint(files, Path(tracked.path).name)),
    )
