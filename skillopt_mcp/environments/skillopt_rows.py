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
LEAST_TELLING = 2


def asked(item: Mapping[str, object]) -> str:
    """Return what an item asks; of its other fields only the context, for they may hold what is expected."""
    question = next((text for name in _ASKING if isinstance(text := item.get(name), str) and text.strip()), None)
    if question is None:
        return f"Item {item.get('id')}"
    context = item.get("context")
    return (
        f"{question}\n\nContext:\n{context[:CONTEXT_CHARACTERS]}" if isinstance(context, str) and context else question
    )


def rolled(given: object, wanted: str | None, item: Mapping[str, object], folder: Path) -> Rolled:
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
    hint = reason if reason and not _tells(reason, item) else ""
    return Rolled(str(answer), bool(hard), float(soft), reason, hint, tuple(_messages(row, item, folder)))


def _tells(reason: str, item: Mapping[str, object]) -> bool:
    """Return whether a reason quotes what the item holds but does not ask: the optimizer must not read that."""
    shown, told = asked(item).casefold(), reason.casefold()
    hidden = {text.casefold() for name, value in item.items() if name != "id" for text in _texts(value)}
    return any(len(text) >= LEAST_TELLING and text in told and text not in shown for text in hidden)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value.strip()
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _texts(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _messages(row: Mapping[str, object], item: Mapping[str, object], folder: Path) -> Iterator[Message]:
    """Yield the conversation, without what the adapter itself notes of the expected answer among it."""
    given = row.get("conversation") or _written(folder)
    for each in given if isinstance(given, Sequence) else []:
        if isinstance(each, Mapping) and isinstance(each.get("content"), str):
            role, content = str(each.get("role") or "assistant"), str(each["content"])
            if role == "assistant" or not _tells(content, item):
                yield Message(role, content)


def _written(folder: Path) -> object:
    """Return the conversation that an adapter leaves beside its predictions, where the published ones do."""
    for path in sorted(folder.glob("predictions/*/conversation.json")):
        try:
            found: object = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        return found
    return None
