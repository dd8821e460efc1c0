"""Backend faults: 2,000 rollouts on a server that fails in every way, and the outcome of each.

    python benchmarks/backend_faults.py [--calls N] [--concurrency N] [--short] [--json]

A seventh of the attempts meet 429 (with and without Retry-After), 500, 529, a broken connection, a hang, truncated JSON
or a page of HTML. A few calls never get an answer. After 60 % of the requests the key is refused until the run is
resumed. The calls are the train tasks of one step of `replay`. The ideal time is that of the same schedule with all
connections always busy.
"""

from __future__ import annotations

import heapq
import json
import os
import random
import subprocess
import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from benchmarks.doors import CONCURRENCY, add_tasks, command, numbers_skill, parser, rows, show
from benchmarks.openai_server import Act, Plan, Server, serving

LATENCY_S = 0.2
TIMEOUT_S = 2.0
FAULTS: tuple[tuple[Act, int], ...] = (
    (Act("status", 0.01, 429, 1.0), 3),
    (Act("status", 0.01, 429), 3),
    (Act("status", 0.05, 500), 3),
    (Act("status", 0.05, 529), 2),
    (Act("reset", 0.05), 2),
    (Act("hang", TIMEOUT_S), 1),
    (Act("truncated", LATENCY_S), 2),
    (Act("html", 0.01), 2),
)
N_LOST_CAUSES = 50


def make_schedule(n_calls: int, seed: int = 1) -> list[list[Act]]:
    """Return the acts of each call: some fail once or twice, one in 50 of the first eighth always."""
    chance = random.Random(seed)
    kinds, weights = [act for act, _ in FAULTS], [weight for _, weight in FAULTS]
    schedule = []
    for n in range(n_calls):
        n_faults = chance.choices([0, 1, 2], [86, 12, 2])[0]
        acts = chance.choices(kinds, weights, k=n_faults)
        is_lost = n % N_LOST_CAUSES == N_LOST_CAUSES // 2 and n < n_calls / 8
        schedule.append([Act("status", 0.05, 500)] if is_lost else [*acts, Act(latency_s=LATENCY_S)])
    return schedule


def ideal_s(schedule: Sequence[Sequence[Act]], concurrency: int) -> float:
    """Return the wall seconds of a schedule when nothing but the server takes time."""
    fresh = deque(range(len(schedule)))
    again: list[tuple[float, int]] = []
    n_done = dict.fromkeys(fresh, 0)
    slots = [0.0] * concurrency
    end = 0.0
    while fresh or again:
        now = heapq.heappop(slots)
        if again and (again[0][0] <= now or not fresh):
            due, call = heapq.heappop(again)
            now = max(now, due)
        else:
            call = fresh.popleft()
        acts = schedule[call]
        act = acts[min(n_done[call], len(acts) - 1)]
        n_done[call] += 1
        finished = now + act.latency_s
        if act.kind != "ok" and n_done[call] < 5:
            heapq.heappush(again, (finished + (act.retry_after or 0.0), call))
        heapq.heappush(slots, finished)
        end = max(end, finished)
    return end


def run(server: Server, folder: Path, n_calls: int, concurrency: int) -> tuple[dict[int, int | None], bool]:
    """Return the score of each call (None: missing), and whether the refused key stopped the run, as it should."""
    store, skill = folder / "skillopt.db", numbers_skill(folder)
    (folder / "script.json").write_text(json.dumps({"reflect": ['{"edits": []}']}))
    # The val task is always failed: at a score of 1 the search would end before its first step.
    tasks: list[dict[str, object]] = [
        {"prompt": f"call {n}", "judge": {"kind": "exact", "expected": f"answer {n}"}, "split": "train"}
        for n in range(n_calls)
    ]
    for n, split in ((n_calls, "val"), (n_calls + 1, "test")):
        tasks.append({"prompt": f"call {n}", "judge": {"kind": "exact", "expected": "?"}, "split": split})
    add_tasks(store, skill, tasks)
    target = f"openai:m,api=chat,timeout={TIMEOUT_S},base_url={server.url}"
    backends = ["--target", target, "--optimizer", f"scripted:{folder / 'script.json'}", CONCURRENCY, str(concurrency)]
    settings = ["--epochs", "1", "--batch", str(n_calls)]
    was_refused = _replay(store, skill, [*backends, *settings])
    if was_refused:
        server.accept_key()
        if _replay(store, skill, [*backends, "--resume"]):
            raise SystemExit("the run stopped once more")
    scored = rows(store, "select t.prompt, r.hard from trial r join task t on t.id = r.task_id where t.split = 'train'")
    return {int(prompt.split()[1]): hard for prompt, hard in scored}, was_refused


def _replay(store: Path, skill: Path, options: list[str]) -> bool:
    """Return whether the run stopped before its end."""
    done = subprocess.run(
        command(store, "replay", str(skill), *options, "--yes", "--json"), capture_output=True, text=True, check=False,
        env={**os.environ, "OPENAI_API_KEY": "none"}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    return done.returncode == 1


def measure(n_calls: int, concurrency: int) -> dict[str, object]:
    """Return the figures of one run."""
    schedule = make_schedule(n_calls)
    with serving(Plan(schedule, refuse_after=n_calls * 6 // 10)) as server, tempfile.TemporaryDirectory() as folder:
        scores, was_refused = run(server, Path(folder).resolve(), n_calls, concurrency)
        seen = server.seen()
    is_answered = [acts[-1].kind == "ok" for acts in schedule]
    return {
        "calls": n_calls,
        "lost": sum(is_answer and scores.get(n) != 1 for n, is_answer in enumerate(is_answered)),
        "paid_twice": sum(times - 1 for call, times in seen.answered.items() if call in range(n_calls)),
        "scored_faults": sum(not is_answer and scores.get(n) is not None for n, is_answer in enumerate(is_answered)),
        "wall_vs_ideal": round(seen.busy_s / ideal_s(schedule, concurrency), 2),
        "wall_s": round(seen.busy_s, 1),
        "missing": sum(scores.get(n) is None for n in range(n_calls)),
        "stopped_at_refused_key": was_refused,
    }


def main() -> None:
    """Print the figures."""
    flags = parser(__doc__, "a tenth of the calls")
    flags.add_argument("--calls", type=int, default=2000, help="calls of the schedule (default 2000)")
    flags.add_argument("--concurrency", type=int, default=16, help="calls at once (default 16)")
    options = flags.parse_args()
    figures = measure(options.calls // 10 if options.short else options.calls, options.concurrency)
    show(figures, options.json, lost="0", paid_twice="0", scored_faults="0", wall_vs_ideal="1.3 or less")


if __name__ == "__main__":
    main()
