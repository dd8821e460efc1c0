"""`tasks review`: a person keeps, fixes and drops what was drafted, by one key a task, at a terminal."""

from __future__ import annotations

import fcntl
import html
import json
import os
import pty
import re
import select
import shlex
import signal
import struct
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from console import SCRIPT, Cli, Place, parsed

from skillopt_mcp.actions.reviewing import list_cards, read_correction
from skillopt_mcp.core.mining import Draft
from skillopt_mcp.core.tasks import NewTask, TaskFile
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.tasks.splits import DEFAULT_SHARES
from skillopt_mcp.workspace.workspace import Workspace
from tests.processes import Script

KEYS = re.compile(r"\[k\]eep.*\? |\[f\]ix again, \[u\]ndo\? ")


def make_draft(n: int, expected: str = "") -> Draft:
    judge = parse_judge({"kind": "contains", "expected": [expected or f"(#{n})"]})
    prompt = f"Write the changelog line for ticket number {n} of quarter {n * 7}, which renames a field."
    task = NewTask(prompt, judge, f"line-{n}", tags=("ticket",), files=(TaskFile("a.txt", f"note {n * 31}"),))
    return Draft(task, "sessions", f"s-1#{n}", f"Rename a field (#{n})", "Rename a field", "where is the ticket?")


@pytest.fixture
def place(make_place: Callable[..., Place]) -> Place:
    """A skill with three drafts, the last of which has a judge that fails its accepted answer."""
    place = make_place(n_tasks=0)
    add_drafts(place, [make_draft(1), make_draft(2), make_draft(3, "(#4)")])
    return place


def add_drafts(place: Place, drafts: Sequence[Draft]) -> None:
    with Workspace(place.store_path) as workspace:
        skill = workspace.place.find_kept(str(place.skill_path))
        placed = workspace.store.tasks.add_tasks(skill.id, drafts, DEFAULT_SHARES, waits=True)
        assert all(each.is_new for each in placed)


def tasks_of(place: Place) -> list[Any]:
    with Workspace(place.store_path) as workspace:
        return workspace.store.tasks.list_in_use(workspace.place.find_kept(str(place.skill_path)).id)


class Person:
    """Someone at a terminal of 80x24, who waits for each question, and presses one key."""

    def __init__(self, place: Place, *arguments: object, editor: str = "", answers: Sequence[str] = ()) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        words = [SCRIPT, "--store", str(place.store_path), *map(str, arguments)]
        environ = {**os.environ, "TERM": "dumb", "EDITOR": editor}
        environ.pop("VISUAL", None)
        self.script = Script(words, place.skill_path, environ, [os.ttyname(theirs)] * 3)
        self.screens, rest, answers = list[str](), "", list(answers)
        while ours in select.select([ours, self.script.sentinel], [], [], 30)[0]:
            rest += os.read(ours, 65536).decode()
            if KEYS.search(rest) and answers:
                self.screens.append(rest.replace("\r\n", "\n"))
                rest, key = "", answers.pop(0)
                if key.startswith("\x1b"):  # nothing is asked again after it
                    os.write(ours, key.encode())
                    time.sleep(0.2)
                    key = answers.pop(0)
                os.write(ours, b"\x03" if key == "^C" else key.encode())
        self.code = self.script.wait(30)
        self.screens.append(rest.replace("\r\n", "\n"))
        self.out = "".join(self.screens)
        for each in (ours, theirs):
            os.close(each)


def write_editor(folder: Path, change: str) -> str:
    """An editor that runs `change` over the decoded `row`, or writes `text` where it sets that."""
    path = folder / "editor.py"
    path.write_text(
        f"import json, sys\npath = sys.argv[1]\nrow = json.loads(open(path).read() or '0')\ntext = ''\n{change}\n"
        "open(path, 'w').write(text or json.dumps(row))\n"
    )
    return f"python3 '{path}'"


