"""Asking: questions whose replies are parsed, and put again, twice at most, when a reply cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from pydantic import BaseModel

from skillopt_mcp.prompts.parsing import parse_reply
from skillopt_mcp.records.calls import Ask, Call, Question, Reply

M = TypeVar("M", bound=BaseModel)
MAX_REASKS = 2
SHOWN = 200


@dataclass(frozen=True, slots=True)
class Parsed(Generic[M]):
    """A usable reply as `value`, or None with the `problem` and the beginning of what was answered."""

    value: M | None
    problem: str = ""


def ask_parsed(
    ask: Ask, calls: Sequence[Call], model: type[M], check: Callable[[M], str] | None = None
) -> list[Parsed[M]]:
    """Return the parsed reply to each call, asked together; unusable ones are asked again as child calls.

    `check` says what else is wrong with a parsed reply, and nothing ("") when it can be used.
    """
    results: list[Parsed[M]] = [Parsed(None)] * len(calls)
    reasons: dict[int, str] = dict.fromkeys(range(len(calls)), "")
    for round_ in range(MAX_REASKS + 1):
        if not reasons:
            break
        replies = ask([_child(calls[i], round_, reason) for i, reason in reasons.items()])
        for i, reply in zip(list(reasons), replies, strict=True):
            results[i], reasons[i] = _parsed(reply, model, check)
        reasons = {i: reason for i, reason in reasons.items() if reason}
    return results


def _parsed(reply: Reply, model: type[M], check: Callable[[M], str] | None) -> tuple[Parsed[M], str]:
    """Return what became of a reply, and the reason to ask again if there is one: a missing reply stays missing."""
    if reply.missing:
        return Parsed(None, f"missing ({reply.fault}): {_beginning(reply.text)}"), ""
    parsed = parse_reply(reply.text, model)
    if isinstance(parsed, str):
        return Parsed(None, f"{parsed}: {_beginning(reply.text)}"), parsed
    problem = check(parsed) if check else ""
    return (Parsed(None, f"{problem}: {_beginning(reply.text)}"), problem) if problem else (Parsed(parsed), "")


def _child(call: Call, round_: int, reason: str) -> Call:
    """Return the call itself, or the child that asks again and says what was wrong."""
    if round_ == 0 or not isinstance(call.request, Question):
        return call
    again = f"Your last answer could not be used ({reason}). Answer with the JSON object only."
    request = replace(call.request, instructions=f"{call.request.instructions}\n\n{again}")
    return call._replace(request=request, draw=f"{call.draw}/again{round_}")


def _beginning(text: str) -> str:
    # A reply may hold half surrogate pairs, which no store takes.
    return text[:SHOWN].encode("utf-8", "backslashreplace").decode()
