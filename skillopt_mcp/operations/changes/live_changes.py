"""Live changes: one change of a live skill that somebody asks for, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.operations.finding import called
from skillopt_mcp.operations.host_work.going_on import told_again
from skillopt_mcp.operations.paging import fitted, shortened
from skillopt_mcp.operations.results import Promoted
from skillopt_mcp.operations.skills.endings import told_endings
from skillopt_mcp.operations.testing.evaluating import ON_TOP, is_simulated
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import Approval, Candidate, PromotionKind
from skillopt_mcp.records.skills import Skill, SkillFiles, short
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.store.opening import Store

Status = Literal["promoted", "rolled_back", "refused", "stale", "undecided", "held", "needs_approval"]
REASON_BYTES = 1_500
UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a live skill that is asked for, with what the guard found in it and the test that speaks for it."""

    skill: Skill
    kind: PromotionKind
    from_version: str
    to_version: str
    candidate: Candidate | None = None
    verdict: str = ""
    test: ConfirmationRow | None = None

    @property
    def candidate_id(self) -> str | None:
        """Return the id of the candidate, None for a rollback."""
        return self.candidate.id if self.candidate else None

    @property
    def findings(self) -> tuple[str, ...]:
        """Return what the guard found."""
        return self.candidate.findings if self.candidate else ()

    @property
    def simulated(self) -> bool:
        """Return whether the evidence is from a simulation."""
        return self.test is not None and is_simulated(self.test.backend)

    @property
    def approval(self) -> Approval:
        """Return the approval that this change would need; whoever gives it says where."""
        evidence = self.test.id if self.test else ""
        return Approval(self.skill.id, self.kind, self.from_version, self.to_version, self.findings, evidence)

    def command(self, store: Store) -> str:
        """Return what a person types for it, behind the program's name."""
        if self.candidate:
            return f"promote {self.candidate.id}"
        return f"rollback {called(store, self.skill)} {short(self.to_version)}"


def answer(
    workspace: Workspace,
    change: Change,
    status: Status,
    reason: str,
    next_step: str = "",
    before: SkillFiles | None = None,
) -> Promoted:
    """Return the answer to a change, with the diff as long as one answer can hold it."""
    store, skill = workspace.store, change.skill
    old = before or store.skills.get_files(skill.id, change.from_version)
    new = store.skills.get_files(skill.id, change.to_version)
    result = Promoted(
        status=status,
        skill=skill.name,
        skill_path=skill.path,
        version=short(change.to_version),
        previous_version=short(change.from_version),
        diff=unified_diff(old, new, skill.name),
        reason=shortened(reason, REASON_BYTES),
        next_step=shortened(next_step, REASON_BYTES),
    )
    return fitted(result, "diff")


def stale(workspace: Workspace, change: Change) -> Promoted:
    """Return the answer to a change whose base is no longer what is live."""
    files, store = workspace.live(change.skill), workspace.store
    live, before = files.digest, store.skills.get_files(change.skill.id, change.from_version)
    last = next(iter(store.promotions.list_promotions(change.skill.id)), None)
    happened = told_endings(before, files) or "Somebody edited the file. Their edit is kept"
    if last and last.to_version == live:
        happened = f"Candidate {last.candidate_id} was promoted since, and stays"
        if last.kind == "rollback":
            happened = f"The skill was rolled back to {short(live)} since, and stays there"
    if change.candidate:
        again = f"{told_again(change.candidate.id)}."
    else:
        over = " --over-edit" if last and last.to_version != live else ""
        again = f"to go back all the same, a person types at a terminal: skillopt-mcp {change.command(store)}{over}"
    promoted = change.candidate is not None and last is not None and last.to_version == change.to_version
    told = f"{happened}: {again}"
    if promoted:
        told = "It was promoted meanwhile: it is what is live." if change.to_version == live else f"{ON_TOP}."
    return answer(
        workspace,
        change,
        "stale",
        f"the live file is version {short(live)}, which is not the one this change was made for",
        told,
    )
