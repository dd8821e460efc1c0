"""Published adapters: SkillOpt's own environments train a skill here, unchanged, in a Python that has SkillOpt."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = os.environ.get("PEERS_PYTHON")
CONFIG = """
_base_: base.yaml
train: {num_epochs: 3}
optimizer: {learning_rate: 9, min_learning_rate: 3, lr_scheduler: linear, slow_update_samples: 7}
evaluation: {sel_env_num: 12}
env: {name: searchqa}
"""
BASE = """
train: {num_epochs: 4, batch_size: 24, seed: 5}
gradient: {minibatch_size: 5, merge_batch_size: 6}
optimizer: {learning_rate: 4}
"""

pytestmark = pytest.mark.skipif(
    PYTHON is None, reason="PEERS_PYTHON names no Python with skillopt==0.2.0 and this package's requirements"
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("peers")
    (folder / "base.yaml").write_text(BASE)
    (folder / "mine.yaml").write_text(CONFIG)
    (folder / "work").mkdir()
    script = Path(__file__).with_name("adapters_at_work.py")
    done = subprocess.run(
        [str(PYTHON), str(script), str(folder / "work"), str(folder / "mine.yaml")],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    value: dict[str, Any] = json.loads(done.stdout)
    return value


@pytest.mark.parametrize("name", ["searchqa", "made_up"])
def test_a_skill_is_trained_on_an_adapter_of_skillopt(found: dict[str, Any], name: str) -> None:
    outcome = found[name]
    assert outcome["learned"]
    assert outcome["steps"][0] == [0.0, "accept_best"]
    assert (outcome["verdict"], outcome["before"], outcome["after"]) == ("better", 0.0, 1.0)
    assert outcome["n_missing"] == 0
    assert outcome["backend"].startswith("env:")


def test_attempts_that_all_broke_off_stop_the_run_and_are_no_zeros(found: dict[str, Any]) -> None:
    assert found["broken"]["outage"].startswith("none of the 4 attempts at the val tasks has an answer")


def test_the_template_of_an_adapter_loads(found: dict[str, Any]) -> None:
    assert found["template"] == ["train/train1", "val/val1", "test/test1"]


def test_every_setting_of_skillopt_is_known_and_means_the_same(found: dict[str, Any]) -> None:
    assert found["settings"]["unknown"] == []
    assert all(ours == theirs for ours, theirs in found["settings"]["same"].values()), found["settings"]["same"]
