"""Coverage: what evidence a standing permission covers, and what a verdict says of evidence that it does not."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from workshop import LESSONS, PLACEBO, Place, as_if_real, use

from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.judges.kinds.reported import ByHost
from skillopt_mcp.judges.kinds.rubric import Rubric
from skillopt_mcp.judges.kinds.text import Exact
from skillopt_mcp.promotion_tests import evaluate_candidate
from skillopt_mcp.promotions.consent import Consent, permit
from skillopt_mcp.promotions.promoting import promote_skill
from skillopt_mcp.records.calls import Call, Reply, Rollout
from skillopt_mcp.records.judging import Judge
from skillopt_mcp.records.results import Promoted
from skillopt_mcp.records.tasks import NewTask
from skillopt_mcp.splits import DEFAULT_SHARES
from skillopt_mcp.tasks import remove_tasks
from skillopt_mcp.workspace import Workspace

REAL = "anthropic:some-model"


def passing(rate: Callable[[Rollout], float], *, alike: bool = False) -> Scripted:
    """Return a target that counts as real, and passes at a rate: by the draw, or `alike` each time."""

    def answer(call: Call) -> str:
        rollout = rollout_of(call)
        seed = f"{rollout.digest} {'' if alike else call.draw}"
        chance = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:6], "big") / (1 << 48)
        return str(rollout.task.judge.model_dump()["expected"]) if chance < rate(rollout) else "no"

    return Scripted(answer, name=REAL)


def rollout_of(call: Call) -> Rollout:
    """Return what a call of a target asks."""
    assert isinstance(call.request, Rollout)
    return call.request


def graded(grade: str) -> str:
    """Return what a judge model answers."""
    return json.dumps({"reason": "so it is", "grade": grade})


def is_new(rollout: Rollout) -> bool:
    """Return whether an attempt is the candidate's."""
    return PLACEBO in rollout.files.text or LESSONS in rollout.files.text


@pytest.fixture
def permitted(workspace: Workspace) -> Workspace:
    use(workspace, as_if_real())
    permit(workspace, "ledger-clerk", simulated=False)
    return workspace


def asked(workspace: Workspace, candidate: str) -> Promoted:
    """Return what an agent hears that has a standing permission; the live file stays as it is."""
    before = workspace.live(workspace.skill("ledger-clerk"))
    result = promote_skill(workspace, candidate, Consent.STANDING)
    assert result.status == "needs_approval"
    assert workspace.live(workspace.skill("ledger-clerk")) == before
    assert result.permit is None
    return result


def test_it_covers_no_test_at_a_larger_error_rate(place: Place, permitted: Workspace) -> None:
    candidate = place.propose(permitted)
    assert evaluate_candidate(permitted, candidate, rule=ConfirmRule(alpha=0.3)).accepted
    assert "error rate above 0.05" in asked(permitted, candidate).reason


def test_a_target_that_answers_alike_each_time_is_reported_and_not_covered(place: Place, permitted: Workspace) -> None:
    use(permitted, passing(lambda rollout: 0.6 if is_new(rollout) else 0.3, alike=True))
    candidate = place.propose(permitted, PLACEBO)
    result = evaluate_candidate(permitted, candidate)
    assert result.verdict == "accept"
    assert "; the target answers alike each time (none of " in result.reason
    assert "to see more of a next edit, a person tests it on tasks that are drawn once each" in result.reason
    assert "answers alike each time" in asked(permitted, candidate).reason


