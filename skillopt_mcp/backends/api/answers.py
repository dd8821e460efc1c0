"""Answers: what a model sent back, as the reply to a call or the fault that it amounts to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from skillopt_mcp.backends.api.faults import Origin
from skillopt_mcp.backends.api.prices import Price, Tokens
from skillopt_mcp.records.calls import Fault, Message, Reply, Usage

_THOUGHTS = re.compile(r"\s*<think>(.*?)</think>", re.DOTALL)


class Wire(BaseModel):
    """A part of a vendor's response; what we do not read may be anything."""

    model_config = ConfigDict(extra="ignore", frozen=True)


W = TypeVar("W", bound=Wire)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: text, thoughts that were shown, tokens, and the fault it ended in, with the reason given."""

    text: str
    thoughts: str
    tokens: Tokens
    fault: Fault | None = None
    reason: str = ""


def parse_body(body: bytes, content_type: str, model: type[W], origin: Origin) -> W:
    """Return the response as `model`. Raises BackendFault (malformed) when the body is not one."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        what = f"the response of {len(body):,} bytes ({content_type or 'no content type'}) cannot be read: "
        raise origin.fault("malformed", what + (f"{where}: " if where else "") + first["msg"]) from None


def reply_of(answer: Answer, origin: Origin, price: Price | None) -> Reply:
    """Return the reply. Raises BackendFault, with the usage that is paid all the same, when there is none in it."""
    usage = _usage(answer.tokens, price)
    if answer.fault:
        raise origin.fault(answer.fault, answer.reason or "there is no whole answer", usage=usage)
    text, thoughts = _split(answer)
    if not text.strip():
        raise origin.fault("empty", "the answer is empty", usage=usage)
    messages = (Message("assistant", thoughts, "thinking"),) if thoughts else ()
    return Reply(text, messages, usage)


def _split(answer: Answer) -> tuple[str, str]:
    """Return text and thoughts, for models that think in the open."""
    found = _THOUGHTS.match(answer.text)
    if found is None:
        return answer.text, answer.thoughts.strip()
    return answer.text[found.end() :].lstrip(), found[1].strip()


def _usage(tokens: Tokens, price: Price | None) -> Usage:
    return Usage(
        tokens_in=tokens.input,
        tokens_out=tokens.output,
        usd=price.usd(tokens) if price else None,
        tokens_cached=tokens.cached,
    )
