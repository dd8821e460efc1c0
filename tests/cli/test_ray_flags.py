"""The flags of a Ray cluster: refused where they cannot be meant, and Ray is loaded by --ray alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.doors import add_own_tasks, command, numbers_skill


def evaluate(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `evaluate --baseline` where the import of Ray fails as where it is not installed."""
    (folder / "ray.py").write_text("open('imported', 'w').close()\nraise ModuleNotFoundError('no ray', name='ray')\n")
    store, skill = folder / "s.db", folder / "skills" / "numbers"
    if not skill.exists():
        task = {"prompt": "call 1", "judge": {"kind": "exact", "expected": "answer 1"}, "split": "test"}
        add_own_tasks(store, numbers_skill(folder), [task])
    target = ["--target", "simulated:honest,seed=1"]
    return subprocess.run(
        command(store, "evaluate", str(skill), "--baseline", *target, "--yes", *options), cwd=folder, text=True,
        capture_output=True, check=False, stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(folder)},
    )  # fmt: skip


def test_ray_is_loaded_by_its_flag_alone(tmp_path: Path) -> None:
    done = evaluate(tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "imported").exists()
    done = evaluate(tmp_path, "--ray", "local")
    assert done.returncode == 1
    assert "--ray needs Ray: pip install 'skillopt-mcp[ray]'" in done.stderr
    assert (tmp_path / "imported").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ray-cpus", "2"], "need --ray"),
        (["--ray-env", "none"], "need --ray"),
        (["--ray-resources", "gpu=1"], "need --ray"),
        (["--ray", "local", "--ray-cpus", "0"], "--ray-cpus must be above 0, got 0"),
        (["--ray", "local", "--ray-cpus", "nan"], "--ray-cpus must be above 0, got nan"),
        (["--ray", "local", "--ray-cpus", "inf"], "--ray-cpus must be above 0, got inf"),
        (["--ray", "local", "--ray-resources", "gpu"], "--ray-resources must be NAME=N[,NAME=N], got 'gpu'"),
        (["--ray", "local", "--ray-resources", "gpu=0"], "--ray-resources must be NAME=N[,NAME=N], got 'gpu=0'"),
        (["--ray", "local", "--ray-resources", "gpu=1,"], "--ray-resources must be NAME=N[,NAME=N], got ''"),
    ],
)
def test_a_flag_that_cannot_be_meant_is_refused(tmp_path: Path, options: list[str], said: str) -> None:
    done = evaluate(tmp_path, *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "imported").exists()
