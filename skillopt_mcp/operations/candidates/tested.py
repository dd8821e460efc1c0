"""Tested: what is told of a candidate that edits have led to, where that is no new one."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_mcp.gates.recompute import ConfirmInputs
from skillopt_mcp.operations.candidates.recalling import told_rejected, told_repeated, told_rolled_back
from skillopt_mcp.operations.finding import called
from skillopt_mcp.operations.judging import origins
from skillopt_mcp.operations.results import Proposed
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.records.candidates import Approval, Candidate, Decision
from skillopt_mcp.records.evidence import Pair
from skillopt_mcp.records.skills import short
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.refusals import Refusals


def with_past(store: Store, result: Proposed, made: Candidate, step: str) -> Proposed:
    """Return what edits came to, with what became of their candidate before; `step` is that of a new one, replaced."""
    told = told_rolled_back(store, made)
    decision = store.decisions.latest(made.skill_id, GATE, made.base_version, made.version_id)
    status = result.status
    if told:
        past = f"{told}; otherwise propose other edits."
    elif _was_live(store, made):
        skill = called(store, store.skills.get_skill(made.skill_id))
        has = f"rollback_skill with skill {skill} and version {short(made.version_id)} has it back"
        past = f"what {made.id} leads to was live before, and is no more: {has}."
    elif decision and decision.verdict == "reject":
        status, past = "rejected", f"{made.id} was tested before and {_rejected(store, decision)}."
    elif decision and decision.verdict == "accept" and _is_declined(store, made):
        past = f"{made.id} was tested before and accepted, and a person said no to it: ask what they want changed."
    elif decision and decision.verdict == "accept":
        held = "a person has to look at what the guard found" if made.findings else f"promote_skill {made.id}"
        past = f"{made.id} was tested before and accepted: {held}."
    elif store.decisions.list_confirmations(made.skill_id, made.base_version, made.version_id):
        again = f"evaluate_candidate with candidate_id {made.id} goes on with it"
        past = f"{made.id} is known, and its test is undecided so far: {again}."
    else:
        past = step
    again = told_repeated(store, made) or ("" if past != step else told_rejected(store, made))
    whole = f"{result.next_step.removesuffix(step)}{past}"
    return result.model_copy(update={"status": status, "next_step": f"Mind that {again}. {whole}" if again else whole})


def mean_scores(store: Store, decision: Decision, test: ConfirmationRow) -> tuple[float, float] | None:
    """Return the mean scores of the live version and of a candidate that a verdict rests on; None without any."""
    return means_of(store.decisions.list_pairs(test.id)[: ConfirmInputs.model_validate_json(decision.inputs).n_pairs])


def means_of(pairs: Sequence[Pair]) -> tuple[float, float] | None:
    """Return the mean scores of both sides over the pairs that have them; None without any."""
    scored = [pair for pair in pairs if not pair.missing]
    if not scored:
        return None
    was, now = (sum(score or 0.0 for score in side) / len(scored) for side in zip(*map(_sides, scored), strict=True))
    return was, now


def _rejected(store: Store, decision: Decision) -> str:
    test = store.decisions.find_confirmation(decision.scope)
    means = mean_scores(store, decision, test) if test else None
    scores = f" (mean score {means[0]:.2f} before, {means[1]:.2f} with it)" if means else ""
    if test and any(origin.startswith(("simulated", "scripted")) for origin in origins(test.backend)):
        return f"rejected in a simulation{scores}: test it with a real model, or propose something else"
    return f"rejected{scores}: propose something else"


def _sides(pair: Pair) -> tuple[float | None, float | None]:
    return pair.base, pair.candidate


def _is_declined(store: Store, candidate: Candidate) -> bool:
    asked = Approval(candidate.skill_id, "promote", candidate.base_version, candidate.version_id)
    return store.room(Refusals).last_refusal(asked) is not None


def _was_live(store: Store, candidate: Candidate) -> bool:
    changes = store.promotions.list_promotions(candidate.skill_id)
    return any(each.to_version == candidate.version_id for each in changes)
