"""Caps: random hard caps on calls, tokens and money, 64 calls at once, and whether a call was ever sent above a cap.

    python benchmarks/caps.py [--runs N] [--short] [--json]

Each run is a `replay` with up to 400 calls, resumed once under the same caps. A tenth of the attempts fail, some of
them paid. The server that simulates the model counts the calls.
"""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.doors import CONCURRENCY, add_tasks, command, numbers_skill, parser, show
from benchmarks.openai_server import Act, Plan, serving

WORKERS = 64
CALLS = 400
MOST_OUT, PRICE_IN, PRICE_OUT = 300, 10.0, 30.0


class Caps(NamedTuple):
    """What a run may use."""

    calls: int | None
    tokens: int | None
    usd: float | None


def random_caps(chance: random.Random) -> Caps:
    """Return caps on one, two or three of calls, tokens and money, tight enough to be reached."""
    kinds = chance.sample(["calls", "tokens", "usd"], chance.randint(1, 3))
    share = chance.uniform(0.0, 0.9)
    return Caps(
        calls=1 + round(share * CALLS) if "calls" in kinds else None,
        tokens=2000 + round(share * CALLS * 200) if "tokens" in kinds else None,
        usd=round(0.03 + share * CALLS * 0.005, 4) if "usd" in kinds else None,
    )


def random_acts(chance: random.Random) -> list[Act]:
    """Return what becomes of one call: it may fail once or twice before it is answered."""

    def act() -> Act:
        kind = "ok" if chance.random() > 0.1 else chance.choice(["status", "status", "truncated"])
        status = chance.choice([429, 500]) if kind == "status" else 200
        used = (chance.randint(1, 50), chance.randint(1, MOST_OUT)) if kind != "status" else (0, 0)
        return Act(kind, chance.uniform(0, 0.002), status, None, *used)  # type: ignore[arg-type]

    return [act(), act(), Act("ok", 0.0, tokens_in=20, tokens_out=MOST_OUT)]


def past_cap(caps: Caps, sent: Sequence[Act]) -> int:
    """Return how many of the calls, in the order they were sent, went out above a cap."""
    n_past, tokens, usd = 0, 0, 0.0
    for n, act in enumerate(sent, 1):
        tokens += act.tokens_in + act.tokens_out
        usd += (act.tokens_in * PRICE_IN + act.tokens_out * PRICE_OUT) / 1e6
        over = (caps.calls is not None and n > caps.calls) or (caps.tokens is not None and tokens > caps.tokens)
        n_past += over or (caps.usd is not None and usd > caps.usd + 1e-9)
    return n_past


def measure(n: int) -> tuple[int, int]:
    """Return how many calls the n-th run sent, and how many of them past its cap."""
    chance = random.Random(n)
    caps = random_caps(chance)
    plan = Plan([random_acts(chance) for _ in range(CALLS)])
    with tempfile.TemporaryDirectory() as name, serving(plan) as server:
        folder = Path(name).resolve()
        store, skill = folder / "skillopt.db", numbers_skill(folder)
        add_tasks(store, skill, [
            {"prompt": f"call {at}", "judge": {"kind": "exact", "expected": "?"},
             "split": "train" if at < CALLS - 2 else "val" if at == CALLS - 2 else "test"}
            for at in range(CALLS)
        ])  # fmt: skip
        model = f"openai:m,api=chat,max_tokens={MOST_OUT},price_in={PRICE_IN},price_out={PRICE_OUT}"
        backends = ["--target", f"{model},base_url={server.url}", "--optimizer", "simulated:honest"]
        settings = ["--epochs", "1", "--batch", str(CALLS)]
        settings += [part for name, cap in caps._asdict().items() if cap for part in (f"--max-{name}", str(cap))]
        for options in (settings, ["--resume"]):
            done = subprocess.run(
                command(store, "replay", str(skill), *backends, *options, CONCURRENCY, str(WORKERS), "--yes"),
                capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                env={**os.environ, "OPENAI_API_KEY": "none"},
            )  # fmt: skip
            if done.returncode not in (0, 1):
                raise SystemExit(done.stderr)
        sent = server.seen().acts
    return len(sent), past_cap(caps, sent)


def main() -> None:
    """Print the figures."""
    flags = parser(__doc__, "one random cap")
    flags.add_argument("--runs", type=int, default=100, help="random caps to try (default 100)")
    options = flags.parse_args()
    counts = [measure(n) for n in ([1] if options.short else range(options.runs))]
    figures = {
        "runs": len(counts),
        "calls_past_cap": sum(n_past for _, n_past in counts),
        "calls_sent": sum(n_sent for n_sent, _ in counts),
    }
    show(figures, options.json, calls_past_cap="0")


if __name__ == "__main__":
    main()
