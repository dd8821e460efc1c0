"""Pending: the state of many skills at once, and how far their promotion tests are, by a few queries."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from skillopt_mcp.core.advice import advise_promotion
from skillopt_mcp.core.candidates import PERSON, candidate_id
from skillopt_mcp.core.next_step import Action, CandidateState, SkillState
from skillopt_mcp.core.skills import short
from skillopt_mcp.store.pool import Pool, Row

IS_THERE = "id not in (select trajectory_id from erased)"
# Of the episode e, from which the task of the draft d was made, is the attempt t.
DRAFTED = "draft d join episode e on d.source = 'sessions' and d.origin = e.session || '#' || e.position"
OF_EPISODE = (
    "t.skill_id = e.skill_id and (t.prompt = e.prompt"
    " or t.session_id = e.session and coalesce(t.position, t.id) between e.position and e.last_position)"
)
_TRIMMED = "trim({0}.prompt, char(9, 10, 11, 12, 13, 32))"
# Of the attempt t, for a skill: it tried no held-out task, and none was made from it.
NOT_HELD_OUT = (
    "not exists (select 1 from task k where k.skill_id = {0} and k.split <> 'train'"
    f" and {_TRIMMED.format('k')} = {_TRIMMED.format('t')})"
    f" and not exists (select 1 from {DRAFTED} join task k on k.id = d.task_id"
    f" where k.skill_id = {{0}} and k.split <> 'train' and {OF_EPISODE})"
)
# Bounded, so that a skill with a million unseen trajectories answers as fast as a new one.
MOST_COUNTED = 10_000
WAITED_FOR = "l.state = 'out' and not exists (select 1 from reply r where r.call_id = l.call_id)"
# Whether a simulation or a script attempted or judged: `evidence.is_simulated`, for a column.
SIMULATED = "(' judged by ' || {0} glob '* judged by simulated*' or ' judged by ' || {0} glob '* judged by scripted*')"
IS_SIMULATED = (
    f"exists (select 1 from promotion_test pt where pt.id = decision.scope and {SIMULATED.format('pt.backend')})"
)
MAX_UNSCORED = 100
_NEWEST = "(select id, hard from trajectory where skill_id = {0} order by id desc limit 1000) n"
LATELY = f"{_NEWEST} join trajectory t using (id)"  # n is read from the index alone
OPEN = (None, True)
_CHOSEN = "in (select value from json_each(?1))"
_UNDECIDED = "not exists (select 1 from decision where scope = c.id)"
_IS_HOSTS = "({0} = 'host' or {0} glob 'host:*')"

_SKILLS = f"""
select id, name,
    (select count(*) from trajectory where skill_id = s.id),
    (select count(*) from (select id from trajectory where skill_id = s.id and id > s.n_seen order by id desc
        limit {MOST_COUNTED}) where {IS_THERE}),
    (select count(*) from (select 1 from (select id, hard from trajectory where skill_id = s.id and id > s.n_seen
        order by id desc limit 1000) where hard is not null and {IS_THERE})),
    (select count(*) from (select 1 from {LATELY.format("s.id")} where n.hard is null and {IS_THERE}
        and {NOT_HELD_OUT.format("s.id")} limit {MAX_UNSCORED})),
    (select case when verdict in ('worse', 'worse_here') then base_version end from decision
        where skill_id = s.id and gate = ?2 and version_id = s.live_version and base_version =
        (select parent_id from version where skill_id = s.id and id = s.live_version)
        order by {IS_SIMULATED}, decision.id desc limit 1)
from skill s where id {_CHOSEN}
"""
# The tasks of each split, and how many wait; then, where both sides have tasks, the tags that one side alone has.
_TASKS = f"""
with grouped as materialized (
    select skill_id, split, tags, count(*) as n, sum(waits) as n_waiting from task
    where skill_id {_CHOSEN} and id not in (select task_id from retirement) group by skill_id, split, tags
)
select skill_id, split, sum(n), sum(n_waiting) from grouped group by skill_id, split
union all
select skill_id, iif(min(split) = 'train', 'no_held_out_of_tag', 'no_train_of_tag'), tag.value, null
from grouped, json_each(tags) tag group by skill_id, tag.value
having count(distinct split = 'train') = 1 and not sum(n_waiting) and skill_id in (
    select skill_id from grouped where n > n_waiting group by skill_id having count(distinct split = 'train') = 2)
order by 2, 3
"""
# Versions that were live one after the other through edits by hand alone; then what was made from them. Whatever was
# live itself is rolled back to, not promoted again. The verdict is that of `Decisions.latest`.
_CANDIDATES = f"""
with recursive edited(skill_id, id) as (
    select id, live_version from skill where id {_CHOSEN}
    union select v.skill_id, v.parent_id from edited
    join version v on v.skill_id = edited.skill_id and v.id = edited.id
    where v.parent_id is not null and not exists (
        select 1 from promotion p where p.skill_id = v.skill_id and p.state = 'done' and p.to_version = v.id)
)
select made.skill_id, made.id, made.version_id, made.base_version <> skill.live_version,
    counted.verdict, json_array_length(made.findings),
    exists (select 1 from decision d where d.skill_id = made.skill_id and d.version_id = made.version_id and gate = ?3
        and d.base_version = made.base_version and verdict = 'declined' and json_extract(inputs, '$.kind') = 'promote'),
    coalesce({SIMULATED.format("test.backend")}, 0),
    test.other_id is not null and (select live_version from skill where id = test.other_id) is not test.other_version
