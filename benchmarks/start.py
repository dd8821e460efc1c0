"""Start: the time from spawn to `initialize` answered and of a bare MCPServer of the same SDK, in turns."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.doors import BARE, StdioHost, ours, parser, show

TARGET_RATIO = 1.15


def measure(n_rounds: int) -> dict[str, float]:
    """Return the medians in ms over `n_rounds` starts of each server, after one start of each that does not count."""
    times: dict[str, list[float]] = {"ours": [], "bare": []}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for _ in range(n_rounds + 1):
            for name, command in (("ours", ours(place / "store.db")), ("bare", BARE)):
                with StdioHost(command, place) as host:
                    times[name].append(host.start_ms)
    ours_ms, bare_ms = (statistics.median(times[name][1:]) for name in ("ours", "bare"))
    return {"ours_ms": round(ours_ms, 1), "bare_ms": round(bare_ms, 1), "ratio": round(ours_ms / bare_ms, 3)}


def main() -> None:
    """Print the figures."""
    flags = parser(__doc__, "3 rounds")
    flags.add_argument("--rounds", type=int, default=15)
    options = flags.parse_args()
    show(measure(3 if options.short else options.rounds), options.json, ratio=f"{TARGET_RATIO} or less")


if __name__ == "__main__":
    main()
