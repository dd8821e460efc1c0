"""Consent: a change that is asked for, who agrees to it, and what a standing permission covers."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import JsonValue

from skillopt_mcp.candidates import told_repeated
from skillopt_mcp.documents.code_lines import code_touched
from skillopt_mcp.documents.diffs import changes, unified_diff
from skillopt_mcp.documents.frontmatter import block_end
from skillopt_mcp.documents.text import counted, escaped, is_text, quoted, unreadable
from skillopt_mcp.errors import BadInput
from skillopt_mcp.evidence import is_judged_by_host
from skillopt_mcp.gates.confirm import PAIRS_AT_ONCE
from skillopt_mcp.gates.recompute import ConfirmInputs
from skillopt_mcp.gates.serving import told_served
from skillopt_mcp.guard.capabilities import findings, secrets_added
from skillopt_mcp.judges.judging import leaves
from skillopt_mcp.judges.kinds.reported import ByHost
from skillopt_mcp.next_step import rebasing
from skillopt_mcp.promotion_tests import ON_TOP, evidence_so_far, is_simulated
from skillopt_mcp.records.candidates import (
    AgreedBy,
    AgreedOn,
    Approval,
    Candidate,
    PromotionKind,
    candidate_id,
    rolled_back,
)
from skillopt_mcp.records.next_step import NextStep
from skillopt_mcp.records.results import Promoted
from skillopt_mcp.records.skills import Skill, SkillFiles, is_memory, short
from skillopt_mcp.skill_folders import known, root_for
from skillopt_mcp.skills import told_endings
from skillopt_mcp.store.decisions import ConfirmationRow, Refusal, Refusals
from skillopt_mcp.store.permissions import Permission
from skillopt_mcp.store.promotions import UnusedApproval
from skillopt_mcp.training.confirmation import answers_alike, begun_anew, net_staked, retired_losses
from skillopt_mcp.workspace import Workspace, fitted, shortened

Status = Literal["promoted", "rolled_back", "refused", "stale", "undecided", "held", "needs_approval"]
REASON_BYTES = 1_500
UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a live skill that is asked for: which (`handle` in commands), its candidate, and its evidence."""

    skill: Skill
    handle: str
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

    def step(self, why: str, **flags: bool) -> NextStep:
        """Return how a person makes this change at a terminal."""
        arguments: dict[str, JsonValue] = {name: True for name, is_set in flags.items() if is_set}
        if self.candidate:
            return NextStep.at_terminal("promote_skill", {"candidate_id": self.candidate.id, **arguments}, why)
        of = {"skill": self.handle, "version": short(self.to_version)}
        return NextStep.at_terminal("rollback_skill", {**of, **arguments}, why)


def answer(
    workspace: Workspace,
    change: Change,
    status: Status,
    reason: str = "",
    next_step: NextStep | None = None,
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
        next_step=next_step,
    )
    return fitted(result, "diff")


def stale(workspace: Workspace, change: Change) -> Promoted:
    """Return the answer to a change whose base is no longer what is live."""
    files, store = workspace.live(change.skill), workspace.store
    live, before = files.digest, store.skills.get_files(change.skill.id, change.from_version)
    last = next(iter(store.promotions.list_promotions(change.skill.id)), None)
    happened = told_endings(before, files) or "it was edited since"
    if last and last.to_version == live:
        happened = "it was rolled back since" if last.kind == "rollback" else f"{last.candidate_id} was promoted since"
    why = f"the live file is version {short(live)}, not {short(change.from_version)}: {happened}"
    if not change.candidate:
        is_edited = last is not None and last.to_version != live
        return answer(workspace, change, "stale", why, change.step("rolls back all the same", over_edit=is_edited))
    if last and last.to_version == change.to_version:
        return answer(workspace, change, "stale", why if live == change.to_version else f"{why}. {ON_TOP}")
    return answer(workspace, change, "stale", why, rebasing(change.candidate.id))


