"""Hosts: the programs that install knows, where their files are, and how they start a server."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from skillopt_mcp.core.errors import BadInput

Scope = Literal["user", "project"]
Form = Literal["json", "toml", "command", "by hand"]
PERSONAL = "settings.local.json"
# What a server gets from a desktop program, or from a host that clears the environment.
_CLEAN = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "USERNAME")
_WINDOWS = ("APPDATA", "LOCALAPPDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERPROFILE")
_DESKTOP_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True)
class Files:
    """Paths of a host's files, in which {home}, {project} and the like are filled in; "" where it has none."""

    config: str
    hooks: str = ""
    skills: str = ""
    agents: str = ""


@dataclass(frozen=True, slots=True)
class Host:
    """One host: `servers` is the table of servers in its config, `entry` what our entry has besides the command.

    The config is JSON or TOML that we write, or JSON that the host's own command changes, or a person by hand.
    """

    form: Form
    servers: str
    user: Files
    project: Files | None
    restart: str
    program: str = ""
    entry: Mapping[str, object] = field(default_factory=dict)
    environment: Literal["all", "shell", "desktop"] = "desktop"
    session_end_s: int = 30
    has_rules: bool = False


_APPROVED = {"approval_mode": "approve"}
# What a server that runs Codex itself needs of a person's environment: where the login lies, and the way out.
_PASSED = ("CODEX_HOME", "CODEX_API_KEY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE")
HOSTS: Mapping[str, Host] = {
    "claude-code": Host(
        "command",
        "mcpServers",
        Files("{claude_home}/.claude.json", "{claude}/settings.json", "{claude}/skills", "{claude}/agents"),
        # The hooks name a program of this machine: they belong in the settings that are not shared.
        Files(
            "{project}/.mcp.json", f"{{project}}/.claude/{PERSONAL}", "{project}/.claude/skills",
            "{project}/.claude/agents",
        ),
        "Start a new session of Claude Code: /mcp shows the server.",
        program="claude",
        entry={"type": "stdio"},
        environment="all",
        has_rules=True,
    ),
    "claude-desktop": Host(
        "json",
        "mcpServers",
        Files("{application}/Claude/claude_desktop_config.json"),
        None,
        "Quit Claude Desktop and start it again.",
    ),
    "codex": Host(
        "toml",
        "mcp_servers",
        Files("{codex}/config.toml", "{codex}/hooks.json", "{home}/.agents/skills"),
        Files("{project}/.codex/config.toml", "{project}/.codex/hooks.json", "{project}/.agents/skills"),
        "Start a new session of Codex: /mcp shows the server.",
        program="codex",
        # Without `required` a first turn may begin without the server; whether these two tools may write is decided by
        # the verdict and by the person's permission, not by the host's dialog.
        entry={
            "required": True, "env_vars": [*_PASSED],
            "tools": {"promote_skill": _APPROVED, "rollback_skill": _APPROVED},
        },
        environment="shell",
        # Codex gives the end of a session no more, and warns at each start when more is asked for.
        session_end_s=3,
    ),
    "cursor": Host(
        "json",
        "mcpServers",
        Files("{home}/.cursor/mcp.json", skills="{home}/.cursor/skills"),
        Files("{project}/.cursor/mcp.json", skills="{project}/.cursor/skills"),
        "Switch the server on in Cursor's settings, under MCP.",
    ),
    "vscode": Host(
        "by hand",
        "servers",
        Files("{application}/Code/User/mcp.json", skills="{home}/.agents/skills"),
        Files("{project}/.vscode/mcp.json", skills="{project}/.agents/skills"),
        "Open the file in VS Code and press Start above the server.",
        entry={"type": "stdio"},
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a host is looked for: the user's home, the project, the environment, and `sys.platform`."""

    home: Path
    project: Path
    environ: Mapping[str, str]
    platform: str

    def fill(self, path: str) -> Path | None:
        """Return the path of a file of a host, None where the host has none."""
        moved = self.environ.get("CLAUDE_CONFIG_DIR")
        # Where desktop programs keep their settings.
        application = Path(self.environ.get("XDG_CONFIG_HOME") or self.home / ".config")
        if self.platform == "darwin":
            application = self.home / "Library/Application Support"
        elif self.platform == "win32":
            application = Path(self.environ.get("APPDATA") or self.home / "AppData/Roaming")
        return (path and Path(path.format(
            home=self.home, project=self.project, application=application, claude_home=moved or self.home,
            claude=moved or self.home / ".claude", codex=self.environ.get("CODEX_HOME") or self.home / ".codex",
        ))) or None  # fmt: skip


@dataclass(frozen=True, slots=True)
class Places:
    """The files of one host in one scope."""

    host: Host
    config: Path
    hooks: Path | None = None
    skills: Path | None = None
    agents: Path | None = None


def surroundings() -> Surroundings:
    """Return where this process looks for hosts."""
    return Surroundings(Path(os.path.expanduser("~")), Path.cwd(), os.environ, sys.platform)


def places(name: str, scope: Scope, around: Surroundings) -> Places:
    """Return the files of a host. Raises BadInput where the host has none in this scope."""
    host = HOSTS[name]
    files = host.project if scope == "project" else host.user
    config = around.fill(files.config) if files else None
    if files is None or config is None:
        raise BadInput(f"{name} has no project configuration; leave out --project")
    return Places(host, config, around.fill(files.hooks), around.fill(files.skills), around.fill(files.agents))


def host_environment(name: str, around: Surroundings) -> dict[str, str]:
    """Return the environment that this host starts a server in."""
    kind = HOSTS[name].environment
    if kind == "all":
        return dict(around.environ)
    passed = (*_CLEAN, *_WINDOWS, *(_PASSED if kind == "shell" else ()))
    kept = {key: value for key, value in around.environ.items() if key in passed}
    # Started from a desktop, a host has not read what a shell reads.
    return kept | ({"PATH": _DESKTOP_PATH} if kind == "desktop" and around.platform != "win32" else {})
