"""Codex: its command line, headless, with the skill where it looks for it and nothing else of the user's."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from skillopt_mcp.backends.agents.arrival import HostRequests, compare_texts, find_texts, is_listed
from skillopt_mcp.backends.agents.backend import NOT_LOADED, AgentBackend, Program, find_program
from skillopt_mcp.backends.agents.codex_events import read_codex
from skillopt_mcp.backends.agents.events import AgentEvents
from skillopt_mcp.backends.agents.places import (
    MADE_UP_KEY,
    FolderPaths,
    current_model,
    make_variables,
    pick_variables,
    secrets_of,
)
from skillopt_mcp.backends.api.faults import find_endpoint
from skillopt_mcp.backends.api.prices import AgentOptions, ApiOptions, parse_options
from skillopt_mcp.backends.api.prompts import prompt_of, strict_schema
from skillopt_mcp.backends.processes import Ended, Line, text_of
from skillopt_mcp.backends.registry import Resolved, backend
from skillopt_mcp.backends.resolved import describe_place, list_changed_options, resolve_api, resolve_program
from skillopt_mcp.core.calls import Arrival, Call, Rollout, Usage

KEY = "CODEX_API_KEY"
RETRIES = 3
HOME = "openai"
_TOOLS = ("sandbox", "network", "web_search")
_INSTALL = "install Codex (npm install -g @openai/codex)"
_PROVIDER = "own"
# What is the user's, or reaches beyond the working copy.
_OFF_AT_WORK = (
    "apps", "browser_use", "computer_use", "goals", "hooks", "image_generation", "in_app_browser", "memories",
    "plugins", "remote_plugin", "tool_suggest", "unbounded_connection_retries",
)  # fmt: skip
_OFF_AT_QUESTIONS = (*_OFF_AT_WORK, "shell_tool", "skill_search", "unified_exec", "view_image")


class CodexOptions(AgentOptions, ApiOptions):
    """The options of `codex:`; `sandbox` is the program's own word for what its commands may do."""

    provider: ClassVar[str] = "codex"
    unanswering: ClassVar[frozenset[str]] = ApiOptions.unanswering | {"binary"}
    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] = "workspace-write"
    network: bool = False
    web_search: bool = False
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None


