"""Episodes at rest: the tasks that were given in sessions, and how far each session's file was read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from skillopt_mcp.core.mining import Episode
from skillopt_mcp.store.pool import Pool


class SessionFile(NamedTuple):
    """How far a file was read: `offset` is where its last episode begins, after `n_turns`, in `folder`.

    `before` is the sha256 of the bytes before the offset; `newest_skill` is the id of the newest skill then.
    """

    inode: int
    newest_skill: int
    mtime_ns: int
    size: int
    offset: int
    before: str
    n_turns: int
    folder: str


class Episodes:
    """Tables episode, session_file."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.transaction = partial(pool.write, evidence=True, joined=True)

    def store_episode(self, skill_id: int, until: int, episode: Episode) -> bool:
        """Store an episode, whose last turn has the index `until`, or what it is now; whether it is new.

        One that a person erased an attempt of is not stored.
        """
        values = [skill_id, episode.session, episode.index, until, int(bool(episode.skill)), episode.prompt]
        values += [episode.folder, episode.answer, episode.rejected, episode.correction, episode.label, episode.why]
        with self._pool.write(evidence=True) as connection:
            is_known = connection.execute(
                "select 1 from episode where skill_id = ? and session = ? and position = ?",
                [skill_id, episode.session, episode.index],
            ).fetchone()
            cursor = connection.execute(
                "insert into episode(skill_id, session, position, last_position, opened, prompt, folder, answer,"
                " rejected, correction, label, why, at) select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13"
                " where not exists (select 1 from erased join trajectory t on t.id = trajectory_id where"
                " t.skill_id = ?1 and t.session_id = ?2 and t.position between ?3 and ?4)"
                " on conflict(skill_id, session, position) do update set last_position = excluded.last_position,"
                " answer = excluded.answer, rejected = excluded.rejected, correction = excluded.correction,"
                " label = excluded.label, why = excluded.why where why <> 'asked'",
                [*values, episode.at],
            )
            return bool(cursor.rowcount) and not is_known

    def is_copied(self, skill_id: int, episode: Episode) -> bool:
        """Whether another session has it, or it was erased; a fork of a session begins with a copy, times included."""
        sql = (
            "select 1 where ?2 <> '' and (exists (select 1 from episode where skill_id = ?1 and at = ?2 and prompt = ?3"
            " and session <> ?4) or exists (select 1 from erased join trajectory t on t.id = trajectory_id"
            " where t.skill_id = ?1 and erased.at = ?2))"
        )
        return self._pool.row(sql, [skill_id, episode.at, episode.prompt, episode.session]) is not None

    def list_episodes(self, skill_id: int, since: str = "") -> Iterator[Episode]:
        """Yield the episodes of a skill, the newest first, those given at a time from `since` on."""
        rows = self._pool.rows(
            "select session, position, iif(opened, path, ''), prompt, folder, answer, rejected, correction, label, why,"
            " at from episode join skill on skill.id = skill_id where skill_id = ? and at >= ? order by at desc",
            [skill_id, since],
        )
        return (Episode(*row) for row in rows)

    def store_labels(self, skill_id: int, episodes: Iterable[Episode]) -> None:
        """Keep what a model said of episodes that no rule could label; it is not asked again."""
        with self._pool.write(evidence=True) as connection:
            for each in episodes:
                connection.execute(
                    "update episode set label = ?, why = 'asked', rejected = ?, correction = ?"
                    " where skill_id = ? and session = ? and position = ?",
                    [each.label, each.rejected, each.correction, skill_id, each.session, each.index],
                )

    def find_file(self, path: str) -> SessionFile | None:
        """How far a file was read, None where it was not."""
        row = self._pool.row(f"select {', '.join(SessionFile._fields)} from session_file where path = ?", [path])
        return SessionFile(*row) if row else None

    def store_file(self, path: str, state: SessionFile) -> None:
        """Note how far a file was read."""
        with self._pool.write(evidence=True) as connection:
            names = ", ".join(SessionFile._fields)
            sql = f"insert or replace into session_file(path, {names}) values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
            connection.execute(sql, [path, *state])
