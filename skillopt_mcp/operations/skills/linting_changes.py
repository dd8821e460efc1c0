"""Linting changes: what is wrong with the skills of a checkout that differ from a base, as a branch left it."""

from __future__ import annotations

import os
from pathlib import Path

from skillopt_mcp.operations.skills.checkouts import differing_skills
from skillopt_mcp.operations.skills.linting import Finding, LintedAll, LintedFolder, lint_skills, near
from skillopt_mcp.operations.workspace import Workspace


class LintedChanged(LintedAll):
    """What is wrong with the skills that differ from a base; `deleted` are the folders of those that are gone.

    `renamed` tells of others that are gone where git finds them again.
    """

    deleted: list[str]
    renamed: dict[str, str]


def lint_changed(workspace: Workspace, base: str) -> LintedChanged:
    """Return what is wrong with the skills of the checkout here that changed since it left `base`, as they are on disk.

    Raises BadInput where git cannot tell which these are.
    """
    found = differing_skills(Path.cwd(), base)
    linted = lint_skills(workspace, [near(folder) for folder in found.changed])
    unseen = [_not_there(folder) for folder in found.unseen]
    return LintedChanged(
        skills=[*linted.skills, *unseen],
        errors=linted.errors,
        advice=linted.advice + len(unseen),
        deleted=[os.path.relpath(folder) for folder in found.deleted],
        renamed={os.path.relpath(old): os.path.relpath(new) for old, new in found.renamed.items()},
    )


def _not_there(checkout: Path) -> LintedFolder:
    text = "it has changed, and was not looked at, for nothing of it is there: git submodule update --init"
    finding = Finding(severity="advice", text=text)
    return LintedFolder(skill=near(checkout), skill_path=str(checkout), findings=[finding])
