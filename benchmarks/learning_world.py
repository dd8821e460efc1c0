"""Learning world: the simulated tasks that ours and the published packages learn from, alike in every process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from skillopt_mcp.backends import world
from skillopt_mcp.backends.catalogue import TOPICS
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.records.tasks import NewTask, Split

N_TASKS = 120
_SPLITS: tuple[Split, ...] = ("train", "val", "test")


@dataclass(frozen=True, slots=True)
class Setting:
    """One world and one amount of training."""

    seed: int
    epochs: int = 4
    batch: int = 20
    noise: float = world.NOISE
    helpful: float = 0.6
    harmful: float = 0.1

    @property
    def model(self) -> str:
        """Return the simulation, as the registry spells what follows its name."""
        return f"honest,seed={self.seed},noise={self.noise},helpful={self.helpful},harmful={self.harmful}"


@cache
def split_tasks(seed: int) -> tuple[tuple[NewTask, Split], ...]:
    """Return the tasks of a world, each with its split: a third each."""
    return tuple((task, _SPLITS[n % len(_SPLITS)]) for n, task in enumerate(world.make_tasks(N_TASKS, seed)))


def judged(skill: str, setting: Setting) -> tuple[float, int]:
    """Return the true score of a skill's text over the test tasks, in [0, 1], and how many harmful lines it has."""
    tasks = [task for task, split in split_tasks(setting.seed) if split == "test"]
    files = SkillFiles((SkillFile(MAIN_FILE, skill.encode()),))
    score = world.true_score(files, tasks, world.World("honest", setting.seed, setting.noise))
    return score, sum(topic.harmful in skill for topic in TOPICS)
