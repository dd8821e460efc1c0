"""Host cost: the tool calls and tokens that a host spends when it does the work itself.

    python benchmarks/host_cost.py [--seed N] [--short] [--json]

A scripted host proposes by reflection (with two train rollouts) and takes the candidate to its verdict over stdio.
Tokens are characters / 4 of all tool calls and answers, and of the files that agents read and wrote; what an agent
thinks is not counted. The estimate is the one that was shown before the first work.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.doors import StdioHost, add_tasks, command, ours, parser, run_as_person, show
from benchmarks.host_agent import Agent, items_of
from benchmarks.simulation import LESSONS, task_rows, write_skill

N_TASKS = 90
CHARS_PER_TOKEN = 4
ROLLOUTS = 2
TRAINED_ON = 8
MAX_TESTS = 8


@dataclass(frozen=True, slots=True)
class Spent:
    """What one job took: calls of tools, pieces of work, and characters that tools and agents exchanged."""

    calls: int
    items: int
    tool_chars: int
    work_chars: int

    @property
    def tokens(self) -> int:
        """Return all characters as tokens."""
        return (self.tool_chars + self.work_chars) // CHARS_PER_TOKEN


class Meter:
    """A host that counts what it says, hears and has its agents read."""

    def __init__(self, host: StdioHost, seed: int) -> None:
        self._host, self._agent = host, Agent(seed)
        self._calls = self._items = self._tool_chars = self._work_chars = 0

    def call(self, tool: str, arguments: dict[str, object]) -> dict[str, object]:
        """Return what a tool answers."""
        answer = self._host.call(tool, arguments)
        self._calls += 1
        self._tool_chars += len(json.dumps(arguments)) + len(json.dumps(answer, separators=(",", ":")))
        return answer

    def finish(self, standing: dict[str, object], max_items: int) -> dict[str, object]:
        """Return the result of a job once all of its work is done."""
        while standing.get("status") == "work":
            for item in items_of(standing["work"]):
                folder = Path(item.folder)
                self._work_chars += sum(len(path.read_text()) for path in folder.rglob("*") if path.is_file())
                self._work_chars += len(self._agent.do(str(folder)))
                self._items += 1
            standing = self.call("submit_work", {"job_id": standing["job_id"], "max_items": max_items})
        return standing

    def spent(self) -> Spent:
        """Return what was spent since the last time."""
        spent = Spent(self._calls, self._items, self._tool_chars, self._work_chars)
        self._calls = self._items = self._tool_chars = self._work_chars = 0
        return spent


def measure(seed: int, max_items: int) -> dict[str, object]:
    """Return the figures of one loop, with so many pieces of work at a time."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        store, skill = place / "store.db", write_skill(place, seed)
        add_tasks(store, skill, task_rows(N_TASKS, seed))
        with StdioHost(ours(store), place) as host:
            for row in task_rows(6, seed + 1):
                failed = {"task": row["prompt"], "answer": "0.00", "hard": False, "reason": "wrong"}
                host.call("record_trajectory", {"skill": str(skill), **failed})
            meter = Meter(host, seed)
            proposing = {"skill": str(skill), "rollouts": ROLLOUTS}
            meter.finish(meter.call("propose_edits", proposing), max_items)
            step = meter.spent()
            edits = [{"op": "append", "content": f"- {lesson}"} for lesson in LESSONS]
            candidate = meter.call("propose_edits", {"skill": str(skill), "edits": edits})["candidate_id"]
            meter.spent()
            began = meter.call("evaluate_candidate", {"candidate_id": candidate})
            first = meter.call("submit_work", {"job_id": began["job_id"], "max_items": max_items})
            evaluated = meter.finish(first, max_items)["evaluated"]
            assert isinstance(evaluated, dict)
    test = meter.spent()
    estimate = began["estimate"]
    assert isinstance(estimate, dict)
    return {
        "max_items": max_items,
        "accepted": evaluated["accepted"],
        "runs": test.items,
        "round_trips_per_run": round(test.calls / test.items, 2),
        "tokens_per_run": round(test.tokens / test.items),
        "tool_tokens_per_run": round(test.tool_chars / CHARS_PER_TOKEN / test.items),
        "estimated_runs": estimate["attempts"],
        "estimated_tokens_read_per_run": estimate["tokens_each"],
        "round_trips_per_step": step.calls,
        "tokens_per_step": step.tokens,
        "runs_per_step": step.items,
    }


def two_accepts(seed: int, max_items: int) -> dict[str, object]:
    """Return what a session does from recorded attempts to two promoted edits: its calls of tools, and agent runs."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        store, skill = place / "store.db", write_skill(place, seed)
        add_tasks(store, skill, task_rows(N_TASKS, seed))
        n_tests = n_accepted = 0
        with StdioHost(ours(store), place) as host:
            meter = Meter(host, seed)
            while n_accepted < 2 and n_tests < MAX_TESTS:
                proposing = meter.call("propose_edits", {"skill": str(skill), "rollouts": TRAINED_ON})
                proposed = meter.finish(
                    meter.call("submit_work", {"job_id": proposing["job_id"], "max_items": max_items}), max_items
                )
                candidate = proposed["proposed"]["candidate_id"]  # type: ignore[index]
                if candidate is None:
                    continue
                began = meter.call("evaluate_candidate", {"candidate_id": candidate})
                first = meter.call("submit_work", {"job_id": began["job_id"], "max_items": max_items})
                evaluated = meter.finish(first, max_items)["evaluated"]
                n_tests += 1
                if evaluated["accepted"]:  # type: ignore[index]
                    n_accepted += 1
                    run_as_person(command(store, "promote", str(candidate), "--yes"), cwd=place)
    spent = meter.spent()
    return {
        "session_calls_to_two_accepts": spent.calls,
        "runs_to_two_accepts": spent.items,
        "tests": n_tests,
        "accepted": n_accepted,
    }


def fixed_costs() -> dict[str, object]:
    """Return what a host reads of a server at its start: tokens of the tools' list, characters of the instructions."""
    with tempfile.TemporaryDirectory() as folder, StdioHost(ours(Path(folder) / "store.db"), Path(folder)) as host:
        tools = json.loads(host.request("tools/list", {}))["result"]["tools"]
        instructions = host.initialized["instructions"]
    shown = [{name: tool[name] for name in ("name", "description", "inputSchema")} for tool in tools]
    listed = len(json.dumps(shown, separators=(",", ":"))) // CHARS_PER_TOKEN
    return {"tools_list_tokens": listed, "instructions_chars": len(instructions)}


def main() -> None:
    flags = parser(__doc__, "only with four work items at a time")
    flags.add_argument("--seed", type=int, default=3)
    options = flags.parse_args()
    rows = [measure(options.seed, n) for n in ((4,) if options.short else (1, 4, 16))]
    usual = rows[0] if options.short else rows[1]
    shared = {name: usual[name] for name in ("round_trips_per_run", "tokens_per_run")}
    show({**shared, **two_accepts(options.seed, 24), **fixed_costs(), "rows": rows}, options.json)


if __name__ == "__main__":
    main()
