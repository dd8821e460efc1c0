"""Consent: who agrees to a change of a live file, what a standing permission covers, and what a person declined."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

from skillopt_mcp.actions.repeats import describe_rolled_back_repeat
from skillopt_mcp.core.advice import advise_rebase
from skillopt_mcp.core.candidates import (
    ON_TOP,
    Approval,
    Candidate,
    Consent,
    PromotionKind,
    find_rolled_back,
)
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.redacting import KnownSecrets
from skillopt_mcp.core.results import Promoted
from skillopt_mcp.core.runs import Run
from skillopt_mcp.core.skills import Skill, is_memory, short
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.core.text import counted, escaped, unreadable
from skillopt_mcp.documents.code_lines import explain_large_edit
from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.gates.guard.capabilities import findings
from skillopt_mcp.store.decisions import Refusal, Refusals
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.permissions import Permission
from skillopt_mcp.store.promotion_tests import TestRow
from skillopt_mcp.tasks.judges.judging import asks_host
from skillopt_mcp.workspace.answers import fit_answer, shorten
from skillopt_mcp.workspace.evidence import is_host, is_simulated, kind_of
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import known, read_skill, root_for
from skillopt_mcp.workspace.skills import describe_endings

Status = Literal["promoted", "rolled_back", "refused", "stale", "held", "needs_approval"]
UNPROVEN = "unproven"
REASON_BYTES = 1_500
LOGIN_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class LiveChange:
    """A requested change of a live skill (`handle` names it in commands), with its candidate and its evidence."""

    skill: Skill
    handle: str
    kind: PromotionKind
    from_version: str
    to_version: str
    candidate: Candidate | None = None
    verdict: str = ""
    test: TestRow | None = None

    @property
    def simulated(self) -> bool:
        """Whether the evidence is from a simulation."""
        return self.test is not None and is_simulated(self.test.backend)

    @property
    def approval(self) -> Approval:
        """Return the approval that this change needs."""
        found = self.candidate.findings if self.candidate else ()
        evidence = self.test.id if self.test else ""
        return Approval(self.skill.id, self.kind, self.from_version, self.to_version, found, evidence)

    def step(self, why: str, **flags: bool) -> NextStep:
        """How a person makes this change at a terminal."""
        is_set: dict[str, JsonValue] = {name: True for name, flag in flags.items() if flag}
        if self.candidate:
            return NextStep.at_terminal("promote_skill", {"candidate_id": self.candidate.id, **is_set}, why)
        version = {"skill": self.handle, "version": short(self.to_version)}
        return NextStep.at_terminal("rollback_skill", {**version, **is_set}, why)


@dataclass(frozen=True, slots=True)
class Ready:
    """A change that may be made: who agreed to it, and by which approval or permission."""

    change: LiveChange
    consent: Consent
    login: str = ""
    approval_id: int | None = None
    permission: Permission | None = None


@dataclass(frozen=True, slots=True)
class NeedsPerson:
    """A change that lacks only a person's agreement: the approval that it needs, and the answer without one."""

    approval: Approval
    answer: Promoted


Check = Ready | NeedsPerson | Promoted


def answer(
    store: Store, change: LiveChange, status: Status, reason: str = "", next_step: NextStep | None = None
) -> Promoted:
    """The answer to a change, with the diff as long as one answer can hold it."""
    skill = change.skill
    old, new = (store.skills.get_files(skill.id, each) for each in (change.from_version, change.to_version))
    result = Promoted(
        status=status,
        skill=skill.name,
        skill_path=skill.path,
        version=short(change.to_version),
        previous_version=short(change.from_version),
        diff=unified_diff(old, new, skill.name),
        reason=shorten(reason, REASON_BYTES),
        next_step=next_step,
    )
    return fit_answer(result, "diff")


def stale(store: Store, change: LiveChange) -> Promoted:
    """Return the answer to a change whose base is no longer what is live."""
    files = read_skill(Path(change.skill.path))
    live, before = files.digest, store.skills.get_files(change.skill.id, change.from_version)
    last = next(iter(store.promotions.list_promotions(change.skill.id)), None)
    happened = describe_endings(before, files) or "it was edited since"
    if last and last.to_version == live:
        happened = "it was rolled back since" if last.kind == "rollback" else f"{last.candidate_id} was promoted since"
    why = f"the live file is version {short(live)}, not {short(change.from_version)}: {happened}"
    if not change.candidate:
        is_edited = last is not None and last.to_version != live
        if last and is_edited:
            why = f"version {short(last.to_version)} became live last, and its file was edited since"
        return answer(store, change, "stale", why, change.step("rolls back all the same", over_edit=is_edited))
    if last and last.to_version == change.to_version:
        return answer(store, change, "stale", why if live == change.to_version else f"{why}. {ON_TOP}")
    return answer(store, change, "stale", why, advise_rebase(change.candidate.id))


# Checking


