"""Verdicts on a text that is live, and on an edit about one kind of task: what they say, and the way on."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from changes import at_a_terminal
from console import Cli, Place, parsed

from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.workspace.workspace import Workspace

RULE = "Name the priority."
N_HELD = 24


@pytest.fixture
def place(make_place) -> Place:
    place: Place = make_place(n_tasks=0)
    return place


@pytest.fixture
def evaluate(place: Place, cli: Cli, tmp_path: Path) -> Callable[..., Any]:
    """Return what evaluates; `prepare` comes first: how many of the held-out tasks, and of the train tasks, have the
    tag `priority`, and what a skill with RULE makes of those, and of the others.
    """
    script = tmp_path / "target.json"

    right = {"kind": "exact", "expected": "right"}

    def add(tag: str, split: str, ns: range, n_groups: int = 0, judge: dict[str, Any] = right) -> None:
        rows = [
            {"prompt": f"Case {n} of {tag}: what is it, in one word of the list that all of us know?",
             "id": f"{tag}-{n}", "tags": [tag], "split": split,
             "judge": judge, "group": f"{tag} {n % n_groups}" if n_groups else ""}
            for n in ns
        ]  # fmt: skip
        tasks = tmp_path / "tasks.jsonl"
        tasks.write_text("\n".join(map(json.dumps, rows)))
        added = cli("tasks", "add", place.skill_path, tasks, store=place.store_path)
        assert added.returncode == 0, added.stderr

    def prepare(
        n_tagged: int, n_train: int = 0, with_rule: str = "right", others: str = "right", n_held: int = N_HELD
    ) -> None:
        for tag, split, ns in (
            ("priority", "test", range(n_tagged)), ("other", "test", range(n_held - n_tagged)),
            ("priority", "train", range(100, 100 + n_train)), ("other", "train", range(100, 100 + n_train)),
        ):  # fmt: skip
            if ns:
                add(tag, split, ns)
        edits = json.dumps({"edits": [{"op": "append", "content": RULE}]})
        rules = [{"match": [RULE, "of priority"], "reply": with_rule}, {"match": [RULE, "of other"], "reply": others}]
        rules += [{"match": "of other", "reply": "right"}]
        script.write_text(json.dumps({"rollout": [*rules, "wrong"], "reflect": [edits] * 9, "merge": [edits] * 9}))

    def evaluate(*arguments: object) -> dict[str, Any]:
        return parsed(cli("evaluate", *arguments, "--target", f"scripted:{script}", "--json", store=place.store_path))

    evaluate.prepare, evaluate.add = prepare, add  # type: ignore[attr-defined]
    return evaluate


def add_rule(place: Place) -> bytes:
    """Add the rule to the live file, as a person does, and return what was there."""
    before = place.main.read_bytes()
    place.main.write_bytes(before + f"\n{RULE}\n".encode())
    return before


def steps_of(place: Place, cli: Cli) -> list[dict[str, Any]]:
    """The next step of the skill, as it is listed and as it is shown."""
    (row,) = parsed(cli("skills", "--json", store=place.store_path))["skills"]
    return [row["next_step"], parsed(cli("show", place.skill_path, "--json", store=place.store_path))["next_step"]]


@pytest.mark.parametrize(("n_held", "verdict"), [(N_HELD, "worse"), (4, "worse_here")])
def test_a_live_edit_that_harms_is_worse_and_the_command_that_is_named_puts_the_text_back(
    place: Place, evaluate, cli: Cli, n_held: int, verdict: str
) -> None:
    evaluate.prepare(0, others="wrong", n_held=n_held)
    before = add_rule(place)
    result = evaluate(place.skill_path)
    assert result["test"]["verdict"] == verdict
    assert (result["accepted"], result["test"]["live"]) == (False, True)
    assert verdict == "worse_here" or result["test"]["gain"]["high"] <= 0
    assert [each["command"] for each in steps_of(place, cli)] == 2 * [result["next_step"]["command"]]
    command = shlex.split(result["next_step"]["command"])
    assert command[1] == "rollback"
    code, screen = at_a_terminal(place, *command[1:], answer="y")
    assert code == 0, screen
    assert place.main.read_bytes() == before, "though it was never promoted"
    shown = parsed(cli("show", result["candidate_id"], "--json", store=place.store_path))
    assert shown["next_step"]["action"] == "add_tasks", "what is worse is not brought back"
    assert [each["action"] for each in steps_of(place, cli)] == 2 * ["add_tasks"]


def test_an_agent_does_not_learn_that_a_live_edit_is_worse(
    place: Place, evaluate, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate.prepare(0, others="wrong")
    add_rule(place)
    assert evaluate(place.skill_path)["next_step"]["action"] == "rollback_skill"
    monkeypatch.setenv("CLAUDECODE", "1")
    told = evaluate(place.skill_path)
    assert (told["accepted"], told["test"], told["next_step"]) == (False, None, None)
    assert parsed(cli("show", told["candidate_id"], "--json", store=place.store_path))["next_step"] is None
    assert [each["action"] for each in steps_of(place, cli)] == 2 * ["add_tasks"], "as after each other verdict"


def test_a_task_is_called_by_a_prompt_whose_cut_is_seen(place: Place, evaluate, cli: Cli) -> None:
    evaluate.prepare(0)
    add_rule(place)
    result = evaluate(place.skill_path)
    name = "Case 1 of other: what is it, in one word of the list that..."
    page = cli("report", place.skill_path, store=place.store_path).stdout.strip().splitlines()[-1]
    assert f"<bdi>{name}</bdi>" in Path(page).read_text()
    assert name in cli("show", result["test"]["test_id"], store=place.store_path).stdout
    assert name in [each["prompt"] for each in evaluate(place.skill_path, "--baseline")["tasks"]]


def test_a_live_edit_without_effect_stays_and_its_undo_is_named(place: Place, evaluate, cli: Cli) -> None:
    evaluate.prepare(0)
    before = add_rule(place)
    result = evaluate(place.skill_path)
    assert (result["test"]["verdict"], result["test"]["live"]) == ("not_better", True)
    shown = cli("evaluate", place.skill_path, store=place.store_path).stdout
    assert "live" in shown
    report = cli("report", place.skill_path, store=place.store_path)
    page = Path(report.stdout.strip().splitlines()[-1]).read_text()
    line = next(each for each in page.split("\n") if "skillopt-mcp rollback" in each and "cmd" in each)
    version = line.split("rollback ")[1].split()[1].split("<")[0]
    code, screen = at_a_terminal(place, "rollback", str(place.skill_path), version, answer="y")
    assert code == 0, screen
    assert place.main.read_bytes() == before


def test_whether_a_candidate_is_worse_is_asked_where_a_person_asks_it_and_answers_what_asks_less(
    place: Place, evaluate, tmp_path: Path
) -> None:
    evaluate.prepare(0, others="wrong")
    new = tmp_path / "NEW.md"
    new.write_text(f"{place.main.read_text()}\n{RULE}\n")
    results = [evaluate(place.skill_path, "--file", new, *options) for options in ([], ["--worse"], ["--worse"], [])]
    assert [each["test"]["verdict"] for each in results] == ["not_better", "worse", "worse", "worse"]
    assert all((each["next_step"] or {}).get("action") != "rollback_skill" for each in results)


def test_the_tag_in_which_an_unproven_gain_lies_is_named_with_how_many_tasks_of_it_would_decide(
    place: Place, evaluate, tmp_path: Path
) -> None:
    evaluate.prepare(5)
    new = tmp_path / "NEW.md"
    new.write_text(f"{place.main.read_text()}\n{RULE}\n")
    test = evaluate(place.skill_path, "--file", new)["test"]
    assert test["verdict"] == "cant_tell"
    # The next test of the release needs 7 of a kind that are better; one more, of which 6 of 7 get better.
    assert test["decides"] == {"tag": "priority", "add": 10 - 5, "passes": 0}


def test_a_kind_that_its_train_failures_name_is_stated_before_anything_is_asked(
    place: Place, evaluate, tmp_path: Path
) -> None:
    evaluate.prepare(6, n_train=4)
    evaluate(place.skill_path, "--baseline")
    target = f"scripted:{tmp_path / 'target.json'}"
    with Workspace(place.store_path, target=target, optimizer=target) as workspace:
        made = propose_from_evidence(workspace.store, workspace.models, workspace.place, str(place.skill_path))
    foreseen = evaluate(made.candidate_id, "--dry-run")["foreseen"]
    assert foreseen["kind"] == {"tag": "priority", "units": 6, "needs": 6}
    test = evaluate(made.candidate_id)["test"]
    assert test["verdict"] == "better"
    assert test["kind"] == {"tag": "priority", "units": 6, "solved": {"before": 0.0, "after": 1.0}}
    assert test["elsewhere"] == {"before": 1.0, "after": 1.0}


@pytest.mark.parametrize(
    ("n_tagged", "n_held", "n_third", "is_kind"),
    [(6, 24, 1, True), (6, 24, 2, False), (12, 24, 0, True), (5, 9, 0, False)],
)
def test_a_kind_is_what_four_in_five_of_the_failures_are_and_at_most_half_of_the_held_out_tasks(
    place: Place, evaluate, tmp_path: Path, n_tagged: int, n_held: int, n_third: int, is_kind: bool
) -> None:
    evaluate.prepare(n_tagged, n_train=4, n_held=n_held)
    if n_third:
        evaluate.add("third", "train", range(n_third))
    evaluate(place.skill_path, "--baseline")
    target = f"scripted:{tmp_path / 'target.json'}"
    with Workspace(place.store_path, target=target, optimizer=target) as workspace:
        made = propose_from_evidence(workspace.store, workspace.models, workspace.place, str(place.skill_path))
    foreseen = evaluate(made.candidate_id, "--dry-run")["foreseen"]
    kind = {"tag": "priority", "units": n_tagged, "needs": 6} if is_kind else None
    assert (foreseen["kind"], foreseen["few_of_kind"]) == (kind, None)


@pytest.mark.parametrize(("n_groups", "is_kind"), [(8, True), (7, False)])
def test_a_kind_is_at_most_half_of_the_units_where_tasks_of_a_group_are_one(
    place: Place, evaluate, tmp_path: Path, n_groups: int, is_kind: bool
) -> None:
    evaluate.prepare(8, n_held=8)
    evaluate.add("other", "test", range(16), n_groups)
    new = tmp_path / "NEW.md"
    new.write_text(f"{place.main.read_text()}\n{RULE}\n")
    test = evaluate(place.skill_path, "--file", new, "--kind", "priority")["test"]
    assert (test["units"]["of"], (test["kind"] or {}).get("units")) == (8 + n_groups, 8 if is_kind else None)


def test_too_few_of_a_kind_is_said_before_anything_is_asked_and_they_can_be_tested_alone(
    place: Place, evaluate, tmp_path: Path, cli: Cli
) -> None:
    evaluate.prepare(4)
    new = tmp_path / "NEW.md"
    new.write_text(f"{place.main.read_text()}\n{RULE}\n")
    named = (place.skill_path, "--file", new, "--kind", "priority")
    foreseen = evaluate(*named, "--dry-run")["foreseen"]
    assert (foreseen["kind"], foreseen["few_of_kind"]) == (None, {"tag": "priority", "units": 4, "needs": 6})
    alone = evaluate(*named, "--cases")
    assert (alone["test"]["verdict"], alone["test"]["units"]["of"]) == ("better_here", 4)
    code, screen = at_a_terminal(place, "promote", alone["candidate_id"], "--unproven", answer="y")
    assert code == 0, screen
    assert place.main.read_text() == new.read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--kind", "unheard"], "priority"),
        (["--cases"], "--kind"),
        (["--kind", "priority"], "the test of a live text"),
        (["--kind", "priority", "--no-worse", "0.1"], "--no-worse asks about all tasks alike"),
        (["--kind", "priority", "--worse", "--file", "NEW.md"], "one with --worse"),
        (["--kind", "other", "--file", "NEW.md"], "18 of 24 held-out tasks"),
    ],
)
def test_a_kind_that_a_test_cannot_have_is_refused(
    place: Place, evaluate, tmp_path: Path, cli: Cli, options: list[str], says: str
) -> None:
    evaluate.prepare(6)
    new = tmp_path / "NEW.md"
    new.write_text(f"{place.main.read_text()}\n{RULE}\n")
    if "--file" not in options:
        add_rule(place)
    options = [str(new) if each == new.name else each for each in options]
    target = f"scripted:{tmp_path / 'target.json'}"
    refused = cli("evaluate", place.skill_path, *options, "--target", target, "--dry-run", store=place.store_path)
    assert refused.returncode != 0
    assert says in refused.stderr


def test_graded_tests_see_gains_below_a_pass_and_again_is_the_next_test(place: Place, evaluate, tmp_path: Path) -> None:
    evaluate.prepare(0, others="one two", n_held=0)
    judge = {"kind": "f1", "expected": "one two three four five six"}
    evaluate.add("other", "test", range(8), judge=judge)
    new = tmp_path / "NEW.md"
    new.write_text(f"{place.main.read_text()}\n{RULE}\n")
    named = (place.skill_path, "--file", new)
    plain, graded, kept, again = (evaluate(*named, *options)["test"] for options in (
        [], ["--graded"], ["--graded"], ["--graded", "--again"]
    ))  # fmt: skip
    assert (plain["verdict"], plain["solved"]) == ("not_better", {"before": 0.0, "after": 0.0})
    assert (graded["verdict"], graded["solved"]) == ("better", {"before": 0.0, "after": 0.5})
    nets = [2 / 3] * graded["units"]["seen"] + [1, 1, -1, -1]  # half a pass is the nearest third
    assert graded["gain"]["low"] + graded["gain"]["high"] == pytest.approx(2 * sum(nets) / len(nets), abs=0.02)
    assert [each["test_in_release"] for each in (plain, graded, kept, again)] == [1, 2, 2, 3]


def test_only_answers_that_repeat_are_said_to_and_not_those_that_are_asked_once(
    place: Place, evaluate, cli: Cli
) -> None:
    evaluate.prepare(6)
    add_rule(place)
    assert evaluate(place.skill_path, "--passes", "1")["test"]["repeats"] is False
    evaluate(place.skill_path, "--baseline", "2")
    assert evaluate(place.skill_path, "--again")["test"]["repeats"] is True
