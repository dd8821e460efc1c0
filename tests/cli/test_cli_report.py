"""`report`: which facts are on a page, in Markdown and in tables, and who may see them."""

from __future__ import annotations

import csv
import json
import re
import stat
from html import unescape
from pathlib import Path

import pytest
from changes import make_candidate
from console import BACKENDS, TARGET, Cli, Place, parsed

from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.store.files import lock_run
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.workspace import Workspace

SKILL = "ledger-clerk"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a demo's folder: a skill with a run, two tests and a promotion."""
    from skillopt_mcp.actions.demo import prepare_demo, run_demo

    folder = tmp_path_factory.mktemp("report") / "demo"
    run_demo(prepare_demo(folder, "honest", 0))
    return folder


@pytest.fixture
def store(trained: Path) -> Path:
    return trained / "skillopt.db"


def text_of(path: Path) -> str:
    """Return the text of a page."""
    return unescape(
        re.sub(r"<[^>]*>", " ", re.sub(r"<style>.*?</style>", "", path.read_text("utf-8"), flags=re.DOTALL))
    )


def test_a_page_shows_the_tasks_of_a_test_worse_first(cli: Cli, store: Path, tmp_path: Path) -> None:
    with Workspace(store) as workspace:
        test = workspace.store.tests.list_of_skill(1)[-1]
        tasks = {each.name: each for each in workspace.store.tasks.list_tasks(1)}
    seen = parsed(cli("show", test.id, "--json", store=store))["test"]
    assert cli("report", test.id, "--html", tmp_path / "page.html", store=store).returncode == 0
    text = text_of(tmp_path / "page.html")
    order = ["worse", "better", "same"]
    places = [(order.index(each["outcome"]), text.index(f" {each['task']} ")) for each in seen["units"]]
    assert [kind for kind, _ in sorted(places, key=lambda each: each[1])] == sorted(kind for kind, _ in places)
    for each in seen["units"]:
        assert tasks[each["task"]].prompt in text
    units = seen["report"]["units"]
    for word in ("better", "same", "worse"):
        assert re.search(rf"{word}\s+{units[word]}\b", text)


def test_each_new_line_names_the_step_that_wrote_it(cli: Cli, store: Path, tmp_path: Path) -> None:
    shown = parsed(cli("show", SKILL, "--json", store=store))
    run = parsed(cli("show", shown["runs"][0]["id"], "--json", store=store))
    kept = [step for step in run["steps"] if step["verdict"].startswith("accept")]
    assert cli("report", run["id"], "--html", tmp_path / "page.html", store=store).returncode == 0
    page = (tmp_path / "page.html").read_text()
    assert {int(n) for n in re.findall(r'class="from">step (\d+), from \d+ trajector', page)} == {
        step["step"] for step in kept
    }
    text = text_of(tmp_path / "page.html")
    for step in run["steps"]:
        outcome, score = "kept" if step in kept else "rejected", step["candidate"]
        assert score is None or re.search(rf"\s{step['step']}\s+{outcome}\s+{score:.3f}", text)


def test_without_a_place_the_page_is_private_and_next_to_the_store(cli: Cli, store: Path) -> None:
    done = cli("report", SKILL, store=store)
    path = Path(done.stdout.strip())
    assert (done.returncode, done.stderr, path.parent) == (0, "", store.parent / "reports" / store.name)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert parsed(cli("report", SKILL, "--json", store=store))["paths"] == [str(path)]


def test_two_stores_of_one_folder_have_two_pages(cli: Cli, tmp_path: Path) -> None:
    pages = []
    for store, skill in (("a.db", "x"), ("b.db", "x"), ("b.db", "y")):
        folder = tmp_path / skill / "same"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text(f"---\nname: same\ndescription: {skill}\n---\n{store}\n")
        assert cli("skills", "track", folder, store=tmp_path / store).returncode == 0
        pages.append(Path(cli("report", folder, store=tmp_path / store).stdout.strip()))
    assert len({*pages}) == 3
    assert [path.parent for path in pages] == [tmp_path / "reports" / name for name in ("a.db", "b.db", "b.db")]


