"""Claude Code: its command line, headless, with the skill where it looks for it and nothing else of the user's."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field

from skillopt_mcp.backends.agents.arrival import CHECK_S, HostRequests, compare_texts, find_texts, serve_host
from skillopt_mcp.backends.agents.backend import AgentBackend, Program, find_program
from skillopt_mcp.backends.agents.claude_events import read_claude
from skillopt_mcp.backends.agents.events import BASE, AgentEvents
from skillopt_mcp.backends.agents.places import (
    MADE_UP_KEY,
    FolderPaths,
    current_model,
    make_variables,
    pick_variables,
    private_place,
    secrets_of,
)
from skillopt_mcp.backends.api.prices import AgentOptions, parse_options
from skillopt_mcp.backends.api.prompts import prompt_of
from skillopt_mcp.backends.processes import Ended, Line, run
from skillopt_mcp.backends.registry import Resolved, backend
from skillopt_mcp.backends.resolved import describe_place, find_proxy, list_changed_options, resolve_program
from skillopt_mcp.core.calls import Arrival, Call, Rollout, Usage
from skillopt_mcp.core.errors import BackendError
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.documents.frontmatter import body_of, read
from skillopt_mcp.tasks.judges.kinds.text import Exact

TOOLS = "Skill+Read+Glob+Grep+Edit+Write"
RETRIES = 3
_INSTALL = "install Claude Code (npm install -g @anthropic-ai/claude-code)"
# In the working copy these need no permission beyond the mode; outside of it they are refused.
_OF_THE_MODE = frozenset({"Read", "Glob", "Grep", "Edit", "Write", "NotebookEdit"})
_INSTRUCTIONS = ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", ".claude/CLAUDE.md", ".claude/rules/**")
_CLOUDS = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_USE_MANTLE")
# With these set, another address than the vendor's own may answer.
_LEADS_ELSEWHERE = re.compile(
    "|".join([*_CLOUDS, r"ANTHROPIC_(?:\w+_)?BASE_URL", "ANTHROPIC_FOUNDRY_RESOURCE", r"AWS_ENDPOINT_URL\w*"])
)
HOME = "https://api.anthropic.com"
_PASSED = (
    r"HOME|ANTHROPIC_(?:API_KEY|AUTH_TOKEN|BASE_URL|CUSTOM_HEADERS|BETAS|MODEL)|CLAUDE_CODE_OAUTH_TOKEN"
    r"|CLAUDE_CODE_MAX_OUTPUT_TOKENS|CLAUDE_CODE_CLIENT_[A-Z_]+"
)
_PASSED_TO_CLOUDS = (
    r"|CLAUDE_CODE_USE_[A-Z]+|CLAUDE_CODE_SKIP_[A-Z]+_AUTH|AWS_[A-Z_]+|CLOUD_ML_REGION|VERTEX_REGION_[A-Z0-9_]+"
    r"|GOOGLE_[A-Z_]+|GCLOUD_PROJECT|CLOUDSDK_CONFIG|AZURE_[A-Z_]+|ANTHROPIC_[A-Z_]+"
)


class ClaudeOptions(AgentOptions):
    """The options of `claude-code:`; `tools` are joined by +, `sandbox` confines Bash where that is one of them."""

    provider: ClassVar[str] = "claude-code"
    unanswering: ClassVar[frozenset[str]] = frozenset({"timeout", "binary"})
    tools: str = Field(default=TOOLS, pattern=r"^[A-Z][A-Za-z]*(\+[A-Z][A-Za-z]*)*$")
    sandbox: bool = True
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    max_usd: float | None = Field(default=None, gt=0)
    among: Literal["my-skills"] | None = None


def read_listings(root: Path) -> dict[str, str]:
    """The person's own skills by the names of their folders: each as a SKILL.md of its name and description alone."""
    found = {}
    for path in sorted(root.glob("*/SKILL.md")):
        with suppress(OSError, UnicodeDecodeError):
            content = path.read_bytes()
            front, body = read(content), body_of(content.decode()).strip()
            # It loads an unquoted colon, too.
            plain = re.match(r"---\n(?:.*\n)*?description:[ \t]*(\S.*)\n", content.decode())
            description = (front and front.description) or (plain[1] if plain else body.partition("\n")[0])
            if not re.search(rb"^(?:disable-model-invocation:[ \t]*true|paths:)", content, re.MULTILINE):
                found[path.parent.name] = (
                    f"---\ndescription: {json.dumps(description, ensure_ascii=False)}\n---\n\nNot part of this test.\n"
                )
    return found


