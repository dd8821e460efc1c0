"""Serving at rest: the names that models answered by, in whoever's words served them."""

from __future__ import annotations

from typing import NamedTuple, cast

from skillopt_mcp.gates.serving import Arm, Serving
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.store.pool import Pool

# The draws of a test begin with its name and the number of the pair.
_OF_TEST = (
    "select t.version_id, s.name, count(*), min(cast(substr(c.draw, length(?1) + 2) as integer)) from trial t"
    " join call c on c.id = t.call_id join reply r on r.call_id = c.id join served s on s.id = r.served where t.scope = ?1"
    " group by t.version_id, s.name order by 4, 2"
)
_OF_SCOPE = (
    "select c.role, s.name, count(*) from call c join reply r on r.call_id = c.id join served s on s.id = r.served"
    " where c.scope = ? group by c.role, s.name order by min(c.id)"
)


class ServedBy(NamedTuple):
    """A name that answers were served by: whose they were (an arm of a test, or a role), and how many."""

    whose: str
    name: str
    n: int
    first: int = 0


class Servings:
    """Tables served and reply."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def list_of_test(self, row: ConfirmationRow) -> list[ServedBy]:
        """Return by which names the attempts of a test were served, of either arm, and from which pair on."""
        rows = self._pool.rows(_OF_TEST, [row.id])
        return [
            ServedBy(_arm(row, version), str(name), cast(int, n), cast(int, first)) for version, name, n, first in rows
        ]

    def list_of_scope(self, scope: str) -> list[ServedBy]:
        """Return by which names the calls of a run or a test were served, of each role."""
        rows = self._pool.rows(_OF_SCOPE, [scope])
        return [ServedBy(str(role), str(name), cast(int, n)) for role, name, n in rows]

    def serving(self, row: ConfirmationRow) -> Serving:
        """Return which models answered in a test's pairs, for either version."""
        serving = Serving()
        for each in self.list_of_test(row):
            serving.take(each.first, cast(Arm, each.whose), each.name)
        return serving


def _arm(row: ConfirmationRow, version: object) -> Arm:
    return "candidate" if version == row.version_id else "base"
