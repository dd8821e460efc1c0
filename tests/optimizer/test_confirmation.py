"""Confirmation: the promotion test, its draws, its pauses, and how often it is wrong."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_world import SKILL, Bench, Killed, MemoryAsk, Mortal, new_tasks, right, rollout_of, stored

from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Answer, Scripted
from skillopt_mcp.gates.confirm import ConfirmRule, Restarts, alpha_for, next_alpha, no_worse, refund
from skillopt_mcp.gates.recompute import confirm_verdict
from skillopt_mcp.gates.serving import Serving
from skillopt_mcp.judges.judging import parse_judge
from skillopt_mcp.promotion_tests import is_simulated
from skillopt_mcp.records.calls import Call, Fault, Reply
from skillopt_mcp.records.candidates import Candidate, Decision, NewCandidate, candidate_id
from skillopt_mcp.records.evidence import Pair, Trial
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.records.tasks import NewTask, Split, Task
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.training import confirmation
from skillopt_mcp.training.confirmation import held_out, open_test, run_test, standing, upcoming_alpha
from skillopt_mcp.training.outage import LOST
from tests.reads import noted, plans

BETTER = SKILL.replaced(SkillFile(MAIN_FILE, SKILL.main.replace(b"- Read", b"- First read")))
RULE = ConfirmRule(max_pairs=40)


def split_tasks(n_val: int, n_test: int, n_train: int = 3) -> list[Task]:
    """Return tasks in these numbers."""
    splits: list[Split] = [*["train"] * n_train, *["val"] * n_val, *["test"] * n_test]
    tasks = stored(new_tasks(len(splits)))
    return [replace(task, split=split) for task, split in zip(tasks, splits, strict=True)]


@given(n_val=st.integers(0, 40), n_test=st.integers(0, 40))
def test_the_test_split_alone_is_held_out(n_val: int, n_test: int) -> None:
    held = held_out(split_tasks(n_val, n_test))
    assert [task.split for task in held] == ["test"] * n_test


class MemoryDecisions:
    """Promotion tests that are kept in memory: what `run_test` needs of a store."""

    def __init__(self) -> None:
        self.decisions = self.calls = self
        self.pairs: list[Pair] = []
        self.trials: list[Trial] = []
        self.verdicts: list[Decision] = []

    def list_pairs(self, confirmation_id: str) -> list[Pair]:
        """Return the pairs so far."""
        return list(self.pairs)

    def add_pairs(
        self, confirmation_id: str, first: int, pairs: Sequence[tuple[int, Pair]], trials: Sequence[Trial]
    ) -> None:
        """Keep pairs that follow on those there are."""
        assert first == len(self.pairs)
        self.pairs += [pair for _, pair in pairs]
        self.trials += trials

    def list_restarts(self, row: ConfirmationRow) -> dict[int, Restarts]:
        """Return that nothing was restarted."""
        return {}

    def n_restarts(self, call_ids: Sequence[int]) -> dict[int, int]:
        """Return that nothing was restarted."""
        return {}

    def table(self, make: object) -> MemoryDecisions:
        """Return itself: all is in one place."""
        return self

    def serving(self, row: ConfirmationRow) -> Serving:
        """Return which models answered so far."""
        serving = Serving()
        serving.hear(0, self.trials, row.version_id)
        return serving

    def add_decision(self, decision: Decision) -> None:
        """Keep a verdict."""
        self.verdicts.append(decision)

    def latest_in(self, scope: str) -> Decision | None:
        """Return the last verdict."""
        return self.verdicts[-1] if self.verdicts else None


def memory_test(name: str, rule: ConfirmRule = RULE, n_tasks: int = 12) -> confirmation.Test:
    """Return an opened promotion test that no store knows."""
    held = held_out(split_tasks(0, n_tasks))
    ids = tuple(task.id for task in held)
    row = ConfirmationRow(name, 1, SKILL.digest, BETTER.digest, 1, rule.alpha, "memory", ids)
    return confirmation.Test(row, SKILL, BETTER, held, rule)


def passing(rate: Callable[[Call], float]) -> Callable[[Call], str]:
    """Return a target that passes with this probability, by a chance that the call's key decides."""

    def answer(call: Call) -> str:
        chance = int.from_bytes(hashlib.sha256(call.key("world")).digest()[:8], "big") / (1 << 64)
        return right(call) if chance < rate(call) else "no"

    return answer


