"""The promotion test's runner: its order, what is under way, what lost attempts count, and how it resumes."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_world import SKILL, Bench, Killed, Mortal, new_tasks, right, rollout_of, stored

from skillopt_mcp.backends.asking import Asker
from skillopt_mcp.backends.base import Backend, BackendFault
from skillopt_mcp.backends.scripted import Answer, Scripted
from skillopt_mcp.core.calls import LOST, OF_THE_TARGET, Ask, Call, Fault, Reply, Role
from skillopt_mcp.core.candidates import Candidate, NewCandidate, candidate_id
from skillopt_mcp.core.errors import BadInput, Outage, Waiting
from skillopt_mcp.core.evidence import Standing
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile
from skillopt_mcp.core.tasks import NewTask, Task
from skillopt_mcp.gates.promotion import alpha_of
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.store.promotion_tests import NewTest, note_answer
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.training import promotion_test
from skillopt_mcp.training.promotion_test import Asked, in_order, open_test, run_test, standing_of

SALTED = Asked(salt="again")


pytestmark = pytest.mark.usefixtures("impatient")


def sealed(n: int) -> list[NewTask]:
    """Return n held-out tasks, none like another."""
    return [replace(task, split="test") for task in new_tasks(n)]


@pytest.fixture
def suite(tmp_path: Path) -> Iterator[Bench]:
    """Lend a bench with 20 held-out tasks: three attempts per arm at each."""
    with Bench(tmp_path, SKILL, sealed(20)) as bench:
        yield bench


def opened(bench: Bench, n: int = 0, asked: Asked = SALTED, backend: str = "scripted") -> promotion_test.Test:
    """Return the opened test of the n-th candidate, which the store then knows."""
    files = SKILL.replaced(SkillFile(MAIN_FILE, SKILL.main + f"- Note {n}.\n".encode()))
    made = candidate_id(bench.skill.id, SKILL.digest, files.digest)
    bench.store.candidates.add_candidate(
        NewCandidate(Candidate(made, bench.skill.id, SKILL.digest, files.digest, "host", ""), files)
    )
    return open_test(bench.store, NewTest(bench.skill.id, SKILL.digest, files.digest, backend), bench.tasks, asked)


def is_candidate(call: Call) -> bool:
    """Return whether a call belongs to the candidate's arm."""
    return rollout_of(call).files != SKILL


def better(call: Call) -> Answer:
    """Be right with a candidate alone."""
    return right(call) if is_candidate(call) else "no"


def coin(call: Call) -> Answer:
    """Be right by a chance that the attempt decides, a little more often with a candidate: all units are asked."""
    attempt = "/".join(call.draw.split("/")[1:4])
    chance = int.from_bytes(hashlib.sha256(f"c{attempt}".encode()).digest()[:4], "big") / (1 << 32)
    return right(call) if chance < (0.65 if is_candidate(call) else 0.5) else "no"


def run(bench: Bench, test: promotion_test.Test, answer: Callable[[Call], Answer] | Backend) -> Standing:
    """Return the verdict of a test with a target."""
    with bench.ask(Scripted(answer) if callable(answer) else answer, test.row.id, concurrency=1) as ask:
        return run_test(test, bench.store, ask)


def kept(bench: Bench) -> tuple[object, ...]:
    """Return all that promotion tests left, but for times and sequence numbers."""
    return (
        bench.rows(
            "select test_id, unit, arm, number, score, cause, n_again, draw from test_attempt a"
            " join call on call.id = a.call_id order by 1, 2, 3, 4"
        ),
        bench.rows("select gate, scope, verdict, reason, inputs from decision order by id"),
        bench.rows("select version_id, task_id, draw, hard from trial t join call on call.id = call_id order by 3"),
    )


# The order


def task(n: int, group: str = "") -> Task:
    """Return the n-th held-out task."""
    return replace(stored(sealed(n + 1))[n], group=group)


