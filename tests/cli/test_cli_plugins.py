"""Plugins: a backend that another package registers is named on the command line as any other."""

import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from site import addsitedir

import pytest
from console import TIMEOUT_S, Place, parsed, run_forked

CODE = """
import json
from skillopt_mcp import BackendFault, Reply, Rollout, Usage

class Mine:
    name, deferred, n_slots = "mine", False, 3
    def __init__(self, options=""):
        self.lesson = options or "nothing"
        self.fingerprint = f"mine {options}"
    async def complete(self, call):
        if not isinstance(call.request, Rollout):
            edits = [{"op": "append", "content": f"- {self.lesson}"}]
            return Reply(json.dumps({"reasoning": "", "edits": edits, "ranking": [1]}), usage=Usage(1, 1, 0.0))
        text = str(call.request.task.judge.expected) if self.lesson in call.request.files.text else "no"
        return Reply(text, usage=Usage(1, 1, 0.0))

class Later(Mine):
    deferred = True

class Failing(Mine):
    async def complete(self, call):
        raise ZeroDivisionError("the address is wrong")

def nothing():
    return 5
"""
POINTS = ("mine = brought:Mine", "later = brought:Later", "failing = brought:Failing", "nothing = brought:nothing")
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder where a package with backends of its own is installed."""
    info = tmp_path / "site" / "brought-1.dist-info"
    info.mkdir(parents=True)
    (info.parent / "brought.py").write_text(CODE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1\n")
    (info / "entry_points.txt").write_text("\n".join(("[skillopt_mcp.backends]", *POINTS, "")))
    return info.parent


@pytest.fixture
def quick(site: Path, tmp_path: Path) -> Run:
    """Return what runs the forked script where that package is installed."""

    def script(place: Place, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = ["--store", str(place.store_path), *map(str, arguments)]
        return run_forked(command, tmp_path, partial(addsitedir, str(site)))

    return script


@pytest.fixture
def run(site: Path, tmp_path: Path) -> Run:
    """Return what runs the console script itself there."""

    def script(place: Place, *arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*place.command, *map(str, arguments)], env={**os.environ, "PYTHONPATH": str(site)}, cwd=tmp_path,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip

    return script


def test_a_run_with_a_registered_backend_goes_on_by_the_commands_that_it_names(
    run: Run, make_place: Callable[..., Place]
) -> None:
    place, spec = make_place(), "plugin:mine:Answer with care."
    backends = ("--target", spec, "--optimizer", spec)
    trained = ("replay", "ledger-clerk", *backends, "--epochs", 1, "--batch", 5, "--max-pairs", 2, "--yes", "--json")
    found = parsed(run(place, *trained))
    assert (found["verdict"], found["backend"]) == ("undecided", spec)
    assert f"evaluate {found['candidate_id']}" in str(found["next_step"])
    evaluated = parsed(run(place, "evaluate", found["candidate_id"], "--target", spec, "--yes", "--json"))
    assert evaluated["verdict"] == "accept"
    assert evaluated["backend"] == "mine Answer with care.@plugin:mine:Answer with care."


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("plugin:mime", 'unknown backend "mime": did you mean "mine"? Registered: failing, later, mine, nothing'),
        ("plugin:later", 'the backend "plugin:later" is deferred, and nobody would ask it later'),
        ("plugin:nothing", 'what the entry point of "plugin:nothing" made is of type int, which has no method \'compl'),
        ("plugin:failing", "'plugin:failing' failed: ZeroDivisionError: the address is wrong (brought.py, line 22)"),
        ("plugin:nothing:5", '"nothing" takes no options: an entry point is called with one text, here "5"'),
    ],
)
def test_what_is_wrong_with_a_registered_backend_is_told_before_it_is_used(
    quick: Run, make_place: Callable[..., Place], spec: str, told: str
) -> None:
    done = quick(make_place(n_tasks=0), "doctor", "--backend", spec)
    assert told in " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 1


def test_without_a_limit_to_an_answer_it_says_what_cap_holds(quick: Run, make_place: Callable[..., Place]) -> None:
    spec = "plugin:mine"
    done = quick(make_place(), "replay", "ledger-clerk", "--target", spec, "--optimizer", spec, "--max-tokens", 100)
    assert done.returncode == 1
    assert "give it a method 'worst_case(call) -> Usage', or cap the calls (--max-calls)" in done.stderr
