"""Twins: that held-out tasks ask what train tasks ask is reported before a test is paid for, and with its verdict."""

from __future__ import annotations

import pytest
from hostwork import Clock, server
from workshop import Place, use

from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.maintenance.verify import verify_store
from skillopt_mcp.promotion_tests import evaluate_candidate
from skillopt_mcp.records.calls import Call, Question, Rollout
from skillopt_mcp.records.notes import Note
from skillopt_mcp.records.tasks import SPLITS
from skillopt_mcp.show.inspecting import inspect
from skillopt_mcp.tasks import add_tasks, near_train_tasks, remove_tasks
from skillopt_mcp.workspace import Workspace

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
NOTED = "8 of 12 held-out tasks ask nearly what a train task asks (skillopt-mcp tasks check ledger-clerk names them)"
BY_HEART = "\n".join(f"- {name}: {answer}" for name, answer in FACTS.items())
RULE = ConfirmRule()


def row(prompt: str, split: str, answer: str) -> dict[str, object]:
    return {"prompt": prompt, "split": split, "judge": {"kind": "exact", "expected": answer}}


def by_heart(call: Call) -> str:
    """Answer what the skill has the answer to, or write the answers into it."""
    if isinstance(call.request, Question):
        edit = {"op": "append", "content": BY_HEART}
        return f'{{"reasoning": "by heart", "edits": [{str(edit).replace(chr(39), chr(34))}]}}'
    assert isinstance(call.request, Rollout)
    found = (answer for name, answer in FACTS.items() if name in call.request.task.prompt)
    answer = next(found, "")
    return answer if answer and answer in call.request.files.text else "no idea"


@pytest.fixture
def worded(place: Place) -> Workspace:
    """Return a workspace whose skill has a train task for each of 8 facts, a held-out one, and 4 others held out."""
    workspace = place.open()
    rows = [row(WORDINGS[0].format(name), "train", answer) for name, answer in FACTS.items()]
    rows += [
        row(WORDINGS[n % 2 + 1].format(name), SPLITS[n % 2 + 1], answer)
        for n, (name, answer) in enumerate(FACTS.items())
    ]
    rows += [row(prompt, SPLITS[n % 2 + 1], f"answer {n}") for n, prompt in enumerate(OTHERS)]
    assert add_tasks(workspace, str(place.skill), rows).added == 20
    use(workspace, Scripted(by_heart, name="anthropic:some-model"), "target", "optimizer")
    return workspace


def test_a_verdict_that_rests_on_what_train_tasks_ask_says_so(place: Place, worded: Workspace) -> None:
    candidate = place.propose(worded, BY_HEART)
    found = evaluate_candidate(worded, candidate, rule=RULE)
    assert found.verdict == "accept"
    assert f"; {NOTED}" in found.reason
    assert evaluate_candidate(worded, candidate, rule=RULE) == found
    [row] = worded.store.decisions.list_tests(1)
    assert NOTED in inspect(worded, row.id).text
    assert NOTED in inspect(worded, candidate).text
    assert verify_store(place.store_path).problems == []


def test_a_host_reads_how_many_before_it_takes_work_and_nothing_of_the_tasks(place: Place, worded: Workspace) -> None:
    candidate = place.propose(worded, BY_HEART)
    offered = evaluate_candidate(server(place, Clock(), place.folder / "work"), candidate, 1.0)
    assert offered.status == "work"
    assert Note(code="near_train_tasks", numbers={"n": 8, "of": 12}) in offered.notes
    assert not [name for name in FACTS if name in offered.model_dump_json()]


def test_only_train_tasks_in_use_count(place: Place, worded: Workspace) -> None:
    tracked = worded.skill(str(place.skill))
    tasks = worded.store.tasks.list_tasks(tracked.id)
    held = [task for task in tasks if task.split != "train"]
    assert near_train_tasks(worded.store, tracked.id, held) == Note(code="near_train_tasks", numbers={"n": 8, "of": 12})
    assert near_train_tasks(worded.store, tracked.id, [task for task in held if "customer" not in task.prompt]) is None
    remove_tasks(worded, str(place.skill), [task.name for task in tasks if task.split == "train"][1:])
    assert near_train_tasks(worded.store, tracked.id, held) == Note(code="near_train_tasks", numbers={"n": 1, "of": 12})