def test_a_key_a_task_with_all_of_it_on_one_screen(place: Place, cli: Cli) -> None:
    person = Person(place, "tasks", "review", place.skill_path, answers=["k", "d", "s"])
    assert person.code == 0, person.out
    first, _, third, end = person.screens
    assert len(first.rstrip().splitlines()) <= 24, first
    for shown in (
        "line-1 (train, waits for a look); 3 left", "ticket number 1", "File a.txt: note 31",
        "Accepted: Rename a field (#1)", "Rejected: Rename a field", "Correction: where is the ticket?", '"contains"',
        "the accepted answer passes: yes", "the rejected one fails: yes", "an empty one fails: yes",
        "no key in prompt or files: yes", "sessions: s-1#1",
    ):  # fmt: skip
        assert shown in " ".join(first.split()), shown
    assert "the accepted answer passes: NO" in third
    assert "Fault: " in third
    assert "1 kept, 1 dropped, 1 not looked at" in end
    assert "tasks export" in end
    assert [(task.name, task.waits, task.looked_at) for task in tasks_of(place)] == [
        ("line-1", False, True), ("line-3", True, False),
    ]  # fmt: skip


def test_long_answers_are_cut_to_the_screen_and_what_decides_is_not(place: Place) -> None:
    draft = make_draft(9)
    long = "\n".join(f"line {n} of it" for n in range(100))
    add_drafts(place, [Draft(draft.task, "sessions", "s-2#0", f"(#9) {long}", long, "no")])
    [*_, last, _] = Person(place, "tasks", "review", place.skill_path, answers=["s"] * 4).screens
    assert len(last.rstrip().splitlines()) <= 25, last  # one is what the key before left
    assert "more lines: fix shows them" in last
    assert '"(#9)"' in last


def test_a_special_key_is_no_answer(place: Place) -> None:
    person = Person(place, "tasks", "review", place.skill_path, answers=["\x1b[a", "q"])
    assert person.code == 0
    assert "0 kept" in person.out


def test_a_fixed_task_stands_in_place_of_the_draft_and_is_the_persons(place: Place, tmp_path: Path) -> None:
    editor = write_editor(tmp_path, "row['judge']['expected'] = ['(#3)']")
    person = Person(place, "tasks", "review", place.skill_path, editor=editor, answers=["s", "s", "f", "k"])
    assert person.code == 0, person.out
    corrected = person.screens[3]
    assert "line-3, corrected" in corrected
    assert "the accepted answer passes: yes" in corrected
    assert "Fault" not in corrected
    assert "0 kept, 1 fixed, 0 dropped, 2 not looked at" in person.out
    [fixed] = [task for task in tasks_of(place) if task.looked_at]
    assert (fixed.name, fixed.judge.references(), fixed.waits) == ("line-3", ["(#3)"], False)
    with Workspace(place.store_path) as workspace:
        drafts = workspace.store.tasks.list_drafts(fixed.skill_id)
        assert drafts[fixed.id].rejected == "Rename a field"
        assert len(workspace.store.retirements.list_retired(fixed.skill_id)) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("text = '{\"prompt\": '", "this is no JSON"),
        ("row = 7", "a task is a JSON object"),
        ("row['judge'] = {'kind': 'command', 'name': 'nothing'}", "not registered"),
        ("row['accepted'] = 3", "accepted must be a text"),
        ("row['prompt'] = '   '", "prompt must be a text"),
        ("row['prompt'] = 'Use the key ghp_' + 'a1B2' * 9 + ', please.'", "secret"),
        ("sys.exit(3)", "ended with code 3"),
    ],
)
def test_a_broken_file_stores_nothing_and_may_be_fixed_again(
    place: Place, tmp_path: Path, change: str, said: str
) -> None:
    before = tasks_of(place)
    editor = write_editor(tmp_path, change)
    person = Person(place, "tasks", "review", place.skill_path, editor=editor, answers=["f", "u", "q"])
    assert said in " ".join(person.out.split())
    assert "0 kept, 0 dropped, 3 not looked at" in person.out
    assert tasks_of(place) == before


