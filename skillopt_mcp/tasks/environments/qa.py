"""Qa: the reference environment, questions with known answers out of the folders train, val and test."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import cast

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.tasks import SPLITS, NewTask, Split
from skillopt_mcp.core.text import quoted
from skillopt_mcp.tasks.formats.skillopt import is_question, parse_question, read_splits


class QuestionAnswering:
    """Questions of a data set; the target answers, exact match and token F1 score it."""

    def __init__(self, folder: Path) -> None:
        self.name = f"qa:{folder}"
        self._folder = folder

    @property
    def version(self) -> str:
        """What its tasks depend on: the digest of all of them."""
        digests = "\n".join(task.digest for split in SPLITS for task in self._tasks[split])
        return hashlib.sha256(digests.encode()).hexdigest()[:16]

    @property
    def task_types(self) -> list[str]:
        """Return the types of its questions, sorted."""
        return sorted({task.tags[0] for tasks in self._tasks.values() for task in tasks})

    def tasks(self, split: Split) -> list[NewTask]:
        """Return the questions of a split as tasks. Raises BadInput naming the row that is none."""
        return self._tasks[split]

    @cached_property
    def _tasks(self) -> dict[Split, list[NewTask]]:
        rows = read_splits(self._folder)
        return {split: [_task(row, n, split) for n, row in enumerate(rows[split], 1)] for split in SPLITS}


def open_qa(folder: str) -> QuestionAnswering:
    """Return the environment over a folder of splits. Raises BadInput when none is named."""
    if not folder:
        raise BadInput("the environment 'qa' needs a folder: write 'qa:FOLDER', one that holds train, val and test")
    if not Path(folder).expanduser().is_dir():
        raise BadInput(f"the environment 'qa' needs a folder that exists, got '{folder}'")
    return QuestionAnswering(Path(os.path.expanduser(folder)))


def _task(row: object, n: int, split: Split) -> NewTask:
    place = f"{split} row {n}"
    try:
        is_one = is_question(row)
    except BadInput as error:
        raise BadInput(f"{place}: {error}") from None
    if not is_one:
        raise BadInput(f"{place} is not a question: it needs the fields question and answers")
    try:
        return parse_question(cast(Mapping[str, object], row), split)
    except BadInput as error:
        raise BadInput(f"{place} {quoted(str(row), 60)}: {error}") from None
