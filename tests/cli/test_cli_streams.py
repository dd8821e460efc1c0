"""Streams that are full, closed, narrow or of a small alphabet: one line of error, and nothing that cannot be read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from types import ModuleType

import pytest
from console import SCRIPT, Place

from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.cli.main import main
from skillopt_mcp.core import limits
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.tasks.formats.registry import read_rows
from skillopt_mcp.workspace.workspace import Workspace

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the streams are those of Linux")
EXACT = {"kind": "exact", "expected": "ü"}
ASCII = ({"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})


@pytest.fixture
def place(make_place) -> Place:
    place = make_place(n_tasks=0)
    task = {"id": "fünf", "prompt": "Wie viel ist 2 + 3, und warum ist das so?", "judge": EXACT, "split": "val"}
    with Workspace(place.store_path) as workspace:
        assert add_tasks(workspace.store, workspace.place, str(place.skill_path), [task]).added == 1
    return place


# Another test may leave a width in the environment, which counts for more than the terminal's.
_ENVIRON = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}


def shell(place: Place, line: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Return how a line of shell ends in which $S is our program on the place's store."""
    program = " ".join([SCRIPT, "--store", str(place.store_path)])
    return subprocess.run(
        ["/bin/sh", "-c", line.replace("$S", program)],
        env={**_ENVIRON, **environ}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        encoding="utf-8", check=False,
    )  # fmt: skip


class Talkative:
    """An adapter that prints whatever it does."""

    def __init__(self) -> None:
        print("made")

    def setup(self, cfg: dict[str, object]) -> None:
        print("set up")

    def get_dataloader(self) -> object:
        print("looked up")
        return None

    def get_task_types(self) -> list[str]:
        print("typed")
        return ["talk"]

    def build_train_env(self, batch_size: int, seed: int) -> object:
        return [{"id": f"train-{n}", "question": f"{n}?"} for n in range(batch_size)]

    def build_eval_env(self, env_num: int, split: str, seed: int) -> object:
        return [{"id": f"{split}-{n}", "question": f"{split} {n}?"} for n in range(env_num)]

    def rollout(self, env: list[dict[str, object]], skill_content: str, out_dir: str) -> object:
        print("rolled out", flush=True)
        taught = "Latin" in skill_content
        return [{"id": env[0]["id"], "hard": int(taught), "soft": float(taught), "response": "x"}]


def test_what_an_environment_prints_never_comes_between_the_results(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = ModuleType("talking")
    module.Talkative = Talkative  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "talking", module)
    patch = json.dumps({"reasoning": "r", "edits": [{"op": "append", "content": "Greet in Latin."}]})
    (tmp_path / "replies.json").write_text(json.dumps({"reflect": [patch]}))
    spec = "skillopt:talking:Talkative,n_train=4,n_val=4,n_test=8"
    store = ["--store", str(place.store_path), "--json"]

    def reported(code: int, *arguments: str) -> dict[str, object]:
        assert main([*arguments, *store]) == code
        said = capsys.readouterr()
        assert any(word in said.err for word in ("set up", "rolled out"))
        found = json.loads(said.out)
        assert isinstance(found, dict)
        return found

    skill, optimizer = tmp_path / "skills" / "greeter", f"scripted:{tmp_path / 'replies.json'}"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("# Greet\n")
    quick = ["--set", "epochs=1", "--yes"]
    begun = ["replay", str(skill), "--env", spec, "--optimizer", optimizer, *quick, "--max-calls", "8"]
    assert reported(1, *begun)["status"] == "stopped"
    done = reported(0, "replay", str(skill), "--resume", "--max-calls", "500", "--yes")
    assert done["verdict"] == "better"
    reported(0, "evaluate", str(done["candidate_id"]), "--target", f"env:{spec}", "--yes")


LOUD = """
import ctypes, os, subprocess, sys
from skillopt_mcp import NewTask, Rolled
from test_cli_streams import Talkative

def shout():
    subprocess.run(["echo", "by a subprocess"])
    os.system("echo by a shell")
    print("by the stream of the start", file=sys.__stdout__)
    ctypes.CDLL(None).printf(b"by C\\n")

class Loud(Talkative):
    def setup(self, cfg):
        shout()

class Broken(Talkative):
    def setup(self, cfg):
        shout()
        raise ValueError("no data")
"""


