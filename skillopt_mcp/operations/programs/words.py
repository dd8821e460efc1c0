"""Words: errors and advice that name options and tools, told to a program, which calls functions instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from skillopt_mcp.errors import SkillOptError
from skillopt_mcp.operations.speaking import as_commands

_WORDS = (
    (re.compile(r"--max-(\w+) (\S+) (?=lets |is of )"), r"Caps(\1=\2) "),
    (re.compile(r"--max-(\w+)"), r"Caps(\1=N)"),
    (re.compile(r"--(target|optimizer|judge) (BACKEND:MODEL|claude-code:haiku)"), r"\1='\2'"),
    (re.compile(r"--store\b"), "store=PATH"),
)
_TEST = re.compile(
    r"(?:([Cc]all )?evaluate_candidate (?:with candidate_id )?|skillopt-mcp evaluate )(c-\w+)"
    r"(?: --target BACKEND:MODEL)?"
)
# A command that somebody is to type, up to the end of the words that can be its own.
_COMMAND = re.compile(r"""(skillopt-mcp(?: (?:'[^']*'|[^\s'"`,;()]*[^\s'"`,;().:]))+)""")


def in_words(text: str) -> str:
    """Return a text with the arguments of functions in the places of the options that these are.

    A whole command is one to type, and stays as it is.
    """
    parts = _COMMAND.split(text)
    return "".join(part if n % 2 else _as_arguments(part) for n, part in enumerate(parts))


def _as_arguments(prose: str) -> str:
    for option, argument in _WORDS:
        prose = option.sub(argument, prose)
    return prose


def advice(text: str, test: Callable[[str], str]) -> str:
    """Return what to do next for a program; `test` tells how a candidate is tested, by its id."""

    def told(found: re.Match[str]) -> str:
        how = test(found[2])
        return f"{found[1] or ''}{how}" if how.startswith("skillopt_mcp.") else how

    return as_commands(_TEST.sub(told, in_words(text)))


@contextmanager
def in_python_words() -> Iterator[None]:
    """Enter to have errors name the arguments of functions where they name the options that these are."""
    try:
        yield
    except SkillOptError as error:
        error.args = (in_words(str(error)),)
        raise
