"""Backend faults: 2,000 rollouts on a server that fails in every way, and what became of each of them.

    python benchmarks/backend_faults.py [--calls N] [--slots N] [--short] [--json]

A seventh of the attempts meet 429 (with and without Retry-After), 500, 529, a reset in mid-body, a hang, truncated JSON
or a page of HTML; a few calls never get an answer; and after 60 % of the requests the key is refused until the run is
resumed. The ideal is the same schedule without any work of ours: every slot always busy, no waits but those that the
server asks for.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.openai_server import Act, Plan, Server, serving
from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.calls.asking import Asker
from skillopt_mcp.errors import BackendError
from skillopt_mcp.records.evidence import Trial
from skillopt_mcp.records.judging import Exact
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.stages.rollout import Attempt, rollout
from skillopt_mcp.store.opening import Store

LATENCY_S = 0.2
TIMEOUT_S = 2.0
SKILL = SkillFiles((SkillFile(MAIN_FILE, b"# Skill\nAnswer with the number of the call.\n"),))
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


class Outcome(NamedTuple):
    """The trials of a run, its wall seconds, and whether the refused key stopped it, as it should."""

    trials: Sequence[Trial]
    wall_s: float
    was_refused: bool


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


def ideal_s(schedule: Sequence[Sequence[Act]], n_slots: int) -> float:
    """Return the wall seconds of a schedule when nothing but the server takes time."""
    fresh = deque(range(len(schedule)))
    again: list[tuple[float, int]] = []
    n_done = dict.fromkeys(fresh, 0)
    slots = [0.0] * n_slots
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


def run(server: Server, folder: Path, n_calls: int, n_slots: int) -> Outcome:
    """Return what becomes of the calls, on a key that is refused on the way and made good when the run has stopped."""
    tasks = [
        Task(n, 1, f"t{n}", f"call {n}", Exact(kind="exact", expected=f"answer {n}"), "train", f"{n:064x}")
        for n in range(n_calls)
    ]
    backend = open_backend(f"openai:m,api=chat,timeout={TIMEOUT_S},base_url={server.url}")
    started = time.perf_counter()
    was_refused = False
    with Store(folder / "kept" / "skillopt.db") as store:
        try:
            trials = _rolled(store, backend, tasks, n_slots)
        except BackendError:
            was_refused = True
            server.accept_key()
            trials = _rolled(store, backend, tasks, n_slots)
    return Outcome(trials, time.perf_counter() - started, was_refused)


def _rolled(store: Store, backend: Backend, tasks: Sequence[Task], n_slots: int) -> list[Trial]:
    with Asker(store, {"target": backend}, "run", n_slots=n_slots) as ask:
        return rollout(ask, [Attempt(SKILL, task, "run/1") for task in tasks])


def measure(n_calls: int, n_slots: int) -> dict[str, object]:
    """Return the figures of one run."""
    schedule = make_schedule(n_calls)
    with serving(Plan(schedule, refuse_after=n_calls * 6 // 10)) as server, tempfile.TemporaryDirectory() as folder:
        outcome = run(server, Path(folder), n_calls, n_slots)
        answered = server.answered()
    answers = [acts[-1].kind == "ok" for acts in schedule]
    pairs = list(zip(answers, outcome.trials, strict=True))
    return {
        "calls": n_calls,
        "lost": sum(is_answer and trial.hard is not True for is_answer, trial in pairs),
        "paid_twice": sum(n - 1 for n in answered.values()),
        "scored_faults": sum(not is_answer and not trial.missing for is_answer, trial in pairs),
        "wall_vs_ideal": round(outcome.wall_s / ideal_s(schedule, n_slots), 2),
        "wall_s": round(outcome.wall_s, 1),
        "missing": sum(trial.missing for trial in outcome.trials),
        "stopped_at_refused_key": outcome.was_refused,
    }


def main() -> int:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000, help="calls of the schedule (default 2000)")
    parser.add_argument("--slots", type=int, default=16, help="calls under way at once (default 16)")
    parser.add_argument("--short", action="store_true", help="a fifth of the calls")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    figures = measure(options.calls // 5 if options.short else options.calls, options.slots)
    if options.json:
        print(json.dumps(figures))
        return 0
    print(f"calls on the schedule      {figures['calls']:>8}")
    print(f"answers lost               {figures['lost']:>8}   (target: 0)")
    print(f"answers paid twice         {figures['paid_twice']:>8}   (target: 0)")
    print(f"faults that became scores  {figures['scored_faults']:>8}   (target: 0)")
    print(f"wall time / ideal          {figures['wall_vs_ideal']:>8}   (target: 1.3 or less)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
