from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from console import SCRIPT, run_at_a_terminal, run_forked, run_script

from tests.processes import IMPORTED, Parent, spawning


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["tasks", "--help"], 0),
        (["skills", "--json"], 0),
        (["tasks", "add", "ledger-clerk", "-"], 1),
        (["show", "nobody", "--json"], 1),
        (["show", "--json"], 2),
    ],
)
def test_a_forked_command_says_what_the_console_script_says(
    make_place, tmp_path: Path, arguments: list[str], code: int
) -> None:
    whole = ["--store", str(make_place(n_tasks=2).store_path), *arguments]
    forked, run = run_forked(whole, tmp_path), run_script(whole, tmp_path)
    assert (forked.args, forked.returncode, forked.stdout, forked.stderr) == (run.args, code, run.stdout, run.stderr)


def test_a_forked_command_sees_the_folder_and_the_environment_of_its_test(
    make_place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make_place(n_tasks=2)
    monkeypatch.setenv("SKILLOPT_STORE", str(place.store_path))
    shown = run_forked(["history", "ledger-clerk"], place.skill_path.parent)
    assert (shown.returncode, shown.stdout) == (0, run_script(["history", "ledger-clerk"], tmp_path).stdout)
    monkeypatch.setenv("CLAUDECODE", "1")
    refused = run_forked(["skills", "permit", "ledger-clerk"], tmp_path)
    assert (refused.returncode, "CLAUDECODE is set" in refused.stderr) == (1, True)


def _tell(parent: Parent) -> None:
    parent.say([name for name in ("openai", "anthropic", "mcp") if name in sys.modules], threading.active_count())


def _tell_lacking(parent: Parent) -> None:
    parent.say([name for name in IMPORTED if name not in sys.modules])


def test_what_is_forked_has_imported_every_command_whatever_else_a_benchmark_asked_for() -> None:
    with spawning() as spawn:
        assert spawn(_tell_lacking).hear() == []


def test_what_is_forked_has_loaded_no_vendor_and_started_no_thread() -> None:
    with spawning() as spawn:
        child = spawn(_tell)
        assert child.hear() == ([], 1)
        assert child.rest() == []


def _at_a_terminal(command: list[str], environ: dict[str, str]) -> tuple[int, str]:
    """Return exit code and screen of the console script itself, which is told no."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ) as process:
        os.close(theirs)
        screen = b""
        with suppress(OSError):
            while read := os.read(ours, 65536):
                screen += read
                if b"[y/N]" in read:
                    os.write(ours, b"n\n")
    os.close(ours)
    return process.returncode, screen.decode()


def test_at_a_terminal_too_a_forked_command_shows_what_the_console_script_shows(make_place) -> None:
    place, environ = make_place(n_tasks=0), {**os.environ, "TERM": "xterm"}
    command = ["--store", str(place.store_path), "skills", "permit", str(place.skill_path)]
    forked = run_at_a_terminal(command, Path.cwd(), environ, "n")
    assert forked == _at_a_terminal([SCRIPT, *command], environ)
    assert (forked[0], "[y/N]" in forked[1]) == (1, True)