def guarded(workspace: Workspace, candidate: Candidate) -> Candidate:
    """Return a candidate with the secrets among its findings that are known to be some by now, or here."""
    skills = workspace.store.skills
    base = skills.get_files(candidate.skill_id, candidate.base_version)
    new = skills.get_files(candidate.skill_id, candidate.version_id)
    late = [each for each in secrets_added(base, new, workspace.known) if each not in candidate.findings]
    return replace(candidate, findings=(*candidate.findings, *late)) if late else candidate


def unused_approvals(workspace: Workspace, skill_id: int) -> dict[str, list[UnusedApproval]]:
    """Return the unused approvals of a skill by the candidate, or the version to roll back to, that each is for."""
    found: dict[str, list[UnusedApproval]] = {}
    for each in workspace.store.approvals.list_unused(skill_id):
        made = candidate_id(skill_id, each.from_version, each.to_version)
        found.setdefault(made if each.kind == "promote" else each.to_version, []).append(each)
    return found


def told_unused(workspace: Workspace, skill_id: int, only: str | None = None) -> list[str]:
    """Return a line for each unused approval of a skill, or of one candidate of it."""
    found = unused_approvals(workspace, skill_id)
    return [
        f"approved, and not used yet: {_what(made, each)}, in a dialog{each.login and f' ({each.login})'}, {each.at}"
        for made, approvals in found.items()
        if only in (None, made)
        for each in approvals
    ]


def _what(made: str, approval: UnusedApproval) -> str:
    return made if approval.kind == "promote" else f"a rollback to {short(approval.to_version)}"


# On fewer tasks a change can win by what it says of each.
FEWEST_TASKS = 6
MOST_ALPHA = 0.05
_ROUNDING = 1e-9
_COVERS = "a standing permission covers"


def host_own(workspace: Workspace, test: ConfirmationRow | None) -> str:
    """Return how a host vouches for evidence itself: it judged the tasks, or had seen them; empty where it does not."""
    if test is None:
        return ""
    if evidence_so_far(workspace, test) == "host-run, exposed":
        return "the evidence is host-run, exposed: a session that had seen the tasks attempted or judged them"
    tested = set(test.tasks)
    tasks = [task for task in workspace.store.tasks.list_tasks(test.skill_id) if task.id in tested]
    if any(isinstance(leaf, ByHost) for task in tasks for leaf in leaves(task.judge)):
        return "the host itself judged its test"
    return "the host's own agents judged its test" if is_judged_by_host(test.backend) else ""


def uncovered(workspace: Workspace, test: ConfirmationRow, *, simulated: bool) -> str:
    """Return why no standing permission covers the verdict of a test, empty when one does.

    Of a simulation, which says nothing of a real model, it is not asked how its target answers.
    """
    store = workspace.store
    if len(test.tasks) < FEWEST_TASKS:
        return f"it was tested on {counted(len(test.tasks), 'held-out task')}, and {_COVERS} {FEWEST_TASKS} or more"
    last = store.decisions.latest_in(test.id)
    inputs = ConfirmInputs.model_validate_json(last.inputs) if last else None
    if inputs and inputs.margin < 0:
        return f"its test asked that it is no worse, and {_COVERS} what is better"
    if test.alpha > MOST_ALPHA or net_staked(store, test.skill_id, test.backend) > MOST_ALPHA + _ROUNDING:
        return f"the tests of this skill have a larger error rate than {MOST_ALPHA}, and {_COVERS} no larger one"
    if test.claim == "like_these" and store.decisions.find_joined_late(test.id):
        return "tasks joined its test after evidence was seen, which a standing permission does not cover"
    if inputs and inputs.served and inputs.served.differ:
        return f"in its test, {told_served(inputs.served)}, which a person should see"
    if n_lost := retired_losses(store, test):
        lost = counted(n_lost, "task")
        return f"{lost} that earlier candidates lost were retired before its test, which a person should see"
    redraws = begun_anew(store, test)
    if abs(redraws.candidate - redraws.base) > PAIRS_AT_ONCE:
        return f"in its test, {redraws}: more than one interruption explains, which a person should see"
    if inputs and not simulated and answers_alike(test, store.decisions.list_pairs(test.id)[: inputs.n_pairs]):
        return "its target answers alike each time, so that its verdict rests on few answers: a person should see them"
    return ""


