"""Sampling: which tasks a promotion test draws for its claim, and that the error rate of that claim holds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from training_world import SKILL, Bench, new_tasks, right, rollout_of, stored

from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.errors import Refused
from skillopt_mcp.gates.confirm import ConfirmRule, confirm
from skillopt_mcp.gates.recompute import ConfirmInputs, confirm_verdict
from skillopt_mcp.judges.kinds.form import Length
from skillopt_mcp.judges.kinds.text import Exact
from skillopt_mcp.records.candidates import Candidate, NewCandidate, candidate_id
from skillopt_mcp.records.evidence import Confirmation, Pair
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.records.tasks import NewTask, Split, Task
from skillopt_mcp.splits import DEFAULT_SHARES
from skillopt_mcp.training import confirmation
from skillopt_mcp.training.confirmation import (
    check_fresh,
    described,
    fresh,
    open_test,
    run_test,
)

LIKE_THESE = ConfirmRule(max_pairs=40, claim="like_these")
NAMES = [f"the {kind} of {place}" for kind in ("river", "tower", "king", "bread") for place in "abcdefghijkl"]


def task(n: int, prompt: str, split: Split = "test") -> Task:
    """Return a task of this prompt."""
    return Task(n, 1, f"t{n}", prompt, Exact(expected="x"), split, f"d{n}")


def sealed(n: int, first: int = 0) -> list[NewTask]:
    """Return n test tasks, none like another."""
    return [
        NewTask(f"What is said of {name} <{k}>", Exact(expected=f"right {k}"), f"s{k}", "test")
        for k, name in list(enumerate(NAMES))[first : first + n]
    ]


def candidate(bench: Bench, n: int) -> tuple[SkillFiles, SkillFiles]:
    """Return the live version and the n-th candidate, which the store then knows."""
    files = SKILL.replaced(SkillFile(MAIN_FILE, SKILL.main + f"- Note {n}.\n".encode()))
    id = candidate_id(bench.skill.id, SKILL.digest, files.digest)
    bench.store.candidates.add_candidate(
        NewCandidate(Candidate(id, bench.skill.id, SKILL.digest, files.digest, "host", ""), files)
    )
    return SKILL, files


def opened(bench: Bench, n: int, rule: ConfirmRule = LIKE_THESE) -> confirmation.Test:
    """Return the opened test of the n-th candidate, with the tasks that the store has now."""
    tasks = bench.store.tasks.list_tasks(bench.skill.id)
    return open_test(bench.store, candidate(bench, n), tasks, "scripted", rule)


def coin(call: object) -> str:
    """Pass half of the time, by nothing that a version holds."""
    return "no"


def drawn(bench: Bench, test: confirmation.Test) -> list[int]:
    """Return the ids of the tasks that a test has drawn, in order."""
    rows = bench.store.runs._pool.rows("select task_id from pair where confirmation_id = ? order by n", [test.row.id])
    return [int(str(row[0])) for row in rows]


def run(bench: Bench, test: confirmation.Test) -> Confirmation:
    """Return what a test finds with a target that always fails: nothing decides for long."""
    with bench.ask(Scripted(coin), test.row.id) as ask:
        return run_test(test, bench.store, ask)


def test_only_test_tasks_count_as_fresh_that_no_test_has_drawn_and_that_stand_alone() -> None:
    tasks = [
        task(1, "Add up the invoices of the bakery in the old town", "train"),
        task(2, "Add up the invoices of the bakery in the old town!"),
        task(3, "Name the longest river that crosses four borders"),
        task(4, "Name the longest river that crosses four borders."),
        task(5, "Which king was crowned twice in the same week"),
        task(6, "Say when the tower leaned and who propped it up", "val"),
    ]
    assert [each.id for each in fresh(tasks, {})] == [3, 5]
    assert [each.id for each in fresh(tasks, {3: 1, 5: 0})] == [5]
    assert [each.id for each in fresh(tasks, {4: 1})] == [5], "what says nearly the same was drawn"


def test_what_a_task_out_of_use_asked_is_not_fresh_in_other_words_whatever_its_name() -> None:
    tasks = [
        task(3, "Name the longest river that crosses four borders"),
        task(5, "Which king was crowned twice in the same week"),
    ]
    spent = [
        task(1, "Name the longest river that crosses four borders here"),
        replace(task(2, "Name the longest river that crosses four borders here!", "train"), name=tasks[1].name),
    ]
    assert [each.id for each in fresh(tasks, {}, spent)] == [5]


def test_too_few_fresh_tasks_are_refused_with_how_many_are_needed() -> None:
    tasks = list(stored(new_tasks(4)))
    with pytest.raises(Refused, match=r"there are 4, and a candidate that wins every pair takes 7 .*add 3 or more"):
        check_fresh(tasks, ConfirmRule(alpha=0.05))
    check_fresh(stored(new_tasks(7)), ConfirmRule(alpha=0.05))
    shapes = [Task(n, 1, f"t{n}", f"p{n}", Length(min=1), "test", f"d{n}") for n in range(20)]
    with pytest.raises(Refused, match="judge the form of an answer alone"):
        check_fresh(shapes, ConfirmRule())


def test_each_fresh_task_is_drawn_once_by_one_candidate_and_never_by_another(tmp_path: Path) -> None:
    with Bench(tmp_path, SKILL, [*new_tasks(9), *sealed(40)]) as bench:
        first = opened(bench, 1, ConfirmRule(max_pairs=16, claim="like_these"))
        assert run(bench, first).n_pairs == 16
        second = opened(bench, 2, ConfirmRule(max_pairs=100, claim="like_these"))
        end = run(bench, second)
        one, other = drawn(bench, first), drawn(bench, second)
        assert (len(one), len(set(one)), len(other), len(set(other))) == (16, 16, end.n_pairs, end.n_pairs)
        assert not set(one) & set(other)
        splits = {each.id: each.split for each in bench.store.tasks.list_tasks(bench.skill.id)}
        assert {splits[each] for each in (*one, *other)} == {"test"}
        assert "on tasks like these, if the" in described(second.row.claim, second.tasks)


def test_when_the_tasks_are_used_up_it_says_so_and_new_ones_let_it_go_on(tmp_path: Path) -> None:
    rule = ConfirmRule(alpha=0.05, beta=1e-9, claim="like_these")
    with Bench(tmp_path, SKILL, sealed(12)) as bench:
        end = run(bench, opened(bench, 1, rule))
        assert (end.verdict, end.n_pairs) == ("undecided", 12)
        assert "all 12 fresh test tasks are drawn: add others, and the test goes on with them" in end.reason
        assert run(bench, opened(bench, 1, rule)) == end
        bench.store.tasks.add_tasks(bench.skill.id, sealed(10, first=12), DEFAULT_SHARES)
        further = opened(bench, 1, rule)
        assert run(bench, further).n_pairs == 22
        assert len(set(drawn(bench, further))) == 22


def test_an_accept_says_its_claim_and_recomputes(tmp_path: Path) -> None:
    with Bench(tmp_path, SKILL, sealed(20)) as bench:
        test = opened(bench, 1)
        backend = Scripted(lambda call: right(call) if rollout_of(call).files != SKILL else "no")
        with bench.ask(backend, test.row.id) as ask:
            end = run_test(test, bench.store, ask)
        assert end.verdict == "accept"
        assert end.reason.startswith("better on tasks like these: evidence")
        decision = bench.store.decisions.latest_in(test.row.id)
        assert decision is not None
        assert ConfirmInputs.model_validate_json(decision.inputs).claim == "like_these"
        assert confirm_verdict(bench.store.decisions.list_pairs(test.row.id), decision.inputs) == "accept"


def population_pair(chance: random.Random) -> tuple[float, float]:
    """Return the pass rates of both versions on a new task: the edit helps as many tasks as it breaks."""
    base = chance.betavariate(0.5, 0.5)
    return base, 1 - base if chance.random() < 0.5 else base


def pairs(rates: list[tuple[float, float]], chance: random.Random, *, once: bool) -> Iterator[Pair]:
    """Yield pairs of fresh rollouts: each task once, or drawn with replacement without end."""
    order = iter(rates) if once else iter(lambda: chance.choice(rates), None)
    for base, candidate in order:
        yield Pair(float(chance.random() < base), float(chance.random() < candidate))


def test_of_edits_that_are_no_better_on_the_population_like_these_accepts_at_most_its_error_rate() -> None:
    accepted = dict.fromkeys((True, False), 0)
    rule = ConfirmRule(alpha=0.05, max_pairs=400)
    for seed in range(400):
        for once in accepted:
            chance = random.Random(f"population {seed}")
            rates = [population_pair(chance) for _ in range(40)]
            accepted[once] += confirm(pairs(rates, chance, once=once), rule).verdict == "accept"
    # Some samples of forty tasks do favour the edit: "on these tasks" is then true, and on others like them it is not.
    assert accepted[False] / 400 > 0.12
    assert accepted[True] / 400 <= 0.05


def test_a_gain_on_the_population_is_found_with_each_task_drawn_once() -> None:
    found = 0
    for seed in range(100):
        chance = random.Random(f"gain {seed}")
        rates = [(base, base + 0.5 * (1 - base)) for base in (chance.betavariate(0.5, 0.5) for _ in range(80))]
        found += confirm(pairs(rates, chance, once=True), ConfirmRule(alpha=0.05)).verdict == "accept"
    assert found >= 80
