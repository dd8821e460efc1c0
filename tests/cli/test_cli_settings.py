from __future__ import annotations

import json
from pathlib import Path

import pytest
from console import BACKENDS, TARGET, parsed

from skillopt_mcp.cli.preparing import prepare
from skillopt_mcp.core.errors import BackendError
from tests.vendors import vending

BASE = Path(__file__).parents[1] / "settings" / "skillopt_configs" / "_base_" / "default.yaml"

FILE = """
model:
  target: gpt-none
  teacher: gpt-none
train: {num_epochs: 1, batch_size: 9, seed: 7}
optimizer: {learning_rate: 3, use_slow_update: false, use_meta_skill: false}
evaluation: {sel_env_num: 6}
env: {name: searchqa, split_mode: split_dir, split_dir: data/split, workers: 4}
"""
KEEPS = "a resumed run keeps its settings: leave out"
QUIET = ("--set", "slow_update=false", "--set", "meta_skill=false")


def test_a_file_pairs_and_flags_settle_a_run(cli, make_place, tmp_path: Path) -> None:
    place = make_place()
    (tmp_path / "mine.yaml").write_text(FILE)
    arguments = ("replay", "ledger-clerk", *BACKENDS, "--config", tmp_path / "mine.yaml", *QUIET)
    done = cli(*arguments, "--set", "train.batch_size=5", "--seed", "8", store=place.store_path)
    assert done.returncode == 0, done.stderr
    named = f"Asked: target {TARGET} at no known address; optimizer {TARGET} at no known address."
    assert done.stderr.splitlines()[0] == named
    assert done.stderr.splitlines()[1] == "note: model.teacher: 'teacher' is called 'optimizer' since SkillOpt 0.2"
    assert "note: no environment 'searchqa' is registered here: the run takes the stored tasks" in done.stderr
    assert "Steps: 3 (3 with edits, epochs 1, train tasks 14, 5 a step)" in done.stderr
    (row,) = parsed(cli("show", "--json", store=place.store_path))["runs"]
    shown = parsed(cli("show", row["id"], "--json", store=place.store_path))["text"]
    config = json.loads(next(line for line in shown.splitlines() if line.startswith("config: "))[8:])
    assert [config[name] for name in ("epochs", "batch", "seed", "max_edits", "limit_val")] == [1, 5, 8, 3, 6]
    assert (row["target"], row["optimizer"], row["status"]) == (TARGET, TARGET, "finished")


def test_a_backend_that_cannot_be_asked_is_shown_with_the_key_that_chose_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "mine.yaml").write_text("model: {backend: openai, target: gpt-none, optimizer: gpt-none}\n")
    with pytest.raises(BackendError, match=r"\"model\.backend\" chose 'codex:gpt-none' as target: the program 'codex'"):
        prepare(str(tmp_path / "mine.yaml"), (), {}, "ledger-clerk")
    named = {"target": TARGET, "optimizer": TARGET}
    assert prepare(str(tmp_path / "mine.yaml"), (), named, "ledger-clerk").target == TARGET


