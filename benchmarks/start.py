"""Start: what comes before the first answer, ours and the peer's, in turns.

The server beside a bare MCPServer of the same SDK: time from spawn to `initialize` answered, the median. `skills`
beside `sqlite-utils tables` on the same store: CPU time (user and system), the minimum. Both run from bytecode, as they
do once they are installed.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.doors import BARE, StdioHost, command, numbers_skill, ours, parser, run, show

TARGET_RATIO = 1.15
CPU_RATIO = 1.0


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


def measure_cpu(n_rounds: int) -> dict[str, float]:
    """Return the CPU of `skills` and of `sqlite-utils tables` in ms; {} where no sqlite-utils is installed."""
    beside = Path(sys.executable).with_name("sqlite-utils")
    peer = str(beside) if beside.exists() else shutil.which("sqlite-utils")
    if peer is None:
        return {}
    times: dict[str, list[float]] = {"skills": [], "sqlite_utils": []}
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store.db"
        run(store, "skills", "track", str(numbers_skill(Path(folder))))
        commands = (("skills", command(store, "skills")), ("sqlite_utils", [peer, "tables", str(store)]))
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        for _ in range(n_rounds + 1):  # the first one writes the bytecode, and is not the minimum
            for name, argv in commands:
                process = subprocess.Popen(argv, cwd=folder, env=env, stdout=subprocess.DEVNULL)
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                if process.returncode:
                    raise SystemExit(f"{' '.join(argv)} ended with {process.returncode}")
                times[name].append(1000 * (used.ru_utime + used.ru_stime))
    skills_ms, peer_ms = (min(each) for each in times.values())
    return {
        "skills_cpu_ms": round(skills_ms, 1),
        "sqlite_utils_cpu_ms": round(peer_ms, 1),
        "cpu_ratio": round(skills_ms / peer_ms, 3),
    }


def main() -> None:
    """Print the figures."""
    flags = parser(__doc__, "3 rounds")
    flags.add_argument("--rounds", type=int, default=15)
    options = flags.parse_args()
    figures = measure(3 if options.short else options.rounds) | measure_cpu(3 if options.short else 10)
    show(figures, options.json, ratio=f"{TARGET_RATIO} or less", cpu_ratio=f"{CPU_RATIO} or less")


if __name__ == "__main__":
    main()
