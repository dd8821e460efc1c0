"""Racing: candidates of one skill on shared rollouts of its val tasks; the hopeless drop out, none is accepted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel

from skillopt_mcp.errors import BadInput, BadSkill, Refused
from skillopt_mcp.gates.racing import RaceRule, Standing, leader
from skillopt_mcp.operations.candidates.recalling import told_rolled_back
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.results import Result
from skillopt_mcp.operations.spending.using import Used, used_by
from skillopt_mcp.operations.testing.comparing import carried_out, new_contest, search_tasks, told_apart
from skillopt_mcp.operations.testing.concluding import NO_GAIN
from skillopt_mcp.operations.testing.controls import NAMES, Control, evidence_for, rewrite
from skillopt_mcp.operations.testing.evaluating import check_testable
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.optimizer.progress import Notify, silent
from skillopt_mcp.optimizer.racing import run_race
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.candidates import Candidate
from skillopt_mcp.records.skills import Skill, SkillFiles, short

MAX_ARMS = 16
_CANDIDATE = re.compile("c-[0-9a-f]{12}")


class RaceRow(BaseModel):
    """One arm: its mean gain over the live version on `n` shared tasks, and why it dropped out ("" while it is in)."""

    arm: str
    version: str
    n: int
    gain: float
    dropped: str


class Raced(Result):
    """How candidates of one skill, and controls, did beside its live version. A race drops and accepts none.

    `rewrite_id` is the candidate that the one-shot rewrite is kept as.
    """

    skill: str
    live_version: str
    laps: int
    rows: list[RaceRow]
    leader: str | None
    rewrite_id: str | None = None
    used: Used


@dataclass(frozen=True, slots=True)
class Entry:
    """Who races: candidates of one version of a skill, none where only controls are compared with that version."""

    skill: Skill
    base: str
    candidates: tuple[Candidate, ...]
    controls: tuple[Control, ...]


@dataclass(frozen=True, slots=True)
class _Outcome:
    arms: tuple[tuple[str, SkillFiles], ...]
    standings: Sequence[Standing]
    n_laps: int
    rewrite_id: str | None
    contest: str


def race_candidates(
    workspace: Workspace,
    names: Sequence[str],
    rule: RaceRule | None = None,
    *,
    controls: Sequence[Control] = (),
    notify: Notify = silent,
) -> Raced:
    """Return where candidates end that share rollouts of their skill's live version; with controls, a skill will do.

    The control `none` is no skill at all, `rewrite` the skill rewritten once by the optimizer from what was recorded
    and rolled out on train tasks. Raises BadInput when candidates are of several skills or versions, or there is no val
    task, BackendError without a target, or without an optimizer that is needed.
    """
    entry = entered(workspace, names, controls)
    found = _raced(workspace, entry, rule or RaceRule(), notify)
    # A control is there to be compared with: it leads nobody into a test.
    first = leader(found.standings[: len(entry.candidates)])
    ahead = entry.candidates[first].id if first is not None else None
    return Raced(
        skill=entry.skill.name,
        live_version=short(entry.base),
        laps=found.n_laps,
        rows=[
            RaceRow(arm=name, version=short(arm.digest), n=at.n, gain=round(at.gain, 4), dropped=at.dropped)
            for (name, arm), at in zip(found.arms, found.standings, strict=True)
        ],
        leader=ahead,
        rewrite_id=found.rewrite_id,
        used=used_by(workspace.store, found.contest),
        next_step=f"{_next_step(workspace, entry, found, ahead)}{told_apart(workspace, found.contest)}",
    )


def is_candidate(name: str) -> bool:
    """Return whether a name is the id of a candidate, and not a skill's."""
    return _CANDIDATE.fullmatch(name) is not None


