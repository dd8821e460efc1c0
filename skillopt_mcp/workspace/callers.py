"""Callers: a person, an agent, or neither; one rule for the command line, the MCP server and Python.

A fence, not a wall: a program that can run any command can also create a terminal and clear a variable.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Literal, TextIO

# `agent`: a mark of an agent, or the MCP server. `person`: a terminal on standard input, and no mark. `unattended`: the
# rest, such as CI, cron, a notebook or a pipe.
Caller = Literal["person", "agent", "unattended"]
# What hosts set in the shells of their models; the value does not count, and an empty one is a mark as well.
MARKS = (
    "AI_AGENT", "AGENT", "CLAUDECODE", "CLAUDE_CODE", "COPILOT_AGENT", "CURSOR_AGENT", "GEMINI_CLI", "OPENCODE",
    "GOOSE_TERMINAL", "AUGMENT_AGENT", "AMP_CURRENT_THREAD_ID", "ANTIGRAVITY_AGENT",
)  # fmt: skip
# Codex has no single mark: it sets CODEX_CI, CODEX_THREAD_ID, CODEX_SANDBOX and more. What people export to configure
# it is no mark.
_CODEX = re.compile(
    r"CODEX_(?!(?:\w+_)?(?:HOME|KEY|TOKEN|URL|URI|HOST|PORT|PATH|DIR|CERTIFICATE|CERT|MODEL|PROFILE|PROVIDER|BIN|BINARY"
    r"|LOG|LEVEL|DEBUG|TIMEOUT|CONFIG|RELEASE|NON_INTERACTIVE|ENHANCEMENT|ENDINGS)$)\w+"
)
_EDITORS = {"TERM_PROGRAM": ("vscode", "zed"), "TERMINAL_EMULATOR": ("JetBrains-JediTerm",)}


def find_mark(environ: Mapping[str, str] = os.environ) -> str:
    """The variable by which a host marks the shell of its model, "" in a person's."""
    found = (name for name in MARKS if name in environ)
    return next(found, "") or next((name for name in sorted(environ) if _CODEX.fullmatch(name)), "")


def find_caller(environ: Mapping[str, str] = os.environ) -> Caller:
    """Who runs this process, by its environment and its standard input."""
    if find_mark(environ):
        return "agent"
    return "person" if is_terminal(sys.stdin) else "unattended"


def find_editor(environ: Mapping[str, str] = os.environ) -> str:
    """The variable, as NAME=value, that an editor sets in its terminals, which its agents may type into; "" outside."""
    return next((f"{k}={v}" for k, values in _EDITORS.items() if (v := environ.get(k)) in values), "")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is open, and a terminal."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False
