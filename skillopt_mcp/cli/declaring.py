"""Declaring: what a command is, and the options that several of them take."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

PROGRAM = "skillopt-mcp"
TARGET, OPTIMIZER = "claude-code:haiku", "claude-code:sonnet"
"""Whom examples name: real models, for a simulation solves no tasks but its own."""
ALONE = frozenset({""})
"""The one action of a command that has no actions."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command as --help shows it, and what it declares beyond --store and --json.

    With `takes_line`, all that follows a `--` is its `line`: another program and its arguments. `needs_store` names the
    actions ("" where none is given) that are about what a store holds already: they never make one that is named.
    """

    help: str
    example: str
    declare: Callable[[argparse.ArgumentParser], object]
    takes_line: bool = False
    needs_store: frozenset[str] = frozenset()


def common(parser: argparse.ArgumentParser) -> None:
    """Declare what every command takes."""
    parser.add_argument(
        "--store",
        metavar="PATH",
        default=argparse.SUPPRESS,
        help="the store's file (else $SKILLOPT_STORE, else the one in your data folder that 'doctor' names)",
    )
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object and nothing else"
    )


def backends(parser: argparse.ArgumentParser, *roles: str) -> None:
    """Declare who answers for each of these roles."""
    does = {
        "target": f"does the tasks, for instance {TARGET}",
        "optimizer": f"writes the edits, for instance {OPTIMIZER}",
        "judge": "judges by rubrics, where tasks have such",
    }
    for role in roles:
        parser.add_argument(f"--{role}", metavar="BACKEND:MODEL", help=f"who {does[role]}")


def yes(parser: argparse.ArgumentParser) -> None:
    """Declare the agreement that is given beforehand."""
    parser.add_argument("--yes", action="store_true", help="do not ask (needed where there is no terminal)")


def agreement(parser: argparse.ArgumentParser) -> None:
    """Declare how what a command may spend is agreed to, or only told."""
    yes(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be asked at most and what that takes, and ask nothing"
    )


def caps(parser: argparse.ArgumentParser) -> None:
    """Declare the hard caps of whatever asks models."""
    group = parser.add_argument_group(
        "hard caps (over all processes and resumes; at a cap the run stops, to be resumed)"
    )
    for name, kind, text in (
        ("calls", int, "calls sent to a model, repeated ones too"),
        ("tokens", int, "tokens in and out"),
        ("usd", float, "US dollars; only for models of known price"),
        ("minutes", float, "minutes of work"),
    ):
        group.add_argument(f"--max-{name}", type=kind, metavar="N", help=f"at most so many {text}")


def by_batch(parser: argparse.ArgumentParser) -> None:
    """Declare that calls go by a batch API."""
    parser.add_argument(
        "--by-batch", action="store_true",
        help="ask target and judge by their vendor's batch API: half the price, and minutes to a day for each wave of "
        "calls; a promotion test then asks 40 pairs ahead, and what lies beyond the deciding one is paid in vain",
    )  # fmt: skip


def slots(parser: argparse.ArgumentParser) -> None:
    """Declare how many calls go at once."""
    parser.add_argument("--slots", type=int, metavar="N", help="calls under way at once (else as the backend likes)")


def simulated(parser: argparse.ArgumentParser) -> None:
    """Declare that evidence of a simulation is enough."""
    parser.add_argument("--simulated", action="store_true", help="accept evidence that comes from a simulation")
