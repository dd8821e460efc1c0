"""History: the outcomes of earlier steps and epochs, as the text that the optimizer is shown of them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from skillopt_mcp.core.edits import Edit
from skillopt_mcp.core.evidence import Change, Longitudinal
from skillopt_mcp.core.runs import DiscardedEdit, StepRecord, TriedEdit
from skillopt_mcp.prompts.rendering import cut_middle, fence, render_trajectories

TEXT_LIMIT = 400
_ORDER: tuple[tuple[Change, str], ...] = (
    ("regressed", "Regressed: succeeded before, failed now"),
    ("persistent_fail", "Persistent failures: failed before, failed now"),
    ("improved", "Improved: failed before, succeeded now"),
    ("stable_success", "Stable: succeeded both times"),
)


def render_history(
    steps: Sequence[StepRecord], rejected: Sequence[TriedEdit], discarded: Sequence[DiscardedEdit] = ()
) -> str:
    """Return the steps of this epoch with the mistakes they saw, the edits that a gate turned down in any epoch, and
    those of earlier candidates that were not promoted.
    """
    parts = []
    if steps:
        parts.append("Steps of this epoch:\n" + "\n".join(map(render_step, steps)))
    if rejected:
        parts.append("Edits that were tried and rejected, the latest first:\n" + "\n".join(map(render_tried, rejected)))
    if discarded:
        rows = ["Edits of earlier candidates of this skill that were not adopted, the latest first:"]
        for each in discarded:
            n = each.n_others
            became = each.became + (f", with {n} other edit{'s' if n > 1 else ''}" if n else "")
            rows.append(json.dumps({"became": became, **_cut_texts(each.edit)}, ensure_ascii=False))
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def render_step(step: StepRecord) -> str:
    """Return a step in a few lines: its verdict, its means on train and val, and the mistakes that it saw."""
    is_shown = step.candidate is not None and step.verdict != "reject"
    tried = f", val score {step.candidate:.3f} with its edits" if is_shown else ""
    train = f"train {step.train.hard:.3f} over {step.train.n} attempts" if step.train.n else "train -"
    head = f"- step {step.n}: {step.verdict}; {train}{tried}; {step.current:.3f} after it"
    return "\n".join([head, *(f"  - seen: {cut_middle(pattern, TEXT_LIMIT)}" for pattern in step.patterns)])


def render_tried(tried: TriedEdit) -> str:
    """Return a tried edit in one line of JSON, its texts cut."""
    row: dict[str, object] = {"step": tried.n, "verdict": tried.verdict, **_cut_texts(tried.edit)}
    if tried.candidate is not None:
        row |= {"val_before": round(tried.current, 3), "val_with_it": round(tried.candidate, 3)}
    return json.dumps(row, ensure_ascii=False)


def _cut_texts(edit: Edit) -> dict[str, object]:
    texts = {"op": edit.op, "path": edit.path, "target": edit.target, "content": edit.content}
    return {name: cut_middle(text, TEXT_LIMIT) for name, text in texts.items() if text}


def render_longitudinal(pairs: Sequence[Longitudinal], limit: int) -> str:
    """Return the tasks by what became of them, the worst first; both attempts of a task in `limit` characters.

    Of stable successes only the task is shown.
    """
    parts = [", ".join(f"{change} {sum(pair.change == change for pair in pairs)}" for change, _ in _ORDER)]
    for change, title in _ORDER:
        group = [pair for pair in pairs if pair.change == change]
        if not group:
            continue
        parts.append(f"## {title}")
        for pair in group:
            if change == "stable_success":
                parts.append(fence(cut_middle(pair.after.prompt, limit // 8), "task"))
            else:
                parts.append(render_trajectories([pair.before, pair.after], limit // 2))
    return "\n\n".join(parts)
