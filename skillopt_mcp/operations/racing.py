"""Racing: candidates of one skill on shared rollouts of its val tasks; the hopeless drop out, none is accepted."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from skillopt_mcp.errors import BadInput
from skillopt_mcp.gates.racing import RaceRule, Standing, leader
from skillopt_mcp.operations.comparing import carried_out, new_contest, search_tasks
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.results import Result
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.progress import Notify, silent
from skillopt_mcp.optimizer.racing import run_race
from skillopt_mcp.records.calls import Ask
from skillopt_mcp.records.candidates import Candidate
from skillopt_mcp.records.skills import SkillFiles, short

NO_SKILL = "no skill"
MAX_ARMS = 16


class RaceRow(BaseModel):
    """One arm: its mean gain over the live version on `n` shared tasks, and why it dropped out ("" while it is in)."""

    arm: str
    version: str
    n: int
    gain: float
    dropped: str


class Raced(Result):
    """How candidates of one skill did beside its live version. A race drops candidates and accepts none."""

    skill: str
    live_version: str
    laps: int
    rows: list[RaceRow]
    leader: str | None


def race_candidates(
    workspace: Workspace,
    candidate_ids: Sequence[str],
    rule: RaceRule | None = None,
    *,
    no_skill: bool = False,
    notify: Notify = silent,
) -> Raced:
    """Return where candidates of one skill end that share rollouts of its live version; `no_skill` races as a control.

    Raises BadInput when they are of several skills or versions, or there is no val task; BackendError without a target.
    """
    store = workspace.store
    candidates = [store.candidates.get_candidate(known(id)) for id in dict.fromkeys(candidate_ids)]
    _check(candidates, no_skill)
    base = candidates[0].base_version
    skill = store.skills.get_skill(candidates[0].skill_id)
    arms = [(each.id, store.skills.get_files(skill.id, each.version_id)) for each in candidates]
    if no_skill:
        arms.append((NO_SKILL, SkillFiles(())))
    files = [store.skills.get_files(skill.id, base), *(files for _, files in arms)]
    contest = new_contest(workspace, "race", skill.id, files, search_tasks(workspace, skill.id))

    def work(ask: Ask) -> tuple[list[Standing], int]:
        return run_race(contest, rule or RaceRule(), store, ask, notify)

    standings, n_laps = carried_out(workspace, contest, work)
    # The control is there to be compared with: it leads nobody into a test.
    first = leader(standings[: len(candidates)])
    ahead = candidates[first].id if first is not None else None
    return Raced(
        skill=skill.name,
        live_version=short(base),
        laps=n_laps,
        rows=[
            RaceRow(arm=name, version=short(arm.digest), n=at.n, gain=round(at.gain, 4), dropped=at.dropped)
            for (name, arm), at in zip(arms, standings, strict=True)
        ],
        leader=ahead,
        next_step=f"Call evaluate_candidate with candidate_id {ahead}: only a promotion test accepts."
        if ahead
        else "None of them gains anything: propose other edits.",
    )


def _check(candidates: Sequence[Candidate], no_skill: bool) -> None:
    if not candidates:
        raise BadInput("no candidate was named: name one or more, c-...")
    if len(candidates) + no_skill > MAX_ARMS:
        raise BadInput(f"{len(candidates)} candidates are too many for one race: name at most {MAX_ARMS - no_skill}")
    if len({(each.skill_id, each.base_version) for each in candidates}) > 1:
        raise BadInput("these candidates were not made from one version of one skill: race those that were")
