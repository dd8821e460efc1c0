"""What tests put into a store."""

from skillopt_mcp.core.skills import Skill
from skillopt_mcp.core.tasks import NewTask
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.store.trajectories import NewTrajectory
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.tasks.splits import DEFAULT_SHARES

JUDGE = parse_judge({"kind": "exact", "expected": "42"})


def add(store: Store, skill: Skill, *tasks: NewTask) -> list[str]:
    placed = store.tasks.add_tasks(skill.id, tasks, DEFAULT_SHARES)
    return ["added" if each.is_new else "duplicate" if each.is_duplicate else "rejected" for each in placed]


def record(store: Store, skill: Skill, new: NewTrajectory) -> tuple[int, bool, int]:
    return store.trajectories.add_trajectory(skill.id, skill.live_version, new)


def change(store: Store, sql: str, trigger: str = "") -> None:
    """Change a store by other means, in spite of a trigger."""
    pool = Pool(store.path)
    with pool.write() as connection:
        rule = connection.execute("select sql from sqlite_schema where name = ?", [trigger]).fetchone()
        if rule:
            connection.execute(f"drop trigger {trigger}")
        connection.execute(sql)
        if rule:
            connection.execute(rule[0])
    pool.close()
