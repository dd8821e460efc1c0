"""Gating: what a gate found of the skills that differ between two git revisions."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.core.evidence import TestReport, Verdict

Require = Literal["better", "no-worse", "any-but-worse"]
Claim = Literal["", "on these cases", "on tasks like these"]


class GatedTasks(BaseModel):
    """The tasks that a skill was tested on: where they are from, and whether the head changes those of the base."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, serialize_by_alias=True)
    origin: Literal["base", "head", "store", "given"] = Field(alias="from")
    n: int
    changed: bool = False


class WorseTask(BaseModel):
    """A task that got worse; answers are shown only of one that the author of the head can read."""

    model_config = ConfigDict(frozen=True)
    id: str
    tags: list[str] = Field(default_factory=list)
    old_answer: str | None = None
    new_answer: str | None = None


class GatedSkill(BaseModel):
    """A skill, memory file or description that differs; `path` is in the repository, `before` where it was renamed.

    `why` is one sentence: what would decide, or why it could not run. The `test_number` counts the tests of the pull
    request; where that is not known (`number_known`), it is at least so many.
    """

    model_config = ConfigDict(frozen=True)
    path: str
    change: Literal["changed", "added", "deleted", "renamed"]
    before: str = ""
    outcome: Literal["passed", "neutral", "failed", "not_run"] = "not_run"
    verdict: Verdict | None = None
    claim: Claim = ""
    why: str = ""
    tasks: GatedTasks | None = None
    test_number: int = 1
    number_known: bool = False
    report: TestReport | None = None
    worse: list[WorseTask] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


class GateUsed(BaseModel):
    """What the tests of a gate used; `usd` is None where a price is not known."""

    model_config = ConfigDict(frozen=True)
    calls: int = 0
    tokens: int = 0
    usd: float | None = 0.0


class Gated(BaseModel):
    """What a gate found between two commits; `head` is "" for the working tree.

    `command` repeats it. `stopped` is "" or why nothing could be asked.
    """

    model_config = ConfigDict(frozen=True)
    base: str
    head: str
    require: Require = "any-but-worse"
    skills: list[GatedSkill] = Field(default_factory=list)
    used: GateUsed = GateUsed()
    command: str = ""
    stopped: str = ""

    @property
    def exit_code(self) -> int:
        """0 where all passed or are neutral, 1 for a verdict below what is required, 2 where one could not run."""
        outcomes = {skill.outcome for skill in self.skills}
        return 1 if "failed" in outcomes else 2 if self.stopped or "not_run" in outcomes else 0

    def for_agents(self) -> Gated:
        """The same as the author of an edit sees it: which passed, and no more of a test."""
        why = "It was not accepted."
        hidden: dict[str, object] = {"verdict": None, "claim": "", "why": why, "report": None, "worse": []}
        skills = [
            each if each.report is None
            else each.model_copy(update=hidden | ({"why": ""} if each.outcome == "passed" else {"outcome": "neutral"}))
            for each in self.skills
        ]  # fmt: skip
        return self.model_copy(update={"skills": skills, "used": GateUsed()})