SMALL_LINES = 60
SMALL_BYTES = 6_000
SHOWN_CODE = 60
LOGIN_CHARACTERS = 200


def add_root(workspace: Workspace, path: str) -> Path:
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
    workspace.store.permissions.add_root(str(root))
    return root


def permit(
    workspace: Workspace, skill: str, *, simulated: bool, host_run: bool = False, given_on: AgreedOn = "terminal"
) -> Skill:
    """Keep a standing permission to promote a skill's accepted candidates.

    With `simulated` it covers a simulation, too; with `host_run` what a host's own agents judged, or attempted in a
    session that had seen the tasks.
    """
    tracked, login = workspace.skill(skill), signature(workspace.login)
    by = f"{given_on}{login and f' ({login})'}"
    workspace.store.permissions.grant(tracked.id, by, simulated=simulated, host_run=host_run)
    return tracked


def revoke(workspace: Workspace, skill: str) -> Skill:
    """Take a standing permission back."""
    tracked = workspace.recorded(skill)
    workspace.store.permissions.revoke(tracked.id)
    return tracked


def signature(login: str) -> str:
    """Return the login of who agreed as it is kept."""
    return escaped(login)[:LOGIN_CHARACTERS]


def beyond_small_edit(base: SkillFiles, new: SkillFiles) -> str:
    """Return why a standing permission does not cover a change, or an empty string when it does.

    It covers a small edit of the words of the main document's body, and nothing that a host reads as configuration or
    that an agent may run.
    """
    paths = {file.path for file in (*base.files, *new.files) if base.get(file.path) != new.get(file.path)}
    if paths - {base.main_path}:
        return f"it changes other files than {base.main_path}, which a standing permission does not cover"
    was, now = base.get(base.main_path), new.get(base.main_path)
    if was is None or now is None or was.executable != now.executable or not is_text(now.content):
        return f"it changes more of {base.main_path} than its text, which a standing permission does not cover"
    fronts = [content[: block_end(content) or 0] for content in (was.content, now.content)]
    if fronts[0] != fronts[1]:
        return "it changes the front matter, which a standing permission does not cover"
    old, fresh = was.content.splitlines(), now.content.splitlines()
    touched = [line for a, b, c, d in changes(old, fresh) for line in (*old[a:b], *fresh[c:d])]
    if len(touched) > SMALL_LINES or sum(map(len, touched)) > SMALL_BYTES:
        return (
            f"it changes {len(touched)} lines, and a standing permission covers {SMALL_LINES} lines of "
            f"{SMALL_BYTES:,} bytes in all"
        )
    if (line := code_touched(was.content, now.content)) is not None:
        shown = quoted(line.decode().strip(), SHOWN_CODE) if line.strip() else "an empty line of a block"
        return f"it touches code or a command ({shown}), and a standing permission covers words alone"
    return ""


def decline(workspace: Workspace, approval: Approval) -> None:
    """Keep that a person said no to a change in a dialog."""
    login = signature(workspace.login)
    said = f"no, in a dialog{login and f' ({login})'}"
    workspace.store.table(Refusals).add_refusal(approval, said, "declined")


def note_unheard(workspace: Workspace, approval: Approval, said: str) -> None:
    """Keep that a host answered with no, who knows whether it asked anybody: that is told, and binds nobody."""
    workspace.store.table(Refusals).add_refusal(approval, said, "unheard")


def declined_at(workspace: Workspace, approval: Approval) -> str:
    """Return when a person last said no to a change, by the clock on their wall, with the day unless it is today.

    Empty where nobody did.
    """
    last = workspace.store.table(Refusals).last_refusal(approval)
    return _at(last) if last else ""


