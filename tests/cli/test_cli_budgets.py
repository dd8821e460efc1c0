from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from changes import at_a_terminal
from console import BACKENDS, SCRIPT, TARGET, Place, parsed

from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.budgets import Caps
from skillopt_mcp.records.runs import Run
from tests.vendors import Vendor, vending

SMALL = ("--epochs", "2", "--batch", "5", "--max-pairs", "8")


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with vending() as lent:
        yield lent


def only_run(place: Place) -> Run:
    with Workspace(place.store_path) as workspace:
        [run] = workspace.store.runs.list_runs(workspace.skill("ledger-clerk").id)
    return run


def told_command(text: str) -> list[str]:
    """Return the arguments of the command that a stopped run told to go on."""
    told = [line for line in text.splitlines() if line.startswith("  skillopt-mcp replay")]
    [line] = [line for line in told if " --conclude" not in line]
    program, *arguments = shlex.split(line)
    assert program == Path(SCRIPT).name
    return arguments


def test_a_run_stops_at_its_cap_and_is_resumed_under_a_higher_one(cli, make_place) -> None:
    place = make_place()
    done = cli("replay", "ledger-clerk", *BACKENDS, *SMALL, "--max-calls", "30", store=place.store_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the cap of 30 calls (--max-calls) is reached, with 30 calls" in done.stderr
    resume = f"  skillopt-mcp replay ledger-clerk --resume --max-calls 60 --store {place.store_path}\n"
    assert resume in done.stderr
    again = cli("replay", "ledger-clerk", "--resume", "--max-calls", "31", "--json", store=place.store_path)
    assert again.returncode == 1
    told = json.loads(again.stdout)
    assert told["status"] == "stopped"
    assert told["verdict"] is None
    assert "the cap of 31 calls" in told["reason"]
    assert "--resume --max-calls 62 --store" in told["next_step"]
    kept = cli("replay", "ledger-clerk", "--resume", "--max-usd", "1", store=place.store_path)
    assert kept.returncode == 1
    assert "the cap of 31 calls" in kept.stderr
    assert only_run(place).caps == Caps(calls=31, usd=1.0)
    ended = parsed(cli("replay", "ledger-clerk", "--resume", "--max-calls", "9999", "--json", store=place.store_path))
    assert ended["status"] == "finished"


def test_a_run_that_is_paid_for_keeps_its_cap_and_asks_before_it_goes_on(cli, make_place, vendor) -> None:
    place = make_place()
    backends = ("--target", vendor.spec(), "--optimizer", TARGET, *SMALL)
    done = cli("replay", "ledger-clerk", *backends, "--max-calls", "5", "--yes", store=place.store_path)
    assert (done.returncode, len(vendor.asked)) == (1, 5)
    command = told_command(done.stderr)
    assert command[2:-2] == ["--resume", "--max-calls", "10", "--yes"]
    # At its cap nothing can be spent, so nobody is asked.
    same = cli("replay", "ledger-clerk", "--resume", store=place.store_path)
    assert (same.returncode, len(vendor.asked)) == (1, 5)
    assert "the cap of 5 calls (--max-calls) is reached, with 5 calls, 550 tokens" in same.stderr
    assert "left of run" not in same.stderr
    assert told_command(same.stderr) == command
    unasked = cli("replay", "ledger-clerk", "--resume", "--max-calls", "8", store=place.store_path)
    assert (unasked.returncode, len(vendor.asked)) == (1, 5)
    assert unasked.stderr.startswith("Sent so far: 5 calls. What is left of run r-")
    assert "Of its caps are used: 5 of 8 calls.\nNo call of the optimizer is stored yet" in unasked.stderr
    assert unasked.stderr.splitlines()[-1].startswith("error: there is no terminal to ask at")
    again = cli(*command)
    assert (again.returncode, len(vendor.asked)) == (1, 10)
    assert "the cap of 10 calls (--max-calls) is reached" in again.stderr


def test_at_a_terminal_a_person_is_asked_for_what_is_left(cli, make_place, vendor) -> None:
    place = make_place()
    backends = ("--target", vendor.spec(), "--optimizer", TARGET, *SMALL)
    cli("replay", "ledger-clerk", *backends, "--max-calls", "5", "--yes", store=place.store_path)
    resume = ("replay", "ledger-clerk", "--resume", "--max-calls", "12")
    code, screen = at_a_terminal(place, *resume, answer="n")
    assert (code, len(vendor.asked)) == (1, 5)
    assert "Spend that much? [y/N]" in screen
    assert "Nothing more was spent." in screen
    code, screen = at_a_terminal(place, *resume, answer="y")
    assert (code, len(vendor.asked)) == (1, 12)
    # What a person was asked for, a person is asked for again.
    assert "--resume --max-calls 24 --store" in " ".join(screen.split())


def test_a_cap_that_is_reached_by_calls_that_failed_says_how(cli, make_place, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    place = make_place()
    spec = "openai:m,base_url=http://127.0.0.1:9/v1"
    backends = ("--target", spec, "--optimizer", spec)
    done = cli("replay", "ledger-clerk", *backends, "--max-calls", "9", "--yes", store=place.store_path)
    assert done.returncode == 1
    failed = "9 sends failed, the last one so (connection): 127.0.0.1:9 (m): the connection failed"
    assert f"minutes used. {failed}" in done.stderr
    [row] = parsed(cli("runs", "--json", store=place.store_path))["runs"]
    assert (row["n_calls"], row["n_failed"]) == (0, 9)
    shown = cli("show", row["id"], store=place.store_path).stdout
    assert failed in shown
    assert "caps: --max-calls 9; used 9 sends, 0 tokens, $0.00" in shown
    assert "target    rollout         0       0      9        0" in shown


def test_a_promotion_test_stops_at_its_cap(cli, make_place) -> None:
    place = make_place()
    run = parsed(cli("replay", "ledger-clerk", *BACKENDS, *SMALL, "--max-pairs", "1", "--json", store=place.store_path))
    candidate = str(run["candidate_id"])
    flags = ("--target", TARGET, "--max-calls", "1")
    done = cli("evaluate", candidate, *flags, "--json", store=place.store_path)
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "stopped"
    told = json.loads(done.stdout)
    assert (told["candidate_id"], told["verdict"]) == (candidate, None)
    assert "the cap of 1 call (--max-calls) is reached" in told["reason"]
    assert told["next_step"] == "the same command goes on with the pairs so far, under a higher cap: --max-calls 2"
    done = cli("evaluate", candidate, *flags, store=place.store_path)
    on = f"skillopt-mcp --store {place.store_path} evaluate {candidate} --target {TARGET} --max-calls 2"
    assert f"Go on with the pairs so far:\n  {on}\n" in done.stderr


def test_a_cap_without_a_known_price_is_refused_before_anything_is_sent(cli, make_place) -> None:
    place = make_place()
    spec = "openai:m,base_url=http://127.0.0.1:9,max_tokens=10"
    backends = ("--target", spec, "--optimizer", TARGET)
    done = cli("replay", "ledger-clerk", *backends, "--max-usd", "1", "--yes", store=place.store_path)
    assert done.returncode == 1
    assert "error: the price of 'openai:m" in done.stderr
    assert "tokens, money and minutes cannot be told" not in done.stderr


def test_the_doctor_asks_each_backend_that_is_named(cli, home) -> None:
    done = cli("doctor", "--backend", "simulated:honest", "--backend", "openai:m,base_url=http://127.0.0.1:9")
    assert done.returncode == 1
    assert "Backend simulated:honest answers." in done.stdout
    [line] = done.stderr.splitlines()
    assert line.startswith("error: 127.0.0.1:9 (m): the connection failed")
    checked = json.loads(cli("doctor", "--backend", "simulated:honest", "--json").stdout)["checked"]
    assert checked == {"simulated:honest": None}


def test_a_dry_run_tells_what_would_be_asked_and_asks_and_begins_nothing(cli, make_place, vendor) -> None:
    place = make_place()
    backends = ("--target", vendor.spec(), "--optimizer", TARGET, *SMALL)
    plan = parsed(cli("replay", "ledger-clerk", *backends, "--dry-run", "--json", store=place.store_path))
    calls = plan["calls"]
    assert (plan["status"], plan["simulated"], plan["usd"]) == ("planned", False, None)
    told = cli("replay", "ledger-clerk", *backends, "--dry-run", store=place.store_path)
    assert told.stdout == ""
    assert f"At most {calls['target']} target calls" in told.stderr  # type: ignore[index, call-overload]
    n_again = plan["n_again"]
    assert n_again == 2 * calls["optimizer"]  # type: ignore[index, call-overload]
    assert told.stderr.endswith(
        f"hard caps.\nNot counted: up to {n_again} calls that ask again for replies which cannot be used, and repeats "
        "of sends that fail.\nA dry run: nothing was spent.\n"
    )
    assert parsed(cli("runs", "--json", store=place.store_path))["runs"] == []
    cli("replay", "ledger-clerk", *backends, "--max-calls", "5", "--yes", store=place.store_path)
    before = only_run(place)
    for way in ("--resume", "--conclude"):
        rest = parsed(
            cli("replay", "ledger-clerk", way, "--dry-run", "--max-calls", "9", "--json", store=place.store_path)
        )
        assert 0 <= rest["calls"]["target"] < calls["target"]  # type: ignore[index, call-overload]
    assert only_run(place) == before
    assert len(vendor.asked) == 5


def test_a_dry_run_of_what_cannot_be_run_says_so(cli, make_place) -> None:
    place = make_place(n_tasks=0)
    refused = cli("replay", "ledger-clerk", *BACKENDS, "--dry-run", store=place.store_path)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "tasks" in refused.stderr.splitlines()[-1]
    assert "A dry run" not in refused.stderr
    abandoned = cli("replay", "ledger-clerk", "--abandon", "--dry-run", store=place.store_path)
    assert abandoned.stderr.endswith("error: --abandon asks nothing of models: leave out --dry-run\n")


def test_a_dry_run_opens_no_test_and_runs_no_contest(cli, make_place) -> None:
    place = make_place()
    run = parsed(cli("replay", "ledger-clerk", *BACKENDS, *SMALL, "--max-pairs", "1", "--json", store=place.store_path))
    candidate = str(run["candidate_id"])
    before = parsed(cli("runs", "--json", store=place.store_path))
    wanted = (
        (("evaluate", candidate, "--claim", "these", "--max-pairs", "7"), {"target": 14, "judge": 0}),
        (("calibrate", "ledger-clerk", "--pairs", "7"), {"target": 14, "judge": 0}),
        (("race", candidate, "--laps", "5"), {"target": 10, "judge": 0}),
    )
    for arguments, calls in wanted:
        plan = parsed(cli(*arguments, "--target", TARGET, "--dry-run", "--json", store=place.store_path))
        assert (plan["calls"], plan["simulated"]) == (calls, True)
    assert parsed(cli("runs", "--json", store=place.store_path)) == before
