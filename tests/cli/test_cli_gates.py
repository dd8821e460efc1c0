from __future__ import annotations

import importlib
import json
import subprocess

import pytest
from console import BACKENDS, TARGET, Cli, parsed

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.commands import credit
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.operations.candidates.proposing import propose_edits
from skillopt_mcp.operations.evidence.recording import Recording, record_trajectory
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.judging import Exact, Rubric
from skillopt_mcp.records.tasks import SPLITS, NewTask
from skillopt_mcp.splits import EQUAL_SHARES

RUBRIC = Rubric(kind="rubric", rubric="It is kind.", votes=3)
RUN = ("--epochs", "1", "--batch", "10", "--max-pairs", "40")


def add_rubrics(workspace: Workspace, skill: str) -> None:
    """Give a skill 8 tasks in each split; a rubric judges two of those that are held out, by three votes."""
    for split in SPLITS:
        judges = [RUBRIC if split != "train" and n < 2 else Exact(kind="exact", expected="yes") for n in range(8)]
        tasks = [NewTask(f"{split} {n}: greet", judge, split=split) for n, judge in enumerate(judges)]
        workspace.store.tasks.add_tasks(workspace.skill(skill).id, tasks, EQUAL_SHARES)


def proposed(place, *contents: str) -> str:
    """Return the id of a candidate of these lines."""
    with Workspace(place.store_path) as workspace:
        edits = [{"op": "append", "content": content} for content in contents]
        made = propose_edits(workspace, str(place.skill_path), edits).candidate_id
    assert made
    return made


def test_calibrate_says_what_a_test_can_find(cli: Cli, make_place) -> None:
    place = make_place()
    arguments = ("calibrate", "ledger-clerk", "--target", TARGET, "--pairs", "12", "--gain", "0.3")
    told = cli(*arguments, store=place.store_path)
    assert told.returncode == 0, told.stderr
    assert "against itself, 12 pairs on " in told.stdout
    assert "Smallest gain that four of five tests accept within 200 pairs (alpha 0.0304): " in told.stdout
    assert "SIMULATION" in told.stdout
    found = parsed(cli(*arguments, "--json", store=place.store_path))
    assert (found["n_pairs"], found["max_pairs"]) == (12, 200)


def test_race_and_credit_name_each_arm_and_edit(cli: Cli, make_place) -> None:
    place = make_place()
    first, second = proposed(place, "- One.", "- Two."), proposed(place, "- Three.")
    raced = parsed(
        cli(
            "race",
            first,
            second,
            "--control",
            "none",
            "--laps",
            "8",
            "--target",
            TARGET,
            "--json",
            store=place.store_path,
        )
    )
    rows = raced["rows"]
    assert isinstance(rows, list)
    assert [row["arm"] for row in rows] == [first, second, "no skill"]
    assert "BACKEND:MODEL" not in str(raced["next_step"])
    plan = cli("credit", first, "--pairs", "8", "--target", TARGET, "--dry-run", "--json", store=place.store_path)
    assert parsed(plan)["calls"] == {"target": 24, "judge": 0}
    told = cli("credit", first, "--pairs", "8", "--target", TARGET, store=place.store_path)
    assert told.returncode == 0, told.stderr
    assert "append SKILL.md: - One." in told.stdout
    said = " ".join(told.stdout.split())
    assert "An edit helps or harms where that is wrong in at most 15% of cases. It is spare where what goes" in said
    assert "loses at most 0.15 of the mean score" in said
    assert "up to 8 pairs show none of these. Used in all: 24 calls, " in said
    assert "$0.00." in said
    assert raced["used"]["n_calls"] == 32  # type: ignore[index, call-overload]
    runs = cli("runs", store=place.store_path)
    assert "Beside runs, this store has used 56 calls" in runs.stderr
    assert "Beside runs" not in cli("runs", "ledger-clerk", store=place.store_path).stderr
    assert "1 credit, 1 race ('--json' lists them)" in runs.stderr
    again = cli("race", first, second, "--laps", "8", "--target", f"{TARGET},latency_ms=1", store=place.store_path)
    assert "BACKEND:MODEL" not in again.stdout
    alone = cli("credit", second, "--target", TARGET, store=place.store_path)
    assert (alone.returncode, alone.stdout) == (1, "")
    assert alone.stderr.startswith(f"error: candidate '{second}' has 1 applied edits of its own")


