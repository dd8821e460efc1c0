"""Start: the time from spawn to `initialize` answered, beside a bare MCPServer of the same SDK, in turns."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from benchmarks.doors import BARE, StdioHost, ours

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
    """Print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--short", action="store_true", help="3 rounds")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(3 if options.short else options.rounds)
    if options.json:
        print(json.dumps(result))
    else:
        print(
            f"spawn to initialize: ours {result['ours_ms']} ms, bare MCPServer {result['bare_ms']} ms, "
            f"ratio {result['ratio']} (target <= {TARGET_RATIO})"
        )


if __name__ == "__main__":
    main()
