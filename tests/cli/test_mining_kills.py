"""Mining that is killed in the middle: repeated, it ends as one that nobody disturbed."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import pytest
from console import SCRIPT

from skillopt_mcp.store.pool import Pool
from tests.drafting import Drafter, make_skill
from tests.session_lines import claude_said, claude_skill, claude_user, joined
from tests.vendors import Vendor, vending

_WAITS_S = 30
_KEPT = (
    "select session, position, prompt, answer, rejected, correction, label, why from episode order by 1, 2",
    "select session_id, position, prompt, answer, hard, reason, messages from trajectory order by 1, 2",
    "select prompt, judge, split, tags, origin, accepted from task join draft on task_id = task.id order by 1",
    "select offset, n_turns, size from session_file order by path",
)


def _write_session(folder: Path, skill: Path, n: int) -> None:
    said = (
        claude_user(f"Write the line for the flag {n} of the harbour lantern that is gone"), claude_skill(str(skill)),
        claude_said(f"- Removed flag {n}"), claude_user("no, that is wrong: it has to begin with BREAKING"),
        claude_said(f"- BREAKING: removed flag {n}"), claude_user("perfect, thanks"),
    )  # fmt: skip
    (folder / f"{n}.jsonl").write_bytes(b"".join(joined(*said)))


class Killer:
    """A model whose drafts depend on what is asked alone; who asks is killed once `n_answered` answers are kept."""

    process: subprocess.Popen[str]

    def __init__(self, store: Path, n_answered: int | None = None) -> None:
        self.store, self.n_answered, self.asked, self._lock = store, n_answered, list[str](), threading.Lock()

    def __call__(self, asked: str) -> str:
        with self._lock:
            if len(self.asked) == self.n_answered:
                until = time.monotonic() + _WAITS_S
                with closing(Pool(self.store)) as pool:
                    while pool.number("select count(*) from reply") < self.n_answered and time.monotonic() < until:
                        time.sleep(0.01)
                self.process.kill()
                self.process.wait(_WAITS_S)
            self.asked.append(asked)
        drafter = Drafter()
        drafter._n = crc32(asked.encode()) % 9000
        return drafter(asked)


@dataclass
class Desk:
    """A skill, and sessions with it that are mined."""

    skill: Path
    sessions: Path
    vendor: Vendor

    def begin(self, killer: Killer) -> subprocess.Popen[str]:
        """Begin the real command."""
        self.vendor.reply = killer
        options = ("--optimizer", self.vendor.spec(), "--tasks", "9", "--yes", "--json", "--store", killer.store)
        command = [SCRIPT, "tasks", "mine", self.skill, "--sessions", self.sessions, *options]
        killer.process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        return killer.process

    def mine(self, store: Path) -> tuple[list[list[tuple[object, ...]]], list[str]]:
        """Run it to its end; what is kept then, and what was asked."""
        killer = Killer(store)
        process = self.begin(killer)
        out, error = process.communicate(timeout=_WAITS_S)
        assert process.returncode == 0, out + error
        with closing(Pool(store)) as pool:
            return [pool.rows(sql) for sql in _KEPT], killer.asked


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    skill, sessions = make_skill(tmp_path / "skills" / "ship-notes"), tmp_path / "sessions"
    sessions.mkdir()
    for n in range(6):
        _write_session(sessions, skill, n)
    with vending() as vendor:
        yield Desk(skill, sessions, vendor)


def test_mining_that_is_killed_ends_when_repeated_as_one_that_nobody_disturbed(desk: Desk, tmp_path: Path) -> None:
    expected, asked = desk.mine(tmp_path / "calm.db")
    assert all(expected)
    assert len(asked) == len(set(asked)) > 2

    # While sessions are read, between the third and the fourth: who opens a pipe waits until somebody writes to it.
    pipes = [desk.sessions / "2b.jsonl", desk.sessions / "2c.jsonl"]
    for pipe in pipes:
        os.mkfifo(pipe)
    store = tmp_path / "killed.db"
    process = desk.begin(Killer(store))
    writing, until = None, time.monotonic() + _WAITS_S
    while writing is None and time.monotonic() < until:
        with suppress(OSError):  # it is not opened yet
            writing = os.open(pipes[0], os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.01)
    process.kill()
    process.communicate(timeout=_WAITS_S)
    assert writing is not None
    os.close(writing)
    for pipe in pipes:
        pipe.unlink()
    with closing(Pool(store)) as pool:
        assert pool.number("select count(*) from session_file") == pool.number("select count(*) from episode") == 3

    # While questions are asked: what was answered is not asked again.
    killer = Killer(store, 1)
    process = desk.begin(killer)
    process.communicate(timeout=_WAITS_S)
    assert process.returncode == -signal.SIGKILL
    found, again = desk.mine(store)
    assert found == expected
    assert Counter(again) == Counter(asked) - Counter(killer.asked[:1])