def test_a_rescue_is_asked_for_in_calls(make_place, monkeypatch: pytest.MonkeyPatch) -> None:
    place = make_place()
    candidate = proposed(place, "- One.", "- Two.", "- Three.")
    asked: list[str] = []
    monkeypatch.setattr(terminal, "agreed", lambda question, **_: asked.append(question))
    target = "openai:m,base_url=http://127.0.0.1:9"
    assert credit.run(credit.Options(store=str(place.store_path), candidate=candidate, rescue=True, target=target)) == 1
    with Workspace(place.store_path) as workspace:
        n_val = sum(task.split == "val" for task in workspace.store.tasks.list_tasks(1))
    assert asked == [f"Spend up to {8 * n_val} target calls (4 parts, both arms on {n_val} tasks)?"]


@pytest.mark.parametrize(
    ("command", "given", "asked"),
    [
        ("race", {"candidates": ["{0}"], "laps": 5}, "10 target calls, and 30 of the judge"),
        (
            "race",
            {"candidates": ["{0}"], "laps": 5, "control": ["none", "rewrite"], "optimizer": "{1}"},
            "20 target calls and 1 optimizer call, and 60 of the judge",
        ),
        ("credit", {"candidate": "{0}", "pairs": 5}, "15 target calls, and 45 of the judge"),
        ("credit", {"candidate": "{0}", "rescue": True}, "32 target calls, and 24 of the judge (2 parts, both arms on"),
        ("calibrate", {"skill": "ledger-clerk", "pairs": 5}, "10 target calls, and 30 of the judge"),
        ("evaluate", {"candidate": "{0}", "max_pairs": 5}, "10 target calls, and 30 of the judge"),
    ],
)
@pytest.mark.parametrize("target", ["{1}", TARGET])
def test_the_calls_of_the_judge_are_in_what_is_asked_for(
    make_place, monkeypatch: pytest.MonkeyPatch, capsys, command: str, given: dict[str, object], asked: str, target: str
) -> None:
    place, model = make_place(n_tasks=0), "openai:m,base_url=http://127.0.0.1:9"
    with Workspace(place.store_path) as workspace:
        add_rubrics(workspace, str(place.skill_path))
        record_trajectory(workspace, "ledger-clerk", Recording("Greet me once more.", hard=False))
    candidate = proposed(place, "- One.", "- Two.")
    questions: list[str] = []
    monkeypatch.setattr(terminal, "agreed", lambda question, **_: questions.append(question))
    filled = json.loads(json.dumps({**given, "target": target}).replace("{0}", candidate).replace("{1}", model))
    module = importlib.import_module(f"skillopt_mcp.cli.commands.{command}")

    assert module.run(module.Options(store=str(place.store_path), judge=model, **filled)) == 1

    [question] = questions
    assert question.startswith(f"Spend up to {asked}")
    told = capsys.readouterr().err
    assert f"At most {asked.partition(' (')[0]}.\nNo call of these models is stored yet" in told
    assert told.endswith("Nothing was spent.\n")


def test_a_skill_is_raced_against_its_one_shot_rewrite(cli: Cli, make_place) -> None:
    place = make_place()
    arguments = ("race", "ledger-clerk", "--control", "rewrite", "--laps", "8")
    with Workspace(place.store_path) as workspace:
        [task, *_] = workspace.store.tasks.list_tasks(workspace.skill(str(place.skill_path)).id)
        record_trajectory(workspace, "ledger-clerk", Recording(f"{task.prompt} And once more.", hard=False))
    told = cli(*arguments, *BACKENDS, store=place.store_path)
    assert told.returncode == 0, told.stderr
    assert "The one-shot rewrite is kept as c-" in told.stdout


def test_a_test_claims_tasks_like_these_where_that_is_asked_for(cli: Cli, make_place) -> None:
    place = make_place(n_tasks=90)
    candidate = proposed(place, "- One.")
    arguments = ("evaluate", candidate, "--target", TARGET)
    told = cli(*arguments, "--claim", "like_these", "--max-pairs", "10", store=place.store_path)
    assert told.returncode == 0, told.stderr
    assert "on tasks like these, if the 30 test tasks are a fair sample of them" in told.stdout
    other = cli("evaluate", proposed(place, "- Two."), "--target", TARGET, "--max-pairs", "8", store=place.store_path)
    assert "on these 30 held-out tasks" in other.stdout
    [step] = [line for line in other.stdout.splitlines() if line.startswith("Next: ")]
    assert f" --target {TARGET}" in step
    assert "BACKEND:MODEL" not in step


