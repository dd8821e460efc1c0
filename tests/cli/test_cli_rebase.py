from __future__ import annotations

from changes import make_candidate
from console import parsed


def test_a_stale_candidate_is_rebased_and_one_that_is_not_is_refused(cli, make_place) -> None:
    place = make_place()
    candidate = make_candidate(place)
    refused = cli("rebase", candidate, store=place.store_path)
    assert (refused.returncode, "nothing has to be rebased" in refused.stderr) == (1, True)
    place.main.write_text(place.main.read_text() + "\n- Mine.\n")
    done = cli("rebase", candidate, store=place.store_path)
    assert done.returncode == 0, done.stderr
    assert " of ledger-clerk. Next: " in done.stdout or f"{place.program} evaluate c-" in done.stdout
    again = parsed(cli("rebase", candidate, "--json", store=place.store_path))
    assert again["status"] == "candidate"
    assert f"Candidate {again['candidate_id']} of ledger-clerk" in done.stdout
