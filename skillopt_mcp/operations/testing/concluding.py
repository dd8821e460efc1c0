"""Concluding: what to do after a verdict, and what is told beside it."""

from __future__ import annotations

from skillopt_mcp.operations.judging import is_attempted_by_host, shown_origin
from skillopt_mcp.operations.paging import shortened
from skillopt_mcp.operations.results import Evaluated
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import Test
from skillopt_mcp.optimizer.reservations import begun_anew
from skillopt_mcp.records.candidates import Candidate, Decision
from skillopt_mcp.records.evidence import Confirmation
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.store.opening import Store

NO_GAIN = "This candidate brings no useful gain. Propose other edits."
NAME_A_MODEL = (
    "No more pairs are drawn: each version was answered by models of its own, so that none would tell which text is "
    "better. Name as the target a dated model, whose name leads to no other one (an alias does, and a router picks by "
    "the prompt), and evaluate the candidate with that: it is a test of its own."
)


def told_redraws(store: Store, row: ConfirmationRow) -> str:
    """Return how often attempts of a test were begun anew, where its verdict does not say so by itself."""
    redraws = begun_anew(store, row)
    return f"; {redraws}" if str(redraws) and not redraws.n_charged else ""


def promote_it(candidate: Candidate) -> str:
    """Return that an accepted candidate is to be promoted, or looked at by a person where the guard holds it."""
    if candidate.findings:
        return (
            f"The guard holds it: a person looks at it at a terminal (skillopt-mcp promote {candidate.id}, or "
            f"skillopt-mcp approve {candidate.id} and then promote_skill)."
        )
    return f"Call promote_skill with candidate_id {candidate.id}."


def overruled(workspace: Workspace, candidate: Candidate, counts: Decision) -> str:
    """Return what to do where another test of a candidate, with other backends, counts for more than this one."""
    other = workspace.store.decisions.find_confirmation(counts.scope)
    by = f" with '{shortened(shown_origin(other.backend), 100)}'" if other else ""
    step = {"accept": promote_it(candidate), "reject": NO_GAIN}.get(counts.verdict, "Evaluate it with that one again.")
    return f"Another test of this candidate{by} came to {counts.verdict}, and that is what counts. {step}"


def untold(result: Evaluated) -> Evaluated:
    """Return an open test's result without what tells, pair by pair, how a host's replies were scored."""
    base, arm = (each.model_copy(update={"mean": None}) for each in (result.base, result.candidate))
    return result.model_copy(update={"base": base, "candidate": arm, "pairs_expected": None})


def after(candidate: Candidate, test: Test, verdict: Confirmation) -> str:
    """Return what to do after a verdict."""
    if verdict.verdict == "accept":
        return promote_it(candidate)
    if verdict.is_mixed:
        return NAME_A_MODEL
    if verdict.n_missing > verdict.n_pairs // 2:
        return "Most replies were missing: see that the target works, then propose the change again in other words."
    if verdict.verdict == "reject":
        return NO_GAIN
    paid = "each costs two agent runs" if is_attempted_by_host(test.row.backend) else "they are paid for"
    again = f"Undecided: call evaluate_candidate with candidate_id {candidate.id} again to draw more pairs ({paid}"
    if test.row.claim == "like_these":
        return f"{again}; test tasks that are added join it), or propose a stronger edit."
    return (
        f"{again}), or propose a stronger edit. Held-out tasks that are added serve the next test alone: this "
        "one keeps those that it began with."
    )