def test_a_claim_that_is_said_is_refused_where_the_test_was_begun_for_the_other(cli: Cli, make_place) -> None:
    place = make_place(n_tasks=90)
    begun = {"these": proposed(place, "- One."), "like_these": proposed(place, "- Two.")}
    said = {"these": "on these 30 held-out tasks", "like_these": "on tasks like these"}

    def evaluated(claim: str, *more: str) -> subprocess.CompletedProcess[str]:
        few = ("--target", TARGET, "--max-pairs", "4")
        return cli("evaluate", begun[claim], *few, *more, store=place.store_path)

    for claim, other in (("these", "like_these"), ("like_these", "these")):
        for more in (("--claim", claim), ("--claim", claim), ()):
            assert said[claim] in evaluated(claim, *more).stdout
        refused = evaluated(claim, "--claim", other)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert f"error: the test of '{begun[claim]}' was begun for another claim (better, {said[claim]}" in (
            refused.stderr
        )


def test_another_gate_is_asked_about_a_run_that_is_over(cli: Cli, make_place) -> None:
    place = make_place()
    run = parsed(cli("replay", "ledger-clerk", *BACKENDS, *RUN, "--json", store=place.store_path))
    found = parsed(cli("replay", "ledger-clerk", "--policy", "paired_se", "--json", store=place.store_path))
    assert (found["run_id"], found["policy"]) == (run["run_id"], "paired_se")
    told = cli("replay", str(run["run_id"]), "--policy", "strict", store=place.store_path)
    assert f"0 of {len(found['rows'])} verdicts of run {run['run_id']} differ." in told.stdout
    refused = cli("replay", "ledger-clerk", "--policy", "strict", "--epochs", "3", store=place.store_path)
    assert refused.returncode == 1
    assert "--policy looks at a run that is over" in refused.stderr


def test_a_run_that_cannot_succeed_is_told_before_it_begins(cli: Cli, make_place) -> None:
    place = make_place()
    told = cli("replay", "ledger-clerk", *BACKENDS, "--epochs", "1", "--max-pairs", "4", store=place.store_path)
    assert "warning: at the end, this test cannot accept anything" in told.stderr


def test_worn_tasks_are_rotated_at_a_terminal(cli: Cli, make_place) -> None:
    place = make_place()
    found = parsed(cli("tasks", "rotate", "ledger-clerk", "--json", store=place.store_path))
    assert (found["rotated"], found["most_looks"]) == ([], 0)
    told = cli("tasks", "rotate", "ledger-clerk", "--looks", "0", store=place.store_path)
    assert told.returncode == 1
    assert "looks '0' is not possible" in told.stderr


def test_worn_tasks_move_for_a_person_who_agreed_alone(cli: Cli, make_place, monkeypatch: pytest.MonkeyPatch) -> None:
    place = make_place()
    with Workspace(place.store_path, target=TARGET) as workspace:
        evaluate_candidate(workspace, proposed(place, "- Note."), rule=ConfirmRule(max_pairs=8))
        looks = workspace.store.tasks.list_looks(1)
        worn = sorted(task.name for task in workspace.store.tasks.list_tasks(1) if looks.get(task.id))
    assert 0 < len(worn) < len(looks)
    rotate = ("tasks", "rotate", "ledger-clerk", "--looks", "1")
    unasked = cli(*rotate, store=place.store_path)
    assert (unasked.returncode, "agree beforehand with --yes" in unasked.stderr) == (1, True)
    assert all(name in unasked.stdout for name in worn)
    with monkeypatch.context() as agent:
        agent.setenv("CLAUDECODE", "1")
        refused = cli(*rotate, "--yes", store=place.store_path)
    assert (refused.returncode, "'tasks rotate' is for a person" in refused.stderr) == (1, True)
    with Workspace(place.store_path) as workspace:
        assert workspace.store.tasks.list_looks(1) == looks
    assert sorted(parsed(cli(*rotate, "--yes", "--json", store=place.store_path))["rotated"]) == worn  # type: ignore


@pytest.mark.parametrize("command", [["calibrate", "ledger-clerk"], ["race", "c-000000000000"]])
def test_a_real_target_is_not_asked_without_a_yes(cli: Cli, make_place, command: list[str]) -> None:
    place = make_place()
    done = cli(*command, "--target", "openai:none", store=place.store_path)
    assert done.returncode == 1
