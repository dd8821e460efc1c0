"""Joining: what was recorded of a skill's new folder, before it was known for that, becomes the skill's own."""

from __future__ import annotations

from skillopt_mcp.errors import Refused
from skillopt_mcp.records.candidates import candidate_id
from skillopt_mcp.records.skills import Skill
from skillopt_mcp.store.attempts import written
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.events import append
from skillopt_mcp.store.sums import row_sum

MAY_JOIN = frozenset({"tasks", "attempts", "candidates"})
"""What joins: no evidence rests on it. Whatever was tested or promoted keeps its place; its tests count as kin's."""
RECORDED = """
select 'tasks', count(*) from task where skill_id = ?1
union all select 'attempts', count(*) from trajectory where skill_id = ?1
union all select 'runs', count(*) from run where skill_id = ?1
union all select 'candidates', count(*) from candidate where skill_id = ?1
union all select 'promotion tests', count(*) from confirmation where skill_id = ?1
union all select 'changes of the live file', count(*) from promotion where skill_id = ?1
union all select 'histories of other stores', count(*) from imported where skill_id = ?1
union all select 'standing permissions', count(*) from permission where skill_id = ?1
"""
"""How many things of each kind rest on a skill. A decision or a note rests on a candidate or a run."""
RECORDED_KINDS = """
select 'tasks' where exists (select 1 from task where skill_id = ?1)
union all select 'attempts' where exists (select 1 from trajectory where skill_id = ?1)
union all select 'candidates' where exists (select 1 from candidate where skill_id = ?1)
union all select 'other' where exists (select 1 from run where skill_id = ?1)
    or exists (select 1 from confirmation where skill_id = ?1) or exists (select 1 from promotion where skill_id = ?1)
    or exists (select 1 from imported where skill_id = ?1) or exists (select 1 from permission where skill_id = ?1)
"""
"""The kinds of things that rest on a skill, without counting them: there may be a million."""

_BLANKS = "char(9, 10, 11, 12, 13, 32)"
_ASKED = (
    f"with asked(id, skill_id, text) as materialized (select id, skill_id, trim(prompt, {_BLANKS}) from task"
    " where skill_id in (?1, ?2))"
)
# One prompt is one task to whoever knows it, under either skill.
_KNOWN_BY_TASK = (
    f"insert into exposure(task_id, session) {_ASKED} select a.id, e.session from asked a"
    " join asked b on b.text = a.text and b.id <> a.id join exposure e on e.task_id = b.id where true"
    " on conflict do nothing"
)
_KNOWN_BY_ATTEMPT = (
    f"insert into exposure(task_id, session) {_ASKED} select a.id, t.session_id from trajectory t"
    f" join asked a on a.text = trim(t.prompt, {_BLANKS})"
    " where t.skill_id in (?1, ?2) and t.session_id is not null on conflict do nothing"
)
_JOINS = (
    "new.digest not in (select digest from task where skill_id = ?1) and new.id not in (select task_id from retirement)"
)
_CLASHES = (
    f"{_ASKED} select new.name, 1 from task new join task old on old.skill_id = ?1 and old.name = new.name"
    f" where new.skill_id = ?2 and {_JOINS} union all select new.name, 0 from task old"
    f" join asked on asked.text = trim(old.prompt, {_BLANKS}) and asked.skill_id = ?2"
    " join task new on new.id = asked.id and new.split <> old.split"
    f" where old.skill_id = ?1 and old.id in (select task_id from retirement) and {_JOINS} limit 1"
)
_TASKS = (
    "update task set skill_id = ?1 where skill_id = ?2 and digest not in (select digest from task where skill_id = ?1)"
)
_ADDED = (
    "select distinct json_extract(content, '$.key[0]'), json_extract(content, '$.key[1]') from event"
    " where kind in ('tasks_added', 'tasks_moved') and json_extract(content, '$.skill') = ?"
)
_VERSIONS = (
    "insert into version(skill_id, id, parent_id, origin, created_at) select ?1, id, coalesce(parent_id, ?3), origin,"
    " created_at from version where skill_id = ?2 on conflict do nothing"
)
_VERSION_FILES = (
    "insert into version_file(skill_id, version_id, path, sha256, executable) select ?1, version_id, path, sha256,"
    " executable from version_file where skill_id = ?2 on conflict do nothing"
)
_CANDIDATES = (
    "select id, base_version, version_id from candidate where skill_id = ?2 and (base_version, version_id) not in"
    " (select base_version, version_id from candidate where skill_id = ?1) order by rowid"
)
_CANDIDATE = (
    "insert into candidate(id, skill_id, base_version, version_id, origin, reasoning, findings) select ?1, ?2,"
    " base_version, version_id, origin, reasoning, findings from candidate where id = ?3"
)
_EDITS = (
    "insert into edit(candidate_id, n, op, path, target, content, status, reason, detail, sources, cited) select ?1,"
    " n, op, path, target, content, status, reason, detail, sources, cited from edit where candidate_id = ?2"
)
_PLACED = (
    "select session_id, position from trajectory where skill_id = ? and session_id is not null and position is not null"
)
_ATTEMPTS = (
    "select id, version_id, session_id, position, prompt, answer, hard, soft, reason, messages, created_at,"
    " imported_id, sum from trajectory where skill_id = ? order by id"
)


