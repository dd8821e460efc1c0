from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from console import BACKENDS, TARGET, parsed

from skillopt_mcp.cli.preparing import Sources, prepare
from skillopt_mcp.errors import BackendError

FILE = """
model:
  target: gpt-none
  teacher: gpt-none
train: {num_epochs: 1, batch_size: 9, seed: 7}
optimizer: {learning_rate: 3, use_slow_update: false, use_meta_skill: false}
evaluation: {sel_env_num: 6}
env: {name: searchqa, split_mode: split_dir, split_dir: data/split, workers: 4}
"""
KEEPS = "a resumed run keeps the settings it was begun with: leave out"
QUIET = ("--set", "slow_update=false", "--set", "meta_skill=false", "--max-pairs", "20")


def test_a_file_pairs_and_flags_settle_a_run(cli, make_place, tmp_path: Path) -> None:
    place = make_place()
    (tmp_path / "mine.yaml").write_text(FILE)
    arguments = ("replay", "ledger-clerk", *BACKENDS, "--config", tmp_path / "mine.yaml", *QUIET)
    done = cli(*arguments, "--set", "train.batch_size=5", "--seed", "8", store=place.store_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0] == "note: model.teacher: 'teacher' is called 'optimizer' since SkillOpt 0.2"
    assert "note: no environment 'searchqa' is registered here: the run takes the stored tasks" in done.stderr
    assert (
        "those of 'data/split' are added with: skillopt-mcp tasks add ledger-clerk data/split --split-mode split_dir"
        in done.stderr
    )
    assert "Steps: 4 (epochs 1, train tasks 20, 5 a step)" in done.stderr
    (row,) = parsed(cli("runs", "--json", store=place.store_path))["runs"]
    shown = parsed(cli("show", row["id"], "--json", store=place.store_path))["text"]
    config = json.loads(next(line for line in shown.splitlines() if line.startswith("config: "))[8:])
    assert [config[name] for name in ("epochs", "batch", "seed", "max_edits", "limit_val")] == [1, 5, 8, 3, 6]
    assert (row["target"], row["optimizer"], row["status"]) == (TARGET, TARGET, "finished")


def test_a_backend_that_cannot_be_asked_is_told_with_the_key_that_chose_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "mine.yaml").write_text("model: {backend: openai, target: gpt-none, optimizer: gpt-none}\n")
    with pytest.raises(BackendError, match=r"\"model\.backend\" chose 'codex:gpt-none' as target: the program 'codex'"):
        prepare(Sources(str(tmp_path / "mine.yaml"), (), {}), "ledger-clerk")
    named = {"target": TARGET, "optimizer": TARGET}
    assert prepare(Sources(str(tmp_path / "mine.yaml"), (), named), "ledger-clerk").target == TARGET


def test_one_table_lists_the_runs_of_all_skills(cli, make_place) -> None:
    place = make_place()
    assert cli("runs", store=place.store_path).stderr == f"No run yet: {place.program} replay SKILL\n"
    run_id = parsed(
        cli("replay", "ledger-clerk", *BACKENDS, "--epochs", "1", *QUIET, "--json", store=place.store_path)
    )["run_id"]
    done = cli("runs", "ledger-clerk", store=place.store_path)
    head, row = done.stdout.splitlines()
    assert head.split() == [
        "run",
        "skill",
        "began",
        "status",
        "steps",
        "best",
        "test",
        "verdict",
        "sent",
        "failed",
        "tokens",
        "usd",
        "target",
        "settings",
    ]
    assert row.split()[:2] == [str(run_id), "ledger-clerk"]
    assert " epochs=1 " in row
    both = (
        "sent, answered, failed, tokens and usd: of a run and its part of a promotion test together; 'show RUN' tells "
        "them apart"
    )
    assert done.stderr == f"{both}\nNext: {place.program} show {run_id}\n"
    table = cli("show", run_id, store=place.store_path).stdout
    assert "step epoch budget edits train" in table
    assert "calls missing failed repeated" in table
    assert "target    rollout" in table


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
    assert json.loads((out / "summary.json").read_text()) == result | figures
    assert figures["n_tasks"] == {"train": 20, "val": 20, "test": 20}
    assert {row["role"] for row in figures["used"]} == {"optimizer", "target"}
    again = parsed(cli("show", result["run_id"], "--out", out, "--json", store=place.store_path))
    assert (again["n_written"], again["run_id"]) == (0, result["run_id"])
    refused = cli(*arguments, store=place.store_path)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"error: '{out}' holds run '{result['run_id']}'")


