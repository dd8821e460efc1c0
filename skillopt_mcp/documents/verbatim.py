"""Verbatim: the front matter of a SKILL.md as the JSON object that it says, by the core schema of YAML 1.2."""

from __future__ import annotations

import math
import re

import yaml

from skillopt_mcp.documents import frontmatter

_CORE = {
    "null": re.compile(r"(?:~|null|Null|NULL|)$"),
    "bool": re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"),
    "int": re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"),
    "float": re.compile(
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
}


class _CoreLoader(yaml.SafeLoader):
    """Reads scalars as YAML 1.2 does: `yes` and `2026-01-01` are texts, and octal numbers begin with 0o."""

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        text = str(self.construct_scalar(node))
        return int(text, 0) if text.startswith(("0o", "0x")) else int(text)


# A table of its own: without it, what is added below would be added to every loader.
_CoreLoader.yaml_implicit_resolvers = {}
for _kind, _pattern in _CORE.items():
    _CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", _pattern, None)
_CoreLoader.add_constructor("tag:yaml.org,2002:int", _CoreLoader.construct_yaml_int)


def front_matter_json(content: bytes) -> dict[str, object] | None:
    """Return the front matter of a document as JSON values, None when it has none that can be read as such."""
    front = frontmatter.read(content)
    if front is None:
        return None
    block = content[: front.end].decode("utf-8-sig").strip().removeprefix("---").removesuffix("---")
    try:
        value = yaml.load(block, Loader=_CoreLoader)
    except (yaml.YAMLError, ValueError):
        return None
    return value if isinstance(value, dict) and _is_json(value) else None


def _is_json(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_json, value))
    return not (isinstance(value, float) and not math.isfinite(value))
