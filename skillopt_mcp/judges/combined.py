"""Combined: the judge that asks several judges and wants all of them to pass."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from skillopt_mcp.records.judging import Score


def combine_all(scores: Sequence[Score]) -> Score:
    """Return one score of several: passed when all passed, soft their mean, the words those of what failed."""
    failed = [score for score in scores if not score.hard]
    return Score(
        hard=not failed,
        soft=min(1.0, max(0.0, fmean(score.soft for score in scores))),
        reason="; ".join(score.reason for score in failed) or f"all {len(scores)} judges passed",
        hint="; ".join(dict.fromkeys(score.hint for score in failed)),
    )
