"""Reviewing: all that a person needs to see before they agree to a change of a live file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.documents.counts import counted
from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.documents.lint import introduced
from skillopt_mcp.gates.recompute import ConfirmInputs
from skillopt_mcp.operations.candidates.recalling import told_repeated
from skillopt_mcp.operations.candidates.tested import mean_scores, means_of
from skillopt_mcp.operations.changes.guarding import guarded
from skillopt_mcp.operations.changes.promoting import is_edited, rollback_target
from skillopt_mcp.operations.finding import called
from skillopt_mcp.operations.judging import is_host_run
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.testing.evaluating import is_simulated
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.optimizer.reservations import answers_alike, begun_anew, drawn_pairs
from skillopt_mcp.records.candidates import Candidate, Decision, rolled_back
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.store.opening import Store


class Review(BaseModel):
    """A change under review: the whole diff (hidden characters shown), the verdict on it, and the guard's findings.

    `evidence` is what the verdict rests on: how many pairs, on how many tasks, and the mean scores. `broken` is what
    the Agent Skills specification has against the new version, and had not against the old one; `over_edit` tells that
    somebody has edited the files since the last change, which a rollback would undo; `repeats` that it brings again
    what a person rolled back, and `alike` that its target answers alike each time; `called` is the skill in commands.
    """

    model_config = ConfigDict(frozen=True)
    skill: str
    skill_path: str
    called: str
    from_version: str
    to_version: str
    diff: str
    verdict: str | None = None
    reason: str = ""
    evidence: str = ""
    reasoning: str = ""
    findings: tuple[str, ...] = ()
    simulated: bool = False
    broken: tuple[str, ...] = ()
    over_edit: bool = False
    repeats: str = ""
    alike: bool = False


def review_candidate(workspace: Workspace, candidate_id: str) -> Review:
    """Return the review of a candidate. Raises NotFound."""
    store = workspace.store
    candidate = guarded(workspace, store.candidates.get_candidate(known(candidate_id)))
    skill = store.skills.get_skill(candidate.skill_id)
    decision = store.decisions.latest(skill.id, GATE, candidate.base_version, candidate.version_id)
    test = store.decisions.find_confirmation(decision.scope) if decision else None
    base = store.skills.get_files(skill.id, candidate.base_version)
    new = store.skills.get_files(skill.id, candidate.version_id)
    return Review(
        skill=skill.name,
        skill_path=skill.path,
        called=called(store, skill),
        from_version=candidate.base_version,
        to_version=candidate.version_id,
        diff=unified_diff(base, new, skill.name),
        verdict=decision.verdict if decision else None,
        reason=decision.reason if decision else "",
        evidence=_evidence(store, decision, test) if decision and test else "",
        reasoning=candidate.reasoning,
        findings=candidate.findings,
        simulated=test is not None and is_simulated(test.backend),
        broken=introduced(base, new, skill.name),
        repeats=_told_again(store, candidate),
        alike=decision is not None and test is not None and _is_alike(store, decision, test),
    )


def review_rollback(workspace: Workspace, skill: str, version: str | None = None) -> Review:
    """Return the review of a rollback to a version, or to the one before the last change. Raises NotFound, BadInput."""
    store = workspace.store
    tracked = workspace.recorded(skill)
    target = rollback_target(workspace, tracked, version)
    live = store.skills.get_files(tracked.id, tracked.live_version)
    old = store.skills.get_files(tracked.id, target)
    return Review(
        skill=tracked.name,
        skill_path=tracked.path,
        called=called(store, tracked),
        from_version=tracked.live_version,
        to_version=target,
        diff=unified_diff(live, old, tracked.name),
        over_edit=is_edited(workspace, tracked),
    )


def _told_again(store: Store, candidate: Candidate) -> str:
    """Return that a candidate, or an edit that it makes, was rolled back by a person; else ""."""
    if candidate.version_id in rolled_back(store.promotions.list_promotions(candidate.skill_id)):
        return "it was live, and a person rolled it back"
    return told_repeated(store, candidate)


def _evidence(store: Store, decision: Decision, test: ConfirmationRow) -> str:
    """Return what a verdict rests on, in words: the scores first, for a host may show no more of it."""
    n = ConfirmInputs.model_validate_json(decision.inputs).n_pairs
    means = mean_scores(store, decision, test)
    # Drawn with replacement: not every task of the test is among them.
    n_tasks = len({task_id for task_id, _ in drawn_pairs(test, store.decisions.list_pairs(test.id)[:n])})
    told = f"{counted(n, 'pair')} of attempts at {counted(n_tasks, 'held-out task')}"
    if means is None:
        return told
    redraws = str(begun_anew(store, test))
    was, now = means
    since = _since(store, decision, test, n)
    return f"mean score {was:.2f} before and {now:.2f} with this change, over {told}{since}{redraws and f'; {redraws}'}"


def _since(store: Store, decision: Decision, test: ConfirmationRow, n: int) -> str:
    """Return what pairs drawn after an undecided verdict make of it; a host's are told when its test pauses again."""
    pairs = store.decisions.list_pairs(test.id)
    if decision.verdict != "undecided" or len(pairs) <= n or is_host_run(test.backend):
        return ""
    was, now = means_of(pairs) or (0.0, 0.0)
    return f"; with the {counted(len(pairs) - n, 'pair')} that came since, {was:.2f} before and {now:.2f} with it"


def _is_alike(store: Store, decision: Decision, test: ConfirmationRow) -> bool:
    """Return whether a real target gave the same answers each time; of a simulation it is not asked."""
    n = ConfirmInputs.model_validate_json(decision.inputs).n_pairs
    return not is_simulated(test.backend) and answers_alike(test, store.decisions.list_pairs(test.id)[:n]) is not None
