"""Skills: which there are and where, and which of them may be written, as only a person can say."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.documents.counts import counted, or_more
from skillopt_mcp.operations.changes.advising import by_a_person
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.changes.permitting import add_root, permit, revoke
from skillopt_mcp.operations.finding import called, root_for
from skillopt_mcp.operations.looks.listing import TO_TRACK, all_skills
from skillopt_mcp.operations.results import SkillRow
from skillopt_mcp.operations.skills.moving import forget_skill, move_skill
from skillopt_mcp.operations.skills.moving_folders import FolderMove, move_folder, plan_folder_move
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.store.trajectories import MOST_COUNTED

_FEW = 10


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """What to do (nothing: list, with `long` all that is known of each) and with which folder or skill."""

    action: str | None = None
    name: str = ""
    to: str = ""
    simulated: bool = False
    host_run: bool = False
    yes: bool = False
    long: bool = False


def run(options: Options) -> int:
    """Return 0 when it was done, 1 when the person did not permit it."""
    with Workspace(options.store_path) as workspace:
        workspace.login = terminal.login()
        if options.action is None:
            _list(workspace, options)
        elif options.action == "add-root":
            terminal.require_person("skills add-root")
            root = add_root(workspace, options.name)
            _done({"root": str(root)}, f"Skills inside {root} may be promoted now.", options)
        elif options.action == "track":
            _track(workspace, options)
        elif options.action == "permit":
            return _permit(workspace, options)
        elif options.action == "move":
            terminal.require_person("skills move")
            if plan := plan_folder_move(workspace, options.name, options.to):
                return _move_folder(workspace, plan, options)
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


def _track(workspace: Workspace, options: Options) -> None:
    skill = workspace.skill(options.name)
    text = (
        f"{skill.name} is tracked, at {skill.path}: the capture hooks record turns in which it is opened from now on, "
        "and skillopt-mcp harvest reads those of past sessions."
    )
    _done({"skill": skill.name, "path": skill.path, "tracked": True}, text, options)


def _permit(workspace: Workspace, options: Options) -> int:
    terminal.require_person("skills permit")
    skill = workspace.skill(options.name)
    name = skill.name
    more = ["simulated ones"] if options.simulated else []
    more += ["those that its own agents judged or had seen the tasks of"] if options.host_run else []
    what = f"accepted candidates, {' and '.join(more)} too," if more else "accepted candidates"
    where = "where the guard found nothing and they are small edits of words, not of code or commands"
    covered = f"promote {what} of {name} without asking from now on, {where}"
    if not terminal.agreed(f"May an agent {covered}?", yes=options.yes, ask=not options.json):
        terminal.note("Nothing was permitted.")
        return 1
    agreed = Consent.COMMAND if options.yes and not terminal.is_interactive() else Consent.PERSON
    permit(workspace, options.name, simulated=options.simulated, host_run=options.host_run, given_by=agreed.value)
    text = f"An agent may {covered}.\nTake it back with: skillopt-mcp skills revoke {called(workspace.store, skill)}"
    _done(
        {"skill": name, "permitted": True, "simulated": options.simulated, "host_run": options.host_run}, text, options
    )
    return 0


def _move_folder(workspace: Workspace, plan: FolderMove, options: Options) -> int:
    """Return 0 when all skills below a folder were moved, 1 when some stayed or the person did not want it."""
    if not options.json:
        for path, place in plan.skills:
            terminal.say(f"{path}\n    -> {place}")
        for each in plan.left:
            terminal.note(f"stays: {each}")
    these = "this skill" if len(plan.skills) == 1 else f"these {len(plan.skills)} skills"
    if not terminal.agreed(f"Move {these}?", yes=options.yes, ask=not options.json):
        terminal.note("Nothing was moved.")
        return 1
    done = move_folder(workspace, plan)
    for each in done.left[len(plan.left) :]:
        terminal.note(f"stays: {each}")
    text = f"Moved from {done.before} to {done.path}: {len(done.moved)} of {_n_of(plan)}.\n{done.next_step}"
    _done(done.model_dump(mode="json"), text, options)
    return 1 if done.left else 0


def _n_of(plan: FolderMove) -> str:
    n = len(plan.skills) + len(plan.left)
    return f"{n} skill{'s' if n > 1 else ''}"


def _done(value: dict[str, object], text: str, options: Options) -> None:
    if options.json:
        terminal.emit(value, options)
    else:
        terminal.say(options.on_store(text))


def _list(workspace: Workspace, options: Options) -> None:
    rows = all_skills(workspace)
    n_of = Counter(row.name for row in rows)
    spoken = [row.path if n_of[row.name] > 1 or row.name.startswith("-") else row.name for row in rows]
    told = [_told(workspace, row, options, each) for row, each in zip(rows, spoken, strict=True)]
    if options.json:
        terminal.emit({"skills": [row.model_dump(mode="json") for row in told]})
        return
    if len(rows) > _FEW and not options.long:
        _say_table(told, spoken, options)
        return
    for row, shown in zip(rows, told, strict=True):
        _say(shown, options, is_to_track=row.next_step == TO_TRACK)
    if not rows:
        terminal.say("No skill was found. Give the path of a skill folder once, and it is known from then on:")
        terminal.say(options.on_store("  skillopt-mcp skills track PATH/TO/SKILL"))


def _told(workspace: Workspace, row: SkillRow, options: Options, called: str) -> SkillRow:
    """Return a row whose next step is a command; `called` is what that may call the skill by."""
    if row.tracked:
        step = terminal.advice_on(called, by_a_person(workspace, row.next_step), options)
    else:
        track = f"skillopt-mcp skills track {shlex.quote(row.path)}"
        step = options.on_store(track if row.next_step == TO_TRACK else row.next_step)
    return row.model_copy(update={"next_step": step})


def _say_table(rows: Sequence[SkillRow], spoken: Sequence[str], options: Options) -> None:
    """Print a line for each skill, and what is known of some of them alone."""
    program = options.on_store("skillopt-mcp skills").removesuffix("skills")
    cells = [
        _cells(row.model_copy(update={"next_step": row.next_step.replace(program, "")}), name)
        for row, name in zip(rows, spoken, strict=True)
    ]
    terminal.say_table(("skill", "tasks", "attempts", "new", "open", "next"), cells)
    for row, name in zip(rows, spoken, strict=True):
        if row.approved:
            terminal.note(f"{name}: approved, and not used yet: {', '.join(row.approved)}")
    n_locked = sum(not row.promotable for row in rows)
    locked = f"{counted(n_locked, 'skill')} in no skill root, which cannot be promoted; " if n_locked else ""
    terminal.note(options.on_store(f"{locked}all of each, and where it is: skillopt-mcp skills --long"))


def _cells(row: SkillRow, name: str) -> tuple[str, ...]:
    if not row.tracked:
        return (name, "-", "-", "-", "-", row.next_step)
    splits = row.splits
    n_tasks, n_new = splits.train + splits.val + splits.test, or_more(row.n_new, MOST_COUNTED)
    return (name, f"{n_tasks:,}", f"{row.n_trajectories:,}", n_new, str(row.open_candidates), row.next_step)


def _say(row: SkillRow, options: Options, *, is_to_track: bool) -> None:
    locked = "" if row.promotable else "  (in no skill root: it cannot be promoted)"
    add_root = options.on_store(f"skillopt-mcp skills add-root {shlex.quote(root_for(row.path))}")
    if not row.tracked:
        terminal.say(f"{row.name}  (not tracked yet){locked}")
        terminal.say(f"    {row.path}", style="dim")
        if locked:
            terminal.say(f"    to allow it: {add_root}", style="dim")
        if not is_to_track:
            terminal.say(f"    next: {row.next_step}", style="dim")
        return
    splits = row.splits
    terminal.say(f"{row.name}  live {row.live_version}{locked}")
    terminal.say(
        f"    tasks: {splits.train} train, {splits.val} val, {splits.test} test; attempts: {row.n_trajectories} "
        f"({or_more(row.n_new, MOST_COUNTED)} new); open candidates: {row.open_candidates}"
    )
    terminal.say(f"    {row.path}", style="dim")
    if locked:
        terminal.say(f"    to allow it: {add_root}", style="dim")
    if row.approved:
        terminal.say(f"    approved, and not used yet: {', '.join(row.approved)}")
    terminal.say(f"    next: {row.next_step}", style="dim")
