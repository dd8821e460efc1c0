"""Spending: what share of a skill's lifetime error budget each promotion test may use."""

from __future__ import annotations

import math

from skillopt_mcp.errors import BadInput

_N_EXACT = 1000


def alpha_for(j: int, alpha: float) -> float:
    """Return the least error rate of a skill's j-th test (1-based); over all j they add up to `alpha`."""
    if j < 1:
        raise BadInput(f'test number "{j}" is not possible; tests count from 1')
    return alpha * 6 / (math.pi**2 * j**2)


def refund(alpha: float, wealth: float) -> float:
    """Return the error budget that a test at `alpha` gives back when it is rejected for good with this wealth.

    The wealth starts at 1 and is a supermartingale, so P(false accept) <= alpha (1 - E[wealth at the end; no accept]):
    a test that ends without an accept has used only 1 - wealth of its chance. What stays spent covers, in expectation
    given the past, each test's chance of a false accept, and it never adds up to more than the lifetime alpha on any
    path. So the chance of ever accepting a candidate that is no better is at most that alpha, whatever the others are.
    A wealth above 1 gives back no more than was put in.
    """
    return alpha * min(1.0, max(0.0, wealth))


def next_alpha(j: int, alpha: float, staked: float, refunded: float) -> float:
    """Return the error rate of a skill's j-th test, of which the earlier ones staked and gave back so much of `alpha`.

    It takes the share of what is left that alpha_j is of what all tests from the j-th on would take: with nothing given
    back that is alpha_j, else more. Under changing alphas the largest one holds. Raises BadInput when j < 1.
    """
    left = alpha - staked + refunded
    return max(alpha_for(j, alpha), left * _share(j))


def _share(j: int) -> float:
    """Return 1/j^2 over the sum of 1/i^2 from i = j on."""
    if j > _N_EXACT:
        # The tail of the sum lies between 1/j and 1/(j - 1); the larger one asks for less, and so is on the safe side.
        return (j - 1) / j**2
    return 1 / j**2 / (math.pi**2 / 6 - math.fsum(1 / i**2 for i in range(1, j)))
