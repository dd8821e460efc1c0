"""What tests put into a store."""

from skillopt_mcp.judges.judging import parse_judge
from skillopt_mcp.records.skills import Skill
from skillopt_mcp.records.tasks import NewTask
from skillopt_mcp.splits import DEFAULT_SHARES
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.trajectories import NewTrajectory

JUDGE = parse_judge({"kind": "exact", "expected": "42"})


def add(store: Store, skill: Skill, *tasks: NewTask) -> list[str]:
    placed = store.tasks.add_tasks(skill.id, tasks, DEFAULT_SHARES)
    return ["added" if each.is_new else "duplicate" if each.is_duplicate else "rejected" for each in placed]


def record(store: Store, skill: Skill, new: NewTrajectory) -> tuple[int, bool, int]:
    return store.trajectories.add_trajectory(skill.id, skill.live_version, new)