class ClaudeCode:
    """The host Claude Code at `path`."""

    skills_path = ".claude/skills"
    mark = "/"
    program = Program(
        "Claude Code",
        login="log in (run `claude`, then /login), or set ANTHROPIC_API_KEY in the environment; settings files are not "
        "read",
        settings="update Claude Code, install what it names, or change that option in the spec (sandbox=off lets Bash "
        "run unconfined)",
    )

    def __init__(self, path: str, options: ClaudeOptions, environ: Mapping[str, str]) -> None:
        self._path, self._options = path, options
        clouds = _PASSED_TO_CLOUDS if any(environ.get(name) for name in _CLOUDS) else ""
        self._passed = _PASSED + clouds
        self._environ = environ
        self._login = environ.get("CLAUDE_CONFIG_DIR", "")
        self._home = Path(self._login or Path(environ.get("HOME", "/")) / ".claude")
        self.listings = read_listings(self._home / "skills") if options.among else {}
        self.timeout = options.timeout
        # It looks at its bill between two turns: the last one may go above.
        self.max_usage = Usage(usd=options.max_usd) if options.max_usd else None

    def line(self, call: Call, place: FolderPaths, address: str = "") -> Line:
        """Return the command line for a call: a rollout has the tools and the working copy, a question has neither."""
        request = call.request
        common = [self._path, "-p", "--output-format", "stream-json", "--verbose"]
        common += ["--strict-mcp-config", "--no-session-persistence", "--settings", self._settings(place)]
        if self._options.model:
            common += ["--model", self._options.model]
        if self._options.effort:
            common += ["--effort", self._options.effort]
        if self._options.max_usd:
            common += ["--max-budget-usd", str(self._options.max_usd)]
        environ = self._variables(place, address)
        if isinstance(request, Rollout):
            for name, text in self.listings.items():
                folder = place.work / self.skills_path / name
                if not folder.exists():
                    folder.mkdir(parents=True)
                    (folder / "SKILL.md").write_text(text, "utf-8")
            tools = self._options.tools.split("+")
            sandboxed = {"Bash"} if self._options.sandbox else set()
            allowed = [tool for tool in tools if tool not in _OF_THE_MODE | sandboxed]
            common += ["--setting-sources", "project", "--permission-mode", "acceptEdits", "--tools", ",".join(tools)]
            common += ["--allowedTools", ",".join(allowed)] if allowed else []
            return Line(common, environ, request.task.prompt)
        prompt = prompt_of(call)
        # As an argument it could be too long, and stand in the list of processes.
        system_path = place.folder / "system.md"
        system_path.write_text(prompt.system, "utf-8")
        asked = ["--setting-sources", "", "--tools", "", "--disable-slash-commands"]
        asked += ["--system-prompt-file", str(system_path)]
        return Line(common + asked, {**environ, "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1"}, prompt.user)

    def record(self, place: FolderPaths) -> str:
        return ""

    def read(self, ended: Ended) -> AgentEvents:
        return read_claude(ended.output)

    def secrets(self) -> Mapping[str, str]:
        return secrets_of(self._environ, [self._home / ".credentials.json"])

    def _settings(self, place: FolderPaths) -> str:
        above = [*place.work.parents, *Path(os.path.realpath(place.work)).parents]
        settings: dict[str, object] = {
            "disableAllHooks": True,
            "disableBundledSkills": True,
            "claudeMdExcludes": [str(folder / name) for folder in dict.fromkeys(above) for name in _INSTRUCTIONS],
        }
        if not self._options.model and (current := current_model(self._home / "settings.json", json.loads)):
            settings["model"] = current
        if self._options.sandbox and "Bash" in self._options.tools.split("+"):
            settings["sandbox"] = {
                "enabled": True,
                "autoAllowBashIfSandboxed": True,
                "allowUnsandboxedCommands": False,
                "failIfUnavailable": True,
            }
        return json.dumps(settings)

    def arrival(self, ended: Ended, asked: HostRequests, folder: str, text: str) -> Arrival:
        # Requests of the Messages API hold the skill's text, or why there is none.
        for body in asked.bodies:
            for shown in find_texts(body.get("messages")):
                base, _, arrived = shown.partition("\n")
                if base.startswith(BASE) and base.rstrip("/").endswith(f"/{folder}"):
                    found, sent = compare_texts(text, arrived), (find_texts([b.get("messages")]) for b in asked.bodies)
                    lines = re.findall(rf"^- {re.escape(folder)}(?![\w-])[^\n]*", "\n".join(chain(*sent)), re.MULTILINE)
                    if not self.listings or any(": " in line for line in lines):
                        return found
                    how = "listed without its description" if lines else "not listed"
                    n_skills = len(self.listings.keys() | {folder})
                    rest = f"; {found.words}" if found.words else ""
                    return found._replace(words=f"of your {n_skills} skills this one is {how}{rest}")
        errors = [
            " ".join(find_texts([block.get("content")]))
            for body in asked.bodies
            for message in body.get("messages") or ()
            for block in (message["content"] if isinstance(message.get("content"), list) else ())
            if block.get("type") == "tool_result" and block.get("is_error")
        ]
        if errors:
            return Arrival("refused", errors[0])
        if (events := self.read(ended)).by_itself:
            return Arrival("refused", events.answer or events.reason or "it answered by itself, and gave no reason")
        return Arrival("unchecked", "the host has no tool Skill to open it by")

    def _variables(self, place: FolderPaths, address: str) -> dict[str, str]:
        """The variables of a call; with the `address` of a server of ours, none of the person's but the model."""
        if address:
            own = {**make_variables(self._path, place), "ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": MADE_UP_KEY}
            if not self._options.model and (model := self._environ.get("ANTHROPIC_MODEL")):
                own["ANTHROPIC_MODEL"] = model
        else:
            # The user's login stays where it is, to be read and renewed there; empty means the default place.
            own = {**pick_variables(self._environ, self._passed, place), "CLAUDE_SECURESTORAGE_CONFIG_DIR": self._login}
        return {
            **own,
            "CLAUDE_CONFIG_DIR": str(place.home),
            "CLAUDE_CODE_TMPDIR": str(place.tmp),
            "CLAUDE_CODE_MAX_RETRIES": str(0 if address else RETRIES),
            "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
        }


