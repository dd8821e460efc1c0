"""Forecasting: what a run may take in tokens, money and minutes, by what the same models took before."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.backends.base import slots_of
from skillopt_mcp.operations.estimating import Estimate
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.calls import Role


class Forecast(BaseModel):
    """What the calls of an estimate take, when each takes what such calls took on average in earlier runs.

    None where no call of one of the models is stored, or a price is not known.
    """

    model_config = ConfigDict(frozen=True)
    tokens: int | None = None
    usd: float | None = None
    minutes: float | None = None


def forecast(workspace: Workspace, estimate: Estimate, n_slots: int | None = None) -> Forecast:
    """Return what a run may take at most, with so many calls at once."""
    tokens, usd, seconds = 0.0, 0.0, 0.0
    priced = True
    counts: tuple[tuple[Role, int], ...] = (
        ("target", estimate.target_calls),
        ("optimizer", estimate.optimizer_calls),
        ("judge", estimate.judge_calls),
    )
    for role, n_calls in counts:
        if not n_calls:
            continue
        backend = workspace.backend(role)
        usual = workspace.store.calls.usual(role, backend.name)
        if usual is None:
            return Forecast()
        tokens += n_calls * usual.tokens
        seconds += n_calls * usual.latency_ms / 1000 / (n_slots or slots_of(backend))
        priced = priced and usual.usd is not None
        usd += n_calls * (usual.usd or 0.0)
    return Forecast(tokens=round(tokens), usd=usd if priced else None, minutes=seconds / 60)