def join(connection: Connection, skill: Skill, other: Skill) -> dict[str, int]:
    """Let tasks, attempts and candidates of `other` be those of `skill` in the caller's transaction; return how many.

    A task that `skill` has already stays with `other`, and whoever knew it there knows it here. Raises Refused when
    another task has its name, or asked the same in another split before it was retired.
    """
    sides = [skill.id, other.id]
    if clash := connection.execute(_CLASHES, sides).fetchone():
        why = "another task has that id" if clash[1] else "a retired task of another split asked the same"
        raise Refused(
            f"task '{clash[0]}' of '{other.path}' cannot join '{skill.name}', where {why}: retire it first "
            "(skillopt-mcp tasks retire), and add it again under another id, or without a split"
        )
    connection.execute(_KNOWN_BY_TASK, sides)
    connection.execute(_KNOWN_BY_ATTEMPT, sides)
    connection.execute(_VERSIONS, [*sides, skill.live_version])
    connection.execute(_VERSION_FILES, sides)
    n_tasks = connection.execute(_TASKS, sides).rowcount
    for first, last in connection.execute(_ADDED, [other.id]).fetchall():
        append(connection, "tasks_moved", first, last, skill=skill.id, before=other.id)
    n_attempts = _join_attempts(connection, skill.id, other.id)
    n_candidates = _join_candidates(connection, skill.id, other.id)
    joined = (("tasks", n_tasks), ("attempts", n_attempts), ("candidates", n_candidates))
    return {kind: n for kind, n in joined if n}


def _join_candidates(connection: Connection, skill_id: int, other_id: int) -> int:
    """Let candidates be those of another skill, too, each under the id that its change has there."""
    rows = connection.execute(_CANDIDATES, [skill_id, other_id]).fetchall()
    for old, base, version in rows:
        new = candidate_id(skill_id, base, version)
        connection.execute(_CANDIDATE, [new, skill_id, old])
        connection.execute(_EDITS, [new, old])
        append(connection, "candidate_made", new, skill=skill_id, base=base, version=version)
    return len(rows)


def _join_attempts(connection: Connection, skill_id: int, other_id: int) -> int:
    """Let attempts be those of another skill; one whose place in its session is taken there goes without a place."""
    taken = set(connection.execute(_PLACED, [skill_id]).fetchall())
    rows = connection.execute(_ATTEMPTS, [other_id]).fetchall()
    for trajectory_id, *row in rows:
        version, session, position, *rest = written(trajectory_id, (other_id, *row))[1:]
        place = None if (session, position) in taken else position
        values = (skill_id, version, session, place, *rest)
        connection.execute(
            "update trajectory set skill_id = ?, position = ?, sum = ? where id = ?",
            [skill_id, place, row_sum(*values), trajectory_id],
        )
    return len(rows)
