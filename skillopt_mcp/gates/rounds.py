"""Rounds: what can be shown of these very tasks, by bets on whole rounds of every task once per arm.

A gambler who bets a fixed share on each difference has a wealth that is a nonnegative supermartingale while the mean is
at most 0, so that it reaches 20 with a chance of at most 5 %, however often one looks (Waudby-Smith and Ramdas 2024;
Ville). The mean is that of the tasks: the product over a round is largest where all tasks have the mean (AM-GM).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skillopt_mcp.core.evidence import Verdict

BETS = ((0.2, 0.2), (0.45, 0.45), (0.85, 0.35))
"""The gamblers: (share that is bet, first stake); the stakes add up to 1."""
ENOUGH = 20.0
MAX_PAIRS = 1_200
SMALL_SUITE_PAIRS = 60
DEFAULT_MARGIN = 0.10


def read_rounds(
    rounds: Iterable[Sequence[float]], margin: float | None, max_pairs: int = MAX_PAIRS
) -> tuple[Verdict | None, int]:
    """Return the verdict on rounds of differences, candidate less base, and how many rounds it rests on.

    With a `margin` it is `no_worse` where a loss of that much is excluded, else `better_here`; `worse_here` where any
    gain is; `cant_tell` where no further round fits into `max_pairs`; None before.
    """
    shift = margin or 0.0
    good: Verdict = "better_here" if margin is None else "no_worse"
    claims: dict[Verdict, list[float]] = {
        good: [stake for _, stake in BETS],
        "worse_here": [stake for _, stake in BETS],
    }
    n = n_pairs = 0
    for n, differences in enumerate(rounds, start=1):
        for difference in differences:
            for claim, value in ((good, (difference + shift) / (1 + shift)), ("worse_here", -difference)):
                claims[claim] = [
                    stake * (1 + share * value) for stake, (share, _) in zip(claims[claim], BETS, strict=True)
                ]
        n_pairs += len(differences)
        for claim, stakes in claims.items():
            if sum(stakes) >= ENOUGH:
                return claim, n
        if n_pairs + len(differences) > max_pairs:
            return "cant_tell", n
    return None, n
