"""Formats: one file adds a format of tasks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import skillopt_mcp
from skillopt_mcp.tasks.formats.registry import read_rows

NEW_FORMAT = '''
"""Cards: a prompt and an answer a line."""
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.tasks.formats.registry import task_format

def write_cards(rows):
    return "cards\\n" + "".join(f"{row['prompt']} = {row['judge']['expected']}\\n" for row in rows)

@task_format("cards", (".cards", ".json"), detect=lambda text: text.startswith("cards"), write=write_cards)
def read_cards(text, where):
    cards = [line.partition(" = ") for line in text.splitlines()[1:]]
    if not all(answer for _, _, answer in cards):
        raise BadInput(f"{where} has a card without an answer")
    return [{"prompt": asked, "judge": {"kind": "exact", "expected": answer}} for asked, _, answer in cards]
'''
USE = """
import json, shlex, sys
from skillopt_mcp.cli.main import main
for line in sys.argv[1:]:
    print(json.dumps([line, main(shlex.split(line))]))
main(["tasks", "add", "--help"])
"""


def test_one_file_adds_a_format(tmp_path: Path) -> None:
    package = Path(skillopt_mcp.__file__).parent
    copy = tmp_path / "lib" / "skillopt_mcp"
    shutil.copytree(package, copy)
    shutil.copytree(package.parent / "store", copy.parent / "store")
    (copy / "tasks" / "formats" / "cards.py").write_text(NEW_FORMAT)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "SKILL.md").write_text("---\nname: mine\ndescription: Adds numbers.\n---\n# Mine\n")
    texts = {
        "a.cards": "cards\n2 + 2 = 4\n", "b.json": "cards\n3 + 4 = 7\n", "bad.cards": "cards\nhello\n",
        "c.json": json.dumps([{"prompt": "5 + 5", "judge": {"kind": "exact", "expected": "10"}}]),
        **{f"splits/{split}.cards": f"cards\n{n} + 9 = {n + 9}\n" for n, split in enumerate(("train", "val", "test"))},
    }  # fmt: skip
    (tmp_path / "splits").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    lines = {
        "tasks add ./mine a.cards": 0, "tasks add ./mine b.json": 0,
        "tasks add ./mine c.json": 0, "tasks add ./mine bad.cards": 1, "tasks add ./mine splits": 1,
        "tasks add ./mine splits --split-mode split_dir": 0, "tasks export ./mine out.cards": 0,
        "tasks export ./mine out.json": 0, "tasks add ./mine out.cards": 0, "tasks add ./mine out.json": 0,
    }  # fmt: skip
    environ = {**os.environ, "PYTHONPATH": str(copy.parent), "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", USE, *lines], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    codes = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    assert codes == lines, done.stderr
    assert "cards, JSON list, JSON lines or CSV of tasks; - reads standard input" in " ".join(done.stdout.split())
    assert "'bad.cards' has a card without an answer" in done.stderr
    assert "name a .cards, .json, .jsonl or .csv file" in done.stderr
    written = (tmp_path / "out.cards").read_text().splitlines()
    assert written[0] == "cards"
    assert sorted(written[1:]) == ["0 + 9 = 9", "1 + 9 = 10", "2 + 2 = 4", "2 + 9 = 11", "3 + 4 = 7", "5 + 5 = 10"]
    assert len([json.loads(line) for line in (tmp_path / "out.json").read_text().splitlines()]) == 6
    assert done.stdout.count("0 added, 6 duplicates") == 2


def test_exported_tasks_are_read_back_as_they_were_whatever_the_suffix(tmp_path: Path) -> None:
    rows = [
        {"id": "t1", "prompt": 'Say "a, b",\r\nthen\n\n; é \u2028=1+1', "split": "test", "tags": ["x, y", ""],
         "judge": {"kind": "exact", "expected": 'a "b"'}, "files": {"in/data.csv": "a,b\r\n1,2"}},
        {"id": "007", "prompt": '{"not": "decoded"}', "judge": {"kind": "exact", "expected": "1"}, "split": "train"},
        {"prompt": "  3", "judge": {"kind": "exact", "expected": "[1]"}, "split": "val", "group": "g"},
    ]  # fmt: skip
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "SKILL.md").write_text("---\nname: mine\ndescription: Adds numbers.\n---\n# Mine\n")
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    environ = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    lines = ["tasks add ./mine rows.json", *(f"tasks export ./mine out{end}" for end in (".csv", ".json", ".jsonl"))]
    lines += [f"tasks add ./mine out{end}" for end in (".csv", ".json", ".jsonl")]
    done = subprocess.run(
        [sys.executable, "-c", USE, *lines], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    codes = [json.loads(line)[1] for line in done.stdout.splitlines() if line.startswith("[")]
    assert codes == [0] * len(lines), done.stderr
    table, kept, same = (read_rows(tmp_path / f"out{end}") for end in (".csv", ".json", ".jsonl"))
    assert table == kept == same
    assert len(kept) == 3
    assert (tmp_path / "out.csv").read_text().startswith("id,prompt,judge,split,")
    assert done.stdout.count("0 added, 3 duplicates") == 3
