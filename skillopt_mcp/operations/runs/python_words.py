"""Python words: errors that name options of the command line, told to whoever called `train` instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from skillopt_mcp.errors import SkillOptError

_WORDS = (
    (re.compile(r"--max-(\w+) (\S+) (?=lets |is of )"), r"Caps(\1=\2) "),
    (re.compile(r"--max-(\w+)"), r"Caps(\1=N)"),
    (re.compile(r"--(target|optimizer|judge) BACKEND:MODEL"), r"\1='BACKEND:MODEL'"),
    (re.compile(r"(?<!skillopt-mcp )--store\b"), "store=PATH"),
)


@contextmanager
def in_python_words() -> Iterator[None]:
    """Enter to have errors name the arguments of `train` where they name the options that these are."""
    try:
        yield
    except SkillOptError as error:
        text = str(error)
        for option, argument in _WORDS:
            text = option.sub(argument, text)
        error.args = (text,)
        raise
