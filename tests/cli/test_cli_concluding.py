"""A run whose search is ended early tests the best version of its finished steps, whatever interrupts it meanwhile."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from console import BACKENDS, TARGET, Cli, Place, parsed, run_forked
from test_cli_replay import SMALL

from skillopt_mcp.cli import agreeing
from skillopt_mcp.operations.runs import finishing
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.runs import Conclusion, Run
from skillopt_mcp.store.runs import Runs

Capped = Callable[..., Place]


@pytest.fixture
def capped(cli: Cli, make_place: Callable[..., Place]) -> Capped:
    """Return what makes a place with a run that stopped at a cap, after three steps that were accepted."""

    def make(n_calls: int = 120, name: str = "place") -> Place:
        place = make_place(name)
        settings = (*BACKENDS, *SMALL, "--seed", "7", "--max-calls", str(n_calls))
        assert cli("replay", "ledger-clerk", *settings, store=place.store_path).returncode == 1
        return place

    return make


def only_run(place: Place) -> Run:
    with Workspace(place.store_path) as workspace:
        [run] = workspace.store.runs.list_runs(workspace.skill("ledger-clerk").id)
    return run


def n_sent(place: Place) -> int:
    with Workspace(place.store_path) as workspace:
        return workspace.store.budgets.get_spent(only_run(place).id).calls


def forked(place: Place, prepare: Callable[[], None], *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_forked(["--store", str(place.store_path), *arguments], place.store_path.parent, prepare)


def test_a_run_that_stops_at_a_cap_names_both_ways_on(cli: Cli, capped: Capped) -> None:
    place = capped()
    done = cli("replay", "ledger-clerk", "--resume", store=place.store_path)
    store = f"--store {place.store_path}"
    assert done.stderr.endswith(
        f" Go on with:\n  skillopt-mcp replay ledger-clerk --resume --max-calls 240 {store}\n"
        "Or search no more, and test the best version so far (val 0.550):\n"
        f"  skillopt-mcp replay ledger-clerk --conclude --max-calls 240 {store}\n"
    )
    told = json.loads(cli("replay", "ledger-clerk", "--resume", "--json", store=place.store_path).stdout)
    assert told["conclude"] == f"skillopt-mcp replay ledger-clerk --conclude --max-calls 240 {store}"


def test_a_concluded_run_finishes_with_a_test_of_its_best_version(cli: Cli, capped: Capped, tmp_path: Path) -> None:
    place, out = capped(), tmp_path / "out"
    conclude, run_id = (
        ("replay", "ledger-clerk", "--conclude", "--max-calls", "900", "--out", str(out)),
        only_run(place).id,
    )
    done = cli(*conclude, store=place.store_path)
    assert (done.returncode, done.stderr.splitlines()[:2]) == (
        0,
        [f"Run {run_id} ends its search after 3 finished steps; 13 more were planned. Its promotion test takes at "
         "most 240 target calls. Of its caps are used: 120 of 900 calls.",
         f"Run {run_id} searches no more, after step 3 of 16. SIMULATION ({TARGET})"],
    )  # fmt: skip
    assert done.stdout.startswith(f"Run {run_id} finished: 3 steps of 16, as its search was ended, ")
    assert "Verdict: ACCEPT. " in done.stdout

    run, result = only_run(place), json.loads((out / "summary.json").read_text())
    with Workspace(place.store_path) as workspace:
        made = workspace.store.candidates.get_candidate(result["candidate_id"])
        [*_, last] = workspace.store.runs.list_steps(run.id)
    assert run.conclusion == Conclusion(3, 16, "by replay --conclude")
    assert (made.base_version, made.version_id) == (run.base_version, last.best_version)
    assert (result["concluded_after"], result["n_planned"], len(result["steps"])) == (3, 16, 3)
    assert json.loads((out / "run.json").read_text())["conclusion"]["after"] == 3
    told = "its search was ended after step 3 of 16: by replay --conclude, at 20"
    assert told in (out / "report.md").read_text()
    assert told in cli("show", run.id, store=place.store_path).stdout
    [row] = parsed(cli("runs", "--json", store=place.store_path))["runs"]
    assert (row["concluded_after"], row["n_planned"], row["verdict"]) == (3, 16, "accept")
    assert " finished  3 of 16 " in cli("runs", store=place.store_path).stdout
    assert cli("verify", store=place.store_path).returncode == 0
    again = cli("replay", "ledger-clerk", "--conclude", store=place.store_path)
    assert again.stderr.startswith("error: no run of 'ledger-clerk' is unfinished")


def test_a_concluded_run_that_stops_in_its_test_goes_on_with_that_alone(cli: Cli, capped: Capped) -> None:
    place = capped()
    stopped = cli("replay", "ledger-clerk", "--conclude", store=place.store_path)
    assert stopped.returncode == 1
    assert stopped.stderr.splitlines()[-1].startswith("  skillopt-mcp replay ledger-clerk --resume --max-calls 240 ")
    assert "--conclude" not in stopped.stderr
    interrupted = forked(
        place, interrupt_the_test, "replay", "ledger-clerk", "--resume", "--max-calls", "900", "--json"
    )
    assert interrupted.returncode == 130, interrupted.stderr
    assert json.loads(interrupted.stdout)["conclude"] is None
    ended = parsed(cli("replay", "ledger-clerk", "--resume", "--json", store=place.store_path))
    assert (len(ended["steps"]), ended["concluded_after"], ended["verdict"]) == (3, 3, "accept")
    # As if nothing had stopped it on the way.
    other = capped(name="other")
    straight = parsed(
        cli("replay", "ledger-clerk", "--conclude", "--max-calls", "900", "--json", store=other.store_path)
    )
    for each in (ended, straight):
        each.pop("next_step")
    assert ended == straight


def interrupt_the_test() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    finishing.run_test = interrupt  # type: ignore[assignment]


def test_an_unfinished_run_is_listed_and_shown_with_both_ways_on_until_its_search_ends(
    cli: Cli, capped: Capped
) -> None:
    place = capped()
    store, run_id = f"--store {place.store_path}", only_run(place).id
    ways = [f"skillopt-mcp {store} replay ledger-clerk {way} --max-calls 240" for way in ("--resume", "--conclude")]
    for command in (["runs"], ["show", run_id]):
        told = parsed(cli(*command, "--json", store=place.store_path))
        assert [told["next_step"], told["conclude"]] == ways
        said = cli(*command, store=place.store_path).stderr
        assert said.endswith(f"Next: {ways[0]}\nOr search no more: {ways[1]}\n")
    assert cli("replay", "ledger-clerk", "--conclude", store=place.store_path).returncode == 1
    for command in (["runs"], ["show", run_id]):
        told = parsed(cli(*command, "--json", store=place.store_path))
        assert [told["next_step"], told["conclude"]] == [ways[0], None]
        assert "--conclude" not in cli(*command, store=place.store_path).stderr


def test_where_no_step_improved_anything_a_concluded_run_says_so_and_spends_nothing(cli: Cli, capped: Capped) -> None:
    place = capped(45)
    assert len(parsed(cli("show", only_run(place).id, "--json", store=place.store_path))["steps"]) == 0
    stopped = cli("replay", "ledger-clerk", "--resume", store=place.store_path)
    assert stopped.stderr.endswith(
        "Or search no more, and finish: no step has brought a better version so far, so that nothing is tested:\n"
        f"  skillopt-mcp replay ledger-clerk --conclude --store {place.store_path}\n"
    )
    done = forked(place, as_if_paid, "replay", "ledger-clerk", "--conclude")
    assert done.returncode == 0, done.stderr
    assert "No verdict: its search was ended before the first step of 16." in done.stdout
    assert "No step has brought a better version: there is nothing to test, and no call is made.\n" in done.stderr
    assert "target call" not in done.stderr
    assert n_sent(place) == 45


def as_if_paid() -> None:
    agreeing.is_simulated = lambda _: False


def test_nothing_ends_before_a_person_agrees_to_the_price_of_the_test(capped: Capped) -> None:
    place = capped()
    conclude = ("replay", "ledger-clerk", "--conclude", "--max-calls", "900")
    asked = forked(place, as_if_paid, *conclude)
    assert asked.returncode == 1
    assert "Its promotion test takes at most 240 target calls." in asked.stderr
    assert "By what such calls took before: at most about " in asked.stderr
    assert asked.stderr.splitlines()[-1].startswith("error: there is no terminal to ask at")
    assert (only_run(place).conclusion, n_sent(place)) == (None, 120)
    assert forked(place, as_if_paid, *conclude, "--yes").returncode == 0
    assert only_run(place).status == "finished"


def kill_before() -> None:
    Runs.conclude = lambda *_: os._exit(9)  # type: ignore[method-assign]


def kill_after() -> None:
    conclude = Runs.conclude

    def killed(*arguments: object) -> None:
        conclude(*arguments)  # type: ignore[arg-type]
        os._exit(9)

    Runs.conclude = killed  # type: ignore[method-assign]


@pytest.mark.parametrize(("kill", "n_steps"), [(kill_before, 16), (kill_after, 3)])
def test_killed_as_its_search_ends_a_run_searches_on_or_has_concluded(
    cli: Cli, capped: Capped, kill: Callable[[], None], n_steps: int
) -> None:
    place = capped()
    assert forked(place, kill, "replay", "ledger-clerk", "--conclude", "--max-calls", "900").returncode == 9
    ended = parsed(cli("replay", "ledger-clerk", "--resume", "--max-calls", "900", "--json", store=place.store_path))
    assert (len(ended["steps"]), ended["concluded_after"]) == (n_steps, None if n_steps == 16 else 3)
    assert cli("verify", store=place.store_path).returncode == 0


def test_what_is_answered_by_others_now_is_tested_once_a_person_allows_that(
    cli: Cli, make_place: Callable[..., Place], tmp_path: Path
) -> None:
    place, script = make_place(), tmp_path / "script.json"
    script.write_text('{"rollout": ["I do not know."]}')
    begin = ("--target", f"scripted:{script}", "--optimizer", TARGET, *SMALL)
    cli("replay", "ledger-clerk", *begin, "--max-calls", "20", store=place.store_path)
    script.write_text('{"rollout": ["No idea."]}')
    refused = cli("replay", "ledger-clerk", "--conclude", store=place.store_path)
    way = f"{place.program} replay ledger-clerk --conclude --allow-changed"
    told = f"have its best version tested all the same, with what is there now: {way}\n"
    assert (refused.returncode, refused.stderr.endswith(told)) == (1, True)
    done = cli("replay", "ledger-clerk", "--conclude", "--allow-changed", store=place.store_path)
    assert "; its best version is tested with what is there now\n" in done.stderr
    assert done.returncode == 0


def test_a_step_that_builds_on_others_is_tested_with_them(cli: Cli, capped: Capped) -> None:
    place = capped()
    run_id = only_run(place).id
    shown = cli("show", run_id, store=place.store_path).stdout
    [_, second, *_] = re.findall(r"candidate (c-\w+)", shown)
    evaluate = ("evaluate", second, "--target", TARGET)
    before = f"error: candidate '{second}' is step 2 of run {run_id}, made on top of its earlier steps: "
    refused = cli(*evaluate, store=place.store_path)
    assert refused.stderr.startswith(before)
    assert refused.stderr.endswith(f": {place.program} replay {run_id} --conclude\n")
    cli("replay", run_id, "--conclude", store=place.store_path)
    assert cli(*evaluate, store=place.store_path).stderr.endswith(
        f"is being tested: {place.program} replay {run_id} --resume\n"
    )
    resume = ("replay", run_id, "--resume", "--max-calls", "900", "--json")
    made = parsed(cli(*resume, store=place.store_path))["candidate_id"]
    assert cli(*evaluate, store=place.store_path).stderr == (
        f"{before}what they came to together is the run's own candidate: {place.program} evaluate {made}\n"
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--resume"], "error: --resume searches on, and --conclude ends the search: give one of them"),
        (["--epochs", "2"], "error: a concluded run keeps the settings it was begun with: leave out '--epochs'"),
        (["--abandon"], "error: --abandon cancels what a run has at a vendor: it takes no settings, "),
        (["--policy", "fresh"], "error: --policy looks at a run that is over"),
    ],
)
def test_what_cannot_be_concluded_is_told(cli: Cli, make_place, more: list[str], message: str) -> None:
    done = cli("replay", "ledger-clerk", "--conclude", *more, store=make_place().store_path)
    assert (done.returncode, done.stderr.startswith(message)) == (1, True), done.stderr


def test_with_a_memory_file_what_was_begun_is_tested_and_the_rest_left_out(
    cli: Cli, make_place: Callable[..., Place], tmp_path: Path
) -> None:
    place, memory = make_place(), tmp_path / "CLAUDE.md"
    memory.write_text("# Memory\n")
    both = ("replay", "ledger-clerk", *BACKENDS, *SMALL, "--memory", str(memory))
    none = cli(*both, "--conclude", store=place.store_path)
    assert none.stderr.startswith("error: there is no run of these documents with these settings")
    stopped = cli(*both, "--max-calls", "120", store=place.store_path)
    assert "or search no more, and test what the search has brought: the same command and --conclude" in stopped.stderr
    told = parsed(cli(*both, "--conclude", "--max-calls", "900", "--json", store=place.store_path))
    assert told["memory"] is None
    skill = told["skill"]
    assert isinstance(skill, dict)
    assert (skill["status"], skill["concluded_after"]) == ("finished", len(skill["steps"]))
    assert skill["n_planned"] == 16
    assert skill["verdict"] is not None
