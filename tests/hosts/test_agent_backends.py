"""Agent backends: Claude Code and Codex themselves do tasks and answer questions, with nothing of the user's loaded."""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from agent_models import AgentModel, Answer, Asked, Failure, answering
from agent_replaying import N_ROLLOUTS, NAME, answering_the_script, decided, is_rollout, opening, replayed
from agent_replaying import SCRIPT as REPLAY_SCRIPT
from scripted_model import ToolCall, Turn

from skillopt_mcp.backends import claude_code, codex
from skillopt_mcp.backends.agents.places import sweep_places
from skillopt_mcp.backends.base import Backend, BackendFault, worst_case
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.backends.wrappers import check_backend
from skillopt_mcp.core.calls import TOOL_CALL, Call, Fault, Message, Question, Reply, Rollout
from skillopt_mcp.core.judging import Score
from skillopt_mcp.core.results import Replayed
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.core.tasks import Task, TaskFile
from skillopt_mcp.prompts.rendering import render_evidence
from skillopt_mcp.tasks.judges.judging import score
from skillopt_mcp.tasks.judges.kinds.opens import Opens
from skillopt_mcp.tasks.judges.kinds.text import Exact

pytestmark = pytest.mark.hosts

KEY = "loopback-key-0123456789"
PLANTED = "PLANTED-FOR-THE-USER"
REFERENCE = "the-secret-reference"
SKILL = SkillFiles(
    (SkillFile("SKILL.md", b"---\nname: clerk\ndescription: Does items.\n---\n# Clerk\n\nBODY-OF-IT\n"),)
)
TASK = Task(1, 1, "t", "Do it.", Exact(expected=REFERENCE), "val", "d", files=(TaskFile("a.txt", "alpha"),))
ROLLOUT = Call("target", "rollout", Rollout(SKILL, TASK), "draw")


@dataclass(frozen=True)
class Host:
    """A host as a backend: `kind` is its name in a spec, `variable` names its binary."""

    kind: str
    variable: str

    def spec(self, model: AgentModel, more: str = "") -> str:
        binary = os.environ[self.variable]
        if self.kind == "codex":
            return f"codex:gpt-5-codex,base_url=http://127.0.0.1:{model.port}/v1,binary={binary}{more}"
        os.environ["ANTHROPIC_BASE_URL"] = f"http://127.0.0.1:{model.port}"
        return f"claude-code:claude-sonnet-4-5,binary={binary}{more}"