def test_markdown_and_tables_have_no_text_of_a_held_out_task(cli: Cli, store: Path, tmp_path: Path) -> None:
    done = cli("report", SKILL, "--md", tmp_path / "r.md", "--csv", tmp_path / "tables", store=store)
    assert done.returncode == 0
    with Workspace(store) as workspace:
        held = [each for each in workspace.store.tasks.list_tasks(1) if each.split == "test"]
    texts = [path.read_text() for path in (tmp_path / "r.md", *(tmp_path / "tables").iterdir())]
    assert not [task.name for task in held if any(task.prompt in text for text in texts)]
    rows = list(csv.DictReader((tmp_path / "tables" / "tasks.csv").read_text().splitlines()))
    changed = [row for row in rows if row["outcome"] != "same"]
    assert changed
    assert all(f"<code>{row['task'].replace('_', '&#95;')}</code>" in texts[0] for row in changed)
    steps = list(csv.DictReader((tmp_path / "tables" / "steps.csv").read_text().splitlines()))
    scored = [step for step in steps if step["candidate"]]
    assert scored
    assert all(float(step["low"]) < float(step["candidate"]) < float(step["high"]) for step in scored)
    assert not (store.parent / "reports" / store.name / "none.html").exists()


@pytest.mark.parametrize("id", ["nope", "t-000000000000", "c-000000000000", "r-000000000000"])
def test_an_unknown_id_is_one_line(cli: Cli, store: Path, tmp_path: Path, id: str) -> None:
    done = cli("report", id, "--html", tmp_path / "page.html", store=store)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert id in done.stderr
    assert not (tmp_path / "page.html").exists()


def test_an_agent_gets_no_page(cli: Cli, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    for options in (["--html", tmp_path / "a"], ["--md", tmp_path / "b"], ["--csv", tmp_path / "c"]):
        done = cli("report", SKILL, *options, store=store)
        assert (done.returncode, done.stdout) == (1, "")
        assert "is for a person" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["here"]


def test_a_candidate_without_a_test_has_its_diff_and_the_command_that_tests_it(
    cli: Cli, make_place, tmp_path: Path
) -> None:
    place: Place = make_place()
    candidate = make_candidate(place)
    done = cli("report", candidate, "--html", tmp_path / "page.html", store=place.store_path)
    assert done.returncode == 0
    text = text_of(tmp_path / "page.html")
    assert "NOT TESTED" in text
    assert f"skillopt-mcp evaluate {candidate}" in text
    assert "+- Round once" in text


def test_a_test_that_stopped_at_a_cap_is_not_finished_and_one_that_goes_on_is_running(
    cli: Cli, make_place, tmp_path: Path
) -> None:
    place: Place = make_place()
    candidate = make_candidate(place)
    stopped = cli("evaluate", candidate, *BACKENDS[:2], "--max-calls", 30, "--json", store=place.store_path)
    assert stopped.returncode == 1
    assert json.loads(stopped.stdout)
    with Workspace(place.store_path) as workspace:
        test = workspace.store.tests.list_of_skill(1)[-1].id
        locks = workspace.store.locks_path

    def written() -> list[str]:
        paths = tmp_path / "page.html", tmp_path / "r.md"
        assert cli("report", candidate, "--html", paths[0], "--md", paths[1], store=place.store_path).returncode == 0
        return [text_of(paths[0]), paths[1].read_text()]

    for text in written():
        assert "NOT FINISHED" in text
        assert "running" not in text.casefold()
    lock = lock_run(locks, test)
    assert lock
    for text in written():
        assert "RUNNING" in text
        assert "NOT FINISHED" not in text
    lock.release()


def test_a_run_that_goes_on_is_not_to_be_resumed_and_one_that_stopped_is_once(
    cli: Cli, make_place, tmp_path: Path
) -> None:
    place: Place = make_place()
    with Workspace(place.store_path, target=TARGET, optimizer=TARGET) as workspace:
        run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", Config(epochs=1))
        locks = workspace.store.locks_path

    def written() -> tuple[str, str]:
        path = tmp_path / "page.html"
        assert cli("report", run.id, "--html", path, store=place.store_path).returncode == 0
        verdict, _, spend = text_of(path).rpartition("Spend and history")
        return verdict, spend

    lock = lock_run(locks, run.id)
    assert lock
    verdict, spend = written()
    assert "step 0 of" in verdict
    assert "--resume" not in verdict + spend
    lock.release()
    verdict, spend = written()
    assert (verdict.count("--resume"), spend.count("--resume")) == (1, 1)
    assert f"{run.id} has stopped" in spend


def test_a_browser_is_opened_on_request_and_none_is_no_failure(
    cli: Cli, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path / "opened"}\n')
    browser.chmod(0o755)
    for command, is_opened in ((str(browser), True), (str(tmp_path / "none"), False)):
        (tmp_path / "opened").unlink(missing_ok=True)
        monkeypatch.setenv("BROWSER", command)
        monkeypatch.setenv("PATH", "/nowhere" if not is_opened else "/usr/bin:/bin")
        monkeypatch.delenv("DISPLAY", raising=False)
        done = cli("report", SKILL, "--open", store=store)
        assert (done.returncode, done.stdout.endswith(".html\n")) == (0, True)
        assert (tmp_path / "opened").exists() is is_opened
