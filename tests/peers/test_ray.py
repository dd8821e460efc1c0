"""Attempts and judge programs on a Ray cluster; skipped where it is not installed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks.doors import add_own_tasks, command, numbers_skill, rows
from skillopt_mcp.backends.base import Backend, BackendFault
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core.calls import Reply
from skillopt_mcp.core.errors import BackendError
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import Task, TaskFile
from skillopt_mcp.tasks.judges.kinds.text import Exact

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'skillopt-mcp[ray]'"),
    pytest.mark.filterwarnings("default"),
]
TARGET = "simulated:honest,seed=1,latency_ms=500"
N_TASKS = 40


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a cluster of two nodes with 4 slots each; on one of them lie two phones."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        made.add_node(num_cpus=4, resources={"phone": 2})
        made.add_node(num_cpus=4)
        yield made.address
    finally:
        made.shutdown()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a skill that has tasks."""
    add_own_tasks(tmp_path / "s.db", numbers_skill(tmp_path), [
        {"prompt": f"call {n}", "judge": {"kind": "exact", "expected": f"answer {n}"}, "split": "test"}
        for n in range(N_TASKS)
    ])  # fmt: skip
    return tmp_path / "s.db"


def start(store: Path, *options: str, **environ: str) -> subprocess.Popen[str]:
    skill = store.parent / "skills" / "numbers"
    return subprocess.Popen(
        command(store, "evaluate", str(skill), "--baseline", "--target", TARGET, "--yes", "--json", *options),
        cwd=store.parent, env={**os.environ, **environ}, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, noted = process.communicate()
    assert process.returncode == 0, noted
    return dict(json.loads(said))


def await_replies(store: Path, n: int) -> None:
    while rows(store, "select count(*) from reply")[0][0] < n:
        time.sleep(0.05)


def actors() -> list[int]:
    """The process ids of actors that descend from this process."""
    from benchmarks.scale import list_actors

    return list_actors()


def test_a_killed_worker_and_a_killed_driver_cost_no_answer(store: Path, address: str) -> None:
    driver = start(store, "--ray", address, "--ray-env", "none")
    await_replies(store, 3)
    os.kill(actors()[0], 9)
    await_replies(store, 16)
    driver.kill()
    driver.communicate()
    answered = rows(store, "select c.key from call c join reply r on r.call_id = c.id")
    on_ray = finish(start(store, "--ray", address, "--ray-env", "none"))
    assert {fault for (fault,) in rows(store, "select fault from attempt")} == {"worker_lost"}
    assert rows(store, "select count(*), count(r.fault) from call c join reply r on r.call_id = c.id") == [(N_TASKS, 0)]
    again = {key for (key,) in rows(store, "select key from call where n_claims > 1")}
    assert not again & {key for (key,) in answered}
    # Without Ray it is the same question: the stored answers serve.
    assert finish(start(store)) | {"asked": 0} == on_ray | {"asked": 0}
    assert rows(store, "select count(*) from call")[0][0] == N_TASKS


def test_a_node_takes_as_many_attempts_as_its_resources_hold(store: Path, address: str) -> None:
    driver = start(store, "--ray", address, "--ray-env", "none", "--ray-resources", "phone=1")
    await_replies(store, 2)
    at_once = rows(store, "select count(*) from call c left join reply r on r.call_id = c.id where r.text is null")
    assert len(actors()) == 1
    assert at_once[0][0] <= 2
    driver.kill()
    driver.communicate()
    driver = start(store, "--ray", address, "--ray-resources", "tape=1")
    _, noted = driver.communicate()
    assert driver.returncode == 1
    assert "has room for an attempt, which takes CPU=1, tape=1" in noted


def test_judge_programs_run_as_tasks_of_the_cluster(tmp_path: Path, address: str) -> None:
    # It passes an answer only where a worker of Ray is among its ancestors.
    program = (
        "pid=$PPID; while [ $pid -gt 1 ]; do grep -q ray:: /proc/$pid/cmdline && exit 0; "
        "pid=$(sed 's/.*) //' /proc/$pid/stat | cut -d' ' -f2); done; exit 1"
    )
    store = tmp_path / "s.db"
    registered = command(store, "tasks", "judges", "add", "on-ray", "--unconfined", "--yes", "--", "sh", "-c", program)
    done = subprocess.run(registered, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    tasks = [
        {"prompt": f"call {n}", "judge": {"kind": "command", "name": "on-ray"}, "split": "train"} for n in range(4)
    ]
    add_own_tasks(store, numbers_skill(tmp_path), tasks)
    found = finish(start(store, "--ray", address, "--ray-env", "none"))
    assert [row["passed"] for row in found["tasks"]] == [1] * 4


def test_an_agent_uses_no_cluster_but_its_own_machine(store: Path) -> None:
    driver = start(store, "--ray", "192.0.2.1:6379", CLAUDECODE="1")
    _, noted = driver.communicate()
    assert driver.returncode == 1, noted
    assert "agents use --ray local alone" in noted


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999", "head", ""])
def test_an_address_that_no_cluster_answers_at_is_one_line(store: Path, address: str) -> None:
    driver = start(store, "--ray", address)
    _, noted = driver.communicate()
    assert driver.returncode == 1
    assert "cannot use Ray at" in noted
    assert "Traceback" not in noted


def attempt(monkeypatch: pytest.MonkeyPatch, opened: Backend, fingerprint: str) -> Reply | Exception:
    from skillopt_mcp.backends import cluster

    monkeypatch.setattr(cluster, "open_models", lambda spec: opened)
    task = Task(1, 1, "t", "Say it", Exact(expected="x"), "test", "d")
    worker = cluster._Worker("any", fingerprint)
    return asyncio.run(worker.roll_out(SkillFiles(()), task, (TaskFile("a.txt", "a"),), None, "draw"))


def test_a_worker_keeps_its_own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_API_KEY", "zq81-kettle-0042-umbra")
    said = Scripted(lambda call: "the key is zq81-kettle-0042-umbra")
    reply = attempt(monkeypatch, said, said.fingerprint)
    assert isinstance(reply, Reply)
    assert "[redacted:" in reply.text
    assert "umbra" not in reply.text
    failed = Scripted(lambda call: BackendFault("server", "with zq81-kettle-0042-umbra"))
    fault = attempt(monkeypatch, failed, failed.fingerprint)
    assert isinstance(fault, BackendFault)
    assert "umbra" not in str(fault)


def test_a_worker_that_would_answer_as_another_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = attempt(monkeypatch, Scripted(lambda call: "x"), "claude-code@2.1")
    assert isinstance(refused, BackendError)
    assert "install the same versions on all nodes" in str(refused)
