"""Demo seeds: how often the demo promotes, in worlds where edits help and in worlds where none does."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time

from benchmarks.doors import run

LEAST_HONEST, MOST_PLACEBO = 0.90, 0.08


def measure(n: int) -> dict[str, float | int]:
    """Return how many of `n` seeds of either world promote, and the median time of a demo in seconds."""
    promoted = {"honest": 0, "placebo": 0}
    walls: list[float] = []
    for world in promoted:
        for seed in range(n):
            with tempfile.TemporaryDirectory() as folder:
                started = time.perf_counter()
                outcome = run(None, "demo", "--dir", folder, "--world", world, "--seed", str(seed))
                walls.append(time.perf_counter() - started)
            promoted[world] += bool(outcome["promoted"])
    return {
        "honest_promoted": promoted["honest"],
        "placebo_promoted": promoted["placebo"],
        "n": n,
        "median_wall_s": round(statistics.median(walls), 3),
    }


def main() -> None:
    """Print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--short", action="store_true", help="two seeds of each")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(2 if options.short else options.seeds)
    if options.json:
        print(json.dumps(result))
    else:
        print(
            f"of {result['n']} seeds, honest worlds promoted {result['honest_promoted']} "
            f"(target >= {LEAST_HONEST:.0%}), "
            f"placebo worlds {result['placebo_promoted']} (target <= {MOST_PLACEBO:.0%}); "
            f"{result['median_wall_s']} s a demo"
        )


if __name__ == "__main__":
    main()
