"""Hosts: where each host keeps its servers, hooks and skills, and what it tells a server of the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skillopt_mcp.errors import BadInput

Scope = Literal["user", "project"]
Form = Literal["json", "jsonc", "toml"]
HOSTS = ("claude-code", "claude-desktop", "codex", "cursor", "vscode")
HOOKED = ("claude-code", "codex")
PERSONAL = "settings.local.json"

# What a program is told that was started from a desktop, or by a host that clears the environment.
_CLEAN = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "USERNAME")
_WINDOWS = ("APPDATA", "LOCALAPPDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERPROFILE")
_DESKTOP_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a host is looked for: the user's home, the project, the environment, and `sys.platform`."""

    home: Path
    project: Path
    environ: Mapping[str, str]
    platform: str


@dataclass(frozen=True, slots=True)
class Places:
    """The files of one host in one scope: `servers_path` leads to the table of servers in `config`."""

    config: Path
    form: Form
    servers_path: tuple[str, ...]
    hooks: Path | None = None
    skills: Path | None = None
    agents: Path | None = None


def surroundings() -> Surroundings:
    """Return where this process looks for hosts."""
    return Surroundings(Path(os.path.expanduser("~")), Path.cwd(), os.environ, sys.platform)


def places(host: str, scope: Scope, around: Surroundings) -> Places:
    """Return the files of a host. Raises BadInput where the host has none in this scope."""
    root = around.project if scope == "project" else None
    if host == "claude-code":
        return _claude_code(root, around)
    if host == "codex":
        folder = root / ".codex" if root else Path(around.environ.get("CODEX_HOME") or around.home / ".codex")
        skills = (root or around.home) / ".agents/skills"
        return Places(folder / "config.toml", "toml", ("mcp_servers",), folder / "hooks.json", skills=skills)
    if host == "cursor":
        folder = (root or around.home) / ".cursor"
        return Places(folder / "mcp.json", "jsonc", ("mcpServers",), skills=folder / "skills")
    if host == "vscode":
        folder = root / ".vscode" if root else _application(around, "Code/User")
        return Places(folder / "mcp.json", "jsonc", ("servers",), skills=(root or around.home) / ".agents/skills")
    if root:
        raise BadInput("Claude Desktop knows no projects: leave out --project")
    return Places(_application(around, "Claude") / "claude_desktop_config.json", "json", ("mcpServers",))


def host_environment(host: str, around: Surroundings) -> dict[str, str]:
    """Return the environment that this host starts a server in."""
    if host == "claude-code":
        return dict(around.environ)
    told = {name: value for name, value in around.environ.items() if name in (*_CLEAN, *_WINDOWS)}
    if host != "codex" and around.platform != "win32":
        # Started from a desktop, a host has not read what a shell reads.
        told["PATH"] = _DESKTOP_PATH
    return told


def _claude_code(root: Path | None, around: Surroundings) -> Places:
    moved = around.environ.get("CLAUDE_CONFIG_DIR")
    folder = root / ".claude" if root else Path(moved or around.home / ".claude")
    if root:
        # The hooks name a program of this machine: they belong in the settings that nobody else is given.
        config, hooks = root / ".mcp.json", folder / PERSONAL
    else:
        config, hooks = (Path(moved) if moved else around.home) / ".claude.json", folder / "settings.json"
    return Places(config, "json", ("mcpServers",), hooks, folder / "skills", folder / "agents")


def _application(around: Surroundings, name: str) -> Path:
    """Return the folder in which a desktop program keeps its settings."""
    if around.platform == "darwin":
        return around.home / "Library/Application Support" / name
    if around.platform == "win32":
        return Path(around.environ.get("APPDATA") or around.home / "AppData/Roaming") / name
    return Path(around.environ.get("XDG_CONFIG_HOME") or around.home / ".config") / name
