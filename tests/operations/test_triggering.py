"""Triggering: tasks that ask whether the skill opens, from a description that never does to one that is proven."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from workshop import EVEN, Place, use

from skillopt_mcp.actions.baselines import measure_baseline
from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.world import make_tasks
from skillopt_mcp.backends.wrappers import HostMade
from skillopt_mcp.core.calls import Call, Message, Question, Reply, Rollout
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Score, Unscored
from skillopt_mcp.core.tasks import SPLITS, NewTask, Split
from skillopt_mcp.gates.verdicts import caveats
from skillopt_mcp.reports.lookup import look_up
from skillopt_mcp.tasks.judges.judging import parse_judge, score
from skillopt_mcp.tasks.judges.kinds.opens import Opens
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.workspace import Workspace

WORDS = "quince"
DESCRIPTION = f"Posts each {WORDS} to the ledger."
SUBJECTS = [
    "apple",
    "bridge",
    "candle",
    "drum",
    "engine",
    "forest",
    "garden",
    "hammer",
    "island",
    "jacket",
    "kettle",
    "ladder",
]


def add_trigger_set(place: Place, workspace: Workspace, split: Split | None = None) -> int:
    """Add two prompts on which the skill should open for each one on which it should not; return the skill's id."""
    tasks = [
        NewTask(
            f"{'Book the ' + WORDS if n % 3 else 'Paint the picture'} of the {subject}", Opens(expected=bool(n % 3))
        )
        for n, subject in enumerate(SUBJECTS)
    ]
    skill = workspace.place.skill(str(place.skill))
    placed = [replace(task, split=split or SPLITS[n // 4]) for n, task in enumerate(tasks)]
    workspace.store.tasks.add_tasks(skill.id, placed, EVEN, login="a person")
    return skill.id


def opening(name: str = "claude-code:m", always: bool = False) -> Scripted:
    """Return a host that opens the skill for what its description speaks of, or for anything."""

    def answer(call: Call) -> Reply:
        assert isinstance(call.request, Rollout)
        front = call.request.files.text.partition("\n---\n")[0]
        is_opened = always or (WORDS in front and WORDS in call.request.task.prompt)
        return Reply("Done.", (Message("skill", "opened" if is_opened else "not opened", "ledger-clerk"),))

    return Scripted(answer, name=name)


def describe_it(place: Place, workspace: Workspace, *more: dict[str, str]) -> str:
    edits = [{"op": "set_description", "content": DESCRIPTION}, *more]
    made = propose_edits(workspace.store, workspace.place, str(place.skill), edits)
    assert made.candidate_id, made
    return made.candidate_id


@pytest.fixture
def fresh(place: Place) -> Workspace:
    workspace = place.open()
    add_trigger_set(place, workspace, "test")
    return workspace


@pytest.mark.parametrize(
    ("messages", "expected", "passes"),
    [
        ([Message("skill", "opened", "x")], True, True),
        ([Message("skill", "opened", "x")], False, False),
        ([Message("skill", "not opened", "x")], True, False),
        ([Message("skill", "not opened", "x")], False, True),
        ([Message("assistant", "opened")], True, None),
        ([], False, None),
    ],
)
def test_what_the_host_recorded_decides_and_nothing_else(
    messages: list[Message], expected: bool, passes: bool | None
) -> None:
    found = score(parse_judge({"kind": "opens", "expected": expected}), "I opened the skill.", messages)
    assert (found.hard if isinstance(found, Score) else None) is passes
    assert isinstance(found, Unscored) is (passes is None)


@pytest.mark.parametrize("value", ["true", 1, None])
def test_expected_is_true_or_false(value: object) -> None:
    with pytest.raises(BadInput, match="expected"):
        parse_judge({"kind": "opens", "expected": value})


def test_a_description_that_opens_is_proven_with_precision_and_recall(place: Place, fresh: Workspace) -> None:
    use(fresh, opening())
    found = evaluate_candidate(fresh.store, fresh.models, fresh.place, describe_it(place, fresh)).test
    assert found
    assert found.verdict == "better"
    old, new = found.triggering["base"], found.triggering["candidate"]
    assert (old.precision, old.recall, old.attempts) == (None, 0.0, found.runs.base)
    assert (new.precision, new.recall, new.attempts) == (1.0, 1.0, found.runs.candidate)
    said = "precision none, recall 0% with the old text, precision 100%, recall 100% with the new text"
    assert any(said in line for line in caveats(found))
    assert said in look_up(fresh.store, fresh.place, found.test_id, 4000).text


def test_a_skill_that_opens_always_has_perfect_recall_and_little_precision(place: Place, fresh: Workspace) -> None:
    use(fresh, opening(always=True))
    found = evaluate_candidate(fresh.store, fresh.models, fresh.place, describe_it(place, fresh)).test
    assert found
    assert found.verdict == "not_better"
    rates = found.triggering["candidate"]
    n_wanted, n = 8, len(SUBJECTS)
    assert rates.recall == 1.0
    assert rates.precision
    assert abs(rates.precision - n_wanted / n) < 0.2


def test_that_it_never_opens_is_what_such_a_test_measures(place: Place, fresh: Workspace) -> None:
    use(fresh, opening())
    more = propose_edits(fresh.store, fresh.place, str(place.skill), [{"op": "append", "content": "Be kind to all."}])
    found = evaluate_candidate(fresh.store, fresh.models, fresh.place, str(more.candidate_id)).test
    assert found
    assert found.opened
    assert (found.verdict, found.opened.before + found.opened.after) == ("not_better", 0)
    both = describe_it(place, fresh, {"op": "append", "content": "Be kind to all."})
    proven = evaluate_candidate(fresh.store, fresh.models, fresh.place, both).test
    assert proven
    assert proven.verdict == "better"


def test_answer_tasks_on_which_it_never_opens_are_not_tested_though_a_prompt_asks_that(place: Place) -> None:
    workspace = place.open()
    place.add_held_out(workspace, 12)
    add_trigger_set(place, workspace, "test")
    use(workspace, opening())
    found = evaluate_candidate(workspace.store, workspace.models, workspace.place, place.propose(workspace))
    assert found.test
    assert found.test.verdict == "not_tested"
    assert ("mixed", {"n": 12, "of": 24}) in [(each.code, each.numbers) for each in found.notes]


def test_a_baseline_says_how_the_live_text_opens(place: Place) -> None:
    workspace = place.open()
    add_trigger_set(place, workspace)
    use(workspace, opening(always=True))
    found = measure_baseline(workspace.store, workspace.models, workspace.place, str(place.skill), 2)
    assert found.triggering
    assert (found.triggering.attempts, found.triggering.precision, found.triggering.recall) == (24, 16 / 24, 1.0)
    assert found.for_agents().triggering is None, "held-out tasks are among them"
    assert sum(each.passed for each in found.tasks) == 16


def test_an_optimizer_reads_what_was_asked_and_rewords_the_description(place: Place) -> None:
    workspace = place.open()
    add_trigger_set(place, workspace)
    edit = {"op": "set_description", "content": DESCRIPTION, "evidence": [1, 2]}
    author = Scripted(lambda _: json.dumps({"reasoning": "r", "edits": [edit]}), name="scripted:author")
    use(workspace, opening())
    use(workspace, author, "optimizer")
    made = propose_from_evidence(workspace.store, workspace.models, workspace.place, str(place.skill), 4)
    questions = [call.request.evidence for call in author.calls if isinstance(call.request, Question)]
    assert any("the skill should open on this prompt, and was not opened" in each for each in questions)
    assert made.candidate_id, made
    assert f"+description: {DESCRIPTION}" in made.diff
    run = start_run(workspace.store, workspace.models, workspace.place, str(place.skill), Config(epochs=1, batch=4))
    trained = replay(workspace.store, workspace.models, workspace.place, run)
    assert [step.candidate for step in trained.steps] == [1.0]


PASTED = ("openai:m", "anthropic:m", "an agent's own")


@pytest.mark.parametrize("name", PASTED)
def test_a_pasted_target_is_refused_before_anything_is_asked(place: Place, fresh: Workspace, name: str) -> None:
    target = opening(name)
    use(fresh, target if ":" in name else HostMade(target))
    more = propose_edits(fresh.store, fresh.place, str(place.skill), [{"op": "append", "content": "Be kind to all."}])
    calls = [
        lambda: evaluate_candidate(fresh.store, fresh.models, fresh.place, str(more.candidate_id)),
        lambda: measure_baseline(fresh.store, fresh.models, fresh.place, str(place.skill), 1),
        lambda: start_run(fresh.store, fresh.models, fresh.place, str(place.skill), Config()),
        lambda: propose_from_evidence(fresh.store, fresh.models, fresh.place, str(place.skill), 4),
    ]
    for call in calls:
        with pytest.raises(BadInput, match=r"tasks on whether the skill opens, which .* cannot show; name --target"):
            call()
    assert target.calls == []


def test_answer_tasks_are_tested_alone_where_the_target_cannot_open_and_that_is_said(place: Place) -> None:
    workspace = place.open()
    skill_id = add_trigger_set(place, workspace, "test")
    answers = {each.prompt: str(each.judge.model_dump()["expected"]) for each in make_tasks(12, 3)}
    place.add_held_out(workspace, 12)
    target = Scripted(lambda call: answers[call.request.task.prompt], name="openai:m")  # type: ignore[union-attr]
    use(workspace, target)
    assert "left out: 12 tasks on whether the skill opens" in workspace.models.describe_left_out(skill_id)
    found = evaluate_candidate(workspace.store, workspace.models, workspace.place, place.propose(workspace))
    assert found.test
    assert found.test.triggering == {}
    assert ("left_out", {"n": 12}) in [(each.code, each.numbers) for each in found.notes]
    assert {call.request.task.prompt for call in target.calls if isinstance(call.request, Rollout)} <= set(answers)
