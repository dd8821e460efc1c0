"""Asking: questions whose replies are parsed, and put again, twice at most, when a reply cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from pydantic import BaseModel

from skillopt_mcp.prompts.parsing import parse_reply
from skillopt_mcp.records.calls import Ask, Call, Question

M = TypeVar("M", bound=BaseModel)
MAX_REASKS = 2


@dataclass(frozen=True, slots=True)
class Parsed(Generic[M]):
    """A usable reply as `value`, or None with the `problem` and the beginning of what was answered."""

    value: M | None
    problem: str = ""


def ask_parsed(ask: Ask, calls: Sequence[Call], model: type[M]) -> list[Parsed[M]]:
    """Return the parsed reply to each call, asked together; unusable ones are asked again as child calls."""
    results: list[Parsed[M]] = [Parsed(None)] * len(calls)
    open_calls = dict(enumerate(calls))
    for round_ in range(MAX_REASKS + 1):
        replies = ask([_child(call, round_, results[i].problem) for i, call in open_calls.items()])
        for (i, _), reply in zip(list(open_calls.items()), replies, strict=True):
            if reply.missing:
                results[i] = Parsed(None, f"missing ({reply.fault}): {reply.text[:200]}")
                del open_calls[i]
                continue
            parsed = parse_reply(reply.text, model)
            if isinstance(parsed, str):
                results[i] = Parsed(None, f"{parsed}: {reply.text[:200]}")
            else:
                results[i] = Parsed(parsed)
                del open_calls[i]
        if not open_calls:
            break
    return results


def _child(call: Call, round_: int, problem: str) -> Call:
    """Return the call itself, or the child that asks again and says what was wrong."""
    if round_ == 0 or not isinstance(call.request, Question):
        return call
    reason = problem.partition(": ")[0]
    instructions = f"{call.request.instructions}\n\nYour last answer could not be used ({reason}). Answer with the JSON object only."
    return replace(call, request=replace(call.request, instructions=instructions), draw=f"{call.draw}/again{round_}")
