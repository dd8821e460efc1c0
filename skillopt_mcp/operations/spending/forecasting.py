"""Forecasting: what a run may take in tokens, money and minutes, by what the same models took before."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.backends.base import Backend, slots_of
from skillopt_mcp.backends.batches import batching
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.prompts.asking import MAX_REASKS
from skillopt_mcp.records.calls import Role
from skillopt_mcp.store.ledger import Usual


class Forecast(BaseModel):
    """What the calls of an estimate take, when each takes what such calls took on average in earlier runs.

    None where no call of one of the models, which are then `unknown`, is stored, or a price is not known. With
    `by_batch` nobody knows how long: vendors take their time.
    """

    model_config = ConfigDict(frozen=True)
    tokens: int | None = None
    usd: float | None = None
    minutes: float | None = None
    by_batch: bool = False
    unknown: tuple[Role, ...] = ()


def forecast(workspace: Workspace, calls: Mapping[Role, int], n_slots: int | None = None) -> Forecast:
    """Return what so many calls of each role take at most, with so many of them at once."""
    tokens, usd, seconds, unknown = 0.0, 0.0, 0.0, list[Role]()
    priced, by_batch = True, False
    for role, n_calls in calls.items():
        if not n_calls:
            continue
        backend = workspace.backend(role)
        usual = _usual(workspace, role, backend)
        if usual is None:
            unknown.append(role)
            continue
        by_batch = by_batch or batching(backend) is not None
        tokens += n_calls * usual.tokens
        seconds += n_calls * usual.latency_ms / 1000 / (n_slots or slots_of(backend))
        priced = priced and usual.usd is not None
        usd += n_calls * (usual.usd or 0.0)
    if unknown:
        return Forecast(unknown=tuple(unknown))
    minutes = None if by_batch else seconds / 60
    return Forecast(tokens=round(tokens), usd=usd if priced else None, minutes=minutes, by_batch=by_batch)


def most_again(calls: Mapping[Role, int]) -> int:
    """Return how many calls an estimate leaves out at most, which ask anew where a reply cannot be used."""
    return MAX_REASKS * (calls.get("optimizer", 0) + calls.get("judge", 0))


def _usual(workspace: Workspace, role: Role, backend: Backend) -> Usual | None:
    """Return what a call takes on average; by batch, when none has been asked so yet, what others took for less."""
    ledger, vendor = workspace.store.ledger, batching(backend)
    usual = ledger.usual(role, backend.name, backend.fingerprint, by_batch=vendor is not None)
    if usual is not None or vendor is None:
        return usual
    usual = ledger.usual(role, backend.name, backend.fingerprint)
    if usual is None or usual.usd is None:
        return usual
    return usual._replace(usd=usual.usd * vendor.discount)