def test_tasks_that_joined_after_evidence_was_seen_are_reported_and_not_covered(
    place: Place, permitted: Workspace
) -> None:
    use(permitted, passing(lambda rollout: 1.0 if is_new(rollout) and "late" in rollout.task.prompt else 0.5))
    candidate, rule = place.propose(permitted, PLACEBO), ConfirmRule(claim="like_these")
    first = evaluate_candidate(permitted, candidate, rule=rule)
    assert (first.verdict, "joined" in first.reason) == ("undecided", False)
    wanted = [(f"late {n} {n * n}: what?", Exact(expected=f"{n} yes")) for n in range(40)]
    late = [NewTask(prompt, judge, split="test") for prompt, judge in wanted]
    permitted.store.tasks.add_tasks(permitted.skill("ledger-clerk").id, late, DEFAULT_SHARES)
    result = evaluate_candidate(permitted, candidate, rule=replace(rule))
    assert result.verdict == "accept"
    assert "; 40 of 70 tasks joined after 30 pairs were seen" in result.reason
    assert "joined its test after evidence was seen" in asked(permitted, candidate).reason


def test_after_lost_tasks_were_retired_it_covers_no_other_candidate(place: Place, permitted: Workspace) -> None:
    loses = {"no": 0.0}
    use(permitted, passing(lambda rollout: loses["no"] if is_new(rollout) else 1.0))
    lost = place.propose(permitted, PLACEBO)
    assert evaluate_candidate(permitted, lost).accepted is False
    skill = permitted.skill("ledger-clerk")
    looks = permitted.store.tasks.list_looks(skill.id)
    names = [task.name for task in permitted.store.tasks.list_in_use(skill.id) if looks.get(task.id)]
    remove_tasks(permitted, "ledger-clerk", names[:2], "the key was wrong")
    use(permitted, as_if_real())
    candidate = place.accepted(permitted)
    assert "2 tasks that earlier candidates lost were retired" in asked(permitted, candidate).reason


@pytest.mark.parametrize(
    ("judge", "why"),
    [
        (ByHost(criteria="It is right."), "the host itself judged its test"),
        (Rubric(rubric="It is right."), "the host's own agents judged its test"),
    ],
)
def test_what_a_host_judges_is_covered_where_a_person_allowed_that(place: Place, judge: Judge, why: str) -> None:
    with place.open(store="judged.db") as own:
        tracked = own.skill(str(place.skill))
        own.store.permissions.add_root(str(place.root))
        tasks = [NewTask(f"task {n} {n * n}: do", Exact(expected="x"), split="test") for n in range(20)]
        own.store.tasks.add_tasks(tracked.id, [*tasks, NewTask("judged: do", judge, split="test")], DEFAULT_SHARES)
        use(own, Scripted(lambda call: "x" if is_new(rollout_of(call)) else "no", name=REAL))
        use(own, Scripted(lambda _: graded("half"), name="host"), "judge")
        permit(own, "ledger-clerk", simulated=False)
        candidate = place.accepted(own)
        result = promote_skill(own, candidate, Consent.STANDING)
        assert (result.status, result.reason) == ("needs_approval", why)
        assert result.permit
        assert result.permit.command == "skillopt-mcp skills permit ledger-clerk --host-run"
        permit(own, "ledger-clerk", simulated=False, host_run=True)
        assert promote_skill(own, candidate, Consent.STANDING).status == "promoted"


def test_a_test_in_which_attempts_of_one_version_were_ended_again_and_again_is_not_covered(
    place: Place, permitted: Workspace
) -> None:
    luck = passing(lambda _: 0.5)
    ended = Counter[str]()

    class Ending(Scripted):
        """A target whose process somebody ends, twice each, where the live version is about to pass."""

        async def complete(self, call: Call) -> Reply:
            reply = await luck.complete(call)
            passes = not is_new(rollout_of(call)) and reply.text != "no"
            if passes and ended[call.draw] < 2:
                ended[call.draw] += 1
                raise KeyboardInterrupt
            return Reply("no") if passes else reply

    use(permitted, Ending(lambda _: "", name=REAL))
    permitted.concurrency = 1
    candidate = place.propose(permitted, PLACEBO)
    while True:
        try:
            result = evaluate_candidate(permitted, candidate)
            break
        except KeyboardInterrupt:
            continue
    assert result.verdict == "accept"
    reported = f"0 attempts of the candidate and {ended.total()} of the live version were restarted"
    assert reported in asked(permitted, candidate).reason