@pytest.mark.parametrize(("adapter", "key", "unbuffered"), [("Loud", "verdict", ""), ("Broken", "error", "1")])
def test_what_subprocesses_and_c_code_of_an_environment_write_never_comes_between_the_results(
    place: Place, tmp_path: Path, adapter: str, key: str, unbuffered: str
) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    (tmp_path / "replies.json").write_text('{"reflect": ["no patch"]}')
    spec = f"skillopt:loud:{adapter},n_train=2,n_val=2,n_test=2"
    quick = "--set epochs=1 --set slow_update=false --set meta_skill=false --yes --json"
    line = f"$S replay ledger-clerk --env {spec} --optimizer scripted:{tmp_path}/replies.json {quick}"
    paths = os.pathsep.join([str(tmp_path), *map(str, Path(__file__).parents[:3:2])])
    done = shell(place, line, PYTHONPATH=paths, PYTHONUNBUFFERED=unbuffered)
    assert key in json.loads(done.stdout), done.stderr
    for way in ("a subprocess", "a shell", "the stream of the start", "C"):
        assert f"by {way}\n" in done.stderr


@pytest.mark.parametrize(
    ("line", "unbuffered", "why"),
    [
        ("skills --json > /dev/full", "", "No space left on device"),
        ("skills --json > /dev/full", "1", "No space left on device"),
        ("skills >&-", "", "Bad file descriptor"),
    ],
)
def test_an_output_that_cannot_be_written_is_one_line_of_error(
    place: Place, line: str, unbuffered: str, why: str
) -> None:
    done = shell(place, f"$S {line}", PYTHONUNBUFFERED=unbuffered)
    reported = f"error: the output cannot be written ({why}): what was printed is not all\n"
    assert (done.returncode, done.stderr) == (1, reported)


def test_a_closed_input_or_stderr_is_no_error(place: Place) -> None:
    done = shell(place, "$S skills <&- 2>&-")
    assert done.returncode == 0
    assert done.stdout.startswith("ledger-clerk ")


@pytest.mark.parametrize("environ", ASCII, ids=["io", "locale"])
def test_what_an_alphabet_lacks_is_shown_as_escapes_and_an_export_is_utf_8(
    place: Place, environ: dict[str, str]
) -> None:
    done = shell(place, "$S tasks list ledger-clerk && $S tasks export ledger-clerk", **environ)
    assert done.returncode == 0, done.stderr
    _, listed, exported = done.stdout.splitlines()
    assert listed.startswith("f\\xfcnf  ")
    assert json.loads(exported)["id"] == "fünf"


def test_a_path_that_the_locale_cannot_spell_is_shown_with_the_way_out(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "über"
    folder.mkdir()
    (folder / "SKILL.md").write_text("# One\n")
    assert shell(place, f"$S show {folder}").returncode == 0
    done = shell(place, "$S skills", **ASCII[1])
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "cannot be spelled in this locale (ascii): set LC_ALL=C.UTF-8" in done.stderr


@pytest.mark.parametrize(("width", "first"), [(80, "id    split  judge  tags  prompt"), (24, "id: fünf")])
def test_a_terminal_gets_a_table_or_records_by_its_width(place: Place, width: int, first: str) -> None:
    line = f"script -qec 'stty cols {width}; $S tasks list ledger-clerk' /dev/null"
    done = shell(place, line, TERM="xterm", PYTHONUTF8="1")
    if done.returncode == 127:
        pytest.skip("no script(1) here to make a terminal")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).splitlines()
    assert shown[0] == first
    assert all(len(each) <= width for each in shown[: shown.index(next(s for s in shown if "1 task" in s))])


def test_tasks_are_added_from_standard_input(place: Place) -> None:
    rows = [{"prompt": f"Frage ü {n}", "judge": EXACT} for n in range(2)]
    done = subprocess.run(
        [*place.command, "tasks", "add", "ledger-clerk", "-", "--json"],
        input="\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode(),
        env={**os.environ, **ASCII[1]}, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["added"] == len(rows)
    with Workspace(place.store_path) as workspace:
        tasks = workspace.store.tasks.list_tasks(workspace.place.skill(str(place.skill_path)).id)
    assert {row["prompt"] for row in rows} < {task.prompt for task in tasks}


def test_a_stream_of_tasks_is_read_as_a_file_is_and_named_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_rows(BytesIO(b'[{"a": 1}, {"b": 2}]')) == [{"a": 1}, {"b": 2}]
    for content, reported in ((b"{}\n{", "the standard input line 2 is not JSON"), (b"\xff", "is not UTF-8 at byte 0")):
        with pytest.raises(BadInput, match=reported):
            read_rows(BytesIO(content))
    monkeypatch.setattr(limits, "TASK_FILE_BYTES", 3)
    with pytest.raises(BadInput, match="has more than 3 bytes: split it"):
        read_rows(BytesIO(b"[{}]"))
