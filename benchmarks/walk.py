"""Walk: the promotion test before this one, which asked all attempts of a unit before the next, to compare with."""

from __future__ import annotations

from collections.abc import Sequence

SCREEN_ALPHA = 0.2
WAVE = 8


class Walk:
    """A sequential test over the net results of units, in order; `verdict` is None while it goes on."""

    def __init__(self, n_units: int, largest: int, alpha: float) -> None:
        self.n_units, self.largest, self.alpha = n_units, largest, alpha
        self.n_seen, self.total, self.spent = 0, 0, 0.0
        self.verdict: str | None = None
        self._lowest, self._paths = 0, [1.0]  # P0(total = lowest + i, not accepted yet)

    def take(self, net: int) -> None:
        """Take in the net result of the next unit."""
        self.n_seen += 1
        self.total += net
        if net:
            none = [0.0] * (2 * abs(net))
            self._lowest -= abs(net)
            self._paths = [(up + down) / 2 for up, down in zip(none + self._paths, self._paths + none, strict=True)]
        most, tail = self.alpha * self.n_seen / self.n_units - self.spent + 1e-12, 0.0
        while self._lowest + len(self._paths) > 1 and tail + self._paths[-1] <= most:
            tail += self._paths.pop()
        self.spent += tail
        n, of, far = self.n_seen, self.n_units, self.largest
        if self.total >= self._lowest + len(self._paths):
            self.verdict = "better"
        elif self.total <= -2 * far or (3 * n >= of and self.total <= -far) or (2 * n >= of and self.total <= 0):
            self.verdict = "not_better"
        elif n == of:
            self.verdict = "cant_tell"


def walked(alpha: float, nets: Sequence[int], k: int) -> Walk:
    """The test over these net results, up to its verdict."""
    walk = Walk(len(nets), k, alpha)
    for net in nets:
        walk.take(net)
        if walk.verdict:
            break
    return walk


def attempts_per_arm(n_units: int, *, repeats: bool) -> int:
    """How many attempts each arm made at a unit."""
    return 1 if repeats else 5 if n_units < 20 else 3


def tested(
    k: int, alpha: float, candidate: Sequence[int], fresh: Sequence[int], known: Sequence[int] | None
) -> tuple[str | None, int]:
    """The verdict and the runs in whole waves: passes of k attempts by unit, a screen first where the base is known."""

    def runs(walk: Walk) -> int:
        return min(len(fresh), -(-walk.n_seen // WAVE) * WAVE)

    n_candidate = 0
    if known is not None:
        screen = walked(SCREEN_ALPHA, [new - old for new, old in zip(candidate, known, strict=True)], k)
        n_candidate = runs(screen)
        if screen.verdict != "better":
            return screen.verdict, k * n_candidate
    walk = walked(alpha, [new - old for new, old in zip(candidate, fresh, strict=True)], k)
    return walk.verdict, k * (max(n_candidate, runs(walk)) + runs(walk))
