"""Splitting: how the tasks of a data set come into train, val and test."""

from __future__ import annotations

import re
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.records.tasks import SPLITS, Split

Mode = Literal["ratio", "split_dir"]
DEFAULT_RATIO = "2:1:7"
DEFAULT_SEED = 42
_RATIO = re.compile(r"([0-9]{1,6}):([0-9]{1,6}):([0-9]{1,6})")


class SplitPlan(BaseModel):
    """By `ratio` (shares of train, val and test, drawn by `seed`), or as the folders of a split_dir have it."""

    model_config = ConfigDict(frozen=True)
    mode: Mode
    ratio: str = DEFAULT_RATIO
    seed: int = DEFAULT_SEED

    @property
    def shares(self) -> dict[Split, float]:
        """Return the share of each split."""
        return dict(zip(SPLITS, map(float, self.ratio.split(":")), strict=True))


def split_plan(mode: str, ratio: str | None = None, seed: object = None) -> SplitPlan:
    """Return the plan that these words name, defaults where they are None. Raises BadInput with what is possible."""
    if mode not in ("ratio", "split_dir"):
        raise BadInput(f"unknown split mode {quoted(mode)}: use ratio or split_dir")
    wanted = DEFAULT_RATIO if ratio is None else ratio.strip()
    found = _RATIO.fullmatch(wanted)
    if not found or not all(int(part) for part in found.groups()):
        raise BadInput(f"ratio {quoted(wanted)} is not possible: write train:val:test above 0, such as {DEFAULT_RATIO}")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise BadInput(f"split seed {quoted(str(seed))} is no whole number")
    return SplitPlan(mode=cast(Mode, mode), ratio=wanted, seed=DEFAULT_SEED if seed is None else seed)
