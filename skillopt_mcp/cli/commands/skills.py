"""Skills: which there are and where, and which of them may be written, as only a person can say."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.operations.consenting import Consent
from skillopt_mcp.operations.listing import list_skills
from skillopt_mcp.operations.moving import forget_skill, move_skill
from skillopt_mcp.operations.permitting import add_root, permit, revoke
from skillopt_mcp.operations.results import SkillRow
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """What to do (nothing: list) and with which folder or skill."""

    action: str | None = None
    name: str = ""
    to: str = ""
    simulated: bool = False
    yes: bool = False


def run(options: Options) -> int:
    """Return 0 when it was done, 1 when the person did not permit it."""
    with Workspace(options.store_path) as workspace:
        if options.action is None:
            _list(workspace, options)
        elif options.action == "add-root":
            terminal.require_person("skills add-root")
            root = add_root(workspace, options.name)
            _done({"root": str(root)}, f"Skills inside {root} may be promoted now.", options)
        elif options.action == "permit":
            return _permit(workspace, options)
        elif options.action == "move":
            terminal.require_person("skills move")
            moved = move_skill(workspace, options.name, options.to)
            said = f"{moved.skill} is at {moved.path} now (was {moved.before})."
            _done(moved.model_dump(mode="json"), f"{said}\n{moved.next_step}", options)
        elif options.action == "forget":
            terminal.require_person("skills forget")
            gone = forget_skill(workspace, options.name)
            said = f"{gone.skill} is listed no more; the store keeps {gone.kept or 'its versions'}."
            _done(gone.model_dump(mode="json"), f"{said}\n{gone.next_step}", options)
        else:
            skill = revoke(workspace, options.name)
            _done({"skill": skill.name, "permitted": False}, f"{skill.name} needs a person's yes again.", options)
    return 0


def _permit(workspace: Workspace, options: Options) -> int:
    terminal.require_person("skills permit")
    name = workspace.skill(options.name).name
    what = "accepted candidates, simulated ones too," if options.simulated else "accepted candidates"
    where = "where the guard found nothing and they are small edits of the text"
    covered = f"promote {what} of {name} without asking from now on, {where}"
    if not terminal.agreed(f"May an agent {covered}?", yes=options.yes, ask=not options.json):
        terminal.note("Nothing was permitted.")
        return 1
    agreed = Consent.COMMAND if options.yes and not terminal.is_interactive() else Consent.PERSON
    permit(workspace, options.name, simulated=options.simulated, given_by=agreed.value)
    text = f"An agent may {covered}.\nTake it back with: skillopt-mcp skills revoke {shlex.quote(name)}"
    _done({"skill": name, "permitted": True, "simulated": options.simulated}, text, options)
    return 0


def _done(value: dict[str, object], text: str, options: Options) -> None:
    if options.json:
        terminal.emit(value)
    else:
        terminal.say(options.on_store(text))


def _list(workspace: Workspace, options: Options) -> None:
    page = list_skills(workspace)
    rows = list(page.skills)
    while page.cursor:
        page = list_skills(workspace, page.cursor)
        rows += page.skills
    if options.json:
        terminal.emit({"skills": [row.model_dump(mode="json") for row in rows]})
        return
    for row in rows:
        _say(row, options)
    if not rows:
        terminal.say("No skill was found. Give the path of a skill folder once, and it is known from then on:")
        terminal.say(options.on_store("  skillopt-mcp show PATH/TO/SKILL"))


def _say(row: SkillRow, options: Options) -> None:
    if not row.tracked:
        terminal.say(f"{row.name}  (not tracked yet)")
        terminal.say(f"    {row.path}", style="dim")
        return
    splits, locked = row.splits, "" if row.promotable else "  (in no skill root: it cannot be promoted)"
    terminal.say(f"{row.name}  live {row.live_version}{locked}")
    terminal.say(
        f"    tasks: {splits.train} train, {splits.val} val, {splits.test} test; attempts: {row.n_trajectories} "
        f"({row.n_new} new); open candidates: {row.open_candidates}"
    )
    terminal.say(f"    {row.path}", style="dim")
    tasks_of = f"skillopt-mcp tasks add {shlex.quote(row.name)} FILE"
    step = terminal.advice(row.next_step.replace("add_tasks", tasks_of), options)
    terminal.say(f"    next: {step}", style="dim")