HOSTS = {
    "claude": Host("claude-code", "CLAUDE"),
    "older-claude": Host("claude-code", "CLAUDE_OLDER"),
    "codex": Host("codex", "CODEX"),
}


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> Host:
    found: Host = HOSTS[request.param]
    if not os.environ.get(found.variable):
        pytest.skip(f"{found.variable} names no binary: see .ci/hosts")
    return found


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that private places are made in; the keys are for loopback only."""
    folder = tmp_path / "places"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    for name in ("ANTHROPIC_API_KEY", "CODEX_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    return folder


def ask(backend: Backend, call: Call = ROLLOUT) -> Reply:
    return asyncio.run(backend.complete(call))


@contextmanager
def opened(host: Host, answer: Answer, more: str = "") -> Iterator[tuple[Backend, AgentModel]]:
    with answering(host.kind, answer) as model:
        yield open_backend(host.spec(model, more)), model


def opens_and_answers(host: Host) -> Answer:
    def answer(asked: Asked) -> Turn:
        return ["the answer"] if asked.n_results else [opening(host.kind)]

    return answer


def plant(folder: Path, marker: Path) -> None:
    """Plant in a folder what a host might take for the user's or a project's own: memory, skills, hooks, servers."""
    command = {"type": "command", "command": f"touch {marker}/hook"}
    hooks = {"hooks": {event: [{"hooks": [command]}] for event in ("SessionStart", "UserPromptSubmit", "Stop")}}
    server = {"mcpServers": {"planted": {"command": "touch", "args": [f"{marker}/server"]}}}
    skill = f"---\nname: planted\ndescription: {PLANTED}\n---\n{PLANTED}\n"
    texts = {f"{place}/skills/planted/SKILL.md": skill for place in (".claude", ".agents", ".codex")}
    texts |= dict.fromkeys(("CLAUDE.md", ".claude/CLAUDE.md", ".claude/rules/r.md"), PLANTED)
    texts |= dict.fromkeys(("CLAUDE.local.md", "AGENTS.md", ".codex/AGENTS.md"), PLANTED)
    texts |= {
        ".claude/settings.json": json.dumps({**hooks, "outputStyle": PLANTED}),
        ".codex/hooks.json": json.dumps(hooks),
    }
    texts |= {".claude.json": json.dumps(server), ".mcp.json": json.dumps(server)}
    texts[".claude/agents/planted.md"] = texts[".claude/commands/planted.md"] = skill
    texts[".codex/config.toml"] = f'[mcp_servers.planted]\ncommand = "touch"\nargs = ["{marker}/server"]\n'
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def test_a_host_does_a_task_with_the_skill_and_nothing_of_the_users(
    host: Host, tmp_path: Path, places: Path, home: Path
) -> None:
    marker = tmp_path / "marker"
    marker.mkdir()
    for folder in (home, places, tmp_path):
        plant(folder, marker)
    planted = set(places.rglob("*"))
    with opened(host, opens_and_answers(host)) as (backend, model):
        reply = ask(backend)
    called = opening(host.kind)
    assert (reply.text, reply.served) == ("the answer", model.asked[0].body["model"])
    assert reply.messages[0] == Message("skill", "opened", NAME)
    names = [message.name for message in reply.messages if message.role == TOOL_CALL]
    assert names == ["shell" if host.kind == "codex" else called.tool]
    assert reply.usage.tokens_in > 0
    assert (reply.usage.usd is None) == (host.kind == "codex")
    assert "BODY-OF-IT" in model.asked[-1].text
    assert "Does items." in model.asked[0].text
    shown = json.dumps([asked.body for asked in model.asked])
    assert PLANTED not in shown
    assert '"planted"' not in shown
    assert REFERENCE not in shown
    assert list(marker.iterdir()) == []
    assert set(places.rglob("*")) == planted


def test_a_prompt_on_which_the_skill_should_open_is_judged_by_whether_the_host_did(host: Host) -> None:
    def answer(asked: Asked) -> Turn:
        # As a model does: by what the description speaks of.
        return [opening(host.kind)] if "Books quinces." in asked.text and not asked.n_results else ["fin"]

    described = SKILL.replaced(SkillFile("SKILL.md", SKILL.main.replace(b"Does items.", b"Books quinces.")))
    with opened(host, answer) as (backend, _):
        for files in (SKILL, described):
            reply = ask(backend, ROLLOUT._replace(request=Rollout(files, TASK)))
            for expected in (True, False):
                judged = score(Opens(expected=expected), reply.text, reply.messages)
                assert isinstance(judged, Score)
                assert judged.hard is ((files is described) == expected)


def test_a_host_that_runs_inside_another_session_is_none_of_that_session(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Claude Code notes its runs there for the session that started them.
    session = str(uuid.uuid4())
    notes = Path(f"/tmp/claude-{os.getuid()}/-{session}/{session}/started")
    notes.mkdir(mode=0o700, parents=True)
    for name in ("CLAUDECODE", "CODEX_CI", "CODEX_SANDBOX_NETWORK_DISABLED"):
        monkeypatch.setenv(name, "1")
    for name in ("CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_LAUNCHED_BY_SESSION_IDS", "CODEX_THREAD_ID"):
        monkeypatch.setenv(name, session)
    monkeypatch.setenv("CLAUDE_CODE_CHILD_NOTES_DIR", str(notes))
    with opened(host, lambda asked: ["the answer"]) as (backend, model):
        assert ask(backend).text == "the answer"
    noted = list(notes.iterdir())
    shutil.rmtree(notes.parents[1])
    assert noted == []
    assert session not in json.dumps([[asked.headers, asked.body] for asked in model.asked])


def test_a_host_answers_a_question_without_tools(host: Host, places: Path, home: Path, tmp_path: Path) -> None:
    plant(home, tmp_path)
    plant(places, tmp_path)
    question = Question("Improve the skill.", render_evidence("x" * 200_000, "y" * 200_000), "patch")
    with opened(host, lambda asked: ['{"edits": []}']) as (backend, model):
        reply = ask(backend, Call("optimizer", "reflect", question, "draw"))
    assert (reply.text, reply.messages) == ('{"edits": []}', ())
    [asked] = model.asked
    assert not {"Bash", "Read", "Skill", "Write", "exec_command", "shell", "web_search"} & set(asked.tools)
    assert "Improve the skill." in asked.text
    shared, mark, own = question.evidence.partition("## Evidence")
    assert shared.strip() in asked.text
    assert (mark + own).strip() in asked.text
    assert PLANTED not in json.dumps(asked.body)


def test_a_host_reads_and_writes_in_the_working_copy_only(host: Host, places: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"

    def answer(asked: Asked) -> Turn:
        cwd = str(next(places.glob("*/repository/work")))
        if host.kind == "codex":
            commands = [
                f"cat a.txt; echo new > b.txt && echo x > {outside}; echo code $?; env | grep -c 0123456789",
                "cat b.txt",
            ]
            calls = [ToolCall("exec_command", {"cmd": command}, server="") for command in commands]
        else:
            write = [{"file_path": path, "content": "new"} for path in (str(outside), f"{cwd}/b.txt")]
            calls = [ToolCall("Write", arguments, server="") for arguments in write]
            calls += [ToolCall("Read", {"file_path": path}, server="") for path in (f"{cwd}/b.txt", str(marked))]
            calls += [ToolCall("Bash", {"command": f"touch {outside}", "description": "x"}, server="")]
        return [calls[asked.n_results]] if asked.n_results < len(calls) else ["done"]

    marked = tmp_path / "secret.txt"
    marked.write_text(PLANTED)
    with opened(host, answer) as (backend, _):
        told = "\n".join(message.content for message in ask(backend).messages if message.role == "tool")
    assert not outside.exists()
    assert "new" in told
    assert PLANTED not in told
    if host.kind == "codex":
        assert told.startswith("alpha")
        assert "code 1\n" in told
        assert "\n0\n" in told


@pytest.mark.parametrize("variable", ["CLAUDE", "CLAUDE_OLDER"])
def test_claude_code_uses_the_users_login_where_it_lies(
    variable: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not os.environ.get(variable):
        pytest.skip(f"{variable} names no binary: see .ci/hosts")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    token = "sk-ant-oat01-loopback"
    login = {"accessToken": token, "refreshToken": "r", "expiresAt": 4_000_000_000_000, "scopes": ["user:inference"]}
    path = home / ".claude" / ".credentials.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"claudeAiOauth": login}))
    with opened(Host("claude-code", variable), lambda asked: [f"it is {token}"]) as (backend, model):
        assert ask(backend).text == "it is $CREDENTIALS"
    assert model.asked[0].headers["authorization"] == f"Bearer {token}"


FAILURES: list[tuple[Failure, Fault]] = [
    (Failure(401, "authentication_error", "invalid key"), "auth"),
    (Failure(404, "model_not_found", "The model `m` does not exist"), "model_not_found"),
    (Failure(429, "rate_limit_error", "slow down"), "rate_limit"),
    (Failure(503, "overloaded_error", "busy"), "overloaded"),
]


@pytest.mark.parametrize(("failure", "wanted"), FAILURES, ids=[wanted for _, wanted in FAILURES])
def test_what_a_vendor_refuses_is_a_typed_fault(
    failure: Failure, wanted: Fault, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claude_code, "RETRIES", 0)
    monkeypatch.setattr(codex, "RETRIES", 0)
    with opened(host, lambda asked: failure) as (backend, _), pytest.raises(BackendFault) as caught:
        ask(backend)
    assert caught.value.fault == wanted
    assert KEY not in str(caught.value)


def test_the_doctor_asks_a_host_once_and_says_what_is_wrong(host: Host, places: Path) -> None:
    with answering(host.kind, lambda asked: ["ok"]) as model:
        spec = host.spec(model)
        assert check_backend(spec) == (None, "ok")
        assert sum("Answer with the word: ok" in asked.text for asked in model.asked) == 1
    with answering(host.kind, lambda asked: Failure(401, "authentication_error", "invalid x-api-key")) as model:
        assert "log in" in str(check_backend(host.spec(model))[0])
    assert list(places.iterdir()) == []


@pytest.mark.parametrize("host", ["claude", "older-claude"], indirect=True)  # caps on money are refused for codex
def test_a_budget_ends_a_rollout_after_the_turn_that_used_it_up(host: Host) -> None:
    with opened(host, lambda asked: [opening(host.kind)], ",max_usd=0.001") as (backend, model):
        with pytest.raises(BackendFault) as failed:
            ask(backend)
        n_turns = len(model.asked)
    fault, bound = failed.value, worst_case(backend, ROLLOUT)
    assert bound is not None
    assert bound.usd == 0.001
    assert fault.fault == "truncated"
    assert fault.usage is not None
    assert fault.usage.usd is not None
    assert bound.usd <= fault.usage.usd <= bound.usd * (1 + 1 / (n_turns - 1)) * 1.5


def test_without_an_account_the_fault_says_how_to_log_in(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "CODEX_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name)
    backend = open_backend(f"{host.kind}:m,binary={os.environ[host.variable]}")
    with pytest.raises(BackendFault, match="log in") as caught:
        ask(backend)
    assert caught.value.fault == "auth"


def test_a_model_that_hangs_is_given_up_and_nothing_is_left(host: Host, places: Path) -> None:
    with opened(host, lambda asked: "hang", ",timeout=3") as (backend, model), pytest.raises(BackendFault) as caught:
        ask(backend)
    assert caught.value.fault == "timeout"
    assert len(model.asked) >= 1
    assert list(places.iterdir()) == []
    assert at_work_in(places) == []


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    folder = tmp_path_factory.mktemp("scripted")
    (folder / "script.json").write_text(json.dumps(REPLAY_SCRIPT))
    return replayed(folder, f"scripted:{folder / 'script.json'}")


def test_the_script_makes_a_replay_in_which_something_is_decided(scripted: Replayed) -> None:
    assert [step.verdict for step in scripted.steps] == ["accept_best", "reject"]


def test_a_replay_decides_as_the_scripted_one_does(host: Host, tmp_path: Path, scripted: Replayed) -> None:
    with answering(host.kind, answering_the_script(host.kind)) as model:
        result = replayed(tmp_path, host.spec(model))
    assert decided(result) == decided(scripted)
    assert result.n_missing == 0
    assert result.tokens_in > 0


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_a_replay_that_is_killed_leaves_no_process_and_goes_on(
    host: Host, tmp_path: Path, places: Path, scripted: Replayed
) -> None:
    answer = answering_the_script(host.kind)
    all_at_work, begun = threading.Event(), []

    def until_killed(asked: Asked) -> Turn | Literal["hang"]:
        if all_at_work.is_set() or not is_rollout(asked) or asked.n_results:
            return answer(asked)
        begun.append(asked)
        # Rollouts come four at a time: the third time is the one that hangs.
        if len(begun) <= 8:
            return answer(asked)
        if len(begun) == 12:
            all_at_work.set()
        return "hang"

    with answering(host.kind, until_killed) as model:
        program = Path(__file__).with_name("agent_replaying.py")
        spec = host.spec(model)
        with subprocess.Popen([sys.executable, str(program), str(places), str(tmp_path), spec]) as process:
            try:
                assert all_at_work.wait(120)
                waiting = at_work_in(places)
            finally:
                process.kill()
        assert len(waiting) >= 4
        for end in waiting:
            assert select.select([end], [], [], 20)[0]
            os.close(end)
        assert at_work_in(places) == []
        sweep_places()
        assert list(places.iterdir()) == []
        result = replayed(tmp_path, spec)
    assert decided(result) == decided(scripted)
    # What was answered is not asked again; the four under way are.
    n_rollouts = sum(is_rollout(asked) and not asked.n_results for asked in model.asked)
    assert n_rollouts == N_ROLLOUTS + 4
    assert list(places.iterdir()) == []


def at_work_in(folder: Path) -> list[int]:
    """Return descriptors of all processes whose working folder is below `folder`."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.readlink(f"/proc/{name}/cwd").startswith(str(folder)):
                found.append(os.pidfd_open(int(name)))
        except OSError:
            continue
    return found
