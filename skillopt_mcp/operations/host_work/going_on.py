"""Going on: what is under way for a skill, and how a session that did not begin it goes on with it."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.judging import is_host_run
from skillopt_mcp.operations.leasing import told_leases
from skillopt_mcp.operations.spending.listing_runs import way_on
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.records.candidates import Candidate, candidate_id
from skillopt_mcp.records.skills import Skill, Version
from skillopt_mcp.store.pressing import Pressing


def open_work(workspace: Workspace, skill: Skill, undecided: Sequence[Candidate]) -> str:
    """Return how to go on with what is under way for a skill, the test of a candidate first; empty when nothing is.

    The undecided candidates are those made from what is live.
    """
    store = workspace.store
    tests = store.leases.tests_out(skill.id, skill.live_version, [each.version_id for each in undecided])
    for each in reversed(undecided):
        if (test_id := tests.get(each.version_id)) and (work := told_leases(workspace, test_id)):
            return f"the test of {each.id} is under way: submit_work with job_id {test_id}; {work}"
    begun = host_tests(workspace, undecided)
    for each in reversed(undecided):
        if told := begun.get(each.version_id):
            return f"{told}: evaluate_candidate {each.id} goes on with it"
    proposals = store.runs.list_proposals_under_way(skill.id)
    return next(filter(None, (way_on(workspace, run) for run in reversed(proposals))), "")


def host_tests(workspace: Workspace, candidates: Sequence[Candidate]) -> dict[str, str]:
    """Return, by version, that a host's test of a candidate is begun and undecided; all are made from one version."""
    if not candidates:
        return {}
    first, names = candidates[0], {each.version_id: each.id for each in candidates}
    found = workspace.store.room(Pressing).list_begun(first.skill_id, first.base_version, list(names))
    return {
        each.version_id: f"the test of {names[each.version_id]} by a host ({each.id}) is under way, "
        f"{counted(each.n_pairs, 'pair')} done"
        for each in found
        if each.n_pairs and is_host_run(each.backend)
    }


def left_behind(workspace: Workspace, skill: Skill, candidates: Sequence[Candidate]) -> str:
    """Return how to go on with the newest candidate that an edit of the file by hand made stale; empty without one."""
    store = workspace.store
    changed = {change.to_version for change in store.promotions.list_promotions(skill.id)}
    edited = set[str]()
    version: Version | None = store.skills.get_version(skill.id, skill.live_version)
    while version and version.id not in edited:
        edited.add(version.id)
        version = None if version.id in changed else store.skills.find_parent(version)
    for each in reversed(candidates):
        if each.base_version in edited and each.origin != "step" and each.version_id not in {*changed, *edited}:
            decision = store.decisions.latest(skill.id, GATE, each.base_version, each.version_id)
            if decision is None or decision.verdict != "reject":
                return told_stale(each)
    return ""


def told_others(workspace: Workspace, candidate: Candidate) -> str:
    """Return which other test of a candidate's base is not decided yet, before one more is opened; "" where none is."""
    decisions = workspace.store.decisions
    verdicts = decisions.verdicts(candidate.skill_id, GATE, candidate.base_version)
    others = [
        row
        for row in decisions.list_tests(candidate.skill_id)
        if row.base_version == candidate.base_version
        and row.version_id != candidate.version_id
        and verdicts.get(row.version_id, "undecided") == "undecided"
    ]
    if not others:
        return ""
    last = others[-1]
    its = candidate_id(last.skill_id, last.base_version, last.version_id)
    return f"{last.id}, the test of {its}, is not decided yet, and each test takes its share of the skill's error rate"


def told_stale(candidate: Candidate) -> str:
    """Return what to do with a candidate whose base is no longer what is live."""
    return f"{candidate.id} is stale, as the file has changed since: {told_again(candidate.id)}"


def told_again(candidate_id: str) -> str:
    """Return how the edits of a candidate are made again on top of what is live now."""
    return (
        f"call propose_edits with its edits again (inspect {candidate_id} shows them), or at a terminal: skillopt-mcp "
        f"rebase {candidate_id}; either makes a new candidate to evaluate"
    )
