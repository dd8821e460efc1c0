"""Agreeing: what a command may ask of models at most, told, and agreed to before the first call."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.capping import Capped, foreseen
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.spending.forecasting import forecast
from skillopt_mcp.operations.testing.evaluating import is_simulated
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.calls import Role


def may_spend(
    workspace: Workspace, calls: Mapping[Role, int], options: Capped, n_slots: int | None = None, detail: str = ""
) -> bool:
    """Return whether so many calls of each role may be made: a person agrees, or nothing is asked or paid for.

    Raises Refused when nobody may be asked and nobody agreed beforehand.
    """
    if not is_real(workspace, asked_for(calls)):
        return True
    told = told_calls(calls)
    if not options.json:
        terminal.note(f"At most {told}.")
        terminal.note(foreseen(forecast(workspace, calls, n_slots)))
    return terminal.agreed(f"Spend up to {told}{detail}?", yes=options.yes, ask=not options.json)


def told_calls(calls: Mapping[Role, int]) -> str:
    """Return so many calls of each role, in words; the target has a number in any case."""
    n_optimizer, n_judge = calls.get("optimizer", 0), calls.get("judge", 0)
    optimizer = f" and {counted(n_optimizer, 'optimizer call')}" if n_optimizer else ""
    judge = f", and {n_judge:,} of the judge" if n_judge else ""
    return f"{counted(calls.get('target', 0), 'target call')}{optimizer}{judge}"


def asked_for(calls: Mapping[Role, int]) -> list[Role]:
    """Return the roles that models are asked for."""
    return [role for role, n_calls in calls.items() if n_calls]


def simulation(workspace: Workspace) -> str:
    """Return what marks the results of a simulated target, with its name; empty for a real one."""
    target = workspace.backend("target")
    return f"SIMULATION ({target.name})" if is_simulated(target.fingerprint) else ""


def is_real(workspace: Workspace, roles: Collection[Role]) -> bool:
    """Return whether one of those who answer for these roles is no simulation."""
    return not all(is_simulated(workspace.backend(role).fingerprint) for role in roles)
