"""Splits: which tasks the optimizer sees and which stay held out, and the order in which an epoch takes them."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping, Sequence

from skillopt_mcp.errors import BadInput
from skillopt_mcp.records.tasks import SPLITS, Split

EQUAL_SHARES: dict[Split, float] = {"train": 1.0, "val": 1.0, "test": 1.0}


def assign_split(counts: Mapping[Split, int], shares: Mapping[Split, float], key: str) -> Split:
    """Return the split that a new task joins: the one furthest below its share, ties by the sha256 of `key`.

    Furthest below means the fewest tasks per unit of share (Adams' apportionment): an empty split comes before any
    other, so none that has a share stays empty. Shares need not add up to 1; a split without one gets nothing.
    Raises BadInput when the shares cannot be used.
    """
    _check(shares)
    filled = {split: counts.get(split, 0) / shares[split] for split in SPLITS if shares.get(split, 0) > 0}
    least = min(filled.values())
    tied = [split for split, tasks_per_share in filled.items() if tasks_per_share == least]
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return tied[int.from_bytes(digest, "big") % len(tied)]


def epoch_order(n: int, seed: int, epoch: int) -> list[int]:
    """Return the positions 0..n-1 in the order in which this epoch visits them; another epoch has another order."""
    order = list(range(n))
    random.Random(f"epoch order {seed} {epoch}").shuffle(order)
    return order


def batches(order: Sequence[int], size: int) -> list[list[int]]:
    """Return `order` cut into batches of `size`; the last may be shorter. Raises BadInput when size < 1."""
    if size < 1:
        raise BadInput(f'batch size "{size}" is not possible; use 1 or more')
    return [list(order[start : start + size]) for start in range(0, len(order), size)]


def stratified(kinds: Sequence[str], n: int, key: str) -> list[int]:
    """Return `n` of the positions of `kinds`, in order, each kind in its share, chosen by the chance of `key`.

    All of them where there are no more than `n`. Shares are rounded by largest remainder, ties go to the rarer kind.
    """
    if n >= len(kinds):
        return list(range(len(kinds)))
    by_kind: dict[str, list[int]] = {}
    for at, kind in enumerate(kinds):
        by_kind.setdefault(kind, []).append(at)
    counts = {kind: n * len(places) // len(kinds) for kind, places in by_kind.items()}
    rest = sorted(by_kind, key=lambda kind: (-(n * len(by_kind[kind]) % len(kinds)), len(by_kind[kind]), kind))
    for kind in rest[: n - sum(counts.values())]:
        counts[kind] += 1
    chosen = [
        at for kind, places in by_kind.items() for at in random.Random(f"{key}/{kind}").sample(places, counts[kind])
    ]
    return sorted(chosen)


def shuffled(digests: Sequence[str], seed: int) -> list[int]:
    """Return the positions of `digests` in an order that the seed and the digests decide, not the order given."""
    return sorted(range(len(digests)), key=lambda at: hashlib.sha256(f"{seed}/{digests[at]}".encode()).digest())


def _check(shares: Mapping[Split, float]) -> None:
    for split, share in shares.items():
        if split not in SPLITS:
            raise BadInput(f'unknown split "{split}"; use {", ".join(SPLITS)}')
        if not math.isfinite(share) or share < 0:
            raise BadInput(f'share "{share}" of split "{split}" is not possible; use a number >= 0')
    if not any(share > 0 for share in shares.values()):
        raise BadInput("no split has a share; give at least one a number above 0, such as train=1, val=1, test=1")
