"""No test may touch the user's own folders: whatever a test does not name lies in a temporary place."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from skillopt_mcp.backends import spending
from skillopt_mcp.training import promotion_test
from skillopt_mcp.workspace import place
from skillopt_mcp.workspace.callers import find_mark
from tests import disk as disks
from tests import processes

# Started behind a shell, a process ignores Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def _kept_bytecode() -> str:
    """Return a folder among the temporary ones that is ours alone, and the same in every run."""
    folder = Path(tempfile.gettempdir(), f"skillopt-mcp-bytecode-{os.getuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return str(folder) if is_ours else tempfile.mkdtemp(prefix="bytecode-")


_KEPT = _kept_bytecode() if sys.dont_write_bytecode else None
if _KEPT:
    # Without bytecode next to the source, each process would compile everything again, tests included.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = _KEPT

if disks.MEMORY:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", disks.MEMORY)

# A busy machine may take any time. No change fails by examples that have nothing to do with it: new ones are drawn
# where they are looked for.
_THOROUGH = bool(os.environ.get("THOROUGH"))
hypothesis.settings.register_profile(
    "untimed", deadline=None, max_examples=200 if _THOROUGH else 40, derandomize=not _THOROUGH
)
hypothesis.settings.load_profile("untimed")

_OWN = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "SKILLOPT_STORE", "APPDATA", "LOCALAPPDATA", "USERPROFILE")
_NUMBERS = count()
_TESTS = Path(__file__).parent
# Folders that start processes, and files (in any folder) that take seconds; `-m "not slow"` leaves them out.
_SLOW = ("acceptance", "cli", "hosts", "peers", "redteam", "report")
_SLOW_FILES = {
    "test_agent_places.py", "test_agents.py", "test_answering.py", "test_approval.py",
    "test_backing_up.py", "test_budgeting.py", "test_budgets.py", "test_declined.py",
    "test_ending_early.py", "test_erasing.py", "test_estimating.py", "test_hidden_characters.py",
    "test_host_replies.py", "test_hostile_optimizers.py", "test_http.py", "test_judging.py", "test_kills.py",
    "test_leasing.py", "test_looking.py", "test_misbehaving_hosts.py", "test_one_file.py", "test_promoting.py",
    "test_promotion_faults.py", "test_promotion_test.py", "test_promotion_tests.py", "test_reading.py",
    "test_replaying.py", "test_resuming.py", "test_server_tools.py", "test_stdio_ending.py", "test_stdio_server.py",
    "test_stored_trajectories.py",
}  # fmt: skip
# These drive programs that a machine may lack: their tests skip without them, or fail where REQUIRE_HOSTS is set.
_REQUIRED = ("hosts", "peers", "report")


def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are processors: some of them always wait, for a process or a disk."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 1


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give all tests of a file to one worker: what they share is made once, as one browser is."""
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    return LoadFileScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are imported: what is made then stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, and give real hosts more time."""
    for item in items:
        path = item.path.relative_to(_TESTS)
        if path.parts[0] in _SLOW or path.name in _SLOW_FILES:
            item.add_marker(pytest.mark.slow)
        if path.parts[0] in _REQUIRED:
            item.add_marker(pytest.mark.timeout(300))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where REQUIRE_HOSTS is set, fail a test of a host, a peer or a browser that is skipped."""
    report = yield
    required = os.environ.get("REQUIRE_HOSTS") and item.path.relative_to(_TESTS).parts[0] in _REQUIRED
    if required and report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"REQUIRE_HOSTS is set, and this was skipped: {reason}"
    return report


def _keep_validators() -> None:
    """Let each session of a client use the validators of those before it: to compile one takes most of a session."""
    if "mcp.client.session" not in sys.modules:
        return
    from mcp.client.session import ClientSession

    compiled_by, kept = ClientSession._output_schema_validator, dict[str, Any]()

    def compiled_once(self: ClientSession, name: str, output_schema: dict[str, Any]) -> Any:
        key = json.dumps(output_schema)
        if key not in kept:
            kept[key] = compiled_by(self, name, output_schema)
        return kept[key]

    ClientSession._output_schema_validator = compiled_once  # type: ignore[method-assign]


def pytest_collection_finish() -> None:
    """Collect garbage less often, and let no collection look again at what was made so far: it stays until the end."""
    _keep_validators()
    processes.preload()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Keep no bytecode of what is gone, as folders of tests and clones are: it would grow with every run."""
    if _KEPT is None or hasattr(config, "workerinput"):
        return
    for folder, inside, _ in os.walk(_KEPT):
        there = Path("/", os.path.relpath(folder, _KEPT))
        for name in [name for name in inside if not (there / name).is_dir()]:
            inside.remove(name)
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of all homes: none is looked for a free name in, as there are thousands."""
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(autouse=True)
def home(homes: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the empty folder that is home for this test and for every process that it starts."""
    folder = homes / str(next(_NUMBERS))
    folder.mkdir()
    for name in _OWN:
        monkeypatch.delenv(name, raising=False)
    while mark := find_mark():
        monkeypatch.delenv(mark)
    monkeypatch.setenv("HOME", str(folder))
    for name, inner in (
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_CACHE_HOME", ".cache"),
        ("XDG_STATE_HOME", ".local/state"),
    ):
        monkeypatch.setenv(name, str(folder / inner))
    monkeypatch.setenv("SKILLOPT_STORE", str(folder / "store" / "skillopt.db"))
    return folder


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no disk, as only a power cut asks for it; tests/store, and all programs that are started, do."""
    disks.spare_the_disk(monkeypatch)


@pytest.fixture(autouse=True)
def forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Play few worlds where a test shows what it could find."""
    disks.spare_the_forecast(monkeypatch)


@pytest.fixture(autouse=True)
def caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a person call what a test uses in its own process."""
    monkeypatch.setattr(place, "find_caller", lambda _: "person")


@pytest.fixture(autouse=True)
def salts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the same salts in every run: up to one test in sixty accepts an edit that changes nothing."""
    numbers = count()
    monkeypatch.setattr(promotion_test, "draw_salt", lambda: f"{next(numbers):032x}")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a call that failed be sent again almost at once."""
    quick = {fault: policy._replace(wait_s=0.0005) for fault, policy in spending.POLICIES.items()}
    monkeypatch.setattr(spending, "POLICIES", quick)


@pytest.fixture
def spawn() -> Iterator[processes.Spawn]:
    """Return a way to start children, of which none is left after the test."""
    with processes.spawning() as spawn:
        yield spawn
