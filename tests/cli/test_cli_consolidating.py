"""`replay --memory` trains a skill and a memory file; `evaluate --beside` goes on with a test of one of them."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from console import BACKENDS, TARGET, Cli, Place, parsed

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.commands import replay
from skillopt_mcp.errors import Refused
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.judging import Rubric
from skillopt_mcp.records.tasks import SPLITS, NewTask
from skillopt_mcp.splits import EQUAL_SHARES

SETTINGS = (*BACKENDS, "--batch", "10", "--epochs", "1", "--max-pairs", "4")


@pytest.fixture
def place(make_place: Callable[..., Place]) -> Place:
    return make_place()


@pytest.fixture
def memory(place: Place) -> Path:
    path = place.store_path.parent / "project" / "CLAUDE.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# Project\n\n- Answer in one line.\n")
    return path


def test_both_documents_are_trained_and_told_as_one_object(cli: Cli, place: Place, memory: Path) -> None:
    command = ("replay", str(place.skill_path), "--memory", str(memory), *SETTINGS)
    told = parsed(cli(*command, "--json", store=place.store_path))
    skill, document = told["skill"], told["memory"]
    assert isinstance(skill, dict)
    assert isinstance(document, dict)
    assert (skill["skill"], document["skill"]) == (place.skill_path.name, "project:CLAUDE.md")
    assert parsed(cli(*command, "--resume", "--json", store=place.store_path)) == told
    assert "undecided" in (skill["verdict"], document["verdict"]), "four pairs decide nothing"


def test_more_pairs_are_taken_with_the_other_document_at_hand(cli: Cli, place: Place, memory: Path) -> None:
    command = ("replay", str(place.skill_path), "--memory", str(memory), "--document", "skill", *SETTINGS)
    skill = parsed(cli(*command, "--json", store=place.store_path))["skill"]
    assert isinstance(skill, dict)
    assert skill["verdict"] == "undecided"
    assert str(skill["next_step"]).endswith(f"evaluate {skill['candidate_id']} --beside {memory}")

    again = ("evaluate", str(skill["candidate_id"]), "--target", TARGET, "--beside", str(memory))
    more = parsed(cli(*again, "--json", store=place.store_path))

    assert int(str(more["pairs_done"])) > 4
    with Workspace(place.store_path) as workspace:
        candidate = workspace.store.candidates.get_candidate(str(skill["candidate_id"]))
        [test] = workspace.store.decisions.list_confirmations(
            candidate.skill_id, candidate.base_version, candidate.version_id
        )
    assert " beside " in test.backend


def test_the_terminal_names_both_documents(cli: Cli, place: Place, memory: Path) -> None:
    done = cli("replay", str(place.skill_path), "--memory", str(memory), *SETTINGS, store=place.store_path)
    assert done.returncode == 0, done.stderr
    assert f"Trains '{place.skill_path.name}' and then 'project:CLAUDE.md'" in done.stderr
    assert f"{place.skill_path.name}: run r-" in done.stdout
    assert "project:CLAUDE.md: run r-" in done.stdout
    assert "SIMULATION" in done.stdout


def test_advice_names_the_store_and_that_a_simulation_was_at_work(cli: Cli, make_place: Callable[..., Place]) -> None:
    place = make_place(n_tasks=90)
    memory = place.store_path.parent / "AGENTS.md"
    memory.write_text("# Project\n\n- Answer in one line.\n")
    command = ("replay", str(place.skill_path), "--memory", str(memory), "--document", "skill", *BACKENDS)
    told = cli(*command, "--batch", "15", "--epochs", "2", store=place.store_path).stdout
    assert "Verdict: ACCEPT." in told
    [advice] = [line for line in told.splitlines() if line.startswith("Next: ")]
    assert re.fullmatch(rf"Next: {re.escape(place.program)} promote c-\w+ --simulated", advice)


def test_a_training_that_is_cut_short_has_no_verdict(cli: Cli, place: Place, memory: Path) -> None:
    command = ("replay", str(place.skill_path), "--memory", str(memory), *SETTINGS, "--max-calls", "5", "--json")
    done = cli(*command, store=place.store_path)
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert (told["status"], told["verdict"]) == ("stopped", None)
    assert told["next_step"].startswith("the same command with --resume --max-calls ")


def test_the_judge_is_in_what_both_documents_may_ask(make_place, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    place = make_place(n_tasks=0)
    memory = place.store_path.parent / "AGENTS.md"
    memory.write_text("# Project\n")
    rubric = Rubric(kind="rubric", rubric="It is kind.", votes=2)
    with Workspace(place.store_path) as workspace:
        tasks = [NewTask(f"{split} {n}: greet", rubric, split=split) for split in SPLITS for n in range(4)]
        workspace.store.tasks.add_tasks(workspace.skill(str(place.skill_path)).id, tasks, EQUAL_SHARES)
    monkeypatch.setattr(terminal, "agreed", lambda question, **_: False)
    options = replay.Options(
        store=str(place.store_path), skill=str(place.skill_path), memory=str(memory), target=TARGET, optimizer=TARGET,
        judge="openai:m,base_url=http://127.0.0.1:9", given={"epochs": 1, "max_pairs": 5},
    )  # fmt: skip

    assert replay.run(options) == 1

    # For each document: 4 train tasks, 4 val tasks before and after the step, both arms of 5 pairs; two votes on each.
    n_target = 2 * (4 + 2 * 4 + 2 * 5)
    told = capsys.readouterr().err
    assert f"At most {n_target} target calls and about " in told
    assert f" optimizer calls, and {2 * n_target} calls of the judge; caps are those of each run." in told


def test_what_another_model_answered_is_told_before_anybody_is_asked_to_spend(
    place: Place, memory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = memory.with_name("script.json")
    script.write_text('{"rollout": ["I do not know."]}')
    asked: list[str] = []
    monkeypatch.setattr(terminal, "agreed", lambda question, **_: not asked.append(question))
    options = replay.Options(
        store=str(place.store_path), skill=str(place.skill_path), memory=str(memory), target=f"scripted:{script}",
        optimizer=TARGET, given={"epochs": 1, "max_pairs": 4, "batch": 30},
    )  # fmt: skip
    assert replay.run(options) == 0
    before = len(asked)
    script.write_text('{"rollout": ["No idea."]}')
    resumed = dataclasses.replace(options, resume=True)
    with pytest.raises(Refused, match=r"and is 'scripted:\w{16}.* take its outcome as it is: the same command with"):
        replay.run(resumed)
    assert len(asked) == before
    capsys.readouterr()
    assert replay.run(dataclasses.replace(resumed, allow_changed=True)) == 0
    assert capsys.readouterr().err.count(" is taken as it is\n") == 2


def test_paths_in_the_wrong_order_end_with_one_line(cli: Cli, place: Place, memory: Path) -> None:
    done = cli("replay", str(memory), "--memory", str(place.skill_path), *SETTINGS, store=place.store_path)
    assert done.returncode == 1
    assert "are no skill and memory file" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
