"""Permitting: what only a person may set: which folders may be written, and which skills without asking each time."""

from __future__ import annotations

import os
from pathlib import Path

from skillopt_mcp.documents.alignment import changes
from skillopt_mcp.documents.characters import escaped, quoted
from skillopt_mcp.documents.frontmatter import block_end
from skillopt_mcp.documents.lines import is_text
from skillopt_mcp.errors import BadInput
from skillopt_mcp.operations.changes.code import code_touched
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.skills import Skill, SkillFiles, is_memory

SMALL_LINES = 60
SMALL_BYTES = 6_000
SHOWN_CODE = 60
LOGIN_CHARACTERS = 200
PERSON = "a person at a terminal"


def add_root(workspace: Workspace, path: str) -> Path:
    """Register a folder whose skills may be promoted, or one memory file; return it with links resolved.

    Raises BadInput.
    """
    given = Path(os.path.expanduser(known(path)))
    root = Path(os.path.realpath(given))
    if not root.is_dir() and not (is_memory(str(root)) and root.is_file()):
        raise BadInput(f"'{given}' is not a folder: name the folder that holds the skill folders, or a memory file")
    if root in (Path(root.anchor), Path(os.path.realpath(os.path.expanduser("~")))):
        raise BadInput(f"'{root}' is too wide for a skill root: name the folder that holds the skill folders")
    if (root / "SKILL.md").exists():
        raise BadInput(f"'{root}' is a skill itself: name the folder that holds it, '{root.parent}'")
    workspace.store.permissions.add_root(str(root))
    return root


def permit(
    workspace: Workspace, skill: str, *, simulated: bool, host_run: bool = False, given_by: str = PERSON
) -> Skill:
    """Keep a standing permission to promote a skill's accepted candidates.

    With `simulated` it covers a simulation, too; with `host_run` what a host's own agents judged, or attempted in a
    session that had seen the tasks.
    """
    tracked, by = workspace.skill(skill), signed(given_by, workspace.login)
    workspace.store.permissions.grant(tracked.id, by, simulated=simulated, host_run=host_run)
    return tracked


def revoke(workspace: Workspace, skill: str) -> Skill:
    """Take a standing permission back."""
    tracked = workspace.recorded(skill)
    workspace.store.permissions.revoke(tracked.id)
    return tracked


def signed(agreed: str, login: str) -> str:
    """Return who agreed in the words that are kept, with the name that they are logged in by where it is known."""
    return f"{agreed} ({escaped(login)[:LOGIN_CHARACTERS]})" if login else agreed


def beyond_small_edit(base: SkillFiles, new: SkillFiles) -> str:
    """Return why a standing permission does not cover a change, or an empty string when it does.

    It covers a small edit of the words of the main document's body, and nothing that a host reads as configuration or
    that an agent may run.
    """
    paths = {file.path for file in (*base.files, *new.files) if base.get(file.path) != new.get(file.path)}
    if paths - {base.main_path}:
        return f"it changes other files than {base.main_path}, which a standing permission does not cover"
    was, now = base.get(base.main_path), new.get(base.main_path)
    if was is None or now is None or was.executable != now.executable or not is_text(now.content):
        return f"it changes more of {base.main_path} than its text, which a standing permission does not cover"
    fronts = [content[: block_end(content) or 0] for content in (was.content, now.content)]
    if fronts[0] != fronts[1]:
        return "it changes the front matter, which a standing permission does not cover"
    old, fresh = was.content.splitlines(), now.content.splitlines()
    touched = [line for a, b, c, d in changes(old, fresh) for line in (*old[a:b], *fresh[c:d])]
    if len(touched) > SMALL_LINES or sum(map(len, touched)) > SMALL_BYTES:
        return (
            f"it changes {len(touched)} lines, and a standing permission covers {SMALL_LINES} lines of "
            f"{SMALL_BYTES:,} bytes in all"
        )
    if (line := code_touched(was.content, now.content)) is not None:
        shown = quoted(line.decode().strip(), SHOWN_CODE) if line.strip() else "an empty line of a block"
        return f"it touches code or a command ({shown}), and a standing permission covers words alone"
    return ""
