"""Agent places: a command line is given the task, the skill and nothing else, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
from agent_calls import KEY, REFERENCE, SKILL, ask, fault, opened, rollout

from skillopt_mcp.backends import processes
from skillopt_mcp.backends.agents.places import private_place, sweep_places
from skillopt_mcp.core.calls import Call, Question
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.core.tasks import TaskFile
from skillopt_mcp.prompts.rendering import ASKED, render_evidence
from tests.fake_host import FakeHost, claude_lines, codex_lines

# Supervisors that wait less long for what does not end when it is asked to.
HASTY = processes._START.replace("; main(", "; main.__globals__['GRACE_S'] = 0.2; main(")


def test_a_host_finds_the_task_and_the_skill_and_never_the_judge(claude: FakeHost) -> None:
    claude.play(*claude_lines())
    ask(opened(claude))
    seen = claude.seen
    work = {path: content for path, content in seen["files"].items() if path.startswith("repository/work/")}
    main = SKILL.main.decode()
    assert work == {
        "repository/work/in/a.txt": ["alpha", False, False],
        "repository/work/.claude/skills/clerk/SKILL.md": [main, False, False],
        "repository/work/.claude/skills/clerk/scripts/run.sh": ["#!/bin/sh\n", True, False],
    }
    assert seen["prompt"] == "Do it."
    assert seen["mode"] == "0o700"
    assert REFERENCE not in json.dumps(seen)
    assert '"val"' not in json.dumps(seen)


def test_the_persons_other_skills_lie_next_to_the_tested_one_by_name_and_description_alone(claude: FakeHost) -> None:
    own = claude.path.parent.parent / "home" / ".claude" / "skills"
    front = "description: Says «hi»: twice.\nhooks: {PreToolUse: []}\nallowed-tools: Bash(*)"
    hidden = "description: x\ndisable-model-invocation: true"
    for name, text in {"greeter": front, "clerk": "description: Mine.", "hidden": hidden}.items():
        (own / name).mkdir(parents=True)
        (own / name / "SKILL.md").write_text(f"---\n{text}\n---\n\n!`touch ran`\n")
    claude.play(*claude_lines())
    ask(opened(claude))
    alone = {path for path in claude.seen["files"] if path.endswith("SKILL.md")}
    ask(opened(claude, "m,among=my-skills"))
    files = {path: content[0] for path, content in claude.seen["files"].items() if path.endswith("SKILL.md")}
    assert files.keys() - alone == {"repository/work/.claude/skills/greeter/SKILL.md"}
    assert files["repository/work/.claude/skills/clerk/SKILL.md"] == SKILL.main.decode()
    laid = files["repository/work/.claude/skills/greeter/SKILL.md"]
    assert 'description: "Says «hi»: twice."' in laid
    assert not any(word in laid for word in ("hooks", "allowed-tools", "ran"))


def test_only_the_variables_on_the_list_are_passed_on(claude: FakeHost) -> None:
    claude.play(*claude_lines())
    more = {"AWS_SECRET_ACCESS_KEY": "aws-secret", "MY_TOKEN": "t", "OPENAI_API_KEY": "o", "CLAUDECODE": "1"}
    ask(opened(claude, HTTPS_PROXY="http://proxy", CLAUDE_CONFIG_DIR="/home/me/.cc", **more))
    given = claude.seen["environ"]
    assert more.keys() & given.keys() == set()
    assert (given["ANTHROPIC_API_KEY"], given["HTTPS_PROXY"]) == (KEY, "http://proxy")
    assert given["CLAUDE_SECURESTORAGE_CONFIG_DIR"] == "/home/me/.cc"
    place = Path(claude.seen["cwd"]).parent.parent
    assert Path(given["CLAUDE_CONFIG_DIR"]) == place / "home"
    assert Path(given["TMPDIR"]) == place / "tmp"


def test_codex_gets_the_login_as_a_link_and_a_key_where_there_is_none(codex: FakeHost, tmp_path: Path) -> None:
    codex.play(*codex_lines())
    login = tmp_path / "home" / ".codex" / "auth.json"
    ask(opened(codex))
    assert codex.seen["environ"]["CODEX_API_KEY"] == KEY
    assert "home/.codex/auth.json" not in codex.seen["files"]
    login.parent.mkdir(parents=True)
    login.write_text('{"tokens": {"access_token": "a-token-of-the-login"}}')
    ask(opened(codex))
    assert "CODEX_API_KEY" not in codex.seen["environ"]
    assert codex.seen["files"]["home/.codex/auth.json"] == [login.read_text(), False, True]
    assert login.exists()


def test_a_question_gets_no_tools_no_skill_and_an_empty_folder(claude: FakeHost) -> None:
    claude.play(*claude_lines('{"edits": []}', ("X", {}, "y")))
    question = Question(
        f"Improve a skill.{ASKED}Look.", render_evidence("x" * 200_000, "y", history="- step 1"), "patch"
    )
    reply = ask(opened(claude), Call("optimizer", "reflect", question, "d"))
    assert (reply.text, reply.messages) == ('{"edits": []}', ())
    line = claude.seen["argv"]
    assert line[line.index("--tools") + 1] == ""
    assert line[line.index("--setting-sources") + 1] == ""
    # The part that all questions about a skill share is the system prompt, which the program has cached.
    system, _, _ = claude.seen["files"][Path(line[line.index("--system-prompt-file") + 1]).name]
    shared, mark, own = question.evidence.partition("## Evidence\n\n")
    assert system == f"Improve a skill.\n\n{shared}"
    assert claude.seen["prompt"] == f"# What is asked of you\n\nLook.\n\n{mark}{own}"
    assert [path for path in claude.seen["files"] if path.startswith("repository/work")] == []


def test_a_question_to_codex_has_a_schema_and_a_sandbox_that_writes_nothing(codex: FakeHost) -> None:
    codex.play(*codex_lines('{"edits": []}'))
    question = Question("Improve it.", "evidence", "patch")
    assert ask(opened(codex, "m,effort=high"), Call("optimizer", "reflect", question, "d")).text == '{"edits": []}'
    seen = codex.seen
    assert seen["prompt"] == "Improve it.\n\nevidence"
    assert json.loads(seen["files"]["schema.json"][0])["additionalProperties"] is False
    config = seen["files"]["home/.codex/config.toml"][0]
    assert 'sandbox_mode = "read-only"' in config
    assert "shell_tool = false" in config
    assert 'model_reasoning_effort = "high"' in config


@pytest.mark.parametrize("path", [".claude/settings.json", ".CODEX/config.toml", "x/../.git/config", ".mcp.json"])
def test_a_file_that_would_set_up_the_host_is_refused(path: str, claude: FakeHost) -> None:
    found = fault(opened(claude), rollout(TaskFile(path, "{}")))
    assert found.fault == "internal"
    assert path in str(found)
    assert not (claude.path.parent / "seen.json").exists()


@pytest.mark.parametrize("path", ["../../home/x", "/etc/x", ".", "a\0b"])
def test_no_file_is_written_outside_of_its_folder(path: str, claude: FakeHost) -> None:
    assert "outside of its folder" in str(fault(opened(claude), rollout(TaskFile(path, ""))))
    skill = SkillFiles((*SKILL.files, SkillFile(path, b"")))
    assert "outside of its folder" in str(fault(opened(claude), rollout(skill=skill)))


@pytest.mark.parametrize(
    ("front", "name"),
    [
        ("name: clerk-2", "clerk-2"),
        ("name: ../x", "skill"),
        ("name: Big", "skill"),
        ("x: y", "skill"),
        ("name: [", "skill"),
    ],
)
def test_a_skill_is_installed_by_its_name_where_that_can_be_a_folder(front: str, name: str, claude: FakeHost) -> None:
    claude.play(*claude_lines())
    skill = SkillFiles((SkillFile("SKILL.md", f"---\n{front}\n---\n".encode()),))
    ask(opened(claude), rollout(skill=skill))
    assert f"repository/work/.claude/skills/{name}/SKILL.md" in claude.seen["files"]


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("deaf", [False, True])
def test_when_time_is_up_all_that_was_started_is_ended_and_the_place_is_gone(
    deaf: bool, claude: FakeHost, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_START", HASTY)
    claude.play(hangs=True, leaves=True, deaf=deaf)
    found = fault(opened(claude, "m,timeout=1"))
    assert (found.fault, "no answer within 1 s" in str(found)) == ("timeout", True)
    assert [is_gone(pid) for pid in claude.seen["pids"]] == [True, True]
    assert list(places.iterdir()) == []


def test_what_an_ended_program_leaves_running_is_ended(claude: FakeHost, places: Path) -> None:
    claude.play(*claude_lines(), leaves=True)
    ask(opened(claude))
    assert [is_gone(pid) for pid in claude.seen["pids"]] == [True, True]
    assert list(places.iterdir()) == []


def test_a_call_that_is_cancelled_leaves_nothing(claude: FakeHost, places: Path) -> None:
    claude.play(hangs=True, leaves=True)
    cue = claude.cue()

    async def given_up() -> None:
        call = asyncio.ensure_future(opened(claude).complete(rollout()))
        await asyncio.to_thread(cue.read_text)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    asyncio.run(given_up())
    assert [is_gone(pid) for pid in claude.seen["pids"]] == [True, True]
    assert list(places.iterdir()) == []


_ASKER = """\
import asyncio, sys, tempfile
tempfile.tempdir = sys.argv[2]
sys.path.insert(0, sys.argv[3])
from agent_calls import rollout
from skillopt_mcp.backends import processes
from skillopt_mcp.backends.claude_code import open_claude_code
processes._START = sys.argv[4]
backend = open_claude_code("m,binary=" + sys.argv[1], {"PATH": "/usr/bin:/bin", "HOME": sys.argv[2]})
asyncio.run(backend.complete(rollout()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="waits for processes that are not its own by pidfd")
def test_a_killed_process_leaves_no_program_and_the_next_start_removes_its_place(
    claude: FakeHost, places: Path
) -> None:
    claude.play(hangs=True, leaves=True, deaf=True)
    cue = claude.cue()
    line = [sys.executable, "-c", _ASKER, str(claude.path), str(places), str(Path(__file__).parent), HASTY]
    with private_place() as mine, subprocess.Popen(line) as asker:
        cue.read_text()
        waiting = [os.pidfd_open(pid) for pid in claude.seen["pids"]]
        sweep_places()
        assert len(list(places.iterdir())) == 2
        asker.kill()
        for end in waiting:
            assert select.select([end], [], [], 20)[0]
            os.close(end)
        opened(claude)
        assert list(places.iterdir()) == [mine.folder]
    assert list(places.iterdir()) == []
