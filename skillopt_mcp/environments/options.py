"""Options: the settings of an environment as they are spelled behind its name, "name=value,name=value"."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import BadInput

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_REAL = re.compile(r"[+-]?([0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18}|[0-9]{1,18}(?=[eE]))([eE][+-]?[0-9]{1,3})?")
_WORDS: dict[str, bool | None] = {
    "true": True, "yes": True, "on": True, "false": False, "no": False, "off": False, "null": None, "~": None, "": None,
}  # fmt: skip
Scalar = str | int | float | bool | None


def plain_value(text: str) -> Scalar:
    """Return what a text written without quotes means: a number, a truth value, nothing, or the text itself."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _REAL.fullmatch(text):
        return float(text)
    return text


def parse_options(text: str) -> dict[str, Scalar]:
    """Return the settings of "name=value,name=value". Raises BadInput for a part that is none, or comes twice."""
    found: dict[str, Scalar] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip() or name.strip() in found:
            raise BadInput(f"cannot use {quoted(part)}: write each setting once, as name=value")
        found[name.strip()] = plain_value(value.strip())
    return found


def accepted(given: Mapping[str, Scalar], known: Sequence[str], also: Sequence[str] = ()) -> dict[str, Scalar]:
    """Return the settings that are given. Raises BadInput for an unknown one, naming the nearest that is known."""
    names = (*known, *also)
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
            raise BadInput(f"unknown setting {quoted(name)}{f': did you mean {quoted(near[0])}?' if near else ''}")
    return dict(given)
