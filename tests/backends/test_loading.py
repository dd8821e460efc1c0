"""Loading: what a host asks of a server of ours says whether a text arrived, and it has nothing of a person's."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from skillopt_mcp.backends.base import Loading
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.core.calls import Arrival, Rollout
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.tasks.judges.kinds.text import Exact

HOST = """#!{python} -IS
import sys
if "--version" in sys.argv:
    sys.exit(print("9.9.9"))
import json, os, socket, tomllib
seen = dict(environ=dict(os.environ), model=sys.argv[sys.argv.index("--model") + 1] if "--model" in sys.argv else "")
url = os.environ.get("ANTHROPIC_BASE_URL", "") + "/v1/messages"
if "CODEX_HOME" in os.environ:
    config = tomllib.load(open(os.environ["CODEX_HOME"] + "/config.toml", "rb"))
    url = config["model_providers"]["own"]["base_url"] + "/responses"
    seen["model"] = config["model"]
json.dump(seen, open({folder!r} + "/seen.json", "w"))
_, _, place, path = url.split("/", 3)
for body in json.loads({bodies!r}):
    content = json.dumps(body).encode()
    with socket.create_connection(place.split(":")) as sent:
        sent.sendall(b"POST /%b HTTP/1.0\\r\\ncontent-length: %d\\r\\n\\r\\n" % (path.encode(), len(content)) + content)
        while sent.recv(65536):
            pass
