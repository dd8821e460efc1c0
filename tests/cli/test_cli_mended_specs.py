"""A run that stopped goes on with the spec that its advice had a person mend, and asks nothing twice for that."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

import pytest
from console import TARGET, Cli, Place, parsed, run_forked
from test_cli_budgets import SMALL, only_run, told_command

from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.store.runs import Runs
from tests.vendors import Vendor, vending


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    monkeypatch.setenv("ANOTHER_KEY", "sk-another")
    with vending() as server:
        yield server


def begun(cli: Cli, place: Place, spec: str, n_calls: int = 5) -> str:
    """Return the id of a run of the vendor's model that stopped at a cap."""
    begin = ("--target", spec, "--optimizer", TARGET, *SMALL, "--max-calls", str(n_calls), "--yes")
    done = cli("replay", "ledger-clerk", *begin, store=place.store_path)
    assert (done.returncode, "cap of" in done.stderr) == (1, True), done.stderr
    return only_run(place).id


@pytest.mark.parametrize("way", ["--resume", "--conclude"])
def test_what_changes_no_answer_is_said_anew_and_takes_the_place_of_what_was_said(
    cli: Cli, make_place, vendor: Vendor, way: str
) -> None:
    place = make_place()
    run_id = begun(cli, place, vendor.spec("timeout=1", "max_tokens=50"))
    mended = vendor.spec("timeout=5.0", "max_tokens=50", "price_in=1.0", "price_out=2.0", "key_env=ANOTHER_KEY")
    on = ("replay", "ledger-clerk", way, "--target", mended, "--max-calls", "9", "--max-usd", "1", "--yes")
    done = cli(*on, store=place.store_path)
    if way == "--conclude":
        assert (done.returncode, len(vendor.heard)) == (0, 5)
    else:
        assert "the cap of 9 calls (--max-calls) is reached, with 9 calls" in done.stderr
        assert vendor.heard == ["Bearer sk-none"] * 5 + ["Bearer sk-another"] * 4
        assert len(set(vendor.asked)) == 9, "what was answered is not asked again"
    run = only_run(place)
    assert (run.id, sorted(run.target.split(",")), len(run.answering)) == (run_id, sorted(mended.split(",")), 1)
    [row] = parsed(cli("runs", "--json", store=place.store_path))["runs"]  # type: ignore[misc]
    assert row["changes"] == []
    assert cli("verify", store=place.store_path).returncode == 0


def test_once_a_run_goes_on_with_a_mended_spec_it_needs_not_be_said_again(cli: Cli, make_place, vendor: Vendor) -> None:
    place = make_place()
    begun(cli, place, vendor.spec("timeout=1"))
    mended = ("--target", vendor.spec("key_env=ANOTHER_KEY"))
    cli("replay", "ledger-clerk", "--resume", *mended, "--max-calls", "7", "--yes", store=place.store_path)
    cli("replay", "ledger-clerk", "--resume", "--max-calls", "8", "--yes", store=place.store_path)
    assert vendor.heard == ["Bearer sk-none"] * 5 + ["Bearer sk-another"] * 3


def test_the_advice_to_raise_the_limit_of_an_answer_can_be_followed(cli: Cli, make_place, vendor: Vendor) -> None:
    place, vendor.needs = make_place(), 500
    begin = ("--target", vendor.spec("max_tokens=100"), "--optimizer", TARGET, *SMALL, "--yes")
    stopped = cli("replay", "ledger-clerk", *begin, store=place.store_path)
    assert "raise max_tokens=N in the spec" in stopped.stderr
    on = f"skillopt-mcp replay ledger-clerk --resume --yes --store {place.store_path}"
    assert f". Go on with (and the mended spec: --target, --optimizer or --judge SPEC):\n  {on}\n" in stopped.stderr
    assert stopped.returncode == 1
    run_id, n_before = only_run(place).id, len(vendor.heard)
    with Workspace(place.store_path) as workspace:
        cap = ("--max-calls", str(workspace.store.budgets.get_spent(run_id).calls + 4), "--yes")
    mended = vendor.spec("max_tokens=500")
    refused = cli("replay", "ledger-clerk", "--resume", "--target", mended, *cap, store=place.store_path)
    assert (refused.returncode, len(vendor.heard)) == (1, n_before)
    way = f"{place.program} replay ledger-clerk --resume --allow-changed --target {mended}"
    assert refused.stderr.endswith(f"with its current and its best version measured anew: {way}\n")
    done = cli(*shlex.split(way)[3:], *cap, store=place.store_path)
    assert "goes on where it stopped under a higher cap" in done.stderr
    assert (only_run(place).id, only_run(place).target.count("max_tokens=500")) == (run_id, 1)
    assert len(vendor.heard) == n_before + 4


