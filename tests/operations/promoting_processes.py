"""Promoting processes: children that promote at once, or that are killed one call into the system later each time."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from skillopt_mcp import live_files as livefiles
from skillopt_mcp.errors import Busy
from skillopt_mcp.live_files import TEMPORARY
from skillopt_mcp.promotions.consent import Consent
from skillopt_mcp.promotions.promoting import promote_skill, rollback_skill
from skillopt_mcp.skill_folders import read_skill
from skillopt_mcp.workspace import Workspace

_CALLS = ("open", "write", "fsync", "fchmod", "fchown", "mkdir", "rename", "unlink", "close", "stat")


def main() -> None:
    """Print what was found, as JSON."""
    what, store_path, project, *candidate_ids = sys.argv[1:]
    run = {"crash": crash, "race": race}[what]
    print(json.dumps(run(Path(store_path), Path(project), *candidate_ids)))


def race(store_path: Path, project: Path, *candidate_ids: str) -> dict[str, list[str]]:
    """Return the statuses of eight processes that promote these candidates, let go together."""
    start, go = os.pipe()
    answers, told = os.pipe()
    for n in range(8):
        if os.fork() == 0:
            os.close(go)
            os.read(start, 1)  # the end of the pipe lets all go at once
            with Workspace(store_path, project=project) as workspace:
                try:
                    status: str = promote_skill(workspace, candidate_ids[n % 2], Consent.PERSON_SIMULATED).status
                except Busy:
                    status = "busy"
            os.write(told, f"{status}\n".encode())
            os._exit(0)
    os.close(go)
    os.close(told)
    with os.fdopen(answers) as lines:
        return {"statuses": [line.strip() for line in lines]}


def crash(store_path: Path, project: Path, candidate_id: str) -> dict[str, object]:
    """Return what was found after every kill."""
    skill = project / "skills" / "ledger-clerk"
    versions, strays = set[str](), set[str]()
    n_points, pending = 0, 0
    while True:
        child = os.fork()
        if child == 0:
            _promote(store_path, project, candidate_id, n_points + 1)
        _, status = os.waitpid(child, 0)
        with Workspace(store_path, project=project) as workspace:
            live = workspace.skill(str(skill)).live_version
            versions.add(live)
            assert read_skill(skill).digest == live
            strays.update(path.name for path in skill.rglob(f"{TEMPORARY}*"))
            pending += len(workspace.store.promotions.list_pending())
            changes = workspace.store.promotions.list_promotions(1)
            assert not changes or changes[0].to_version == live
            if changes and changes[0].kind == "promote":
                assert rollback_skill(workspace, str(skill), None, Consent.PERSON).status == "rolled_back"
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            break
        n_points += 1
    return {"n_points": n_points, "versions": sorted(versions), "strays": sorted(strays), "pending": pending}


def _promote(store_path: Path, project: Path, candidate_id: str, deadly: int) -> None:
    n_calls = 0

    def count(name: str) -> None:
        nonlocal n_calls
        n_calls += bool(n_calls) or name == "begin"  # before the journal's row there is nothing to look after
        if n_calls == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    with Workspace(store_path, project=project) as workspace:
        promotions = workspace.store.promotions
        for owner, names in ((os, _CALLS), (livefiles, ("exchange", "move_new")), (promotions, ("begin", "finish"))):
            for name in names:
                _hook(owner, name, count)
        status = promote_skill(workspace, candidate_id, Consent.PERSON_SIMULATED).status
    os._exit(0 if status == "promoted" else 3)


def _hook(owner: object, name: str, count: object) -> None:
    real = getattr(owner, name)

    def counted(*args: object, **kwargs: object) -> object:
        count(name)  # type: ignore[operator]
        result = real(*args, **kwargs)
        if name in ("exchange", "move_new", "begin", "finish"):
            count(name)  # type: ignore[operator]
        return result

    setattr(owner, name, counted)


if __name__ == "__main__":
    main()
