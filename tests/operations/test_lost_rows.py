"""Lost rows: whoever deletes a row of evidence is found out, and nothing that the program does looks like that."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from workshop import Place

from skillopt_mcp.backends.world import make_skill
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.changes.permitting import permit
from skillopt_mcp.operations.changes.promoting import promote_skill
from skillopt_mcp.operations.evidence.erasing import erase
from skillopt_mcp.operations.evidence.naming import Wanted, attempts_meant
from skillopt_mcp.operations.evidence.recording import Recording, record_trajectory
from skillopt_mcp.operations.runs.replaying import replay, start_run
from skillopt_mcp.operations.stores.taking_in import import_history
from skillopt_mcp.operations.stores.transferring import export_history
from skillopt_mcp.operations.stores.verifying import verify_store
from skillopt_mcp.operations.tasks.retiring import retire_tasks
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.budgets import NO_CAPS, Cost, Spent
from skillopt_mcp.records.calls import Call, Question, Reply, Usage
from skillopt_mcp.records.candidates import Approval
from skillopt_mcp.records.commands import RegisteredCommand
from skillopt_mcp.records.runs import Conclusion
from skillopt_mcp.store import driver
from skillopt_mcp.store.batches import NewBatch
from skillopt_mcp.store.budgets import Bill
from skillopt_mcp.store.calls import Settlement
from skillopt_mcp.store.failing import Attempt
from skillopt_mcp.store.leases import Offer, Term
from skillopt_mcp.store.migrating import migration_files
from skillopt_mcp.store.opening import Store

TABLES = sorted(
    {name for file in migration_files() for name in re.findall(r"(?m)^create table (\w+)", file.read_text())}
)
# Who has seen a task, what went out together, and a change that is being taken back: nothing tells how many there were.
UNTOLD = {"exposure", "batch_call", "undoing"}
CONFIG = Config(epochs=3, batch=10, max_pairs=16)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with rows in every table that carries evidence."""
    place = Place(tmp_path_factory.mktemp("everything").resolve())
    place.skill.mkdir(parents=True)
    for file in make_skill(3).files:
        (place.skill / file.path).write_bytes(file.content)
    with place.stack:
        other = place.open(store="other.db")
        workspace = place.open()
        for each in (other, workspace):
            each.store.permissions.add_root(str(place.root))
            place.add_tasks(each)
            place.main.write_bytes(make_skill(3).files[0].content)
            fill(place, each)
        export_history(other, str(place.skill), place.folder / "history")
        import_history(workspace, place.folder / "history", keep_mine=True)
        fill_by_hand(workspace.store)
    return place.store_path


def fill(place: Place, workspace: Workspace) -> None:
    """Do what makes rows in a store: attempts, a run with its test, a change, what a person does."""
    skill, store = str(place.skill), workspace.store
    for n in range(8):
        recording = Recording(task=f"attempt {n} in {workspace.store.path.name}", hard=bool(n % 2), answer="a")
        record_trajectory(workspace, skill, recording)
    done = replay(workspace, start_run(workspace, skill, CONFIG))
    assert done.verdict is not None
    tracked = workspace.skill(skill)
    unfinished = start_run(workspace, skill, CONFIG.model_copy(update={"seed": 7}))
    store.runs.conclude(unfinished.id, Conclusion(0, 9, "enough"))
    promote_skill(workspace, place.accepted(workspace), Consent.PERSON_SIMULATED)
    for number in (2, 3, 4):
        erase(workspace, attempts_meant(workspace, Wanted((f"trajectory:{number}",))))
    store.exposures.expose(tracked.id, [task.digest for task in store.tasks.list_in_use(tracked.id)], "s")
    test = [task for task in store.tasks.list_in_use(tracked.id) if task.split == "test"]
    store.tasks.rotate({test[0].id: 3})
    retire_tasks(workspace, skill, [test[1].name, test[2].name])
    permit(workspace, skill, simulated=True)
    store.commands.register(RegisteredCommand("c", ("/bin/true",), "0" * 64))
    version = workspace.again(tracked).live_version
    store.approvals.add_approval(Approval(tracked.id, "rollback", version, tracked.live_version, given_by="a person"))


