"""Bounds: what one call can use at most, and how many go out at once, by backend."""

import asyncio
import json

import pytest
from api_calls import REFLECT, ROLLOUT, anthropic_at, ask, openai_at
from loopback import Sent, loopback

from skillopt_mcp.backends.api.prices import Price, most_used
from skillopt_mcp.backends.api.prompts import Prompt
from skillopt_mcp.backends.base import worst_case
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.records.calls import Call, Usage

AT = "http://127.0.0.1:9"
PROMPT = Prompt("é" * 100, "b" * 200, "c" * 300)


def test_no_token_is_shorter_than_a_byte_and_a_cache_may_be_dearer_to_write_than_to_pass_by() -> None:
    price = Price(input=1.0, cache_write=2.0, output=10.0)
    assert most_used(PROMPT, 50, price) == Usage(1700, 50, (1700 * 2.0 + 50 * 10.0) / 1e6)
    assert most_used(PROMPT, 50, Price(input=1.0, cache_write=0.5, output=10.0)) == Usage(1700, 50, 2200 / 1e6)


@pytest.mark.parametrize("call", [ROLLOUT, REFLECT])
def test_api_backends_are_bounded_by_the_limit_of_their_answers(call: Call) -> None:
    assert worst_case(openai_at(AT), call) is None
    for backend in (openai_at(AT, "max_tokens=70"), anthropic_at(AT, "max_tokens=70")):
        most = worst_case(backend, call)
        assert most
        assert (most.tokens_out, most.usd) == (70, None)
        assert most.tokens_in > 1000


@pytest.mark.parametrize("call", [ROLLOUT, REFLECT])
@pytest.mark.parametrize(("more", "dearer"), [((), 1.25), (("price_cache_write=2",), 2.0)])
def test_an_answer_of_anthropic_that_wrote_all_of_its_prompt_to_the_cache_is_within_what_was_set_aside(
    call: Call, more: tuple[str, ...], dearer: float
) -> None:
    backend = anthropic_at(AT, "max_tokens=70", "price_in=1", "price_out=2", *more)
    most = worst_case(backend, call)
    assert most
    usage = {"input_tokens": 0, "cache_creation_input_tokens": most.tokens_in, "output_tokens": 70}
    body = {"content": [{"type": "text", "text": "42"}], "stop_reason": "end_turn", "usage": usage, "model": "m"}
    with loopback(Sent(body=json.dumps(body).encode(), headers={"content-type": "application/json"})) as server:
        paid = ask(anthropic_at(server.url, "max_tokens=70", "price_in=1", "price_out=2", *more), call).usage.usd
    assert paid == pytest.approx((most.tokens_in * dearer + 70 * 2) / 1e6)
    assert paid == most.usd


@pytest.mark.parametrize("call", [ROLLOUT, REFLECT])
@pytest.mark.parametrize("spec", ["simulated:honest", "simulated:honest,trajectory_bytes=5000"])
def test_a_simulation_never_uses_more_than_it_says(spec: str, call: Call) -> None:
    backend = open_backend(spec)
    used = asyncio.run(backend.complete(call)).usage
    most = worst_case(backend, call)
    assert most
    assert used.tokens_in <= most.tokens_in
    assert used.tokens_out <= most.tokens_out
    assert most.usd == 0.0
