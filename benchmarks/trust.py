"""Trust: what a poisoned session, a hostile file or a broken machine can do, in one object.

    python benchmarks/trust.py [--json] [--short]

Nothing here has an established peer: each figure is an attack on our own processes, through their front doors.
"""

from __future__ import annotations

from benchmarks.doors import parser, show
from benchmarks.hostile_body import peak_rss_mb_hostile_body
from benchmarks.judge_sockets import socket_reached
from benchmarks.redaction import MOST_BYTES, secrets
from benchmarks.redteam import figures
from benchmarks.store_trust import foreign_work_deleted, read_ms_behind_30_writes, wal_deleted_unnoticed

TARGETS = {
    "poisons": "copied and reworded 0 live without consent, honest held 0.03 of n",
    "secrets": "0.95 found, 0.00001 of prose changed",
    "wal_deleted_unnoticed": "0",
    "foreign_work_deleted": "0",
    "socket_reached": "0",
    "peak_rss_mb_hostile_body": "250",
    "read_ms_behind_30_writes": "200",
}
_SHORT_BYTES = 1_500_000


def measure(*, short: bool = False) -> dict[str, object]:
    """Return every figure; `socket_reached` is None without bubblewrap."""
    poisons = figures(short=short)
    return {
        "poisons": {name: poisons[name] for name in ("copied", "reworded", "honest")},
        "secrets": secrets(most_bytes=_SHORT_BYTES if short else MOST_BYTES),
        "wal_deleted_unnoticed": wal_deleted_unnoticed(short),
        "foreign_work_deleted": foreign_work_deleted(),
        "socket_reached": socket_reached(),
        "peak_rss_mb_hostile_body": peak_rss_mb_hostile_body(),
        "read_ms_behind_30_writes": read_ms_behind_30_writes(),
    }


def main() -> None:
    """Print the figures."""
    options = parser(__doc__, "a part of the poisons, lessons and texts").parse_args()
    show(measure(short=options.short), options.json, **TARGETS)


if __name__ == "__main__":
    main()
