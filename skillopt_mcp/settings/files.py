"""Files: settings files with the bases that they inherit from, read and put together."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from skillopt_mcp.documents.text import quoted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.settings.reading import MAX_BYTES, Given, Layer, Tree, parse_toml, parse_yaml, read_pairs, read_tree
from skillopt_mcp.settings.settling import Settings, settle

BASE = "_base_"
MAX_BASES = 16


def load_settings(path: Path | None, pairs: Sequence[str], flags: Mapping[str, object]) -> Settings:
    """Return the settings of a file, overridden by "section.key=value" pairs, and these by flags.

    A file may name another with `_base_`, relative to itself. Raises BadInput for what cannot be read or used.
    """
    layers = [read_tree(tree) for tree in _chain(path)] if path else []
    layers.append(read_pairs(pairs))
    layers.append(_flagged(flags))
    return settle(layers)


def _flagged(flags: Mapping[str, object]) -> Layer:
    layer = Layer()
    for name, value in flags.items():
        if isinstance(value, str | int | float):
            layer.put(name, Given(value, f"--{name.replace('_', '-')}"))
    return layer


def _chain(path: Path) -> list[Tree]:
    """Return the trees of a file and all its bases, the outermost base first."""
    trees: list[Tree] = []
    seen: list[str] = []
    here: Path | None = path
    while here is not None:
        real = os.path.realpath(here)
        if real in seen:
            raise BadInput(f"{quoted(str(path))} inherits from itself: {' -> '.join([*seen, real])}")
        if len(seen) == MAX_BASES:
            raise BadInput(f"{quoted(str(path))} has more than {MAX_BASES} bases: merge some")
        seen.append(real)
        tree = _parsed(here)
        base = tree.pop(BASE, None)
        if base is not None and (not isinstance(base, str) or not base):
            raise BadInput(f"{BASE} of {quoted(str(here))} must be the path of a file")
        trees.append(tree)
        here = here.parent / base if base else None
    return trees[::-1]


def _parsed(path: Path) -> Tree:
    where = quoted(str(path))
    parse = {".toml": parse_toml, ".yaml": parse_yaml, ".yml": parse_yaml}.get(path.suffix)
    if parse is None:
        raise BadInput(f"{where} is not a settings file: name a .toml, .yaml or .yml file")
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise BadInput(f"{where} is not a regular file: name a .toml or .yaml file")
        if status.st_size > MAX_BYTES:
            raise BadInput(f"{where} has {status.st_size:,} bytes, {MAX_BYTES:,} are allowed: settings are few")
        return parse(path.read_text("utf-8-sig"), where)
    except UnicodeDecodeError as error:
        raise BadInput(f"{where} is not UTF-8 at byte {error.start}: save it as UTF-8") from error
    except OSError as error:
        raise BadInput(f"{where} cannot be read ({error.strerror}): check the path") from error
