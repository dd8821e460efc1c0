"""Endpoints: where a backend's model is, and the secret that opens it, which no message and no store may hold."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from skillopt_mcp.backends.api.options import ApiOptions
from skillopt_mcp.errors import BackendError, Unset

NO_KEY = "none"
# As vendors make them; in what a server says of a key nothing else looks like this.
_KEY = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|r8|key|api[-_]?key)[-_][\w*\u2026.-]*[\w*\u2026]|(?<=\bBearer )[^\s\"',;]+", re.I
)
_WORD = re.compile(r"[\w-]{8,}")
_VENDORS = re.compile(r"\.(?:openai|anthropic|azure)\.com$")


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret and the environment variable that it came from; `value` is NO_KEY where none is needed."""

    name: str
    value: str = field(repr=False)

    def out_of(self, text: str) -> str:
        """Return `text` without the secret, any part of it, and any other that a server quotes."""
        if self.value != NO_KEY:
            text = text.replace(self.value, f"${self.name}")
            text = _WORD.sub(lambda word: f"${self.name}" if word[0] in self.value else word[0], text)
        return _KEY.sub("[redacted]", text)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A checked base URL with the secret for it; `host` is host and port, `place` adds the path."""

    base_url: str
    secret: Secret
    host: str
    place: str


def find_endpoint(options: ApiOptions, base_url: str, names: tuple[str, ...], environ: Mapping[str, str]) -> Endpoint:
    """Return the endpoint at `base_url`, its secret read from the first of `names` that is set.

    `key_env` goes before `names`. Raises BackendError when the address or the secret cannot be used, when there is no
    secret for the vendor's own address, or when one would be sent in the clear.
    """
    parts = _address(base_url)
    host = parts.netloc.lower()
    secret = _secret(options, names, environ, needed=bool(_VENDORS.search(parts.hostname or "")))
    sends_secret = secret.value != NO_KEY
    if parts.scheme == "http" and sends_secret and not options.plain_http and not _is_loopback(parts.hostname or ""):
        raise BackendError(
            f"'{options.provider}:{options.model}' would send ${secret.name} unencrypted to '{host}': use https://, "
            "or say plain_http=on if that network is yours"
        )
    path = parts.path.rstrip("/")
    return Endpoint(f"{parts.scheme}://{parts.netloc}{path}", secret, host, f"{host}{path}")


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


def _secret(options: ApiOptions, names: tuple[str, ...], environ: Mapping[str, str], *, needed: bool) -> Secret:
    candidates = (options.key_env,) if options.key_env else names
    for name in candidates:
        value = environ.get(name, "").strip()
        if not value:
            continue
        if not value.isascii() or not value.isprintable() or " " in value:
            raise BackendError(
                f"${name} holds a character that no key has: set it again, without quotes or line breaks"
            )
        return Secret(name, value)
    if needed or options.key_env:
        raise Unset(
            f"'{options.provider}:{options.model}' needs a key: set {' or '.join(candidates)} in the environment"
        )
    return Secret(candidates[0], NO_KEY)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