from edited cross join candidate made on made.skill_id = edited.skill_id and made.base_version = edited.id
join skill on skill.id = made.skill_id
left join decision counted on counted.id = (
    select decision.id from decision where decision.skill_id = made.skill_id and gate = ?2
        and decision.base_version = made.base_version and decision.version_id = made.version_id
        order by {IS_SIMULATED}, decision.id desc limit 1)
left join promotion_test test on test.id = counted.scope
where +made.origin <> 'step' and made.version_id <> skill.live_version and not exists (
    select 1 from promotion p where p.skill_id = made.skill_id and p.state = 'done' and p.to_version = made.version_id)
order by made.rowid
"""
_TESTS = f"""
select c.skill_id, c.version_id, c.id, (select count(*) from lease l where l.scope = c.id and {WAITED_FOR})
from skill cross join promotion_test c on c.skill_id = skill.id and c.base_version = skill.live_version
where skill.id {_CHOSEN} and {_UNDECIDED} and (
    exists (select 1 from lease l where l.scope = c.id and {WAITED_FOR})
    or (c.backend glob 'host*' or c.backend glob '* judged by host*')
        and exists (select 1 from test_attempt where test_id = c.id))
order by c.rowid
"""
_RUNS = f"""
select skill.id, run.id, kind, (select count(*) from lease l where l.scope = run.id and {WAITED_FOR})
from skill cross join run on run.skill_id = skill.id and run.base_version = skill.live_version
where skill.id {_CHOSEN} and (
    run.kind = 'proposal' and run.status = 'running'
        and ({_IS_HOSTS.format("target")} or {_IS_HOSTS.format("optimizer")} or {_IS_HOSTS.format("judge")})
    or run.kind = 'replay' and run.status <> 'finished'
        and run.rowid = (select max(rowid) from run where skill_id = skill.id))
order by run.rowid
"""
_APPROVED = f"""
select skill_id, kind, from_version, to_version from approval
where skill_id {_CHOSEN} and not exists (select 1 from promotion where approval_id = approval.id) order by id
"""

# Of the newest verdict on each skill by real models, those of a gate of its repository too: how its target was named,
# and who served its attempts; and who served the newest of later calls to the target of that name.
_SERVED_LATER = f"""
with judged as (
    select k.id as skill_id, t.id, substr(t.backend, 1, instr(t.backend || ',', ',') - 1) as spec, max(d.id)
    from skill k join skill o on o.id = k.id or (o.path glob 'git:*' and k.path glob
        '*/' || substr(o.path, instr(substr(o.path, 5), ':') + 5))
    join promotion_test t on t.skill_id = o.id join decision d on d.scope = t.id
    where k.id {_CHOSEN} and d.gate = ?2 and not {SIMULATED.format("t.backend")} group by k.id
), served_by as (
    select j.skill_id, j.spec, group_concat(s.name, ' + ') as models, max(a.call_id) as last
    from judged j join test_attempt a on a.test_id = j.id join reply r on r.call_id = a.call_id
    join served s on s.id = r.served group by j.skill_id
)
select skill_id, spec, models, (
    select s.name from call c join reply r on r.call_id = c.id join served s on s.id = r.served
    where c.id > b.last and c.role = 'target' and b.spec in (
        select substr(backend, 1, instr(backend || ',', ',') - 1) from promotion_test where id = c.scope
        union select substr(target, 1, instr(target || ',', ',') - 1) from run where id = c.scope)
    order by c.id desc limit 1)