@pytest.mark.parametrize(
    ("settings", "key", "refused"),
    [
        ("backend: minimax\n  minimax_base_url: {there}/v1", "Bearer key-of-minimax", ""),
        ("backend: openai_compatible\n  openai_compatible_base_url: {there}/v1", "Bearer key-of-openai-compatible", ""),
        ("azure_endpoint: {there}", "key-of-azure-openai", ""),
        ("teacher_azure_openai_endpoint: {there}", "", "is not configured: set AZURE_OPENAI_ENDPOINT"),
        ("backend: qwen", "", "has no address: set model.qwen_chat_base_url"),
        ("backend: copilot_exec", "", 'unknown backend "copilot_exec" in "model.backend"'),
    ],
)  # fmt: skip
def test_a_run_reaches_the_vendor_that_its_settings_mean_and_no_other(
    cli, make_place, tmp_path: Path, monkeypatch, settings: str, key: str, refused: str
) -> None:
    place = make_place()
    for name in ("OPENAI", "MINIMAX", "OPENAI_COMPATIBLE", "AZURE_OPENAI", "QWEN_CHAT"):
        monkeypatch.setenv(f"{name}_API_KEY", f"key-of-{name.lower().replace('_', '-')}")
    with vending() as there, vending() as public:
        host = f"127.0.0.1:{there.server_port}"
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{public.server_port}/v1")
        written = settings.format(there=f"http://{host}")
        (tmp_path / "mine.yaml").write_text(f"_base_: {BASE}\nmodel:\n  {written}\nenv: {{name: ''}}\n")
        arguments = ("replay", "ledger-clerk", "--config", tmp_path / "mine.yaml", "--yes", "--max-calls", "3")
        done = cli(*arguments, store=place.store_path)
        assert ({*there.heard}, public.heard) == ({key} if key else set(), []), done.stderr
    if refused:
        assert refused in done.stderr
        assert done.stderr.count("\n") == 1
        return
    [first, *_] = done.stderr.splitlines()
    assert first.startswith("Asked: target openai:")
    assert first.count(f" at {host}") == 2
    for more in (("--dry-run",), ("--dry-run", "--json")):
        again = cli(*arguments[:4], *more, store=place.store_path)
        assert again.returncode == 0, again.stderr
    asked = parsed(again)["asked"]
    assert [asked[role]["address"].partition("/")[0] for role in ("target", "optimizer")] == [host, host]


def test_a_run_is_written_as_files(cli, make_place, tmp_path: Path) -> None:
    place = make_place()
    out = tmp_path / "out"
    arguments = ("replay", "ledger-clerk", *BACKENDS, "--epochs", "1", *QUIET, "--json", "--out", out)
    result = parsed(cli(*arguments, store=place.store_path))
    assert {path.name for path in out.iterdir()} == {
        "best_skill", "best_skill.md", "history.json", "report.md", "run.json", "skills", "steps", "summary.json",
        "versions",
    }  # fmt: skip
    figures = parsed(cli("show", result["run_id"], "--json", store=place.store_path))["run"]
    assert isinstance(figures, dict)
    summary = json.loads((out / "summary.json").read_text())
    # What a command advises has the flags that a command needs.
    asked = {role: {"model": TARGET, "address": ""} for role in ("target", "optimizer")}
    assert next(iter(result)) == "asked"
    assert summary | {"next_step": None, "asked": asked} == result | figures | {"next_step": None}
    assert figures["n_tasks"] == {"train": 10, "val": 10, "test": 40}
    assert {row["role"] for row in figures["used"]} == {"optimizer", "target"}
    again = parsed(cli("show", result["run_id"], "--out", out, "--json", store=place.store_path))
    assert (again["n_written"], again["run_id"]) == (0, result["run_id"])
    refused = cli(*arguments, store=place.store_path)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"error: '{out}' holds run '{result['run_id']}'")


def test_prompts_of_ones_own_are_frozen_into_the_run(cli, make_place, tmp_path: Path) -> None:
    place = make_place()
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "analyst_failur.md").write_text("x")
    arguments = ("replay", "ledger-clerk", *BACKENDS, "--prompts", tmp_path / "prompts")
    done = cli(*arguments, store=place.store_path)
    assert done.returncode == 1
    assert "names no prompt; did you mean 'analyst_failure.md'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "gone.yaml"], 'error: "gone.yaml" cannot be read (No such file or directory)'),
        (["--set", "train.batchsize=4"], 'error: unknown setting "train.batchsize": did you mean "train.batch_size"?'),
        (["--set", "epochs"], 'error: cannot use "epochs"'),
        (["--env", "nosuch"], 'error: unknown environment "nosuch"'),
        (["--resume", "--config", "x.yaml"], f"error: {KEEPS} '--config'"),
        (["--resume", "--set", "a=b"], f"error: {KEEPS} '--set'"),
        (["--resume", "--env", "qa:x"], f"error: {KEEPS} '--env'"),
    ],
)  # fmt: skip
def test_what_cannot_be_settled_is_shown_before_anything_begins(
    cli, tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = cli("replay", "ledger-clerk", *BACKENDS, *arguments, store=tmp_path / "store.db")
    assert (done.returncode, done.stdout) == (2 if "--resume" in arguments else 1, "")
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "store.db").exists()
