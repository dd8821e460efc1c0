"""Keeping: what `verify` finds, what a backup brings back, what an erasure takes, and where secrets are not."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.doors import Workbench
from tests.acceptance.doors_care import DAMAGES, LESSON, Desk, found_in, tasks_of

TOKEN = "ghp_C4n4ryk7Qm2Zx9Lp4Rk7Qm2Zx9Lp4RtW3vQ9"
OWN = "zQ9xKc7LmW2pRt5VbN8jHd4G"


def test_verify_finds_every_damage(desk: Desk, tmp_path: Path) -> None:
    desk.promote("good")
    desk.facts("skills permit", desk.skill_path, yes=True)
    assert desk.verify() == 0
    kept, missed = desk.keep(tmp_path), list[str]()
    for name, statements in DAMAGES.items():
        with closing(sqlite3.connect(desk.store_path)) as store, store:
            triggers = store.execute("select name, sql from sqlite_master where type = 'trigger'").fetchall()
            for trigger, _ in triggers:
                store.execute(f'drop trigger "{trigger}"')
            n_rows = sum(store.execute(statement).rowcount for statement in statements)
            for _, sql in triggers:
                store.execute(sql)
        assert n_rows > 0, name
        missed += [name] * (desk.verify() != 1)
        desk.bring_back(kept)
    assert missed == []
    with desk.store_path.open("r+b") as file:
        file.seek(4096 * 5)
        file.write(b"\xff" * 4096)
    assert desk.verify() == 1


def test_a_backup_made_while_a_server_works_brings_everything_back(desk: Desk) -> None:
    copy = desk.folder / "copy.db"
    with desk.serve(target=desk.target) as server:
        server.tool("list_skills")
        desk.facts("store backup", copy)
        assert desk.run("store backup", copy).exit_code == 1, "it overwrites nothing"
        server.tool("add_tasks", skill="desk", tasks=tasks_of(1, seed=8))
        assert desk.run("store restore", copy, yes=True).exit_code == 1, "the store is open"
    assert copy.stat().st_mode & 0o077 == 0
    before = desk.facts("show", desk.skill_path)["skill"]
    desk.promote("good")
    assert desk.run("store restore", copy).exit_code == 1, "it needs a yes"
    desk.facts("store restore", copy, yes=True)
    after = desk.facts("show", desk.skill_path)["skill"]
    assert {row["id"]: row["verdict"] for row in after["candidates"]} == {
        row["id"]: row["verdict"] for row in before["candidates"]
    }
    assert desk.changes() == []
    assert LESSON.encode() in desk.skill_file.read_bytes(), "a restore touches no skill"
    [replaced] = [path for path in desk.store_path.parent.iterdir() if "replaced" in path.name]
    copy.write_bytes(copy.read_bytes()[:-6000])
    kept = desk.store_path.read_bytes()
    assert desk.run("store restore", copy, yes=True).exit_code == 1
    assert desk.store_path.read_bytes() == kept
    desk.facts("store restore", replaced, yes=True)
    assert (desk.changes(), desk.verify()) == (["promote"], 0)


def test_an_erased_attempt_is_nowhere_and_does_not_come_back(bench: Workbench) -> None:
    texts = {n: f"word{n}xylophone{n}quokka" for n in range(3)}
    rows = [
        {
            "task": f"prompt {text}",
            "answer": f"answer {text}",
            "reason": f"reason {text}",
            "messages": [{"role": "tool", "content": f"output {text}"}],
            "hard": False,
            "session_id": f"s{n}",
            "index": 0,
        }
        for n, text in texts.items()
    ]
    with bench.serve() as server:
        for row in rows:
            server.tool("record_trajectory", skill=str(bench.skill_path), **row)
        bench.facts("store erase", bench.skill_path, session="s0", dry_run=True)
        bench.facts("store erase", bench.skill_path, session="s0", exit_code=1)
        places = [bench.store_path.parent]
        assert found_in(places, texts[0])
        bench.facts("store erase", bench.skill_path, session="s0", yes=True)
        assert not found_in(places, texts[0])
        again = server.tool("record_trajectory", skill=str(bench.skill_path), **rows[0])
        assert again
    assert not found_in(places, texts[0])
    assert found_in(places, texts[1])
    bench.facts("store erase", "trajectory:2", yes=True)
    assert not found_in(places, texts[1])
    bench.facts("store erase", bench.skill_path, all=True, yes=True)
    assert not found_in(places, texts[2])
    assert bench.facts("show", bench.skill_path)["skill.n_new"] == 0
    assert bench.run("store verify", json=True).exit_code == 0


@pytest.mark.parametrize("door", ["trajectory", "answer", "task"])
def test_a_secret_is_in_no_file_and_no_output(desk: Desk, door: str, tmp_path: Path) -> None:
    desk.environ["VENDOR_API_KEY"] = OWN
    secrets = f"{TOKEN} and {OWN}"
    messages = [
        {"role": "tool_call", "name": "sh", "content": f"curl -H 'Authorization: Bearer {TOKEN}'"},
        {"role": "tool", "name": "sh", "content": f"TOKEN={TOKEN}\n{OWN}"},
    ]
    if door == "answer":
        rules = [{"match": "greet:", "reply": secrets, "messages": messages}, "x"]
        (tmp_path / "replies.json").write_text(json.dumps({"rollout": rules}))
        target = f"scripted:{tmp_path / 'replies.json'}"
        runs = [desk.run("evaluate", desk.ids["untested"], target=target, yes=True, json=True)]
    elif door == "task":
        fields = [{"prompt": secrets}, {"judge": {"kind": "exact", "expected": secrets}}, {"files": {"a.txt": secrets}}]
        rows = [{**row, "id": f"s{n}", **fields[n]} for n, row in enumerate(tasks_of(3, seed=9))]
        with desk.serve() as server:
            added = server.tool("add_tasks", skill="desk", tasks=rows)
        assert (added["added"], len(added["rejected"])) == (0, 3)
        runs = [desk.run("tasks list", desk.skill_path, json=True)]
    else:
        attempt = {"task": secrets, "answer": secrets, "reason": secrets, "session_id": f"s {TOKEN}"}
        with desk.serve() as server:
            server.tool("record_trajectory", skill="desk", hard=False, messages=messages, **attempt)
        runs = [desk.run("show", "trajectory:1", json=True)]
    runs += [desk.run("store backup", desk.folder / "copy.db"), desk.run("show", desk.skill_path, json=True)]
    assert [done.exit_code for done in runs] == [0, 0, 0]
    for secret in (TOKEN, OWN):
        assert not any(secret in done.out + done.err for done in runs)
        assert found_in([desk.folder], secret) == []
