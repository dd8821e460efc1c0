"""Conformance: the official suite and the Inspector find nothing wrong with the server, in either era."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skillopt_mcp.workspace.workspace import Workspace

pytestmark = pytest.mark.hosts

PROGRAM = str(Path(sys.executable).with_name("skillopt-mcp"))
SERVER = str(Path(__file__).with_name("conformance_server.py"))
TIMEOUT_S = 180
LEGACY, MODERN = "2025-11-25", "2026-07-28"
OF_EVERY_SERVER = [
    *((LEGACY, name) for name in ("server-initialize", "ping", "server-session-lifecycle")),
    *((MODERN, name) for name in ("caching", "sep-2164-resource-not-found", "http-header-validation")),
    *(
        (version, name)
        for version in (LEGACY, MODERN)
        for name in ("tools-list", "resources-list", "prompts-list", "completion-complete", "dns-rebinding-protection",
                     "server-sse-multiple-streams")
    ),
]  # fmt: skip
# Tasks are an extension that the server does not claim, and that the suite does not count.
UNCLAIMED = "tasks-"


def tool(variable: str) -> list[str]:
    """Return the command of one of the tools that .ci/hosts installs."""
    if not (os.environ.get("NODE") and os.environ.get(variable)):
        pytest.skip(f"NODE or {variable} names no program: see .ci/hosts")
    return [os.environ["NODE"], os.environ[variable]]


def run(command: list[str], place: Path) -> subprocess.CompletedProcess[str]:
    search = f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, cwd=place, env={**os.environ, "PATH": search}, capture_output=True, text=True, timeout=TIMEOUT_S,
        check=False,
    )  # fmt: skip


def prepare(place: Path) -> Path:
    """Return the store of a new place that tracks one skill, with a folder inside it."""
    folder = place / ".claude" / "skills" / "ledger"
    (folder / "references").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: ledger\ndescription: Work out amounts.\n---\n\nRead first.\n")
    (folder / "references" / "NOTES.md").write_text("Notes.\n")
    with Workspace(place / "store.db", project=place) as workspace:
        workspace.place.skill(str(folder))
    return place / "store.db"


@contextmanager
def serving(place: Path, *options: str) -> Iterator[str]:
    """Yield the address of a server that listens."""
    store = prepare(place)
    # It listens from here on, so that whoever connects waits for the server to be ready.
    with socket.create_server(("127.0.0.1", 0)) as listening, (place / "server.log").open("wb") as log:
        number = str(listening.fileno())
        command = [sys.executable, SERVER, str(store), number, *options]
        process = subprocess.Popen(command, cwd=place, stderr=log, pass_fds=[listening.fileno()])
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            process.kill()
            process.wait()


def failures(said: str) -> list[str]:
    """Return the scenarios that failed, of those that count; fails when none was run."""
    assert re.search(r"Total: [1-9][0-9]* passed", said), said[-2_000:]
    failed: list[str] = re.findall(r"^✗ (\S+):", said, re.MULTILINE)
    return [name for name in failed if not name.startswith(UNCLAIMED)]


def test_scenarios_that_need_no_fixture_pass(tmp_path: Path) -> None:
    suite = tool("CONFORMANCE_NEXT")
    with serving(tmp_path) as url:
        for version, scenario in OF_EVERY_SERVER:
            options = ["--scenario", scenario, "--spec-version", version]
            done = run([*suite, "server", "--url", url, *options], tmp_path)
            counted = re.search(r"Passed: (\d+)/(\d+), 0 failed", done.stdout)
            assert counted, f"{scenario} {version}: {done.stdout[-2_000:]}{done.stderr[-500:]}"
            assert counted[1] == counted[2] != "0", scenario


def test_all_scenarios_pass_where_the_fixtures_are_mounted(tmp_path: Path) -> None:
    suites = [
        [*tool("CONFORMANCE"), "server", "--suite", "all"],
        [*tool("CONFORMANCE_NEXT"), "server", "--requirements", LEGACY],
        [*tool("CONFORMANCE_NEXT"), "server", "--requirements", MODERN],
    ]
    with serving(tmp_path, "--fixtures") as url:
        for suite in suites:
            done = run([*suite, "--url", url, "-o", str(tmp_path / "results")], tmp_path)
            assert failures(done.stdout) == []


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_strict_inspector_reports_nothing(tmp_path: Path, era: str) -> None:
    server = [PROGRAM, "serve", "--store", str(prepare(tmp_path))]
    inspect = [*tool("INSPECTOR"), "--cli", "--protocol-era", era]
    listed = run([*inspect, "--strict", *server, "--method", "tools/list"], tmp_path)
    assert (listed.returncode, listed.stderr) == (0, "")
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        assert run([*inspect, *server, "--method", method], tmp_path).returncode == 0
