"""Pinned: the old console script, with its runs named as in RUN_IDS: what a run shuffles follows from its name.

Its name follows from all that it is frozen to, so that a setting renamed would shuffle otherwise.
"""

import os
import sys
from dataclasses import replace

from skillopt_mcp.operations.runs import replaying

from skillopt_mcp.records.runs import Run

natural, ids, named = replaying.new_run, iter(os.environ["RUN_IDS"].split()), dict[str, str]()


def pinned(*arguments: object) -> Run:
    run = natural(*arguments)  # type: ignore[arg-type]
    named[run.id] = named.get(run.id) or next(ids, run.id)
    return replace(run, id=named[run.id])


replaying.new_run = pinned  # type: ignore[assignment]
from skillopt_mcp.cli.main import main  # noqa: E402 (what the commands import is the pinned one)

sys.exit(main())