def minded(workspace: Workspace, approval: Approval) -> list[str]:
    """Return what whoever is asked about a change is told of how they answered before."""
    refusals = workspace.store.table(Refusals)
    if last := refusals.last_refusal(approval):
        return [f"you said no at {_at(last)}"]
    unheard = refusals.last_refusal(approval, "unheard")
    return [f"declined at {_at(unheard)}, perhaps by the host itself"] if unheard else []


def _at(refusal: Refusal) -> str:
    at = datetime.fromisoformat(refusal.at).astimezone()
    return f"{at:%H:%M}" if at.date() == datetime.now().astimezone().date() else f"{at:%Y-%m-%d %H:%M}"


def told_declined(workspace: Workspace, candidate: Candidate) -> list[str]:
    """Return a line for each no to a candidate, the newest first."""
    versions = (candidate.base_version, candidate.version_id)
    found = workspace.store.table(Refusals).list_refusals(candidate.skill_id)
    return [f"{each.by}, {each.at}" for each in found if each[:3] == ("promote", *versions)]


def declined_changes(workspace: Workspace, skill_id: int) -> list[str]:
    """Return a line for each no to a change of a skill, the newest first."""
    return [_told(each) for each in workspace.store.table(Refusals).list_refusals(skill_id)]


def _told(refusal: Refusal) -> str:
    change = f"{refusal.kind} {short(refusal.from_version)} -> {short(refusal.to_version)}"
    return f"{refusal.at} {change}: {refusal.by}"


@dataclass(frozen=True, slots=True)
class Consent:
    """Who agrees to a change of a live file, and on what; and what the call covers besides.

    A tool call rests on an approval in a dialog (APPROVED), or on a standing permission as well (STANDING).
    """

    agreed_by: AgreedBy
    agreed_on: AgreedOn
    simulated: bool = False  # evidence from a simulation is enough
    unproven: bool = False  # the test may be undecided
    over_edit: bool = False  # somebody's edit of the live file may be replaced

    APPROVED: ClassVar[Consent]
    STANDING: ClassVar[Consent]
    PERSON: ClassVar[Consent]
    PERSON_SIMULATED: ClassVar[Consent]
    COMMAND: ClassVar[Consent]
    DEMO: ClassVar[Consent]

    @property
    def is_of_a_tool(self) -> bool:
        """Return whether a tool call asks: a person has agreed before, or nobody does."""
        return self.agreed_on == "dialog" or self.agreed_by == "permission"


Consent.APPROVED = Consent("person", "dialog")
Consent.STANDING = Consent("permission", "rule")
Consent.PERSON = Consent("person", "terminal")
Consent.PERSON_SIMULATED = Consent("person", "terminal", simulated=True)
Consent.COMMAND = Consent("none", "command")
Consent.DEMO = Consent("none", "rule", simulated=True)


@dataclass(frozen=True, slots=True)
class Ready:
    """A change that nothing stands against: who agreed to it, and by which approval or permission where it was one."""

    change: Change
    consent: Consent
    login: str = ""
    approval_id: int | None = None
    permission: Permission | None = None


@dataclass(frozen=True, slots=True)
class Lacking:
    """A change that lacks a person's agreement and nothing else: the approval it needs, and what it answers without."""

    approval: Approval
    answer: Promoted


Standing = Ready | Lacking | Promoted


