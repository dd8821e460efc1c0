"""Options of the backends over HTTP: what a spec may hold, what a call costs, and the most that it can cost."""

import asyncio
import json
from pathlib import Path

import pytest
from api_calls import ENVIRON, REFLECT, ROLLOUT, anthropic_at, fault_of, openai_at
from loopback import KEY, Sent, loopback

from skillopt_mcp.backends.anthropic import open_anthropic
from skillopt_mcp.backends.api.prices import TABLE_PATH, Price, Tokens, max_usage
from skillopt_mcp.backends.api.prompts import Prompt
from skillopt_mcp.backends.base import worst_case
from skillopt_mcp.backends.openai import open_openai
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.core.calls import Call, Usage
from skillopt_mcp.core.errors import BackendError


def test_a_name_opens_the_same_backend_again() -> None:
    spec = "llama3:8b,base_url=http://127.0.0.1:11434/v1,api=chat,structured=off,temperature=0.0"
    backend = open_openai(spec, {})
    assert sorted(backend.name.split(",")) == sorted(f"openai:{spec}".split(","))
    assert open_openai(backend.name.partition(":")[2], {}).fingerprint == backend.fingerprint


def test_a_fingerprint_changes_with_what_changes_answers_and_no_sooner() -> None:
    plain = open_openai("m", ENVIRON).fingerprint
    same = ["m,timeout=5", "m,price_in=1,price_out=2", "m,structured=on", "m,api=auto"]
    others = ["n", "m,effort=low", "m,temperature=1", "m,max_tokens=9", "m,api=chat", "m,structured=off"]
    assert {open_openai(text, ENVIRON).fingerprint for text in same} == {plain}
    fingerprints = {open_openai(text, ENVIRON).fingerprint for text in others}
    elsewhere = open_openai("m,base_url=https://models.example/v1", ENVIRON).fingerprint
    assert len({plain, elsewhere, *fingerprints}) == len(others) + 2
    assert open_anthropic("m", ENVIRON).fingerprint != open_anthropic("m,thinking=2000", ENVIRON).fingerprint


def test_no_secret_is_in_a_name_or_a_fingerprint_or_a_representation() -> None:
    for backend in (open_openai("m", ENVIRON), open_anthropic("m", ENVIRON)):
        assert KEY not in f"{backend.name} {backend.fingerprint} {backend.endpoint} {backend.origin}"


@pytest.mark.parametrize(
    ("text", "environ", "message"),
    [
        ("m", {}, "'openai:m' needs a key: set OPENAI_API_KEY in the environment"),
        ("m,key_env=MY_KEY", ENVIRON, "'openai:m' needs a key: set MY_KEY in the environment"),
        ("m", {"OPENAI_API_KEY": f"{KEY}\nx"}, "$OPENAI_API_KEY holds a character that no key has: set it again"),
        ("m,azure=on", ENVIRON, "set AZURE_OPENAI_ENDPOINT (or base_url=)"),
        ("m,azure=on,base_url=https://x.openai.azure.com", ENVIRON, "set OPENAI_API_VERSION (or api_version=)"),
        (
            "m,azure=on,base_url=https://x.openai.azure.com,api_version=1",
            ENVIRON,
            "set AZURE_OPENAI_AD_TOKEN or AZURE_OPENAI_API_KEY in the environment",
        ),
        ("", ENVIRON, "'model' of 'openai:' cannot be used"),
        ("m,effort=huge", ENVIRON, "'effort' of 'openai:m' cannot be used"),
        ("m,colour=red", ENVIRON, "cannot use option 'colour' of 'openai:m'; give each once of: base_url="),
        ("m,api=chat,api=auto", ENVIRON, "cannot use option 'api'"),
        (f"m,api_key={KEY}", ENVIRON, "'api_key' of 'openai:m' is not an option: secrets come from the environment"),
        (f"m,key_env={KEY}", ENVIRON, "'key_env' of 'openai:m' cannot be used"),
        (f"m,base_url=https://u:{KEY}@h/v1", ENVIRON, "the base URL cannot be used"),
        ("m,base_url=ftp://h", ENVIRON, "the base URL cannot be used"),
        ("m,base_url=http://models.example/v1", ENVIRON, "would send $OPENAI_API_KEY unencrypted to 'models.example'"),
        ("m,price_in=1", ENVIRON, "has half a price"),
        (f"m,token={KEY}", ENVIRON, "'token' of 'openai:m' is not an option: secrets come from the environment"),
    ],
)
def test_what_cannot_be_used_is_refused_without_its_secrets(text: str, environ: dict[str, str], message: str) -> None:
    with pytest.raises(BackendError) as caught:
        open_openai(text, environ)
    assert message in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_key_may_have_a_name_of_its_own_and_a_server_of_ones_own_may_need_none() -> None:
    own = open_openai("m,base_url=https://models.example/v1,key_env=MY_KEY", ENVIRON | {"MY_KEY": "other"})
    assert own.endpoint.secret.value == "other"
    assert open_openai("m,base_url=http://models.example:8000/v1", {}).endpoint.secret.value == "none"
    assert open_openai("m,base_url=http://models.example/v1,plain_http=on", ENVIRON).name.endswith("plain_http=on")
    assert open_anthropic("m", {"ANTHROPIC_AUTH_TOKEN": "t"}).endpoint.secret.name == "ANTHROPIC_AUTH_TOKEN"


