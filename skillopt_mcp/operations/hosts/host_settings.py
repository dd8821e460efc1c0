"""Host settings: our hooks and our rules in the one file of a host that holds both, put in and taken out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.errors import BadInput
from skillopt_mcp.installing.entries import installed_hooks, with_hooks, without_hooks
from skillopt_mcp.installing.rules import allowed_tools, installed_rules, with_rules, without_rules, work_rules
from skillopt_mcp.operations.hosts.host_files import backups_of, text_of, undone
from skillopt_mcp.operations.workplaces import Workplaces


@dataclass(frozen=True, slots=True)
class Settings:
    """What of ours is in a host's settings, or is to be: the line that hooks run (empty: no hooks), and the rules."""

    line: str = ""
    rules: tuple[str, ...] = ()

    def put(self, text: str, seconds: Mapping[str, int]) -> str:
        """Return settings with this in them; each hook runs for so many seconds at most. Raises BadInput."""
        text = with_hooks(text, seconds, self.line) if self.line else text
        return with_rules(text, self.rules) if self.rules else text

    def only(self, *, hooks: bool, rules: bool) -> Settings:
        """Return the hooks of this, the rules, both or nothing."""
        return Settings(self.line if hooks else "", self.rules if rules else ())


def rules_for(store: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the rules by which a host does the work of a store unasked, its server started in this environment."""
    return work_rules(Workplaces(store, environ).root)


def settings_in(text: str) -> Settings:
    """Return what of ours is in a host's settings. Raises BadInput."""
    return Settings(next(iter(installed_hooks(text).values()), ""), installed_rules(text))


def are_settings_alone(text: str, seconds: Mapping[str, int]) -> bool:
    """Return whether settings are what install writes where there were none, in whatever order. Raises BadInput."""
    found = settings_in(text)
    if found == Settings():
        return False
    hooks, rules = found.only(hooks=True, rules=False), found.only(hooks=False, rules=True)
    return text in (found.put("", seconds), hooks.put(rules.put("", seconds), seconds))


def without_settings(named: Path, seconds: Mapping[str, int], text: str, *, hooks: bool, rules: bool) -> str | None:
    """Return settings as they were before install, None where there were none. Raises BadInput."""
    ours = settings_in(text).only(hooks=hooks, rules=rules)
    if ours == Settings():
        return text
    kept = _allowed_before(named)
    return undone(
        named,
        text,
        lambda old: ours.put(old, seconds),
        lambda new: without_rules(without_hooks(new) if ours.line else new, kept) if ours.rules else without_hooks(new),
        lambda old: settings_in(old).only(hooks=hooks, rules=rules) != Settings(),
    )


def _allowed_before(named: Path) -> set[str]:
    """Return the tools that a person had allowed before install did, as its backups of the settings tell."""
    kept = set[str]()
    for backup in backups_of(Path(os.path.realpath(named))):
        with suppress(BadInput):
            text = text_of(backup) or ""
            kept |= set() if installed_rules(text) else allowed_tools(text)
    return kept
