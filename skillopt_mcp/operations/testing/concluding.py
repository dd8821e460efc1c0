"""Concluding: what to do after a verdict, and what is told beside it."""

from __future__ import annotations

from skillopt_mcp.optimizer.confirmation import Test
from skillopt_mcp.optimizer.reservations import begun_anew
from skillopt_mcp.records.candidates import Candidate
from skillopt_mcp.records.evidence import Confirmation
from skillopt_mcp.store.opening import Store

NO_GAIN = "This candidate brings no useful gain. Propose other edits."
NAME_A_MODEL = (
    "No more pairs are drawn: each version was answered by models of its own, so that none would tell which text is "
    "better. Name as the target a dated model, whose name leads to no other one (an alias does, and a router picks by "
    "the prompt), and evaluate the candidate with that: it is a test of its own."
)


def told_redraws(store: Store, test: Test) -> str:
    """Return how often attempts of a test were begun anew, where its verdict does not say so by itself."""
    redraws = begun_anew(store, test.row)
    return f"; {redraws}" if str(redraws) and not redraws.n_charged else ""


def promote_it(candidate: Candidate) -> str:
    """Return that an accepted candidate is to be promoted."""
    return f"Call promote_skill with candidate_id {candidate.id}."


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
    again = f"Undecided: call evaluate_candidate with candidate_id {candidate.id} again to draw more pairs (they are"
    if test.row.claim == "like_these":
        return f"{again} paid for; test tasks that are added join it), or propose a stronger edit."
    return (
        f"{again} paid for), or propose a stronger edit. Held-out tasks that are added serve the next test alone: this "
        "one keeps those that it began with."
    )
