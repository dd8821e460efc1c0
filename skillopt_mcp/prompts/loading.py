"""Loading: the prompts that ship with the package, a person's own in their place, and their placeholders filled."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from dataclasses import astuple, dataclass, fields
from functools import cache, cached_property
from pathlib import Path

from skillopt_mcp.core.errors import BadInput

_FOLDER = Path(__file__).parent
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_KNOWN = frozenset({"budget"})
_MAX_BYTES = 1 << 18


@dataclass(frozen=True)
class Prompts:
    """What every question begins with, the rules of each form of change, and the instructions of each stage.

    {{budget}} is filled when a question is made.
    """

    preamble: str
    edit_rules: str
    suggestion_rules: str
    rewrite_rules: str
    analyst_failure: str
    analyst_success: str
    analyst_contrast: str
    suggest_failure: str
    suggest_success: str
    suggest_contrast: str
    rewrite_failure: str
    rewrite_success: str
    rewrite_contrast: str
    skill_aware: str
    merge_failure: str
    merge_success: str
    merge_final: str
    merge_suggestions: str
    merge_rewrites: str
    autonomous: str
    rank: str
    rank_suggestions: str
    rewrite: str
    slow_update: str
    meta_skill: str

    @cached_property
    def digest(self) -> str:
        """Return the sha256 (hex) of all texts: a run freezes it."""
        return hashlib.sha256("\0".join(astuple(self)).encode()).hexdigest()


NAMES: tuple[str, ...] = tuple(field.name for field in fields(Prompts))


def load_prompts(overrides: Path | None = None) -> Prompts:
    """Return the shipped prompts, those in `overrides` (NAME.md) in their place. A copy of them all will do.

    Raises BadInput when the folder or a prompt cannot be read, when a file in it names no prompt, or when a prompt
    uses a placeholder that nothing fills, or lacks the budget that its replies are held to.
    """
    found = _find_overrides(overrides) if overrides is not None else {}
    texts = {name: _read_prompt(found.get(name, _FOLDER / f"{name}.md")) for name in NAMES}
    for name, path in sorted(found.items()):
        used, shipped = (set(_PLACEHOLDER.findall(text)) for text in (texts[name], _read_prompt(_FOLDER / path.name)))
        if unknown := sorted(used - _KNOWN):
            raise BadInput(f"prompt '{path}' uses {{{{{unknown[0]}}}}}; known: {', '.join(sorted(_KNOWN))}")
        if shipped - used:
            raise BadInput(
                f"prompt '{path}' lacks {{{{budget}}}}, the most edits that a step allows: a reply with more loses the "
                "rest, so put it in"
            )
    return Prompts(**texts)


def parse_prompts(text: str) -> Prompts:
    """Return the prompts of a run's row (json). Raises BadInput when they are not prompts of this program."""
    found: dict[str, str] = json.loads(text)
    if odd := sorted(set(NAMES) ^ set(found)):
        raise BadInput(f"the run is of another release, whose prompt '{odd[0]}' is another: begin a new run")
    return Prompts(**found)


@cache
def load_shipped(name: str) -> str:
    """Return a prompt that no run can put its own in place of: how an answer is judged must not vary with the skill."""
    return _read_prompt(_FOLDER / f"{name}.md")


def fill(text: str, **values: object) -> str:
    """Return `text` with each {{name}} replaced; values are not searched for placeholders.

    Raises BadInput when a placeholder has no value.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise BadInput(f"prompt uses {{{{{match[1]}}}}}; known here: {', '.join(sorted(values)) or 'none'}")
        return str(values[match[1]])

    return _PLACEHOLDER.sub(value, text)


def _find_overrides(folder: Path) -> dict[str, Path]:
    try:
        paths = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix == ".md"}
    except OSError as error:
        raise BadInput(f"prompts folder '{folder}' cannot be read: {error.strerror}; name a folder") from error
    for name, path in paths.items():
        if name in ("rubric", "points", "draft", "label"):
            if _read_lines(path) != _read_lines(_FOLDER / path.name):
                raise BadInput(
                    f"'{path}' is not the shipped one, and no run can have its own: it is the same for every skill; "
                    "take the file out, or leave it as it was"
                )
        elif name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.0)
            raise BadInput(f"'{path}' names no prompt; did you mean '{near[0]}.md'? Known: {', '.join(NAMES)}")
    return {name: path for name, path in paths.items() if name in NAMES}


def _read_lines(path: Path) -> list[str]:
    return _read_prompt(path).rstrip().splitlines()


def _read_prompt(path: Path) -> str:
    try:
        raw = path.read_bytes()
        if len(raw) > _MAX_BYTES:
            raise BadInput(f"prompt '{path}' is longer than {_MAX_BYTES:,} bytes; shorten it")
        text = raw.decode("utf-8")
    except OSError as error:
        raise BadInput(f"prompt '{path}' cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"prompt '{path}' is not UTF-8; save it as UTF-8") from error
    if not text.strip():
        raise BadInput(f"prompt '{path}' is empty; write it or remove it")
    return text
