"""What other processes do to a store."""

import os
from pathlib import Path

from skillopt_mcp.core.errors import SkillOptError
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.store.trajectories import NewTrajectory
from tests.processes import Parent

SKILL = SkillFiles((SkillFile(MAIN_FILE, b"# Skill\n- Be exact.\n"),))


def attempt(session: str, position: int) -> NewTrajectory:
    text = f"{session} {position} " * 20
    return NewTrajectory("what?", text, True, 1.0, "", "[]", session, position)


def open_each(parent: Parent, paths: list[Path]) -> None:
    """Open new stores, all processes at once, a cue for each."""
    for path in paths:
        parent.wait_for_start()
        with Store(path) as store:
            parent.send(store.skills.list_skills())


def write_once(parent: Parent, path: Path) -> None:
    parent.wait_for_start()
    try:
        with Store(path) as store:
            store.skills.track("s", "/s", SKILL)
        parent.send("written")
    except SkillOptError as error:
        parent.send(f"{type(error).__name__}: {error}")


def count(parent: Parent, path: Path, n: int) -> None:
    """Add to a counter by reading it first: the transaction that a plain BEGIN loses."""
    pool = Pool(path)
    parent.wait_for_start()
    for _ in range(n):
        with pool.write() as connection:
            value = connection.execute("select n_seen from skill where id = 1").fetchone()[0]
            connection.execute("update skill set n_seen = ? where id = 1", [value + 1])
    pool.close()


def record(parent: Parent, path: Path, session: str, n: int) -> None:
    """Record `n` attempts of one session, reporting each once it is stored."""
    with Store(path) as store:
        skill = store.skills.track("s", "/s", SKILL)
        parent.wait_for_start()
        for position in range(n):
            new = attempt(session, position)
            trajectory_id, added, _ = store.trajectories.add_trajectory(skill.id, skill.live_version, new)
            parent.send(session, position, trajectory_id, added)


def record_on_cue(parent: Parent, path: Path, session: str, n: int) -> None:
    """Record an attempt at each of `n` cues, and report its id, or why it was refused."""
    try:
        with Store(path) as store:
            skill = store.skills.track("s", "/s", SKILL)
            for position in range(n):
                parent.wait_for_start()
                try:
                    new = attempt(session, position)
                    parent.send(store.trajectories.add_trajectory(skill.id, skill.live_version, new)[0])
                except SkillOptError as error:
                    parent.send(str(error))
    except SkillOptError as error:
        parent.send(str(error))


def fork(parent: Parent, path: Path) -> None:
    """Fork with an open pool: the child is refused and harms nothing, the parent goes on."""
    pool = Pool(path)
    parent.wait_for_start()
    with pool.write() as connection:
        connection.execute("insert into skill_root(path) values ('before')")
    child = os.fork()
    if child == 0:
        try:
            pool.rows("select 1")
            refused = 1
        except SkillOptError:
            refused = 0
        pool.close()
        os._exit(refused)
    _, status = os.waitpid(child, 0)
    with pool.write() as connection:
        connection.execute("insert into skill_root(path) values ('after')")
    parent.send(os.waitstatus_to_exitcode(status), pool.rows("select path from skill_root order by path"))
    pool.close()