@given(salt=st.text("0123456789abcdef", min_size=1, max_size=8), shuffled=st.permutations(range(9)))
def test_the_salt_alone_decides_the_order_and_the_task_of_each_family(salt: str, shuffled: list[int]) -> None:
    tasks = [task(n, "ab"[n // 3] if n < 6 else "") for n in range(9)]
    found = in_order(tasks, salt)
    assert found == in_order([tasks[n] for n in shuffled], salt)
    assert Counter(each.group for each in found) == {"a": 1, "b": 1, "": 3}


def test_another_salt_gives_another_order_and_draws_other_tasks() -> None:
    tasks = [task(n, "a" if n < 4 else "") for n in range(12)]
    orders = [in_order(tasks, f"salt {n}") for n in range(40)]
    assert len({tuple(each.id for each in order) for order in orders}) == 40
    assert {each.id for order in orders for each in order if each.group} == {1, 2, 3, 4}


def test_each_test_draws_a_salt_of_its_own_whatever_the_edit_unless_its_results_are_to_come_about_again(
    suite: Bench,
) -> None:
    rows = [opened(suite, 0, Asked(), name).row for name in "abc"]
    assert len({row.plan.salt for row in rows}) == len({row.tasks for row in rows}) == 3
    assert all(len(row.plan.salt) == 32 for row in rows)
    version = opened(suite).candidate.digest
    again = []
    for name in ("d", "e", ""):
        if name:
            opened(suite, 0, Asked(), name)
        new = NewTest(suite.skill.id, SKILL.digest, version, "scripted")
        again.append(open_test(suite.store, new, suite.tasks, SALTED, foreseen=True))
    assert again[0] != again[1] == again[2]


# What opening fixes


def test_the_jth_test_of_a_release_has_the_jth_share_and_simulations_take_none_of_it(suite: Bench) -> None:
    for backend, number in (("a", 1), ("b judged by c", 2), ("scripted", 1), ("a judged by simulated:x", 2), ("d", 3)):
        row = opened(suite, 0, Asked(), backend).row
        assert (row.number, row.plan.alpha) == (number, pytest.approx(alpha_of(number)))
        with Pool(suite.store.path).write() as connection:
            note_answer(connection, row.id)
    assert opened(suite, 1, Asked(margin=0.1), "a").row.number == 0, "a test in rounds is outside of the budget"
    assert opened(suite, 1, Asked(), "a").row.number == 4


def test_only_test_tasks_are_held_out(bench: Bench) -> None:
    assert {task.split for task in opened(bench).tasks} == {"test"}
    new = NewTest(bench.skill.id, SKILL.digest, SKILL.digest, "scripted")
    with pytest.raises(BadInput, match="no held-out task"):
        open_test(bench.store, new, [task for task in bench.tasks if task.split != "test"])


def test_a_stored_test_is_the_one_that_was_opened(suite: Bench) -> None:
    test = opened(suite)
    row = suite.store.tests.find(test.row.id)
    assert row is not None
    found = promotion_test.stored_test(suite.store, row)
    assert (replace(found.row, created_at=""), found.tasks, found.candidate) == (test.row, test.tasks, test.candidate)


# Attempts under way


class Noted:
    """An `ask` that notes what it is asked, and dies at the n-th time."""

    def __init__(self, ask: Ask, dies_at: int | None = None) -> None:
        self.asked: list[list[Call]] = []
        self._ask, self._dies_at = ask, dies_at

    def __call__(self, calls: Sequence[Call], /) -> list[Reply]:
        if len(self.asked) == self._dies_at:
            raise Killed
        self.asked.append(list(calls))
        return self._ask(calls)


class Uneven:
    """A target whose first answer comes last; it counts how many calls are under way at once."""

    name = fingerprint = "scripted"
    deferred = False

    def __init__(self, answer: Callable[[Call], Answer]) -> None:
        self._target, self._n, self._most = Scripted(answer), 0, 0
        self.drawn, self._first = list[str](), asyncio.Event()

    @property
    def most(self) -> int:
        """The most calls that were under way at once."""
        return self._most

    async def complete(self, call: Call) -> Reply:
        """Answer a call; the first one when twelve others were answered."""
        self._n, is_first = self._n + 1, not self.drawn
        self._most = max(self._most, self._n)
        self.drawn.append(call.draw)
        if is_first:
            await self._first.wait()
        elif len(self.drawn) > 12:
            self._first.set()
        await asyncio.sleep(0.01)  # long enough for all slots to be filled
        self._n -= 1
        return await self._target.complete(call)


@pytest.mark.parametrize("slots", [4, 8])
def test_as_many_attempts_are_under_way_as_there_are_slots_and_a_slow_one_holds_up_none(
    suite: Bench, tmp_path: Path, slots: int
) -> None:
    test, target = opened(suite), Uneven(coin)
    with suite.ask(target, test.row.id, concurrency=slots) as ask:
        end = run_test(test, suite.store, ask)
    assert target.most == slots
    order = [f"{test.row.id}/{unit}/{arm}/{number}" for arm, unit, number in test.row.plan.sequence]
    assert sorted(target.drawn) == sorted(order[: len(target.drawn)])
    assert all(abs(order.index(draw) - at) < 32 for at, draw in enumerate(target.drawn))
    with Bench(tmp_path / "in turn", SKILL, sealed(20)) as bench:
        assert run(bench, opened(bench), coin).model_copy(update={"runs": end.runs}) == end


def test_what_comes_after_the_deciding_pair_is_kept_and_not_counted(suite: Bench) -> None:
    test = opened(suite)
    with suite.ask(
        Scripted(lambda call: "no" if is_candidate(call) else right(call)), test.row.id, concurrency=8
    ) as ask:
        end = run_test(test, suite.store, ask)
    assert (end.verdict, end.pairs, end.units.seen) == ("not_better", 10, 10)
    assert 20 <= end.runs.candidate + end.runs.base <= 36
    assert standing_of(test, suite.store) == end
    decision = suite.store.decisions.latest_in(test.row.id)
    assert decision is not None
    assert (decision.gate, decision.verdict) == ("promotion", "not_better")
    assert run(suite, test, lambda call: "never asked") == end
    assert suite.rows("select count(*) from decision") == [(1,)]


def test_a_known_base_has_a_pilot_that_can_only_end_a_test(tmp_path: Path) -> None:
    with Bench(tmp_path, SKILL, sealed(8)) as bench:
        for n in (0, 1):
            first = run(bench, opened(bench, n), lambda call: "no")
            assert (first.verdict, first.passes, first.pilot, first.runs.base) == ("not_better", 8, 0, 8)
        bad = run(bench, opened(bench, 2), lambda call: "no")
        assert (bad.verdict, bad.pilot, bad.passes, bad.pairs) == ("not_better", 8, 1, 0)
        assert (bad.runs.base, bad.runs.candidate, bad.units.seen) == (0, 8, 8)
        test = opened(bench, 3)
        with bench.ask(Scripted(better), test.row.id) as ask:
            good = run_test(test, bench.store, noted := Noted(ask))
        assert (good.verdict, good.pilot, good.runs.base, good.runs.candidate) == ("better", 0, 8, 8)
        assert [is_candidate(call) for [call] in noted.asked] == [True] * 8 + [False] * 8


@pytest.mark.parametrize(
    ("n", "asked", "answer", "verdict"),
    [
        (4, SALTED, better, "better_here"),
        (4, SALTED, lambda call: "no" if is_candidate(call) else right(call), "worse_here"),
        (4, SALTED, right, "cant_tell"),
        (8, replace(SALTED, margin=0.4), right, "no_worse"),
        (8, replace(SALTED, margin=0.4), lambda call: "no" if is_candidate(call) else right(call), "worse_here"),
        (8, replace(SALTED, margin=0.1, max_pairs=20), right, "cant_tell"),
    ],
)
def test_few_tasks_and_a_margin_are_asked_in_whole_rounds(
    tmp_path: Path, n: int, asked: Asked, answer: Callable[[Call], Answer], verdict: str
) -> None:
    with Bench(tmp_path, SKILL, sealed(n)) as bench:
        test = opened(bench, 0, asked)
        with bench.ask(Scripted(answer), test.row.id) as ask:
            end = run_test(test, bench.store, noted := Noted(ask))
        assert end.verdict == verdict
        assert (end.units.seen, 2 * end.runs.base, end.runs.base % n) == (n, len(noted.asked), 0)
        assert 2 * end.runs.base <= test.row.plan.most_runs


# What has no answer


def test_every_fault_is_of_the_target_or_lost_or_of_a_cause_that_was_not_verified() -> None:
    assert not OF_THE_TARGET & LOST
    assert set(get_args(Fault)) - OF_THE_TARGET - LOST == {"auth", "model_not_found", "unsupported", "internal"}


@pytest.mark.parametrize("fault", sorted(OF_THE_TARGET))
def test_what_a_target_brings_about_itself_has_failed_in_its_own_arm(suite: Bench, fault: Fault) -> None:
    def answer(call: Call) -> Answer:
        return BackendFault(fault, "no") if call.draw.endswith("/candidate/0") else right(call)

    end = run(suite, test := opened(suite), answer)
    failed = [each for each in suite.store.tests.list_attempts(test.row.id) if each.score < 1]
    assert {(each.arm, each.number, each.score, each.cause) for each in failed} == {("candidate", 0, 0.0, "target")}
    assert (end.verdict, len(failed), end.lost.target, end.lost.asked_again) == ("not_better", 10, 10, 0)


@pytest.mark.parametrize("fault", sorted(LOST))
def test_what_was_lost_on_the_way_is_asked_again_and_never_counts(tmp_path: Path, fault: Fault) -> None:
    def failing(call: Call) -> Answer:
        return BackendFault(fault, "gone") if "/9/candidate/" in call.draw else coin(call)

    with Bench(tmp_path / "a", SKILL, sealed(20)) as bench, Bench(tmp_path / "b", SKILL, sealed(20)) as untroubled:
        test = opened(bench)
        for _ in range(3):
            with pytest.raises(Outage, match=r"^1 attempt of the test was lost on the way, the last one .*gone"):
                run(bench, test, failing)
            n_before = test.row.plan.sequence.index(("candidate", 9, 0))
            assert bench.store.tests.count_attempts(test.row.id) == n_before
        assert run(bench, test, coin) == run(untroubled, opened(untroubled), coin)
        assert bench.store.decisions.latest_in(test.row.id) == untroubled.store.decisions.latest_in(test.row.id)


@pytest.mark.parametrize("fault", ["server", "refusal"])
def test_what_could_not_be_judged_waits_for_the_judge_and_is_not_attempted_again(tmp_path: Path, fault: Fault) -> None:
    rubric = parse_judge({"kind": "rubric", "rubric": "Be right."})

    def failing(call: Call) -> Answer:
        if "/3/candidate/" in call.draw:
            return BackendFault(fault, "judge down")
        return json.dumps({"reason": "it is", "grade": "all"})

    def judged(bench: Bench, judge: Callable[[Call], Answer]) -> Standing:
        backends: dict[Role, Backend] = {"target": target, "judge": Scripted(judge)}
        with Asker(bench.store, backends, test.row.id, concurrency=1) as ask:
            return run_test(test, bench.store, ask)

    with Bench(tmp_path, SKILL, [replace(each, judge=rubric) for each in sealed(20)]) as bench:
        test, target = opened(bench), Scripted(right)
        for _ in range(2):
            with pytest.raises(Outage, match=r"^1 attempt of the test could not be judged, .*judge down"):
                judged(bench, failing)
            n_there = bench.store.tests.count_attempts(test.row.id)
            assert (target.n_calls, n_there) == (n_there + 1, test.row.plan.sequence.index(("candidate", 3, 0)))
        end = judged(bench, lambda _: json.dumps({"reason": "it is", "grade": "all"}))
        assert end.solved is not None
        assert (end.verdict, end.solved.before, end.solved.after) == ("not_better", 1.0, 1.0)


def lost_at(places: dict[tuple[int, str], int]) -> Callable[[Call], Answer]:
    """Return a target whose first attempt at these (unit, arm) is lost so often, nobody knows why, and else passes."""

    def answer(call: Call) -> Answer:
        _, unit, arm, number, *again = call.draw.split("/")
        n = int(again[0].removeprefix("again")) if again else 0
        if number == "0" and n < places.get((int(unit), arm), 0):
            return BackendFault("internal", "host failed")
        return coin(call)

    return answer


def of_first(bench: Bench, test: promotion_test.Test, places: Sequence[tuple[int, str]]) -> list[tuple[str, float]]:
    """Return the cause and the score of the first attempts at these (unit, arm)."""
    found = bench.store.tests.list_attempts(test.row.id)
    by_place = {(each.unit, each.arm): (each.cause, each.score) for each in found if each.number == 0}
    return [by_place[place] for place in places]


def test_an_attempt_that_was_lost_for_no_verified_cause_is_repeated_alone_and_counts_as_answered(suite: Bench) -> None:
    target, test = Scripted(lost_at({(0, "candidate"): 2, (9, "base"): 1, (19, "base"): 1})), opened(suite)
    end = run(suite, test, target)
    assert (end.lost.asked_again, end.lost.bounded) == (4, 0)
    again = [call.draw.partition("/")[2] for call in target.calls if "again" in call.draw]
    assert again == ["0/candidate/0/again1", "0/candidate/0/again2", "9/base/0/again1", "19/base/0/again1"]


@pytest.mark.parametrize("dies_at", [None, 1, 2, 3, 4, 6])
def test_there_are_four_repeats_in_a_test_and_then_what_is_lost_counts_against_the_candidate(
    suite: Bench, dies_at: int | None
) -> None:
    lost = [(0, "candidate"), (1, "base"), (2, "candidate"), (9, "base"), (10, "candidate"), (17, "base")]
    target, test = Scripted(lost_at({**dict.fromkeys(lost, 1), (10, "candidate"): 9})), opened(suite)
    with suite.ask(target, test.row.id, concurrency=1) as ask:
        if dies_at is not None:
            with pytest.raises(Killed):
                run_test(test, suite.store, Noted(ask, dies_at))
        end = run_test(test, suite.store, ask)
    found = of_first(suite, test, lost)
    assert [cause for cause, _ in found[:4]] == [""] * 4
    assert found[4:] == [("bounded", 0.0), ("bounded", 1.0)]
    assert (end.lost.asked_again, end.lost.bounded, end.units.seen) == (4, 2, 20)
    assert sum("again" in call.draw for call in target.calls) == 4


@pytest.mark.parametrize("arm", ["candidate", "base"])
def test_one_attempt_that_stays_lost_takes_all_repeats_and_no_answer_is_taken_for_a_lost_one(
    suite: Bench, arm: str
) -> None:
    target, test = Scripted(lost_at({(1, arm): 99, (2, arm): 1})), opened(suite)
    end = run(suite, test, target)
    assert of_first(suite, test, [(1, arm), (2, arm)]) == [("bounded", float(arm == "base"))] * 2
    known = suite.store.tests.scores_of(suite.skill.id, test.files(arm).digest, "scripted")  # type: ignore[arg-type]
    assert sum(map(len, known.values())) == getattr(end.runs, arm) - 2, "of these two nothing is known"
    assert (end.lost.asked_again, end.lost.bounded, end.units.seen) == (4, 2, 20)
    assert sum("again" in call.draw for call in target.calls) == 4


# Resuming


def counted_asks(bench: Bench, answer: Callable[[Call], Answer], dies_at: Sequence[int] = ()) -> int:
    """Run a test that dies at the n-th ask, for each n; return how often it asked in the end."""
    test = opened(bench)
    for n in dies_at:
        with bench.ask(Scripted(answer), test.row.id) as ask, pytest.raises(Killed):
            run_test(test, bench.store, Noted(ask, n))
    with bench.ask(Scripted(answer), test.row.id) as ask:
        run_test(test, bench.store, noted := Noted(ask))
    return len(noted.asked)


def test_a_test_that_is_stopped_at_any_ask_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    troubled = lost_at({(0, "candidate"): 2, (9, "base"): 1, (10, "candidate"): 3})
    with Bench(tmp_path / "whole", SKILL, sealed(20)) as bench:
        n_asks = counted_asks(bench, troubled)
        whole = kept(bench)
    assert n_asks > 200
    for dies_at in [*([n] for n in (0, 1, 2, 20, 39, n_asks - 1)), [2, 1, 3]]:
        with Bench(tmp_path / f"stopped at {dies_at}", SKILL, sealed(20)) as bench:
            counted_asks(bench, troubled, dies_at)
            assert kept(bench) == whole


@pytest.mark.parametrize("n_left", [0, 1, 47, 48, 100])
def test_an_attempt_that_was_under_way_when_its_process_died_takes_a_repeat(
    suite: Bench, tmp_path: Path, n_left: int
) -> None:
    with Bench(tmp_path / "whole", SKILL, sealed(20)) as bench:
        whole = run(bench, opened(bench), coin)
    test = opened(suite)
    with pytest.raises(Killed):
        run(suite, test, Mortal(Scripted(coin), n_left))
    end = run(suite, test, coin)
    assert end.lost.asked_again == 1
    assert end.model_copy(update={"lost": whole.lost}) == whole


class Hanging:
    """A target that is right half the time; where the candidate would be wrong it hangs, and its process is ended."""

    name = fingerprint = "hanging"
    deferred = False

    def __init__(self) -> None:
        self._n = 0

    async def complete(self, call: Call) -> Reply:
        """Return a right answer or a wrong one, or raise Killed."""
        self._n += 1
        is_right = hashlib.sha256(f"{self._n}".encode()).digest()[0] < 128
        if not is_right and is_candidate(call):
            raise Killed
        answer = right(call)
        return Reply(answer if is_right else "no")


def test_a_candidate_is_not_given_the_best_of_the_attempts_that_were_ended(suite: Bench) -> None:
    test, target = opened(suite), Hanging()
    while True:
        try:
            end = run(suite, test, target)
        except Killed:
            continue
        break
    assert end.verdict == "not_better"
    assert (end.lost.asked_again, end.lost.bounded > 1) == (4, True)
    attempts = suite.store.tests.list_attempts(test.row.id)
    assert {each.score for each in attempts if each.cause == "bounded" and each.arm == "candidate"} == {0.0}


class Patient:
    """An `ask` of a host: it has no answer before the host has given it, some at a time."""

    def __init__(self, ask: Ask) -> None:
        self.ready: set[str] = set()
        self.open: list[str] = []
        self._ask = ask

    def __call__(self, calls: Sequence[Call], /) -> list[Reply]:
        if missing := [call.draw for call in calls if call.draw not in self.ready]:
            self.open += [draw for draw in missing if draw not in self.open]
            raise Waiting(len(missing))
        return self._ask(calls)

    def answer(self, n: int) -> None:
        """Answer up to n of the calls that are open, the last ones first."""
        self.ready |= set(self.open[-n:])
        del self.open[-n:]


def test_a_test_that_waits_for_a_host_stores_what_is_there_and_ends_as_any_other(tmp_path: Path) -> None:
    with Bench(tmp_path / "at once", SKILL, sealed(20)) as bench:
        counted_asks(bench, coin)
        whole = kept(bench)
    with Bench(tmp_path / "waits", SKILL, sealed(20)) as bench:
        test = opened(bench)
        with bench.ask(Scripted(coin), test.row.id) as ask:
            patient = Patient(ask)
            while True:
                try:
                    run_test(test, bench.store, patient)
                    break
                except Waiting:
                    assert bench.store.tests.count_attempts(test.row.id) == len(patient.ready)
                    patient.answer(13)
        assert kept(bench) == whole
