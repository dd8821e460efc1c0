"""Crediting: which edits of a candidate carry its gain, which do harm or only cost tokens, and what can be rescued."""

from __future__ import annotations

from pydantic import BaseModel

from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.credit import Credit, CreditRule
from skillopt_mcp.guard.capabilities import findings
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.paging import shortened
from skillopt_mcp.operations.results import Result
from skillopt_mcp.operations.spending.using import Used, used_by
from skillopt_mcp.operations.testing.comparing import carried_out, new_contest, search_tasks, told_apart
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.credit import only, rescue, run_credit, without_each
from skillopt_mcp.optimizer.progress import Notify, silent
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.candidates import Candidate, NewCandidate, candidate_id
from skillopt_mcp.records.edits import Edit, EditReport
from skillopt_mcp.records.skills import SkillFiles

_SHOWN_CHARACTERS = 80


class CreditRow(BaseModel):
    """One applied edit: what it adds to the mean score over `n_pairs`, and what follows from that."""

    index: int
    edit: str
    verdict: str
    gain: float
    n_pairs: int


class Credited(Result):
    """What each edit of a candidate is worth; `rescued_id` is a new candidate of the edits worth keeping, if any.

    `rule` says in words what the verdicts mean; a rescue has none of them.
    """

    candidate_id: str
    skill: str
    rows: list[CreditRow]
    rescued_id: str | None = None
    used: Used
    rule: str = ""


def credit_candidate(
    workspace: Workspace, candidate_id: str, rule: CreditRule | None = None, notify: Notify = silent
) -> Credited:
    """Return what each edit of a candidate is worth, each left out in turn on val tasks, the whole one shared.

    Harmful and spare edits are left out of a new candidate. Raises BadInput when fewer than two edits applied or there
    is no val task, BackendError without a target.
    """
    candidate, base, edits = taken_apart(workspace, candidate_id)
    whole = workspace.store.skills.get_files(candidate.skill_id, candidate.version_id)
    arms = (whole, *without_each(base, [edit for _, edit in edits]))
    tasks = search_tasks(workspace, candidate.skill_id)
    contest = new_contest(workspace, "credit", candidate.skill_id, arms, tasks)

    asked = rule or CreditRule()

    def work(ask: Ask) -> list[Credit]:
        return run_credit(contest, asked, workspace.store, ask, notify)

    credits = carried_out(workspace, contest, work)
    kept = [place for place, found in enumerate(credits) if found.verdict not in ("harms", "spare")]
    rows = [
        CreditRow(index=index, edit=_shown(edit), verdict=each.verdict, gain=round(each.gain, 4), n_pairs=each.n_pairs)
        for (index, edit), each in zip(edits, credits, strict=True)
    ]
    credited = _credited(workspace, candidate, base, edits, kept, rows, contest.name)
    return credited.model_copy(update={"rule": _said(asked)})


def _said(rule: CreditRule) -> str:
    return (
        f"An edit helps or harms where that is wrong in at most {rule.alpha:.0%} of cases. It is spare where what goes "
        f"without it loses at most {rule.delta:.2f} of the mean score, with that same error rate, and unclear where up "
        f"to {rule.max_pairs:,} pairs show none of these."
    )


def rescue_candidate(workspace: Workspace, candidate_id: str) -> Credited:
    """Return the part of a rejected bundle that is worth a test of its own, found by bisection on val tasks.

    Raises BadInput when fewer than two edits applied or there is no val task, BackendError without a target.
    """
    candidate, base, edits = taken_apart(workspace, candidate_id)
    tasks = search_tasks(workspace, candidate.skill_id)
    contest = new_contest(workspace, "rescue", candidate.skill_id, (base, *without_each(base, _plain(edits))), tasks)

    def work(ask: Ask) -> tuple[int, ...]:
        return rescue(ask, base, _plain(edits), tasks, draw=contest.name)

    kept = list(carried_out(workspace, contest, work))
    rows = [
        CreditRow(index=index, edit=_shown(edit), verdict="kept" if place in kept else "left out", gain=0.0, n_pairs=0)
        for place, (index, edit) in enumerate(edits)
    ]
    return _credited(workspace, candidate, base, edits, kept, rows, contest.name)


def taken_apart(workspace: Workspace, id: str) -> tuple[Candidate, SkillFiles, list[tuple[int, Edit]]]:
    """Return a candidate, its base, and its applied edits by their index. Raises BadInput when they are not two."""
    store = workspace.store
    candidate = store.candidates.get_candidate(known(id))
    edits = [(report.index, edit) for edit, report in store.candidates.list_edits(candidate.id) if _applied(report)]
    if len(edits) < 2:
        raise BadInput(
            f"candidate '{candidate.id}' has {len(edits)} applied edits of its own: there is nothing to tell "
            f"apart{_steps_to_name(workspace, candidate)}"
        )
    return candidate, store.skills.get_files(candidate.skill_id, candidate.base_version), edits


def _steps_to_name(workspace: Workspace, candidate: Candidate) -> str:
    """Return the candidates that have edits of their own, in words, where one is the best version of a run."""
    if candidate.origin != "run" or not candidate.run_id:
        return ""
    steps = workspace.store.runs.list_steps(candidate.run_id)
    tried = [step for step in steps if step.candidate_id and step.n_applied > 1]
    if not tried:
        return f", nor do the steps of run {candidate.run_id} have a candidate with two"
    named = ", ".join(f"{step.candidate_id} (step {step.n}, {step.verdict.replace('_', ' ')})" for step in tried)
    return f"; it is the best version of run {candidate.run_id}: name a candidate of its steps: {named}"


def _credited(
    workspace: Workspace,
    candidate: Candidate,
    base: SkillFiles,
    edits: list[tuple[int, Edit]],
    kept: list[int],
    rows: list[CreditRow],
    contest: str,
) -> Credited:
    files = only(base, _plain(edits), kept)
    made, mind = None, told_apart(workspace, contest)
    if kept and len(kept) < len(edits) and files.digest not in (base.digest, candidate.version_id):
        made = _kept(workspace, candidate, base, files, [edits[place] for place in kept])
    return Credited(
        candidate_id=candidate.id,
        skill=workspace.store.skills.get_skill(candidate.skill_id).name,
        rows=rows,
        rescued_id=made.id if made else None,
        used=used_by(workspace.store, contest),
        next_step=f"Call evaluate_candidate with candidate_id {made.id}: what is left has yet to be tested.{mind}"
        if made
        else f"There is no smaller candidate worth a test of its own.{mind}",
    )


def _kept(
    workspace: Workspace, whole: Candidate, base: SkillFiles, files: SkillFiles, edits: list[tuple[int, Edit]]
) -> Candidate:
    made = Candidate(
        id=candidate_id(whole.skill_id, base.digest, files.digest),
        skill_id=whole.skill_id,
        base_version=base.digest,
        version_id=files.digest,
        origin="host",
        reasoning=f"what is worth keeping of {whole.id}",
        findings=findings(base, files, workspace.known),
    )
    reports = [EditReport(n, edit.op, edit.path, "applied") for n, (_, edit) in enumerate(edits)]
    rows = tuple(zip(_plain(edits), reports, strict=True))
    return workspace.store.candidates.add_candidate(NewCandidate(made, files, rows))


def _plain(edits: list[tuple[int, Edit]]) -> list[Edit]:
    return [edit for _, edit in edits]


def _applied(report: EditReport) -> bool:
    return report.status == "applied"


def _shown(edit: Edit) -> str:
    text = " ".join((edit.content or edit.target or "").split())
    return f"{edit.op} {edit.path}: {shortened(text, _SHOWN_CHARACTERS)}"
