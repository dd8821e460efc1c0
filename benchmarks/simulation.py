"""Simulation: the skill, tasks and lessons of the simulated world as files and rows, alike in every process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from skillopt_mcp.backends import world

N_TASKS = 120
NOISE = world.NOISE
SPLITS = ("train", "val", "test")
LESSONS = tuple(topic.lesson for topic in world.TOPICS)
HARMFUL = tuple(topic.harmful for topic in world.TOPICS)
_LESSON_OF = {topic.name: topic.lesson for topic in world.TOPICS}
_HARMFUL_OF = {topic.name: topic.harmful for topic in world.TOPICS}
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Setting:
    """One world and one amount of training."""

    seed: int
    epochs: int = 4
    batch: int = 20
    noise: float = NOISE
    helpful: float = 0.6
    harmful: float = 0.1

    @property
    def spec(self) -> str:
        """Return the backend of this world."""
        return f"simulated:honest,seed={self.seed},noise={self.noise},helpful={self.helpful},harmful={self.harmful}"


def skill_text(seed: int) -> str:
    """Return the SKILL.md that every run begins with; it teaches two of the lessons."""
    return world.make_skill(seed).main.decode()


def write_skill(folder: Path, seed: int) -> Path:
    """Return the folder of a new skill."""
    skill = folder / "skills" / "ledger-clerk"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(skill_text(seed))
    return skill


@cache
def _made(n: int, seed: int) -> tuple[tuple[str, str], ...]:
    return tuple((task.prompt, json.dumps(task.judge.model_dump())) for task in world.make_tasks(n, seed))


def task_rows(n: int, seed: int, splits: tuple[str, ...] = SPLITS) -> list[Row]:
    """Return `n` rows for `tasks add`, their splits in turn."""
    return [
        {"prompt": prompt, "judge": json.loads(judge), "split": splits[at % len(splits)]}
        for at, (prompt, judge) in enumerate(_made(n, seed))
    ]


def right_answer(seed: int, prompt: str) -> str:
    """Return the answer that the judge of a task expects."""
    return world.right_answer(seed, prompt)


def missing_lines(skill: str, prompt: str) -> tuple[list[str], list[str]]:
    """Return the lessons that a task needs and a skill lacks, and the harmful lines that spoil those it has."""
    topics = sorted(world.topics_of(prompt))
    return (
        [_LESSON_OF[name] for name in topics if _LESSON_OF[name] not in skill],
        [_HARMFUL_OF[name] for name in topics if _HARMFUL_OF[name] in skill],
    )


def pass_rate(skill: str, prompt: str, noise: float = NOISE) -> float:
    """Return how probably a task passes with a skill."""
    return world.World("honest", noise=noise).pass_rate(world.taught_by(skill), world.topics_of(prompt))


def judged(skill: str, setting: Setting) -> tuple[float, int]:
    """Return the true score of a skill over the test tasks, in [0, 1], and how many harmful lines it has."""
    prompts = [str(row["prompt"]) for row in task_rows(N_TASKS, setting.seed) if row["split"] == "test"]
    score = sum(pass_rate(skill, prompt, setting.noise) for prompt in prompts) / len(prompts)
    return score, sum(line in skill for line in HARMFUL)
