"""Warning: what is worth knowing of tasks that are stored as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillopt_mcp.judges.shapes import is_shape_only
from skillopt_mcp.records.tasks import NewTask, Task
from skillopt_mcp.redaction.finding import find_secrets

_SHOWN = 10


def warned(good: Sequence[tuple[int, NewTask]]) -> Iterator[str]:
    """Yield what is worth knowing of tasks, each given with its place: secrets in them, judges of form alone."""
    yield from secrets_warned([(f"task {index + 1}", task) for index, task in sorted(good, key=lambda each: each[0])])
    n_shape = sum(is_shape_only(task.judge) for _, task in good)
    if n_shape:
        yield (
            f"{n_shape:,} judge only the form of an answer (length, heading), which cannot promote alone: add a judge "
            "of another kind to them"
        )


def secrets_warned(tasks: Sequence[tuple[str, NewTask | Task]]) -> Iterator[str]:
    """Yield a warning of the tasks that hold a secret, each given with how to call it."""
    texts = ((called, "\n".join((task.prompt, *(file.content for file in task.files)))) for called, task in tasks)
    secret = [called for called, text in texts if find_secrets(text.encode("utf-8", "replace"))]
    if secret:
        more = f" and {len(secret) - _SHOWN:,} more" if len(secret) > _SHOWN else ""
        yield (
            f"{len(secret):,} seem to hold a secret, which is kept as it is: use a made-up value instead in "
            f"{', '.join(secret[:_SHOWN])}{more}"
        )
