"""Speaking: what operations tell a model, in the names of its tools, as the commands that a person types."""

from __future__ import annotations

import re

_SPOKEN = (
    (
        r"^Call evaluate_candidate with candidate_id (c-\w+)\.",
        r"Run skillopt-mcp evaluate \1 --target BACKEND:MODEL, or, without a key, ask the agent that the server serves "
        r"to evaluate it (evaluate_candidate).",
    ),
    (
        r"\bevaluate_candidate (c-\w+) goes on with it",
        r"ask your agent to go on with it (evaluate_candidate)",
    ),
    (
        r"(?:Call )?evaluate_candidate (?:with candidate_id )?(c-\w+)\b(?! by your agent)",
        r"skillopt-mcp evaluate \1 --target BACKEND:MODEL",
    ),
    (r"(?:Call )?promote_skill (?:with candidate_id )?(c-\w+)(?:\.$)?", r"skillopt-mcp promote \1"),
    (r"rollback_skill with skill (\S+) and version (\w+)(?:\.$)?", r"skillopt-mcp rollback \1 \2"),
    (r"rollback_skill with skill (\S+?)\.?$", r"skillopt-mcp rollback \1"),
    (
        r"call propose_edits with its edits again \(inspect c-\w+ shows them\), or at a terminal: "
        r"(skillopt-mcp rebase c-\w+); either makes",
        r"\1 makes",
    ),
    (r"\binspect (?!the )(\S+?)(?=\.$| tells| lists)", r"skillopt-mcp show \1"),
    (r"(propose_edits with rollouts \d+)\b(?:, or record_trajectory)?(?! by your agent)", r"\1 by your agent"),
    (r"\brecord_trajectory says how each ended", "your agent says how each ended (record_trajectory)"),
    (
        r"Say how it ended: record_trajectory with task (trajectory:\d+) and hard",
        r"Ask your agent to say how it ended (record_trajectory with task \1)",
    ),
    (
        r": record_trajectory with task (trajectory:\d+), the right one and a reason for the correction",
        r": ask your agent to correct it, with a reason (record_trajectory with task \1)",
    ),
    (r"(?<!\()\bsubmit_work with job_id ([rt]-\w+)", r"ask your agent to go on with \1 (submit_work)"),
    (r"\badd_tasks\b", "skillopt-mcp tasks add"),
    (r"\blist_skills\b", "skillopt-mcp skills"),
)


# What `replay` asks for where the settings name no backend.
BACKENDS = "--target BACKEND:MODEL --optimizer BACKEND:MODEL"
# Attempts enough for one minibatch of failures, or of successes, to be read together.
_ROLLOUTS = 8


def proposing_first(n_train: int) -> str:
    """Return how a model begins with a skill that has train tasks and no attempt yet, with no key needed for it."""
    return f"propose_edits with rollouts {min(n_train, _ROLLOUTS)}"


def as_commands(text: str) -> str:
    """Return a text with commands in the places of tools."""
    for pattern, words in _SPOKEN:
        text = re.sub(pattern, words, text)
    return text
