"""Tasks review: a person looks at the tasks that nobody has looked at, and keeps, corrects or drops each."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Annotated, Any

from skillopt_mcp.actions.reviewing import (
    ANSWERS,
    ReviewCard,
    correct_task,
    find_unseen,
    keep_tasks,
    list_cards,
    read_correction,
)
from skillopt_mcp.actions.tasks import note_spread, remove_tasks
from skillopt_mcp.cli.command import SKILL, Arg, Command, Flag, command
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.core.errors import BadInput, Refused, SkillOptError
from skillopt_mcp.core.notes import describe_note
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.core.text import escaped
from skillopt_mcp.workspace.skill_folders import quote_handle
from skillopt_mcp.workspace.workspace import Workspace

_LEAST_LINES = 2
_ESCAPE_S = 0.02


@command("tasks review", example="tasks review my-skill", needs_store=True, is_persons=True)
class ReviewTasks(Command):
    """Look at the tasks that no person has looked at: keep, fix, drop or skip each, by one key.

    Those that waited in train are split. A fix opens the task in $VISUAL or $EDITOR.
    """

    skill: Annotated[str, Arg(SKILL)]
    keep: Annotated[tuple[str, ...], Flag("keep this one, as the live page shows it (may be repeated)", "ID")] = ()
    drop: Annotated[tuple[str, ...], Flag("drop this one (may be repeated)", "ID")] = ()

    def run(self, terminal: Terminal) -> dict[str, Any]:
        if not terminal.is_interactive:
            raise Refused("'tasks review' needs a terminal to show the tasks at: run it in one")
        self._counts = dict.fromkeys(("kept", "fixed", "dropped", "left"), 0)
        with terminal.workspace() as workspace:
            store, place = workspace.store, workspace.place
            skill = place.find_kept(self.skill)
            if self.keep or self.drop:
                find_unseen(store, place, self.skill, [*self.keep, *self.drop])
                self._keep(workspace, find_unseen(store, place, self.skill, self.keep), terminal)
                self._drop(workspace, self.drop)
            else:
                self._review(workspace, terminal)
            self._counts["left"] = len(list_cards(store, place, self.skill))
            splits = store.tasks.count_tasks(skill.id)
            self._notes = note_spread(store.tasks.list_in_use(skill.id))
            self._handle = quote_handle(store, skill)
        notes = [each.model_dump() for each in self._notes]
        return {"skill": self.skill, **self._counts, "splits": splits, "notes": notes}

    def _review(self, workspace: Workspace, terminal: Terminal) -> None:
        left = list_cards(workspace.store, workspace.place, self.skill)
        while left:
            card = left[0]
            together = [each for each in left if each.task.created_at == card.task.created_at]
            waits = ", waits for a look" if card.task.waits else ""
            _show_card(card, f"{card.task.name} ({card.task.split}{waits}); {len(left)} left", terminal)
            everyone = f"keep [a]ll {len(together)} added with it"
            key = _ask_key(f"[k]eep, [f]ix, [d]rop, [s]kip, {everyone}, [q]uit? ", "kfdsaq")
            if key == "q":
                return
            if key == "f" and not self._fix(workspace, card, terminal):
                continue
            done = together if key == "a" else [card]
            if key == "d":
                self._drop(workspace, [card.task.name])
            elif key in "ka":
                self._keep(workspace, [each.task for each in done], terminal)
            left = [each for each in left if each not in done]

    def _keep(self, workspace: Workspace, tasks: list[Task], terminal: Terminal) -> None:
        for task, each in zip(tasks, keep_tasks(workspace.store, workspace.place, tasks), strict=True):
            self._counts["kept"] += not each.fault
            terminal.note(f"error: {task.name}: {each.fault}" if each.fault else f"{task.name}: kept, in {each.split}.")

    def _drop(self, workspace: Workspace, ids: list[str] | tuple[str, ...]) -> None:
        done = remove_tasks(workspace.store, workspace.place, self.skill, ids, "dropped")
        self._counts["dropped"] += len(done.removed)

    def _fix(self, workspace: Workspace, card: ReviewCard, terminal: Terminal) -> bool:
        """Have a person edit a task, and store what comes of it; whether it was stored. The text outlives a Ctrl-C."""
        handle, name = tempfile.mkstemp(prefix="task-", suffix=".json")  # 0600, as it may be held out
        with open(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(card.as_json)
        is_over = False
        try:
            while True:
                corrected = None
                try:
                    _edit(name)
                    text = Path(name).read_text("utf-8")
                    corrected = read_correction(workspace.store, workspace.place, card, text)
                    _show_card(corrected, f"{corrected.task.name}, corrected", terminal)
                except (SkillOptError, OSError, ValueError) as error:
                    terminal.note(f"error: {error}. Nothing was stored.")
                keys = "kfu" if corrected else "fu"
                key = _ask_key(f"{'[k]eep it so, ' * bool(corrected)}[f]ix again, [u]ndo? ", keys)
                if key == "k" and corrected:
                    try:
                        placed = correct_task(workspace.store, workspace.place, card, corrected)
                    except BadInput as error:
                        terminal.note(f"error: {error}. Nothing was stored.")
                        continue
                    self._counts["fixed"] += 1
                    terminal.note(f"{corrected.task.name}: corrected and kept, in {placed.split}.")
                is_over = key != "f"
                if is_over:
                    return key == "k"
        finally:
            if is_over:
                os.unlink(name)
            else:
                terminal.note(f"{card.task.name} is as it was; your text is in {name}")

    def show(self, result: dict[str, Any], terminal: Terminal) -> None:
        shares = ", ".join(f"{n} {split}" for split, n in result["splits"].items())
        fixed = f"{result['fixed']} fixed, " if result["fixed"] else ""
        terminal.say(
            f"{result['kept']} kept, {fixed}{result['dropped']} dropped, {result['left']} not looked at; {shares}."
        )
        for note in self._notes:
            terminal.note(f"note: {describe_note(note)}.")
        if result["kept"] + result["fixed"]:
            terminal.note("Write them into the repository:")
            terminal.command(f"skillopt-mcp tasks export {self._handle} PATH --format NAME")


def _show_card(card: ReviewCard, title: str, terminal: Terminal) -> None:
    """Print a task so that it fits on a screen, if that takes no more than cutting the answers of its draft."""
    width, height = os.get_terminal_size(sys.stderr.fileno())
    width, height = width or 80, height or 24
    parts = list[tuple[bool, list[str]]]()
    for name, text in card.sections:
        lines = f"{name}: {escaped(text)}".splitlines() or [""]
        wrapped = [part for line in lines for part in (textwrap.wrap(line, width, drop_whitespace=False) or [""])]
        parts.append((name.lower() in ANSWERS, wrapped))
    n_answers = sum(is_answer for is_answer, _ in parts)
    room = height - 3 - sum(len(lines) for is_answer, lines in parts if not is_answer)  # the title, a blank, the keys
    most = max(_LEAST_LINES, room // max(1, n_answers))
    terminal.say(f"\n{title}", "bold")
    for is_answer, lines in parts:
        is_cut = is_answer and len(lines) > most
        for line in lines[: most - 1] if is_cut else lines:
            terminal.say(line)
        if is_cut:
            terminal.say(f"[... {len(lines) - most + 1} more lines: fix shows them]")


def _ask_key(question: str, keys: str) -> str:
    """One of `keys`, as soon as a person presses it; "q" or "u", whichever there is, where no more can come."""
    sys.stderr.write(question)
    sys.stderr.flush()
    found = " "
    while found not in keys:
        found = _read_key() or keys[-1]
    sys.stderr.write(f"{found}\n")
    return found


def _read_key() -> str:
    """A key that was pressed, "" at the end of the input; a sequence of a special key is no key."""
    try:
        import termios  # noqa: PLC0415 (not there on Windows)
        import tty  # noqa: PLC0415
    except ImportError:
        return sys.stdin.readline().strip().lower()[:1]
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)
        key = os.read(terminal, 1)
        if key == b"\x1b":
            while select.select([terminal], [], [], _ESCAPE_S)[0]:
                os.read(terminal, 16)
            return " "
        return "" if key in (b"", b"\x04") else key.decode("ascii", "replace").lower()
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _edit(name: str) -> None:
    """Open a file in the person's editor until they leave it. Raises BadInput where that fails."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    # Ctrl-C is the editor's own while it is open.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.call([*shlex.split(editor), name])
    except (OSError, ValueError) as error:
        raise BadInput(f"the editor '{editor}' cannot be run ({error}): set $VISUAL or $EDITOR") from None
    finally:
        signal.signal(signal.SIGINT, before)
    if code:
        raise BadInput(f"the editor '{editor}' ended with code {code}")
