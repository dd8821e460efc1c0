"""Bounds: the most that one call over HTTP can use, known before it is sent."""

from __future__ import annotations

import json

from skillopt_mcp.backends.api.messages import Prompt
from skillopt_mcp.backends.api.prices import Price, Tokens
from skillopt_mcp.backends.api.schemas import strict_schema
from skillopt_mcp.records.calls import Usage

_FRAME_TOKENS = 1000


def most_used(prompt: Prompt, max_tokens: int | None, price: Price | None) -> Usage | None:
    """Return the most that a call can use, None when nothing limits its answer.

    No token is shorter than a byte; vendors add a frame of their own, and a cache may be written instead of read.
    """
    if max_tokens is None:
        return None
    schema = json.dumps(strict_schema(prompt.reply)) if prompt.reply else ""
    n_in = len(prompt.system.encode()) + len(prompt.user.encode()) + len(schema) + _FRAME_TOKENS
    if price is None:
        return Usage(n_in, max_tokens)
    prices = [price.usd(Tokens(fresh=n_in, output=max_tokens)), price.usd(Tokens(cache_write=n_in, output=max_tokens))]
    known = [usd for usd in prices if usd is not None]
    return Usage(n_in, max_tokens, max(known) if len(known) == len(prices) else None)
