"""Twins: that held-out tasks ask what train tasks ask is reported before a host takes its work."""

from __future__ import annotations

import pytest
from hostwork import Clock, server
from workshop import Place

from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.tasks import add_tasks, near_train_tasks, remove_tasks
from skillopt_mcp.core.notes import Note
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.workspace import Workspace

FACTS = {
    "Halden Timber": "thursday noon", "Brixton Glass": "the last friday", "Orion Foods": "monday eight sharp",
    "Pellworm Salt": "every second tuesday", "Quarry Nine": "ten days before the fair", "Lund Bicycles": "never again",
    "Nordic Wool": "the first of each month", "Tern Shipping": "after the tide has turned",
}  # fmt: skip
WORDINGS = (
    "On which day of the calendar does the clerk of our office send the reminder to the customer {} by post?",
    "On which day of the calendar does the clerk of our office send the reminder to the customer {} by post, please?",
    "Now: on which day of the calendar does the clerk of our office send the reminder to the customer {} by post?",
)
OTHERS = (
    "Spell the word of the harbour pilot backwards.", "Name the colour that the fleet paints its oldest boats in.",
    "Which of the three keys opens the upper drawer?", "How do we address a widow in a letter of thanks?",
)  # fmt: skip


def row(prompt: str, split: str, answer: str) -> dict[str, object]:
    return {"prompt": prompt, "split": split, "judge": {"kind": "exact", "expected": answer}}


@pytest.fixture
def worded(place: Place) -> Workspace:
    """Return a workspace whose skill has a train task for each of 8 facts, a held-out one, and 4 others held out."""
    workspace = place.open()
    rows = [row(WORDINGS[0].format(name), "train", answer) for name, answer in FACTS.items()]
    rows += [row(WORDINGS[n % 2 + 1].format(name), "test", answer) for n, (name, answer) in enumerate(FACTS.items())]
    rows += [row(prompt, "test", f"answer {n}") for n, prompt in enumerate(OTHERS)]
    assert add_tasks(workspace.store, workspace.place, str(place.skill), rows).added == 20
    return workspace


def test_a_host_reads_how_many_before_it_takes_work_and_nothing_of_the_tasks(place: Place, worded: Workspace) -> None:
    candidate = place.propose(worded)
    opened = server(place, Clock(), place.folder / "work")
    offered = evaluate_candidate(
        opened.store,
        opened.models,
        opened.place,
        candidate,
        Wait(server(place, Clock(), place.folder / "work").jobs, 1.0),
    )
    assert offered.status == "work"
    assert Note(code="near_train_tasks", numbers={"n": 8, "of": 12}) in offered.notes
    assert not [name for name in FACTS if name in offered.model_dump_json()]


def test_only_train_tasks_in_use_count(place: Place, worded: Workspace) -> None:
    tracked = worded.place.skill(str(place.skill))
    tasks = worded.store.tasks.list_tasks(tracked.id)
    held = [task for task in tasks if task.split != "train"]
    assert near_train_tasks(worded.store, tracked.id, held) == Note(code="near_train_tasks", numbers={"n": 8, "of": 12})
    assert near_train_tasks(worded.store, tracked.id, [task for task in held if "customer" not in task.prompt]) is None
    remove_tasks(
        worded.store, worded.place, str(place.skill), [task.name for task in tasks if task.split == "train"][1:]
    )
    assert near_train_tasks(worded.store, tracked.id, held) == Note(code="near_train_tasks", numbers={"n": 1, "of": 12})
