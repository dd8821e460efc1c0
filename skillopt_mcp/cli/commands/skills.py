"""Skills: list them, say where they are and which may be written."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from skillopt_mcp.cli.command import AGREED, SKILL, Arg, Command, Flag, command
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.skills import PromotedAway, SkillRow
from skillopt_mcp.core.text import counted, or_more
from skillopt_mcp.reports.listing import all_skills
from skillopt_mcp.store.pending import MOST_COUNTED
from skillopt_mcp.workspace.skill_folders import handle, root_for

if TYPE_CHECKING:
    from skillopt_mcp.workspace.skills import Forgotten, Moved

_FEW = 10


@command("skills list", example="skills", also="skills", needs_store=True)
class ListSkills(Command):
    """List the skills, with what to do next with each."""

    long: Annotated[bool, Flag("all that is known of each, however many there are")] = False

    def run(self, terminal: Terminal) -> dict[str, Any]:
        with terminal.workspace() as workspace:
            rows = all_skills(workspace.store, workspace.place)
            if terminal.is_watched:
                for row in rows:
                    if row.away:
                        workspace.store.promotions.note_seen(workspace.place.find_kept(row.path).id)
        # What is next is a command for a person, who tracks a skill.
        for n, row in enumerate(rows):
            if not row.tracked and row.next_step.action == "record_trajectory":
                step = NextStep(action="skills track", arguments={"folder": row.path}, why=row.next_step.why)
                rows[n] = replace(row, next_step=step)
        return {"skills": rows}

    def show(self, result: dict[str, list[SkillRow]], terminal: Terminal) -> None:
        rows = result["skills"]
        for row in rows:
            if row.away:
                show_away(row.name, row.away, terminal)
            if row.outdated:
                terminal.say(f"{row.name}: {row.outdated}")
        if len(rows) > _FEW and not self.long:
            terminal.table(("skill", "tasks", "attempts", "new", "open", "next"), _cells(rows, terminal))
            if n_locked := sum(not row.promotable for row in rows):
                terminal.note(f"{counted(n_locked, 'skill')} in no skill root cannot be promoted (skills add-root).")
            terminal.note("All that is known of each: --long")
            return
        for row in rows:
            _show(row, terminal)
        if not rows:
            terminal.say("No skill was found. Name the path of a skill folder once:")
            terminal.command("skillopt-mcp skills track PATH/TO/SKILL")


@command("skills add-root", example="skills add-root ~/code/skills", is_persons=True)
class AddRoot(Command):
    """Allow promotions into the skills of a folder."""

    path: Annotated[str, Arg("the folder that holds the skill folders")]

    def run(self, terminal: Terminal) -> dict[str, str]:
        from skillopt_mcp.actions.promotions.consent import add_root  # noqa: PLC0415 (the list needs none of it)

        with terminal.workspace() as workspace:
            return {"root": str(add_root(workspace.store, self.path))}

    def show(self, result: dict[str, str], terminal: Terminal) -> None:
        terminal.say(f"Skills inside {result['root']} may be promoted now.")


@command("skills track", example="skills track .claude/skills/my-skill")
class Track(Command):
    """Start to record what a skill is used for; its files stay as they are."""

    skill: Annotated[str, Arg("its folder, or its name where it lies in a skill folder of a host")]

    def run(self, terminal: Terminal) -> dict[str, Any]:
        with terminal.workspace() as workspace:
            skill = workspace.place.skill(self.skill)
        return {"skill": skill.name, "path": skill.path, "tracked": True}

    def show(self, result: dict[str, Any], terminal: Terminal) -> None:
        terminal.say(f"{result['skill']} is tracked, at {result['path']}.")
        terminal.note("The capture hooks record from now on; past sessions: skillopt-mcp tasks mine SKILL --sessions")


@command("skills permit", example="skills permit my-skill")
class Permit(Command):
    """Let an agent promote small edits of words without asking that are better by our own runs of the target.

    Evidence that a host's agents made, edits in which the guard found something, and edits that touch code or a command
    are asked about each time.
    """

    skill: Annotated[str, Arg(SKILL)]
    simulated: Annotated[bool, Flag("evidence of a simulation is enough")] = False
    yes: Annotated[bool, AGREED] = False

    def run(self, terminal: Terminal) -> dict[str, Any]:
        from skillopt_mcp.actions.promotions.consent import permit  # noqa: PLC0415 (the list needs none of it)

        terminal.require_consent("skills permit", is_standing=True)
        with terminal.workspace() as workspace, terminal.review():
            skill = workspace.place.skill(self.skill)
            more = ["simulated ones"] * self.simulated
            self._covers = f"small accepted edits of {skill.name} that touch no code{', also '.join(['', *more])}"
            terminal.ask(
                f"May an agent promote, without asking, {self._covers}?", yes=self.yes,
                declined="Nothing was permitted.",
            )  # fmt: skip
            permit(workspace.store, workspace.place, self.skill, simulated=self.simulated)
            self._handle = shlex.quote(handle(workspace.store, skill))
        return {"skill": skill.name, "permitted": True, "simulated": self.simulated}

    def show(self, result: dict[str, Any], terminal: Terminal) -> None:
        terminal.say(f"An agent may promote, without asking, {self._covers}. Take it back with:")
        terminal.command(f"skillopt-mcp skills revoke {self._handle}")


@command("skills revoke", example="skills revoke my-skill")
class Revoke(Command):
    """Take that permission back."""

    skill: Annotated[str, Arg(SKILL)]

    def run(self, terminal: Terminal) -> dict[str, Any]:
        from skillopt_mcp.actions.promotions.consent import revoke  # noqa: PLC0415

        with terminal.workspace() as workspace:
            return {"skill": revoke(workspace.store, workspace.place, self.skill).name, "permitted": False}

    def show(self, result: dict[str, Any], terminal: Terminal) -> None:
        terminal.say(f"A person has to agree to each promotion of {result['skill']} again.")


@command("skills move", example="skills move my-skill ~/code/skills/new-name", needs_store=True, is_persons=True)
class Move(Command):
    """Record that a skill's folder was renamed or moved: its history goes with it."""

    skill: Annotated[str, Arg("the skill's name, or the path where it was", "OLD")]
    to: Annotated[str, Arg("the path where it is now, or its folder's new name", "NEW")]

    def run(self, terminal: Terminal) -> Moved:
        from skillopt_mcp.workspace.skills import move_skill  # noqa: PLC0415

        with terminal.workspace() as workspace:
            return move_skill(workspace.store, workspace.place, self.skill, self.to)

    def show(self, result: Moved, terminal: Terminal) -> None:
        terminal.say(f"{result.skill} has moved to {result.path} (was {result.before}).")