def check_consent(store: Store, place: Place, change: LiveChange, consent: Consent) -> Check:
    """Whether the folder may be written, and whether somebody agreed."""
    if place.root_of(change.skill) is None:
        why = f"'{change.skill.path}' lies in no skill folder that may be written"
        root = {"folder": root_for(change.skill.path)}
        step = NextStep.at_terminal("skills add-root", root, "allows promotions there")
        return answer(store, change, "refused", why, step)
    if fault := unreadable(store.skills.get_files(change.skill.id, change.to_version)):
        why = f"a folder cannot hold this version so that it is read back as it is: {fault}"
        step = NextStep(action="inspect", arguments={"id": change.handle}, why="lists the other versions")
        if change.candidate:
            step = NextStep(action="propose_edits", arguments={"skill": change.handle}, why="propose other edits")
        return answer(store, change, "refused", why, step)
    if consent.is_of_a_tool:
        return _check_tool(store, place.secrets, change, consent)
    if change.simulated and change.verdict != UNPROVEN and not consent.simulated:
        why = "the evidence is from a simulation and says nothing about a real model"
        step = change.step("promotes it all the same", simulated=True)
        return answer(store, change, "refused", why, step)
    return Ready(change, consent, signature(place.login))


def _check_tool(store: Store, secrets: KnownSecrets, change: LiveChange, consent: Consent) -> Check:
    """Whether an approval of exactly this change, or a standing permission, covers a tool call."""
    if found := store.approvals.find_unused(change.approval):
        return Ready(change, replace(Consent.APPROVED, unproven=consent.unproven), found[1], found[0])
    if change.approval.findings:
        return _needs_person(store, change, "held", "; ".join(change.approval.findings))
    if change.to_version in find_rolled_back(store.promotions.list_promotions(change.skill.id)):
        return _needs_person(store, change, "needs_approval", "a person rolled it back; only a person puts it back")
    if last := store.table(Refusals).last_refusal(change.approval):
        return _needs_person(store, change, "needs_approval", f"at {_at(last)} the person was asked, and said no")
    if change.verdict == UNPROVEN:
        return _needs_person(store, change, "needs_approval", "no gain is proven; only a person adopts it so")
    if consent.agreed_by != "permission":
        return _needs_person(store, change, "needs_approval", "each change needs an approval here")
    permission = store.permissions.get(change.skill.id)
    missing = "" if permission else "no person has agreed to this change"
    if permission and change.simulated and not permission.simulated:
        missing = "the evidence is from a simulation"
    beyond = _beyond_any_permission(store, secrets, change)
    if not (missing or beyond):
        return Ready(change, consent, permission=permission)
    permit = None
    if not beyond:
        simulated = {"simulated": True} if change.simulated else {}
        arguments: dict[str, JsonValue] = {"skill": change.handle, **simulated}
        permit = NextStep.at_terminal("skills permit", arguments, "lets tools make such changes")
    return _needs_person(store, change, "needs_approval", missing or beyond[0], permit)


def _needs_person(
    store: Store, change: LiveChange, status: Status, why: str, permit: NextStep | None = None
) -> NeedsPerson:
    flags = {"simulated": change.simulated and change.candidate is not None, "unproven": change.verdict == UNPROVEN}
    step = change.step("a person has to agree, at a terminal", **flags)
    result = answer(store, change, status, why, step)
    return NeedsPerson(change.approval, result.model_copy(update={"permit": permit}))


# What a standing permission covers


def _beyond_any_permission(store: Store, secrets: KnownSecrets, change: LiveChange) -> list[str]:
    """Why no standing permission covers a change."""
    skill = change.skill
    files = (store.skills.get_files(skill.id, change.from_version), store.skills.get_files(skill.id, change.to_version))
    if change.kind == "rollback":
        last = next(iter(store.promotions.list_promotions(skill.id)), None)
        undone = last and last.kind == "promote" and (last.to_version, last.from_version)
        if undone != (change.from_version, change.to_version):
            return ["it does more than undo the last promotion"]
        if back := findings(*files, secrets, is_undo=True):
            return [f"it brings back what a person should see first: {'; '.join(back)}"]
        return [each for each in [explain_large_edit(*files)] if each]
    if change.candidate is None or change.test is None:
        return ["it was not tested"]
    tasks = store.tasks.list_by_id(change.test.tasks)
    unclaimed = [] if change.verdict == "better" else ["its test does not claim that it is better"]
    if store.permissions.find_unattended(change.test.id) is False:
        unclaimed.append("a script ran its test with a backend that no person remembered for agents")
    return [*unclaimed, *permission_gaps(store, change.candidate, tasks, change.test.backend)]


