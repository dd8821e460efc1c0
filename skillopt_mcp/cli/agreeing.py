"""Agreeing: what a command may ask of models at most, told, and agreed to before the first call."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.capping import Capped, foreseen, told_uncounted
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.spending.forecasting import Forecast, forecast, most_again
from skillopt_mcp.operations.testing.evaluating import is_simulated
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.calls import Role

PLANNED, UNWANTED = 0, 1
NOTHING_SPENT, NO_MORE_SPENT = "Nothing was spent.", "Nothing more was spent."


class Planned(Forecast):
    """What a command would ask of each role at most, and what that takes as far as it is known; nothing was asked.

    Up to `n_again` calls more ask anew where a reply cannot be used.
    """

    status: Literal["planned"] = "planned"
    calls: dict[Role, int]
    n_again: int
    simulated: bool
    next_step: str = "the same command without --dry-run"


def ends_here(
    workspace: Workspace, calls: Mapping[Role, int], options: Capped, told: str, n_slots: int | None = None,
    question: str = "Spend that much?", declined: str = NOTHING_SPENT,
) -> int | None:  # fmt: skip
    """Tell what so many calls of each role take, and return the exit code of a command that is to make none.

    That is a dry run, or one that the person does not agree to. None: it goes on, agreed to or with nothing to pay for.
    Raises Refused when nobody may be asked and nobody agreed beforehand.
    """
    real = is_real(workspace, asked_for(calls))
    expected = forecast(workspace, calls, n_slots) if options.dry_run or (real and not options.json) else Forecast()
    if not options.json:
        terminal.note(told)
        if real:
            terminal.note(f"{foreseen(expected)}{told_uncounted(most_again(calls))}")
    if options.dry_run:
        n_again = most_again(calls)
        return _planned(
            Planned(**expected.model_dump(), calls=dict(calls), n_again=n_again, simulated=not real), options
        )
    if not real or terminal.agreed(question, yes=options.yes, ask=not options.json):
        return None
    terminal.note(declined)
    return UNWANTED


def _planned(plan: Planned, options: Capped) -> int:
    if options.json:
        terminal.emit(plan)
    else:
        terminal.note(f"A dry run: {NOTHING_SPENT[0].lower()}{NOTHING_SPENT[1:]}")
    return PLANNED


def unwilling(
    workspace: Workspace, calls: Mapping[Role, int], options: Capped, n_slots: int | None = None, detail: str = ""
) -> int | None:
    """Return what `ends_here` does, where no more is to be told than the calls; nothing, where none is paid for."""
    if not options.dry_run and not is_real(workspace, asked_for(calls)):
        return None
    told = told_calls(calls)
    return ends_here(workspace, calls, options, f"At most {told}.", n_slots, f"Spend up to {told}{detail}?")


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
