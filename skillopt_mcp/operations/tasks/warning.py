"""Warning: what is worth knowing of tasks that are stored as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillopt_mcp.documents.counts import counted
from skillopt_mcp.judges.shapes import is_shape_only
from skillopt_mcp.records.judging import spec_json
from skillopt_mcp.records.tasks import NewTask, Task
from skillopt_mcp.redaction.finding import find_secrets
from skillopt_mcp.redaction.known import KnownSecrets
from skillopt_mcp.redaction.redacting import redact

_SHOWN = 10


def warned(good: Sequence[tuple[int, NewTask]], known: KnownSecrets) -> Iterator[str]:
    """Yield what is worth knowing of tasks, each given with its place: secrets in them, judges of form alone."""
    placed = [(f"task {index + 1}", task) for index, task in sorted(good, key=lambda each: each[0])]
    yield from secrets_warned(placed, known)
    n_shape = sum(is_shape_only(task.judge) for _, task in good)
    if n_shape:
        judge, them = ("judges", "it") if n_shape == 1 else ("judge", "them")
        yield (
            f"{counted(n_shape, 'task')} {judge} only the form of an answer (length, heading), which cannot promote "
            f"alone: add a judge of another kind to {them}"
        )


def secrets_warned(tasks: Sequence[tuple[str, NewTask | Task]], known: KnownSecrets) -> Iterator[str]:
    """Yield a warning of the tasks that hold a secret, known ones among them, each given with how to call it."""
    secret = [redact(called, known) for called, task in tasks if find_secrets(_said(task), known)]
    if secret:
        more = f" and {len(secret) - _SHOWN:,} more" if len(secret) > _SHOWN else ""
        seem = "seems" if len(secret) == 1 else "seem"
        yield (
            f"{', '.join(secret[:_SHOWN])}{more} {seem} to hold a secret, which is kept as it is: use a made-up value "
            "instead"
        )


def _said(task: NewTask | Task) -> bytes:
    """Return all that a task says, its judge and the names of its files among it."""
    files = (text for file in task.files for text in (file.path, file.content))
    told = (task.prompt, task.name or "", *task.tags, *files, spec_json(task.judge))
    return "\n".join(told).encode("utf-8", "replace")