@command("skills forget", example="skills forget my-skill", needs_store=True, is_persons=True)
class Forget(Command):
    """Hide a skill whose folder is gone; its history is kept."""

    skill: Annotated[str, Arg(SKILL)]

    def run(self, terminal: Terminal) -> Forgotten:
        from skillopt_mcp.workspace.skills import forget_skill  # noqa: PLC0415

        with terminal.workspace() as workspace:
            return forget_skill(workspace.store, workspace.place, self.skill)

    def show(self, result: Forgotten, terminal: Terminal) -> None:
        terminal.say(f"{result.skill} is hidden; kept: {result.kept or 'its versions'}.")


def show_away(name: str, away: PromotedAway, terminal: Terminal) -> None:
    """Show what was promoted without a person, and the commands that show and undo it."""
    terminal.say(f"{name}: {away.note} ({away.at}, {away.previous_version} -> {away.version}). Show it, or undo it:")
    terminal.command(away.diff)
    terminal.command(away.undo)


def _next(row: SkillRow, terminal: Terminal) -> str:
    return row.next_step.as_line(terminal.store, is_agents=terminal.is_agents).removeprefix("Next").lstrip(":, ")


def _cells(rows: Sequence[SkillRow], terminal: Terminal) -> list[tuple[str, ...]]:
    n_of = Counter(row.name for row in rows)
    cells = []
    for row in rows:
        name = row.path if n_of[row.name] > 1 or row.name.startswith("-") else row.name
        numbers: tuple[str, ...] = ("-", "-", "-", "-")
        if row.tracked:
            n_tasks, n_new = row.splits.train + row.splits.val + row.splits.test, or_more(row.n_new, MOST_COUNTED)
            numbers = (f"{n_tasks:,}", f"{row.n_trajectories:,}", n_new, str(row.open_candidates))
        cells.append((name, *numbers, _next(row, terminal)))
    return cells


def _show(row: SkillRow, terminal: Terminal) -> None:
    locked = "" if row.promotable else "  (in no skill root: it cannot be promoted)"
    live = f"live {row.live_version}" if row.tracked else "(not tracked yet)"
    terminal.say(f"{row.name}  {live}{locked}")
    if row.tracked:
        splits, n_new = row.splits, or_more(row.n_new, MOST_COUNTED)
        terminal.say(
            f"    tasks: {splits.train} train, {splits.val} val, {splits.test} test; attempts: {row.n_trajectories} "
            f"({n_new} new); open candidates: {row.open_candidates}"
        )
    for code, tags in row.gaps.items():
        from skillopt_mcp.core.notes import Note, describe_note  # noqa: PLC0415 (pydantic: only where there are any)

        terminal.note(f"    {describe_note(Note(code=code, ids=tags))}")
    terminal.say(f"    {row.path}", "dim")
    if locked:
        terminal.say("    to allow it:", "dim")
        terminal.command(f"  skillopt-mcp skills add-root {shlex.quote(root_for(row.path))}")
    if step := _next(row, terminal):
        terminal.say(f"    next: {step}", "dim")
