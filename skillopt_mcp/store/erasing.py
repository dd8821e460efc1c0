"""Erasing at rest: attempts whose texts a person took out, and the replies that were given to what showed them."""

from __future__ import annotations

import json
import re
import unicodedata
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from skillopt_mcp.store.pool import Pool, Value

_PAGE = 500
_DOOMED = (
    "select t.id, t.skill_id, t.session_id, t.created_at,"
    " length(t.prompt) + length(t.answer) + length(t.reason) + length(t.messages) from trajectory t"
    " where t.id in (select value from json_each(?)) and t.id not in (select trajectory_id from erased) order by t.id"
)
_CALLS = (
    "select c.id, c.scope, c.owner, c.refs, exists (select 1 from reply r where r.call_id = c.id) from call c"
    " where c.id > ? and c.refs like '%trajectory:%' order by c.id limit ?"
)
_WITH_TEXT = "call_id in (select value from json_each(?)) and (text <> '' or messages <> '[]')"
_EMPTY_REPLIES = f"update reply set text = '', messages = '[]' where {_WITH_TEXT}"
_WITHDRAW = (
    "update lease set state = 'withdrawn' where state in ('out', 'failed')"
    " and call_id in (select value from json_each(?))"
)
_LEASES = "select id from lease where call_id in (select value from json_each(?))"
_EMPTY = (
    "update trajectory set prompt = '', answer = '', reason = '', messages = '[]'"
    " where id in (select value from json_each(?)) and id not in (select trajectory_id from erased)"
)
_NOTE_ERASED = (
    "insert into erased(trajectory_id) select id from trajectory"
    " where id in (select value from json_each(?)) and id not in (select trajectory_id from erased) order by id"
)
_GOES_ON = "(run.status = 'running' or run.status = 'stopped' and run.kind = 'replay')"
# A proposal that was given up may yet be at work in the process that it was taken from.
_HOLDING = (
    f"select run.id, {_GOES_ON} from run, json_each(run.sessions) held"
    " where held.value in (select value from json_each(?)) and run.status <> 'finished'"
    " group by run.id order by run.rowid"
)


class Tombstone(NamedTuple):
    """What is left of an erased attempt: its skill, version and session, and when it was recorded and erased."""

    skill_id: int
    version_id: str
    session_id: str | None
    recorded_at: str
    erased_at: str


class Doomed(NamedTuple):
    """An attempt that is to be erased, and how long its texts are, in characters."""

    id: int
    skill_id: int
    session_id: str | None
    created_at: str
    n_chars: int


class Shown(NamedTuple):
    """A call whose evidence held some of the attempts, who sends it, and whether it was answered."""

    id: int
    scope: str
    owner: str
    is_answered: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """Which attempts of a skill are meant: all of them that meet each of these."""

    session: str | None = None
    before: str | None = None
    containing: Sequence[str] = ()


