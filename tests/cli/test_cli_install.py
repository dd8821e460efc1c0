from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from console import SCRIPT, Cli, Place, parsed, run_forked, start_no_server

from skillopt_mcp.cli.main import main
from tests.processes import Script
from tests.session_lines import claude_said, claude_skill, claude_user, joined
from tests.session_lines import line as line_of


@pytest.fixture
def quick(tmp_path: Path) -> Cli:
    """Return what runs the console script in a folder, and starts none of the servers that it installs."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_forked(arguments, tmp_path, start_no_server)

    return run


def test_what_is_left_to_a_person_is_printed_and_nothing_is_asked(
    quick: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for host, line in (
        ("claude-code", "claude mcp add-json --scope user skillopt '{"),
        ("vscode", '    "skillopt": {'),
    ):
        shown = quick("install", host)
        assert (shown.returncode, "Left to you: " in shown.stdout, line in shown.stdout) == (0, True, True)
    assert not (home / ".claude.json").exists()


def test_install_keeps_the_store_and_the_backends_that_were_named(quick: Cli, home: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    command = ("--store", str(store), "install", "codex", "--yes", "--json", "--target", "simulated:honest")
    assert parsed(quick(*command, "--hooks"))["status"] == "installed"
    config = (home / ".codex/config.toml").read_text()
    assert f'args = ["serve", "--store", "{store}", "--target", "simulated:honest"]' in config
    assert f"capture --store {store} || true" in (home / ".codex/hooks.json").read_text()
    assert parsed(quick(*command))["status"] == "unchanged"
    assert not store.exists()


def test_a_backend_that_does_not_exist_is_refused_before_anything_is_written(cli: Cli, home: Path) -> None:
    done = cli("install", "codex", "--yes", "--json", "--target", "NONSENSE")
    assert done.returncode == 1
    assert parsed_error(done).startswith("unknown backend 'NONSENSE' in 'NONSENSE'; use one of: anthropic, ")
    assert not (home / ".codex").exists()
    served = cli("serve", "--judge", "NONSENSE")
    assert (served.returncode, served.stdout) == (1, "")
    assert served.stderr.startswith("error: unknown backend 'NONSENSE'")


def parsed_error(done: subprocess.CompletedProcess[str]) -> str:
    return str(json.loads(done.stdout)["error"])


def captured(place: Place, reported: str) -> subprocess.CompletedProcess[str]:
    script = Script([*place.command, "capture"], place.skill_path, os.environ, stdin=reported)
    return subprocess.CompletedProcess([], script.wait(), script.out, script.err)


def test_a_hook_of_a_session_without_a_skill_loads_next_to_nothing(tmp_path: Path) -> None:
    store, session = tmp_path / "s.db", tmp_path / "s.jsonl"
    store.touch()
    session.write_bytes(claude_user("Hello"))
    code = (
        f"import sys; from skillopt_mcp.cli.main import main; main(['--store', {str(store)!r}, 'capture']); "
        "print([name for name in ('pydantic', 'asyncio') if name in sys.modules])"
    )
    reported = json.dumps({"transcript_path": str(session), "hook_event_name": "Stop"})
    done = subprocess.run([sys.executable, "-c", code], input=reported, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(("reported", "why"), [({}, "names no transcript_path"), ({"transcript_path": "/no"}, "'/no'")])
def test_a_hook_that_finds_no_transcript_says_so_to_no_one_but_the_person(
    reported: dict[str, str], why: str, make_place: Callable[..., Place]
) -> None:
    done = captured(make_place(), json.dumps(reported))
    assert (done.returncode, done.stdout) == (0, "")
    assert why in done.stderr


def test_a_hook_never_fails_its_host(make_place: Callable[..., Place], tmp_path: Path) -> None:
    place = make_place()
    done = captured(place, "nonsense")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("skillopt-mcp capture: standard input holds no event")
    place.store_path.write_bytes(b"no database" * 1_000)
    session = tmp_path / "s.jsonl"
    session.write_bytes(claude_user("Hello"))
    done = captured(place, json.dumps({"transcript_path": str(session)}))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("skillopt-mcp capture: ")


def test_a_hook_with_json_prints_one_object_whatever_happens(
    make_place: Callable[..., Place],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = make_place()
    session, agents = tmp_path / "s1.jsonl", tmp_path / "s1/subagents"
    said = (claude_user("Hello"), claude_said("Hello."), claude_user("no, in French please"))
    early, late = {"timestamp": "2026-11-28T10:00:00.000Z"}, {"timestamp": "2026-11-28T10:05:00.000Z"}
    session.write_bytes(b"".join(line_of({**json.loads(each), **early}) for each in said[:2]))
    with session.open("ab") as file:
        file.write(line_of({**json.loads(said[2]), "timestamp": "2026-11-28T10:09:00.000Z"}))
    agents.mkdir(parents=True)
    (agents / "a.jsonl").symlink_to(tmp_path / "nowhere")
    lines = joined(claude_user("Close March"), claude_skill(str(place.skill_path)), claude_said("The sum is 42."))
    (agents / "b.jsonl").write_bytes(b"".join(line_of({**json.loads(each), **late}) for each in lines))
    with suppress(OSError):  # Some file systems take no such name.
        os.symlink(b"nowhere", os.fsencode(agents) + b"/\xff.jsonl")
    ended = json.dumps({"transcript_path": str(session), "hook_event_name": "SessionEnd"})

    def printed(reported: str) -> dict[str, Any]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(reported.encode())))
        assert main(["--store", str(place.store_path), "capture", "--json"]) == 0
        value: dict[str, Any] = json.loads(capsys.readouterr().out)
        return value

    assert str(printed("{}")["error"]).startswith("the hook names no transcript_path")
    gone = tmp_path / "gone.jsonl"
    assert str(printed(json.dumps({"transcript_path": str(gone)}))["error"]).startswith(f"the transcript '{gone}' is")
    assert str(printed("nonsense")["error"]).startswith("standard input holds no event")
    found = printed(ended)
    assert (found["recorded"], found["n_problems"]) == (1, len(os.listdir(agents)) - 1)
    place.store_path.write_bytes(b"no database" * 1_000)
    assert set(printed(ended)) == {"error"}


def test_mining_reads_the_sessions_in_the_hosts_own_folders(
    make_place: Callable[..., Place], home: Path, cli: Cli
) -> None:
    place = make_place()
    folder = home / ".claude/projects/-home-me"
    folder.mkdir(parents=True)
    lines = joined(
        claude_user("Close March"), claude_skill(str(place.skill_path)), claude_said("42"), claude_user("no, to cents")
    )
    (folder / "s1.jsonl").write_bytes(b"".join(lines))
    (folder / "notes.jsonl").write_text("# My notes\n")
    mine = ("tasks", "mine", "ledger-clerk", "--optimizer", "simulated:honest", "--dry-run", "--sessions")
    done = cli(*mine, store=place.store_path)
    assert "notes.jsonl: not a transcript of Claude Code or Codex" in done.stderr
    shown = cli("show", "trajectory:1", store=place.store_path).stdout
    assert "Close March" in shown
    assert "no, to cents" in shown
    assert cli(*mine, home / "nowhere", store=place.store_path).returncode == 1


def answered(home: Path, meanwhile: str) -> str:
    """Return what is in the file after a person at a terminal agreed, and the host wrote `meanwhile` before that."""
    config = home / ".cursor/mcp.json"
    config.parent.mkdir()
    config.write_text("{}\n")
    keyboard, screen = pty.openpty()
    program = Script([SCRIPT, "install", "cursor"], home, os.environ, [os.ttyname(screen)] * 3, prepare=start_no_server)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(keyboard, 4096)
    config.write_text(meanwhile)
    os.write(keyboard, b"y\n")
    assert program.wait() == 0
    for each in (keyboard, screen):
        os.close(each)
    return config.read_text()


def test_what_the_host_writes_while_the_person_reads_is_kept(home: Path) -> None:
    written = json.loads(answered(home, '{"numStartups": 8}\n'))
    assert written["numStartups"] == 8
    assert "skillopt" in written["mcpServers"]