def test_another_address_of_a_model_is_another_one_that_a_person_may_allow(cli: Cli, make_place, vendor) -> None:
    place = make_place()
    run_id = begun(cli, place, vendor.spec())
    with vending() as other:
        resume = ("replay", "ledger-clerk", "--resume", "--target", other.spec(), "--max-calls", "8", "--yes")
        refused = cli(*resume, store=place.store_path)
        assert f"run '{run_id}' began with another model, or another state of it: the target was" in refused.stderr
        assert other.heard == []
        cli(*resume, "--allow-changed", store=place.store_path)
    assert (len(vendor.heard), len(other.heard)) == (5, 3)


def test_another_model_is_no_other_spelling(cli: Cli, make_place, vendor: Vendor) -> None:
    place = make_place()
    run_id = begun(cli, place, vendor.spec())
    other = ("--target", vendor.spec(model="n"), "--max-calls", "9", "--yes", "--allow-changed")
    refused = cli("replay", "ledger-clerk", "--resume", *other, store=place.store_path)
    assert refused.returncode == 1
    assert f"run '{run_id}' was begun with target 'openai:m," in refused.stderr
    assert refused.stderr.endswith(": resume it with these\n")
    assert len(vendor.heard) == 5


def kill_before_it_goes_on() -> None:
    Runs.set_status = lambda *_, **__: os._exit(9)  # type: ignore[method-assign]


def test_killed_as_its_spec_is_mended_a_run_is_whole_and_goes_on(cli: Cli, make_place, vendor: Vendor) -> None:
    place = make_place()
    begun(cli, place, vendor.spec("timeout=1"))
    resume = ("replay", "ledger-clerk", "--resume", "--target", vendor.spec("timeout=5"), "--max-calls", "7", "--yes")
    arguments = ["--store", str(place.store_path), *resume]
    assert run_forked(arguments, place.store_path.parent, kill_before_it_goes_on).returncode == 9
    assert "timeout=5" in only_run(place).target
    assert cli("verify", store=place.store_path).returncode == 0
    cli("replay", "ledger-clerk", "--resume", "--max-calls", "7", "--yes", store=place.store_path)
    assert len(set(vendor.asked)) == len(vendor.asked) == 7


def test_every_command_names_the_same_way_on_from_a_cap_that_the_next_call_does_not_fit_under(
    cli: Cli, make_place, vendor: Vendor
) -> None:
    place = make_place()
    priced = vendor.spec("max_tokens=5000", "price_in=10", "price_out=10")
    begin = ("--target", priced, "--optimizer", TARGET, *SMALL, "--max-usd", "0.1", "--yes")
    stopped = cli("replay", "ledger-clerk", *begin, store=place.store_path)
    assert "the cap of $0.1 (--max-usd) is reached" in stopped.stderr
    way = " ".join(told_command(stopped.stderr)[:-2]).removesuffix(" --yes")
    n_asked, run_id = len(vendor.asked), only_run(place).id
    assert n_asked > 0
    assert way.startswith("replay ledger-clerk --resume --max-usd 0.2")
    listed = parsed(cli("runs", "--json", store=place.store_path))
    assert listed["next_step"] == f"{place.program} {way}"
    assert f"{place.program} {way}" in cli("show", run_id, store=place.store_path).stderr
    # What is refused before it goes on stops nowhere else.
    unpriced = ("replay", "ledger-clerk", "--resume", "--target", vendor.spec("max_tokens=5000"), "--yes")
    assert cli(*unpriced, store=place.store_path).returncode == 1
    assert parsed(cli("runs", "--json", store=place.store_path))["next_step"] == f"{place.program} {way}"
    cli(*shlex.split(way), "--yes", store=place.store_path)
    assert len(vendor.asked) > n_asked
    assert cli("verify", store=place.store_path).returncode == 0