sys.stderr.write({errors!r})
"""
FRONT = "---\nname: clerk\ndescription: Does items.\n---\n"
LINES = ["# Clerk", "Ask first, in every case.", "Then book it once.", "Close the day at six."]
HEAD, ASK, BOOK, CLOSE = LINES
LISTED = {"role": "developer", "content": "- clerk: /x/desk/SKILL.md"}


def load(folder: Path, host: str, bodies: list[dict[str, object]], text: str, errors: str = "") -> Arrival:
    """Return what comes of a text in a program that asks this."""
    program = folder / "program"
    program.write_text(HOST.format(python=sys.executable, folder=str(folder), bodies=json.dumps(bodies), errors=errors))
    program.chmod(0o755)
    target = open_backend(f"{host}:m,binary={program}")
    assert isinstance(target, Loading)
    files = SkillFiles((SkillFile("SKILL.md", f"{FRONT}{text}".encode()),))
    task = Task(1, 1, "t", "Do it.", Exact(expected="x"), "test", "d", folder="desk")
    found = asyncio.run(target.load(Rollout(files, task), by_prompt=False))
    assert found
    return found


def shown_to(host: str, lines: list[str], folder: str = "desk") -> list[dict[str, object]]:
    """Return the requests of a host that shows these lines to its model."""
    if host == "codex":
        output = {"type": "function_call_output", "output": "Exit code: 0\nOutput:\n" + "\n".join(lines)}
        return [{"input": [LISTED]}, {"input": [LISTED, output]}]
    text = "\n".join([f"Base directory for this skill: /x/{folder}", *lines])
    return [{"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]}]


@pytest.mark.parametrize("host", ["claude-code", "codex"])
@pytest.mark.parametrize(
    ("came", "found"),
    [
        (LINES, Arrival("arrived")),
        (["Be kind.", HEAD, "  " + ASK, "", BOOK, CLOSE, "Be brief."], Arrival("arrived")),
        (
            [HEAD, ASK, "Then book it twice.", CLOSE],
            Arrival("arrived", 'the host changes 1 lines: "Then book it once."'),
        ),
        ([HEAD, ASK, CLOSE], Arrival("refused", '1 lines did not arrive: "Then book it once."')),
        ([HEAD, BOOK, ASK, CLOSE], Arrival("refused", f'1 lines did not arrive: "{BOOK}"')),
        ([], Arrival("refused", f'4 lines did not arrive: "{HEAD}", "{ASK}", "{BOOK}"')),
    ],
    ids=["all", "with more around", "a changed line", "a missing line", "another order", "nothing"],
)
def test_a_text_arrives_where_each_line_does_in_order(
    tmp_path: Path, host: str, came: list[str], found: Arrival
) -> None:
    assert load(tmp_path, host, shown_to(host, came), "\n".join(LINES)) == found


@pytest.mark.parametrize("line", ["Close $ARGUMENTS.", "Close $1.", "In ${CLAUDE_SKILL_DIR}.", "Today: !`date`."])
def test_what_a_host_puts_in_the_place_of_a_line_is_a_change(tmp_path: Path, line: str) -> None:
    came = shown_to("claude-code", [HEAD, "0123456789", BOOK])
    found = load(tmp_path, "claude-code", came, "\n".join([HEAD, line, BOOK]))
    assert found == Arrival("arrived", f'the host changes 1 lines: "{line}"')


@pytest.mark.parametrize(
    ("block", "state"),
    [
        ("```!\ndate\n```", "arrived"),
        ("> ```!\n> date\n> ```", "arrived"),
        ("- ```!\n  date\n  ```", "arrived"),
        ("~~~!\ndate\n~~~~", "arrived"),
        ("It is !`date\n-u` now.", "arrived"),
        ("```!\ndate\n```\nClose it.", "refused"),
    ],
)
def test_what_a_host_puts_in_the_place_of_a_block_that_runs_is_none(tmp_path: Path, block: str, state: str) -> None:
    came = shown_to("claude-code", [HEAD, "Saturday", BOOK])
    assert load(tmp_path, "claude-code", came, f"{HEAD}\n{block}\n{BOOK}").state == state


def test_a_block_that_is_not_closed_runs_to_the_end_and_a_host_that_runs_none_changes_none(tmp_path: Path) -> None:
    block = f"{HEAD}\n```!\ndate\n{BOOK}"
    assert load(tmp_path, "claude-code", shown_to("claude-code", [HEAD, "Saturday"]), block).state == "arrived"
    text = f"{HEAD}\nIt is !`date\n-u` now.\n{BOOK}"
    assert load(tmp_path, "codex", shown_to("codex", text.split("\n")), text) == Arrival("arrived")


def test_what_does_not_come_says_so_in_the_words_of_the_host(tmp_path: Path) -> None:
    answer = {"type": "tool_result", "is_error": True, "content": "Shell command permission check failed"}
    bodies: list[dict[str, object]] = [{"messages": [{"role": "user", "content": [answer]}]}]
    text = "\n".join(LINES)
    assert load(tmp_path, "claude-code", bodies, text) == Arrival("refused", "Shell command permission check failed")
    other = load(tmp_path, "claude-code", shown_to("claude-code", LINES, folder="other"), text)
    assert other.state != "arrived", "it is another skill's text"
    assert load(tmp_path, "claude-code", [], text).state == "unchecked"
    failed = load(tmp_path, "codex", shown_to("codex", LINES), text, errors="x: failed to load skill: invalid YAML\n")
    assert failed == Arrival("refused", "failed to load skill: invalid YAML"), "at exit 0, and though it is listed"
    assert load(tmp_path, "codex", [{"input": []}], text) == Arrival("refused", "the skill is not listed")
    assert load(tmp_path, "codex", [{"input": [LISTED]}], text).state == "unchecked"


@pytest.mark.parametrize(("host", "key"), [("claude-code", "ANTHROPIC_API_KEY"), ("codex", "CODEX_API_KEY")])
def test_the_program_has_nothing_of_a_person(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, host: str, key: str
) -> None:
    for name in (key, "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "HTTPS_PROXY", "AWS_SECRET_ACCESS_KEY", "MY_OWN", "USER"):
        monkeypatch.setenv(name, "https://canary.example")
    assert load(tmp_path, host, shown_to(host, LINES), "\n".join(LINES)).state == "arrived"
    seen = json.loads((tmp_path / "seen.json").read_text())
    environ = seen["environ"]
    assert seen["model"] == "m", "that of the test"
    assert [name for name, value in environ.items() if "canary" in value or str(home) in value] == []
    assert "made-up" in environ[key]
    assert environ["NO_PROXY"] == "127.0.0.1"
