"""No raw open: SQLite alone opens the store's files, for any other open and close would cancel its locks."""

import os
import sys
from pathlib import Path

from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.backends import world
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.workspace import Workspace
from tests.processes import Parent, Spawn


def work(parent: Parent, folder: Path) -> None:
    """Record, propose and replay, returning every Python open of the store's files as (name, flags)."""
    store_path = folder / "kept" / "skillopt.db"
    files = [f"{store_path}{end}" for end in ("", "-wal", "-shm", "-journal")]
    opened: list[tuple[str, int]] = []

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and str(arguments[0]) in files:
            opened.append((Path(str(arguments[0])).name, int(str(arguments[2]))))

    sys.addaudithook(watch)
    skill = folder / "skills" / "clerk"
    skill.mkdir(parents=True)
    for file in world.make_skill(1).files:
        (skill / file.path).write_bytes(file.content)
    for _ in range(2):  # a new store, and one that is there
        with Workspace(
            store_path, target="simulated:honest", optimizer="simulated:honest", project=folder
        ) as workspace:
            record_trajectory(workspace.store, workspace.place, str(skill), Recording("what?", hard=True, answer="42"))
            tasks = [{"prompt": t.prompt, "judge": t.judge.model_dump()} for t in world.make_tasks(9, 1)]
            add_tasks(workspace.store, workspace.place, str(skill), tasks)
            propose_edits(workspace.store, workspace.place, str(skill), [{"op": "append", "content": "- Check twice."}])
            replay(
                workspace.store,
                workspace.models,
                workspace.place,
                start_run(workspace.store, workspace.models, workspace.place, str(skill), Config(epochs=1, batch=3)),
            )
    parent.send(opened)


def test_the_server_process_opens_the_store_only_to_make_it(tmp_path: Path, spawn: Spawn) -> None:
    [opened] = spawn(work, tmp_path).rest()
    made = [(name, flags & (os.O_CREAT | os.O_EXCL)) for name, flags in opened]
    assert made == [("skillopt.db", os.O_CREAT | os.O_EXCL)] * 2, "the second time it finds the file, and opens nothing"
