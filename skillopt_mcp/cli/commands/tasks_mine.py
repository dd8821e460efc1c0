"""Tasks mine: have tasks drafted from a skill's text, what a person says, their sessions and a repository."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Annotated, Any

from skillopt_mcp.actions.commits import mine_commits
from skillopt_mcp.actions.mining import DEFAULT_TASKS, Mining, advance_mining, plan_mining
from skillopt_mcp.actions.sessions import read_host_sessions
from skillopt_mcp.cli.command import OPTIMIZER, SKILL, Arg, Flag, WrongUsage, command
from skillopt_mcp.cli.spending import Planned, Spending, require_backends
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.cli.watching import show_work
from skillopt_mcp.core.mining import Source
from skillopt_mcp.core.notes import describe_note
from skillopt_mcp.core.results import TasksAdded
from skillopt_mcp.core.text import counted, escaped
from skillopt_mcp.workspace.jobs import Wait

_QUESTIONS = (
    "What goes wrong with this skill (Enter for nothing)?",
    "An example: what did you ask for?",
    "What should the answer have been?",
    "What else goes wrong?",
    "What must an answer never do?",
)


@command("tasks mine", example="tasks mine my-skill --complaint 'forgets the ticket number'")
class MineTasks(Spending):
    """Have tasks drafted from a skill's text, your complaints, sessions and commits, and checked by machine."""

    skill: Annotated[str, Arg(SKILL)]
    complaint: Annotated[list[str], Flag("what goes wrong; at a terminal you are asked (may be repeated)", "TEXT")]
    sessions: list[str] | None = None
    repo: Annotated[str | None, Flag("the commits of a git repository instead, without a model", "PATH")] = None
    program: Annotated[str, Flag("with --repo: the registered judge program that runs tests of commits", "NAME")] = ""
    since: Annotated[str, Flag("only sessions or commits from then on, such as 2026-11-01", "DATE")] = ""
    tasks: Annotated[int, Flag("how many to draft")] = DEFAULT_TASKS
    optimizer: Annotated[str | None, Flag(f"drafts them, for instance {OPTIMIZER}", "BACKEND:MODEL")] = None

    @classmethod
    def declare(cls, parser: ArgumentParser) -> None:
        text = "what you asked and corrected in sessions of Claude Code and Codex; PATH: transcripts, or their folders"
        parser.add_argument("--sessions", nargs="*", metavar="PATH", help=text)

    def run(self, terminal: Terminal) -> TasksAdded | Planned:
        if self.repo is not None:
            return self._mine_commits(terminal, self.repo)
        if self.program:
            raise WrongUsage("--program runs tests of commits: give --repo, too")
        require_backends(optimizer=self.optimizer)
        with terminal.workspace(optimizer=self.optimizer, caps=self.caps) as workspace:
            store, models, place = workspace.store, workspace.models, workspace.place
            self.name_models(terminal, models)
            complaints = self.complaint or self._ask_person(terminal)
            sources: tuple[Source, ...] = ("skill",)
            if self.sessions is not None:
                sources = ("skill", "sessions")
                place.skill(self.skill)  # of tracked skills alone
                with show_work(terminal) as progress:
                    paths = [Path(each).expanduser() for each in self.sessions]
                    read = read_host_sessions(store, place, paths, lambda n, of: progress("reading sessions", n, of))
                for problem in read.problems:
                    terminal.note(f"error: {problem.path}: {problem.reason}")
            plan = plan_mining(store, place, self.skill, Mining(sources, self.tasks, complaints, self.since))
            text = f"At most {counted(self.tasks, 'task')}, by at most {plan.n_questions} optimizer calls."
            return self.agree(terminal, workspace, {"optimizer": plan.n_questions}, text) or advance_mining(
                store, models, place, plan, Wait()
            )

    def _mine_commits(self, terminal: Terminal, repository: str) -> TasksAdded | Planned:
        if self.complaint or self.sessions is not None or self.optimizer:
            raise WrongUsage("--repo asks no model: give --complaint, --sessions and --optimizer without it")
        with terminal.workspace() as workspace:
            store, place = workspace.store, workspace.place
            plan = plan_mining(store, place, self.skill, Mining(("repo",), self.tasks, (), self.since))
            text = f"At most {counted(self.tasks, 'task')} out of the commits of {repository}, by no call."
            if planned := self.agree(terminal, workspace, {}, text):
                return planned
            if self.program:
                terminal.require_consent("tasks mine --repo --program")
                question = f"Run the tests of its commits by '{self.program}', as a judge is run?"
                terminal.ask(question, yes=self.yes, declined="No test was run, and no task added.")
            return mine_commits(store, place, plan, Path(repository).expanduser(), self.program)

    def _ask_person(self, terminal: Terminal) -> list[str]:
        """What a person at a terminal says goes wrong, by at most five questions; nobody else is asked."""
        if not terminal.is_interactive or terminal.is_json or self.dry_run:
            return []
        said = list[str]()
        for question in _QUESTIONS:
            sys.stderr.write(f"{escaped(question)} ")
            sys.stderr.flush()
            said.append(sys.stdin.readline().strip())
            if not said[0]:
                return []
        first = ". ".join(filter(None, (said[0], said[1] and f"Asked: {said[1]}", said[2] and f"Right: {said[2]}")))
        return [first, *filter(None, (said[3], said[4] and f"An answer must never: {said[4]}"))]

    def show(self, result: TasksAdded | Planned, terminal: Terminal) -> None:
        if isinstance(result, Planned):
            result.show(terminal)
            return
        for reason in result.dropped:
            terminal.note(f"dropped: {reason}")
        if more := result.n_rejected - len(result.dropped):
            terminal.note(f"dropped: and {more} more")
        for tag, n in result.drafted.items():
            terminal.say(f"    {tag}: {n}")
        same = f", {result.duplicates} there already" if result.duplicates else ""
        terminal.say(f"{counted(result.added, 'task')} drafted{same}, {result.n_rejected} dropped.")
        for note in result.notes:
            terminal.note(f"note: {describe_note(note)}")

    def exit_code(self, result: Any) -> int:
        return int(isinstance(result, TasksAdded) and not result.added + result.duplicates)
