from __future__ import annotations

import json
import os
import signal
import time

import pytest
from console import BACKENDS, TARGET

from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.store.files import lock_run
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.workspace import Workspace
from tests.processes import Script

SMALL = ("--epochs", "3", "--batch", "5", "--seed", "1")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_interrupts_with_json_prints_one_object(make_place, number: signal.Signals) -> None:
    place = make_place()
    slow = f"{TARGET},latency_ms=300"
    command = [*place.command, "replay", "ledger-clerk", "--target", slow, "--optimizer", slow, *SMALL, "--json"]
    process = Script(command, place.skill_path, os.environ)
    locks = place.store_path.with_name("store.db.locks")
    while not list(locks.glob("r-*.run")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait() == 130, process.err
    reported = json.loads(process.out)
    assert (reported["status"], reported["n_steps"]) == ("stopped", 0)


def test_attempts_that_are_copies_are_said_to_be_as_soon_as_they_were_made(cli, make_place, tmp_path) -> None:
    place, script = make_place(), tmp_path / "script.json"
    stages = {name: ['{"edits": []}'] * 99 for name in ("reflect", "merge", "rank")}
    for n, (repeats, rollouts) in enumerate(((3, ["7"]), (1, ["7"]), (3, [f"answer {n}" for n in range(999)]))):
        script.write_text(json.dumps({**stages, "rollout": rollouts}))
        backends = ("--target", f"scripted:{script}", "--optimizer", f"scripted:{script}", "--seed", str(n))
        done = cli("replay", "ledger-clerk", *backends, "--epochs", "1", "--repeats", repeats, store=place.store_path)
        said = "attempts 2 to 3 at a task were copies of its first, word for word"
        assert done.stderr.count(said) == (n == 0), done.stderr


def test_nothing_is_spent_on_a_real_model_before_a_person_agrees(cli, make_place, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    place = make_place()
    done = cli("replay", "ledger-clerk", "--target", "openai:none", "--optimizer", TARGET, store=place.store_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Asked: target openai:none,base_url=http://127.0.0.1:9/v1 at 127.0.0.1:9/v1; ")
    assert done.stderr.splitlines()[1].startswith("Steps: 10 (4 with edits, epochs 4, ")
    assert done.stderr.splitlines()[-1].startswith("error: there is no terminal to ask at")
    assert cli("replay", "ledger-clerk", "--resume", store=place.store_path).stderr.startswith("error: no run of")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "nosuch:x", "--optimizer", TARGET], "error: unknown backend 'nosuch' in 'nosuch:x'"),
        ([*BACKENDS, "--epochs", "0"], "error: --epochs must be a whole number"),
        ([*BACKENDS, "--min-edits", "9"], "error: --min-edits must be at most max_edits, got 9 and 4 (default)"),
    ],
)
def test_what_cannot_be_run_is_shown_in_one_line(cli, tmp_path, arguments: list[str], message: str) -> None:
    skill = tmp_path / "plain"
    skill.mkdir()
    (skill / "SKILL.md").write_text("# Plain\n")
    done = cli("replay", skill, *arguments, store=tmp_path / "store.db")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


def test_a_second_run_of_a_skill_is_reported_the_first(cli, make_place) -> None:
    place = make_place()
    with Workspace(place.store_path, target=TARGET, optimizer=TARGET) as workspace:
        run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", Config(epochs=1))
        lock = lock_run(workspace.store.locks_path, run.id)
        assert lock
        second = ("replay", "ledger-clerk", *BACKENDS, "--epochs", "1", "--batch", "20")
        reported = cli(*second, store=place.store_path)
        lock.release()
    assert reported.returncode == 0
    assert reported.stderr.splitlines()[1].startswith(f"warning: run {run.id} of this skill is running since ")
    assert "running since" not in cli(*second, store=place.store_path).stderr


def test_a_run_of_a_program_with_a_backend_of_its_own_is_not_resumed_here(cli, make_place) -> None:
    place = make_place()
    with Workspace(place.store_path, target=TARGET, optimizer=TARGET) as workspace:
        workspace._specs["target"], workspace.models._backends["target"] = "mine", Scripted(lambda _: "no", name="mine")
        run = start_run(workspace.store, workspace.models, workspace.place, str(place.skill_path), Config(epochs=1))
    reported = f"{run.id} uses a program's own backend ('mine'): call train(...) again with the same "
    done = cli("replay", "ledger-clerk", "--resume", store=place.store_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: {reported}arguments\n"
    assert f"Next: skillopt-mcp show {run.id} " in cli("show", store=place.store_path).stderr
