"""Working copy: the task's files and the skill, laid out where a host looks for them; never the judge."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from skillopt_mcp.backends.agents.places import FolderPaths
from skillopt_mcp.core.calls import Rollout
from skillopt_mcp.core.skills import is_memory
from skillopt_mcp.core.tasks import describe_hosts_own
from skillopt_mcp.documents.frontmatter import read

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NAME_CHARACTERS = 64
NAMELESS = "skill"
_OF_THE_PATH = frozenset({errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ})


class Unusable(Exception):
    """A file of the task or of the skill cannot be laid out."""


def lay_out(place: FolderPaths, request: Rollout, skills_path: str) -> str | None:
    """Return the name that the skill is installed by, None when there is no skill. Raises Unusable.

    A memory file lies where the host begins its work.
    """
    for file in request.task.files:
        if fault := describe_hosts_own(file.path):
            raise Unusable(f"the task cannot be laid out: {fault}")
        write_inside(place.work, file.path, file.content.encode("utf-8", "replace"), executable=False)
    alone = request.files.main_path if is_memory(request.files.main_path) else None
    memory, name = request.memory or alone, folder_name(request)
    for each in request.files.files:
        folder = place.work if each.path == memory else place.work / skills_path / name
        write_inside(folder, each.path, each.content, executable=each.executable)
    return name if any(each.path != memory for each in request.files.files) else None


def folder_name(request: Rollout) -> str:
    """The name of the skill's live folder, in both arms of a test; without one, the front matter's where it can be."""
    if request.task.folder:
        return request.task.folder
    front = read(request.files.main)
    name = front.name if front else None
    return name if name and len(name) <= _NAME_CHARACTERS and _NAME.fullmatch(name) else NAMELESS


def write_inside(folder: Path, path: str, content: bytes, *, executable: bool) -> None:
    """Write a file inside a folder. Raises Unusable for a path that no file here can have, OSError for a bad disk."""
    target = Path(os.path.normpath(folder / path))
    if "\0" in path or not target.is_relative_to(folder) or target == folder:
        raise Unusable(f"the file '{path}' would lie outside of its folder; correct its path")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        if executable:
            target.chmod(0o755)
    except OSError as error:
        if error.errno not in _OF_THE_PATH:
            raise
        raise Unusable(f"the file '{path}' cannot be written ({error.strerror}); correct its path") from None
