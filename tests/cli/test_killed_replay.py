"""A run that is killed at a random moment and gone on with is the run that nobody disturbed."""

from __future__ import annotations

from pathlib import Path

from benchmarks.resume import SLOTS, measure


def test_five_killed_runs_end_like_the_undisturbed_one_and_pay_no_committed_reply_again(tmp_path: Path) -> None:
    kills = measure(n_kills=5, seed=1, folder=tmp_path.resolve())

    assert [kill for kill in kills if kill.differing_rows] == []
    assert [kill for kill in kills if kill.committed_twice] == []
    assert max(kill.in_flight_repeats for kill in kills) <= SLOTS
    assert any(kill.in_flight_repeats for kill in kills), "no kill struck while a call was under way"
