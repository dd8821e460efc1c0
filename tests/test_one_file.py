"""One file adds a backend, a format or a kind of judge: dropped into the package it is listed and works."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import skillopt_mcp

NEW_BACKEND = '''"""Echo: a backend that repeats the task."""

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.registry import backend
from skillopt_mcp.backends.scripted import Scripted


@backend("echo", spec="echo:WORD", answers="what was asked, and the word", is_asked=True, has_options=True)
def open_echo(model: str) -> Backend:
    return Scripted(lambda call: f"{call.request.task.prompt} {model}", name=f"echo:{model}")
'''
USE_BACKEND = """
from skillopt_mcp.backends.registry import backend_names, backend_table, without_options
from skillopt_mcp.backends.wrappers import check_backend
from skillopt_mcp.cli.main import main
import sys
assert "openai" not in sys.modules, "to list the backends loads no vendor's SDK"
assert "echo" in backend_names()
assert "| `echo:WORD` | what was asked, and the word | nothing |" in backend_table()
assert without_options("echo:a,b=1") == "echo:a"
assert check_backend("echo:hi")[0] is None
sys.argv = ["skillopt-mcp", "replay", "nothing", "--target", "nonsense", "--optimizer", "echo:hi"]
sys.exit(main())
"""
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
USE_FORMAT = """
import json, shlex, sys
from skillopt_mcp.cli.main import main
for line in sys.argv[1:]:
    print(json.dumps([line, main(shlex.split(line))]))
main(["tasks", "add", "--help"])
"""
NEW_KIND = '''
"""Backwards: the judge that wants a word backwards."""
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Attempt, Judge, Score, judge

@judge("backwards")
class Backwards(Judge):
    """The answer is `word` backwards."""

    word: str

    def score(self, attempt: Attempt) -> Score:
        right = attempt.answer.strip() == self.word[::-1]
        return Score(right, float(right), "read from its end")

    def check(self) -> None:
        if self.word == self.word[::-1]:
            raise BadInput("backwards judge: word must differ from itself backwards")

    def references(self) -> list[str]:
        return [self.word[::-1]]
'''
USE_KIND = """
import sys
from skillopt_mcp.cli.main import main
from skillopt_mcp.tasks.judges.judging import kinds, parse_judge, score
from skillopt_mcp.server.tools import usage
assert kinds()["backwards"] == "The answer is `word` backwards." and "{kind: backwards, word}" in usage()
judge = parse_judge({"kind": "all", "judges": [{"kind": "backwards", "word": "abc"}]})
assert score(judge, "cba").hard and not score(judge, "abc").hard and judge.references()
assert main(["tasks", "check", "./mine", "tasks.json"]) == 1
assert main(["--json", "tasks", "add", "./mine", "tasks.json"]) == 1
main(["tasks", "add", "--help"])
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where a copy of the package lies that has one more file of each sort."""
    folder, ours = tmp_path_factory.mktemp("lib"), Path(skillopt_mcp.__file__).parent
    copy = shutil.copytree(ours, folder / "skillopt_mcp")
    shutil.copytree(ours.parent / "store", folder / "store")
    (copy / "backends/echo.py").write_text(NEW_BACKEND)
    (copy / "tasks/formats/cards.py").write_text(NEW_FORMAT)
    (copy / "tasks/judges/kinds/backwards.py").write_text(NEW_KIND)
    return folder


def used(package: Path, place: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return how a program that uses the copy ends, next to a skill."""
    (place / "mine").mkdir()
    (place / "mine" / "SKILL.md").write_text("---\nname: mine\ndescription: Writes words.\n---\n# Mine\n")
    environ = {**os.environ, "PYTHONPATH": str(package), "HOME": str(place), "XDG_DATA_HOME": str(place)}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=environ, cwd=place, capture_output=True, text=True, check=False)


def test_one_file_adds_a_backend(package: Path, tmp_path: Path) -> None:
    done = used(package, tmp_path, USE_BACKEND)
    assert "unknown backend 'nonsense'" in done.stderr, done.stderr
    assert "codex, echo, env" in done.stderr


def test_one_file_adds_a_kind_of_judge(package: Path, tmp_path: Path) -> None:
    rows = [{"prompt": f"{word}?", "judge": {"kind": "backwards", "word": word}} for word in ("abc", "xyz", "aba")]
    (tmp_path / "tasks.json").write_text(json.dumps(rows))
    done = used(package, tmp_path, USE_KIND)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("word must differ") == 1
    [added] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert (added["added"], [each["index"] for each in added["rejected"]]) == (2, [2])
    assert re.search(r", backwards,", done.stdout)


def test_one_file_adds_a_format(package: Path, tmp_path: Path) -> None:
    texts = {
        "a.cards": "cards\n2 + 2 = 4\n", "b.json": "cards\n3 + 4 = 7\n", "bad.cards": "cards\nhello\n",
        "c.json": json.dumps([{"prompt": "5 + 5", "judge": {"kind": "exact", "expected": "10"}}]),
        **{f"splits/{split}.cards": f"cards\n{n} + 9 = {n + 9}\n" for n, split in enumerate(("train", "val", "test"))},
    }  # fmt: skip
    (tmp_path / "splits").mkdir()
    (tmp_path / "none").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    lines = {
        "tasks add ./mine a.cards": 0, "tasks add ./mine b.json": 0,
        "tasks add ./mine c.json": 0, "tasks add ./mine bad.cards": 1, "tasks add ./mine none": 1,
        "tasks add ./mine splits --split-mode split_dir": 0, "tasks export ./mine out.cards": 0,
        "tasks export ./mine out.json": 0, "tasks add ./mine out.cards": 0, "tasks add ./mine out.json": 0,
    }  # fmt: skip
    done = used(package, tmp_path, USE_FORMAT, *lines)
    codes = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    assert codes == lines, done.stderr
    assert "cards, JSON list, JSON lines or CSV of tasks; - reads standard input" in " ".join(done.stdout.split())
    assert "'bad.cards' has a card without an answer" in done.stderr
    assert "a .cards, .json, .jsonl or .csv file of tasks" in done.stderr
    written = (tmp_path / "out.cards").read_text().splitlines()
    assert written[0] == "cards"
    assert sorted(written[1:]) == ["0 + 9 = 9", "1 + 9 = 10", "2 + 2 = 4", "2 + 9 = 11", "3 + 4 = 7", "5 + 5 = 10"]
    assert len([json.loads(line) for line in (tmp_path / "out.json").read_text().splitlines()]) == 6
    assert done.stdout.count("0 added, 6 duplicates") == 2
