"""Options: what a spec "provider:model,name=value,..." may say, and what of it changes the answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillopt_mcp.errors import BackendError

# A number of tokens is no secret.
_SECRET = re.compile(r"key|token(?!s)|secret|password|auth")

PRICES = frozenset({"price_in", "price_out", "price_cached", "price_cache_write", "price_batch"})


class SpecOptions(BaseModel):
    """What every backend that a spec opens may be told; secrets are not options, they come from the environment.

    `unanswering` names the options that change no answer, `instead` what to do in place of options of other backends.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    provider: ClassVar[str]
    unanswering: ClassVar[frozenset[str]] = frozenset({"timeout"})
    instead: ClassVar[Mapping[str, str]] = {}
    model: str = Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")

    def spelled(self) -> str:
        """Return the spec that opens this backend again."""
        return ",".join([f"{self.provider}:{self.model}", *_pairs(self.model_dump(exclude_unset=True))])

    def identity(self) -> str:
        """Return all that was decided here and changes the answers, defaults spelled out."""
        return ",".join([f"{self.provider}:{self.model}", *_pairs(self.model_dump(exclude=set(self.unanswering)))])


class ApiOptions(SpecOptions):
    """What every backend may be told that speaks to an API, by itself or by a program."""

    unanswering: ClassVar[frozenset[str]] = frozenset({"base_url", "key_env", "timeout", "plain_http"})
    base_url: str | None = None
    key_env: str | None = Field(default=None, pattern=r"^[A-Z][A-Z0-9_]*$")
    plain_http: bool = False
    timeout: float = Field(default=600, gt=0, le=7200)
    structured: bool = True


class PricedOptions(ApiOptions):
    """What every backend may be told that counts the tokens of each answer, and so can tell what it cost."""

    unanswering: ClassVar[frozenset[str]] = ApiOptions.unanswering | PRICES
    price_in: float | None = Field(default=None, ge=0)
    price_cached: float | None = Field(default=None, ge=0)
    price_cache_write: float | None = Field(default=None, ge=0)
    price_out: float | None = Field(default=None, ge=0)
    price_batch: float | None = Field(default=None, gt=0, le=1)


S = TypeVar("S", bound=SpecOptions)


def parse_options(text: str, options: type[S]) -> S:
    """Return the options of "model,name=value,...". Raises BackendError, which never repeats a value.

    A value may be a secret that somebody put in the wrong place, and specs are stored and shown.
    """
    model, *pairs = [part.strip() for part in text.split(",")]
    spec = f"{options.provider}:{model}"
    known = [name for name in options.model_fields if name != "model"]
    values: dict[str, str] = {"model": model}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if name not in known and _SECRET.search(name.lower()):
            named = " (key_env=NAME)" if "key_env" in known else ""
            raise BackendError(f"'{name}' of '{spec}' is not an option: secrets come from the environment{named}")
        if name in options.instead:
            raise BackendError(f"cannot use option '{name}' of '{spec}': {options.instead[name]}")
        if name not in known or not equals or name in values:
            raise BackendError(f"cannot use option '{name}' of '{spec}'; give each once of: {'=, '.join(known)}=")
        values[name] = value.strip()
    try:
        return options.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = str(first["loc"][0])
        told = options.model_fields[where].description
        raise BackendError(
            f"'{where}' of '{spec}' cannot be used: {f'give {told}' if told else first['msg']}"
        ) from None


def _pairs(values: dict[str, object]) -> list[str]:
    return [f"{name}={_text(value)}" for name, value in values.items() if name != "model" and value is not None]


def _text(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