PRICE = Price(input=2.0, cached=0.2, cache_write=2.5, output=10.0)


def price_of(text: str, **environ: str) -> Price | None:
    return open_openai(text, ENVIRON | environ).price


def test_the_shipped_table_is_dated_and_can_be_read() -> None:
    assert TABLE_PATH.read_text("utf-8").count('\nas_of = "20') == 1
    assert price_of("gpt-6.1-sol") == Price(input=2.0, cached=0.1, cache_write=2.5, output=10.0, up_to=272_000)
    assert price_of("gpt-6.1-sol-2026-10-01") == price_of("gpt-6.1-sol")
    assert open_anthropic("claude-sonnet-4-5-20250929", ENVIRON).price == Price(
        input=3.0, cached=0.3, cache_write=3.75, output=15.0
    )


def test_a_persons_table_goes_before_the_shipped_one_and_options_before_both(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text('["api.openai.com"]\n"gpt-6.1-sol" = { input = 1.0, output = 2.0 }\n')
    mine = {"SKILLOPT_PRICES": str(path)}
    assert price_of("gpt-6.1-sol", **mine) == Price(input=1.0, cache_write=1.25, output=2.0)
    assert price_of("gpt-6-luna", **mine) == price_of("gpt-6-luna")
    assert price_of("gpt-6.1-sol,price_in=3,price_cached=1,price_out=4", **mine) == Price(
        input=3.0, cached=1.0, cache_write=3.75, output=4.0
    )


HALF = "m,price_in=4,price_out=8"
AT = "base_url=https://models.example"


def written(price: Price | None) -> float | None:
    """Return what a million tokens cost that were written to a cache."""
    assert price is not None
    return price.usd(Tokens(cache_write=1_000_000))


def test_what_anthropic_writes_to_its_cache_is_a_quarter_dearer_wherever_its_price_comes_from(tmp_path: Path) -> None:
    assert written(open_anthropic(HALF, ENVIRON).price) == 5.0
    assert written(open_anthropic(f"{HALF},{AT}", ENVIRON).price) == 5.0
    assert written(open_anthropic(f"{HALF},price_cache_write=6", ENVIRON).price) == 6.0
    assert written(open_anthropic(f"{HALF},price_cache_write=0", ENVIRON).price) == 0.0
    path = tmp_path / "prices.toml"
    path.write_text(
        '["models.example"]\n"m" = { input = 4, output = 8 }\n"n" = { input = 4, cache_write = 7, output = 8 }'
    )
    mine = ENVIRON | {"SKILLOPT_PRICES": str(path)}
    assert [written(open_anthropic(f"{model},{AT}", mine).price) for model in ("m", "n")] == [5.0, 7.0]


URL = "http://127.0.0.1:9"
PROMPT = Prompt(("é" * 100, "b" * 200), "c" * 300)


def test_no_token_is_shorter_than_a_byte_and_a_cache_may_be_dearer_to_write_than_to_pass_by() -> None:
    price = Price(input=1.0, cache_write=2.0, output=10.0)
    assert max_usage(PROMPT, 50, price) == Usage(1700, 50, (1700 * 2.0 + 50 * 10.0) / 1e6)
    assert max_usage(PROMPT, 50, Price(input=1.0, cache_write=0.5, output=10.0)) == Usage(1700, 50, 2200 / 1e6)


@pytest.mark.parametrize("call", [ROLLOUT, REFLECT])
def test_api_backends_are_bounded_by_the_limit_of_their_answers(call: Call) -> None:
    assert worst_case(openai_at(URL), call) is None
    for backend in (openai_at(URL, "max_tokens=70"), anthropic_at(URL, "max_tokens=70")):
        most = worst_case(backend, call)
        assert most
        assert (most.tokens_out, most.usd) == (70, None)
        assert most.tokens_in > 1000


@pytest.mark.parametrize("call", [ROLLOUT, REFLECT])
@pytest.mark.parametrize(("more", "dearer"), [((), 1.25), (("price_cache_write=2",), 2.0)])
def test_an_answer_of_anthropic_that_wrote_all_of_its_prompt_to_the_cache_is_within_what_was_set_aside(
    call: Call, more: tuple[str, ...], dearer: float
) -> None:
    backend = anthropic_at(URL, "max_tokens=70", "price_in=1", "price_out=2", *more)
    most = worst_case(backend, call)
    assert most
    usage = {"input_tokens": 0, "cache_creation_input_tokens": most.tokens_in, "output_tokens": 70}
    body = {"content": [{"type": "text", "text": "42"}], "stop_reason": "end_turn", "usage": usage, "model": "m"}
    with loopback(Sent(body=json.dumps(body).encode(), headers={"content-type": "application/json"})) as server:
        found = fault_of(anthropic_at(server.url, "max_tokens=70", "price_in=1", "price_out=2", *more), call)
    assert (found.fault, found.usage is not None) == ("truncated", True)
    paid = found.usage.usd
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