def is_candidate(call: Call) -> bool:
    """Return whether a call belongs to the candidate's arm."""
    return rollout_of(call).files == BETTER


def test_a_candidate_that_changes_nothing_is_accepted_in_at_most_five_of_a_hundred_tests() -> None:
    rule = ConfirmRule(max_pairs=96)
    ends = []
    for seed in range(200):
        ask = MemoryAsk(passing(lambda call: (0.1, 0.5, 0.9)[rollout_of(call).task.id % 3]))
        ends.append(run_test(memory_test(f"t-{seed}", rule), MemoryDecisions(), ask).verdict)
    assert ends.count("accept") / len(ends) <= 0.05


@pytest.mark.parametrize(("base", "candidate", "verdict"), [(0.2, 0.9, "accept"), (0.9, 0.2, "reject")])
def test_a_clearly_better_candidate_is_accepted_and_a_worse_one_rejected(
    base: float, candidate: float, verdict: str
) -> None:
    ends = []
    for seed in range(40):
        ask = MemoryAsk(passing(lambda call: candidate if is_candidate(call) else base))
        ends.append(run_test(memory_test(f"t-{seed}"), MemoryDecisions(), ask))
    assert sum(end.verdict == verdict for end in ends) >= 39
    assert sum(end.n_pairs for end in ends) / 40 < 16


def test_tasks_are_drawn_uniformly_with_replacement_and_the_order_of_the_arms_at_random() -> None:
    ask = MemoryAsk(passing(lambda call: 0.5))
    run_test(memory_test("t-1", ConfirmRule(alpha=1e-9, beta=1e-9, max_pairs=1200)), MemoryDecisions(), ask)
    firsts, seconds = ask.sent[::2], ask.sent[1::2]
    drawn = Counter(rollout_of(call).task.id for call in firsts)
    assert len(firsts) == 1200
    assert all(60 < n < 140 for n in drawn.values())
    assert len(drawn) == 12
    assert all(rollout_of(a).task == rollout_of(b).task for a, b in zip(firsts, seconds, strict=True))
    assert all(is_candidate(a) != is_candidate(b) for a, b in zip(firsts, seconds, strict=True))
    assert 540 < sum(is_candidate(call) for call in firsts) < 660
    alone = [is_candidate(call) for call in firsts if rollout_of(call).task.id == rollout_of(firsts[0]).task.id]
    assert 0.3 < sum(alone) / len(alone) < 0.7
    assert sum(call.draw == before.draw for before, call in itertools.pairwise(firsts)) == 0


def test_no_result_moves_a_later_draw() -> None:
    def drawn(answer: Callable[[Call], str]) -> list[tuple[int, bool, str]]:
        ask = MemoryAsk(answer)
        run_test(memory_test("t-1", ConfirmRule(alpha=1e-30, beta=1e-30, max_pairs=60)), MemoryDecisions(), ask)
        return [(rollout_of(call).task.id, is_candidate(call), call.draw) for call in ask.sent]

    assert drawn(right) == drawn(lambda call: "no") == drawn(lambda call: right(call) if is_candidate(call) else "no")


def test_a_pair_that_stays_missing_after_three_tries_counts_against_the_candidate() -> None:
    def answer(call: Call) -> str | Reply:
        return Reply("", fault="server") if not is_candidate(call) else right(call)

    ask, store = MemoryAsk(answer), MemoryDecisions()
    end = run_test(memory_test("t-1"), store, ask)
    assert (end.verdict, end.n_missing) == ("undecided", end.n_pairs)
    assert end.wealth < 0.01
    assert set(store.pairs) == {Pair(None, 1.0)}
    tries = Counter(call.draw.split("/")[1] for call in ask.sent if not is_candidate(call))
    assert set(tries.values()) == {3}


