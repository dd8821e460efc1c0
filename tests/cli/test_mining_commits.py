"""Tasks out of a repository's commits, through the console: what is read, what is run, and what never is."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from changes import at_a_terminal
from console import Cli, Place

from benchmarks.repositories import CHANGES, DESCRIPTIONS, PROGRAM, RELEASES, commit, git, make_repositories
from skillopt_mcp.actions.commits import read_commits
from skillopt_mcp.backends.programs import CommandRunner, run_programs
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.evidence import Attempted
from skillopt_mcp.core.mining import Draft
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.tasks.judges.judging import score
from skillopt_mcp.workspace.workspace import Workspace

TEXT = "---\nname: {0}\ndescription: {1}\n---\n# It\n\nDo it well.\n"
Mine = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_repositories(tmp_path_factory.mktemp("repositories"))


def make_place(folder: Path, skill: str) -> Place:
    path = folder / "skills" / skill
    path.mkdir(parents=True)
    (path / "SKILL.md").write_text(TEXT.format(skill, DESCRIPTIONS[skill]))
    return Place(path, folder / "store.db")


def mine(cli: Cli, place: Place, repository: Path, *options: object) -> dict[str, Any]:
    done = cli("tasks", "mine", place.skill_path, "--repo", repository, "--json", *options, store=place.store_path)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rows(place: Place, sql: str) -> list[tuple[Any, ...]]:
    with closing(Pool(place.store_path)) as pool:
        return pool.rows(sql)


def drafts_of(repository: Path, skill: str, since: str = "", limit: int = 10) -> tuple[list[Draft], list[str]]:
    found = list(read_commits(repository, TEXT.format(skill, DESCRIPTIONS[skill]), since, limit))
    return [each for each in found if isinstance(each, Draft)], [each for each in found if isinstance(each, str)]


def test_releases_become_tasks_whose_judge_knows_what_a_person_wrote(
    cli: Cli, tmp_path: Path, made: dict[str, Path]
) -> None:
    place = make_place(tmp_path, RELEASES)
    found = mine(cli, place, made["releases"])
    assert (found["added"], found["drafted"], found["dropped"]) == (4, {"release": 4}, [])
    assert rows(place, "select count(*), sum(waits), count(distinct group_name) from task") == [(4, 4, 1)]
    assert [row[0] for row in rows(place, "select origin from draft order by task_id")] == [
        f"tag v1.{n}.0" for n in (5, 4, 3, 2)
    ]
    again = mine(cli, place, made["releases"])
    assert (again["added"], again["duplicates"]) == (0, 4)


def test_a_release_is_judged_by_what_was_said_and_what_was_left_out(made: dict[str, Path]) -> None:
    drafts, _ = drafts_of(made["releases"], RELEASES)
    draft = drafts[0]
    assert draft.accepted.startswith("## 1.5.0\n\n- Orders can be exported with `--export-5` (#45).")
    said = "1.5.0: orders export with --export-5 (#45); the sum of basket_5 is right (#65)."
    outcomes = [
        score(draft.task.judge, text) for text in (draft.accepted, said, f"{said} Linter 0.5.9.", draft.task.prompt, "")
    ]
    assert [each.hard for each in outcomes] == [True, True, False, False, False]
    # No task shows what another one expects.
    assert all(other.accepted not in each.task.prompt for each in drafts for other in drafts)


def test_commits_with_tests_are_run_once_a_person_agreed(tmp_path: Path, made: dict[str, Path], cli: Cli) -> None:
    place = make_place(tmp_path, CHANGES)
    without = mine(cli, place, made["changes"])
    assert (without["added"], "4 commits with tests were left out" in " ".join(without["dropped"])) == (0, True)
    command = ("tasks", "mine", str(place.skill_path), "--repo", str(made["changes"]), "--program", "tests")
    assert at_a_terminal(place, "tasks", "judges", "add", "tests", "--", *PROGRAM, answer="y")[0] == 0
    for options in ((), ("--yes",)):
        refused = cli(*command, *options, store=place.store_path)
        assert (refused.returncode, "needs a person" in refused.stderr) == (1, True)
    assert at_a_terminal(place, *command, answer="n")[0] != 0
    assert rows(place, "select count(*) from task") == [(0,)]
    code, screen = at_a_terminal(place, *command, answer="y")
    assert (code, "4 tasks drafted" in screen) == (0, True)
    found = rows(place, "select judge, files, accepted from task join draft on task_id = id order by origin")
    assert len(found) == 4
    for judge, files, accepted in found:
        assert json.loads(judge) == {"kind": "command", "name": "tests"}
        paths = [path for path, _ in json.loads(files)]
        assert (len(paths), "notes.md" in paths, "tests/__init__.py" in paths) == (4, False, True)
        assert accepted.startswith("diff --git a/shop/")
    # A diff may change the tests; the task's own ones judge.
    with Workspace(place.store_path) as workspace:
        [task, *_] = workspace.store.tasks.list_in_use(1)
        accepted = workspace.store.tasks.list_drafts(1)[task.id].accepted
        [path] = [file.path for file in task.files if file.path.startswith("tests/test_")]
        [lines] = [len(file.content.splitlines()) for file in task.files if file.path == path]
        cheat = f"--- a/{path}\n+++ b/{path}\n@@ -1,{lines} +0,0 @@\n"
        cheat += "".join(f"-{line}\n" for file in task.files if file.path == path for line in file.content.splitlines())
        programs = CommandRunner(workspace.store.commands.find_named(["tests"]))
        tried = [Attempted(task, text, (), str(n)) for n, text in enumerate((accepted, cheat, accepted + cheat))]
        assert [getattr(each, "hard", each) for each in run_programs(programs, tried)] == [True, False, True]


def test_tests_that_prove_nothing_and_files_that_are_none_are_named(made: dict[str, Path], tmp_path: Path) -> None:
    place = make_place(tmp_path, CHANGES)
    at_a_terminal(place, "tasks", "judges", "add", "tests", "--", *PROGRAM, answer="y")
    command = ("tasks", "mine", str(place.skill_path), "--repo", str(made["awkward"]), "--program", "tests")
    code, screen = at_a_terminal(place, *command, answer="y")
    assert (code, screen.count("its tests pass without its change")) == (1, 1)
    assert "its change is not of text" in screen


def test_a_program_has_to_be_registered(cli: Cli, tmp_path: Path, made: dict[str, Path]) -> None:
    place = make_place(tmp_path, CHANGES)
    command = ("tasks", "mine", str(place.skill_path), "--repo", str(made["changes"]), "--program", "tests")
    code, screen = at_a_terminal(place, *command, answer="y")
    assert (code != 0, "tasks judges add tests" in screen) == (True, True)


def test_what_cannot_be_read_is_said(cli: Cli, tmp_path: Path, made: dict[str, Path]) -> None:
    place = make_place(tmp_path, RELEASES)
    for name in ("no-repository", "empty"):
        (tmp_path / name).mkdir()
    git(tmp_path / "empty", "init", "-q")
    for name in ("no-repository", "empty", "is-not-there"):
        done = cli("tasks", "mine", place.skill_path, "--repo", tmp_path / name, store=place.store_path)
        assert (done.returncode in (1, 2), "Traceback" in done.stderr) == (True, False)
        assert "git cannot read" in done.stderr
    _, said = drafts_of(made["awkward"], RELEASES)
    assert said == ["releases were left out: 0 tags among the commits that were read; it takes two"]
    _, said = drafts_of(made["releases"], RELEASES, since="2100-01-01")
    assert said == ['no commit is from "2100-01-01" or later']
    with pytest.raises(BadInput, match="must be a date"):
        drafts_of(made["releases"], RELEASES, since="yesterday")
    git(tmp_path, "clone", "-q", "--depth", "3", f"file://{made['releases']}", "shallow")
    _, said = drafts_of(tmp_path / "shallow", RELEASES)
    assert said[0].startswith("the clone is shallow")


def test_awkward_tags_and_sections_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    log = "# Changelog\n"
    for n, added in enumerate(
        ["\n## 0\n\n- Zero.\n", "\n## 1\n\n- The first pump.\n", "", "x" * 30_000, "\0\1", "\n## 5\n\n- Last.\n"]
    ):
        log += added
        commit(tmp_path, f"Pump {n}", {"CHANGELOG.md": log, "pump.py": f"N = {n}\n"})
        git(tmp_path, "tag", f"v{n}")
    git(tmp_path, "tag", "vvv")
    git(tmp_path, "tag", "blob", "HEAD:pump.py")
    drafts, said = drafts_of(tmp_path, RELEASES)
    assert {each.partition(":")[0] for each in said} == {'tag "v2"', 'tag "v3"', 'tag "v4"', 'tag "v5"'}
    assert drafts == []


@pytest.mark.parametrize("variable", [False, True])
def test_nothing_of_a_hostile_repository_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: bool
) -> None:
    repository, marker = tmp_path / "hostile", tmp_path / "marker"
    made = make_repositories(tmp_path / "made")
    made["releases"].rename(repository)
    run = tmp_path / "run"
    run.write_text(f"#!/bin/sh\necho ran >> '{marker}'\ncat\n")
    run.chmod(0o755)
    hooks = repository / ".git" / "hooks"
    for name in ("post-checkout", "reference-transaction", "post-index-change", "fsmonitor-watchman"):
        (hooks / name).write_text(run.read_text())
        (hooks / name).chmod(0o755)
    (repository / ".git" / "info" / "attributes").write_text("* diff=bad filter=bad\n")
    for name, value in {
        "core.fsmonitor": str(run), "core.hooksPath": str(hooks), "core.pager": str(run), "diff.external": str(run),
        "diff.bad.textconv": str(run), "diff.bad.command": str(run), "filter.bad.clean": str(run),
        "filter.bad.smudge": str(run), "filter.bad.process": str(run), "core.sshCommand": str(run),
        "gpg.program": str(run), "log.showSignature": "true", "core.editor": str(run), "pager.diff-tree": "true",
        "alias.rev-list": f"!{run}", "remote.origin.url": f"ext::{run}", "protocol.ext.allow": "always",
        "remote.origin.promisor": "true", "extensions.partialClone": "origin", "core.repositoryFormatVersion": "1",
    }.items():  # fmt: skip
        git(repository, "config", name, value)
    if variable:
        for name in ("GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_SSH_COMMAND", "GIT_EDITOR"):
            monkeypatch.setenv(name, str(run))
        monkeypatch.setenv("GIT_DIR", str(made["changes"] / ".git"))
    # An object that is missing would be fetched.
    marker.unlink(missing_ok=True)
    drafts, _ = drafts_of(repository, RELEASES)
    assert (len(drafts), marker.exists()) == (4, False)
    for path in (repository / ".git" / "objects").glob("??/*"):
        path.unlink()
    with pytest.raises(BadInput, match="git cannot read"):
        drafts_of(repository, RELEASES)
    assert not marker.exists()
