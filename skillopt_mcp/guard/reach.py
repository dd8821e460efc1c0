"""Reach: what in a text leads out of the skill and the project: hosts, places of the machine, data that is encoded."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import re2

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.guard.found import Found

_HOST = re2.compile(
    r"""(?i)\b(?:https?|ftps?|wss?|ssh|git|file|data|javascript|vscode)://?(?:[^\s/?#@"'<>]*@)?([^\s/?#"'<>`|)\]},;]+)"""
    r"""|\b(?:www\.)([a-z0-9-]+(?:\.[a-z0-9-]+)+)"""
    r"""|\bgit@([a-z0-9.-]+):"""
    r"""|(?:^|[\s(<"'`])([a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|net|org|io|dev|sh|xyz|ru|cn|top|site|online|app|me|cc|info|example|test))/[\w?]"""
    r"""|\b([\w.+-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)+)\b"""
    r"""|\b((?:\d{1,3}\.){3}\d{1,3}(?::\d+|/\S))"""
)
_DATA_LINK = re2.compile(r"(?i)\b(?:data:[a-z]+/[a-z0-9.+-]+[;,]|javascript:)")
_PLACE = re2.compile(
    r"(?:~|\$HOME|\$\{HOME\}|%USERPROFILE%)[/\\][^\s`\"')]*"
    r"|(?:^|[\s`\"'(=:])/(?:etc|root|home|Users|proc|var/(?:log|run|spool)|dev/(?:mem|sd)|Library)\b[^\s`\"')]*"
    r"|(?:\.\./){2,}[^\s`\"')]*"
    r"|(?:^|[\s`\"'(/])\.(?:ssh|aws|gnupg|kube|docker|netrc|npmrc|pypirc|git-credentials|bashrc|zshrc|profile|bash_profile)\b"
    r"[^\s`\"')]*"
    r"|\b(?:id_rsa|id_ed25519|authorized_keys|known_hosts|credentials\.json|\.env(?:\.\w+)?)\b"
    r"|(?:^|[\s`\"'(/])\.env\b"
    r"|(?:^|[\s`\"'(/])\.(?:(?:claude|codex|agents|cursor|vscode)/|git/(?:hooks|config|info|modules|worktrees)\b)[^\s`\"')]*"
    r"|\b[A-Za-z]:\\[^\s`\"')]*|(?:^|[\s`\"'(=])[A-Za-z]:/[^\s`\"')]+"
    r"|(?:^|[\s`\"'(=:])\\\\[\w.?$-]+\\[^\s`\"')]+"
    r"|\b(?:CLAUDE|AGENTS)\.md\b"
    r"|\bsettings(?:\.local)?\.json\b|\bmcp\.json\b|\.mcp\.json\b"
)
_VARIABLE = re2.compile(
    r"\$\{?[A-Z][A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)[A-Z0-9_]*\}?"
    r"|\b(?:printenv\b|env\s*\|)[^\n]{0,60}"
    r"|\b[A-Z][A-Z0-9_]*_(?:API_KEY|TOKEN|SECRET|PASSWORD|ACCESS_KEY)\b"
)
_BASE64 = re2.compile(r"[A-Za-z0-9+/_-]{200,}|(?:[A-Za-z0-9+/]{60,}\s*\n[ \t]*){3,}(?:[A-Za-z0-9+/]{20,}={0,2})?")
_SHORT_BASE64 = re2.compile(r"\b[A-Za-z0-9+/]{24,199}={0,2}")
_ENCODED_AT_LEAST = 200
_FEWEST_KINDS = 10


def hosts(text: str) -> Iterator[Found]:
    """Yield every host, and every address of mail, that a text links to, once each: twice is no more than once."""
    seen = set[str]()
    for found in _HOST.finditer(text):
        host = next(group for group in found.groups() if group).casefold().rstrip(".:")
        if host not in seen:
            seen.add(host)
            yield Found(found.end(), host, f"a link to the host {quoted(host)}")
    for found in _DATA_LINK.finditer(text):
        yield Found(found.start(), found.group(), f"a link that holds its own content, {quoted(found.group())}")


def places(text: str) -> Iterator[Found]:
    """Yield places of the machine outside of a project, and files that hold keys or settings of a host."""
    for found in _PLACE.finditer(text):
        written = found.group().lstrip(" \t\n`\"'(=:")
        name = written.rstrip(".,;")
        yield Found(found.end() - len(written), name, f"a place outside of the project, {quoted(name)}")


def variables(text: str) -> Iterator[Found]:
    """Yield variables of the environment that hold secrets by their name, and commands that show the environment."""
    for found in _VARIABLE.finditer(text):
        name = found.group().strip()
        yield Found(found.start(), name, f"a variable that holds a secret, {quoted(name)}")


def encoded(text: str) -> Iterator[Found]:
    """Yield runs of characters that look like encoded data: long ones, and shorter ones that read as text decoded."""
    for found in _BASE64.finditer(text):
        run = "".join(found.group().split())
        if len(run) >= _ENCODED_AT_LEAST and len(set(run)) >= _FEWEST_KINDS:
            yield Found(found.start(), run, f"{len(run)} characters that look like encoded data")
    for found in _SHORT_BASE64.finditer(text):
        if said := _said(found.group()):
            yield Found(found.start(), found.group(), f"encoded text that says {quoted(said)}")


def _said(run: str) -> str:
    """Return what a run says when it is base64 of plain words, else nothing: an identifier or a path says nothing."""
    try:
        plain = base64.b64decode(run + "=" * (-len(run) % 4), validate=True)
    except ValueError:
        return ""
    return plain.decode() if b" " in plain and plain.isascii() and plain.decode().isprintable() else ""
