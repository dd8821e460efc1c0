"""Every door: a secret in any text that a tool or a command takes is kept nowhere but in files and edits."""

from __future__ import annotations

import json
import logging
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from workshop import Place

from benchmarks.host_agent import items_of
from skillopt_mcp.cli.main import main
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.errors import SkillOptError
from skillopt_mcp.server.tools import Tools
from skillopt_mcp.store.pool import connect
from skillopt_mcp.workspace.workspace import Workspace
from tests.session_lines import claude_call, claude_said, claude_skill, claude_user

OWN = "zQ9xKc7LmW2pRt5VbN8j"
TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
# What the security page says is kept as it is: files, and the edits that make files.
AS_THEY_ARE = {"blob.content", "version_file.path", "edit.path", "edit.content"}
JUDGE = {"kind": "exact", "expected": "1"}


@pytest.fixture(params=[OWN, TOKEN])
def secret(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MYSVC_API_KEY", OWN)
    for name in ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID"):
        monkeypatch.delenv(name, raising=False)
    return str(request.param)


def hosted(place: Place) -> Workspace:
    """Return a workspace as a server has it whose host does the work."""
    environ = {**os.environ, "SKILLOPT_WORK": str(place.folder / "work")}
    return place.stack.enter_context(
        Workspace(place.store_path, target="host", optimizer="host", judge="host", project=place.folder,
                  environ=environ, hands_out=True)
    )  # fmt: skip


def tool_calls(place: Place, tools: Tools, secret: str) -> Iterator[Callable[[], Any]]:
    """Yield calls that have the secret in every text that the tools take."""
    skill = str(place.skill)
    rows: list[Any] = [
        {"prompt": f"one {secret}", "judge": JUDGE},
        {"prompt": "two", "judge": JUDGE, "id": f"id-{secret}"},
        {"prompt": "three", "judge": JUDGE, "tags": [secret]},
        {"prompt": "four", "judge": JUDGE, "files": {f"{secret}.txt": "x", "a.txt": f"use {secret}"}},
        {"prompt": "five", "judge": {"kind": "exact", "expected": secret}},
        {"prompt": "six", "judge": {"kind": "command", "name": secret}},
        {"prompt": "seven", "judge": JUDGE, "split": secret},
        {"prompt": "eight", "judge": JUDGE, secret: 1},
        secret,
    ]
    bad = place.folder / "tasks.jsonl"
    bad.write_text(json.dumps({"prompt": "nine", secret: secret}) + f"\n{secret}\n")
    message = {"role": "user", "content": f"use {secret}", "name": secret}
    edits: list[dict[str, object]] = [
        {"op": "append", "content": f"- Send {secret} along."},
        {"op": "append", "content": "- More.", "path": f"references/{secret}.md"},
        {"op": "replace", "target": f"nowhere {secret}", "content": secret},
        {"op": "append", "content": secret, "path": f"elsewhere/{secret}.md"},
    ]
    yield lambda: tools.list_skills(secret)
    yield lambda: tools.record_trajectory(skill, f"do {secret}", False, None, f"it had {secret}", secret, [message],
                                          f"s-{secret}", 0)  # fmt: skip
    yield lambda: tools.record_trajectory(skill, f"say {secret}", answer=secret, correction=f"no {secret}")
    yield lambda: tools.record_trajectory(skill, secret, True)
    yield lambda: tools.record_trajectory(f"/nowhere/{secret}", "t", True)
    yield lambda: tools.add_tasks(skill, rows)
    yield lambda: tools.add_tasks(skill, None, str(bad))
    yield lambda: tools.add_tasks(skill, None, f"/nowhere/{secret}.json")
    yield lambda: tools.propose_edits(skill, edits, f"because of {secret}")
    yield lambda: tools.propose_edits(skill, edits[2:], f"because of {secret}")
    yield lambda: tools.propose_edits(skill, [{"op": secret}], secret)
    yield lambda: tools.promote_skill(secret)
    yield lambda: tools.rollback_skill(skill, secret)
    yield lambda: tools.inspect(secret)
    yield lambda: tools.inspect(skill, secret)
    yield lambda: tools.submit_work([], secret)
    yield lambda: tools.submit_work([{"work_id": f"w-{secret}", "reply": secret}])
    yield lambda: work(tools, skill, secret)


def work(tools: Tools, skill: str, secret: str) -> None:
    """Answer what is asked of a host with the secret in every part of a reply."""
    made = tools.propose_edits(skill, [{"op": "append", "content": "- Plain."}])
    assert made.candidate_id
    reported = tools.evaluate_candidate(made.candidate_id)
    standing = tools.submit_work([], reported.job_id or "", 3)
    first, second, third = (item.work_id for item in items_of(standing.work))
    calls = [{"name": secret, "arguments": {secret: secret}}]
    tools.submit_work([{"work_id": first, "reply": f"it is {secret}", "tool_calls": calls}], "", 0)
    tools.submit_work([{"work_id": second, "failed": f"no luck with {secret}"}], "", 0)
    tools.submit_work([{"work_id": third, "reply": "1", "tool_calls": [{"name": "x", "arguments": secret}]}], "", 0)
    reflect = tools.propose_edits(skill)
    for item in items_of(reflect.work):
        reply = {"reasoning": secret, "edits": [{"op": "append", "content": f"- {secret}", "target": secret}]}
        tools.submit_work([{"work_id": item.work_id, "reply": json.dumps(reply)}], "", 0)
    for item in items_of(tools.propose_edits(skill).work):
        tools.submit_work([{"work_id": item.work_id, "reply": f"no JSON but {secret}"}], "", 0)


def command_lines(place: Place, secret: str) -> Iterator[list[str]]:
    """Yield commands with the secret in every text that they take."""
    folder, skill = place.folder, str(place.skill)
    (folder / secret).mkdir()
    session = folder / "session.jsonl"
    session.write_bytes(
        b"".join([claude_user(f"use {secret}"), *claude_skill(skill), *claude_call("Bash", {secret: secret}, secret),
                  claude_said(f"done with {secret}")])
    )  # fmt: skip
    (folder / "config.yaml").write_text(f'"{secret}": "{secret}"\n')
    with place.open() as workspace:
        name = workspace.store.tasks.list_tasks(1)[0].name
        candidates = workspace.store.candidates.list_candidates(1)
    yield ["tasks", "remove", skill, name, "--yes"]
    yield ["tasks", "remove", skill, secret, "--yes"]
    yield ["tasks", "list", secret]
    yield ["tasks", "check", skill]
    yield ["tasks", "judges", "add", secret, "--yes", "--", sys.executable, "-c", f"print('{secret}')"]
    yield ["tasks", "judges", "remove", secret]
    yield ["skills", "add-root", f"/nowhere/{secret}"]
    yield ["skills", "permit", secret, "--yes"]
    yield ["skills", "move", secret, secret]
    yield ["skills"]
    yield ["tasks", "mine", skill, "--sessions", str(session), "--dry-run", "--optimizer", "simulated:honest"]
    yield ["check", secret]
    yield ["replay", skill, "--config", str(folder / "config.yaml"), "--yes"]
    yield ["replay", skill, "--target", f"simulated:honest,{secret}", "--yes"]
    yield ["replay", skill, "--target", secret, "--yes"]
    yield ["evaluate", secret, "--yes"]
    yield ["store", "verify", "--holds", secret]
    for candidate in candidates:
        yield ["show", candidate.id]
        yield ["promote", candidate.id, "--yes"]
        yield ["evaluate", candidate.id, "--rebase"]
    yield ["show", secret]
    yield ["diff", skill, secret, secret]
    yield ["promote", secret, "--yes"]
    yield ["rollback", skill, secret, "--yes"]


def leaks(place: Place, secret: str) -> set[str]:
    """Return in which columns of the store the secret stands, packed values unpacked."""
    connection = connect(place.store_path)
    found = set()
    tables = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
    for [table] in tables:
        columns = [each[1] for each in connection.execute(f"pragma table_info({table})").fetchall()]
        for row in connection.execute(f"select * from {table}").fetchall():
            found |= {f"{table}.{name}" for name, value in zip(columns, row, strict=True) if holds(value, secret)}
    connection.close()
    return found


def holds(value: object, secret: str) -> bool:
    raw = value if isinstance(value, bytes) else str(value).encode()
    if raw[:1] == b"\x78":
        with suppress(zlib.error):
            raw = zlib.decompress(raw)
    return secret.encode() in raw


def test_a_secret_in_any_text_of_a_tool_or_a_command_is_kept_in_no_other_place(
    place: Place, secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "skillopt_mcp")
    tools = Tools(hosted(place), Consent.STANDING)
    place.add_tasks(place.open(), 30)
    for call in tool_calls(place, tools, secret):
        with suppress(SkillOptError):
            call()
    for line in command_lines(place, secret):
        with suppress(SystemExit):
            main(["--store", str(place.store_path), *line])
    found = leaks(place, secret)
    assert found <= AS_THEY_ARE
    assert {"blob.content", "edit.content"} <= found  # it was there to be kept
    assert secret not in caplog.text