def permission_gaps(store: Store, candidate: Candidate, units: Sequence[Task], backend: str) -> list[str]:
    """Why no standing permission covers a candidate, whatever its test on these units by a backend says."""
    skill_id = candidate.skill_id
    files = (store.skills.get_files(skill_id, each) for each in (candidate.base_version, candidate.version_id))
    run = store.runs.get_run(candidate.run_id) if candidate.run_id else None
    of_run = source_gaps(store, run) if run else ["its edits cite no rollout of our own"]
    found = [describe_rolled_back_repeat(store, candidate), *evidence_gaps(units, backend), *of_run]
    return [each for each in [*found, explain_large_edit(*files)] if each]


def evidence_gaps(units: Sequence[Task], backend: str) -> list[str]:
    """Why a person should look at a test on these units, whose attempts are made and judged by a backend."""
    by_host = kind_of(backend) == "host" or asks_host(units)
    found = ["a host's agents made or judged the attempts of its test"] if by_host else []
    if n := sum(not task.looked_at for task in units):
        found.append(f"no person has looked at {n} of its {counted(len(units), 'held-out task')} (see tasks review)")
    return found


def source_gaps(store: Store, run: Run) -> list[str]:
    """Why edits of a run may be another's idea: it was shown more than our own rollouts of a person's tasks."""
    tasks = [task for task in store.tasks.list_tasks(run.skill_id) if task.id in run.tasks]
    later = (name for each in run.answering for role, name in each.fingerprints.items() if role != "optimizer")
    found = []
    if asks_host(tasks) or any(map(is_host, (run.target, run.judge, *later))):
        found.append("a host's agents made or judged the attempts that its edits come from")
    if store.permissions.find_unattended(run.id) is False:
        found.append("a script made its attempts with a backend that no person remembered for agents")
    train = [task for task in tasks if task.split == "train"]
    if n := sum(not task.looked_at for task in train):
        found.append(f"no person has looked at {n} of the {counted(len(train), 'train task')} that its edits come from")
    # An optimizer that saw a session may write of it where it names rollouts alone.
    if run.sessions:
        found.append("its edits come from recorded sessions, not from rollouts of our own alone")
    return found


# Giving and taking back


def permit(store: Store, place: Place, skill: str, *, simulated: bool) -> Skill:
    """Keep a standing permission to promote a skill's candidates that are better by evidence of our own processes.

    With `simulated` it covers a simulation, too.
    """
    tracked = place.skill(skill)
    store.permissions.set_permission(tracked.id, Permission(f"terminal{_by_login(place)}", simulated))
    return tracked


def revoke(store: Store, place: Place, skill: str) -> Skill:
    """Take a standing permission back."""
    tracked = place.find_recorded(skill)
    store.permissions.set_permission(tracked.id, None)
    return tracked


def add_root(store: Store, path: str) -> Path:
    """Register a folder whose skills may be promoted, or one memory file; return it with links resolved.

    Raises BadInput.
    """
    given = Path(os.path.expanduser(known(path)))
    root = Path(os.path.realpath(given))
    if not root.is_dir() and not (is_memory(str(root)) and root.is_file()):
        raise BadInput(f"'{given}' is not a folder: name the folder that holds the skill folders, or a memory file")
    if root in (Path(root.anchor), Path(os.path.realpath(os.path.expanduser("~")))):
        raise BadInput(f"'{root}' is too wide for a skill root: name the folder that holds the skill folders")
    if (root / "SKILL.md").exists():
        raise BadInput(f"'{root}' is a skill itself: name the folder that holds it, '{root.parent}'")
    store.permissions.add_root(str(root))
    return root


def agree(store: Store, place: Place, approval: Approval) -> int:
    """Keep a person's agreement to a change, for one promotion or rollback; return its id."""
    return store.approvals.add_approval(replace(approval, login=signature(place.login)))


def decline(store: Store, place: Place, approval: Approval, by_host: str = "") -> None:
    """Keep that a person declined a change in a dialog, or that a host did (its words).

    That a host did so, perhaps without asking anybody, is shown, and binds no one.
    """
    by = by_host or f"no, in a dialog{_by_login(place)}"
    store.table(Refusals).add_refusal(approval, by, "unheard" if by_host else "declined")


def signature(login: str) -> str:
    """Return the login of a person as it is kept."""
    return escaped(login)[:LOGIN_CHARACTERS]


def _by_login(place: Place) -> str:
    return f" ({login})" if (login := signature(place.login)) else ""


# Showing what was given


def describe_earlier_answer(store: Store, approval: Approval) -> list[str]:
    """How a person answered before who is asked about a change again."""
    refusals = store.table(Refusals)
    if last := refusals.last_refusal(approval):
        return [f"you said no at {_at(last)}"]
    unheard = refusals.last_refusal(approval, "unheard")
    return [f"declined at {_at(unheard)}, perhaps by the host itself"] if unheard else []


def _at(refusal: Refusal) -> str:
    """Return when a change was declined, in local time, with the day unless it is today."""
    at = datetime.fromisoformat(refusal.at).astimezone()
    return f"{at:%H:%M}" if at.date() == datetime.now().astimezone().date() else f"{at:%Y-%m-%d %H:%M}"
