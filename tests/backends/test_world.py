"""The simulated world: what is taught, what is right, and what the catalogue may not contain."""

from dataclasses import replace

import pytest

from skillopt_mcp.backends.catalogue import PLACEBOS, TOPICS
from skillopt_mcp.backends.world import World, make_skill, make_tasks, right_answer, taught_by, topics_of, true_score
from skillopt_mcp.records.judging import Contains, Exact, Numeric


def test_no_line_of_the_catalogue_contains_another() -> None:
    lines = [line for topic in TOPICS for line in (topic.lesson, topic.harmful)] + list(PLACEBOS)
    assert not [(a, b) for a in lines for b in lines if a is not b and a in b]


def test_a_lesson_teaches_its_topic_until_its_harmful_line_spoils_it() -> None:
    for topic in TOPICS:
        assert taught_by(f"- {topic.lesson}") == {topic.name}
        assert taught_by(f"- {topic.lesson}\n- {topic.harmful}") == frozenset()
    assert taught_by("\n".join(PLACEBOS)) == frozenset()


def test_the_topics_of_a_prompt_are_those_it_says_it_needs() -> None:
    prompt = "Invoice 1042 (needs: currency, rounding). Work out the amount due and answer with the number only."
    assert topics_of(prompt) == {"currency", "rounding"}
    assert topics_of("Sum it up (needs: vat, poetry).") == {"vat"}
    assert topics_of("What is due?") == frozenset()


def test_a_made_skill_teaches_two_topics_and_depends_on_its_seed_alone() -> None:
    skills = [make_skill(seed) for seed in range(30)]
    assert {len(taught_by(skill.text)) for skill in skills} == {2}
    assert skills == [make_skill(seed) for seed in range(30)]
    assert len({skill.digest for skill in skills}) > 20
    assert skills[0].main.startswith(b"---\nname: ledger-clerk\ndescription: ")


def test_made_tasks_are_distinct_need_one_or_two_topics_and_cover_all() -> None:
    tasks = make_tasks(200, seed=3)
    needs = [topics_of(task.prompt) for task in tasks]
    assert len({task.prompt for task in tasks}) == len({task.name for task in tasks}) == 200
    assert {len(topics) for topics in needs} == {1, 2}
    assert all(20 <= sum(topic.name in topics for topics in needs) <= 45 for topic in TOPICS)
    assert tasks[:50] == make_tasks(50, seed=3)
    assert make_tasks(50, seed=4) != tasks[:50]


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
    other = [replace(task, judge=Contains(kind="contains", expected="x")) for task in tasks]
    assert true_score(skill, other) == true_score(skill, tasks)
