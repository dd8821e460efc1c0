"""Readable: which files a folder holds so that reading it gives just these, and nothing is passed over or refused."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.lines import is_text
from skillopt_mcp.limits import FILE_BYTES, MIB, NAME_BYTES, SKILL_BYTES, SKILL_DEPTH, SKILL_FILES
from skillopt_mcp.records.skills import MAIN_FILE, SkillFiles

_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\\]")


def is_passed_over(name: str) -> bool:
    """Return whether a file or folder of this name is none of a skill's: dot files and caches."""
    return name.startswith(".") or name == "__pycache__"


def is_unfit(name: str) -> bool:
    """Return whether a skill refuses to hold what has this name: one with control characters, or no text."""
    return _UNFIT.search(name) is not None


def is_too_deep(path: str) -> bool:
    """Return whether a file at this path inside a skill lies deeper than one is read."""
    return path.count("/") >= SKILL_DEPTH


def path_fault(path: str) -> str:
    """Return why no file is read at this path inside a skill, as the end of a sentence; empty when one is."""
    parts = path.split("/")
    if "" in parts:
        return "is no relative path"
    if any(map(is_unfit, parts)):
        return "has control characters, a backslash or no text in it"
    if any(map(is_passed_over, parts)):
        return "has a part that is passed over when a skill is read (dot files, __pycache__)"
    if is_too_deep(path):
        return f"is nested too deep; {SKILL_DEPTH} levels are the most"
    if any(len(part.encode()) > NAME_BYTES for part in parts):
        return f"has a part of more than {NAME_BYTES} bytes, which no disk takes as a name"
    return ""


def unreadable(files: SkillFiles) -> str:
    """Return why these files, written to a folder, would not be read back as they are; empty when they would."""
    main = files.get(files.main_path)
    if main is None or ("/" in main.path):
        return f"the skill has no {MAIN_FILE}"
    if not is_text(main.content):
        return f"{quoted(main.path)} is not UTF-8 text"
    if len(files.files) > SKILL_FILES:
        return f"the skill would have more than {SKILL_FILES} files"
    if sum(len(file.content) for file in files.files) > SKILL_BYTES:
        return f"the skill would be larger than {SKILL_BYTES // MIB} MiB"
    paths = {file.path for file in files.files}
    folders = {str(folder) for path in paths for folder in PurePosixPath(path).parents}
    for file in files.files:
        if fault := path_fault(file.path):
            return f"{quoted(file.path)} {fault}"
        if len(file.content) > FILE_BYTES:
            return f"{quoted(file.path)} would be larger than {FILE_BYTES // MIB} MiB"
    if len(paths) < len(files.files) or paths & folders:
        return "two of its files would have the same place"
    return ""
