from __future__ import annotations

import os
from pathlib import Path

from console import TARGET, Place, parsed, run_at_a_terminal

from skillopt_mcp.cli.commands.runs import SHOWN
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.runs import Run


def screen_of(place: Place, *arguments: str, columns: int = 80) -> list[str]:
    """Return the lines that a command prints on a terminal of so many columns."""
    environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = ["--store", str(place.store_path), *arguments]
    code, told = run_at_a_terminal(command, Path.cwd(), {**environ, "NO_COLOR": "1"}, "", columns)
    assert code == 0, told
    return [line for line in told.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines() if line]


def add_runs(place: Place, n: int) -> None:
    """Store so many runs that stopped."""
    with Workspace(place.store_path) as workspace:
        skill = workspace.skill(str(place.skill_path))
        for each in range(n):
            given = (f"r-{each:012d}", skill.id, skill.live_version, '{"epochs": 4}', "{}", (1, 2), ())
            workspace.store.runs.add_run(Run(*given, target=TARGET, optimizer=TARGET, status="stopped"))


def track(place: Place, root: Path, numbers: range) -> list[str]:
    names = [f"skill-{each:02d}" for each in numbers]
    with Workspace(place.store_path) as workspace:
        for name in names:
            (root / name).mkdir(parents=True)
            (root / name / "SKILL.md").write_text(f"# {name}\n")
            workspace.skill(str(root / name))
    return names


def test_of_many_runs_the_newest_are_told_and_how_many_there_are_besides(cli, make_place) -> None:
    place = make_place()
    add_runs(place, SHOWN + 2)
    names = [row["id"] for row in parsed(cli("runs", "--json", store=place.store_path))["runs"]]
    assert len(names) == SHOWN + 2
    done = cli("runs", "ledger-clerk", store=place.store_path)
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == names[:SHOWN]
    assert f"2 older: {place.program} runs ledger-clerk --all\n" in done.stderr
    everything = cli("runs", "--all", store=place.store_path)
    assert [line.split()[0] for line in everything.stdout.splitlines()[1:]] == names
    assert "older: " not in everything.stderr


def test_a_run_is_one_line_of_a_terminal_of_80_columns(make_place) -> None:
    place = make_place()
    add_runs(place, 3)
    head, *lines = screen_of(place, "runs")
    assert head.split() == ["run", "began", "status", "best", "verdict", "skill"]
    assert {line.split()[0] for line in lines[:3]} == {"r-000000000000", "r-000000000001", "r-000000000002"}
    assert all(len(line) <= 80 for line in lines[:3])
    assert lines[3] == f"The rest of a run: {place.program} show RUN"


def test_many_skills_are_a_line_each_and_few_are_told_in_full(cli, make_place, tmp_path) -> None:
    place = make_place()
    names = track(place, tmp_path / "away", range(9))
    few = cli("skills", store=place.store_path).stdout
    assert few.count("\n    tasks: ") == 10
    names += track(place, tmp_path / "away", range(9, 12))
    many = cli("skills", store=place.store_path)
    head, *lines = many.stdout.splitlines()
    assert head.split() == ["skill", "tasks", "attempts", "new", "open", "next"]
    assert [line.split()[0] for line in lines] == ["ledger-clerk", *(sorted(names))]
    assert lines[0].split(maxsplit=5)[1:] == [
        "60", "0", "0", "0", "propose_edits with rollouts 8 by your agent (no key needed), or replay "
        "ledger-clerk --target BACKEND:MODEL --optimizer BACKEND:MODEL",
    ]  # fmt: skip
    assert many.stderr == (
        f"12 skills in no skill root, which cannot be promoted; all of each, and where it is: {place.program} skills "
        "--long\n"
    )
    assert cli("skills", "--long", store=place.store_path).stdout.count("\n    tasks: ") == 13
    assert len(parsed(cli("skills", "--json", store=place.store_path))["skills"]) == 13
    assert all(len(line) <= 80 for line in screen_of(place, "skills")[:14])
