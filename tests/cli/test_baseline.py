"""`evaluate SKILL --baseline`: what the live text solves now, what train tasks miss, and what later work reuses."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from console import Cli, Place, parsed, run_script

from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.actions.repeats import edits_of
from skillopt_mcp.reports.listing import list_skills
from skillopt_mcp.workspace.workspace import Workspace

N_EACH = 9


def count_calls(place: Place) -> int:
    with closing(sqlite3.connect(place.store_path)) as connection:
        (n,) = connection.execute("select count(*) from call where stage = 'rollout'").fetchone()
    return int(n)


@pytest.fixture
def place(make_place, tmp_path: Path) -> Place:
    """A place with solved tasks, failing ones, and two held-out tasks whose tag no train task has."""
    place: Place = make_place(n_tasks=0)
    rows = [
        {"prompt": f"Sort {n} into its {tag}, please.", "id": f"{tag}-{n}", "tags": [tag],
         "judge": {"kind": "exact", "expected": f"{tag} {n}"}}
        for tag in ("queue", "tone")
        for n in range(N_EACH)
    ]  # fmt: skip
    rows += [
        {"prompt": f"Name the priority of {n}.", "id": f"priority-{n}", "tags": ["priority"], "split": "test",
         "judge": {"kind": "exact", "expected": f"high {n}"}}
        for n in range(2)
    ]  # fmt: skip
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    rules = [{"match": f"Sort {n} into its queue", "reply": f"queue {n}"} for n in range(N_EACH)]
    edits = json.dumps({"edits": [{"op": "append", "content": "Name the tone."}]})
    script = {"rollout": [*rules, "no idea"], "reflect": [edits] * 2, "merge": [edits]}
    (tmp_path / "target.json").write_text(json.dumps(script))
    return place


@pytest.fixture
def measure(place: Place, cli: Cli, tmp_path: Path):
    """Return what measures the baseline of its skill."""
    added = cli("tasks", "add", place.skill_path, tmp_path / "tasks.jsonl", store=place.store_path)
    assert added.returncode == 0, added.stderr

    def measure(*arguments: object) -> Any:
        target = f"scripted:{tmp_path / 'target.json'}"
        return cli("evaluate", place.skill_path, *arguments, "--target", target, store=place.store_path)

    return measure


def test_listed_skills_name_the_tags_that_have_tasks_on_one_side_alone(place: Place, cli: Cli, tmp_path: Path) -> None:
    assert parsed(cli("skills", "--json", store=place.store_path))["skills"][0]["gaps"] == {}
    judge = {"kind": "exact", "expected": "a"}
    more = [{"prompt": f"Say {n}.", "tags": ["aloud"], "split": "train", "judge": judge} for n in "ab"]
    with open(tmp_path / "tasks.jsonl", "a") as file:
        file.write("\n" + "\n".join(map(json.dumps, more)))
    assert cli("tasks", "add", place.skill_path, tmp_path / "tasks.jsonl", store=place.store_path).returncode == 0
    gaps = {"no_train_of_tag": ["priority"], "no_held_out_of_tag": ["aloud"]}
    [row] = parsed(cli("skills", "--json", store=place.store_path))["skills"]
    assert row["gaps"] == gaps
    shown = cli("skills", store=place.store_path)
    said = shown.stdout + shown.stderr
    assert said.count("no train task of `priority`: add one") == said.count("no held-out task of `aloud`: add one") == 1
    with Workspace(place.store_path) as workspace:
        [listed] = [each for each in list_skills(workspace.store, workspace.place).skills if each.tracked]
        assert listed.gaps == gaps
        assert "Name the priority" not in repr(listed)


@pytest.mark.parametrize("options", [[], ["--split-mode", "ratio", "--ratio", "1:1:1"]])
def test_every_tag_is_in_train_and_held_out_where_it_can_be_and_it_is_said_where_not(
    place: Place, cli: Cli, tmp_path: Path, options: list[str]
) -> None:
    added = cli("tasks", "add", place.skill_path, tmp_path / "tasks.jsonl", *options, "--json", store=place.store_path)
    notes = {each["code"]: each["ids"] for each in parsed(added)["notes"]}
    assert notes["no_train_of_tag"] == ["priority"]
    assert "no_held_out_of_tag" not in notes
    with closing(sqlite3.connect(place.store_path)) as connection:
        counts = Counter(connection.execute("select json_extract(tags, '$[0]'), split from task"))
    assert {counts[tag, "train"] for tag in ("queue", "tone")} == {N_EACH // 3}


def test_it_says_what_is_solved_and_which_failing_tasks_no_train_task_is_like(measure, place: Place) -> None:
    found = parsed(measure("--baseline", "--json"))
    outcomes = Counter((each["tag"], each["held_out"], each["passed"] == each["of"] == 1) for each in found["tasks"])
    assert outcomes == {
        ("queue", False, True): 3, ("queue", True, True): 6, ("tone", False, False): 3, ("tone", True, False): 6,
        ("priority", True, False): 2,
    }  # fmt: skip
    assert found["uncovered"] == {"priority": 2}
    assert found["attempts"] == 1
    screen = measure("--baseline").stdout
    assert screen.splitlines()[0].endswith(": 9 of 20 solved; priority 0/2, queue 9/9, tone 0/9 (SIMULATION).")
    assert (
        "These 2 failing held-out tasks have no train task like them: no train task of `priority`: add one." in screen
    )
    assert count_calls(place) == len(found["tasks"]), "the second one asked nothing"


def test_its_page_says_it_by_tag_and_a_later_one_joins_the_series(
    measure, place: Place, cli: Cli, tmp_path: Path
) -> None:
    page = Path(measure("--baseline").stdout.partition("Report: ")[2].strip())
    text = page.read_text()
    assert "9 of 20 solved; priority 0/2, queue 9/9, tone 0/9." in text
    row = '<td>held out<td class="n">{}<td class="n">0<td class="n">{}'
    assert row.format(6, 0) in text
    assert row.format(0, 6) in text
    assert "no train task of `priority`: add one" in text
    [first] = parsed(cli("show", place.skill_path, "--json", store=place.store_path))["series"]
    assert (first["kind"], first["n"], first["solved"]) == ("baseline", 14, pytest.approx(6 / 14))
    # Wilson's interval of 6 of 14, as in the tables.
    assert (first["low"], first["high"]) == (pytest.approx(0.2138, abs=1e-3), pytest.approx(0.6741, abs=1e-3))
    place.main.write_text(place.main.read_text() + "\nName the tone.\n")
    (tmp_path / "target.json").write_text(json.dumps({"rollout": [f"tone {n % N_EACH}" for n in range(99)]}))
    assert measure("--baseline").returncode == 0
    both = parsed(cli("show", place.skill_path, "--json", store=place.store_path))["series"]
    assert [both[0], len({each["version"] for each in both})] == [first, 2]
    lines = cli("show", place.skill_path, store=place.store_path).stdout
    assert f"baseline   {first['version']}  43 of 100 (21 to 67), 14 tasks" in lines
    assert "no train task of `priority`: add one" in lines
    assert "series" in parsed(cli("show", place.skill_path, "--json", store=place.store_path))


def test_three_attempts_add_to_one_and_feed_the_forecast_and_the_pilot_of_a_test(
    measure, place: Place, cli: Cli, tmp_path: Path
) -> None:
    measure("--baseline")
    estimate = parsed(measure("--baseline", 3, "--dry-run", "--json"))
    assert estimate["calls"]["target"] == 2 * (2 * N_EACH + 2)
    assert parsed(measure("--baseline", 3, "--json"))["tasks"][0]["of"] == 3
    assert count_calls(place) == 3 * (2 * N_EACH + 2)
    (tmp_path / "new.md").write_text(place.main.read_text() + "\nSort with care.\n")
    foreseen = parsed(measure("--file", tmp_path / "new.md", "--dry-run", "--json"))["foreseen"]
    assert foreseen["pilot"] == foreseen["units"] == 14
    assert foreseen["passes"] == 1, "its answers repeat"


def test_attempts_that_are_copies_are_said_to_be(measure, tmp_path: Path) -> None:
    assert "copies" not in {each["code"] for each in parsed(measure("--baseline", "--json"))["notes"]}
    done = measure("--baseline", 2)
    assert "attempts 2 to 2 at a task were copies of its first, word for word" in done.stdout + done.stderr
    (tmp_path / "target.json").write_text(json.dumps({"rollout": [f"answer {n}" for n in range(200)]}))
    assert "copies" not in {each["code"] for each in parsed(measure("--baseline", 3, "--json"))["notes"]}


def test_held_out_tasks_are_shown_to_a_person_alone(measure, place: Place, tmp_path: Path) -> None:
    measure("--baseline")
    target = f"scripted:{tmp_path / 'target.json'}"
    arguments = ["--store", str(place.store_path), "evaluate", str(place.skill_path), "--baseline", "--target", target]
    for options in ([], ["--json"]):
        done = run_script([*arguments, *options], tmp_path)
        assert done.returncode == 0, done.stderr
        assert "tone" in done.stdout
        assert "priority" not in done.stdout + done.stderr
    train = json.loads(run_script([*arguments, "--json"], tmp_path).stdout)["tasks"]
    assert [each["held_out"] for each in train] == [False] * 6


def test_a_cap_stops_it_and_the_command_that_it_names_goes_on_without_paying_twice(measure, place: Place) -> None:
    stopped = measure("--baseline", "--max-calls", 5, "--json")
    assert stopped.returncode == 1
    assert count_calls(place) <= 5
    step = json.loads(stopped.stdout)["next_step"]
    assert step["action"] == "evaluate_candidate"
    assert step["arguments"]["baseline"] == 1
    found = parsed(measure("--baseline", step["arguments"]["baseline"], "--json"))
    assert all(each["of"] == 1 for each in found["tasks"])
    assert count_calls(place) == len(found["tasks"])


def test_its_attempts_at_train_tasks_are_what_the_next_proposal_learns_from(
    measure, place: Place, tmp_path: Path
) -> None:
    measure("--baseline")
    n_calls, target = count_calls(place), f"scripted:{tmp_path / 'target.json'}"
    with Workspace(place.store_path, target=target, optimizer=target) as workspace:
        made = propose_from_evidence(workspace.store, workspace.models, workspace.place, str(place.skill_path))
        assert made.candidate_id
        (edit,) = edits_of(workspace.store, workspace.store.candidates.get_candidate(made.candidate_id))
    assert edit.content == "Name the tone."
    assert made.rollouts == 6
    assert count_calls(place) == n_calls, "every attempt was there"


@pytest.mark.parametrize("n", [0, 9])
def test_a_number_of_attempts_that_cannot_be_is_refused(measure, n: int) -> None:
    refused = measure("--baseline", n)
    assert refused.returncode == 1
    assert "1 to 8" in refused.stderr


def test_an_agent_is_not_shown_the_series(measure, place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    measure("--baseline")
    monkeypatch.setenv("CLAUDECODE", "1")
    assert parsed(cli("show", place.skill_path, "--json", store=place.store_path))["series"] == []
    assert "of 100" not in cli("show", place.skill_path, store=place.store_path).stdout
