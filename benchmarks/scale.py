"""Scale: attempts on a Ray cluster of several nodes, while workers, a node and the driver are killed.

    python benchmarks/scale.py [--short] [--json]

A cluster of 4 nodes with 50 slots each runs on this machine (its CPUs are said, not there); the model is a server that
sleeps, and counts from outside what it is asked. A baseline is measured by `evaluate --ray` while three actors are
killed, a node is removed and the driver is killed three times; an edit is tested while two more actors are killed. Both
are compared with `evaluate` alone. Then the CPU time of a driver is compared with that of a bare loop over the
same actors, and its memory is looked at after a tenth of the calls and after all. Needs Ray: 'skillopt-mcp[ray]'.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from math import inf
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

from benchmarks.doors import add_own_tasks, command, numbers_skill, parser, rows, show, vendor
from skillopt_mcp.backends.cluster import _Worker
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.core.calls import Call, RayOptions, Rollout
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.tasks.judges.kinds.text import Exact
from skillopt_mcp.workspace.workspace import Workspace

N_NODES, SLOTS = 4, 50
SLEEP_S = 2.0
N_HELD_OUT = 60
LESSON = "Odd numbers count as well."
SLEEPER = "simulated:honest,seed=1,latency_ms=1000"
_STARTED_S = 120.0
_LOCAL = ("--concurrency", str(N_NODES * SLOTS))


class Counting:
    """The model: it sleeps, answers even numbers, and odd ones with the lesson, and counts what it is asked when."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, str]] = []
        self._lock = threading.Lock()

    def reply(self, model: str, text: str) -> str:
        """Answer the number of a call, after a while."""
        n = int(re.findall(r"call (\d+)", text)[-1])
        with self._lock:
            self.asked.append((time.time(), f"call {n}"))
        time.sleep(SLEEP_S)
        return f"answer {n}" if n % 2 == 0 or LESSON in text else "none"


_ANSWERED = "select c.draw from call c join reply r on r.call_id = c.id where c.role = 'target' and r.fault is null"
_LOST = "select count(*) from call c left join reply r on r.call_id = c.id where r.text is null or r.fault is not null"


