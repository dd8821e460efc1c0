"""Searching: where in all of a store a text stands, whichever table it is in, packed contents too."""

from __future__ import annotations

import json
import re
import unicodedata
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from skillopt_mcp.store.pool import Pool, Value

_PAGE = 200
_SURROGATES = re.compile("[\ud800-\udfff]")
_TABLES = (
    "select m.name, c.name from sqlite_schema m join pragma_table_info(m.name) c where m.type = 'table'"
    " and m.name not like '%sqlite%' and c.type in ('TEXT', 'BLOB') order by m.name, c.cid"
)
# Where a row is called otherwise than by its id.
_NAMED = {
    "attempt": "'call ' || call_id",
    "batch_call": "batch_id",
    "blob": "sha256",
    "command": "name",
    "conclusion": "run_id",
    "edit": "candidate_id",
    "exposure": "session",
    "finish": "run_id",
    "meta_note": "run_id",
    "pair": "confirmation_id",
    "permission": "(select name from skill where id = skill_id)",
    "reply": "(select scope from call where id = call_id)",
    "call": "scope",
    "retirement": "name",
    "skill": "name",
    "skill_root": "path",
    "step": "run_id",
    "task": "(select name from skill where id = skill_id) || ' ' || name",
    "trajectory": "'trajectory:' || id",
    "trial": "scope",
    "version_file": "substr(version_id, 1, 12)",
    "event": "seq",
}
_UNPACKED = "select sha256, content from blob where encoding = 'zlib' and sha256 > ? order by sha256 limit ?"
_VERSIONS = (
    "select distinct s.name || '@' || substr(f.version_id, 1, 12) from version_file f join skill s on s.id = f.skill_id"
    " where f.sha256 in (select value from json_each(?)) order by 1"
)
_REPLIES = (
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
        columns: dict[str, list[str]] = defaultdict(list)
        for table, column in self._pool.rows(_TABLES):
            columns[str(table)].append(str(column))
        columns.pop("reply", None)
        found: dict[str, list[str]] = {}
        for table, names in columns.items():
            where, values = _holding(names, needles)
            rows = self._pool.rows(f"select distinct {_name_of(table, names)} from {table} where {where}", values)
            if rows:
                found[table] = [str(name) for [name] in rows]
        contents = [*found.pop("blob", []), *self._packed([needle.encode() for needle in needles])]
        if contents:
            found["version"] = [str(name) for [name] in self._pool.rows(_VERSIONS, [json.dumps(contents)])]
        return found

    def find_replies(self, needles: Sequence[str]) -> list[FoundReply]:
        """Return the replies that hold one of the texts."""
        where, values = _holding(["r.text", "r.messages"], needles)
        rows = self._pool.rows(_REPLIES.format(where=where), values)
        return [FoundReply(cast(int, row[0]), str(row[1]), str(row[2]), bool(row[3])) for row in rows]

    def _packed(self, needles: Sequence[bytes]) -> Iterator[str]:
        after = ""
        while page := self._pool.rows(_UNPACKED, [after, _PAGE]):
            after = str(page[-1][0])
            for sha256, content in page:
                plain = zlib.decompress(cast(bytes, content))
                if any(needle in plain for needle in needles):
                    yield str(sha256)


def spellings(text: str) -> list[str]:
    """Return a text as it may stand in a column: plain, within JSON of either kind, or within JSON in JSON.

    Each with its accents composed and apart. What is no Unicode stands in the store as its replacement character.
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
