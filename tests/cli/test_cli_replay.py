from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
from contextlib import suppress

import pytest
from console import BACKENDS, TARGET, TIMEOUT_S, parsed

from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.operations.runs.replaying import start_run
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config

SMALL = ("--epochs", "3", "--batch", "5", "--max-pairs", "120", "--seed", "1")


def _interrupted(place, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return a replay that got Ctrl-C once its baseline was told of a first finished step, or at once in --json."""
    slow = f"{TARGET},latency_ms=25"
    command = [*place.command, "replay", str(place.skill_path), "--target", slow, "--optimizer", slow, *SMALL]
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        told = ""
        while "step 1/" not in told:
            line = process.stderr.readline()
            assert line, told
            told += line
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    return subprocess.CompletedProcess(command, process.returncode, out, told + err)


def test_a_run_that_was_interrupted_ends_as_if_it_had_not_been(cli, make_place) -> None:
    whole, broken = make_place("whole"), make_place("broken")
    done = _interrupted(broken)
    assert (done.returncode, done.stdout) == (130, "")
    assert f"  skillopt-mcp replay {broken.skill_path} --resume --store {broken.store_path}\n" in done.stderr
    resumed = parsed(cli("replay", "ledger-clerk", "--resume", "--json", store=broken.store_path))
    straight = parsed(cli("replay", "ledger-clerk", *BACKENDS, *SMALL, "--json", store=whole.store_path))
    assert [step["kind"] for step in straight["steps"]].count("step") == 12
    assert len(straight["steps"]) == 12 + 2 * 2
    next_step = str(straight["next_step"])
    assert next_step.startswith(f"skillopt-mcp --store {whole.store_path} promote c-")
    assert next_step.endswith(" --simulated")
    assert resumed == straight | {"next_step": next_step.replace(str(whole.store_path), str(broken.store_path))}
    again = cli("replay", "ledger-clerk", "--resume", store=broken.store_path)
    assert again.returncode == 1
    assert again.stderr.startswith("error: no run of 'ledger-clerk' is unfinished")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_interrupts_with_json_prints_one_object(make_place, number: signal.Signals) -> None:
    place = make_place()
    slow = f"{TARGET},latency_ms=300"
    command = [*place.command, "replay", "ledger-clerk", "--target", slow, "--optimizer", slow, *SMALL, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    locks = place.store_path.with_name("store.db.locks")
    while not list(locks.glob("r-*.run")):
        with suppress(subprocess.TimeoutExpired):
            pytest.fail(f"ended with {process.wait(0.01)}: {process.communicate()}")
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    told = json.loads(out)
    assert process.returncode == 130, (out, err)
    assert (told["status"], told["n_steps"]) == ("stopped", 0)


def test_the_estimate_and_the_simulation_are_told_before_the_result(cli, make_place) -> None:
    place = make_place()
    done = cli("replay", "ledger-clerk", *BACKENDS, *SMALL, store=place.store_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(
        "Steps: 12 (epochs 3, train tasks 20, 5 a step), and 4 at the ends of epochs. At most 680 target calls "
        "(140 in training, 300 on val tasks, 240 in the promotion test)"
    )
    assert f"SIMULATION ({TARGET})" in done.stderr
    assert f"SIMULATION ({TARGET}): this says nothing about a real model." in done.stdout


def test_the_estimate_is_kept(cli, make_place) -> None:
    place = make_place()
    result = parsed(cli("replay", "ledger-clerk", *BACKENDS, *SMALL, "--json", store=place.store_path))
    assert result["n_calls"] <= 680 + 12 * 6 + 4


def test_nothing_is_spent_on_a_real_model_before_a_person_agrees(cli, make_place, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    place = make_place()
    done = cli("replay", "ledger-clerk", "--target", "openai:none", "--optimizer", TARGET, store=place.store_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Steps: 4 (epochs 4, ")
    assert done.stderr.splitlines()[-1].startswith("error: there is no terminal to ask at")
    assert cli("replay", "ledger-clerk", "--resume", store=place.store_path).stderr.startswith("error: no run of")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "error: no backend is set for the role 'target'"),
        (["--target", "nobody:x", "--optimizer", TARGET], "error: unknown backend 'nobody' in 'nobody:x'"),
        ([*BACKENDS, "--epochs", "0"], "error: --epochs: "),
        (
            [*BACKENDS, "--min-edits", "9"],
            "error: max_edits, where nobody sets it, is 4, and --min-edits is 9, but the edit budget never rises: ",
        ),
        ([*BACKENDS, "--slots", "0"], "error: slots '0'"),
        (["--resume", "--epochs", "3"], "error: a resumed run keeps the settings it was begun with"),
    ],
)
def test_what_cannot_be_run_is_told_in_one_line(cli, tmp_path, arguments: list[str], message: str) -> None:
    skill = tmp_path / "plain"
    skill.mkdir()
    (skill / "SKILL.md").write_text("# Plain\n")
    done = cli("replay", skill, *arguments, store=tmp_path / "store.db")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


def test_a_skill_without_tasks_is_told_so(cli, tmp_path) -> None:
    skill = tmp_path / "plain"
    skill.mkdir()
    (skill / "SKILL.md").write_text("# Plain\n")
    done = cli("replay", skill, *BACKENDS, store=tmp_path / "store.db")
    assert done.returncode == 1
    assert done.stderr.startswith("error: the skill has no train task")


def test_a_second_run_of_a_skill_is_told_of_the_first(cli, make_place) -> None:
    place = make_place()
    with Workspace(place.store_path, target=TARGET, optimizer=TARGET) as workspace:
        run = start_run(workspace, "ledger-clerk", Config(epochs=1))
        lock = lock_run(workspace.store.locks_path, run.id)
        assert lock
        second = ("replay", "ledger-clerk", *BACKENDS, "--epochs", "1", "--batch", "20", "--max-pairs", "8")
        told = cli(*second, store=place.store_path)
        lock.release()
    assert told.returncode == 0
    assert told.stderr.startswith(f"warning: run {run.id} of this skill is under way since ")
    assert "under way" not in cli(*second, store=place.store_path).stderr


def test_a_run_that_another_process_is_at_names_how_to_go_on_later(cli, make_place) -> None:
    place = make_place()
    with Workspace(place.store_path, target=TARGET, optimizer=TARGET) as workspace:
        run = start_run(workspace, "ledger-clerk", Config(epochs=1))
        lock = lock_run(workspace.store.locks_path, run.id)
        assert lock
        done = cli("replay", "ledger-clerk", "--resume", store=place.store_path)
        lock.release()
    assert done.returncode == 1
    [said] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    who = "another process, or another thread of this one,"
    assert said.startswith(f"error: {who} is advancing run '{run.id}'; nothing that was answered is lost: ")
    assert said.endswith(f"go on with {place.program} replay ledger-clerk --resume")
    assert "goes on." not in done.stderr


def test_a_run_of_a_program_with_a_backend_of_its_own_is_not_resumed_here(cli, make_place) -> None:
    place = make_place()
    with Workspace(place.store_path, target=TARGET, optimizer=TARGET) as workspace:
        workspace._specs["target"], workspace._backends["target"] = "mine", Scripted(lambda _: "no", name="mine")
        run = start_run(workspace, str(place.skill_path), Config(epochs=1))
    told = f"{run.id} was begun by a program with a backend of its own ('mine'): call train(...) again with the same "
    done = cli("replay", "ledger-clerk", "--resume", store=place.store_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: {told}arguments\n"
    assert cli("runs", store=place.store_path).stderr.endswith(f"Next: {told}arguments\n")


def test_a_script_that_was_edited_is_not_gone_on_with_unasked(cli, make_place, tmp_path) -> None:
    place = make_place()
    script = tmp_path / "script.json"
    script.write_text('{"rollout": ["I do not know."]}')
    settings = ("--epochs", "1", "--batch", "10", "--max-pairs", "4", "--yes")
    begin = ("replay", "ledger-clerk", "--target", f"scripted:{script}", "--optimizer", TARGET, *settings)
    assert "Stopped after 0 " in cli(*begin, "--max-calls", "20", store=place.store_path).stderr
    script.write_text('{"rollout": ["No idea."]}')

    resume = ("replay", "ledger-clerk", "--resume")
    refused = cli(*resume, "--yes", store=place.store_path)
    assert refused.returncode == 1
    assert re.search(r"the target was 'scripted:\w{16}' and is 'scripted:\w{16}' now: begin anew with", refused.stderr)
    way_on = f"{place.program} replay ledger-clerk --resume --allow-changed"
    assert refused.stderr.endswith(f"measured anew: {way_on}\n")
    assert cli("replay", "ledger-clerk", "--allow-changed", *BACKENDS, store=place.store_path).stderr.startswith(
        "error: --allow-changed goes on with a run that is there: give --resume with it"
    )

    higher = ("--max-calls", "2000", "--yes")
    done = cli(*resume, "--allow-changed", *higher, store=place.store_path)
    assert done.returncode == 0
    assert "now; the current and the best version are measured anew" in done.stderr
    [change] = re.findall(r"Changed in mid-run: (before its first step, the target changed from .*)\.", done.stdout)
    listed = parsed(cli("runs", "--json", store=place.store_path))["runs"]
    assert [(row["id"], row["changes"]) for row in listed] == [(listed[0]["id"], [change])]
    assert f"; {change}\n" in cli("runs", store=place.store_path).stderr
    shown = parsed(cli("show", listed[0]["id"], "--json", store=place.store_path))
    assert [each["after"] for each in shown["answering"]] == [0, 0]


def test_a_run_that_the_storage_stops_says_why_and_how_it_goes_on(make_place) -> None:
    place = make_place()
    script = shlex.join([*place.command, "replay", "ledger-clerk", *BACKENDS, "--epochs", "3", "--json"])
    longest = 400
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f {longest}; {script}"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert (done.returncode, told["status"]) == (1, "stopped")
    assert f"no file may be longer than {longest * 1024:,} bytes here: raise the limit (ulimit -f)" in told["reason"]
    assert told["next_step"].startswith("skillopt-mcp replay ledger-clerk --resume")
    assert f"Go on with:\n  {told['next_step']}" in done.stderr


def test_a_search_that_ends_at_the_best_score_there_is_says_so(cli, make_place) -> None:
    place, sure = make_place(), f"{TARGET},noise=0"
    backends = ("--target", sure, "--optimizer", sure, "--epochs", "9", "--batch", "10", "--max-pairs", "60")
    done = cli("replay", "ledger-clerk", *backends, store=place.store_path)
    assert ", as its search was ended, " in done.stdout.splitlines()[0]
    assert (
        "No step more: the current version scores 1.00 on the val tasks, after which its gate accepts no" in done.stdout
    )
    [row] = parsed(cli("runs", "--json", store=place.store_path))["runs"]
    shown = cli("show", row["id"], store=place.store_path).stdout
    assert (
        f"its search was ended after step {row['n_steps']} of {row['n_planned']}: the current version scores 1.00"
        in shown
    )