def test_a_run_that_cannot_be_written_as_files_has_its_outcome_told(cli, make_place, tmp_path: Path) -> None:
    place = make_place()
    (tmp_path / "file").touch()
    arguments = ("replay", "ledger-clerk", *BACKENDS, "--epochs", "1", *QUIET, "--out", tmp_path / "file" / "out")
    stopped = cli(*arguments, "--max-calls", "30", "--yes", "--json", store=place.store_path)
    assert stopped.returncode == 1
    assert "--resume --max-calls" in json.loads(stopped.stdout)["next_step"]
    done = cli("replay", "ledger-clerk", "--resume", *arguments[-2:], "--max-calls", "5000", store=place.store_path)
    assert done.returncode == 0, done.stderr
    assert "Verdict: UNDECIDED" in done.stdout
    for each in (stopped, done):
        told = f"warning: the run is kept, but was not written as files: '{tmp_path / 'file' / 'out'}' cannot be "
        assert told in each.stderr


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
        (["--env", "qa:gone"], "error: 'gone' cannot be read"),
        (["--env", "nobody"], 'error: unknown environment "nobody"'),
        (["--resume", "--config", "x.yaml"], f"error: {KEEPS} '--config'"),
        (["--resume", "--set", "a=b"], f"error: {KEEPS} '--set'"),
        (["--resume", "--env", "qa:x"], f"error: {KEEPS} '--env'"),
    ],
)  # fmt: skip
def test_what_cannot_be_settled_is_told_before_anything_begins(
    cli, tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = cli("replay", "ledger-clerk", *BACKENDS, *arguments, store=tmp_path / "store.db")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "store.db").exists()


def test_the_tasks_of_an_environment_are_added_once(cli, make_place, tmp_path: Path) -> None:
    place = make_place(n_tasks=30)
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "val", "test"):
        (data / f"{split}.csv").write_text(f"question,answers\nWhat is in {split}?,nothing\n")
    arguments = ("replay", "ledger-clerk", *BACKENDS, "--env", f"qa:{data}", "--epochs", "1", *QUIET)
    done = cli(*arguments, store=place.store_path)
    assert done.returncode == 0, done.stderr
    assert f"3 tasks of 'qa:{data}' added, 0 there already." in done.stderr
    alone = (
        f"note: the run takes the tasks of 'qa:{data}' alone, not 30 others of the skill; without --env it takes all"
    )
    assert alone in done.stderr
    assert "Steps: 1 (epochs 1, train tasks 1," in done.stderr
    assert "0 tasks of" in cli(*arguments, store=place.store_path).stderr
    assert parsed(cli("tasks", "list", "ledger-clerk", "--json", store=place.store_path))["splits"]["test"] == 11


def test_a_data_set_is_split_by_ratio_or_taken_as_it_is(cli, make_place, tmp_path: Path) -> None:
    place = make_place(n_tasks=0)
    rows = "".join(f'{{"question": "What is {n}?", "answers": ["{n}"]}}\n' for n in range(30))
    (tmp_path / "all.jsonl").write_text(rows)
    add = ("tasks", "add", "ledger-clerk", tmp_path / "all.jsonl")
    refused = cli(*add, "--ratio", "1:1:1", store=place.store_path)
    assert refused.stderr == "error: --ratio and --seed belong to --split-mode ratio: name it too\n"
    added = parsed(
        cli(*add, "--split-mode", "ratio", "--ratio", "1:1:1", "--seed", "3", "--json", store=place.store_path)
    )
    assert added["splits"] == {"train": 10, "val": 10, "test": 10}
    bad = cli(*add, "--split-mode", "ratio", "--ratio", "1:1", store=place.store_path)
    assert bad.stderr == 'error: ratio "1:1" is not possible: write train:val:test above 0, such as 2:1:7\n'
    folder = tmp_path / "splits"
    folder.mkdir()
    for split, n in (("train", 3), ("val", 2), ("dev", 1)):
        (folder / f"{split}.json").write_text(
            json.dumps([{"question": f"{split} {i}?", "answer": "a"} for i in range(n)])
        )
    unknown = cli("tasks", "add", "ledger-clerk", folder, "--split-mode", "split_dir", store=place.store_path)
    assert unknown.stderr.startswith('error: unknown split "dev": did you mean "val"?')
    os.rename(folder / "dev.json", folder / "test.json")
    arguments = ("tasks", "add", "ledger-clerk", folder, "--split-mode", "split_dir")
    assert parsed(cli(*arguments, "--json", store=place.store_path))["splits"] == {"train": 13, "val": 12, "test": 11}
    drawn = cli(*arguments, "--seed", "3", store=place.store_path)
    assert drawn.stderr == "error: in a folder of splits nothing is drawn: leave out --ratio and --seed\n"
