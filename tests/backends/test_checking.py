"""Checking a backend: one short call, and what is wrong in a sentence."""

import pytest
from api_calls import ENVIRON
from loopback import KEY, Sent, loopback

from skillopt_mcp.backends.wrappers import check_backend


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)


def test_a_backend_that_answers_is_asked_once_and_nothing_is_wrong() -> None:
    with loopback("ok") as server:
        assert check_backend(f"openai:m,base_url={server.url}/v1") is None
        assert check_backend(f"anthropic:m,base_url={server.url}") is None
        assert [request.user for request in server.requests] == ["Answer with the word: ok"] * 2


def test_a_wrong_key_is_named_and_not_shown() -> None:
    with loopback(Sent(401, b'{"error": {"message": "bad key ' + KEY.encode() + b'"}}')) as server:
        assert check_backend(f"anthropic:m,base_url={server.url}") == (
            f"{server.host} (m): 401 bad key $ANTHROPIC_API_KEY; "
            "set ANTHROPIC_API_KEY in the environment to a key that may use this model"
        )


def test_what_cannot_be_opened_is_reported_without_a_call() -> None:
    assert check_backend("openai:m,effort=huge").startswith("'effort' of 'openai:m' cannot be used")
    assert check_backend("none-such:m").startswith("unknown backend 'none-such'")


def test_a_backend_that_costs_nothing_is_only_opened() -> None:
    assert check_backend("simulated:honest") is None
