"""Answers: what a model sent back, as the reply to a call or the fault that it means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

import httpx2
from pydantic import BaseModel, ConfigDict, ValidationError

from skillopt_mcp.backends.api.faults import Origin
from skillopt_mcp.backends.api.prices import Price, Tokens
from skillopt_mcp.backends.api.prompts import Prompt
from skillopt_mcp.core.calls import Fault, Message, Reply, Usage

# English has four and more, code and other scripts have fewer.
_BYTES_PER_TOKEN = 3
# What is above is a broken count, and more than a store can add up.
_MAX_TOKENS = 10**9
_THOUGHTS = re.compile(r"\s*<think(?:ing)?>(.*?)(?:</think(?:ing)?>|(\Z))", re.DOTALL | re.IGNORECASE)


class VendorPart(BaseModel):
    """A part of a vendor's response; what we do not read may be anything."""

    model_config = ConfigDict(extra="ignore", frozen=True)


W = TypeVar("W", bound=VendorPart)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: text, thoughts that were shown, tokens, and the fault it ended in, with the reason given.

    `tokens` is None where the server does not say what it used; `served` is the model that it says answered.
    """

    text: str
    thoughts: str
    tokens: Tokens | None
    fault: Fault | None = None
    reason: str = ""
    served: str = ""


def body_of(response: httpx2.Response, model: type[W], origin: Origin) -> W:
    """Parse the body of a response. Raises BackendFault (connection) when it is not a `model`."""
    body, content_type = response.content, response.headers.get("content-type", "")
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        what = f"the response of {len(body):,} bytes ({content_type or 'no content type'}) cannot be read: "
        raise origin.fault("connection", what + (f"{where}: " if where else "") + first["msg"]) from None


def is_counted(n_in: int | None, n_out: int | None) -> bool:
    """True where a server says what it used: no model answers without having read anything."""
    return n_in is not None and n_out is not None and 0 < n_in <= _MAX_TOKENS and 0 <= n_out <= _MAX_TOKENS


def reply_of(answer: Answer, origin: Origin, price: Price | None, max_tokens: int | None, prompt: Prompt) -> Reply:
    """Return the reply; what it used is estimated from its text and the prompt where the server does not say.

    An answer as long as `max_tokens` is cut off, whatever the server says of its end.
    Raises BackendFault, with the usage that is paid all the same where that is known, when there is no reply in it.
    """
    tokens, usage = answer.tokens, None
    # A server may say that a text is made of no tokens.
    if tokens is not None and (tokens.output or not answer.text):
        usd = price.usd(tokens) if price else None
        usage = Usage(tokens.input, tokens.output, usd, tokens_cached=tokens.cached)
    if answer.fault:
        raise origin.fault(answer.fault, answer.reason or "there is no whole answer", usage=usage)
    if tokens and max_tokens and tokens.output >= max_tokens:
        raise origin.fault("truncated", f"the answer ended at its limit of {max_tokens:,} tokens", usage=usage)
    text, thoughts = answer.text, answer.thoughts.strip()
    if found := _THOUGHTS.match(text):  # of a model that thinks in the open
        text, thoughts = text[found.end() :].lstrip(), found[1].strip()
    if not text.strip():
        is_open = found is not None and found[2] is not None
        raise origin.fault(
            "empty", f"the {'thinking block is not closed' if is_open else 'answer is empty'}", usage=usage
        )
    messages = (Message("assistant", thoughts, "thinking"),) if thoughts else ()
    if usage is None:
        n_out = _n_tokens(answer.text) + _n_tokens(answer.thoughts)
        usage = Usage(_n_tokens(prompt.system + prompt.user), n_out, usd=None, estimated=True)
    return Reply(text, messages, usage, served=answer.served)


def _n_tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)