class Codex:
    """The host Codex at `path`; `key` is the environment variable that its key is in, None for the user's login."""

    skills_path = ".agents/skills"
    mark = ""
    # It has no option that would end a call at some number of tokens, or some price.
    max_usage: Usage | None = None
    program = Program(
        "Codex",
        login="log in by `codex login` (a login in the keyring cannot be reached, one in auth.json can), or set "
        "CODEX_API_KEY in the environment",
        settings="update Codex, or change that option in the spec",
    )

    def __init__(self, path: str, options: CodexOptions, environ: Mapping[str, str]) -> None:
        self._path, self._options, self._environ = path, options, environ
        self._login = Path(environ.get("CODEX_HOME") or Path(environ.get("HOME", "/")) / ".codex") / "auth.json"
        names = [options.key_env] if options.key_env else [KEY, "OPENAI_API_KEY"]
        self._key = next((environ[name] for name in names if environ.get(name)), None)
        self.timeout = options.timeout

    def line(self, call: Call, place: FolderPaths, address: str = "") -> Line:
        """Return the command line for a call. Raises BackendFault (auth) when there is neither key nor login."""
        request = call.request
        home = place.home / ".codex"
        home.mkdir()
        own = make_variables(self._path, place) if address else pick_variables(self._environ, "", place)
        environ = {**own, "HOME": str(place.home), "CODEX_HOME": str(home)}
        if address:
            environ[KEY] = MADE_UP_KEY
        elif self._key and (self._options.key_env or self._options.base_url or not self._login.is_file()):
            environ[KEY] = self._key
        elif self._login.is_file():
            # A link, so that a login which is renewed is renewed for the user too.
            (home / "auth.json").symlink_to(self._login)
        elif not self._options.base_url:
            raise self.program.fault("auth", "there is no login and no key")
        at_work = isinstance(request, Rollout)
        (home / "config.toml").write_text(self._config(at_work=at_work, address=address), "utf-8")
        line = [self._path, "exec", "--json", "--skip-git-repo-check"]
        if isinstance(request, Rollout):
            return Line(line, environ, request.task.prompt)
        prompt = prompt_of(call)
        if prompt.reply and self._options.structured:
            schema = place.folder / "schema.json"
            schema.write_text(json.dumps(strict_schema(prompt.reply)), "utf-8")
            line += ["--output-schema", str(schema)]
        return Line(line, environ, f"{prompt.system}\n\n{prompt.user}")

    def record(self, place: FolderPaths) -> str:
        # Those of subagents come later.
        kept = sorted(place.home.glob(".codex/sessions/**/rollout-*.jsonl"))
        return text_of(kept[0]) if kept else ""

    def read(self, ended: Ended) -> AgentEvents:
        return read_codex(ended.output, ended.record)

    def secrets(self) -> Mapping[str, str]:
        return secrets_of(self._environ, [self._login])

    def arrival(self, ended: Ended, asked: HostRequests, folder: str, text: str) -> Arrival:
        # Requests of the Responses API list the skill; its file comes as the output of commands.
        failed = NOT_LOADED.search(ended.errors)
        if failed or not any(is_listed(body, folder) for body in asked.bodies):
            return Arrival("refused", failed[0] if failed else "the skill is not listed")
        outputs = [item for item in asked.bodies[-1].get("input") or () if item.get("type") == "function_call_output"]
        if not outputs:
            return Arrival("unchecked", "the host has no shell to read it by")
        shown = ["".join(find_texts([item.get("output")])) for item in outputs]
        return compare_texts(text, "".join(part.partition("Output:\n")[2] or part for part in shown))

    def _config(self, *, at_work: bool, address: str = "") -> str:
        options = self._options
        base_url = f"{address}/v1" if address else options.base_url
        sandbox = options.sandbox if at_work else "read-only"
        model = options.model or current_model(self._login.with_name("config.toml"), tomllib.loads)
        rows = [f"model = {_toml(model)}"] if model else []
        rows += ['approval_policy = "never"', f"sandbox_mode = {_toml(sandbox)}"]
        rows += [f"web_search = {_toml('live' if options.web_search and at_work else 'disabled')}"]
        rows += ["check_for_update_on_startup = false"]
        if options.effort:
            rows.append(f"model_reasoning_effort = {_toml(options.effort)}")
        if base_url:
            rows.append(f"model_provider = {_toml(_PROVIDER)}")
        # Nothing but the working copy and the private TMPDIR may be written; commands see no key.
        rows += ["[sandbox_workspace_write]", "exclude_slash_tmp = true", f"network_access = {_toml(options.network)}"]
        rows += ["[shell_environment_policy]", 'inherit = "core"', f'exclude = ["{KEY}"]']
        rows += ["[analytics]", "enabled = false", "[skills.bundled]", "enabled = false", "[features]"]
        rows += [f"{name} = false" for name in (_OFF_AT_WORK if at_work else _OFF_AT_QUESTIONS)]
        if not at_work:
            rows += ["[agents]", "enabled = false"]
        if base_url:
            rows += [f"[model_providers.{_PROVIDER}]", f"name = {_toml(_PROVIDER)}", 'wire_api = "responses"']
            rows += [f"base_url = {_toml(base_url)}", *([f'env_key = "{KEY}"'] if self._key or address else [])]
            rows += [f"request_max_retries = {RETRIES}", f"stream_max_retries = {RETRIES}"]
        return "\n".join(rows) + "\n"


def resolve_codex(text: str, environ: Mapping[str, str]) -> Resolved:
    """What a spec leads to."""
    options = parse_options(text, CodexOptions)
    program, tools = resolve_program(options.binary, "codex", environ), list_changed_options(options, *_TOOLS)
    api = resolve_api(options, options.base_url or HOME, HOME, environ)
    parts = {**program.parts, **api.parts, "tools": tools}
    return Resolved(parts, program.is_usual and api.is_usual and not tools, program.is_sole)


@backend(
    "codex",
    spec="codex or codex:MODEL",
    answers="the real Codex, headless",
    needs="its login (in `auth.json`), `CODEX_API_KEY` or `OPENAI_API_KEY`",
    has_options=True,
    resolve=resolve_codex,
)
def open_codex(text: str, environ: Mapping[str, str] = os.environ) -> AgentBackend:
    """Return the backend of "MODEL,name=value,..."; MODEL may be absent. Raises BackendError if it cannot be used."""
    options = parse_options(text, CodexOptions)
    path, version = find_program(options.binary, "codex", _INSTALL)
    place = HOME
    if options.base_url:
        place = find_endpoint(options, options.base_url, (KEY, "OPENAI_API_KEY"), environ).place
    where = describe_place(place, resolve_codex(text, environ))
    fingerprint = f"{options.identity()},{where},version={version}"
    return AgentBackend(Codex(path, options, environ), options.spell(), fingerprint)


def _toml(value: str | bool) -> str:
    return json.dumps(value, ensure_ascii=False)
