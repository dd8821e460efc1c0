from __future__ import annotations

from pathlib import Path

from console import parsed

from skillopt_mcp.backends.world import make_skill


def test_the_demo_promotes_and_keeps_everything_in_its_folder(cli, tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "demo"
    outcome = parsed(cli("demo", "--dir", folder, "--json"))
    skill = folder / "skills" / "ledger-clerk" / "SKILL.md"
    assert (outcome["verdict"], outcome["promoted"]) == ("accept", True)
    assert outcome["skill_path"] == str(skill)
    assert outcome["store_path"] == str(folder / "skillopt.db")
    assert outcome["test_after"] > outcome["test_before"]
    assert 0 < outcome["wall_s"] < 10
    assert skill.read_bytes() != make_skill(0).main
    assert list(home.iterdir()) == []
    past = parsed(cli("show", "ledger-clerk", "--json", store=folder / "skillopt.db"))["history"]
    assert [row["by"].partition(" (")[0] for row in past["rows"]] == ["none, rule"]


def test_where_no_edit_helps_the_file_stays(cli, tmp_path: Path) -> None:
    done = cli("demo", "--dir", tmp_path / "demo", "--world", "placebo", "--seed", 2)
    assert done.returncode == 0
    assert "Not promoted" in done.stdout
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
