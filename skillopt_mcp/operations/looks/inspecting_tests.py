"""Inspecting tests: one promotion test, its pairs so far and what they came to."""

from __future__ import annotations

import math
from collections.abc import Sequence

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import NotFound
from skillopt_mcp.gates.confirm import claimed
from skillopt_mcp.gates.recompute import ConfirmInputs
from skillopt_mcp.operations.judging import is_host_run, shown_origin
from skillopt_mcp.operations.leasing import told_answered, told_items, told_leases
from skillopt_mcp.operations.looks.details import PromotionTest
from skillopt_mcp.operations.looks.serving import served_in_test, told_names
from skillopt_mcp.operations.results import Arm
from skillopt_mcp.operations.testing.concluding import told_redraws
from skillopt_mcp.operations.testing.evaluating import is_simulated
from skillopt_mcp.operations.testing.opening_tests import evidence_so_far
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.sampling import described
from skillopt_mcp.records.candidates import Candidate, Decision
from skillopt_mcp.records.evidence import Pair
from skillopt_mcp.records.skills import short
from skillopt_mcp.store.decisions import ConfirmationRow


def promotion_test(workspace: Workspace, id: str) -> PromotionTest:
    """Return what the store holds of a promotion test, by its id. Raises NotFound."""
    store = workspace.store
    row = _row(workspace, id)
    candidate = tested_candidate(workspace, id)
    decision = store.decisions.latest_in(id)
    rule = ConfirmInputs.model_validate_json(decision.inputs).rule if decision else None
    pairs, told = _counted(workspace, row, decision)
    scored = [pair for pair in pairs if not pair.missing]
    by_id = {task.id: task for task in store.tasks.list_tasks(row.skill_id)}
    where = described(row.claim, [by_id[task_id] for task_id in row.tasks])
    return PromotionTest(
        id=id,
        skill=store.skills.get_skill(row.skill_id).name,
        candidate_id=candidate.id if candidate else None,
        base=_arm(row.base_version, [pair.base for pair in scored], told=told),
        candidate=_arm(row.version_id, [pair.candidate for pair in scored], told=told),
        j=row.j,
        alpha=round(row.alpha, 6),
        pairs_done=len(pairs),
        pairs_missing=len(pairs) - len(scored),
        verdict=decision.verdict if decision else None,
        reason=decision.reason if decision else "",
        claim=f"{claimed(rule)} {where}" if rule else where,
        backend=shown_origin(row.backend),
        simulated=is_simulated(row.backend),
        evidence=evidence_so_far(workspace, row),
        served=served_in_test(workspace, row),
    )


def tested_candidate(workspace: Workspace, id: str) -> Candidate | None:
    """Return the candidate that a promotion test is of, the newest where several have its text. Raises NotFound."""
    row = _row(workspace, id)
    versions = (row.base_version, row.version_id)
    candidates = workspace.store.candidates.list_candidates(row.skill_id)
    return next((each for each in reversed(candidates) if (each.base_version, each.version_id) == versions), None)


def described_test(workspace: Workspace, id: str) -> str:
    """Return a promotion test as text. Raises NotFound."""
    test = promotion_test(workspace, id)
    missing = f", {test.pairs_missing} of them without a score" if test.pairs_missing else ""
    simulated = " (a SIMULATION: it says nothing about a real model)" if test.simulated else ""
    verdict = (
        f"{test.verdict}: {test.reason}{told_redraws(workspace.store, _row(workspace, id))}"
        if test.verdict
        else "none yet"
    )
    return "\n".join(
        [
            f"promotion test {test.id} of skill '{test.skill}', candidate {test.candidate_id or '-'}",
            f"base {test.base.version} -> version {test.candidate.version}",
            f"test {test.j} in the skill's life{_elsewhere(workspace, id)}, at an error rate (alpha) of {test.alpha:g}",
            f"verdict: {verdict}",
            f"asked: {test.claim}",
            f"pairs so far: {test.pairs_done}{missing}; base {_mean(test.base)}, candidate {_mean(test.candidate)}",
            f"answered by: {test.backend}{simulated}",
            *told_names(test.served),
            *filter(None, [_handed_in(workspace, test), told_leases(workspace, test.id)]),
            *told_items(workspace, test.id),
        ]
    )


def _elsewhere(workspace: Workspace, id: str) -> str:
    """Return how many of the tests before one were of other folders of the skill, or of its other life; "" for none."""
    row = _row(workspace, id)
    before = [each for each in workspace.store.decisions.list_tests(row.skill_id) if each.j < row.j]
    n = row.j - 1 - len(before)
    told = [f"{n} before it in other folders that have held one version with it"] if n else []
    simulated = is_simulated(row.backend)
    n_others = sum(is_simulated(each.backend) is not simulated for each in before)
    if n_others:
        told += [f"{n_others} before it with {'real models' if simulated else 'a simulation'}, at error rates apart"]
    return f" ({'; '.join(told)})" if told else ""


def _handed_in(workspace: Workspace, test: PromotionTest) -> str:
    """Return how many answers of a host are in, which no pair may be made of yet; empty without any."""
    told = told_answered(workspace.store, test.id)
    return (
        f"handed in: {told}; a pair takes an answer of each version, judged, and pairs count in order" if told else ""
    )


def _row(workspace: Workspace, id: str) -> ConfirmationRow:
    row = workspace.store.decisions.find_confirmation(id)
    if row is None:
        raise NotFound(
            f"there is no promotion test {quoted(id)}: ids of tests come from evaluate_candidate, and one that nobody "
            "took work of is not begun: submit_work with it as job_id takes the first"
        )
    return row


def _counted(workspace: Workspace, row: ConfirmationRow, decision: Decision | None) -> tuple[list[Pair], bool]:
    """Return the pairs that count so far, and whether their means may be told."""
    pairs = workspace.store.decisions.list_pairs(row.id)
    n_judged = ConfirmInputs.model_validate_json(decision.inputs).n_pairs if decision else 0
    if decision and decision.verdict != "undecided":
        return pairs[:n_judged], True
    return pairs, not is_host_run(row.backend) or len(pairs) == n_judged


def _arm(version: str, scores: Sequence[float | None], *, told: bool) -> Arm:
    scored = [score for score in scores if score is not None]
    mean = round(math.fsum(scored) / len(scored), 4) if told and scored else None
    return Arm(version=short(version), mean=mean, n=len(scored))


def _mean(arm: Arm) -> str:
    return "no mean yet" if arm.mean is None else f"{arm.mean:.4g}"
