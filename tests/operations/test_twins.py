"""Twins: that held-out tasks ask what train tasks ask is told before a test is paid for, and with its verdict."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hostwork import Clock, server
from workshop import Place, use

from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.cli.main import main
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.judges import checking
from skillopt_mcp.operations.looks.inspecting import inspect
from skillopt_mcp.operations.runs.replaying import replay, start_run
from skillopt_mcp.operations.stores.verifying import verify_store
from skillopt_mcp.operations.tasks import twins
from skillopt_mcp.operations.tasks.adding import add_tasks
from skillopt_mcp.operations.tasks.retiring import retire_tasks
from skillopt_mcp.operations.tasks.twins import told_twins
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.calls import Call, Question, Rollout
from skillopt_mcp.records.tasks import SPLITS, Task

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
TOLD = "8 of 12 held-out tasks ask nearly what a train task asks (skillopt-mcp tasks check ledger-clerk names them)"
BY_HEART = "\n".join(f"- {name}: {answer}" for name, answer in FACTS.items())
TARGET = "anthropic:some-model"
RULE = ConfirmRule(max_pairs=60)


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


def test_a_verdict_that_rests_on_what_train_tasks_ask_says_so_wherever_it_is_told(
    place: Place, worded: Workspace
) -> None:
    candidate = place.propose(worded, BY_HEART)
    found = evaluate_candidate(worded, candidate, rule=RULE)
    assert found.verdict == "accept"
    assert f"; {TOLD}" in found.reason
    assert evaluate_candidate(worded, candidate, rule=RULE) == found
    [row] = worded.store.decisions.list_tests(1)
    assert TOLD in inspect(worded, row.id).text
    assert TOLD in inspect(worded, candidate).text
    assert verify_store(place.store_path).problems == []


def test_a_run_tells_it_with_the_verdict_that_it_ends_with(place: Place, worded: Workspace) -> None:
    run = start_run(worded, str(place.skill), Config(epochs=1, max_pairs=60))
    outcome = replay(worded, run)
    assert outcome.verdict == "accept"
    assert f"; {TOLD}" in outcome.reason
    assert TOLD in inspect(worded, run.id).text


def test_a_host_is_told_before_it_takes_work_and_nothing_of_the_tasks(place: Place, worded: Workspace) -> None:
    candidate = place.propose(worded, BY_HEART)
    offered = evaluate_candidate(server(place, Clock(), place.folder / "work"), candidate, 1.0)
    assert offered.status == "work"
    assert f"; {TOLD}" in offered.reason
    assert f"; {TOLD})" in offered.next_step
    assert not [name for name in FACTS if name in offered.model_dump_json()]


@pytest.mark.parametrize("command", ["replay", "evaluate"])
def test_the_terminal_warns_before_it_asks_for_money(
    place: Place, worded: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-asked")
    named = place.propose(worded, BY_HEART) if command == "evaluate" else str(place.skill)
    backends = ["--target", TARGET, *(["--optimizer", TARGET] if command == "replay" else [])]
    assert main(["--store", str(place.store_path), command, named, *backends, "--dry-run"]) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if "nearly" in line]
    assert warnings == ["warning: " + TOLD.replace("skillopt-mcp", f"skillopt-mcp --store {place.store_path}") + "."]


def test_a_test_that_goes_on_compares_its_tasks_once(
    place: Place, worded: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []

    def counting(tasks: Sequence[Task]) -> frozenset[int]:
        compared.append(len(tasks))
        return checking.asked_in_train(tasks)

    twins._twins.cache_clear()
    monkeypatch.setattr(twins, "asked_in_train", counting)
    candidate = place.propose(worded, BY_HEART)
    for _ in range(3):
        evaluate_candidate(worded, candidate, rule=ConfirmRule(max_pairs=2))
    assert compared == [20]
    add_tasks(worded, str(place.skill), [row("Another question altogether?", "train", "no")])
    evaluate_candidate(worded, candidate, rule=ConfirmRule(max_pairs=2))
    assert compared == [20, 21]


def test_a_train_task_out_of_use_and_tasks_of_their_own_are_not_told_of(place: Place, worded: Workspace) -> None:
    tracked = worded.skill(str(place.skill))
    held = [task for task in worded.store.tasks.list_tasks(tracked.id) if task.split != "train"]
    assert told_twins(worded.store, tracked.id, held) == TOLD
    assert told_twins(worded.store, tracked.id, [task for task in held if "customer" not in task.prompt]) == ""
    train = [task for task in worded.store.tasks.list_tasks(tracked.id) if task.split == "train"]
    retire_tasks(worded, str(place.skill), [task.name for task in train[1:]])
    assert told_twins(worded.store, tracked.id, held) == TOLD.replace("8 of", "1 of").replace(
        "ask nearly", "asks nearly"
    )