@pytest.mark.parametrize(
    "change",
    [
        "row['id'] = 'renamed'",
        "row['tags'] = ['queue']",
        "row['group'] = 'g'",
        "row['accepted'] = 'Rename it (#1)'",
        "",
    ],
)
def test_a_correction_of_what_does_not_judge_is_taken(place: Place, tmp_path: Path, change: str) -> None:
    editor = write_editor(tmp_path, change or "pass")
    person = Person(place, "tasks", "review", place.skill_path, editor=editor, answers=["f", "k", "q"])
    assert (person.code, "0 kept, 1 fixed, 0 dropped, 2 not looked at" in person.out) == (0, True), person.out
    row = {"id": "line-1", "tags": ["ticket"], "group": "", "accepted": "Rename a field (#1)"}
    exec(change, {"row": row})
    [fixed] = [task for task in tasks_of(place) if task.looked_at]
    with Workspace(place.store_path) as workspace:
        draft = workspace.store.tasks.list_drafts(fixed.skill_id)[fixed.id]
        assert workspace.store.retirements.list_retired(fixed.skill_id) == {}
    assert (fixed.name, list(fixed.tags), fixed.group, draft.accepted, fixed.waits) == (*row.values(), False)


def test_a_corrected_id_that_another_task_has_is_named_and_nothing_is_stored(place: Place, tmp_path: Path) -> None:
    before = tasks_of(place)
    editor = write_editor(tmp_path, "row['id'] = 'line-2'")
    person = Person(place, "tasks", "review", place.skill_path, editor=editor, answers=["f", "k", "u", "q"])
    assert 'id "line-2" is taken by another task' in " ".join(person.out.split())
    assert tasks_of(place) == before


def test_a_prompt_that_another_task_has_is_not_stored_and_the_draft_stays(place: Place, tmp_path: Path) -> None:
    before = tasks_of(place)
    twin = json.dumps(before[1].prompt)
    editor = write_editor(
        tmp_path,
        f"row['prompt'] = {twin}; row['files'] = {{'a.txt': 'note 62'}}; row['judge']['expected'] = ['(#2)']",
    )
    person = Person(place, "tasks", "review", place.skill_path, editor=editor, answers=["f", "k", "u", "q"])
    assert "Nothing was stored" in person.out
    assert tasks_of(place) == before


def test_ctrl_c_loses_neither_the_draft_nor_the_text(place: Place, tmp_path: Path) -> None:
    before = tasks_of(place)
    editor = write_editor(tmp_path, "row['prompt'] = 'My long correction.'")
    person = Person(place, "tasks", "review", place.skill_path, editor=editor, answers=["f", "^C"])
    assert person.code == 128 + signal.SIGINT
    assert tasks_of(place) == before
    kept = Path(person.out.split("your text is in ")[1].split()[0])
    assert json.loads(kept.read_text())["prompt"] == "My long correction."
    assert kept.stat().st_mode & 0o77 == 0
    kept.unlink()


def test_a_copied_command_keeps_and_drops_for_a_person_alone(place: Place, cli: Cli, monkeypatch: Any) -> None:
    done = cli("tasks", "review", place.skill_path, "--keep", "line-1", store=place.store_path)
    assert done.returncode == 1, "its standard error is no terminal"
    person = Person(place, "tasks", "review", place.skill_path, "--keep", "line-1", "--drop", "line-2")
    assert person.code == 0, person.out
    assert "1 kept, 1 dropped, 1 not looked at" in person.out
    again = Person(place, "tasks", "review", place.skill_path, "--keep", "line-1", "--drop", "line-3")
    assert again.code == 1
    assert 'no task "line-1" waits' in again.out
    assert [task.name for task in tasks_of(place)] == ["line-1", "line-3"], "nothing is done where one id is wrong"
    shown = parsed(cli("tasks", "list", place.skill_path, "--json", store=place.store_path))
    assert sum(shown["splits"].values()) == 2
    monkeypatch.setenv("CLAUDECODE", "1")
    assert Person(place, "tasks", "review", place.skill_path, "--keep", "line-3").code == 1


