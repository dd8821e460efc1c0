"""Rules: what a host may do unasked in its settings, so that work on a skill needs no person at each of its steps."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from pydantic import JsonValue

from skillopt_mcp.errors import BadInput
from skillopt_mcp.installing.entries import NAME
from skillopt_mcp.installing.json_edits import JsonText

RULED = ("claude-code",)
# The tools that work takes, by name: promote_skill and rollback_skill are never allowed here, for they write the
# person's files, and whoever allows the whole server allows them, too. That stays the person's to say.
_TOOLS = (
    "list_skills", "record_trajectory", "add_tasks", "propose_edits", "evaluate_candidate", "submit_work", "inspect",
)  # fmt: skip
_ALLOWED = ("permissions", "allow")
_SERVER = f"mcp__{NAME}"
_TOOL_RULES = tuple(f"{_SERVER}__{tool}" for tool in _TOOLS)
_FOLDER_RULE = re.compile(r"(?:Read|Edit)\(/.*/skillopt-[0-9a-f]{12}/\*\*\)")
_PATTERN = re.compile(r"[*?\[\]\\]")
_ON_FOLDERS = re.compile(r"(Read|Edit)\(/(/.*)/\*\*\)")


def work_rules(folder: Path) -> tuple[str, ...]:
    """Return the rules by which work below a folder of this path is done unasked; `Edit` allows to write, too."""
    return (*_TOOL_RULES, f"Read(/{folder}/**)", f"Edit(/{folder}/**)")


def check_rules(rules: Sequence[str]) -> None:
    """Raise BadInput for the rule on a folder whose path a host reads as a pattern: it would allow others, too."""
    folders = [found[2] for found in map(_ON_FOLDERS.fullmatch, rules) if found]
    if folder := next(filter(_PATTERN.search, folders), None):
        raise BadInput(
            f"a host would read the path of the folder of work '{folder}' as a pattern, and allow others, too: name "
            "one without any of * ? [ ] \\ by SKILLOPT_WORK, or leave out --skill"
        )


def with_rules(text: str, rules: Sequence[str]) -> str:
    """Return settings that allow what these rules do, on this folder of work and on no other. Raises BadInput."""
    edited = JsonText(text, comments=False)
    edited.remove_elements(_ALLOWED, lambda rule: _is_on_work(rule) and rule not in rules)
    there = _allowed(edited.value)
    for rule in rules:
        if rule not in there:
            edited.append(_ALLOWED, rule)
    return edited.text


def without_rules(text: str, kept: Collection[str] = ()) -> str:
    """Return settings without our rules; those to be `kept` are the person's. Raises BadInput."""
    ours = [rule for rule in installed_rules(text) if rule not in kept]
    edited = JsonText(text, comments=False)
    edited.remove_elements(_ALLOWED, lambda rule: rule in ours)
    return edited.text


def installed_rules(text: str) -> tuple[str, ...]:
    """Return our rules in settings, none where no folder of work is allowed. Raises BadInput.

    A tool that is allowed without such a folder was allowed by the person.
    """
    allowed = _allowed(JsonText(text, comments=False).value)
    if not any(map(_is_on_work, allowed)):
        return ()
    return tuple(rule for rule in allowed if rule in _TOOL_RULES or _is_on_work(rule))


def allowed_tools(text: str) -> set[str]:
    """Return those of the rules on tools that stand in settings, whoever put them there. Raises BadInput."""
    return {*_TOOL_RULES}.intersection(_allowed(JsonText(text, comments=False).value))


def lacking_rules(texts: Sequence[str], rules: Sequence[str]) -> list[str]:
    """Return the rules that nothing in any of these settings covers. Raises BadInput."""
    allowed = {rule for text in texts for rule in _allowed(JsonText(text, comments=False).value)}
    return [rule for rule in rules if not any(_covers(each, rule) for each in allowed)]


def _covers(allowed: str, rule: str) -> bool:
    if rule.startswith(_SERVER):
        return allowed in (rule, _SERVER, f"{_SERVER}__*")
    wide, narrow = _ON_FOLDERS.fullmatch(allowed), _ON_FOLDERS.fullmatch(rule)
    if wide and narrow:
        return wide[1] == narrow[1] and Path(narrow[2]).is_relative_to(wide[2])
    return allowed == rule.partition("(")[0]


def _is_on_work(rule: JsonValue) -> bool:
    return isinstance(rule, str) and _FOLDER_RULE.fullmatch(rule) is not None


def _allowed(value: JsonValue) -> list[str]:
    for key in _ALLOWED:
        value = value.get(key) if isinstance(value, dict) else None
    return [rule for rule in value if isinstance(rule, str)] if isinstance(value, list) else []