@pytest.mark.parametrize("fault", sorted(LOST))
def test_only_the_lost_arm_is_tried_again_on_a_draw_of_its_own(fault: Fault) -> None:
    def answer(call: Call) -> str | Reply:
        return Reply("", fault=fault) if "try2" not in call.draw and is_candidate(call) else right(call)

    ask, store = MemoryAsk(answer), MemoryDecisions()
    run_test(memory_test("t-1", ConfirmRule(max_pairs=1)), store, ask)
    assert [call.draw for call in ask.sent if is_candidate(call)] == ["t-1/0", "t-1/0/try1", "t-1/0/try2"]
    assert [call.draw for call in ask.sent if not is_candidate(call)] == ["t-1/0"]
    assert store.pairs == [Pair(1.0, 1.0)]


@pytest.mark.parametrize("fault", sorted(set(get_args(Fault)) - LOST))
def test_what_an_arm_brings_about_itself_is_missing_at_once(fault: Fault) -> None:
    def answer(call: Call) -> str | Reply:
        return Reply("", fault=fault) if "try" not in call.draw and is_candidate(call) else right(call)

    ask, store = MemoryAsk(answer), MemoryDecisions()
    run_test(memory_test("t-1", ConfirmRule(max_pairs=1)), store, ask)
    assert [call.draw for call in ask.sent] == ["t-1/0", "t-1/0"]
    assert store.pairs == [Pair(1.0, None)]


def test_an_answer_that_no_judge_scored_is_judged_again_and_is_not_made_again() -> None:
    rubric = {"kind": "rubric", "rubric": "It counts."}
    held = stored([NewTask("count", parse_judge(rubric), split="test")])

    def answer(call: Call) -> str | Reply:
        if call.role != "judge":
            return call.draw
        is_last = "/judge2/" in call.draw
        return '{"reasoning": "it does", "grade": "all"}' if is_last else Reply("", fault="refusal")

    ask, store = MemoryAsk(answer), MemoryDecisions()
    run_test(replace(memory_test("t-1", ConfirmRule(max_pairs=1)), tasks=held), store, ask)
    assert [call.draw for call in ask.sent if call.role == "target"] == ["t-1/0", "t-1/0"]
    asked = [call.draw for call in ask.sent if call.role == "judge"]
    assert asked == ["t-1/0/vote0", "t-1/0/judge1/vote0", "t-1/0/judge2/vote0"]
    assert store.pairs == [Pair(1.0, 1.0)]
    assert [(trial.draw, trial.reply.text, trial.hard) for trial in store.trials] == [("t-1/0", "t-1/0", True)] * 2


@pytest.mark.parametrize("fault", ["refusal", "truncated", "internal", "timeout"])
def test_a_worse_candidate_that_gives_no_answer_where_it_would_fail_is_never_accepted(fault: Fault) -> None:
    for seed in range(20):

        def answer(call: Call) -> str | Reply:
            found = passing(lambda call: 0.4 if is_candidate(call) else 0.5)(call)
            return Reply("", fault=fault) if found == "no" and is_candidate(call) else found

        end = run_test(memory_test(f"t-{seed}"), MemoryDecisions(), MemoryAsk(answer))
        assert end.verdict != "accept"


def test_with_answers_missing_from_both_arms_a_candidate_that_changes_nothing_is_hardly_ever_accepted() -> None:
    ends = []
    for seed in range(200):

        def answer(call: Call) -> str | Reply:
            found = passing(lambda call: 0.6)(call)
            return Reply("", fault="refusal") if found == "no" and call.key("w")[0] < 64 else found

        ends.append(run_test(memory_test(f"t-{seed}", ConfirmRule(max_pairs=96)), MemoryDecisions(), MemoryAsk(answer)))
    assert sum(end.verdict == "accept" for end in ends) <= 10
    assert sum(end.n_missing for end in ends) > 0


