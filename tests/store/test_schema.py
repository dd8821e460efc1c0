"""The schema: a comment on every table, strict tables, views that can be read, and the rules that no code can break."""

import json
import re
import subprocess
import sys

import pytest
from children import SKILL

from skillopt_mcp.core.errors import StoreError
from skillopt_mcp.core.tasks import NewTask
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool, schema_folder, schema_sql
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.tasks.splits import DEFAULT_SHARES


def test_every_table_and_view_is_commented_and_in_the_store(pool: Pool) -> None:
    declared = re.findall(r"^-- One row per [^\n]+\ncreate (table|view) (\w+)", schema_sql(), re.MULTILINE)
    found = pool.rows(
        "select type, name from sqlite_schema where type in ('table', 'view') and name not like 'sqlite_%'"
    )
    assert sorted(declared) == sorted(found)


def test_every_table_is_strict(pool: Pool) -> None:
    loose = pool.rows(
        "select name from pragma_table_list where schema = 'main' and type = 'table' and strict = 0"
        " and name not like 'sqlite_%'"
    )
    assert loose == []


def test_every_view_reads(store: Store, pool: Pool) -> None:
    store.skills.track("s", "/s", SKILL)
    names = [str(name) for [name] in pool.rows("select name from sqlite_schema where type = 'view'")]
    assert {name: len(pool.rows(f"select * from {name}")) for name in names} == {
        "skills": 1, "steps": 0, "test_tasks": 0, "verdicts": 0, "edits": 0, "spend": 0, "sessions": 0, "promotions": 0,
    }  # fmt: skip


def test_sqlite_utils_prints_a_view_of_a_store_in_use(store: Store) -> None:
    store.skills.track("changelog", "/s", SKILL)
    command = [sys.executable, "-m", "sqlite_utils", "rows", str(store.path), "skills"]
    assert [row["name"] for row in json.loads(subprocess.check_output(command))] == ["changelog"]


def test_the_metadata_for_datasette_names_each_view_and_column_and_its_queries_run(store: Store, pool: Pool) -> None:
    metadata = json.loads((schema_folder() / "datasette.json").read_text("utf-8"))["databases"][store.path.stem]
    named = {name: list(view["columns"]) for name, view in metadata["tables"].items()}
    found: dict[str, list[str]] = {}
    for view, column in pool.rows(
        "select v.name, c.name from sqlite_schema v, pragma_table_info(v.name) c where v.type = 'view'"
    ):
        found.setdefault(str(view), []).append(str(column))
    assert named == found
    about = {view: text for text, view in re.findall(r"^-- ([^\n]+)\ncreate view (\w+)", schema_sql(), re.MULTILINE)}
    assert {name: view["description"] for name, view in metadata["tables"].items()} == about
    assert all(text for view in metadata["tables"].values() for text in view["columns"].values())
    assert [pool.rows(query["sql"]) for query in metadata["queries"].values()] == [[]] * 3


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("update version set origin = 'edited'", "a version is never rewritten"),
        ("update version_file set path = 'x'", "a version is never rewritten"),
        ("update blob set content = x'00'", "a blob is never rewritten"),
        ("update task set split = 'train'", "a task and its split never change"),
        ("update task set prompt = 'x'", "a task and its split never change"),
        ("update task set judge = '{}'", "a task and its split never change"),
        ("update task set files = '[1]'", "a task and its split never change"),
        ("update task set name = 'x'", "a task keeps its name"),
        ("delete from version", "FOREIGN KEY"),
        ("delete from blob", "FOREIGN KEY"),
        (
            "insert into task(skill_id, name, digest, prompt, judge, split) values (1, 'n', 'd', '', '', 'dev')",
            "CHECK",
        ),
        ("insert into skill(name, path, live_version) values ('b', '/s', '')", "UNIQUE"),
        ("update skill set name = x'00'", "cannot store BLOB"),
    ],
)
def test_the_store_itself_keeps_its_rules(store: Store, sql: str, rule: str) -> None:
    skill = store.skills.track("s", "/s", SKILL)
    task = NewTask("what?", parse_judge({"kind": "exact", "expected": "42"}), split="val")
    store.tasks.add_tasks(skill.id, [task], DEFAULT_SHARES)
    pool = Pool(store.path)
    with pytest.raises(StoreError, match=rule), pool.write() as connection:
        connection.execute(sql)
    pool.close()
    assert [task.split for task in store.tasks.list_tasks(skill.id)] == ["val"]
    assert store.skills.get_files(skill.id, skill.live_version) == SKILL
