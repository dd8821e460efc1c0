"""Arrival: what the real Claude Code and Codex load of a skill, and what is said of that before and after an attempt.

    python benchmarks/arrival.py [--short] [--json]

`texts`: shapes of a SKILL.md, each once with each host (their binaries: CLAUDE, CODEX). `refused_before_a_call`: those
that the load check refuses. Goals, all 0: `opened_wrong`: attempts that are said to have opened the skill where its
last line did not reach the model, or the other way round; `name_differs`: attempts whose folder had not the name of
the live one; `tokens_spent`: requests to the person's own address while texts were checked; `environment_leaked`:
checks in which a value of the person's environment, or of a login in their home, reached the host. Exit code 1 misses
a goal.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.doors import parser, show
from skillopt_mcp.backends.agents import backend as agents
from skillopt_mcp.backends.agents.arrival import HostRequests, first_request, serve_host
from skillopt_mcp.backends.agents.backend import AgentBackend
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.claude_code import open_claude_code
from skillopt_mcp.backends.codex import open_codex
from skillopt_mcp.backends.processes import Ended, Line, run
from skillopt_mcp.core.calls import Call, Rollout
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.tasks.judges.kinds.text import Exact

FOLDER = "Ledger-desk"
CANARY = "canary-of-the-person-0123456789"
MARK = "The last line of it is vermilion okapi."
BODY = f"# Desk\n\nClose the page.\n\n{MARK}\n"
AT_ONCE, SHORT = 2, 8
VARIABLES = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "AWS_SECRET_ACCESS_KEY", "MY_OWN", "USER", "LC_ALL")
FRONTS = {
    "plain": "name: desk\ndescription: Close pages.",
    "quoted": 'name: desk\ndescription: "Close: pages."',
    "single quotes": "name: desk\ndescription: 'Close pages.'",
    "colon": "name: desk\ndescription: Close: pages.",
    "broken quotes": 'name: desk\ndescription: "Close pages.',
    "duplicate key": "name: desk\nname: other\ndescription: A.",
    "tab": "name: desk\ndescription:\tClose pages.",
    "comment": "name: desk\ndescription: Close #pages. # really",
    "brackets": "name: desk\ndescription: [beta] Close pages.",
    "star": "name: desk\ndescription: *close* pages.",
    "block": "name: desk\ndescription: |\n  Close\n  pages.",
    "folded": "name: desk\ndescription: >-\n  Close\n  pages.",
    "empty": "name: desk\ndescription:",
    "none": "name: desk",
    "no name": "description: Close pages.",
    "list": "name: desk\ndescription:\n  - a\n  - b",
    "number": "name: 7\ndescription: 8",
    "boolean": "name: yes\ndescription: no",
    "other name": "name: other\ndescription: Close pages.",
    "no such name": "name: Not a name!\ndescription: Close pages.",
    "long name": f"name: {'n' * 80}\ndescription: Close pages.",
    "long": f"name: desk\ndescription: {'close pages ' * 200}",
    "non-ascii": "name: desk\ndescription: Schließt Seiten – 日本.",
    "emoji": "name: desk\ndescription: Close 📕.",
    "hidden": "name: desk\ndescription: Close pages.\ndisable-model-invocation: true",
    "fork": "name: desk\ndescription: A.\ncontext: fork",
    "not invocable": "name: desk\ndescription: Close pages.\nuser-invocable: false",
    "licence": "name: desk\ndescription: A.\nlicense: MIT",
    "metadata": "name: desk\ndescription: A.\nmetadata:\n  version: '1'",
    "tools": "name: desk\ndescription: A.\nallowed-tools: Read",
    "unknown key": "name: desk\ndescription: A.\ncolour: red",
    "hint": 'name: desk\ndescription: A.\nargument-hint: "[page]"',
    "anchor": "name: &n desk\ndescription: Close pages.",
    "null": "name: ~\ndescription: Close pages.",
    "nothing": "",
}
BODIES = {
    "arguments": f"Close $ARGUMENTS.\n\n{MARK}\n",
    "numbers": f"It costs $5 and $1.\n\n{MARK}\n",
    "escaped": f"It costs \\$5.\n\n{MARK}\n",
    "folder": f"See ${{CLAUDE_SKILL_DIR}}/a.md.\n\n{MARK}\n",
    "at file": f"See @a.md.\n\n{MARK}\n",
    "comment": f"<!-- note -->\n\n{MARK}\n",
    "tags": f"<b>Close</b>\n\n{MARK}\n",
    "fence": f"```sh\nls\n```\n\n{MARK}\n",
    "open fence": f"{MARK}\n```sh\nls\n",
    "rule": f"---\n\n{MARK}\n",
    "blanks": f"\n\n\n   Close.  \n\n\n{MARK}  \n\n\n",
    "tabs": f"\t- a\n\t\t- b\n\n{MARK}\n",
    "table": f"|a|b|\n|-|-|\n\n{MARK}\n",
    "line": MARK,
    "no end": f"# Desk\n\n{MARK}",
    "long": "Close the page.\n" * 2000 + MARK + "\n",
    "long line": f"{'close ' * 500}\n\n{MARK}\n",
    "unicode": f"Schließe die Seite – 日本 📕\n\n{MARK}\n",
}


def shapes() -> Iterator[tuple[str, bytes]]:
    """The shapes of a SKILL.md by name; what would run something is none of them."""
    for name, front in FRONTS.items():
        yield f"front matter, {name}", f"---\n{front}\n---\n{BODY}".encode()
    for name, body in BODIES.items():
        yield f"body, {name}", f"---\n{FRONTS['plain']}\n---\n{body}".encode()
    plain = f"---\n{FRONTS['plain']}\n---\n{BODY}"
    yield "crlf", plain.replace("\n", "\r\n").encode()
    yield "byte order mark", b"\xef\xbb\xbf" + plain.encode()
    yield "no front matter", BODY.encode()
    yield "never closed", f"---\n{FRONTS['plain']}\n{BODY}".encode()
    yield "blank line before", f"\n{plain}".encode()
    yield "body alone is empty", f"---\n{FRONTS['plain']}\n---\n".encode()


class Count(dict[str, int]):
    """The figures; `wrong` are the texts behind those that should be 0."""

    wrong: list[str]


async def measure(host: str, name: str, text: bytes, home: Path, figures: Count) -> None:
    """Check one text with a host, attempt a task with it, and compare what is said with what reached the model."""
    files = SkillFiles((SkillFile("SKILL.md", text),))
    task = Task(1, 1, "t", "Close the page.", Exact(expected="x"), "test", "d", folder=FOLDER)
    request = Rollout(files, task)
    with serve_host(FOLDER, text.decode(), skills_path(host)) as (address, asked):
        backend = opened(host, home, address)
        found = await backend.load(request, by_prompt=False)
        figures["tokens_spent"] += len(asked.bodies)
        state = found.state if found else "unchecked"
        figures["refused_before_a_call"] += state == "refused"
        figures["unchecked"] += state == "unchecked"
        try:
            reply = await backend.complete(Call("target", "rollout", request, "draw"))
        except BackendFault:
            reply = None  # never scored
        shown = json.dumps(asked.bodies, ensure_ascii=False)
    # Of a file without a body, Codex shows the front matter.
    empty = "Base directory for this skill" if host == "claude" else "description:"
    arrived = (MARK if MARK.encode() in text else empty) in results_of(asked)
    says = reply is not None and reply.messages[0][:2] == ("skill", "opened")
    if reply is not None and says != arrived:
        figures["opened_wrong"] += 1
        figures.wrong.append(f"{host}: {name}: said {reply.messages[0].content}, arrived: {arrived}")
    if (reply and reply.messages[0].name != FOLDER) or (arrived and f"/{FOLDER}" not in shown):
        figures["name_differs"] += 1
        figures.wrong.append(f"{host}: {name}: the folder's name")


def results_of(asked: HostRequests) -> str:
    """What the model was shown after it had asked for the skill."""
    parts: list[Any] = []
    for body in asked.bodies:
        turns = body.get("messages") or body.get("input") or []
        first = next((n for n, turn in enumerate(turns) if is_call(turn)), len(turns))
        parts += turns[first:]
        parts += [turn for turn in turns if "Base directory for this skill" in json.dumps(turn)]
    return json.dumps(parts, ensure_ascii=False)


def is_call(turn: dict[str, Any]) -> bool:
    return turn.get("type") == "function_call" or (turn.get("role") == "assistant" and "tool_use" in json.dumps(turn))


def skills_path(host: str) -> str:
    return ".claude/skills" if host == "claude" else ".agents/skills"


def opened(host: str, home: Path, address: str) -> AgentBackend:
    """The backend of a host in an environment full of a person's own values, whose model answers at an address."""
    environ = {
        **dict.fromkeys(VARIABLES, CANARY),
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "NO_PROXY": "127.0.0.1",
    }
    if host == "claude":
        environ |= {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": CANARY}
        del environ["ANTHROPIC_AUTH_TOKEN"]
        return open_claude_code(f"claude-sonnet-4-5,binary={os.environ['CLAUDE']}", environ)
    environ |= {"CODEX_API_KEY": CANARY}
    return open_codex(f"gpt-5-codex,base_url={address}/v1,binary={os.environ['CODEX']}", environ)


def watch(figures: Count) -> None:
    """Count the checks in which a value of the person's reaches the host, or its server."""

    async def requested(asked: HostRequests, running: asyncio.Task[Any]) -> bool:
        found = await first_request(asked, running)
        await asyncio.wait([running])
        figures["environment_leaked"] += CANARY in json.dumps([asked.bodies, asked.headers])
        return found

    async def started(line: Line, *given: Any) -> Ended:
        if "made-up" in json.dumps(line.environ):
            figures["environment_leaked"] += CANARY in json.dumps([line.argv, line.environ])
        return await run(line, *given)

    agents.first_request = requested  # type: ignore[attr-defined]
    agents.run = started  # type: ignore[assignment, attr-defined]


async def measured(texts: list[tuple[str, str, bytes]], home: Path) -> Count:
    names = ("refused_before_a_call", "opened_wrong", "name_differs", "tokens_spent", "environment_leaked", "unchecked")
    figures = Count(texts=len(texts), **dict.fromkeys(names, 0))
    figures.wrong = []
    watch(figures)
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(host: str, name: str, text: bytes) -> None:
        async with slots:
            await measure(host, name, text, home, figures)

    await asyncio.gather(*(one(*each) for each in texts))
    return figures


def main() -> int:
    given = parser(__doc__, "every eighth shape").parse_args()
    hosts = [name for name, variable in (("claude", "CLAUDE"), ("codex", "CODEX")) if os.environ.get(variable)]
    chosen = [*shapes()][:: SHORT if given.short else 1]
    with tempfile.TemporaryDirectory(dir=Path.home()) as scratch:
        home = Path(scratch)
        for path in (".claude/.credentials.json", ".codex/auth.json"):
            (home / path).parent.mkdir()
            (home / path).write_text(json.dumps({"token": CANARY}))
        tempfile.tempdir = scratch  # with bubblewrap, Codex runs no command below /tmp
        figures = asyncio.run(measured([(host, *shape) for host in hosts for shape in chosen], home))
    for line in figures.wrong:
        print(line, file=sys.stderr)
    zeros = ("opened_wrong", "name_differs", "tokens_spent", "environment_leaked")
    show(figures, given.json, **dict.fromkeys(zeros, "0"))
    return int(not hosts or any(figures[name] for name in zeros))


if __name__ == "__main__":
    sys.exit(main())
