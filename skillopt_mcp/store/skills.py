"""Skills at rest: their versions, and the contents of their files."""

from __future__ import annotations

import hashlib
import re
import shlex
import zlib
from collections.abc import Mapping, Sequence
from typing import Literal

from skillopt_mcp.core.errors import NotFound, UnsafeStore
from skillopt_mcp.core.skills import Skill, SkillFile, SkillFiles, Version
from skillopt_mcp.store.permissions import withdraw
from skillopt_mcp.store.pool import Connection, Pool, Row

_SKILL = "select id, name, path, live_version, best_version from skill"
_LISTED = "is_hidden = 0"
GATED = "git:"
"""What begins the path of a skill that a gate tests: it has no folder on disk, and no name is looked up among them."""
GATED_OWN = re.compile(rf"{GATED}\w+:")
"""Of these one that is tested on the tasks of its own repository."""
_ON_DISK = f"path not glob '{GATED}*'"
_EMPTY = SkillFiles(()).digest
_VERSION = "select id, skill_id, parent_id, origin, created_at from version"
_COMPRESS_FROM = 1024
# A decision or a note rests on a candidate or a run.
_RECORDED = """
select 'tasks', count(*) from task where skill_id = ?1
union all select 'attempts', count(*) from trajectory where skill_id = ?1
union all select 'runs', count(*) from run where skill_id = ?1
union all select 'candidates', count(*) from candidate where skill_id = ?1
union all select 'promotion tests', count(*) from promotion_test where skill_id = ?1
union all select 'changes of the live file', count(*) from promotion where skill_id = ?1
union all select 'standing permissions', count(*) from permission where skill_id = ?1
"""


