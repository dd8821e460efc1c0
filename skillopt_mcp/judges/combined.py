"""Combined: judges that ask several judges, and want all of them to pass, or enough of their mean."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from skillopt_mcp.records.judging import Score, Unscored


def combine_all(scores: Sequence[Score | Unscored]) -> Score | Unscored:
    """Return one score of several: passed when all passed, soft their mean; none when one has none and none failed.

    One that failed decides, whatever those without a score would say; soft is then the mean of the others.
    """
    known = [score for score in scores if isinstance(score, Score)]
    decisive = known if any(not score.hard for score in known) else scores
    return combine_weighted(decisive, [1.0] * len(decisive), None)


def combine_weighted(
    scores: Sequence[Score | Unscored], weights: Sequence[float], threshold: float | None
) -> Score | Unscored:
    """Return one score of several: soft is the weighted mean, passed from the threshold on; none when one has none.

    Without a threshold it has passed when all have.
    """
    known = [score for score in scores if isinstance(score, Score)]
    if len(known) < len(scores):
        return Unscored("; ".join(score.reason for score in scores if isinstance(score, Unscored)))
    failed = [score for score in known if not score.hard]
    # Divided first: a sum of huge weights would be infinite.
    largest = max(weights)
    shares = [weight / largest for weight in weights]
    mean = fsum(share * score.soft for share, score in zip(shares, known, strict=True)) / fsum(shares)
    # Rounded, so that a mean that equals the threshold on paper passes.
    soft = round(mean, 12)
    hard = not failed if threshold is None else soft >= threshold
    told = "; ".join(score.reason for score in failed) or f"all {len(known)} judges passed"
    if threshold is not None:
        told = f"weighted mean {soft:.3f}, {threshold:g} passes: {told}"
    return Score(hard, soft, told)
