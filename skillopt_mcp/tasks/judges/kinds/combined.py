"""Combined: judges that want several judges to pass, or enough of their mean."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.core.judging import AnyJudge, Combined, Judge, Outcome, Score, Unscored, judge


@judge("all")
class All(Combined):
    """Every judge in `judges` passes; soft is their mean."""

    judges: list[AnyJudge] = Field(min_length=1)

    def parts(self) -> Sequence[Judge]:
        return self.judges

    def combine(self, outcomes: Sequence[Outcome]) -> Outcome:
        """Return passed if all passed; no score if one has none and none failed.

        One that failed decides, whatever those without a score would say; soft is then the mean of the others.
        """
        known = [outcome for outcome in outcomes if isinstance(outcome, Score)]
        decisive = known if any(not score.hard for score in known) else outcomes
        return _mean(decisive, [1.0] * len(decisive), None)

    def is_form_only(self) -> bool:
        return all(part.is_form_only() for part in self.judges)

    def references(self) -> list[str]:
        return _joined(self.judges)


class WeightedJudge(BaseModel):
    """A judge and its weight among others."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    judge: AnyJudge
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0


@judge("weighted")
class Weighted(Combined):
    """The weighted mean of `judges` ({judge, weight}) is at least `threshold`; soft is that mean."""

    judges: list[WeightedJudge] = Field(min_length=1, description="[{judge, weight}]")
    threshold: float = Field(default=0.8, gt=0, le=1)

    def parts(self) -> Sequence[Judge]:
        return [part.judge for part in self.judges]

    def combine(self, outcomes: Sequence[Outcome]) -> Outcome:
        """Return the weighted mean, passed from the threshold on; no score if one has none and could still pass it.

        Where it could not, soft is the mean of the others.
        """
        weights = [part.weight for part in self.judges]
        known = [(n, each) for n, each in enumerate(outcomes) if isinstance(each, Score)]
        best = [each if isinstance(each, Score) else Score(hard=True, soft=1.0, reason="") for each in outcomes]
        at_best = _mean(best, weights, self.threshold)
        if known and isinstance(at_best, Score) and not at_best.hard:
            return _mean([each for _, each in known], [weights[n] for n, _ in known], self.threshold)
        return _mean(outcomes, weights, self.threshold)

    def is_form_only(self) -> bool:
        forms = sum(part.weight for part in self.judges if part.judge.is_form_only())
        others = sum(part.weight for part in self.judges if not part.judge.is_form_only())
        return forms >= self.threshold * (forms + others)

    def references(self) -> list[str]:
        return _joined(self.parts())


@judge("partial", of_evals=True)
class Partial(Combined):
    """What is left of the graders of somebody's case, `judge`; others that could fail it are `lost`."""

    judge: AnyJudge
    lost: list[str] = Field(min_length=1, description="[why]")

    def parts(self) -> Sequence[Judge]:
        return [self.judge]

    def combine(self, outcomes: Sequence[Outcome]) -> Outcome:
        """Return the outcome of what is left."""
        return outcomes[0]

    def is_form_only(self) -> bool:
        return self.judge.is_form_only()

    def references(self) -> list[str]:
        return self.judge.references()


def _mean(outcomes: Sequence[Outcome], weights: Sequence[float], threshold: float | None) -> Outcome:
    """Return the weighted mean as a score; without a threshold it has passed when all have."""
    known = [outcome for outcome in outcomes if isinstance(outcome, Score)]
    if len(known) < len(outcomes):
        return Unscored("; ".join(outcome.reason for outcome in outcomes if isinstance(outcome, Unscored)))
    failed = [score for score in known if not score.hard]
    # Divided first: a sum of huge weights would be infinite.
    largest = max(weights)
    shares = [weight / largest for weight in weights]
    mean = fsum(share * score.soft for share, score in zip(shares, known, strict=True)) / fsum(shares)
    # Rounded, so that a mean that equals the threshold on paper passes.
    soft = round(mean, 12)
    reason = "; ".join(score.reason for score in failed) or f"all {len(known)} judges passed"
    if threshold is None:
        return Score(not failed, soft, reason)
    return Score(soft >= threshold, soft, f"weighted mean {soft:.3f}, {threshold:g} passes: {reason}")


def _joined(judges: Sequence[Judge]) -> list[str]:
    parts = [part.references() for part in judges]
    alone = [answer for part in parts for answer in part]
    return [*alone, "\n\n".join(alone)] if all(parts) else []
