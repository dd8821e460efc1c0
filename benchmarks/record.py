"""Record: a durable record_trajectory of 4 KB over stdio and a no-op tool of a bare MCPServer, in turns."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.doors import BARE, StdioHost, ours, parser, show

TARGET_RATIO = 1.35
PAYLOAD_BYTES = 4096
_N_MESSAGES = 8
_N_WARM = 50


def trajectory(skill: Path, index: int) -> dict[str, object]:
    """Return the arguments of one recording, PAYLOAD_BYTES of messages that differ from all others."""
    text = (f"attempt {index}: read the file, changed the call, ran the tests again. " * 20)[
        : PAYLOAD_BYTES // _N_MESSAGES - 40
    ]
    messages = [{"role": ("user", "assistant")[n % 2], "content": f"{n} {text}"} for n in range(_N_MESSAGES)]
    return {
        "skill": str(skill),
        "task": f"Fix the failing test number {index}",
        "hard": index % 3 > 0,
        "answer": "done",
        "messages": messages,
        "session_id": "benchmark",
        "index": index,
    }


def measure(n_calls: int) -> dict[str, float]:
    """Return p50 and p99 in ms over `n_calls` calls of each server; the store is made and warm before."""
    times: dict[str, list[float]] = {"ours": [], "noop": []}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        skill = place / "skills" / "testing"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text("---\nname: testing\ndescription: Fix tests.\n---\n\nRead the error first.\n")
        with StdioHost(ours(place / "store.db"), place) as host, StdioHost(BARE, place) as bare:
            for index in range(n_calls + _N_WARM):
                arguments = trajectory(skill, index)
                times["ours"].append(host.call_ms("record_trajectory", arguments))
                times["noop"].append(bare.call_ms("record_trajectory", arguments))
    mine, noop = times["ours"][_N_WARM:], times["noop"][_N_WARM:]
    ours_p50, noop_p50 = statistics.median(mine), statistics.median(noop)
    return {
        "ours_ms_p50": round(ours_p50, 3),
        "noop_ms_p50": round(noop_p50, 3),
        "ours_ms_p99": round(statistics.quantiles(mine, n=100)[-1], 3),
        "ratio": round(ours_p50 / noop_p50, 3),
    }


def main() -> None:
    """Print the figures."""
    flags = parser(__doc__, "300 calls")
    flags.add_argument("--calls", type=int, default=1000)
    options = flags.parse_args()
    show(measure(300 if options.short else options.calls), options.json, ratio=f"{TARGET_RATIO} or less")


if __name__ == "__main__":
    main()
