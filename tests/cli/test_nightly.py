"""`replay --nightly`: an edit from what was recorded, and its test, within caps; a person promotes and schedules."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from console import BACKENDS, SCRIPT, TARGET, Cli, Place, parsed, run_at_a_terminal

from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.store.files import lock_run
from skillopt_mcp.workspace.workspace import Workspace
from tests.processes import Script
from tests.vendors import vending


@pytest.fixture
def place(make_place: Callable[..., Place]) -> Place:
    return make_place()


def record_failures(place: Place, n: int = 4) -> None:
    """Record scored attempts at train tasks, as a session would have them."""
    with Workspace(place.store_path) as workspace:
        skill = workspace.place.skill(str(place.skill_path))
        train = [task for task in workspace.store.tasks.list_in_use(skill.id) if task.split == "train"]
        for k, task in enumerate(train[:n]):
            done = Recording(task=task.prompt, hard=False, answer="no idea", session_id="s", index=k)
            record_trajectory(workspace.store, workspace.place, str(place.skill_path), done)


def count(place: Place, table: str) -> int:
    with closing(sqlite3.connect(place.store_path)) as connection:
        [n] = connection.execute(f"select count(*) from {table}").fetchone()
    return int(n)


def run_unattended(place: Place, *arguments: object) -> subprocess.CompletedProcess[str]:
    """As cron runs it: without a terminal, in a home folder."""
    words = [SCRIPT, "--store", str(place.store_path), "replay", *map(str, arguments)]
    return subprocess.run(
        words, cwd=place.store_path.parent, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip


def test_a_night_proves_an_edit_and_leaves_the_promotion_to_a_person(place: Place, cli: Cli) -> None:
    before = place.main.read_bytes()
    measured = cli("evaluate", place.skill_path, "--baseline", "--target", TARGET, store=place.store_path)
    assert measured.returncode == 0, measured.stderr
    n_before = count(place, "call")
    record_failures(place)
    planned = parsed(run_unattended(place, "--nightly", *BACKENDS, "--dry-run", "--json"))
    assert [each["next_step"]["action"] for each in planned["skills"]] == ["propose_edits"]
    assert count(place, "call") == n_before
    found = parsed(run_unattended(place, "--nightly", *BACKENDS, "--json"))
    [row] = found["skills"]
    assert (row["done"], row["accepted"]) == (["propose_edits", "evaluate_candidate"], True)
    assert row["next_step"]["action"] == "promote_skill"
    assert (place.main.read_bytes(), count(place, "promotion")) == (before, 0)
    # In the morning: the list, the notice of a session, the list of an agent.
    morning = cli("skills", store=place.store_path).stdout
    assert f"skillopt-mcp promote {row['candidate_id']}" in morning
    assert "a proven edit waits" in morning
    event = json.dumps({"hook_event_name": "SessionStart", "transcript_path": "/nowhere"})
    script = Script([*place.command, "capture"], place.skill_path, os.environ, stdin=event)
    assert script.wait() == 0
    notice = json.loads(script.out)["systemMessage"]
    assert notice.startswith("skillopt-mcp: ledger-clerk: a proven edit waits: `skillopt-mcp promote")
    assert row["candidate_id"] in notice
    # A second night has nothing to do.
    n_calls = count(place, "call")
    [again] = parsed(run_unattended(place, "--nightly", *BACKENDS, "--json"))["skills"]
    assert (again["done"], again["next_step"]["action"], count(place, "call")) == ([], "promote_skill", n_calls)


def test_without_new_scored_attempts_nothing_is_asked(place: Place) -> None:
    record_failures(place, 2)
    [row] = parsed(run_unattended(place, place.skill_path, "--nightly", *BACKENDS, "--json"))["skills"]
    assert (row["done"], count(place, "call"), count(place, "task where waits")) == ([], 0, 0)


def test_a_night_keeps_its_cap_over_all_it_does_and_the_next_one_goes_on(place: Place) -> None:
    record_failures(place)
    done, n_before = 1, 0
    for _ in range(12):
        night = run_unattended(place, "--nightly", *BACKENDS, "--max-calls", 40, "--json")
        found = json.loads(night.stdout)
        assert count(place, "call") - n_before <= 40
        n_before, done = count(place, "call"), night.returncode
        if not done:
            break
        assert found["status"] == "stopped"
        assert "cap" in found["skills"][0]["reason"] or "--max-calls" in found["skills"][0]["reason"]
    assert done == 0
    assert found["skills"][0]["accepted"] is not None


def test_two_nights_that_overlap_do_no_harm(place: Place) -> None:
    record_failures(place)
    with Workspace(place.store_path) as workspace:
        lock = lock_run(workspace.store.locks_path, "nightly")
        assert lock
        refused = run_unattended(place, "--nightly", *BACKENDS)
        lock.release()
    assert (refused.returncode, count(place, "call")) == (1, 0)
    assert "another nightly replay is at work" in refused.stderr
    words = [SCRIPT, "--store", str(place.store_path), "replay", "--nightly", *BACKENDS, "--json"]
    both = [subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) for _ in range(2)]
    assert 0 in [process.wait(120) for process in both]
    for process in both:
        assert process.stdout
        process.stdout.close()
    assert (count(place, "candidate"), count(place, "promotion")) == (1, 0)


def test_what_a_person_prefers_is_in_the_prompt_of_reflection(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    record_failures(place)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with vending() as vendor:
        vendor.reply = lambda asked: json.dumps({"edits": [{"op": "append", "content": "Count dozens as 12."}]})
        backends = ("--target", TARGET, "--optimizer", vendor.spec())
        run_unattended(place, "--nightly", *backends, "--preferences", "Keep the headings as they are.", "--yes")
        assert "What the person wants of edits: Keep the headings as they are." in vendor.asked[0]


def test_an_agents_shell_does_not_start_a_night(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    refused = run_unattended(place, "--nightly", *BACKENDS)
    assert (refused.returncode, count(place, "call")) == (1, 0)


@pytest.mark.parametrize("options", [["--epochs", "2"], ["--resume"], ["--memory", "CLAUDE.md"]])
def test_what_does_not_go_with_a_night_is_wrong_usage(place: Place, options: list[str]) -> None:
    assert run_unattended(place, "--nightly", *BACKENDS, *options).returncode == 2
    assert run_unattended(place, place.skill_path, "--install", *BACKENDS).returncode == 2
    assert run_unattended(place, *BACKENDS).returncode == 2


# The crontab

OTHERS = b"# mine\n\n0 5 * * * /usr/bin/true --caf\xe9 'a\x0cb'\r\nMAILTO=me"


class Crontab:
    """A `crontab` on the path, whose table is a file; it fails where it is told to."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.table = folder / "table"
        (folder / "bin").mkdir()
        self.program = folder / "bin" / "crontab"
        self.program.write_text(
            "#!/bin/sh\n"
            f"if [ -e {folder}/broken ]; then echo 'you are not allowed' >&2; exit 1; fi\n"
            f'if [ "$1" = -l ]; then if [ -e {self.table} ]; then exec cat {self.table}; fi\n'
            "echo 'no crontab for me' >&2; exit 1; fi\n"
            f"exec cat > {self.table}\n"
        )
        self.program.chmod(0o755)
        self.broken = folder / "broken"
        monkeypatch.setenv("PATH", f"{self.program.parent}:{os.environ['PATH']}")


