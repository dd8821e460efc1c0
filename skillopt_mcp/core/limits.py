"""Limits: how large a skill and a patch may be; every module takes them from here."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB

FILE_BYTES = 1 * MIB
"""The largest file of a skill, in bytes."""

SKILL_FILES = 200
"""How many files a skill may have."""

SKILL_BYTES = 5 * MIB
"""The largest skill, in bytes over all files."""

SKILL_DEPTH = 8
"""How many levels a skill may have: folders inside of it, and the file in the innermost."""

NAME_BYTES = 255
"""The longest name of a file or folder, in UTF-8 bytes: the most that common file systems take."""

MAX_CONCURRENCY = 1_000
"""The most calls that one backend is sent at once."""

PATH_CHARACTERS = 200
"""The longest path that an edit may name."""

SESSION_CHARACTERS = 200
"""The longest name of a host's session."""

EDIT_BYTES = 64 * KIB
"""The largest content, and the largest anchor, of one edit, in UTF-8 bytes."""

PATCH_EDITS = 64
"""How many edits a patch may have, whatever the budget."""

FRONT_MATTER_BYTES = 8 * KIB
"""The largest front matter that is read, in bytes; a larger one is opaque."""

FRONT_MATTER_LINES = 64
"""The longest front matter that is read, in lines; a longer one is opaque."""

FRONT_MATTER_DEPTH = 5
"""How deep collections in front matter may nest before it is opaque."""

DESCRIPTION_CHARACTERS = 1024
"""The longest description, as the Agent Skills specification has it."""

TRAJECTORY_CHARACTERS = 4 * MIB
"""The longest trajectory, in characters over task, answer, reason and messages."""

PROMPT_CHARACTERS = 256 * KIB
"""The longest prompt of a task."""

NAME_CHARACTERS = 200
GROUP_CHARACTERS = 128
"""The longest id that a caller may give a task."""

TASKS_PER_CALL = 10_000
"""How many tasks one call may add."""

TASK_FILE_BYTES = 64 * MIB
"""The largest file of tasks."""

YAML_BYTES = 1 * MIB
"""The largest YAML file of tasks: reading that much takes some seconds."""

REJECTED_SHOWN = 20
"""How many rejected tasks an answer names."""

RESULT_CHARACTERS = 6_000
"""How much text one answer of a tool carries; the rest is on the next page."""
