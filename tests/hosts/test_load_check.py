"""Arrival: the real hosts load a text, or do not, against a server of ours and with nothing of a person's."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from skillopt_mcp.backends.agents import arrival
from skillopt_mcp.backends.agents.arrival import HostRequests
from skillopt_mcp.backends.base import Loading
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.core.calls import Arrival, Rollout
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.tasks.judges.kinds.text import Exact

pytestmark = pytest.mark.hosts

HOSTS = {"claude-code": "CLAUDE", "codex": "CODEX"}
FRONT = "---\nname: clerk\ndescription: Does items.\n---\n"
CANARY = "canary-of-the-person-0123456789"
VARIABLES = (
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS",
    "AWS_SECRET_ACCESS_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CODEX_API_KEY", "OPENAI_API_KEY",
    "OPENAI_BASE_URL", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy", "NODE_EXTRA_CA_CERTS", "MY_OWN_SECRET",
    "LC_ALL", "USER",
)  # fmt: skip


@pytest.fixture(params=HOSTS)
def target(request: pytest.FixtureRequest) -> Loading:
    binary = os.environ.get(HOSTS[request.param])
    if not binary:
        pytest.skip(f"{HOSTS[request.param]} names no binary: see .ci/hosts")
    model = "claude-sonnet-4-5" if request.param == "claude-code" else "gpt-5-codex"
    opened = open_backend(f"{request.param}:{model},binary={binary}")
    assert isinstance(opened, Loading)
    return opened


def load(target: Loading, text: str, prompt: str = "Do it.", *, by_prompt: bool = False) -> Arrival:
    files = SkillFiles((SkillFile("SKILL.md", text.encode()),))
    task = Task(1, 1, "t", prompt, Exact(expected="x"), "test", "d", folder="desk")
    found = asyncio.run(target.load(Rollout(files, task), by_prompt=by_prompt))
    assert found
    return found


def test_a_text_arrives_line_by_line(target: Loading) -> None:
    assert load(target, f"{FRONT}\n  # Clerk\n\n- Ask first.  \n\n<!-- note -->\n") == Arrival("arrived")
    assert load(target, FRONT + "\n".join(f"{n} of the lines" for n in range(600))).state == "arrived"


def test_what_a_host_does_not_load_is_refused_in_its_words(target: Loading) -> None:
    is_codex = "codex" in type(target._host).__module__  # type: ignore[attr-defined]
    if is_codex:
        found = load(target, '---\nname: clerk\ndescription: "Does items.\n---\nBody\n')
        assert "invalid YAML" in found.words
    else:
        found = load(target, f"{FRONT}Today is !`touch x`.\n")
        assert "Shell command permission check failed" in found.words
        hidden = FRONT.replace("items.\n", "items.\ndisable-model-invocation: true\n") + "Body\n"
        assert "disable-model-invocation" in load(target, hidden).words
        assert load(target, hidden, by_prompt=True) == Arrival("arrived")
    assert found.state == "refused"


def test_nothing_of_the_person_reaches_the_host(target: Loading, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, CANARY)
    for name in (".claude/.credentials.json", ".codex/auth.json", ".claude.json", ".claude/settings.json", "CLAUDE.md"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(json.dumps({"token": CANARY, "env": {"X": CANARY}}))
    host = target._host  # type: ignore[attr-defined]
    opened = open_backend(target.name)  # type: ignore[attr-defined]
    lines = list[str]()
    line = type(host).line

    def noted(self: object, call: object, place: object, address: str = "") -> object:
        made = line(self, call, place, address)
        lines.append(json.dumps([made.argv, made.environ]))
        return made

    monkeypatch.setattr(type(host), "line", noted)
    asked_by: list[HostRequests] = []
    first = arrival.first_request

    async def watched(asked: HostRequests, running: asyncio.Task[object]) -> bool:
        asked_by.append(asked)
        return await first(asked, running)

    monkeypatch.setitem(type(opened).load.__globals__, "first_request", watched)  # type: ignore[attr-defined]
    assert isinstance(opened, Loading)
    assert load(opened, f"{FRONT}# Clerk\n").state == "arrived"
    [asked] = asked_by
    assert asked.bodies
    for text in (*lines, json.dumps(asked.bodies), json.dumps(asked.headers)):
        assert CANARY not in text
        assert str(home) not in text
    assert "made-up" in json.dumps(asked.headers)


def test_a_host_that_asks_nothing_is_not_checked(target: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrival, "CHECK_S", 0.1)
    assert load(target, f"{FRONT}# Clerk\n").state == "unchecked"


def test_a_skill_is_loaded_among_the_persons_own_and_one_without_room_in_the_list_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = os.environ.get("CLAUDE")
    if not binary:
        pytest.skip("CLAUDE names no binary: see .ci/hosts")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    spec = f"claude-code:claude-sonnet-4-5,binary={binary}"
    fingerprints = {open_backend(spec).fingerprint}
    for n_skills, words in ((3, ""), (80, "of your 81 skills this one is listed without its description")):
        for n in range(n_skills):
            own = tmp_path / ".claude" / "skills" / f"aid-{n}"
            own.mkdir(parents=True, exist_ok=True)
            about = f"Helps with thing {n}: it is used for that alone. " * 12
            (own / "SKILL.md").write_text(
                f"---\nname: aid-{n}\ndescription: {json.dumps(about)}\n---\n\n!`touch ran`\n"
            )
        target = open_backend(f"{spec},among=my-skills")
        assert isinstance(target, Loading)
        text = f"---\nname: clerk\ndescription: {'Does items. ' * 60}\n---\n\nAsk first.\n"
        assert load(target, text) == Arrival("arrived", words)
        fingerprints.add(target.fingerprint)
    assert len(fingerprints) == 3
