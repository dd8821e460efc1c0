"""Tracing: OpenTelemetry spans of runs, steps and calls, where the process has set a tracer provider; else nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace

from skillopt_mcp.core.calls import Call, Fault, Usage

_TRACER = trace.get_tracer("skillopt_mcp")


def is_on() -> bool:
    """Whether anybody takes spans."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


@contextmanager
def span(name: str, **attributes: str | int) -> Iterator[None]:
    """Be inside a span; the attributes are ours ("skillopt.")."""
    if not is_on():
        yield
        return
    named = {f"skillopt.{key}": value for key, value in attributes.items()}
    # The text of a failure may repeat what was asked or answered: its kind is all that goes out.
    with _TRACER.start_as_current_span(
        name, attributes=named, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield
        except BaseException as error:
            current.set_attribute("error.type", type(error).__name__)
            current.set_status(trace.StatusCode.ERROR)
            raise


def note_call(call: Call, backend: str, latency_s: float, outcome: Usage | Fault) -> None:
    """Note one attempt at a call that has just ended, by the semantic conventions for generative AI.

    It records what the attempt used, or the fault that it ended in, and no text of the question or the answer.
    """
    provider, _, spec = backend.partition(":")
    model = spec.partition(",")[0]
    model = "" if "=" in model else model
    attributes: dict[str, str | int] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
        "skillopt.role": call.role,
        "skillopt.stage": call.stage,
        "skillopt.draw": call.draw,
    }
    if isinstance(outcome, Usage):
        attributes |= {"gen_ai.usage.input_tokens": outcome.tokens_in, "gen_ai.usage.output_tokens": outcome.tokens_out}
    else:
        attributes["error.type"] = outcome
    ended = time.time_ns()
    noted = _TRACER.start_span(
        f"chat {model}".rstrip(), kind=trace.SpanKind.CLIENT, attributes=attributes,
        start_time=ended - round(latency_s * 1e9),
    )  # fmt: skip
    if not isinstance(outcome, Usage):
        noted.set_status(trace.StatusCode.ERROR, outcome)
    noted.end(ended)
