"""Faults: where a model is, which secret opens it, and what its server's errors mean. No message holds a secret."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from urllib.parse import SplitResult, urlsplit

from skillopt_mcp.backends.api.prices import ApiOptions
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.core.calls import Fault, Usage
from skillopt_mcp.core.errors import BackendError, Unset
from skillopt_mcp.core.redacting import redact

NO_KEY = "none"
# As vendors make them; in what a server says of a key nothing else looks like this.
_KEY = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|r8|key|api[-_]?key)[-_][\w*\u2026.-]*[\w*\u2026]|(?<=\bBearer )[^\s\"',;]+", re.I
)
_WORD = re.compile(r"[\w-]{8,}")
_VENDORS = re.compile(r"\.(?:openai|anthropic|azure)\.com$")
_LOCAL_NAMES = (".localhost", ".local", ".lan", ".internal", ".home.arpa")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A secret and the environment variable that it came from; `value` is NO_KEY where none is needed."""

    name: str
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A checked base URL with the secret for it; `host` is host and port, `place` adds the path.

    `is_vendors`: a vendor's own address. `is_local`: a loopback or private one, where few calls are served at once.
    """

    base_url: str
    secret: ApiKey
    host: str
    place: str
    is_vendors: bool = False
    is_local: bool = False


def find_endpoint(options: ApiOptions, base_url: str, names: tuple[str, ...], environ: Mapping[str, str]) -> Endpoint:
    """Return the endpoint at `base_url`, its secret read from the first of `names` that is set.

    `key_env` goes before `names`. Raises BackendError when the address or the secret cannot be used, when there is no
    secret for the vendor's own address, or when one would be sent in the clear.
    """
    parts = _address(base_url)
    host = parts.netloc.lower()
    name = parts.hostname or ""
    is_vendors = bool(_VENDORS.search(name))
    secret = _secret(options, names, environ, needed=is_vendors)
    try:
        address = ipaddress.ip_address(name)
        is_loopback, is_local = address.is_loopback, not address.is_global
    except ValueError:
        is_loopback = name == "localhost" or name.endswith(".localhost")
        is_local = "." not in name or name.endswith(_LOCAL_NAMES)
    if parts.scheme == "http" and secret.value != NO_KEY and not options.plain_http and not is_loopback:
        raise BackendError(
            f"'{options.provider}:{options.model}' would send ${secret.name} unencrypted to '{host}': use https://, "
            "or set plain_http=on if that network is yours"
        )
    path = parts.path.rstrip("/")
    return Endpoint(f"{parts.scheme}://{parts.netloc}{path}", secret, host, f"{host}{path}", is_vendors, is_local)


def _address(base_url: str) -> SplitResult:
    try:
        parts = urlsplit(base_url.strip())
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        usable = False
    if not usable or "@" in base_url or "?" in base_url or "#" in base_url or not base_url.isprintable():
        raise BackendError(
            "the base URL cannot be used: write https://HOST/PATH, without user, query or fragment "
            "(base_url= in the spec, or the vendor's variable in the environment)"
        )
    return parts


def _secret(options: ApiOptions, names: tuple[str, ...], environ: Mapping[str, str], *, needed: bool) -> ApiKey:
    candidates = (options.key_env,) if options.key_env else names
    for name in candidates:
        value = environ.get(name, "").strip()
        if not value:
            continue
        if not value.isascii() or not value.isprintable() or " " in value:
            raise BackendError(
                f"${name} holds a character that no key has: set it again, without quotes or line breaks"
            )
        return ApiKey(name, value)
    if needed or options.key_env:
        raise Unset(
            f"'{options.provider}:{options.model}' needs a key: set {' or '.join(candidates)} in the environment"
        )
    return ApiKey(candidates[0], NO_KEY)


MESSAGE_CHARACTERS = 300
_NO_CREDIT = re.compile(
    r"insufficient_quota|billing|credit balance|exceeded your current quota|insufficient balance", re.I
)
CONTEXT = re.compile(
    r"context_length|context length|context window|exceed\w* (?:the )?(?:model'?s )?context|prompt is too long"
    r"|input is too long|too many (?:input )?tokens|string_above_max_length|request_too_large"
    r"|context size|exceed_context|longer than the (?:model's )?max\w* (?:model|sequence)",
    re.I,
)
_REFUSED = re.compile(
    r"content_filter|content_policy|content management policy|responsibleai|invalid_prompt|safety", re.I
)
_NO_MODEL = re.compile(r"\bmodel\b.*\b(?:not exist|not found|invalid)|invalid model", re.I)
_SETTING = re.compile(
    r"temperature|reasoning|effort|thinking|budget_tokens|max_(?:output_|completion_)?tokens"
    r"|unsupported_(?:parameter|value)|unknown_parameter",
    re.I,
)
_KINDS: dict[int, Fault] = {
    401: "auth", 402: "auth", 403: "auth", 404: "model_not_found", 405: "model_not_found", 408: "connection",
    409: "server", 413: "context_too_long", 425: "server", 499: "server", 501: "model_not_found", 503: "overloaded",
    529: "overloaded",
}  # fmt: skip
FIXES: dict[Fault, str] = {
    "rate_limit": "it is asked again later; raise the account's limits, or send less at once (--concurrency N)",
    "overloaded": "it is asked again later",
    "timeout": "raise timeout=SECONDS in the spec, or use a faster model",
    "connection": "check the network and the base URL, or raise timeout=SECONDS in the spec",
    "server": "it is asked again later",
    "auth": "set {key} in the environment to a key that may use this model",
    "model_not_found": "check the model's name and the base URL in the spec",
    "unsupported": "change or leave out that option in the spec",
    "context_too_long": "use a model with a larger context, or a shorter task or skill",
    "refusal": "reword the task, or leave it out",
    "truncated": "raise max_tokens=N in the spec",
    "empty": "use another model, or a larger max_tokens=N in the spec",
    "internal": "see what the server says about the request",
}
_LOCAL_FIXES: dict[Fault, str] = {
    "context_too_long": "start the server with a larger context (its slots divide it), or shorten the task or skill",
    "overloaded": "it is asked again later; send less at once (--concurrency N)",
}
SLOW_FIX = "send less at once (--concurrency N), limit the answer (max_tokens=N), or raise timeout=SECONDS in the spec"


@dataclass(frozen=True, slots=True)
class Origin:
    """Which model answers, where: what every fault of it names."""

    model: str
    endpoint: Endpoint

    def fault(
        self, fault: Fault, what: str, *, fix: str = "", retry_after: float | None = None, usage: Usage | None = None
    ) -> BackendFault:
        """Return the fault with a message of one line: where, what, and what to do (`fix`, else as the fault says)."""
        key = self.endpoint.secret
        if key.value != NO_KEY:
            # Any part of it, too.
            what = what.replace(key.value, f"${key.name}")
            what = _WORD.sub(lambda word: f"${key.name}" if word[0] in key.value else word[0], what)
        # And any other secret that a server quotes.
        text = " ".join(_KEY.sub("[redacted]", redact(what)).split())[:MESSAGE_CHARACTERS]
        local = _LOCAL_FIXES.get(fault, "") if self.endpoint.is_local else ""
        fix = fix or local or FIXES[fault].format(key=key.name)
        return BackendFault(fault, f"{self.endpoint.host} ({self.model}): {text}; {fix}", retry_after, usage)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A response with an error status, as far as it can be read."""

    status: int
    code: str
    param: str
    message: str
    retry_after: float | None

    @property
    def text(self) -> str:
        """Return code, parameter and message as one text."""
        return " ".join(part for part in (self.code, self.param, self.message) if part)

    @property
    def fault(self) -> Fault:
        """The fault that it is."""
        status, text = self.status, self.text
        if status == 429:
            # A rate limit may be worded like a lack of credit; its code is not.
            return "auth" if _NO_CREDIT.search(self.code) else "rate_limit"
        if status in _KINDS:
            return _KINDS[status]
        if CONTEXT.search(text):  # llama.cpp said it with status 500 for long
            return "context_too_long"
        if not 400 <= status < 500:
            # A redirection is not followed: the key would go with it.
            return "server" if status >= 500 else "model_not_found"
        if _NO_CREDIT.search(text):
            return "auth"
        if _REFUSED.search(text):
            return "refusal"
        if "model_not_found" in text or _NO_MODEL.search(text):
            return "model_not_found"
        return "unsupported" if _SETTING.search(text) else "internal"


def cause(what: str, error: Exception) -> str:
    """Return `what` with the reason that the SDK gives, or that its transport gave to it."""
    reason = str(error.__cause__ or error)
    return f"{what}: {reason}" if reason else what


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The seconds for which a server asks to be left alone: Retry-After as seconds or as a date; None without."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if isfinite(seconds):
            return max(0.0, seconds)
    until = _date(headers.get("retry-after"))
    # The server's own clock, where it shows it: ours may be wrong.
    now = _date(headers.get("date")) or datetime.now(UTC)
    return max(0.0, (until - now).total_seconds()) if until else None


def _date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(text or "")
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
