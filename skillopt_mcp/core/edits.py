"""Edits: bounded changes to a skill, as a model proposes them and as the edit engine reports on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skillopt_mcp.core.skills import MAIN_FILE, SkillFiles

Op = Literal["append", "insert_after", "replace", "delete", "set_description"]
UNSHOWN = "unshown:"
"""How a citation begins that is of no attempt which its author was shown; the number that it gave follows."""
UnmatchedReason = Literal["not_found", "ambiguous", "protected", "overlap", "no_change", "invalid"]


@dataclass(frozen=True, slots=True)
class Edit:
    """One change: `target` is the exact anchor text (for insert_after, replace, delete), `content` the new text.

    `sources` names the trajectories that its author was shown, `cited` those of them that it rests on, which `support`
    counts. A number that the author gave and no attempt has stands there behind UNSHOWN.
    """

    op: Op
    target: str | None = None
    content: str | None = None
    path: str = MAIN_FILE
    sources: tuple[str, ...] = ()
    from_failure: bool = True
    cited: tuple[str, ...] = ()

    @property
    def support(self) -> int:
        """How many attempts the edit cites."""
        return sum(not each.startswith(UNSHOWN) for each in self.cited)


@dataclass(frozen=True, slots=True)
class Patch:
    """Edits that belong together, and why."""

    edits: tuple[Edit, ...]
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class EditReport:
    """What became of the edit at `index` of a patch; `detail` says what to change when it is unmatched."""

    index: int
    op: Op
    path: str
    status: Literal["applied", "unmatched"]
    reason: UnmatchedReason | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of a patch: the new files (equal to the parent's when nothing applied) and one report per edit."""

    files: SkillFiles
    reports: tuple[EditReport, ...]
