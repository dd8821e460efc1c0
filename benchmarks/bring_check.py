"""Check, measured: the errors that nobody else has, and the CPU next to that of the reference validator.

    python benchmarks/bring_check.py FOLDER [--json]

FOLDER has skills at any depth, such as checkouts of public marketplaces. `skills-ref` (in the `dev` extra), the
specification's own validator, reads the same skills in one process. An error for a skill that it passes is nobody
else's, unless it is what a host was seen to do (docs/checking.md, "Where hosts differ").
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.doors import command

_VALIDATE = """
import json, sys
from pathlib import Path
from skills_ref import validate
found = {}
for path in json.load(sys.stdin):
    try:
        found[path] = validate(Path(path))
    except Exception as error:
        found[path] = [f"it crashes: {type(error).__name__}"]
json.dump(found, sys.stdout)
"""
_OF_HOSTS = ("Codex", "Copilot", "Gemini", "opencode", "Claude Code", "GitHub", "hosts look for", "never closed")
"""What an error says where it is a host's: Codex drops front matter whose last line is no ---, as others do."""


def measure_check(folder: Path) -> dict[str, Any]:
    """The figures of `check` over the skills below a folder: {skills, errors, errors_nobody_else_has,
    cpu_ratio_skills_ref}; the ratio is None where skills-ref is not installed.
    """  # fmt: skip
    with tempfile.TemporaryDirectory() as home:
        argv = command(Path(home) / "s.db", "check", str(folder), "--json")
        out, our_cpu = _run(argv, "")
    skills = [skill for skill in json.loads(out)["skills"] if os.path.exists(skill["path"])]
    errors = {
        skill["path"]: [each["text"] for each in skill["findings"] if each["severity"] == "error"] for skill in skills
    }
    try:
        out, their_cpu = _run([sys.executable, "-c", _VALIDATE], json.dumps(list(errors)))
    except subprocess.CalledProcessError:
        return {"skills": len(skills), "errors": sum(map(len, errors.values())), "errors_nobody_else_has": None,
                "cpu_ratio_skills_ref": None}  # fmt: skip
    theirs = json.loads(out)
    alone = [
        text
        for path, texts in errors.items()
        for text in texts
        if not theirs[path] and not any(host in text for host in _OF_HOSTS)
    ]
    return {
        "skills": len(skills), "errors": sum(map(len, errors.values())), "errors_nobody_else_has": len(alone),
        "cpu_ratio_skills_ref": round(our_cpu / their_cpu, 2),
    }  # fmt: skip


def _run(argv: list[str], stdin: str) -> tuple[str, float]:
    """What a command prints, and its CPU seconds: the least of three runs."""
    seconds = []
    for _ in range(3):
        before = os.times()
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1) or not done.stdout:
            raise subprocess.CalledProcessError(done.returncode, argv, done.stdout, done.stderr)
        after = os.times()
        seconds.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return done.stdout, min(seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    figures = measure_check(arguments.folder)
    print(json.dumps(figures) if arguments.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))