@pytest.fixture
def crontab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Crontab:
    return Crontab(tmp_path, monkeypatch)


def schedule(place: Place, *options: object, answer: str = "y") -> tuple[int, str]:
    arguments = ["--store", str(place.store_path), "replay", *map(str, options)]
    environ = {each: value for each, value in os.environ.items() if each not in ("TERM_PROGRAM", "TERMINAL_EMULATOR")}
    return run_at_a_terminal(arguments, place.store_path.parent, environ, answer)


def test_the_line_is_shown_agreed_to_and_written_once_and_taken_out_alone(
    place: Place, crontab: Crontab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-proj-" + "a1B2c3D4" * 6)
    crontab.table.write_bytes(OTHERS + b"\n")
    whole = ["--nightly", *BACKENDS, "--max-calls", 300, "--preferences", "100 % 'plain' words"]
    code, screen = schedule(place, *whole, "--install", answer="n")
    assert (code, crontab.table.read_bytes()) == (1, OTHERS + b"\n"), "a no changes nothing"
    assert "+ 17 3 * * * env PATH=" in screen
    code, screen = schedule(place, *whole, "--install")
    assert code == 0, screen
    written = crontab.table.read_bytes()
    assert written.startswith(OTHERS + b"\n")
    line = written.removeprefix(OTHERS + b"\n").decode()
    assert line.count("\n") == 1
    assert "sk-proj" not in line
    # What cron makes of it, with an environment as small as its own, up to the log.
    command = line.split(" ", 5)[5].replace(r"\%", "%")
    home = {"HOME": str(place.store_path.parent), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["/bin/sh", "-c", command], env=home, cwd="/", stdin=subprocess.DEVNULL, check=False, timeout=120
    )
    log = (place.store_path.parent / "nightly.log").read_text()
    assert (done.returncode, "ledger-clerk: nothing was done" in log) == (0, True), log
    # Again, for one skill, with another cap: a line each.
    assert "so already" in schedule(place, *whole, "--install")[1]
    assert crontab.table.read_bytes() == written
    assert schedule(place, "ledger-clerk", "--nightly", *BACKENDS, "--install")[0] in (0, 1)
    one = [place.skill_path, "--nightly", *BACKENDS]
    assert schedule(place, *one, "--install")[0] == 0
    assert schedule(place, *one, "--max-calls", 9, "--install")[0] == 0
    assert crontab.table.read_bytes().count(b"skillopt-mcp nightly") == 2
    assert b"--max-calls 9 " in crontab.table.read_bytes()
    assert schedule(place, place.skill_path, "--nightly", "--uninstall")[0] == 0
    assert crontab.table.read_bytes() == written
    assert schedule(place, "--nightly", "--uninstall")[0] == 0
    assert crontab.table.read_bytes() == OTHERS + b"\n"
    assert "so already" in schedule(place, "--nightly", "--uninstall")[1]


@pytest.mark.parametrize("others", [b"", b"# DO NOT EDIT\n# (mine)\n", OTHERS + b"\n"])
def test_the_head_that_a_cron_shows_is_not_written_into_the_crontab(
    place: Place, crontab: Crontab, others: bytes
) -> None:
    head = "# DO NOT EDIT THIS FILE - edit the master and reinstall.\n# (/tmp/crontab.7 installed on Sat Nov 28 2026)\n"
    head += "# (Cron version V5.0 -- $Id: crontab.c,v 1.12 $)\n"
    crontab.table.with_name("head").write_text(head)
    crontab.program.write_text(
        crontab.program.read_text().replace("exec cat ", f"exec cat {crontab.table.parent}/head ", 1)
    )
    crontab.table.write_bytes(others)
    assert schedule(place, "--nightly", *BACKENDS, "--install")[0] == 0
    written = crontab.table.read_bytes()
    assert (written.startswith(others), written.removeprefix(others).count(b"\n")) == (True, 1)
    assert schedule(place, "--nightly", "--uninstall")[0] == 0
    assert crontab.table.read_bytes() == others


def test_a_crontab_that_cannot_be_read_stays_as_it_is(place: Place, crontab: Crontab) -> None:
    crontab.table.write_bytes(OTHERS)
    crontab.broken.touch()
    code, screen = schedule(place, "--nightly", *BACKENDS, "--install")
    assert (code, crontab.table.read_bytes()) == (1, OTHERS)
    assert "not allowed" in screen


def test_the_first_line_of_a_person_without_a_crontab(place: Place, crontab: Crontab) -> None:
    assert schedule(place, "--nightly", *BACKENDS, "--install")[0] == 0
    [line] = crontab.table.read_text().splitlines()
    assert "--max-calls 500 --yes" in line, "a default cap"


def test_without_crontab_the_line_is_named(place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, screen = schedule(place, "--nightly", *BACKENDS, "--install")
    assert code == 1
    assert "there is no program 'crontab' here" in screen
    assert f"--target {TARGET}" in screen


def test_nobody_but_a_person_at_a_terminal_schedules(
    place: Place, crontab: Crontab, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: list[Any] = ["--nightly", *BACKENDS, "--install"]
    assert run_unattended(place, *options, "--yes").returncode == 1
    monkeypatch.setenv("TERM_PROGRAM", "vscode")
    arguments = ["--store", str(place.store_path), "replay", *map(str, options)]
    assert run_at_a_terminal(arguments, place.store_path.parent, dict(os.environ), "y")[0] == 1
    monkeypatch.setenv("CLAUDECODE", "1")
    assert schedule(place, *options)[0] == 1
    assert not crontab.table.exists()
