"""Budgeting: whether hard caps can hold for the backends of a run, before the first call is sent."""

from __future__ import annotations

import re
from collections.abc import Mapping

from skillopt_mcp.backends.base import Backend, environment_name, worst_case
from skillopt_mcp.backends.names import BESIDE, backend_name, is_spec
from skillopt_mcp.errors import BadInput
from skillopt_mcp.records.budgets import Caps, Spent, cost_of
from skillopt_mcp.records.calls import Call, Question, Role, Rollout
from skillopt_mcp.records.judging import Exact
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task

_TASK = Task(0, 0, "any", "any", Exact(kind="exact", expected="any"), "train", "any")
_SAMPLES: dict[Role, Call] = {
    "target": Call("target", "rollout", Rollout(SkillFiles(()), _TASK), "any"),
    "optimizer": Call("optimizer", "reflect", Question("any", "any", "patch"), "any"),
    "judge": Call("judge", "judge", Question("any", "any", "rubric"), "any"),
}


# What a store can count to.
_MOST = 1 << 63
_AT = re.compile(r",base_url=\w+://([^/,]+)")
_NO_CAP = "no cap on tokens or money can hold: "
_ADVICE = {
    "claude-code": "write max_usd=N in its spec for a cap on money, or cap the calls (--max-calls)",
    "scripted": "cap the calls (--max-calls)",
    "codex": "cap the calls (--max-calls) or the minutes (--max-minutes)",
}


def _is_own(backend: Backend) -> bool:
    """Return whether a backend is a program's or a package's own, which its spelling tells nothing."""
    return not is_spec(backend.name) or backend_name(backend.name)[0] == "plugin"


def _price(backend: Backend) -> str:
    if _is_own(backend) or environment_name(backend):
        return "have its 'worst_case' give the usd of its Usage, too, or use --max-tokens"
    return (
        "name it with price_in= and price_out= (dollars per million tokens) in its spec, or in SKILLOPT_PRICES"
        f"{_entry(backend)}, or use --max-tokens"
    )


def _entry(backend: Backend) -> str:
    """Return where a table of prices names the model of a backend over HTTP, whose host is in its spec."""
    kind, _, spec = backend.name.partition(BESIDE)[0].partition(":")
    at = _AT.search(spec)
    host = at[1].lower() if at else f"api.{kind}.com"
    return f' as "{spec.partition(",")[0]}" under ["{host}"]' if kind in ("openai", "anthropic") else ""


def _advice(backend: Backend) -> str:
    kind = backend.name.partition(":")[0]
    if environment_name(backend):
        return f"{_NO_CAP}give the environment a method 'worst_case() -> Usage', or cap the calls (--max-calls)"
    if _is_own(backend):
        cap = "--max-calls" if is_spec(backend.name) else "calls=N"
        return f"{_NO_CAP}give it a method 'worst_case(call) -> Usage', or cap the calls ({cap})"
    return _NO_CAP + _ADVICE.get(kind, "write max_tokens=N in its spec, or cap the calls (--max-calls)")


def check_caps(caps: Caps, backends: Mapping[Role, Backend]) -> None:
    """Raise BadInput for a cap that cannot be used, or that cannot hold because a backend's calls have no limit."""
    for name, cap in (("calls", caps.calls), ("tokens", caps.tokens), ("usd", caps.usd), ("minutes", caps.minutes)):
        given: object = cap
        if isinstance(given, bool) or not isinstance(given, int | float | None):
            raise BadInput(f"--max-{name} {given!r} is of type {type(given).__name__}: give a number above 0")
        if cap is not None and not cap > 0:
            raise BadInput(f"--max-{name} {cap} lets nothing happen: use more than 0")
        if isinstance(cap, float) and not cap.is_integer() and name in ("calls", "tokens"):
            raise BadInput(f"--max-{name} {cap} is of type float: give a whole number")
        if isinstance(cap, int) and cap >= _MOST:
            raise BadInput(f"--max-{name} {cap} lets everything happen: leave it out")
    if not caps.bound_each_call:
        return
    for role, backend in backends.items():
        usage = worst_case(backend, _SAMPLES[role])
        if usage is None:
            raise BadInput(f"'{backend.name}' sets no limit to an answer, so {_advice(backend)}")
        if caps.tokens is not None and usage.usd != 0.0 and not usage.tokens_in + usage.tokens_out:
            raise BadInput(
                f"'{backend.name}' limits money and not tokens, so no cap on tokens can hold: cap the money (--max-usd)"
            )
        if caps.usd is not None and usage.usd is None:
            raise BadInput(
                f"the price of '{backend.name}' is not known, so no cap on money can hold: {_price(backend)}"
            )


def is_used_up(caps: Caps, spent: Spent, backends: Mapping[Role, Backend]) -> bool:
    """Return whether not even a small call to any of these backends can be sent any more."""
    usages = {
        role: worst_case(backend, _SAMPLES[role]) if caps.bound_each_call else None
        for role, backend in backends.items()
    }
    return all(caps.exceeded(spent.plus(*cost_of(_SAMPLES[role], usage))) for role, usage in usages.items())
