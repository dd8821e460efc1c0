"""The simulated world: what is taught, what is right, and what the catalogue may not contain."""

from dataclasses import replace

import pytest

from skillopt_mcp.backends.world import (
    PLACEBOS,
    TOPICS,
    World,
    make_skill,
    make_tasks,
    right_answer,
    taught_by,
    topics_of,
    true_score,
)
from skillopt_mcp.judges.kinds.numeric import Numeric
from skillopt_mcp.judges.kinds.text import Contains, Exact


def test_a_lesson_teaches_its_topic_until_its_harmful_line_spoils_it() -> None:
    for topic in TOPICS:
        assert taught_by(f"- {topic.lesson}") == {topic.name}
        assert taught_by(f"- {topic.lesson}\n- {topic.harmful}") == frozenset()
    assert taught_by("\n".join(PLACEBOS)) == frozenset()


def test_made_tasks_are_judged_by_the_right_answer_of_their_seed() -> None:
    for task in make_tasks(50, seed=3):
        answer = right_answer(3, task.prompt)
        assert isinstance(task.judge, Exact | Numeric)
        assert task.judge.expected == (answer if isinstance(task.judge, Exact) else float(answer))


def test_the_true_score_is_the_mean_pass_rate() -> None:
    skill, tasks = make_skill(3), make_tasks(40, seed=3)
    share = sum(topics_of(task.prompt) <= taught_by(skill.text) for task in tasks) / 40
    assert true_score(skill, tasks) == pytest.approx(0.9 * share + 0.1 * (1 - share))
    assert true_score(skill, tasks, World(noise=0)) == pytest.approx(share)
    assert true_score(skill, tasks, World("placebo")) == 0.5
    other = [replace(task, judge=Contains(expected="x")) for task in tasks]
    assert true_score(skill, other) == true_score(skill, tasks)