from served_by b
"""


class Pending:
    """What skills have to go on with."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def skill_states(
        self, skill_ids: Sequence[int], gate: str, is_accepted: Callable[[str, str], bool]
    ) -> dict[int, SkillState]:
        """The state of each of these skills, by a gate's verdicts: as many queries for many as for one.

        `is_accepted` is asked about a candidate, by its id, and the gate's verdict on it.
        """
        chosen = json.dumps(skill_ids)
        tasks = defaultdict[int, dict[str, int]](dict)
        gaps = defaultdict[int, dict[str, list[str]]](dict)
        for skill, what, found, n_waiting in self._pool.rows(_TASKS, [chosen]):
            if n_waiting is None:
                gaps[skill].setdefault(str(what), []).append(str(found))
            else:
                tasks[skill] |= {str(what): found} | ({"waiting": n_waiting} if what == "train" else {})
        candidates = _by_skill(
            (*row[:4], None if row[4] is None else is_accepted(str(row[1]), str(row[4])), *row[5:])
            for row in self._pool.rows(_CANDIDATES, [chosen, gate, PERSON])
        )
        tests = _by_skill(self._pool.rows(_TESTS, [chosen]))
        runs = _by_skill(self._pool.rows(_RUNS, [chosen]))
        approved = _by_skill(self._pool.rows(_APPROVED, [chosen]))
        states = dict[int, SkillState]()
        for row in self._pool.rows(_SKILLS, [chosen, gate]):
            skill, name, n_trajectories, n_new, n_scored, n_unscored, better = row
            agreed = tuple(dict.fromkeys(
                candidate_id(skill, str(before), str(after)) if kind == "promote" else str(after)
                for _, kind, before, after in approved[skill]
            ))  # fmt: skip
            under_test = {str(version): (str(test), n) for _, version, test, n in tests[skill]}
            current = [each for each in candidates[skill] if not each[3]]
            stale = [each for each in candidates[skill] if each[4] in OPEN]
            first = _choose_candidate(current or stale, agreed, under_test)
            job, n_open = under_test.get(str(first[2]), ("", 0)) if first else ("", 0)
            proposals = [(str(run), n) for _, run, kind, n in runs[skill] if kind == "proposal"]
            if not n_open:  # a test without work out goes on with evaluate_candidate
                job, n_open = proposals[-1] if proposals else ("", 0)
            states[skill] = SkillState(
                skill=name, n_train=tasks[skill].get("train", 0), n_val=tasks[skill].get("val", 0),
                n_test=tasks[skill].get("test", 0), n_waiting=tasks[skill].get("waiting", 0),
                n_trajectories=n_trajectories, n_new=n_new, n_scored=n_scored, n_unscored=n_unscored,
                open_job=job or None, n_open=n_open,
                stopped_run=next((str(run) for _, run, kind, _ in runs[skill] if kind == "replay"), None),
                n_candidates=sum(each[4] in OPEN for each in current), worse_than=short(better) if better else "",
                candidate=_candidate(first) if first else None, approved=agreed, gaps=gaps[skill],
            )  # fmt: skip
        return states

    def list_served_later(self, skill_ids: Sequence[int], gate: str) -> dict[int, tuple[str, str, str]]:
        """The skills whose newest verdict is by a target that was asked again later, by whatever model.

        With that target's name, who served the attempts of the verdict, and who served the newest call.
        """
        rows = self._pool.rows(_SERVED_LATER, [json.dumps(skill_ids), gate])
        return {skill: (str(spec), str(models), str(now)) for skill, spec, models, now in rows if now is not None}

    def list_most_urgent(self, gate: str) -> dict[int, Action]:
        """The most urgent action that each skill may need next: what is looked at closely can only be less."""
        sql = f"""
        select id, case
            when exists (select 1 from decision d where skill_id = s.id and gate = ?1 and version_id <> s.live_version
                and verdict in ('better', 'no_worse') and not exists (select 1 from promotion p
                where p.skill_id = s.id and state = 'done' and to_version = version_id)) then 'promote_skill'
            when exists (select 1 from decision where skill_id = s.id and version_id = s.live_version and gate = ?1
                and verdict in ('worse', 'worse_here')) then 'rollback_skill'
            when exists (select 1 from run where skill_id = s.id and status <> 'finished')
                or exists (select 1 from promotion_test c where skill_id = s.id and base_version = s.live_version
                and {_UNDECIDED}) then 'submit_work'
            when exists (select 1 from candidate c where skill_id = s.id and origin <> 'step' and not exists (
                select 1 from decision where skill_id = s.id and version_id = c.version_id
                and base_version = c.base_version and gate = ?1)) and (exists (select 1 from task where skill_id = s.id)
                or exists (select 1 from trajectory where skill_id = s.id and hard is not null))
                then 'evaluate_candidate'
            when exists (select 1 from task where skill_id = s.id and split = 'train'
                and id not in (select task_id from retirement)) then 'propose_edits'
            when exists (select 1 from trajectory where skill_id = s.id) then 'record_trajectory'
            else 'add_tasks' end
        from skill s
        """
        return dict(self._pool.rows(sql, [gate]))


def _by_skill(rows: Iterable[Row]) -> defaultdict[int, list[Row]]:
    found = defaultdict[int, list[Row]](list)
    for row in rows:
        found[row[0]].append(row)
    return found


def _choose_candidate(rows: Sequence[Row], agreed: Sequence[str], under_test: dict[str, tuple[str, int]]) -> Row | None:
    """Return the candidate that matters most of a skill's, which are the newest last."""

    def rank(row: Row) -> tuple[bool, ...]:
        _, made, version, _, accepted, n_findings, is_declined, *_ = row
        is_accepted = accepted and not is_declined
        is_open = accepted is None
        out = under_test.get(str(version))
        return (
            not (is_accepted and made in agreed), not is_accepted, not (is_open and out and out[1]),
            not (is_open and out), not is_open, bool(n_findings),
        )  # fmt: skip

    return min(reversed(rows), key=rank, default=None)


def _candidate(row: Row) -> CandidateState:
    _, made, _, is_stale, accepted, n_findings, is_declined, is_simulated, is_apart = row
    step = advise_promotion(made, n_findings, is_simulated=bool(is_simulated)) if accepted and not is_apart else None
    return CandidateState(made, accepted, bool(is_stale), bool(is_declined), step)
