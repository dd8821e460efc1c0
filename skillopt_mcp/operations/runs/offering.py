"""Offering: what a proposal takes of the agents of a host, told before any of it is handed out."""

from __future__ import annotations

from skillopt_mcp.backends.host import is_host
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.runs.estimating import estimate_proposal
from skillopt_mcp.operations.runs.replaying import planned
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.runs import Run


def offer(workspace: Workspace, run: Run) -> tuple[str, str]:
    """Return how many agent runs a proposal takes at most, in words, and what to do about that."""
    n = estimate_proposal(run, planned(workspace, run).train)
    parts = (
        (run.target, n["target"], counted(n["target"], "attempt at a train task", "attempts at train tasks")),
        (run.judge, n["judge"], f"up to {counted(n['judge'], 'judgement')} of these"),
        (run.optimizer, n["optimizer"], f"up to {counted(n['optimizer'], 'question')} on what to change"),
    )
    mine = [(n_runs, told) for backend, n_runs, told in parts if n_runs and is_host(backend)]
    n_all = counted(sum(n_runs for n_runs, _ in mine), "agent run")
    expected = f"at most {n_all}: {', '.join(told for _, told in mine)}"
    return expected, (
        f"Nothing is handed out yet. Tell the user what it takes ({expected}) and, if that is fine, take the first "
        f"work: submit_work with job_id {run.id}."
    )


def is_only_offered(workspace: Workspace, run: Run) -> bool:
    """Return whether a host was told what a proposal takes, and nothing of it was done or handed out."""
    # Attempts come before any question on them.
    asked_first = run.target if run.tasks else run.optimizer
    return is_host(asked_first) and not workspace.store.leases.list_of(run.id)


def told_rollouts(run: Run, asked: int, possible: int) -> str:
    """Return how many rollouts a proposal has, where that is not what was asked for, or possible; "" where it is."""
    n = counted(len(run.tasks), "rollout")
    if asked and len(run.tasks) != possible:
        return f"This proposal was under way, with {n}: {asked} were not begun. "
    return f"The skill has {counted(possible, 'train task')}: {n}, not {asked}. " if possible < asked else ""
