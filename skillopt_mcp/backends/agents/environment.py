"""Environment: the variables that a command line is started with, by allow-list, and the secrets among them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import JsonValue

from skillopt_mcp.backends.agents.places import Place

_COMMON = re.compile(
    r"PATH|LANG|LANGUAGE|LC_[A-Z]+|TZ|USER|LOGNAME|SHELL|(?:HTTP|HTTPS|NO|ALL)_PROXY|(?:http|https|no|all)_proxy"
    r"|SSL_CERT_FILE|SSL_CERT_DIR|NODE_EXTRA_CA_CERTS|REQUESTS_CA_BUNDLE|SYSTEM_VERSION_COMPAT|__CF_USER_TEXT_ENCODING"
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|HEADERS|CREDENTIAL")
_SECRET_CHARACTERS = 8
_TOKEN_CHARACTERS = 20


def passed_on(environ: Mapping[str, str], more: str, place: Place) -> dict[str, str]:
    """Return the variables that are passed on: the common ones, and those that the pattern `more` matches whole."""
    wanted = re.compile(more)
    kept = {name: value for name, value in environ.items() if _COMMON.fullmatch(name) or wanted.fullmatch(name)}
    return {**kept, "TERM": "dumb", "TMPDIR": str(place.tmp)}


def secrets_of(environ: Mapping[str, str], files: Iterable[Path]) -> dict[str, str]:
    """Return the names of secrets by value: those in the environment, and the tokens in a host's own files."""
    found = {
        value: name
        for name, value in environ.items()
        if _SECRET.search(name.upper()) and len(value) >= _SECRET_CHARACTERS and not value.startswith("/")
    }
    for path in files:
        try:
            content: JsonValue = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        found |= {token: path.stem.strip(".").upper() for token in _texts(content) if len(token) >= _TOKEN_CHARACTERS}
    # A secret that holds another one goes first.
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def _texts(value: JsonValue) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
