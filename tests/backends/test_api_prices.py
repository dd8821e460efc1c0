"""Prices: what a call costs, where the price comes from, and that an unknown one stays unknown."""

from pathlib import Path

import pytest
from api_calls import ENVIRON

from skillopt_mcp.backends.anthropic import open_anthropic
from skillopt_mcp.backends.api.prices import TABLE_PATH, Price, Tokens
from skillopt_mcp.backends.openai import open_openai

PRICE = Price(input=2.0, cached=0.2, cache_write=2.5, output=10.0)


def price_of(text: str, **environ: str) -> Price | None:
    return open_openai(text, ENVIRON | environ).price


def test_each_kind_of_token_has_its_price() -> None:
    tokens = Tokens(fresh=1_000, cached=10_000, cache_write=100, output=500)
    assert PRICE.usd(tokens) == pytest.approx(0.002 + 0.002 + 0.00025 + 0.005)
    assert Price(input=2.0, output=10.0).usd(tokens) == pytest.approx(11_100 * 2e-6 + 0.005)


def test_the_shipped_table_is_dated_and_can_be_read() -> None:
    assert TABLE_PATH.read_text("utf-8").count('\nas_of = "20') == 1
    assert price_of("gpt-6.1-sol") == Price(
        input=2.0, cached=0.1, cache_write=2.5, output=10.0, up_to=272_000, batch=0.5
    )
    assert price_of("gpt-6.1-sol-2026-10-01") == price_of("gpt-6.1-sol")
    assert open_anthropic("claude-sonnet-4-5-20250929", ENVIRON).price == Price(
        input=3.0, cached=0.3, cache_write=3.75, output=15.0, batch=0.5
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


PRICED = "m,price_in=4,price_out=8"
AT = "base_url=https://models.example"


def written(price: Price | None) -> float | None:
    """Return what a million tokens cost that were written to a cache."""
    assert price is not None
    return price.usd(Tokens(cache_write=1_000_000))


def test_what_anthropic_writes_to_its_cache_is_a_quarter_dearer_wherever_its_price_comes_from(tmp_path: Path) -> None:
    assert written(open_anthropic(PRICED, ENVIRON).price) == 5.0
    assert written(open_anthropic(f"{PRICED},{AT}", ENVIRON).price) == 5.0
    assert written(open_anthropic(f"{PRICED},price_cache_write=6", ENVIRON).price) == 6.0
    assert written(open_anthropic(f"{PRICED},price_cache_write=0", ENVIRON).price) == 0.0
    path = tmp_path / "prices.toml"
    path.write_text(
        '["models.example"]\n"m" = { input = 4, output = 8 }\n"n" = { input = 4, cache_write = 7, output = 8 }'
    )
    mine = ENVIRON | {"SKILLOPT_PRICES": str(path)}
    assert [written(open_anthropic(f"{model},{AT}", mine).price) for model in ("m", "n")] == [5.0, 7.0]


def test_by_batch_every_kind_of_token_costs_its_share() -> None:
    price = Price(input=2.0, cached=0.1, output=10.0, batch=0.5)
    assert price.by_batch() == Price(input=1.0, cached=0.05, output=5.0, batch=0.5)
    assert price_of("m,price_in=3,price_out=4,price_batch=0.25") == Price(
        input=3.0, cache_write=3.75, output=4.0, batch=0.25
    )
    unknown = price_of("m,price_in=3,price_out=4")
    assert unknown is not None
    assert unknown.by_batch() == unknown