def test_pairs_beyond_the_deciding_one_are_kept_and_not_counted() -> None:
    store = MemoryDecisions()
    end = run_test(memory_test("t-1"), store, MemoryAsk(lambda call: right(call) if is_candidate(call) else "no"))
    assert end.verdict == "accept"
    assert end.n_pairs < len(store.pairs) == 8
    assert end.candidate_mean == 1.0
    store.pairs[end.n_pairs :] = [Pair(1.0, 0.0)] * 500
    assert run_test(memory_test("t-1"), store, MemoryAsk(lambda call: "no")) == end
    assert [confirm_verdict(store.pairs, verdict.inputs) for verdict in store.verdicts] == ["accept", "accept"]


def test_after_undecided_as_many_more_pairs_are_drawn_afresh() -> None:
    ask, store = MemoryAsk(passing(lambda call: 0.5)), MemoryDecisions()
    test = memory_test("t-1", ConfirmRule(alpha=1e-6, beta=1e-6, max_pairs=20))
    assert [run_test(test, store, ask).n_pairs for _ in range(3)] == [20, 40, 60]
    assert len({(call.draw, is_candidate(call)) for call in ask.sent}) == len(ask.sent) == 120
    assert [verdict.verdict for verdict in store.verdicts] == ["undecided"] * 3
    assert all(confirm_verdict(store.pairs, verdict.inputs) == "undecided" for verdict in store.verdicts)


def arms(bench: Bench, n: int = 0) -> tuple[SkillFiles, SkillFiles]:
    """Return the live version and the n-th candidate, which the store then knows."""
    files = SKILL.replaced(SkillFile(MAIN_FILE, BETTER.main.replace(b"First", f"First {n}".encode())))
    made = Candidate(
        candidate_id(bench.skill.id, SKILL.digest, files.digest), bench.skill.id, SKILL.digest, files.digest, "host", ""
    )
    bench.store.candidates.add_candidate(NewCandidate(made, files))
    return SKILL, files


def coin(call: Call) -> Answer:
    """Play a target that passes half the time, and now and then does not answer."""
    chance = hashlib.sha256(f"{call.draw} {call.request.digest}".encode()).digest()
    if chance[0] < 64:
        return BackendFault("refusal", "no")
    return right(call) if chance[1] < 128 else "no"


def evidence(bench: Bench) -> tuple[object, ...]:
    """Return all that promotion tests left, but for times and sequence numbers."""
    return (
        bench.rows("select confirmation_id, n, task_id, base, candidate from pair order by 1, 2"),
        bench.rows("select gate, scope, verdict, reason, inputs from decision order by id"),
        bench.rows(
            "select call.scope, version_id, task_id, draw, hard, soft from trial t"
            " join call on call.id = call_id order by 1, 4, 2"
        ),
        bench.rows("select key from call order by key"),
    )


