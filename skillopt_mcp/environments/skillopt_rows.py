"""Skillopt rows: what SkillOpt's adapters take and give, items and result rows, read as tasks and attempts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from skillopt_mcp.environments.base import Rolled, RolloutFailed
from skillopt_mcp.records.calls import Message

_ASKING = ("question", "prompt", "instruction", "task_description", "problem", "query")
_BROKEN_OFF = ("error", "timeout")
CONTEXT_CHARACTERS = 6_000


def asked(item: Mapping[str, object]) -> str:
    """Return what an item asks; of its other fields only the context, for they may hold what is expected."""
    question = next((text for name in _ASKING if isinstance(text := item.get(name), str) and text.strip()), None)
    if question is None:
        return f"Item {item.get('id')}"
    context = item.get("context")
    return (
        f"{question}\n\nContext:\n{context[:CONTEXT_CHARACTERS]}" if isinstance(context, str) and context else question
    )


def rolled(given: object, wanted: str | None, folder: Path) -> Rolled:
    """Return the one attempt that an adapter reports. Raises RolloutFailed when it reports none, or no score."""
    rows = list(given) if isinstance(given, Sequence) else []
    if len(rows) != 1 or not isinstance(rows[0], Mapping):
        raise RolloutFailed(f"the adapter gave {len(rows)} results for one task")
    row = rows[0]
    if wanted is not None and str(row.get("id")) != wanted:
        raise RolloutFailed(f"the adapter gave the result of task '{row.get('id')}' instead of '{wanted}'")
    reason = str(row.get("fail_reason") or "")
    if row.get("agent_ok") is False or row.get("phase") in _BROKEN_OFF:
        raise RolloutFailed(reason or "the agent gave no answer")
    hard, soft = row.get("hard"), row.get("soft")
    # What is neither 0 nor 1 is no pass mark: partial success belongs into soft.
    if hard not in (0, 1) or not isinstance(soft, int | float) or not 0 <= soft <= 1:
        raise RolloutFailed(f"the adapter scored hard {hard!r} and soft {soft!r}: 0 or 1, and 0 to 1, are scores")
    answer = next((text for name in ("predicted_answer", "response") if (text := row.get(name))), "")
    return Rolled(str(answer), bool(hard), float(soft), reason, tuple(_messages(row, folder)))


def _messages(row: Mapping[str, object], folder: Path) -> Iterator[Message]:
    """Yield the conversation."""
    given = row.get("conversation") or _written(folder)
    for each in given if isinstance(given, Sequence) else []:
        if isinstance(each, Mapping) and isinstance(each.get("content"), str):
            yield Message(str(each.get("role") or "assistant"), str(each["content"]))


def _written(folder: Path) -> object:
    """Return the conversation that an adapter leaves beside its predictions, where the published ones do."""
    for path in sorted(folder.glob("predictions/*/conversation.json")):
        try:
            found: object = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        return found
    return None