def with_consent(workspace: Workspace, change: Change, consent: Consent) -> Standing:
    """Return whether the change may happen as far as people and folders go."""
    if workspace.root_of(change.skill) is None:
        why = f"'{change.skill.path}' lies in no skill folder that may be written"
        root = {"folder": root_for(change.skill.path)}
        step = NextStep.at_terminal("skills add-root", root, "allows promotions there")
        return answer(workspace, change, "refused", why, step)
    if fault := unreadable(workspace.store.skills.get_files(change.skill.id, change.to_version)):
        why = f"a folder cannot hold this version so that it is read back as it is: {fault}"
        step = NextStep(action="inspect", arguments={"id": change.handle}, why="lists the other versions")
        if change.candidate:
            step = NextStep(action="propose_edits", arguments={"skill": change.handle}, why="propose other edits")
        return answer(workspace, change, "refused", why, step)
    if consent.is_of_a_tool:
        return _by_a_tool(workspace, change, consent)
    if change.simulated and change.verdict != UNPROVEN and not consent.simulated:
        why = "the evidence is from a simulation and says nothing about a real model"
        step = change.step("promotes it all the same", simulated=True)
        return answer(workspace, change, "refused", why, step)
    return Ready(change, consent, signature(workspace.login))


def _by_a_tool(workspace: Workspace, change: Change, consent: Consent) -> Standing:
    """Return whether somebody agreed to a change that a tool asks for: by an approval, or by a standing permission."""
    found = workspace.store.approvals.find_unused(change.approval)
    if found is not None:
        return Ready(change, Consent.APPROVED, found[1], found[0])
    store, permits = workspace.store, consent.agreed_by == "permission"
    if change.findings:
        look = change.step("a person has to look at it", simulated=change.simulated)
        return Lacking(change.approval, answer(workspace, change, "held", "; ".join(change.findings), look))
    permission = store.permissions.get(change.skill.id) if permits else None
    ungiven = _not_given(workspace, change, permission)
    beyond = _beyond_any_permission(workspace, change) if permits else ""
    why = ungiven or beyond if permits else "each change needs an approval here"
    if change.to_version in rolled_back(store.promotions.list_promotions(change.skill.id)):
        why, permits = "a person rolled it back, and nobody but a person puts it back", False
    elif declined := declined_at(workspace, change.approval):
        why, permits = f"at {declined} the person was asked, and said no", False
    if not why:
        return Ready(change, consent, permission=permission)
    ask = change.step("ask the person to run it", simulated=change.simulated and change.kind == "promote")
    result = answer(workspace, change, "needs_approval", why, ask)
    # A permission that there is, or that would not do, is no way on.
    if permits and ungiven and not beyond:
        flags = {"simulated": change.simulated, "host_run": bool(host_own(workspace, change.test))}
        arguments: dict[str, JsonValue] = {
            "skill": change.handle,
            **{name: is_set for name, is_set in flags.items() if is_set},
        }
        permit = NextStep.at_terminal("skills permit", arguments, "lets tools make such changes")
        result = result.model_copy(update={"permit": permit})
    return Lacking(change.approval, result)


def _not_given(workspace: Workspace, change: Change, permission: Permission | None) -> str:
    """Return what a skill's standing permission lacks for a change on such evidence, or an empty string."""
    if permission is None:
        return "no person has agreed to this change"
    if change.simulated and not permission.simulated:
        return "the evidence is from a simulation"
    return "" if permission.host_run else host_own(workspace, change.test)


def _beyond_any_permission(workspace: Workspace, change: Change) -> str:
    """Return why no standing permission covers a change, or an empty string when one does."""
    store, skill = workspace.store, change.skill
    files = (store.skills.get_files(skill.id, change.from_version), store.skills.get_files(skill.id, change.to_version))
    if change.kind == "rollback":
        last = next(iter(store.promotions.list_promotions(skill.id)), None)
        undone = last and last.kind == "promote" and (last.to_version, last.from_version)
        if undone != (change.from_version, change.to_version):
            return "it does more than undo the last promotion, which a standing permission does not cover"
        if back := findings(*files, workspace.known):
            return f"it brings back what a person should see first: {'; '.join(back)}"
    if change.candidate and (again := told_repeated(store, change.candidate)):
        return f"{again}: a person should see it"
    weak = uncovered(workspace, change.test, simulated=change.simulated) if change.test else ""
    return weak or beyond_small_edit(*files)
