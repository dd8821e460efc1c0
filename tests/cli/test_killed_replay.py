"""A run that is killed at a random moment and gone on with is the run that nobody disturbed."""

from __future__ import annotations

from pathlib import Path
from random import Random

from benchmarks.resume import SLOTS, Kill, Site, kill_and_resume, undisturbed

N_KILLS, MOST_KILLS = 3, 12


def test_killed_runs_end_like_the_undisturbed_one_and_pay_no_committed_reply_again(tmp_path: Path) -> None:
    site, random, kills = Site(tmp_path.resolve(), seed=1), Random(1), list[Kill]()
    expected, lasts_s = undisturbed(site)
    for _ in range(MOST_KILLS):
        kill = kill_and_resume(site, expected, random.uniform(0.0, 0.8 * lasts_s))
        kills += [kill] if kill else []
        if len(kills) >= N_KILLS and any(kill.in_flight_repeats for kill in kills):
            break

    assert [kill for kill in kills if kill.differing_rows] == []
    assert [kill for kill in kills if kill.committed_twice] == []
    assert max(kill.in_flight_repeats for kill in kills) <= SLOTS
    assert any(kill.in_flight_repeats for kill in kills), "no kill struck while a call was under way"
    assert len(kills) >= N_KILLS
