from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SCRIPT = str(Path(sys.executable).with_name("skillopt-mcp"))
SEED = 3
TARGET = f"simulated:honest,seed={SEED}"
BACKENDS = ("--target", TARGET, "--optimizer", TARGET)


@dataclass(frozen=True)
class Place:
    """A skill of the simulated world in a registered skill root, with its tasks in a store of its own."""

    skill_path: Path
    store_path: Path

    @property
    def main(self) -> Path:
        return self.skill_path / "SKILL.md"

    @property
    def command(self) -> list[str]:
        return [SCRIPT, "--store", str(self.store_path)]


Cli = Callable[..., subprocess.CompletedProcess[str]]


def parsed(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    """Return the one JSON object that a command printed."""
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    value = json.loads(line)
    assert isinstance(value, dict)
    return value
