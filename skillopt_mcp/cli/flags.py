"""Flags: one for every setting of a run, made from the settings themselves."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import get_args

from skillopt_mcp.optimizer.config import Config

GIVEN = "given"


class _Keep(argparse.Action):
    """Keeps a setting that was given, by its name, among those of the command line."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        value = not str(option_string).startswith("--no-") if self.nargs == 0 else values
        setattr(namespace, GIVEN, {**getattr(namespace, GIVEN), self.dest: value})


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Declare every field of Config as a flag; what was given becomes one mapping, named GIVEN."""
    parser.set_defaults(**{GIVEN: {}})
    group = parser.add_argument_group("settings (defaults, in brackets, are the paper's)")
    for name, field in Config.model_fields.items():
        flag = name.replace("_", "-")
        text = str(field.description or "").replace("%", "%%")
        shown = f"{text[:1].lower()}{text[1:]} ({str(field.default).lower()})"
        choices = tuple(_choices(field.annotation))
        if field.annotation is bool:
            group.add_argument(
                f"--{flag}", f"--no-{flag}", dest=name, action=_Keep, nargs=0, help=shown, default=argparse.SUPPRESS
            )
        elif choices:
            group.add_argument(
                f"--{flag}", dest=name, action=_Keep, choices=choices, help=shown, default=argparse.SUPPRESS
            )
        else:
            kind = float if field.annotation is float else int
            group.add_argument(
                f"--{flag}", dest=name, action=_Keep, type=kind, metavar="N", help=shown, default=argparse.SUPPRESS
            )


def _choices(annotation: object) -> Iterator[str]:
    """Yield the texts that a literal type, or a union of such, allows."""
    for part in get_args(annotation):
        yield from [part] if isinstance(part, str) else _choices(part)