def test_an_id_that_comes_twice_is_kept_once_and_a_wrong_one_to_drop_keeps_nothing(place: Place) -> None:
    wrong = Person(place, "tasks", "review", place.skill_path, "--keep", "line-1", "--drop", "line-7")
    assert (wrong.code, [task.looked_at for task in tasks_of(place)]) == (1, [False] * 3)
    person = Person(place, "tasks", "review", place.skill_path, "--keep", "line-1", "--keep", "line-1")
    assert (person.code, "1 kept, 0 dropped, 2 not looked at" in person.out) == (0, True), person.out


def test_keep_all_reaches_no_further_than_what_was_added_together(place: Place) -> None:
    time.sleep(0.01)
    add_drafts(place, [make_draft(9)])
    person = Person(place, "tasks", "review", place.skill_path, answers=["a", "q"])
    assert (person.code, "keep [a]ll 3 added with it" in person.screens[0]) == (0, True)
    assert [task.name for task in tasks_of(place) if not task.looked_at] == ["line-9"]


@pytest.mark.parametrize("verb", ["keep", "drop"])
def test_an_id_that_begins_with_a_hyphen_is_copied_so_that_it_is_taken(place: Place, cli: Cli, verb: str) -> None:
    draft = make_draft(9)
    add_drafts(place, [replace(draft, task=replace(draft.task, name="--yes"))])
    page = place.store_path.with_name("page.html")
    made = cli("report", place.skill_path, "--html", page, store=place.store_path)
    assert made.returncode == 0, made.stderr
    [line] = re.findall(rf'<pre class="cmd">([^<]*--{verb}=--yes[^<]*)</pre>', page.read_text())
    words = shlex.split(html.unescape(line))
    done = Person(place, *words[1 : words.index("--store")])
    assert (done.code, "--yes" in [task.name for task in tasks_of(place) if not task.looked_at]) == (0, False), done.out
    typed = cli("tasks", "review", place.skill_path, f"--{verb}", "--yes", store=place.store_path)
    assert (typed.returncode, "begins with - follows a =" in typed.stderr) == (2, True)


def test_a_card_says_what_its_judge_lets_through_and_a_corrected_answer_holds_no_secret(place: Place) -> None:
    draft, secret = make_draft(9), "ghp_" + "a1B2c3D4" * 4 + "e5F6"
    exact = parse_judge({"kind": "final_answer", "expected": ["ticket"]})
    points = parse_judge({"kind": "rubric", "points": ["It names the ticket."]})
    leaky = replace(draft.task, judge=exact, name="leaky", group="pair")
    asked = replace(draft.task, judge=points, name="asked", prompt="Name it.")
    add_drafts(place, [replace(draft, task=leaky), replace(draft, task=asked)])
    with Workspace(place.store_path) as workspace:
        cards = {card.task.name: card for card in list_cards(workspace.store, workspace.place, str(place.skill_path))}
        row = json.loads(cards["line-1"].as_json)
        text = json.dumps(row | {"accepted": f"{row['accepted']} {secret}"})
        corrected = read_correction(workspace.store, workspace.place, cards["line-1"], text)
    assert "no key in prompt or files: NO" in dict(cards["leaky"].sections)["Checks"]
    assert dict(cards["leaky"].sections)["Group"] == "pair"
    assert dict(cards["asked"].sections)["Checks"].startswith("none: its judge asks a model")
    assert "split" not in row
    assert corrected.draft
    assert secret not in corrected.draft.accepted
