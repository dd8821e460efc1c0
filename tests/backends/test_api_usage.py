"""Usage: what a server does not say it used is estimated and has no price; it is never taken for nothing."""

import json
from typing import Any

import pytest
from api_calls import anthropic_at, ask, chat_at, fault_of, openai_at
from loopback import Act, Request, Said, Sent, _chat, _message, _responses, loopback

BODIES = {
    openai_at: _responses, chat_at: _chat, anthropic_at: lambda request, said: _message(request, said, was_cached=False)
}  # fmt: skip
NONE = {"input_tokens": 0, "output_tokens": 0, "prompt_tokens": 0, "completion_tokens": 0}
BROKEN = [
    None,
    {},
    NONE,
    NONE | {"input_tokens": 900, "prompt_tokens": 900},
    dict.fromkeys(NONE, -5),
    dict.fromkeys(NONE, 10**30),
    {"total_tokens": 12},
]
PRICED = ("price_in=1", "price_out=2", "max_tokens=50")


def saying(opener, usage: Any, said: Said) -> Act | Any:
    def act(_: int, request: Request) -> Act:
        body = BODIES[opener](request, said)
        body["usage"] = usage
        if usage is None:
            del body["usage"]
        return Sent(body=json.dumps(body).encode(), headers={"content-type": "application/json"})

    return act


@pytest.mark.parametrize("opener", list(BODIES))
@pytest.mark.parametrize("usage", BROKEN)
def test_a_server_that_does_not_say_what_it_used_is_not_taken_to_cost_nothing(opener, usage: object) -> None:
    with loopback(saying(opener, usage, Said("forty-two " * 30))) as server:
        reply = ask(opener(server.url, *PRICED))
    assert (reply.usage.estimated, reply.usage.usd) == (True, None)
    assert reply.usage.tokens_out == 100
    assert 10 < reply.usage.tokens_in < 1000


@pytest.mark.parametrize("opener", list(BODIES))
def test_a_server_that_says_what_it_used_is_believed(opener) -> None:
    with loopback("42") as server:
        usage = ask(opener(server.url, *PRICED)).usage
    assert not usage.estimated
    assert usage.usd


@pytest.mark.parametrize(
    ("opener", "end"), [(openai_at, "max_output_tokens"), (chat_at, "length"), (anthropic_at, "max_tokens")]
)
def test_an_answer_that_was_cut_off_without_saying_what_it_used_may_have_cost_its_most(opener, end: str) -> None:
    with loopback(saying(opener, None, Said("forty", end=end))) as server:
        fault = fault_of(opener(server.url, *PRICED))
    assert (fault.fault, fault.usage) == ("truncated", None)