def fill_by_hand(store: Store) -> None:
    """Make three rows each of what only hosts, vendors and failures make."""
    calls = [(bytes([n]), Call("optimizer", "reflect", Question("q", "e", str(n)), f"by hand/{n}")) for n in range(9)]
    bill = Bill("by hand", NO_CAPS, Spent(), [Cost(1, 0, 0)] * len(calls))
    claims = store.calls.settle(Settlement([], [], 0, calls, "by hand", "o", bill)).claims
    failed = [Attempt(claim.id, "server", "x") for claim in claims[:3]]
    answered = [Reply("said", (), Usage(1, 2, 0, 3), id=claim.id, served=f"m{n}") for n, claim in enumerate(claims[:3])]
    store.calls.settle(Settlement(answered, failed, 0, [], "by hand", "o", bill._replace(costs=[])))
    offers = [Offer(f"lease {n}", claim.id, None) for n, claim in enumerate(claims[3:6])]
    store.leases.take(offers, Term("by hand", "s", 0.0, 1.0), NO_CAPS)
    store.leases.answer("lease 1", Reply("said", (), Usage(1, 2, 0, 3), id=claims[4].id), "s")
    for n, claim in enumerate(claims[6:]):
        store.batches.open(NewBatch(f"batch {n}", "target", "b", 0.0, [claim.id], bill._replace(costs=[Cost(1, 1, 1)])))
    run = store.runs.list_runs(1)[0]
    with store._pool.write() as connection:
        for epoch in range(10, 13):
            connection.execute(
                "insert into meta_note(skill_id, run_id, epoch, text) values (1, ?, ?, 'note')", [run.id, epoch]
            )
    skill = store.skills.track("gone", "/gone", make_skill(5))
    store.skills.forget(skill.id)


def test_the_store_holds_a_row_of_everything_and_is_sound(everything: Path) -> None:
    connection = driver.connect(everything)
    empty = {table for table in TABLES if not connection.execute(f"select count(*) from {table}").fetchone()[0]}
    connection.close()
    assert empty <= {"undoing"}
    assert verify_store(everything, live=False).problems == []


@pytest.mark.parametrize("table", sorted(set(TABLES) - UNTOLD))
def test_a_row_that_is_deleted_in_the_middle_of_a_table_is_told(everything: Path, tmp_path: Path, table: str) -> None:
    path = tmp_path / "store.db"
    shutil.copy(everything, path)
    shutil.copy(f"{everything}.salt", f"{path}.salt")
    delete_middle(path, table)
    problems = verify_store(path, live=False).problems
    assert problems
    assert any(re.search(rf"\b{table}\b|event|refers to a row of|the files of", each) for each in problems)


def delete_middle(path: Path, table: str) -> None:
    """Delete the row in the middle of a table, as somebody does who takes the rules against it away for a moment."""
    connection = driver.connect(path)
    rules = connection.execute(
        "select name, sql from sqlite_schema where type = 'trigger' and tbl_name = ?", [table]
    ).fetchall()
    for name, _ in rules:
        connection.execute(f"drop trigger {name}")
    keys = [row[1] for row in connection.execute(f"pragma table_info({table})") if row[5]]
    named = ", ".join(keys)
    [n] = connection.execute(f"select count(*) from {table}").fetchone()
    deleted = connection.execute(
        f"delete from {table} where ({named}) in (select {named} from {table} order by {named} limit 1 offset ?)",
        [n // 2 if n > 2 else 0],
    )
    assert deleted.rowcount == 1
    for _, sql in rules:
        connection.execute(sql)
    connection.close()
