"""Flags: the backends and the hard caps, which several commands take; light, for `serve` takes them, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from skillopt_mcp.cli.command import OPTIMIZER, TARGET, Command, Flag
from skillopt_mcp.records.budgets import Caps

_CAPS = "hard caps, over all processes and resumes"


@dataclass(kw_only=True)
class Capped(Command):
    """Commands with hard caps, and the backends that answer."""

    target: Annotated[str | None, Flag(f"does the tasks, for instance {TARGET}", "BACKEND:MODEL")] = None
    judge: Annotated[str | None, Flag("judges by rubrics, where tasks have such", "BACKEND:MODEL")] = None
    max_calls: Annotated[int | None, Flag("calls sent to a model, repeated ones too", group=_CAPS)] = None
    max_tokens: Annotated[int | None, Flag("tokens in and out", group=_CAPS)] = None
    max_usd: Annotated[float | None, Flag("US dollars; only for models of known price", group=_CAPS)] = None
    max_minutes: Annotated[float | None, Flag("minutes of work", group=_CAPS)] = None

    @property
    def caps(self) -> Caps:
        """Return the caps that were given."""
        return Caps(self.max_calls, self.max_tokens, self.max_usd, self.max_minutes)


@dataclass(kw_only=True)
class Optimizing(Capped):
    """Those among them that write edits, too."""

    optimizer: Annotated[str | None, Flag(f"writes the edits, for instance {OPTIMIZER}", "BACKEND:MODEL")] = None
