"""Stepping: a candidate that a run made on top of its earlier steps, and what can be tested in its place."""

from __future__ import annotations

from skillopt_mcp.operations.results import Replayed
from skillopt_mcp.operations.spending.listing_runs import told_own
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import Candidate
from skillopt_mcp.records.runs import Run


def told_of_run(workspace: Workspace, candidate: Candidate) -> str:
    """Return that a candidate builds on earlier steps of its run, and what of that is tested; "" where it does not."""
    if candidate.origin != "step" or candidate.run_id is None:
        return ""
    run = workspace.store.runs.get_run(candidate.run_id)
    if candidate.base_version == run.base_version:
        return ""
    numbers = [step.n for step in workspace.store.runs.list_steps(run.id) if step.candidate_id == candidate.id]
    step = f"step {numbers[0]}" if numbers else "a step"
    return f"candidate '{candidate.id}' is {step} of run {run.id}, made on top of its earlier steps: {_way_on(run)}"


def _way_on(run: Run) -> str:
    if run.result:
        made = Replayed.model_validate_json(run.result).candidate_id
        return (
            f"what they came to together is the run's own candidate: skillopt-mcp evaluate {made}" if made
            else "no version of the run was better than the one that it began with, and it has no candidate"
        )  # fmt: skip
    if own := told_own(run):
        return f"what they came to together is tested when the run finishes; {own}"
    if run.conclusion:
        return f"what they came to together is being tested: skillopt-mcp replay {run.id} --resume"
    return (
        "what they came to together is tested when the run finishes; to end its search now, and test the best version "
        f"so far: skillopt-mcp replay {run.id} --conclude"
    )
