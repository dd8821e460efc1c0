"""Install: the real hosts use what install wrote, their hooks record a session, and uninstall leaves no trace."""

from __future__ import annotations

import json
import os
from itertools import groupby
from pathlib import Path

import pytest
from agent_models import Asked, answering
from installed_host import PROMPT, Setting, calls_to_promotion, setting_in
from scripted_model import ToolCall, Turn, serving

from skillopt_mcp.actions.sessions import SessionsRead, read_sessions
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.workspace.workspace import Workspace
from tests.away import promote_alone
from tests.session_lines import claude_user, codex_user

pytestmark = pytest.mark.hosts


@pytest.fixture(params=["CLAUDE", "CLAUDE_OLDER", "CODEX"])
def setting(request: pytest.FixtureRequest, tmp_path: Path) -> Setting:
    if not os.environ.get(request.param):
        pytest.skip(f"{request.param} names no binary: see .ci/hosts")
    return setting_in(tmp_path / "user", request.param)


def test_a_host_calls_the_installed_server_and_its_session_is_read_where_a_person_typed(setting: Setting) -> None:
    installed = setting.ours("install", setting.name, "--hooks", "--skill", "--yes")
    assert installed["status"] == "installed"
    assert "record_trajectory" in installed["tools"]
    with serving(setting.api, setting.script) as model:
        setting.session(model)
    results = setting.results(model.requests[-1])
    assert results[0]["skills"][0]["name"] == "clerk", results
    [row] = [row for row in setting.ours("skills")["skills"] if row["name"] == "clerk"]
    # No person was there: neither the hooks nor a later reading take it.
    assert row["n_trajectories"] == 0
    [written] = [*setting.home.glob(".claude/projects/*/*.jsonl"), *setting.home.glob(".codex/sessions/**/*.jsonl")]
    assert read(setting, written).episodes == {}
    # As the host writes it where a person types.
    text = written.read_text()
    for program, person in (("sdk-cli", "cli"), ('"source":"exec"', '"source":"vscode"'), ("codex_exec", "codex-tui")):
        text = text.replace(program, person)
    said = claude_user("No, round it to cents.") if setting.is_claude else codex_user("No, round it to cents.")
    typed = written.with_stem(written.stem.replace("0", "1"))
    typed.write_bytes(text.encode() + said)
    assert read(setting, typed).episodes == {"rejected": 1}
    shown = setting.ours("show", "trajectory:1")["text"]
    assert PROMPT in shown
    assert "The sum is 42." in shown
    # What our own tools said is none of the attempt.
    assert "list_skills" not in shown
    assert read(setting, typed).n_unchanged == 1


def read(setting: Setting, path: Path) -> SessionsRead:
    with Workspace(setting.place / "store.db", project=setting.project) as workspace:
        return read_sessions(workspace.store, workspace.place, [path])


def test_a_session_begins_with_what_was_promoted_while_the_person_was_away(setting: Setting) -> None:
    promote_alone(setting.place / "store.db", setting.skill)
    setting.ours("install", setting.name, "--hooks", "--yes")
    with serving(setting.api, setting.script) as model:
        setting.session(model)
    assert "clerk was promoted while you were away" in json.dumps(model.requests[0])


