"""Changes: candidates of a place, and commands whose questions a person answers."""

from __future__ import annotations

import os
from pathlib import Path

from console import TARGET, Place, run_at_a_terminal

from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.backends.world import TOPICS
from skillopt_mcp.workspace.workspace import Workspace

LESSONS = "\n".join(f"- {topic.lesson}" for topic in TOPICS)


def make_candidate(place: Place, text: str = "") -> str:
    """Return a candidate that teaches everything the tasks need, and says `text` too."""
    with Workspace(place.store_path) as workspace:
        made = propose_edits(
            workspace.store,
            workspace.place,
            str(place.skill_path),
            [{"op": "append", "content": f"{LESSONS}\n{text}"}],
            "w\x1b[1m",
        )
    assert made.candidate_id
    return made.candidate_id


def make_accepted(place: Place, text: str = "") -> str:
    candidate = make_candidate(place, text)
    with Workspace(place.store_path, target=TARGET) as workspace:
        assert evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate).accepted
    return candidate


def at_a_terminal(place: Place, *arguments: str, answer: str, **environ: str) -> tuple[int, str]:
    """Return exit code and screen of a command whose question is answered at a terminal of its own."""
    command = ["--store", str(place.store_path), *arguments]
    return run_at_a_terminal(command, Path.cwd(), {**os.environ, **environ}, answer)