class Skills:
    """Tables skill, version, version_file, blob."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def find_skill(self, name_or_path: str) -> Skill | None:
        """Return the tracked skill at a resolved folder path, or the only one of that name; None when there is none.

        A forgotten one has its name only where no other has it. Raises NotFound when several tracked skills share the
        name: use the path then.
        """
        where = f"where {_ON_DISK} and (path = ?1 or name = ?1) order by path = ?1 desc, id"
        rows = self._pool.rows(f"{_SKILL} {where}", [name_or_path])
        if not rows:
            return None
        skills = [_skill(row) for row in rows]
        if skills[0].path == name_or_path:
            return skills[0]
        forgotten = self.list_forgotten() if len(skills) > 1 else set()
        skills = [skill for skill in skills if skill.id not in forgotten] or skills
        if len(skills) > 1:
            paths = ", ".join(f"'{skill.path}'" for skill in skills)
            raise NotFound(f"{len(skills)} tracked skills are named '{name_or_path}': use the path, one of {paths}")
        return skills[0]

    def find_at(self, path: str) -> Skill | None:
        """Return the tracked skill at a path, or None."""
        row = self._pool.row(f"{_SKILL} where path = ?", [path])
        return _skill(row) if row else None

    def find_listed(self, path: str) -> Skill | None:
        """Return the tracked skill at a path, None where there is none or it is forgotten."""
        row = self._pool.row(f"{_SKILL} where path = ? and {_LISTED}", [path])
        return _skill(row) if row else None

    def find_paths(self, name: str) -> list[str]:
        """Return the paths of the tracked skills of this name, the oldest first."""
        return [
            str(row[0])
            for row in self._pool.rows(f"select path from skill where name = ? and {_ON_DISK} order by id", [name])
        ]

    def find_forgotten_paths(self, name: str) -> set[str]:
        """Return those of `find_paths` whose skills are not listed."""
        sql = f"select path from skill where name = ? and is_hidden and {_ON_DISK}"
        return {str(row[0]) for row in self._pool.rows(sql, [name])}

    def get_skill(self, skill_id: int) -> Skill:
        """Return the skill with this id."""
        row = self._pool.row(f"{_SKILL} where id = ?", [skill_id])
        if row is None:
            raise NotFound(f"the store has no skill {skill_id}: run list_skills")
        return _skill(row)

    def list_skills(self) -> list[Skill]:
        """Return every tracked skill, by name."""
        return [_skill(row) for row in self._pool.rows(f"{_SKILL} where {_ON_DISK} order by name, path")]

    def list_listed(self, having: str = "") -> list[Skill]:
        """Every tracked skill that is not forgotten, and has a version whose id begins with `having`, by name."""
        has_version = "?1 = '' or id in (select skill_id from version where id >= ?1 and id < ?1 || 'g')"
        rows = self._pool.rows(f"{_SKILL} where {_LISTED} and ({has_version}) order by name, path", [having])
        return [_skill(row) for row in rows]

    def track(self, name: str, path: str, files: SkillFiles, begun: int | None = None) -> Skill:
        """Return the skill at `path`, added if it is new, with `files` stored as its live version.

        `begun` is the id of its newest change when the files were read (0: none). While that one is under way, or where
        another has begun since, they may be neither old nor new: the skill is returned as it is in the store.
        """
        with self._pool.write() as connection:
            row = connection.execute(f"{_SKILL} where path = ?", [path]).fetchone()
            if row and begun is not None:
                newest = "select id, state from promotion where skill_id = ? order by id desc limit 1"
                change = connection.execute(newest, [_skill(row).id]).fetchone()
                if change and (change[0] != begun or change[1] in ("pending", "undoing")):
                    return _skill(row)
            if row is None:
                cursor = connection.execute(
                    "insert into skill(name, path, live_version) values (?, ?, ?)", [name, path, files.digest]
                )
                skill_id, parent = int(cursor.lastrowid or 0), None
            else:
                skill_id, parent = _skill(row).id, _skill(row).live_version
                values = [name, files.digest, skill_id]
                connection.execute("update skill set name = ?, live_version = ?, is_hidden = 0 where id = ?", values)
            add_version(connection, skill_id, files, parent_id=parent, origin="recorded")
            return _skill(connection.execute(f"{_SKILL} where id = ?", [skill_id]).fetchone())

    def add_gated(self, name: str, path: str, base: SkillFiles) -> Skill:
        """The skill that a gate tests by this path, hidden and added if it is new; `base` is its live version then."""
        with self._pool.write() as connection:
            connection.execute(
                "insert into skill(name, path, live_version, is_hidden) values (?1, ?2, ?3, 1)"
                " on conflict(path) do update set name = ?1, live_version = ?3",
                [name, path, base.digest],
            )
            skill = _skill(connection.execute(f"{_SKILL} where path = ?", [path]).fetchone())
            add_version(connection, skill.id, base, parent_id=None, origin="recorded")
        return skill

    def move(self, skill_id: int, name: str, path: str) -> dict[str, int]:
        """Move a skill to another path with all that is recorded of it.

        A skill that was tracked there takes its old path, and is hidden; return what is recorded of that.
        """
        held = dict[str, int]()
        with self._pool.write() as connection:
            skill = _skill(connection.execute(f"{_SKILL} where id = ?", [skill_id]).fetchone())
            row = connection.execute(f"{_SKILL} where path = ? and id <> ?", [path, skill.id]).fetchone()
            if row is not None:
                other = _skill(row)
                held = _count_kinds(connection.execute(_RECORDED, [other.id]).fetchall())
                connection.execute("update skill set path = ? where id = ?", [f"moving {other.id}", other.id])
            connection.execute(
                "update skill set name = ?, path = ?, is_hidden = 0 where id = ?", [name, path, skill.id]
            )
            if row is not None:
                values = [skill.name, skill.path, other.id]
                connection.execute("update skill set name = ?, path = ? where id = ?", values)
                _hide(connection, other.id)
        return held

    def count_recorded(self, skill_id: int) -> dict[str, int]:
        """How many things of each kind rest on a skill, where there are any."""
        return _count_kinds(self._pool.rows(_RECORDED, [skill_id]))

    def forget(self, skill_id: int) -> None:
        """Hide a skill, and withdraw its standing permission; its history is kept. Using it lists it again."""
        with self._pool.write() as connection:
            _hide(connection, skill_id)

    def list_forgotten(self) -> set[int]:
        """Return the ids of the skills that are not listed."""
        return {row[0] for row in self._pool.rows("select id from skill where is_hidden")}

    def get_version(self, skill_id: int, version_id: str) -> Version:
        """Return a version by its id or by an unambiguous beginning of it (8 characters or more)."""
        rows = self._pool.rows(
            f"{_VERSION} where skill_id = ? and id >= ? and id < ? limit 2",
            [skill_id, version_id, version_id + "g"],
        )
        if len(rows) != 1 or len(version_id) < 8:
            short = " (give 8 characters of it or more)" if len(version_id) < 8 else ""
            called = shlex.quote(self.get_skill(skill_id).path)
            raise NotFound(
                f"the skill has no single version '{version_id}'{short}: skillopt-mcp show {called} lists its versions"
            )
        return _version(rows[0])

    def list_live(self, skill_id: int, n: int) -> list[str]:
        """Return the ids of the `n` newest versions of a skill that are or were live."""
        rows = self._pool.rows(
            "select id from version where skill_id = ?1 and (origin = 'recorded' or id in (select from_version from"
            " promotion where skill_id = ?1 union select to_version from promotion where skill_id = ?1 and state ="
            " 'done')) order by created_at desc, id limit ?2",
            [skill_id, n],
        )
        return [str(row[0]) for row in rows]

    def list_recorded(self, skill_id: int) -> list[Version]:
        """Return the versions of a skill that were seen on disk before they were written there, the oldest first."""
        rows = self._pool.rows(f"{_VERSION} where skill_id = ? and origin = 'recorded' order by created_at", [skill_id])
        return [_version(row) for row in rows]

    def add_version(self, skill_id: int, files: SkillFiles) -> None:
        """Store files that a person named as a version."""
        with self._pool.write() as connection:
            add_version(connection, skill_id, files, parent_id=None, origin="edited")

    def get_files(self, skill_id: int, version_id: str) -> SkillFiles:
        """Return the files of a version, byte for byte.

        Raises NotFound when the store has no such version, UnsafeStore when its bytes are not those it was named by.
        """
        rows = self._pool.rows(
            "select f.path, b.content, b.encoding, f.executable from version_file f join blob b on b.sha256 = f.sha256"
            " where f.skill_id = ? and f.version_id = ?",
            [skill_id, version_id],
        )
        if not rows and version_id != _EMPTY:
            raise NotFound(f"the store has no version '{version_id}' of this skill")
        files = SkillFiles(tuple(_file(row) for row in rows))
        if files.digest != version_id:
            raise UnsafeStore(f"version '{version_id}' is damaged in the store: restore a backup; nothing was changed")
        return files


def insert_blob(connection: Connection, content: bytes, packed: bytes | None) -> str:
    """Store a content once within the caller's transaction, `packed` by zlib where that is given; return its sha256."""
    digest = hashlib.sha256(content).hexdigest()
    encoding, stored = ("raw", content) if packed is None else ("zlib", packed)
    connection.execute(
        "insert into blob(sha256, size, encoding, content) values (?, ?, ?, ?) on conflict do nothing",
        [digest, len(content), encoding, stored],
    )
    return digest


