"""Prices: what tokens cost, from a table that a person can edit; what is not in it is unknown, never guessed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from skillopt_mcp.backends.api.options import PRICES, PricedOptions
from skillopt_mcp.errors import BackendError

TABLE_PATH = Path(__file__).parent.parent / "prices.toml"
OVERRIDE = "SKILLOPT_PRICES"
_SNAPSHOT = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})$")
# What vendors take for a token written to a cache, as a share of `input`, where they take more than that.
_WRITTEN = 1.25
_BILLS_WRITES = re.compile(r"\.(?:openai|anthropic|azure)\.com$")


class Tokens(BaseModel):
    """The tokens of one call: `cached` were read from a cache, `cache_write` written to it, `fresh` neither."""

    model_config = ConfigDict(frozen=True)
    fresh: int = 0
    cached: int = 0
    cache_write: int = 0
    output: int = 0

    @property
    def input(self) -> int:
        """Return how many tokens the model read, wherever they came from."""
        return self.fresh + self.cached + self.cache_write


class Price(BaseModel):
    """US dollars per million tokens, for calls of at most `up_to` input tokens; a batch API takes the share `batch`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    cache_write: float | None = Field(default=None, ge=0)
    up_to: int | None = Field(default=None, ge=0)
    batch: float = Field(default=1.0, gt=0, le=1)

    def by_batch(self) -> Price:
        """Return what the same tokens cost by a batch API."""
        rates = ("input", "output", "cached", "cache_write")
        given = {name: rate * self.batch for name in rates if (rate := getattr(self, name)) is not None}
        return self.model_copy(update=given)

    def with_writes(self, share: float) -> Price:
        """Return the price with a token written to the cache at this share of `input`, where none is given for it."""
        return self if self.cache_write is not None else self.model_copy(update={"cache_write": self.input * share})

    def usd(self, tokens: Tokens) -> float | None:
        """Return what `tokens` cost in US dollars, None when they are more than the price holds for."""
        if self.up_to is not None and tokens.input > self.up_to:
            return None
        cached = self.input if self.cached is None else self.cached
        cache_write = self.input if self.cache_write is None else self.cache_write
        taken = tokens.fresh * self.input + tokens.cached * cached + tokens.cache_write * cache_write
        return (taken + tokens.output * self.output) / 1_000_000


_TABLE: TypeAdapter[dict[str, dict[str, Price]]] = TypeAdapter(dict[str, dict[str, Price]])


def find_price(options: PricedOptions, host: str, environ: Mapping[str, str]) -> Price | None:
    """Return the price of a model at a host, None when it is unknown.

    Options go first, then the person's table, then ours; a dated snapshot of a model costs what the model costs. Where
    no price of cache writes is given, it is what the vendors take. Raises BackendError when a price cannot be read.
    """
    price = _given(options) or _listed(options.model, host, environ)
    bills_writes = options.provider == "anthropic" or _BILLS_WRITES.search(host)
    return price.with_writes(_WRITTEN) if price and bills_writes else price


def _given(options: PricedOptions) -> Price | None:
    if options.price_in is not None and options.price_out is not None:
        return Price(
            input=options.price_in,
            cached=options.price_cached,
            cache_write=options.price_cache_write,
            output=options.price_out,
            batch=options.price_batch or 1,
        )
    if PRICES & options.model_fields_set:
        raise BackendError(f"'{options.provider}:{options.model}' has half a price: give both price_in= and price_out=")
    return None


def _listed(model: str, host: str, environ: Mapping[str, str]) -> Price | None:
    paths = [Path(environ[OVERRIDE])] if environ.get(OVERRIDE) else []
    for path in [*paths, TABLE_PATH]:
        models = _read(path).get(host, {})
        price = models.get(model) or models.get(_SNAPSHOT.sub("", model))
        if price:
            return price
    return None


def _read(path: Path) -> dict[str, dict[str, Price]]:
    try:
        table = tomllib.loads(path.read_text("utf-8"))
        table.pop("as_of", None)
        return _TABLE.validate_python(table)
    except OSError as error:
        raise BackendError(f"prices '{path}' cannot be read: {error.strerror}; check ${OVERRIDE}") from error
    except (ValidationError, ValueError) as error:
        line = str(error).splitlines()[0]
        raise BackendError(f"prices '{path}' cannot be used: {line}; write them as in '{TABLE_PATH.name}'") from error