def list_actors() -> list[int]:
    """The process ids of the actors that descend from this process."""
    parents, found = dict[int, int](), list[int]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            pid = int(folder.name)
            parents[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if (folder / "cmdline").read_bytes().startswith(b"ray::_Worker"):
                found.append(pid)

    def descends(pid: int) -> bool:
        while pid > 1 and pid != os.getpid():
            pid = parents.get(pid, 0)
        return pid == os.getpid()

    return [pid for pid in found if descends(pid)]


class Trial:
    """One store and its commands, on the cluster at an address or on this machine alone."""

    def __init__(self, folder: Path, spec: str, n_tasks: int, address: str | None) -> None:
        folder.mkdir()
        self.store, self.folder = folder / "skillopt.db", folder
        skill = numbers_skill(folder)
        self.new = folder / "new.md"
        self.new.write_text(f"{(skill / 'SKILL.md').read_text()}\n{LESSON}\n")
        add_own_tasks(self.store, skill, [
            {"prompt": f"call {n}", "judge": {"kind": "exact", "expected": f"answer {n}"},
             "split": "test" if n < N_HELD_OUT else "train" if n % 2 else "val"}
            for n in range(n_tasks)
        ])  # fmt: skip
        self._around = ["--target", spec, *_LOCAL, "--yes", "--json"]
        if address:
            self._around[2:4] = ["--ray", address, "--ray-env", "none"]
        self._skill = str(skill)
        self._prompts = {
            str(digest)[:12]: str(each) for digest, each in rows(self.store, "select digest, prompt from task")
        }
        # When an answer was seen in the store, by the prompt, and how often that was asked later.
        self.landed: dict[str, float] = {}

    def copy(self, folder: Path) -> Trial:
        """The same as it stands now, continued on this machine alone: a test keeps the order that was drawn for it."""
        made = copy(self)
        made.store = shutil.copytree(self.folder, folder) / self.store.name
        made._around = [*self._around[:2], *_LOCAL, *self._around[-2:]]
        return made

    def look(self) -> int:
        """How many answers are stored."""
        draws = [str(draw) for (draw,) in rows(self.store, _ANSWERED)]
        now = time.time()
        for draw in draws:
            if draw.startswith("b-"):
                self.landed.setdefault(self._prompts[draw.rpartition("/")[2]], now)
        return len(draws)

    def finish(self, options: Sequence[str], kills: list[tuple[int, Any]], code: int = 0) -> dict[str, Any]:
        """What `evaluate` prints in the end, where it ends with this exit code, resumed after each kill of the driver.

        `kills` are (answers, what to do once so many are stored); what returns True kills the driver.
        """
        while True:
            started_at = time.monotonic()
            process = subprocess.Popen(
                command(self.store, "evaluate", self._skill, *options, *self._around), cwd=self.folder, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            said: list[tuple[str, str]] = []
            reader = threading.Thread(target=lambda one=process, to=said: to.append(one.communicate()))
            reader.start()
            while process.poll() is None:
                # An actor is killed once there is one.
                if self.look() >= (kills[0][0] if kills else inf) and kills[0][1](process):
                    kills.pop(0)
                time.sleep(0.05)
                if time.monotonic() - started_at > 10 * _STARTED_S:
                    process.kill()
            reader.join()
            if process.returncode == code:
                found: dict[str, Any] = json.loads(said[0][0])
                return found
            if process.returncode != -9:
                raise SystemExit(f"evaluate {' '.join(options)} ended with {process.returncode}:\n{said[0][1][-3000:]}")


@contextmanager
def nodes() -> Iterator[tuple[Cluster, list[Any]]]:
    """Run the cluster; its head has no slot."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        yield made, [made.add_node(num_cpus=SLOTS) for _ in range(N_NODES)]
    finally:
        made.shutdown()


def ask_ours(address: str, n_calls: int, n_waves: int) -> dict[str, float]:
    """CPU milliseconds of this process a call that is asked, kept and paid for, and its memory."""
    place = tempfile.TemporaryDirectory()
    with (
        place as folder,
        Workspace(Path(folder, "s.db"), target=SLEEPER, ray=RayOptions(address, needs="none")) as workspace,
    ):
        workspace.place.caller = "person"
        models = workspace.models
        backends = {"target": models.backend("target")}
        figures: dict[str, float] = {}

        def ask(asker: Any) -> None:
            figures["rss_mb_idle"] = _rss_mb()
            asker([_call(n, "warm") for n in range(N_NODES * SLOTS)])
            began = time.process_time()
            for wave in range(n_waves):
                asker([_call(n, f"w{wave}") for n in range(n_calls // n_waves)])
                if wave == n_waves // 10:
                    figures["rss_mb_early"] = _rss_mb()
            figures["cpu_ms"] = (time.process_time() - began) * 1e3 / n_calls
            figures["rss_mb"] = _rss_mb()
            [(n_bytes,)] = rows(
                Path(folder, "s.db"), "select page_count * page_size from pragma_page_count, pragma_page_size"
            )
            figures["bytes"] = n_bytes / (n_calls + N_NODES * SLOTS)

        models.ask("r-scale", backends, ask)  # type: ignore[arg-type]
    return figures


def ask_bare(address: str, n_calls: int, n_waves: int) -> dict[str, float]:
    """CPU milliseconds of this process a call, by a loop that sends the same calls to the same actors."""
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    fingerprint = open_backend(SLEEPER).fingerprint
    made = [ray.remote(_Worker).options(num_cpus=0, max_concurrency=SLOTS, scheduling_strategy="SPREAD").remote(
        SLEEPER, fingerprint) for _ in range(N_NODES)]  # fmt: skip

    async def wave(name: str, n: int) -> None:
        free = asyncio.Semaphore(N_NODES * SLOTS)

        async def one(at: int) -> None:
            async with free:
                call = _call(at, name)
                assert isinstance(call.request, Rollout)
                task, files = call.request.task, call.request.files
                await made[at % N_NODES].roll_out.remote(files, task, (), None, call.draw)

        await asyncio.gather(*map(one, range(n)))

    async def all_waves() -> float:
        await wave("warm", N_NODES * SLOTS)
        began = time.process_time()
        for each in range(n_waves):
            await wave(f"w{each}", n_calls // n_waves)
        return (time.process_time() - began) * 1e3 / n_calls

    return {"cpu_ms": asyncio.run(all_waves())}


def _decided(evaluated: dict[str, Any]) -> dict[str, Any]:
    """What a test rests on, and its verdict: without what was asked beyond it, and what was asked again."""
    left_out = ("test_id", "runs", "lost")
    return {name: value for name, value in evaluated["test"].items() if name not in left_out}


_FILES = SkillFiles((SkillFile("SKILL.md", b"---\nname: numbers\ndescription: Numbers.\n---\n\nAnswer.\n"),))


def _call(n: int, wave: str) -> Call:
    task = Task(n, 1, f"t{n}", f"call {n}", Exact(expected="1"), "train", f"{n:064x}")
    return Call("target", "rollout", Rollout(_FILES, task), f"{wave}/{n}")


def _rss_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def measure_driver(what: str, address: str, n_calls: int) -> dict[str, float]:
    """The figures of a driver in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", what, address, str(n_calls)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print the figures."""
    flags = parser(__doc__, "400 tasks and 2,000 calls of a driver instead of 800 and 10,000")
    flags.add_argument("--child", nargs=3, help="(this program itself)")
    options = flags.parse_args()
    if options.child:
        what, address, n = options.child
        print(json.dumps((ask_ours if what == "ours" else ask_bare)(address, int(n), 20)))
        return
    os.environ |= {"OPENAI_API_KEY": "none", "RAY_USAGE_STATS_ENABLED": "0"}
    n_tasks, n_calls = (400, 2_000) if options.short else (800, 10_000)
    counting, killed = Counting(), Counter[str]()
    with vendor(counting.reply) as spec_of, nodes() as (cluster, workers), tempfile.TemporaryDirectory() as name:

        def kill_actor(process: Any) -> bool:
            if pids := list_actors():
                os.kill(pids[killed["worker"] % len(pids)], 9)
                killed["worker"] += 1
            return bool(pids)

        def kill_node(process: Any) -> bool:
            cluster.remove_node(workers.pop(), allow_graceful=False)
            killed["node"] += 1
            return True

        def kill_driver(process: Any) -> bool:
            process.kill()
            killed["driver"] += 1
            return True

        spread = Trial(Path(name, "spread"), spec_of("m"), n_tasks, cluster.address)
        alone = Trial(Path(name, "alone"), spec_of("m"), n_tasks, None)
        test = ["--file", str(spread.new)]
        steps = [kill_actor, kill_driver, kill_actor, kill_node, kill_driver, kill_actor, kill_driver]
        kills = [((at + 1) * n_tasks // 10, each) for at, each in enumerate(steps)]
        baseline = spread.finish(["--baseline"], kills)
        # Each has one draw there: what is asked once its answer is in the store is paid twice.
        n_twice = sum(at > spread.landed.get(prompt, inf) for at, prompt in counting.asked)
        # A cap ends the test when its order is drawn: from here on it is the same one, on the cluster and without.
        spread.finish([*test, "--max-calls", "4"], [], code=1)
        continued, later = spread.copy(Path(name, "continued")), spread.look()
        verdict = spread.finish(test, [(later + 10, kill_actor), (later + 50, kill_actor)])
        asked, counting.asked = counting.asked, []
        alone_baseline = alone.finish(["--baseline"], [])
        alone_verdict = continued.finish(test, [])
        n_lost = int(rows(spread.store, _LOST)[0][0])
        ours = measure_driver("ours", cluster.address, n_calls)
        bare = measure_driver("bare", cluster.address, n_calls)
    figures = {
        "slots": N_NODES * SLOTS,
        "calls": len(asked),
        "lost": n_lost,
        "paid_twice": n_twice,
        "worker_kills": killed["worker"],
        "node_kills": killed["node"],
        "driver_kills": killed["driver"],
        "resume_equal": baseline == alone_baseline,
        "verdict_equal": _decided(verdict) == _decided(alone_verdict),
        "driver_cpu_ms_per_call": round(ours["cpu_ms"], 3),
        "bare_cpu_ms_per_call": round(bare["cpu_ms"], 3),
        "driver_calls": n_calls,
        "bytes_per_call": round(ours["bytes"]),
        "rss_mb_idle": round(ours["rss_mb_idle"], 1),
        "rss_mb_early": round(ours["rss_mb_early"], 1),
        "rss_mb": round(ours["rss_mb"], 1),
    }
    show(figures, options.json, lost="0", paid_twice="0", resume_equal="True", verdict_equal="True")


if __name__ == "__main__":
    main()
