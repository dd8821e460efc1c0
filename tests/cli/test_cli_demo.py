from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from console import parsed

from skillopt_mcp.backends.world import make_skill


def test_the_demo_promotes_and_keeps_everything_in_its_folder(cli, tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "demo"
    outcome = parsed(cli("demo", "--dir", folder, "--json"))
    skill = folder / "skills" / "ledger-clerk" / "SKILL.md"
    assert (outcome["verdict"], outcome["promoted"]) == ("better", True)
    assert outcome["skill_path"] == str(skill)
    assert outcome["store_path"] == str(folder / "skillopt.db")
    test = outcome["test"]
    assert test["solved"]["after"] > test["solved"]["before"]
    assert (test["test_in_release"], len(outcome["steps"])) == (1, 6)
    assert 0 < outcome["wall_s"] < 10
    assert skill.read_bytes() != make_skill(0).main
    assert list(home.iterdir()) == []
    report = Path(outcome["report_path"])
    assert report.parent == folder / "reports" / "skillopt.db"
    assert outcome["candidate_id"] in report.read_text() or test["test_id"] in report.read_text()
    same, harmful = outcome["same"], outcome["harmful"]
    assert (same["n"], same["by_means"] > 80 > 5 > same["by_test"]) == (100, True), "luck is not taken for a gain"
    assert (harmful["verdict"], harmful["worse"] != []) == ("worse_here", True)
    past = parsed(cli("show", "ledger-clerk", "--json", store=folder / "skillopt.db"))["history"]
    assert [row["by"].partition(" (")[0] for row in past["rows"]] == ["none, rule"]


def test_the_demo_fits_a_screen(cli) -> None:
    with TemporaryDirectory(prefix="skillopt-demo-") as folder:  # as short as where the demo lives by default
        done = cli("demo", "--seed", 1, "--dir", folder)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert sum(max(1, -(-len(line) // 80)) for line in lines) <= 25
    assert lines[-1].startswith("Next: skillopt-mcp ")
    assert sum(line.startswith("Next: ") for line in lines) == 1
    assert re.fullmatch("Report: .*[.]html", lines[-2])
    for verdict in ("WORSE ON THESE CASES", "BETTER"):
        assert any(line.startswith(f"{verdict} (SIMULATION)") for line in lines)


def test_where_no_edit_helps_the_file_stays(cli, tmp_path: Path) -> None:
    done = cli("demo", "--dir", tmp_path / "demo", "--world", "placebo", "--seed", 2)
    assert done.returncode == 0
    assert "Not promoted" in done.stdout
    assert "\nBETTER" not in done.stdout
    assert (tmp_path / "demo" / "skills" / "ledger-clerk" / "SKILL.md").read_bytes() == make_skill(2).main


def test_a_folder_in_use_is_refused_and_left_alone(cli, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").write_text("mine")
    done = cli("demo", "--dir", tmp_path / "used")
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr == f"error: '{tmp_path / 'used'}' is in use: name an empty folder, or one that does not exist yet\n"
    )
    assert [path.name for path in (tmp_path / "used").iterdir()] == ["file"]


def test_the_demo_takes_no_store(cli, tmp_path: Path) -> None:
    done = cli("demo", store=tmp_path / "x.db")
    assert done.returncode == 1
    assert "'--store'" in done.stderr