class Erasing:
    """Table erased; of trajectory, reply, lease and meta_note, what an erasure takes out."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def get_tombstone(self, trajectory_id: int) -> Tombstone | None:
        """Return what is left of an attempt that was erased, None where none was."""
        row = self._pool.row(
            "select t.skill_id, t.version_id, t.session_id, t.created_at, e.created_at from erased e"
            " join trajectory t on t.id = e.trajectory_id where e.trajectory_id = ?",
            [trajectory_id],
        )
        return Tombstone(*row) if row else None  # type: ignore[arg-type]

    def choose(self, skill_id: int, choice: Choice) -> list[int]:
        """Return the attempts of a skill that are meant, and not erased yet; a text counts however it is spelled."""
        where = ["skill_id = ?", "id not in (select trajectory_id from erased)"]
        values: list[Value] = [skill_id]
        if choice.session is not None:
            where.append("session_id = ?")
            values.append(choice.session)
        if choice.before is not None:
            where.append("created_at < ?")
            values.append(choice.before)
        if choice.containing:
            columns = ("prompt", "answer", "reason", "messages")
            found = [(f"instr({column}, ?) > 0", needle) for column in columns for needle in choice.containing]
            where.append(f"({' or '.join(sql for sql, _ in found)})")
            values += [needle for _, needle in found]
        rows = self._pool.rows(f"select id from trajectory where {' and '.join(where)} order by id", values)
        return [cast(int, row[0]) for row in rows]

    def walk_doomed(self, ids: Sequence[int]) -> Iterator[Doomed]:
        """Yield those of the attempts that are there and not erased yet."""
        for start in range(0, len(ids), _PAGE):
            for row in self._pool.rows(_DOOMED, [json.dumps(ids[start : start + _PAGE])]):
                yield Doomed(*row)  # type: ignore[arg-type]

    def list_erased(self) -> list[int]:
        """Return all attempts that were erased."""
        return [cast(int, row[0]) for row in self._pool.rows("select trajectory_id from erased")]

    def erased_of(self, ids: Collection[int]) -> frozenset[int]:
        """Return those of these attempts that were erased."""
        sql = "select trajectory_id from erased where trajectory_id in (select value from json_each(?))"
        return frozenset(cast(int, row[0]) for row in self._pool.rows(sql, [json.dumps(list(ids))]))

    def list_shown(self, ids: Collection[int]) -> list[Shown]:
        """Return the calls whose evidence held some of these attempts."""
        names = {f"trajectory:{each}" for each in ids}
        found, after = list[Shown](), 0
        while page := self._pool.rows(_CALLS, [after, _PAGE]):
            after = cast(int, page[-1][0])
            for call_id, scope, owner, refs, is_answered in page:
                if not names.isdisjoint(str(refs).split()):
                    found.append(Shown(cast(int, call_id), str(scope), str(owner), bool(is_answered)))
        return found

    def list_holding(self, ids: Sequence[int]) -> dict[str, bool]:
        """Return the unfinished runs that may see some of these attempts, the oldest first: whether each goes on."""
        return {str(run): bool(goes_on) for run, goes_on in self._pool.rows(_HOLDING, [json.dumps(ids)])}

    def list_made_of(self, ids: Collection[int]) -> list[str]:
        """Return the candidates with an edit that came from some of these attempts."""
        names = {f"trajectory:{each}" for each in ids}
        rows = self._pool.rows("select candidate_id, sources from edit where sources like '%trajectory:%'")
        made = [str(made) for made, sources in rows if not names.isdisjoint(json.loads(str(sources)))]
        return list(dict.fromkeys(made))

    def clear_calls(self, call_ids: Sequence[int]) -> tuple[int, list[str]]:
        """Empty the replies to calls, and end their leases, in one transaction.

        Returns how many replies had a text, and the ids of all leases. Tokens and cost stay.
        """
        chosen = json.dumps(call_ids)
        with self._pool.write() as connection:
            connection.execute(_WITHDRAW, [chosen])
            n_replies = connection.execute(_EMPTY_REPLIES, [chosen]).rowcount
            leases = [str(row[0]) for row in connection.execute(_LEASES, [chosen]).fetchall()]
        return n_replies, leases

    def count_answers(self, call_ids: Sequence[int]) -> int:
        """Return how many replies to these calls have a text."""
        return self._pool.number(f"select count(*) from reply where {_WITH_TEXT}", [json.dumps(call_ids)])

    def count_notes(self, needles: Sequence[str]) -> int:
        """Return how many notes for the optimizer hold one of these texts."""
        texts = [str(row[0]) for row in self._pool.rows("select text from meta_note")] if needles else []
        return sum(any(needle in text for needle in needles) for text in texts)

    def clear_notes(self, needles: Sequence[str], instead: str) -> int:
        """Replace these texts in notes for the optimizer; return in how many."""
        if not self.count_notes(needles):
            return 0
        with self._pool.write() as connection:
            changed = []
            for note_id, text in connection.execute("select id, text from meta_note").fetchall():
                cleaned = text
                for needle in needles:
                    cleaned = cleaned.replace(needle, instead)
                changed += [(cleaned, note_id)] if cleaned != text else []
            connection.executemany("update meta_note set text = ? where id = ?", changed)
        return len(changed)

    def erase(self, ids: Sequence[int], held: Collection[str] = ()) -> int | None:
        """Take the texts of attempts out, in one transaction; return of how many: those that had been are none.

        None, and nothing is changed, where a run that is not among those `held` may see some of them. What a session is
        known to have seen stays known.
        """
        with self._pool.write() as connection:
            if any(run not in held for run, _ in connection.execute(_HOLDING, [json.dumps(ids)]).fetchall()):
                return None
            chosen = json.dumps(ids)
            n = connection.execute(_EMPTY, [chosen]).rowcount
            connection.execute(_NOTE_ERASED, [chosen])
            return n


_READ_AT_ONCE = 200
_SURROGATES = re.compile("[\ud800-\udfff]")
# Where a row is called otherwise than by its id.
_NAMED = {
    "attempt": "'call ' || call_id",
    "blob": "sha256",
    "command": "name",
    "edit": "candidate_id",
    "candidate_session": "session",
    "finish": "run_id",
    "meta_note": "run_id",
    "permission": "(select name from skill where id = skill_id)",
    "reply": "(select scope from call where id = call_id)",
    "call": "scope",
    "retirement": "name",
    "skill": "name",
    "skill_root": "path",
    "step": "run_id",
    "test_attempt": "test_id",
    "task": "(select name from skill where id = skill_id) || ' ' || name",
    "trajectory": "'trajectory:' || id",
    "trial": "(select scope from call where id = call_id)",
    "version_file": "substr(version_id, 1, 12)",
}
_UNPACKED = "select sha256, content from blob where encoding = 'zlib' and sha256 > ? order by sha256 limit ?"
_VERSIONS = (
    "select distinct s.name || '@' || substr(f.version_id, 1, 12) from version_file f join skill s on s.id = f.skill_id"
    " where f.sha256 in (select value from json_each(?)) order by 1"
)
_RUNS = "select id from run where prompts in (select value from json_each(?)) order by rowid"
_HELD_BY_REPLIES = (
    "select r.call_id, c.role, c.scope, run.id is not null and (run.status = 'finished' or run.kind = 'proposal'"
    " and run.status = 'stopped') from reply r join call c on c.id = r.call_id left join run on run.id = c.scope"
    " where {where} order by r.call_id"
)


class FoundReply(NamedTuple):
    """A reply that holds a text; `is_over`: it was given to a run that asks no more."""

    call_id: int
    role: str
    scope: str
    is_over: bool


class Searching:
    """All tables, as they are looked through for a text."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def find(self, needles: Sequence[str]) -> dict[str, list[str]]:
        """Return what the rows that hold one of the texts are called, each name once, by their tables.

        A content is called by the versions that have it; of replies see `find_replies`.
        """
        columns = self._pool.text_columns()
        columns.pop("reply", None)
        found: dict[str, list[str]] = {}
        for table, names in columns.items():
            where, values = _holding(names, needles)
            rows = self._pool.rows(f"select distinct {_name_of(table, names)} from {table} where {where}", values)
            if rows:
                found[table] = [str(name) for [name] in rows]
        contents = [*found.pop("blob", []), *self._packed([needle.encode() for needle in needles])]
        of_contents = json.dumps(contents)
        for table, sql in (("version", _VERSIONS), ("run", _RUNS)):
            if names := [str(name) for [name] in self._pool.rows(sql, [of_contents])]:
                found[table] = [*found.get(table, []), *names]
        return found

    def find_replies(self, needles: Sequence[str]) -> list[FoundReply]:
        """Return the replies that hold one of the texts."""
        where, values = _holding(["r.text", "r.messages"], needles)
        rows = self._pool.rows(_HELD_BY_REPLIES.format(where=where), values)
        return [FoundReply(cast(int, row[0]), str(row[1]), str(row[2]), bool(row[3])) for row in rows]

    def _packed(self, needles: Sequence[bytes]) -> Iterator[str]:
        after = ""
        while page := self._pool.rows(_UNPACKED, [after, _READ_AT_ONCE]):
            after = str(page[-1][0])
            for sha256, content in page:
                plain = zlib.decompress(cast(bytes, content))
                if any(needle in plain for needle in needles):
                    yield str(sha256)


def spellings(text: str) -> list[str]:
    """Return a text as it may stand in a column: plain, within JSON of either kind, or within JSON in JSON.

    Each with its accents composed and apart. Invalid Unicode is in the store as its replacement character.
    """
    kept = _SURROGATES.sub("\ufffd", text)
    plain = [kept, *(unicodedata.normalize(form, kept) for form in ("NFC", "NFD"))]
    once = [*plain, *_within_json(plain)]
    return list(dict.fromkeys([*once, *_within_json(once)]))


def _within_json(texts: Sequence[str]) -> list[str]:
    return [json.dumps(text, ensure_ascii=is_ascii)[1:-1] for text in texts for is_ascii in (False, True)]


def _holding(columns: Sequence[str], needles: Sequence[str]) -> tuple[str, list[Value]]:
    """Return the condition that one of the columns holds one of the texts, and its values."""
    tests = [f"instr(cast({column} as blob), cast(? as blob)) > 0" for column in columns for _ in needles]
    return " or ".join(tests), [needle for _ in columns for needle in needles]


def _name_of(table: str, columns: Sequence[str]) -> str:
    return _NAMED.get(table) or ("id" if "id" in columns else "rowid")
