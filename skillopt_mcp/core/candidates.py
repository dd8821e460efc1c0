"""Candidates: a parent version and a patch, under test; the decisions on them; and the promotions that follow."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from skillopt_mcp.core.edits import Edit, EditReport
from skillopt_mcp.core.skills import SkillFiles

GATE, PERSON = "promotion", "person"
"""The gates of decisions that promotion tests take, and of those that people take."""
CandidateOrigin = Literal["host", "step", "run", "person"]
PromotionKind = Literal["promote", "rollback"]
PromotionState = Literal["pending", "undoing", "done", "undone"]
AgreedBy = Literal["person", "permission", "none"]
AgreedOn = Literal["dialog", "terminal", "editor terminal", "rule"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A version proposed to follow `base_version`; `findings` of the guard, if any, hold it for a person."""

    id: str
    skill_id: int
    base_version: str
    version_id: str
    origin: CandidateOrigin
    reasoning: str
    findings: tuple[str, ...] = ()
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class NewCandidate:
    """A candidate on its way into the store, with the files it consists of and the edits that led to it."""

    candidate: Candidate
    files: SkillFiles
    edits: tuple[tuple[Edit, EditReport], ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """A gate's verdict; `inputs` (json) is all that it recomputes from, `scope` the run and step, or the test."""

    skill_id: int
    gate: str
    base_version: str
    version_id: str
    scope: str
    verdict: str
    reason: str
    inputs: str


@dataclass(frozen=True, slots=True)
class Promotion:
    """One change of a live skill; pending while it happens, undoing while it is taken back because it failed.

    `agreed_by` none: a command with --yes, or the demo's own rule. `login` is the name of who agreed, where known.
    """

    id: int
    skill_id: int
    kind: PromotionKind
    candidate_id: str | None
    from_version: str
    to_version: str
    state: PromotionState
    verdict: str
    agreed_by: AgreedBy
    agreed_on: AgreedOn
    login: str = ""
    created_at: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it is neither finished nor undone: it happens right now, or was cut short."""
        return self.state in ("pending", "undoing")

    @property
    def is_persons_rollback(self) -> bool:
        """Whether a person had it rolled back, or agreed to it."""
        return self.kind == "rollback" and self.agreed_by != "permission"

    @property
    def agreed(self) -> str:
        """Who agreed and on what, as a list shows it."""
        return f"{self.agreed_by}, {self.agreed_on}{self.login and f' ({self.login})'}"


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's agreement to one change, once, bound to all that they saw: `evidence` names the promotion test."""

    skill_id: int
    kind: PromotionKind
    from_version: str
    to_version: str
    findings: tuple[str, ...] = ()
    evidence: str = ""
    login: str = ""

    @property
    def finding_digests(self) -> frozenset[str]:
        """Return the sha256 (hex) of each thing that the guard found."""
        return frozenset(hashlib.sha256(each.encode("utf-8", "surrogatepass")).hexdigest() for each in self.findings)


@dataclass(frozen=True, slots=True)
class Consent:
    """Who agrees to a change of a live file and on what, and what the call covers besides.

    A tool call rests on an approval in a dialog (APPROVED), or on a standing permission as well (STANDING).
    """

    agreed_by: AgreedBy
    agreed_on: AgreedOn
    simulated: bool = False  # evidence from a simulation is enough
    unproven: bool = False  # nothing need be proven
    over_edit: bool = False  # an edit of the live file may be replaced

    APPROVED: ClassVar[Consent]
    STANDING: ClassVar[Consent]
    PERSON: ClassVar[Consent]
    PERSON_SIMULATED: ClassVar[Consent]
    DEMO: ClassVar[Consent]

    @property
    def is_of_a_tool(self) -> bool:
        """Whether a tool call asks: then a person has to have agreed before."""
        return self.agreed_on == "dialog" or self.agreed_by == "permission"


Consent.APPROVED = Consent("person", "dialog")
Consent.STANDING = Consent("permission", "rule")
Consent.PERSON = Consent("person", "terminal")
Consent.PERSON_SIMULATED = Consent("person", "terminal", simulated=True)
Consent.DEMO = Consent("none", "rule", simulated=True)


def candidate_id(skill_id: int, base_version: str, version_id: str) -> str:
    """Return the id of a candidate: the same change to the same version of a skill is the same candidate."""
    return "c-" + hashlib.sha256(f"{skill_id}:{base_version}:{version_id}".encode()).hexdigest()[:12]


def find_undone(changes: Sequence[Promotion]) -> frozenset[str]:
    """Return the versions that the newest change, a rollback, undid: all that was live since its target was."""
    last, *before = changes
    undone = {last.from_version}
    for each in before:
        if each.to_version == last.to_version:
            return frozenset(undone)
        undone.add(each.to_version)
        if each.from_version == last.to_version:
            return frozenset(undone)
        undone.add(each.from_version)
    return frozenset({last.from_version})


ON_TOP = "It was promoted, and the file was edited since: there is nothing to be done with it"


def edited_on_top(changes: Sequence[Promotion], version: str, live: str) -> bool:
    """Whether a version is what the last change left, and somebody's work on top of it is live."""
    return bool(changes) and changes[0].to_version == version != live


def find_rolled_back(changes: Sequence[Promotion]) -> frozenset[str]:
    """Return the versions that a person rolled back, and that were not restored since; changes come newest first."""
    closed: frozenset[str] = frozenset()
    for n in reversed(range(len(changes))):
        if changes[n].is_persons_rollback:
            closed |= find_undone(changes[n:])
        closed -= {changes[n].to_version}
    return closed