@pytest.mark.parametrize("n_left", [0, 1, 7, 16, 17, 40, 55, 63, 64, 79])
def test_a_test_killed_anywhere_ends_as_if_it_had_not_been(n_left: int, tmp_path: Path) -> None:
    def run(folder: Path, deaths: Sequence[int]) -> tuple[object, ...]:
        folder.mkdir()
        rule = ConfirmRule(alpha=1e-6, beta=1e-6, max_pairs=40)
        with Bench(folder, SKILL, new_tasks(12)) as bench:
            for n in deaths:
                test = open_test(bench.store, arms(bench), bench.tasks, "scripted", rule)
                with bench.ask(Mortal(Scripted(coin), n), test.row.id) as ask, pytest.raises(Killed):
                    run_test(test, bench.store, ask)
            test = open_test(bench.store, arms(bench), bench.tasks, "scripted", rule)
            with bench.ask(Scripted(coin), test.row.id) as ask:
                end = run_test(test, bench.store, ask)
            assert end == standing(test, bench.store)
            assert end.n_pairs == 40
            return (end, *evidence(bench))

    whole = run(tmp_path / "whole", [])
    assert run(tmp_path / "killed", [n_left]) == whole
    assert run(tmp_path / "killed twice", [n_left // 2, n_left // 3]) == whole


class Hanging:
    """A target that is right half the time; where the candidate would be wrong it hangs, and its process is ended."""

    name = fingerprint = "hanging"
    deferred = False

    def __init__(self, *, both: bool = False) -> None:
        self._chance, self._both = random.Random(5), both

    async def complete(self, call: Call) -> Reply:
        """Return a right answer or a wrong one, or raise Killed."""
        is_right = self._chance.random() < 0.5
        if not is_right and (self._both or rollout_of(call).files != SKILL):
            raise Killed
        return Reply(right(call) if is_right else "no")


def restarted_whenever_ended(bench: Bench, target: Hanging) -> confirmation.Test:
    """Return the test of a target that is restarted whenever it was ended."""
    while True:
        test = open_test(bench.store, arms(bench), bench.tasks, "hanging", ConfirmRule(max_pairs=40))
        try:
            with bench.ask(target, test.row.id) as ask:
                run_test(test, bench.store, ask)
        except Killed:
            continue
        return test


def test_a_candidate_is_not_given_the_best_of_the_attempts_that_were_ended(bench: Bench) -> None:
    test = restarted_whenever_ended(bench, Hanging())
    end = standing(test, bench.store)
    assert end.verdict == "undecided"
    assert end.n_missing > 8
    assert f"more than an interruption explains: {end.n_missing} pairs of it counted as missing" in end.reason
    assert {pair.candidate for pair in bench.store.decisions.list_pairs(test.row.id)} == {1.0, None}
    decision = bench.store.decisions.latest_in(test.row.id)
    assert decision is not None
    assert confirm_verdict(bench.store.decisions.list_pairs(test.row.id), decision.inputs) == "undecided"


def test_attempts_of_both_versions_that_were_ended_alike_hardly_count(bench: Bench) -> None:
    end = standing(restarted_whenever_ended(bench, Hanging(both=True)), bench.store)
    assert end.n_missing <= 8


def test_the_jth_test_of_a_skill_has_the_jth_share_of_alpha_and_keeps_it(bench: Bench) -> None:

    def opened(n: int, backend: str = "a") -> tuple[int, float, float]:
        test = open_test(bench.store, arms(bench, n), bench.tasks, backend, RULE)
        return test.row.j, test.row.alpha, test.rule.alpha

    for n, j in ((0, 1), (1, 2), (0, 1), (2, 3), (1, 2)):
        assert opened(n) == (j, pytest.approx(alpha_for(j, 0.05)), pytest.approx(alpha_for(j, 0.05)))
    assert opened(0, "another model")[0] == 4
    with bench.ask(Scripted(right), "t") as ask:
        test = open_test(bench.store, arms(bench, 1), bench.tasks, "a", RULE)
        assert run_test(test, bench.store, ask).alpha == pytest.approx(alpha_for(2, 0.05))


@pytest.mark.parametrize("backend", ["simulated:honest,seed=1", "scripted", "a judged by scripted"])
def test_simulations_take_no_share_of_the_error_rate_of_tests_with_real_models(bench: Bench, backend: str) -> None:
    def opened(n: int, backend: str) -> tuple[int, float]:
        row = open_test(bench.store, arms(bench, n), bench.tasks, backend, RULE).row
        return row.j, row.alpha

    assert upcoming_alpha(bench.store, bench.skill.id, "a", 0.05) == pytest.approx(alpha_for(1, 0.05))
    assert opened(0, backend) == (1, pytest.approx(alpha_for(1, 0.05)))
    assert opened(1, backend) == (2, pytest.approx(alpha_for(2, 0.05)))
    assert upcoming_alpha(bench.store, bench.skill.id, "a", 0.05) == pytest.approx(alpha_for(1, 0.05))
    assert opened(0, "a") == (3, pytest.approx(alpha_for(1, 0.05)))
    assert opened(1, "b judged by c") == (4, pytest.approx(alpha_for(2, 0.05))), "real models share one"
    assert opened(2, backend) == (5, pytest.approx(alpha_for(3, 0.05)))


@pytest.mark.parametrize("origin", ["simulated:x", "scripted", "Simulated:x", "SCRIPTED", "a-simulated", "llama", "*"])
@pytest.mark.parametrize("judged_by", ["", " judged by simulated:y", " judged by Scripted-llama", " judged by b"])
def test_the_store_takes_for_a_simulation_what_is_one(bench: Bench, origin: str, judged_by: str) -> None:
    backend = origin + judged_by
    open_test(bench.store, arms(bench), bench.tasks, backend, RULE)
    n_simulated, n_real = (bench.store.decisions.staked(bench.skill.id, each)[0] for each in ("scripted", "llama"))
    assert (n_simulated, n_real) == ((1, 0) if is_simulated(backend) else (0, 1))


def test_what_a_rejected_simulation_left_unspent_goes_to_simulations_alone(bench: Bench) -> None:
    rejected(bench, 0)
    assert upcoming_alpha(bench.store, bench.skill.id, "a", 0.05) == pytest.approx(alpha_for(1, 0.05))
    assert upcoming_alpha(bench.store, bench.skill.id, "scripted", 0.05) > alpha_for(2, 0.05)
    open_test(bench.store, arms(bench, 0), bench.tasks, "a", RULE)
    assert upcoming_alpha(bench.store, bench.skill.id, "a", 0.05) == pytest.approx(alpha_for(2, 0.05))


def test_what_opening_a_test_reads_does_not_grow_with_the_tests_before_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_read = []
    for n in range(9):
        made = arms(bench, n)
        with noted() as read:
            open_test(bench.store, made, bench.tasks, "scripted", RULE)
        n_read.append(len(read))
    assert len(set(n_read)) == 1
    [of_decisions] = [plan for plan in plans(bench.store.path, read) if "decision" in plan]
    assert "(scope=?)" in of_decisions


def test_a_test_keeps_what_it_asks_from_its_opening_on_whatever_is_asked_later(bench: Bench) -> None:
    begun = ConfirmRule(beta=0.1, min_effect=0.2, margin=0.1, max_pairs=8)
    first = open_test(bench.store, arms(bench), bench.tasks, "a", begun)
    again = open_test(bench.store, arms(bench), bench.tasks, "a", no_worse(0.2, max_pairs=50))
    assert again.rule == replace(first.rule, max_pairs=50)
    assert (first.rule.margin, first.rule.min_effect, first.rule.beta) == (0.1, 0.2, 0.1)


def test_a_test_keeps_the_tasks_it_was_opened_with(bench: Bench) -> None:
    first = open_test(bench.store, arms(bench), bench.tasks, "a", RULE)
    fewer = open_test(bench.store, arms(bench), bench.tasks[:6], "a", RULE)
    assert fewer.tasks == first.tasks
    assert {task.split for task in first.tasks} == {"test"}


def test_a_stored_decision_recomputes_from_its_pairs(bench: Bench) -> None:
    test = open_test(bench.store, arms(bench), bench.tasks, "scripted", RULE)
    backend = Scripted(lambda call: "no" if rollout_of(call).files == SKILL else right(call))
    with bench.ask(backend, test.row.id) as ask:
        assert run_test(test, bench.store, ask).verdict == "accept"
    decision = bench.store.decisions.latest_in(test.row.id)
    assert decision is not None
    assert decision == bench.store.decisions.latest(bench.skill.id, "confirm", SKILL.digest, test.candidate.digest)
    assert confirm_verdict(bench.store.decisions.list_pairs(test.row.id), decision.inputs) == decision.verdict


def rejected(bench: Bench, n: int) -> confirmation.Test:
    """Return the n-th candidate's test, which a target that fails under it has ended."""
    test = open_test(bench.store, arms(bench, n), bench.tasks, "scripted", RULE)
    backend = Scripted(lambda call: right(call) if rollout_of(call).files == SKILL else "no")
    with bench.ask(backend, test.row.id) as ask:
        assert run_test(test, bench.store, ask).verdict == "reject"
    return test


def test_what_a_rejected_test_left_unspent_goes_to_the_next_one(bench: Bench) -> None:
    first = rejected(bench, 0)
    wealth = standing(first, bench.store).wealth
    second = open_test(bench.store, arms(bench, 1), bench.tasks, "scripted", RULE)
    assert 0 < wealth < 1
    assert second.row.alpha > alpha_for(2, 0.05)
    assert second.row.alpha == pytest.approx(next_alpha(2, 0.05, first.row.alpha, refund(first.row.alpha, wealth)))
