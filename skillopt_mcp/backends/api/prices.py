"""Prices: the options of a spec, what tokens cost, and the most that one call can use."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from skillopt_mcp.backends.api.prompts import Prompt, strict_schema
from skillopt_mcp.core.calls import Usage
from skillopt_mcp.core.errors import BackendError

# A number of tokens is not a secret.
_SECRET = re.compile(r"key|token(?!s)|secret|password|auth")

PRICES = frozenset({"price_in", "price_out", "price_cached", "price_cache_write"})


class SpecOptions(BaseModel):
    """The options of every backend that a spec opens; secrets are not options, they come from the environment.

    `unanswering` names the options that change no answer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    provider: ClassVar[str]
    unanswering: ClassVar[frozenset[str]] = frozenset({"timeout"})
    model: str = Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")

    def spell(self) -> str:
        """Return the spec that opens this backend again."""
        return self._spec(self.model_dump(exclude_unset=True))

    def identity(self) -> str:
        """Return all that was decided here and changes the answers, defaults spelled out."""
        return self._spec(self.model_dump(exclude=set(self.unanswering)))

    def _spec(self, options: dict[str, object]) -> str:
        said = {name: value for name, value in options.items() if name != "model" and value is not None}
        said |= {name: "on" if value else "off" for name, value in said.items() if isinstance(value, bool)}
        text = ",".join([*filter(None, [self.model]), *(f"{name}={value}" for name, value in said.items())])
        return f"{self.provider}:{text}" if text else self.provider


class AgentOptions(SpecOptions):
    """The options of a program that has a current model: without one in the spec, that one answers."""

    model: str = Field(default="", max_length=200, pattern=r"^[\x21-\x7e]*$")
    timeout: float = Field(default=600, gt=0, le=86_400)
    binary: str | None = None


class ApiOptions(SpecOptions):
    """The options of a backend that calls an API, by itself or by a program."""

    unanswering: ClassVar[frozenset[str]] = frozenset({"base_url", "key_env", "timeout", "plain_http"})
    base_url: str | None = None
    key_env: str | None = Field(default=None, pattern=r"^[A-Z][A-Z0-9_]*$")
    plain_http: bool = False
    timeout: float = Field(default=600, gt=0, le=7200)
    structured: bool = True


class Vendor(NamedTuple):
    """A vendor's own address, "" for none; the variables of another one, and of the key, the first that is set."""

    home: str
    address_variable: str
    key_variables: tuple[str, ...]


class PricedOptions(ApiOptions):
    """The options of a backend that counts the tokens of each answer, and so knows what it cost."""

    unanswering: ClassVar[frozenset[str]] = ApiOptions.unanswering | PRICES
    price_in: float | None = Field(default=None, ge=0)
    price_cached: float | None = Field(default=None, ge=0)
    price_cache_write: float | None = Field(default=None, ge=0)
    price_out: float | None = Field(default=None, ge=0)

    @property
    def vendor(self) -> Vendor:
        raise NotImplementedError


S = TypeVar("S", bound=SpecOptions)


def parse_options(text: str, options: type[S]) -> S:
    """Return the options of "model,name=value,...", or without a model. Raises BackendError, which repeats no value.

    A value may be a secret that somebody put in the wrong place, and specs are stored and shown.
    """
    pairs = [part.strip() for part in text.split(",")]
    model = "" if "=" in pairs[0] else pairs.pop(0)
    spec = f"{options.provider}:{model}"
    known = [name for name in options.model_fields if name != "model"]
    values: dict[str, str] = {"model": model}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if name not in known and _SECRET.search(name.lower()):
            named = " (key_env=NAME)" if "key_env" in known else ""
            raise BackendError(f"'{name}' of '{spec}' is not an option: secrets come from the environment{named}")
        if name not in known or not equals or name in values:
            raise BackendError(f"cannot use option '{name}' of '{spec}'; give each once of: {'=, '.join(known)}=")
        values[name] = value.strip()
    try:
        return options.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = str(first["loc"][0])
        wanted = options.model_fields[where].description
        raise BackendError(
            f"'{where}' of '{spec}' cannot be used: {f'give {wanted}' if wanted else first['msg']}"
        ) from None


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
        """The tokens that the model read, wherever they came from."""
        return self.fresh + self.cached + self.cache_write


class Price(BaseModel):
    """US dollars per million tokens, for calls of at most `up_to` input tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    cache_write: float | None = Field(default=None, ge=0)
    up_to: int | None = Field(default=None, ge=0)

    def usd(self, tokens: Tokens) -> float | None:
        """The cost of `tokens` in US dollars, None when they are more than the price holds for."""
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
    if options.price_in is not None and options.price_out is not None:
        price: Price | None = Price(
            input=options.price_in,
            cached=options.price_cached,
            cache_write=options.price_cache_write,
            output=options.price_out,
        )
    elif PRICES & options.model_fields_set:
        raise BackendError(f"'{options.provider}:{options.model}' has half a price: give both price_in= and price_out=")
    else:
        price = _look_up_price(options.model, host, environ)
    bills_writes = options.provider == "anthropic" or _BILLS_WRITES.search(host)
    if price and bills_writes and price.cache_write is None:
        return price.model_copy(update={"cache_write": price.input * _WRITTEN})
    return price


def _look_up_price(model: str, host: str, environ: Mapping[str, str]) -> Price | None:
    """The price in the person's table, else in ours. Raises BackendError when a table cannot be read."""
    paths = [Path(environ[OVERRIDE])] if environ.get(OVERRIDE) else []
    for path in [*paths, TABLE_PATH]:
        try:
            table = tomllib.loads(path.read_text("utf-8"))
            table.pop("as_of", None)
            models = _TABLE.validate_python(table).get(host, {})
        except OSError as error:
            raise BackendError(f"prices '{path}' cannot be read: {error.strerror}; check ${OVERRIDE}") from error
        except (ValidationError, ValueError) as error:
            line = str(error).splitlines()[0]
            raise BackendError(
                f"prices '{path}' cannot be used: {line}; write them as in '{TABLE_PATH.name}'"
            ) from error
        price = models.get(model) or models.get(_SNAPSHOT.sub("", model))
        if price:
            return price
    return None


_FRAME_TOKENS = 1000


def max_usage(prompt: Prompt, max_tokens: int | None, price: Price | None) -> Usage | None:
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
