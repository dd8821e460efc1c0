"""Task checks: judges that measure nothing, and tasks that are there twice."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.core.judging import Score
from skillopt_mcp.core.tasks import SPLITS, Split, Task, TaskFile
from skillopt_mcp.tasks.formats.skillopt import parse_question
from skillopt_mcp.tasks.judges.checking import (
    Layer,
    TaskFinding,
    check_tasks,
    families,
    find_asked_in_train,
    near_pairs,
)
from skillopt_mcp.tasks.judges.judging import parse_judge, score

PROMPT = "Which city is the capital of France? Choose Paris or London."


def problems(judge: object, prompt: str = PROMPT) -> list[str]:
    """Return what is wrong with one task, by the first words."""
    task = Task(1, 1, "t1", prompt, parse_judge(judge), "train", "d1")
    return [each.text.split(":")[0] for each in check_tasks([task])]


@pytest.mark.parametrize(
    "judge",
    [
        {"kind": "exact", "expected": "Paris"},
        {"kind": "contains", "expected": ["Paris", "France", "Seine"]},
        {"kind": "numeric", "expected": -1234.5},
        {"kind": "numeric", "expected": 1e-7},
        {"kind": "choice", "expected": "Paris", "options": ["Paris", "London"]},
        {"kind": "f1", "expected": "The city of light", "threshold": 1.0},
        {"kind": "anls", "expected": "Paris", "threshold": 1.0},
        {"kind": "json", "fields": {"city": "Paris", "size.0.n": 2, "size.2": None, "/a~1b/c": 1}},
        {"kind": "regex", "pattern": "^Paris$"},
        {"kind": "rubric", "rubric": "Names the city."},
        {"kind": "command", "name": "check"},
        {"kind": "tool_called", "name": "search"},
        {"kind": "all", "judges": [{"kind": "contains", "expected": "Seine"}, {"kind": "numeric", "expected": 7}]},
        {"kind": "weighted", "judges": [{"judge": {"kind": "exact", "expected": "Paris"}}]},
    ],
)
def test_an_honest_judge_is_not_complained_of(judge: object) -> None:
    assert problems(judge) == []


@pytest.mark.parametrize(
    ("judge", "reason"),
    [
        ({"kind": "regex", "pattern": "x*"}, "an empty answer passes"),
        ({"kind": "contains", "expected": "Paris"}, "the prompt itself passes as an answer"),
        ({"kind": "regex", "pattern": "(?i)capital"}, "the prompt itself passes as an answer"),
        ({"kind": "numeric", "expected": 12}, "the prompt itself passes as an answer"),
        (
            {"kind": "all", "judges": [{"kind": "exact", "expected": "a"}, {"kind": "exact", "expected": "b"}]},
            'what the judge itself expects does not pass, such as "a b"',
        ),
        ({"kind": "length", "max": 5, "min": 1}, "only the form of an answer is judged"),
    ],
)  # fmt: skip
def test_a_judge_that_measures_nothing_is_named(judge: object, reason: str) -> None:
    assert reason in problems(judge, f"{PROMPT} Line 12")[0]


def task(n: int, prompt: str, split: Split = "train", answer: object = None, file: str = "") -> Task:
    """Return task n, which wants its number, another answer, or what a judge wants."""
    judge = answer if isinstance(answer, dict) else {"kind": "exact", "expected": answer or f"answer {n}"}
    files = (TaskFile("code.py", file),) if file else ()
    return Task(n, 1, f"t{n}", prompt, parse_judge(judge), split, f"d{n}", (), files)


def collisions(tasks: list[Task]) -> list[tuple[str, str, str | None]]:
    """Return what collides with what, and how."""
    return [(each.task, each.problem, each.other) for each in check_tasks(tasks)]


LONG = "Sum the invoice lines of the supplier for March and state the total in euros with two decimals"


def test_twins_within_a_split_and_leaks_between_splits_are_distinguished() -> None:
    found = check_tasks(
        [
            task(1, LONG),
            task(2, f" {LONG.upper()}  "),
            task(3, LONG, "test"),
            task(4, f"{LONG}, please", "val", "answer 1"),
            task(5, LONG.replace("of the", "of that"), "train", "Answer  1"),
            task(6, "something else entirely, about boats and the weather at sea"),
        ]
    )
    assert [(each.task, each.problem, each.other) for each in found] == [
        ("t2", "duplicate", "t1"),
        ("t3", "leak", "t1"),
        ("t4", "leak", "t1"),
        ("t5", "near_duplicate", "t1"),
    ]
    assert found[0] == TaskFinding("t2", "duplicate", "the same prompt as 't1': it counts twice", "t1")
    assert "which is in train" in found[1].text


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (["answer 1", "the first"], "leak"),
        (["the first", "answer 1"], "leak"),
        ({"kind": "contains", "expected": "Answer 1"}, "leak"),
        ({"kind": "regex", "pattern": "[a-z]+ 1"}, "leak"),
        ({"kind": "regex", "pattern": "[a-z]+ 2"}, "alike"),
        ({"kind": "rubric", "rubric": "Says answer 1."}, "alike"),
    ],
)
def test_answers_are_the_same_where_one_passes_both_tasks(answer: object, problem: str) -> None:
    tasks = [task(1, LONG), task(2, f"{LONG}, please", "val", answer)]
    assert collisions(tasks) == [("t2", problem, "t1")]


FORM = (
    "You are given a message of a customer to a bank. Read it with care, decide which of the desks of the bank has to "
    "see it first, and reply with the name of that desk in lower case, without a word before or behind it. Message:"
)
MESSAGES = (
    "my card is gone", "the card got stolen on a train", "who pays for the blocked card", "what do you charge abroad",
    "why was I charged twice", "a fee that no letter announced", "the app shows no balance", "I cannot log in any more",
    "how do I change my address", "please send me a statement",
)  # fmt: skip


def test_a_form_that_all_tasks_share_makes_no_two_of_them_the_same() -> None:
    tasks = [task(n, f"{FORM} {said}", SPLITS[n % 3], ("cards", "fees")[n % 2]) for n, said in enumerate(MESSAGES)]
    assert {each.problem for each in check_tasks(tasks)} == {"alike"}
    assert find_asked_in_train(tasks) == frozenset()
    again = [*tasks, task(10, f"{FORM} {MESSAGES[4]}?", "train", "cards")]
    assert [each for each in collisions(again) if each[1] != "alike"] == [("t10", "leak", "t4")]
    assert find_asked_in_train(again) == {4}


ASKED = "On which day of the calendar does the clerk of our office send the reminder{} to {} by post{}?"
NAMES = ("Halden Timber", "Brixton Glass", "Orion Foods", "Pellworm Salt", "Lund Bicycles", "Nordic Wool")
DAYS = ("monday", "friday")


def in_form(*ways: tuple[str, str], few_answers: bool) -> list[Task]:
    """Return tasks of one form in which each name is asked about in these ways, with one answer."""
    return [
        task(n * len(ways) + k, ASKED.format(when, name, more), SPLITS[k], DAYS[n % 2] if few_answers else name)
        for n, name in enumerate(NAMES)
        for k, (when, more) in enumerate(ways)
    ]


@pytest.mark.parametrize("few_answers", [False, True])
def test_two_wordings_of_a_question_are_one_though_most_of_their_words_are_a_form(*, few_answers: bool) -> None:
    tasks = in_form(("", ""), ("", ", please"), few_answers=few_answers)
    assert collisions(tasks) == [(f"t{n + 1}", "leak", f"t{n}") for n in range(0, 12, 2)]
    assert find_asked_in_train(tasks) == set(range(1, 12, 2))


def test_one_prompt_with_other_files_is_another_task() -> None:
    tests = {"kind": "command", "name": "tests"}
    sources = [
        " ".join(f"def {spelled(n)}(a, b): return {word}" for n in range(k, k + 9))
        for k, word in ((1, "a + b"), (11, "a or b"), (31, "min(a, b)"))
    ]
    tasks = [task(n, "Fix it.", SPLITS[n], tests, each) for n, each in enumerate(sources)]
    assert collisions(tasks) == []
    near = task(3, "Fix it.", "val", tests, f"# Here.\n{sources[0]}")
    assert collisions([*tasks, near, task(4, " fix  it.", "test", tests, sources[0])]) == [
        ("t3", "leak", "t0"), ("t4", "leak", "t0"),
    ]  # fmt: skip


def test_held_out_tasks_that_train_asks_are_found_behind_others_that_are_nearer_by_place() -> None:
    tasks = [
        task(1, LONG, "val"), task(2, f"{LONG}, please", "test", "answer 1"),
        task(3, f"Now: {LONG}", "train", "answer 1"),
        task(4, LONG.replace("March", "April"), "test"), task(5, "How far is it?", "test"), task(6, "How far is it?"),
    ]  # fmt: skip
    assert find_asked_in_train(tasks) == {1, 2, 5}
    assert find_asked_in_train(tasks[:2]) == frozenset()


def question(n: int, asked: str, split: Split, context: str = "") -> Task:
    """Return the task of a row of a data set."""
    made = parse_question({"question": asked, "answers": ["x"], "context": context})
    return Task(n, 1, f"t{n}", made.prompt, made.judge, split, f"d{n}")


def plain(words: list[frozenset[str]]) -> set[int]:
    """Return which sets overlap by 0.85 with an earlier one, by comparing all."""
    return {
        n for n, each in enumerate(words) if any(len(each & other) >= 0.85 * len(each | other) for other in words[:n])
    }


@given(st.lists(st.frozensets(st.sampled_from("abcdefghijklmnop"), min_size=5), max_size=30))
def test_no_near_twin_is_overlooked(words: list[frozenset[str]]) -> None:
    found = check_tasks([task(n, " ".join(sorted(each))) for n, each in enumerate(words)])
    assert {int(each.task[1:]) for each in found} == plain(words)


@given(st.lists(st.tuples(st.frozensets(st.sampled_from("abcdefghijklmnop"), min_size=5), st.booleans()), max_size=20))
def test_no_question_that_is_asked_twice_is_overlooked(rows: list[tuple[frozenset[str], bool]]) -> None:
    words = [each for each, _ in rows]
    asked = [each if is_whole else frozenset(sorted(each)[::2]) for each, is_whole in rows]
    found = near_pairs([Layer(words), Layer(asked)])
    assert found == {
        n: others[0] for n in range(len(rows))
        if (others := [m for m in range(n) if all(
            len(sets[n] & sets[m]) >= 0.85 * len(sets[n] | sets[m]) for sets in (words, asked)
        )])
    }  # fmt: skip


def units(tasks: list[Task]) -> set[frozenset[int]]:
    """Return the families of tasks by their ids."""
    return {frozenset(each.id for each in family) for family in families(tasks)}


ROWS = st.lists(
    st.tuples(
        st.frozensets(st.sampled_from("abcdefghijkl"), min_size=5),
        st.sampled_from(["x", "y", "z"]),
        st.sampled_from(["", "", "g", "h"]),
        st.sampled_from(SPLITS),
    ),
    max_size=24,
)


@given(ROWS, st.randoms(use_true_random=False))
def test_families_are_a_partition_by_group_and_near_duplicates_in_any_order(
    rows: list[tuple[frozenset[str], str, str, Split]], draw: random.Random
) -> None:
    tasks = [
        replace(task(n, " ".join(sorted(words)), split, answer), group=group)
        for n, (words, answer, group, split) in enumerate(rows)
    ]
    found = families(tasks)
    assert sorted(each.id for family in found for each in family) == [each.id for each in tasks]
    assert [family[0].id for family in found] == sorted(family[0].id for family in found)
    assert units(draw.sample(tasks, len(tasks))) == units(tasks)
    family_of = {each.name: n for n, family in enumerate(found) for each in family}
    of_group = {each.group: each.name for each in tasks}
    assert all(family_of[each.name] == family_of[of_group[each.group]] for each in tasks if each.group)
    for each in check_tasks(tasks):
        assert each.other is None or each.problem == "alike" or family_of[each.task] == family_of[each.other]


def test_a_family_is_a_group_or_says_nearly_the_same_with_the_same_answer() -> None:
    numeric = {"kind": "numeric", "expected": 7}
    tasks = [
        task(0, LONG, answer="7"),
        task(1, "Something else that is asked of nobody", answer="7"),
        task(2, f"{LONG} places", answer=numeric),
        task(3, f"{LONG} or so", answer="8"),
        replace(task(4, "One more question of its own"), group="g"),
        replace(task(5, "And another one that is unlike it"), group="g"),
        task(6, f" {LONG}", answer="9"),
    ]
    assert [[each.id for each in family] for family in families(tasks)] == [[0, 2, 6], [1], [3], [4, 5]]


@given(ROWS, st.sets(st.integers(0, 23)))
def test_tasks_that_nobody_looked_at_change_no_unit_of_a_persons(
    rows: list[tuple[frozenset[str], str, str, Split]], seen: set[int]
) -> None:
    tasks = [
        replace(task(n, " ".join(sorted(words)), split, answer), group=group, looked_at=n in seen)
        for n, (words, answer, group, split) in enumerate(rows)
    ]
    mine = [each for each in tasks if each.looked_at]
    found = families(tasks)
    assert {frozenset(each.id for each in family) for family in found if family[0].looked_at} == units(mine)
    theirs = {each.id for family in found for each in family if not each.looked_at}
    assert theirs.isdisjoint(each.id for family in units(tasks) if family & seen for each in tasks if each.id in family)


def test_families_of_a_thousand_tasks_are_found_at_once() -> None:
    tasks = [task(n, f"Which department answers {spelled(n)} when they write to us by mail?") for n in range(900)]
    tasks += [task(n, f"{LONG}{'!' * n}", answer="7") for n in range(900, 1000)]
    before = time.process_time()
    assert len(families(tasks)) == 901
    assert time.process_time() - before < 2


def spelled(n: int) -> str:
    """Return a number as a word of its own without digits."""
    return "q" + "".join(chr(ord("a") + int(digit)) for digit in str(n))


@given(st.dictionaries(st.from_regex(r"[a-z]{1,3}(\.[a-z0-9]{1,2}){0,2}", fullmatch=True), st.integers(), min_size=1))
def test_the_reference_of_fields_has_them_all_or_is_found_wanting(fields: dict[str, int]) -> None:
    spec = parse_judge({"kind": "json", "fields": fields})
    [answer] = spec.references()
    found = score(spec, answer)
    assert isinstance(found, Score)
    # A field cannot stand both at a path and below it.
    clash = any(path != other and f"{other}.".startswith(f"{path}.") for path in fields for other in fields)
    assert found.hard or clash