def test_the_installed_server_trains_by_the_host_that_started_it_with_the_persons_model(setting: Setting) -> None:
    with Workspace(setting.place / "store.db") as workspace:
        task = {"prompt": "Sum 20 and 22.", "judge": {"kind": "exact", "expected": "42"}, "split": "train"}
        add_tasks(workspace.store, workspace.place, str(setting.skill), [task])
    if setting.is_claude:
        setting.hooks.write_text('{"model": "claude-haiku-4-5"}')

    def answer(asked: Asked) -> Turn:
        if PROMPT in asked.text:
            results = setting.results(asked.body)
            is_open = not results or results[-1].get("status") == "running"
            return [ToolCall("propose_edits", {"skill": "clerk", "rollouts": 1})] if is_open else ["done"]
        inner.append(asked.body["model"])
        edit = {"op": "append", "content": "Say the sum alone.", "evidence": [1]}
        return ["It is 42."] if "Sum 20 and 22." in asked.text and len(inner) == 1 else [json.dumps({"edits": [edit]})]

    inner: list[str] = []
    with answering(setting.name, answer) as model:
        spec = f"codex:base_url=http://127.0.0.1:{model.port}/v1"
        named = [] if setting.is_claude else ["--target", spec, "--optimizer", spec]
        address = f"http://127.0.0.1:{model.port}"
        installed = setting.ours("install", setting.name, "--yes", *named, ANTHROPIC_BASE_URL=address)
        setting.session(model)
    assert f"{setting.name} does the work in runs of its own" in installed["notes"][0]
    proposed = next(setting.results(asked.body)[-1] for asked in reversed(model.asked) if PROMPT in asked.text)
    assert (proposed["status"], "Say the sum alone." in proposed["diff"]) == ("candidate", True), proposed
    assert set(inner) == {"claude-haiku-4-5" if setting.is_claude else "gpt-5-codex"}


def test_the_host_itself_lists_the_server_and_after_uninstall_it_does_not(setting: Setting) -> None:
    before = setting.config.read_bytes() if setting.config.exists() else None
    setting.ours("install", setting.name, "--hooks", "--skill", "--yes")
    assert "skillopt" in setting.told("mcp", "list")
    written = setting.config.read_bytes()
    taken_out = setting.ours("uninstall", setting.name, "--hooks", "--skill", "--yes")
    assert taken_out["status"] == "uninstalled"
    assert not setting.hooks.exists()
    if setting.is_claude:
        # Claude Code keeps its own state in the same file, and has written to it meanwhile.
        assert b"skillopt-mcp" in written
        assert b"skillopt-mcp" not in setting.config.read_bytes()
        assert [command.split()[:3] for command in taken_out["commands"]] == [["claude", "mcp", "remove"]]
    else:
        assert setting.config.read_bytes() == before
    assert "skillopt" not in setting.told("mcp", "list")


def test_a_session_takes_few_calls_to_a_promoted_file_with_the_login_of_its_own_command_line(setting: Setting) -> None:
    calls = calls_to_promotion(setting)
    wanted = ["list_skills", "propose_edits", "evaluate_candidate", "promote_skill"]
    # How often it asks again while runs are under way is up to the machine: benchmarks/consent.py counts it.
    assert [call for call, _ in groupby(calls) if call != "ToolSearch"] == wanted, calls
    assert calls.count("evaluate_candidate") >= 2, "the price comes first"
    [row] = setting.ours("show", "clerk")["history"]["rows"]
    assert (row["kind"], row["verdict"], row["by"]) == ("promote", "better", "permission, rule")


@pytest.mark.parametrize("setting", ["CLAUDE", "CLAUDE_OLDER"], indirect=True)
def test_claude_code_changes_the_entry_by_its_own_command_and_a_persons_key_stays(setting: Setting) -> None:
    setting.ours("install", setting.name, "--yes")
    value = json.loads(setting.config.read_text())
    value["mcpServers"]["skillopt"]["env"] = {"OPENAI_API_KEY": "sk-1"}
    setting.config.write_text(json.dumps(value))
    changed = setting.ours("install", setting.name, "--yes", "--sub-agents")
    assert [command.split()[2] for command in changed["commands"]] == ["remove", "add-json"]
    entry = json.loads(setting.config.read_text())["mcpServers"]["skillopt"]
    assert (entry["args"], entry["env"]) == (
        ["serve", "--store", str(setting.place / "store.db")],
        {"OPENAI_API_KEY": "sk-1"},
    )
    assert setting.ours("install", setting.name, "--yes", "--sub-agents")["status"] == "unchanged"
    for scope in ([], ["--project"]):
        setting.ours("install", setting.name, "--yes", *scope)
        setting.ours("uninstall", setting.name, "--yes", *scope)
    assert "skillopt" not in setting.told("mcp", "list")