def entered(workspace: Workspace, names: Sequence[str], controls: Sequence[Control] = ()) -> Entry:
    """Return who races, each once. Raises BadInput, NotFound and BadSkill as `race_candidates` does."""
    store, controls = workspace.store, tuple(dict.fromkeys(controls))
    if len(names) == 1 and not is_candidate(names[0]):
        skill = workspace.recorded(names[0])
        if not controls:
            raise BadInput(f"'{skill.name}' alone is no race: name candidates (c-...), or controls to compare it with")
        return Entry(skill, skill.live_version, (), controls)
    candidates = tuple(store.candidates.get_candidate(known(id)) for id in dict.fromkeys(names))
    if not candidates:
        raise BadInput("no candidate was named: name one or more, c-...")
    if len(candidates) + len(controls) > MAX_ARMS:
        most = MAX_ARMS - len(controls)
        raise BadInput(f"{len(candidates)} candidates are too many for one race: name at most {most}")
    if len({(each.skill_id, each.base_version) for each in candidates}) > 1:
        raise BadInput("these candidates were not made from one version of one skill: race those that were")
    first = candidates[0]
    return Entry(store.skills.get_skill(first.skill_id), first.base_version, candidates, controls)


def _raced(workspace: Workspace, entry: Entry, rule: RaceRule, notify: Notify) -> _Outcome:
    """Return where everybody ended; the rewrite is asked for first, and in the same budget."""
    store, skill_id = workspace.store, entry.skill.id
    base = store.skills.get_files(skill_id, entry.base)
    arms = [(each.id, store.skills.get_files(skill_id, each.version_id)) for each in entry.candidates]
    if "none" in entry.controls:
        arms.append((NAMES["none"], SkillFiles(())))
    tasks = search_tasks(workspace, skill_id)
    contest = new_contest(workspace, "race", skill_id, [base, *(files for _, files in arms)], tasks)
    evidence = evidence_for(workspace, skill_id, entry.base) if "rewrite" in entry.controls else None
    if evidence:
        optimizer = workspace.backend("optimizer").fingerprint
        contest = replace(contest, name=f"{contest.name}-{evidence.named(optimizer)}")

    def work(ask: Ask) -> _Outcome:
        entered, made = arms, None
        if evidence:
            made = rewrite(workspace, ask, base, evidence)
            entered = [*arms, (NAMES["rewrite"], store.skills.get_files(skill_id, made.version_id))]
        everybody = replace(contest, arms=(base, *(files for _, files in entered)))
        standings, n_laps = run_race(everybody, rule, store, ask, notify)
        return _Outcome(tuple(entered), standings, n_laps, made.id if made else None, contest.name)

    return carried_out(workspace, contest, work, read=evidence.tasks if evidence else None)


def _next_step(workspace: Workspace, entry: Entry, found: _Outcome, ahead: str | None) -> str:
    gains = {name: at.gain for (name, _), at in zip(found.arms, found.standings, strict=True) if not at.dropped}
    better = [name for name in NAMES.values() if gains.get(name, 0.0) > max(0.0, gains.get(ahead or "", 0.0))]
    warning = f" Mind that the control{'s' * (len(better) > 1)} {' and '.join(better)} gained more." if better else ""
    if found.rewrite_id and NAMES["rewrite"] in better:
        warning += f" The rewrite is candidate {found.rewrite_id}: it can be tested like any other."
    if ahead:
        return f"{_after(workspace, ahead)}{warning}"
    if entry.candidates:
        return f"None of them gains anything: propose other edits.{warning}"
    if any(at.dropped or at.gain < 0 for at in found.standings):
        return warning.strip() or "The live skill holds its own beside the controls."
    return warning.strip() or "No difference was found: on these tasks the live skill does no better than the controls."


def _after(workspace: Workspace, ahead: str) -> str:
    """Return what to do with the candidate that leads: test it, where it may be tested."""
    store = workspace.store
    candidate = store.candidates.get_candidate(ahead)
    if told := told_rolled_back(store, candidate):
        return f"{ahead} leads. {told}."
    try:
        check_testable(workspace, candidate)
    except (Refused, BadSkill) as error:
        return f"{ahead} leads, but {str(error).rstrip('.')}."
    decision = store.decisions.latest(candidate.skill_id, GATE, candidate.base_version, candidate.version_id)
    if decision and decision.verdict == "reject":
        return f"{ahead} leads, but its promotion test has rejected it. {NO_GAIN}"
    return f"Call evaluate_candidate with candidate_id {ahead}: only a promotion test accepts."
