"""`evaluate` of a run's best version, and of a candidate that has to be rebased first."""

from __future__ import annotations

import pytest
from changes import make_candidate
from console import BACKENDS, TARGET, Cli, Place, parsed
from test_cli_replay import SMALL

from skillopt_mcp.workspace import Workspace


@pytest.fixture
def capped(cli: Cli, make_place) -> Place:
    """Return a place with a run that stopped at a cap, after three steps that were accepted."""
    place = make_place()
    settings = (*BACKENDS, *SMALL, "--seed", "7", "--max-calls", "120")
    assert cli("replay", "ledger-clerk", *settings, store=place.store_path).returncode == 1
    return place


def test_a_run_without_a_better_version_has_nothing_to_test(cli: Cli, make_place) -> None:
    place = make_place()
    assert cli("replay", "ledger-clerk", *BACKENDS, *SMALL, "--max-calls", "15", store=place.store_path).returncode == 1
    with Workspace(place.store_path) as workspace:
        [run] = workspace.store.runs.list_runs(workspace.skill("ledger-clerk").id)
    refused = cli("evaluate", run.id, store=place.store_path)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"error: run '{run.id}' has no version that is better than its base" in refused.stderr
    assert cli("evaluate", "r-000000000000", store=place.store_path).returncode == 1


def test_a_stale_candidate_is_made_again_and_tested_and_one_that_is_not_is_refused(cli: Cli, make_place) -> None:
    place = make_place()
    candidate = make_candidate(place)
    refused = cli("evaluate", candidate, "--rebase", store=place.store_path)
    assert (refused.returncode, "nothing has to be rebased" in refused.stderr) == (1, True)
    place.main.write_text(place.main.read_text() + "\n- Mine.\n")
    made = parsed(cli("evaluate", candidate, "--rebase", "--json", store=place.store_path))
    assert made["status"] == "candidate"
    few = ("--target", TARGET, "--max-pairs", "8")
    tested = cli("evaluate", candidate, "--rebase", *few, store=place.store_path)
    assert tested.returncode == 0, tested.stderr
    assert f"Candidate {made['candidate_id']} of ledger-clerk" in tested.stdout
    again = parsed(cli("evaluate", candidate, "--rebase", *few, "--json", store=place.store_path))
    assert again["candidate_id"] == made["candidate_id"]
