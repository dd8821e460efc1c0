"""Host driver: a host process that brings one candidate to its verdict over stdio, and writes down what was accepted.

    python -m benchmarks.host_driver STORE SKILL CANDIDATE ACKNOWLEDGED SEED

It prints the process id of its server first and the verdict last; when the server goes away it ends with code 3.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from random import Random

from benchmarks.host_agent import Agent
from benchmarks.stdio_host import StdioHost, ours

LEASE_MINUTES = 0.01
GONE = 3
ROUNDS = 4


def drive(host: StdioHost, candidate: str, seed: int, acknowledged: Path) -> str:
    """Return the verdict; every accepted reply is on disk in `acknowledged` before the next one is made.

    A test that pauses undecided goes on, as its answer says: attempts that were begun anew cost it evidence.
    """
    agent = Agent(seed, Random(os.getpid()))
    verdict = "undecided"
    for _ in range(ROUNDS):
        verdict = _until_it_pauses(host, candidate, agent, acknowledged)
        if verdict != "undecided":
            break
    return verdict


def _until_it_pauses(host: StdioHost, candidate: str, agent: Agent, acknowledged: Path) -> str:
    told = host.call("evaluate_candidate", {"candidate_id": candidate})
    job = str(told.get("job_id", ""))
    standing: dict[str, object] = {"work": told.get("work", []), "evaluated": told if told.get("verdict") else None}
    while not standing.get("evaluated"):
        work = standing.get("work")
        items = [str(item["work_id"]) for item in work] if isinstance(work, list) else []
        for item in work if isinstance(work, list) else []:
            agent.do(str(item["folder"]))
        if not items:
            time.sleep(LEASE_MINUTES * 60)
        standing = host.call("submit_work", {"replies": [{"work_id": each} for each in items], "job_id": job})
        _write_down(acknowledged, standing)
    evaluated = standing["evaluated"]
    assert isinstance(evaluated, dict)
    return str(evaluated["verdict"])


def _write_down(acknowledged: Path, standing: dict[str, object]) -> None:
    receipts = standing.get("receipts")
    accepted = (
        [each["work_id"] for each in receipts if each["status"] == "accepted"] if isinstance(receipts, list) else []
    )
    with acknowledged.open("a") as file:
        file.writelines(f"{each}\n" for each in accepted)
        file.flush()
        os.fsync(file.fileno())


def main() -> None:
    store, skill, candidate, acknowledged, seed = sys.argv[1:]
    command = [*ours(Path(store)), "--lease-minutes", str(LEASE_MINUTES)]
    try:
        with StdioHost(command, Path(skill).parent) as host:
            print(host.pid, flush=True)
            print(json.dumps(drive(host, candidate, int(seed), Path(acknowledged))), flush=True)
    except (BrokenPipeError, EOFError):
        sys.exit(GONE)


if __name__ == "__main__":
    main()