def add_version(
    connection: Connection,
    skill_id: int,
    files: SkillFiles,
    *,
    parent_id: str | None,
    origin: Literal["recorded", "edited"],
) -> bool:
    """Store `files` as a version within the caller's transaction; return whether it is new: else it stays as it is."""
    cursor = connection.execute(
        "insert into version(skill_id, id, parent_id, origin) values (?, ?, ?, ?) on conflict do nothing",
        [skill_id, files.digest, parent_id, origin],
    )
    if not cursor.rowcount:
        return False
    for file in files.files:
        packed = zlib.compress(file.content) if len(file.content) >= _COMPRESS_FROM else file.content
        digest = insert_blob(connection, file.content, packed if len(packed) < len(file.content) else None)
        connection.execute(
            "insert into version_file(skill_id, version_id, path, sha256, executable) values (?, ?, ?, ?, ?)",
            [skill_id, files.digest, file.path, digest, int(file.executable)],
        )
    return True


def describe_recorded(recorded: Mapping[str, int]) -> str:
    """How many things of each kind rest on a skill, as a text."""
    return ", ".join(f"{n:,} {kind}" for kind, n in recorded.items())


def _count_kinds(rows: Sequence[Row]) -> dict[str, int]:
    return {str(kind): n for kind, n in rows if n}


def _hide(connection: Connection, skill_id: int) -> None:
    """Take a skill off the lists within the caller's transaction, and its standing permission back."""
    connection.execute("update skill set is_hidden = 1 where id = ?", [skill_id])
    withdraw(connection, skill_id)


def _skill(row: Row) -> Skill:
    return Skill(*row)


def _version(row: Row) -> Version:
    return Version(*row)


def _file(row: Row) -> SkillFile:
    path, content, encoding, executable = row
    raw = content
    return SkillFile(str(path), zlib.decompress(raw) if encoding == "zlib" else raw, bool(executable))
