"""Next steps: which candidates a verdict lets a person promote, and what a skill needs next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from skillopt_mcp.core.advice import WORSE_LIVE, advise, advise_promotion
from skillopt_mcp.core.candidates import GATE, Candidate, find_rolled_back
from skillopt_mcp.core.next_step import NextStep, SkillState
from skillopt_mcp.core.skills import Skill, short
from skillopt_mcp.store.files import is_locked
from skillopt_mcp.store.pending import Pending
from skillopt_mcp.workspace.evidence import is_simulated
from skillopt_mcp.workspace.skill_folders import handle

if TYPE_CHECKING:
    from skillopt_mcp.store.opening import Store
    from skillopt_mcp.store.promotion_tests import TestRow
    from skillopt_mcp.workspace.place import Place

LEAST_SHORTENING = 0.05


def is_reason_to_promote(store: Store, candidate: Candidate, verdict: str) -> bool:
    """Whether a verdict is a reason to promote: better, or no worse by the default margin and 5 % shorter."""
    if verdict != "no_worse":
        return verdict == "better"
    from skillopt_mcp.gates.rounds import DEFAULT_MARGIN  # noqa: PLC0415 (listing skills takes no pydantic)

    tests = [
        row
        for row in store.tests.list_of(candidate.skill_id, candidate.base_version, candidate.version_id)
        if (decided := store.decisions.latest_in(row.id)) and decided.verdict == "no_worse"
    ]
    is_close = any(row.plan.margin is not None and row.plan.margin <= DEFAULT_MARGIN for row in tests)
    before, after = (
        len(store.skills.get_files(candidate.skill_id, version).text)
        for version in (candidate.base_version, candidate.version_id)
    )
    return is_close and 1 - after / max(1, before) >= LEAST_SHORTENING


def skill_states(store: Store, skill_ids: Sequence[int]) -> dict[int, SkillState]:
    """The state of each of these skills, by which its next step is advised."""

    def is_accepted(id: str, verdict: str) -> bool:
        if verdict != "no_worse":
            return verdict == "better"
        return is_reason_to_promote(store, store.candidates.get_candidate(id), verdict)

    states = store.table(Pending).skill_states(skill_ids, GATE, is_accepted)
    for id, state in states.items():
        if state.candidate and state.candidate.accepted and not state.candidate.promotion:
            accepted = store.candidates.get_candidate(state.candidate.id)
            step = advise_accepted(store, accepted)
            promotion = step if step.action == "promote_skill" else None
            first = replace(state.candidate, accepted=bool(promotion) or None, promotion=promotion)
            states[id] = replace(state, candidate=replace(first, id=str(step.arguments["candidate_id"])))
    return states


def find_apart(store: Store, candidate: Candidate, place: Place | None = None) -> tuple[str, NextStep] | None:
    """Why an accepted candidate cannot go live yet: of its run's other document not the version is live that its test
    was with. And what to do: promote that, or test again. With a place the other file is looked at.
    """
    test = _find_test(store, candidate)
    if test is None or test.other is None:
        return None
    trouble = place.describe_trouble(store.skills.get_skill(test.other.skill_id)) if place else ""
    other = store.skills.get_skill(test.other.skill_id)
    if not trouble and other.live_version == test.other.version:
        return None
    versions = (other.live_version, test.other.version)
    made = [each.id for each in store.candidates.list_candidates(other.id, steps=True)
            if (each.base_version, each.version_id) == versions]  # fmt: skip
    again = NextStep("evaluate_candidate", {"candidate_id": candidate.id}, "tests it with what is live")
    why = f"its test was with version {short(test.other.version)} of '{other.name}', which is not live"
    return why, advise_promotion(made[-1], is_simulated=_is_simulated(test)) if made else again


def advise_accepted(store: Store, candidate: Candidate, place: Place | None = None) -> NextStep:
    """The promotion of an accepted candidate, or what comes before it (`find_apart`)."""
    apart = find_apart(store, candidate, place)
    by_simulation = _is_simulated(_find_test(store, candidate))
    return apart[1] if apart else advise_promotion(candidate.id, len(candidate.findings), is_simulated=by_simulation)


def _find_test(store: Store, candidate: Candidate) -> TestRow | None:
    """The test whose verdict on a candidate counts."""
    decision = store.decisions.latest(candidate.skill_id, GATE, candidate.base_version, candidate.version_id)
    return store.tests.find(decision.scope) if decision else None


def _is_simulated(test: TestRow | None) -> bool:
    return test is not None and is_simulated(test.backend)


def advise_skill(store: Store, skill: Skill) -> NextStep:
    """The next step of a skill whose folder can be read."""
    state = skill_states(store, [skill.id])[skill.id]
    is_running = state.stopped_run is not None and is_locked(store.locks_path, state.stopped_run)
    # Agents are shown this step, too.
    return advise(replace(state, skill=handle(store, skill), is_running=is_running, worse_than=""))


def describe_outdated(store: Store, skills: Sequence[Skill]) -> dict[int, str]:
    """By the ids of skills: that another model answers now than in the newest test of one, and how both are compared.

    It is known from later calls to the same target alone: nothing is asked.
    """
    found = dict[int, str]()
    paths = {skill.id: skill.path for skill in skills}
    for id, (spec, models, now) in store.table(Pending).list_served_later([*paths], GATE).items():
        before, later = ([re.sub("/fp_.*", "", name) for name in text.split(" + ")] for text in (models, now))
        if not set(later) & set(before):
            old = f"{spec.partition(':')[0]}:{before[-1]}"
            line = ["skillopt-mcp", "gate", paths[id], "--target", old, "--against-model", spec]
            found[id] = f"tested with {before[-1]}, but {later[-1]} answers now: {shlex.join(line)}"
    return found


def undo_edit(store: Store, candidate: Candidate, why: str) -> NextStep:
    """How a person takes back a text that is live: the version before it."""
    skill = handle(store, store.skills.get_skill(candidate.skill_id))
    return NextStep.at_terminal("rollback_skill", {"skill": skill, "version": short(candidate.base_version)}, why)


def undo_worse(store: Store, place: Place, candidate: Candidate, verdict: str | None) -> NextStep | None:
    """How a person takes back a text whose test says that it is worse; None after other verdicts, and for agents."""
    is_worse = verdict in ("worse", "worse_here") and not place.is_agents
    return undo_edit(store, candidate, WORSE_LIVE) if is_worse else None


def advise_test(store: Store, candidate: Candidate, why: str) -> NextStep:
    """The test of a candidate; where no task is held out, how there will be some."""
    if not store.tasks.count_tasks(candidate.skill_id)["test"]:
        step = advise_skill(store, store.skills.get_skill(candidate.skill_id))
        return replace(step, why=f"{step.why}; {why}")
    return NextStep(action="evaluate_candidate", arguments={"candidate_id": candidate.id}, why=why)


def was_live(store: Store, candidate: Candidate) -> bool:
    """Whether a candidate was ever promoted, or its version rolled back to."""
    changes = store.promotions.list_promotions(candidate.skill_id)
    return any(each.to_version == candidate.version_id for each in changes)


def bring_back(store: Store, candidate: Candidate) -> NextStep | None:
    """How a person has a candidate again that a person rolled back; None for any other candidate."""
    if candidate.version_id not in find_rolled_back(store.promotions.list_promotions(candidate.skill_id)):
        return None
    arguments = {
        "skill": handle(store, store.skills.get_skill(candidate.skill_id)),
        "version": short(candidate.version_id),
    }
    return NextStep.at_terminal("rollback_skill", arguments, "a person rolled it back; only a person brings it back")


def verdict_for_agents(store: Store, candidate: Candidate | None, verdict: str | None) -> str | None:
    """What an agent learns of a verdict: accepted or not accepted, None before there is one."""
    if candidate is None or verdict is None:
        return None
    return "accepted" if is_reason_to_promote(store, candidate, verdict) else "not accepted"
