"""The schema: told table by table, strict, and with the rules that no code can break."""

import re

import pytest
from children import SKILL

from skillopt_mcp.errors import StoreError
from skillopt_mcp.judges.specs import parse_judge
from skillopt_mcp.records.tasks import NewTask
from skillopt_mcp.splits import EQUAL_SHARES
from skillopt_mcp.store import driver
from skillopt_mcp.store.migrating import migration_files
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool

OURS = "instr(name, 'sqlite_') = 0"


def test_every_table_opens_with_a_comment_on_what_a_row_is() -> None:
    for file in migration_files():
        lines = file.read_text("utf-8").splitlines()
        for before, line in zip(["", *lines], lines, strict=False):
            if line.startswith("create table"):
                assert before.startswith("-- One row per "), f"{file.name}: {line}"


def test_every_migration_ends_its_last_statement() -> None:
    for number, file in enumerate(migration_files(), 1):
        text = file.read_text("utf-8")
        assert driver.sqlite().complete_statement(text), file.name
        assert re.fullmatch(rf"{number:04d}_[a-z_]+\.sql", file.name)


def test_every_statement_of_the_migrations_is_in_the_store(pool: Pool) -> None:
    text = "".join(file.read_text("utf-8") for file in migration_files())
    declared = re.findall(r"^create (?:unique )?(?:table|index|trigger) (\w+)", text, re.MULTILINE)
    dropped = re.findall(r"^drop (?:table|index|trigger) (\w+)", text, re.MULTILINE)
    found = pool.rows(f"select name from sqlite_schema where {OURS} order by name")
    assert [(name,) for name in sorted(set(declared) - set(dropped))] == found


def test_every_table_is_strict(pool: Pool) -> None:
    loose = pool.rows(f"select name from pragma_table_list where schema = 'main' and strict = 0 and {OURS}")
    assert loose == []


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
    store.tasks.add_tasks(skill.id, [task], EQUAL_SHARES)
    pool = Pool(store.path)
    with pytest.raises(StoreError, match=rule), pool.write() as connection:
        connection.execute(sql)
    pool.close()
    assert [task.split for task in store.tasks.list_tasks(skill.id)] == ["val"]
    assert store.skills.get_files(skill.id, skill.live_version) == SKILL