def resolve_claude_code(text: str, environ: Mapping[str, str]) -> Resolved:
    """What a spec leads to; the address is all that names another than the vendor's, a cloud among it."""
    options = parse_options(text, ClaudeOptions)
    program = resolve_program(options.binary, "claude", environ)
    tools = list_changed_options(options, "tools", "sandbox")
    elsewhere = {name: at for name, at in sorted(environ.items()) if at and _LEADS_ELSEWHERE.fullmatch(name)}
    if elsewhere.get("ANTHROPIC_BASE_URL", "").rstrip("/") == HOME:
        del elsewhere["ANTHROPIC_BASE_URL"]
    address = ",".join(f"{name}={at.rpartition('@')[2]}" for name, at in elsewhere.items())
    proxy = find_proxy(HOME, environ)
    parts = {**program.parts, "address": address, "proxy": proxy, "model": options.model, "tools": tools}
    return Resolved(parts, program.is_usual and not (address or proxy or tools), program.is_sole)


@backend(
    "claude-code",
    spec="claude-code or claude-code:MODEL",
    answers="the real Claude Code, headless",
    needs="its login, or `ANTHROPIC_API_KEY`",
    has_options=True,
    resolve=resolve_claude_code,
)
def open_claude_code(text: str, environ: Mapping[str, str] = os.environ) -> AgentBackend:
    """Return the backend of "MODEL,name=value,..."; MODEL may be absent. Raises BackendError if it cannot be used."""
    options = parse_options(text, ClaudeOptions)
    path, version = find_program(options.binary, "claude", _INSTALL)
    cloud = next((name.removeprefix("CLAUDE_CODE_USE_").lower() for name in _CLOUDS if environ.get(name)), None)
    place = cloud or urlsplit(environ.get("ANTHROPIC_BASE_URL") or HOME).netloc.rpartition("@")[2]
    where = describe_place(place, resolve_claude_code(text, environ))
    host = ClaudeCode(path, options, environ)
    fingerprint = f"{options.identity()},{where},version={version}"
    if host.listings:
        fingerprint += f",skills={hashlib.sha256(json.dumps(host.listings).encode()).hexdigest()[:16]}"
    return AgentBackend(host, options.spell(), fingerprint)


def list_commands() -> frozenset[str]:
    """The commands of Claude Code's own prompts, as it lists them here; none where it is not installed."""
    try:
        path, _ = find_program(None, "claude", _INSTALL)
    except BackendError:
        return frozenset()

    async def listed() -> frozenset[str]:
        host, task = ClaudeCode(path, ClaudeOptions(), {}), Task(0, 0, "t", "x", Exact(expected="x"), "train", "t")
        call = Call("target", "rollout", Rollout(SkillFiles(()), task), "")
        with private_place() as place, serve_host("", "", host.skills_path) as (address, _):
            return frozenset(host.read(await run(host.line(call, place, address), place, CHECK_S)).commands)

    # A thread of its own: the caller's may have an event loop already.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, listed()).result()
