"""Taking in: another store's history of a skill, taken in as evidence to read, never as a verdict to act on.

An imported version never counts as one that was live here; an imported candidate is held for a person and has to be
tested here; decisions, promotions, permissions and events are archived, where nothing but a reader ever looks at them.
Which tasks it may have been made from is kept as well, and held against it alone: its promotion tests leave them out.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.errors import BadInput, NotFound, Refused
from skillopt_mcp.guard.capabilities import findings
from skillopt_mcp.operations.candidates.learned import further_held_out
from skillopt_mcp.operations.finding import called
from skillopt_mcp.operations.judging import without_command
from skillopt_mcp.operations.redacting import holds_secret, redacted_line
from skillopt_mcp.operations.results import Result
from skillopt_mcp.operations.stores.reading_histories import ReadHistory, read_history
from skillopt_mcp.operations.stores.telling import Tell, nobody
from skillopt_mcp.operations.stores.transferring import task_line
from skillopt_mcp.operations.tasks.adding import parse_task
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import IMPORTED, Candidate, NewCandidate, candidate_id
from skillopt_mcp.records.edits import Edit, EditReport
from skillopt_mcp.records.histories import ErasedLine, MadeLine, StepCandidateLine, TaskLine, TrajectoryLine
from skillopt_mcp.records.skills import Skill, SkillFiles, short
from skillopt_mcp.records.tasks import NewTask
from skillopt_mcp.redaction.redacting import Redactor
from skillopt_mcp.store.histories import Histories, NewHistory, Taken

_SHOWN = 20
Line = TypeVar("Line", TrajectoryLine, ErasedLine)


class Received(Result):
    """What came of an import: how much of each kind was new; with status conflicts, nothing was taken in.

    `of` is the skill whose history it is, as the file names it; `known_tasks` counts the held-out tasks here that the
    promotion tests of the file's candidates leave out. `erased` counts the attempts that are erased here from now on.
    """

    status: Literal["imported", "nothing_new", "conflicts"]
    skill: str
    of: str
    versions: int
    tasks: int
    trajectories: int
    candidates: int
    told: int
    erased: int
    known_tasks: int
    conflicts: list[str]
    left_out: list[str]


def import_history(
    workspace: Workspace, file: Path, skill: str | None = None, *, keep_mine: bool = False, other_skill: bool = False,
    tell: Tell = nobody,
) -> Received:  # fmt: skip
    """Take a history into a skill that is here (the one of its name, else `skill`), all of it or nothing.

    What contradicts what is here is reported, and with `keep_mine` left out. Raises BadInput when the file is no
    history, or damaged, or holds what no skill may; NotFound when the skill is not here; Refused when it is the history
    of another skill, unless `other_skill` says that it is meant.
    """
    if not workspace.is_made:
        # No store is made for what is no history, or of a skill that is not here.
        _taker(workspace, file, skill, read_history(file, None).skill)
    read = read_history(file, workspace.redactor, tell)
    tracked = _taker(workspace, file, skill, read.skill)
    if not other_skill:
        _check_same(workspace, tracked, read)
    left_out = _without_secrets(workspace.redactor, read)
    _recognise(workspace, tracked, read)
    new = NewHistory(
        sha256=read.sha256,
        versions=list(read.versions.values()),
        tasks=_judged(workspace, read.tasks, left_out),
        trajectories=_placed(workspace, tracked, read, read.trajectories, left_out),
        erased=_placed(workspace, tracked, read, read.erased, left_out),
        candidates=[_candidate(tracked, line, read.versions) for line in read.candidates],
        told=read.told,
        retired=read.retired,
        learned=[*read.tasks, *(task for task, _ in read.retired)] if read.candidates else (),
    )
    _check_documents(workspace, tracked, read)
    tell("taking it in", 0, 0)
    taken = workspace.store.room(Histories).add(tracked.id, new, keep_mine=keep_mine)
    workspace.forget(tracked)
    if taken.n_erased:
        left_out.append(f"{counted(taken.n_erased, 'attempt')} that a person has erased")
    in_use = workspace.store.tasks.list_in_use(tracked.id) if read.candidates else []
    known = further_held_out(workspace, tracked.id, in_use)
    options = [*(["--skill", skill] if skill else []), *(["--other-skill"] if other_skill else [])]
    again = shlex.join(["skillopt-mcp", "import", "--keep-mine", str(file), *options])
    to_test = any(made.candidate.origin != "step" for made in new.candidates)
    received = _received(tracked, again, taken, keep_mine=keep_mine, to_test=to_test)
    step = f"{_told_retired(workspace, tracked, read)}{_told_erased(taken)}{received.next_step}"
    told = {"of": read.skill, "known_tasks": len(known), "left_out": left_out, "next_step": step}
    return received.model_copy(update=told)


def _told_retired(workspace: Workspace, skill: Skill, read: ReadHistory) -> str:
    """Return how to take out of use here what the file says was retired, "" where nothing of that is in use."""
    stored = workspace.store.tasks.list_in_use(skill.id) if read.retired else []
    in_use = {task.digest: task.name for task in stored}
    names = [shlex.quote(in_use[task.digest]) for task, _ in read.retired if task.digest in in_use]
    if not names:
        return ""
    ids = f"{' '.join(names[:_SHOWN])}{' ...' if len(names) > _SHOWN else ''}"
    return (
        "What is retired in the file, a person retires here, too (skillopt-mcp tasks retire "
        f"{called(workspace.store, skill)} {ids}). "
    )


def _told_erased(taken: Taken) -> str:
    """Return how to erase here what the file says was erased, "" where nothing of that is here."""
    if not taken.kept:
        return ""
    ids = f"{' '.join(f'trajectory:{each}' for each in taken.kept[:_SHOWN])}{' ...' if taken.kept[_SHOWN:] else ''}"
    return f"What is erased in the file, a person erases here, too (skillopt-mcp erase {ids}). "


def _check_same(workspace: Workspace, skill: Skill, read: ReadHistory) -> None:
    """Raise Refused for the history of a skill that has neither the name of this one nor a version of it."""
    here = {version for version, _ in workspace.store.room(Histories).list_versions(skill.id)}
    if read.skill != skill.name and here.isdisjoint(read.versions):
        raise Refused(
            f"it is the history of another skill: {quoted(read.skill)}, of which no version is one of '{skill.name}' "
            f"('{skill.path}'); nothing was taken in. If that is meant: say --other-skill as well"
        )


def _taker(workspace: Workspace, file: Path, skill: str | None, name: str) -> Skill:
    """Return the skill that takes a history in: the one that is meant, else the one of its name. Raises NotFound."""
    if skill:
        return workspace.skill(skill)
    try:
        return workspace.skill(name)
    except NotFound as error:
        raise NotFound(
            f"the history is of {quoted(name)}, and no skill here, or more than one, has that name: say which folder "
            f"takes it in: skillopt-mcp import {shlex.quote(str(file))} --skill PATH"
        ) from error


def _recognise(workspace: Workspace, skill: Skill, read: ReadHistory) -> None:
    """Put each task that is told as an export from here tells it, without its secret, back as it is here."""
    here: dict[str, NewTask] = {}
    for task in workspace.store.tasks.list_tasks(skill.id):
        plain = task_line(task)
        line = redacted_line(workspace.redactor, plain)
        if line is not plain and isinstance(line, TaskLine):
            here[parse_task(line.task).digest] = parse_task(plain.task)
    read.tasks = [_as_here(task, here) for task in read.tasks]
    read.retired = [(_as_here(task, here), reason) for task, reason in read.retired]


def _as_here(task: NewTask, here: Mapping[str, NewTask]) -> NewTask:
    """Return a task as it is here; where it lies remains what the file says."""
    known = here.get(task.digest)
    return replace(known, name=task.name, split=task.split) if known else task


def _received(skill: Skill, again: str, taken: Taken, *, keep_mine: bool, to_test: bool) -> Received:
    status: Literal["imported", "nothing_new", "conflicts"] = "imported" if taken.n_new else "nothing_new"
    advice = "All else in it was here already." if taken.conflicts else "Everything in it was here already."
    if taken.n_new:
        advice = "No live file changed."
        if taken.candidates and to_test:
            advice += " Its candidates have to be tested here: skillopt-mcp evaluate CANDIDATE."
    elif taken.conflicts and not keep_mine:
        status, advice = "conflicts", f"Nothing was taken in. To keep what is here: {again}"
    return Received(
        status=status, skill=skill.name, of=skill.name, versions=taken.versions, tasks=taken.tasks,
        trajectories=taken.trajectories, candidates=taken.candidates, told=taken.told, erased=taken.tombstones,
        known_tasks=0, conflicts=taken.conflicts, left_out=[], next_step=advice,
    )  # fmt: skip


def _without_secrets(redactor: Redactor, read: ReadHistory) -> list[str]:
    """Leave out the versions that a secret seems to stand in, and what rests on them; return what was left out."""
    withheld = {version for version, (_, files) in read.versions.items() if holds_secret(redactor, files)}
    kept = [line for line in read.candidates if not {line.base_version, line.version_id} & withheld]
    told = [f"version {short(version)}: a secret seems to stand in it" for version in withheld]
    if len(kept) < len(read.candidates):
        told.append(f"{counted(len(read.candidates) - len(kept), 'candidate')} resting on a version that is left out")
    read.versions = {version: row for version, row in read.versions.items() if version not in withheld}
    read.candidates = kept
    return told


def _check_documents(workspace: Workspace, skill: Skill, read: ReadHistory) -> None:
    """Raise BadInput when the history is one of another kind of document than the skill that is here."""
    main = workspace.store.skills.get_files(skill.id, skill.live_version).main_path
    for version, (_, files) in read.versions.items():
        if files.main_path != main:
            raise BadInput(f"version {short(version)} is a {files.main_path}, '{skill.name}' a {main}: name its skill")


def _judged(workspace: Workspace, tasks: Sequence[NewTask], left_out: list[str]) -> list[NewTask]:
    """Return the tasks that can be judged here: no registered command comes with a history."""
    lacking = without_command(workspace.store, [task.judge for task in tasks])
    left_out += [f"task '{tasks[n].name or n}': {reason}" for n, reason in lacking.items()]
    return [task for n, task in enumerate(tasks) if n not in lacking]


def _placed(
    workspace: Workspace, skill: Skill, read: ReadHistory, lines: Sequence[Line], left_out: list[str]
) -> list[Line]:
    """Return the attempts whose version is known."""
    known = {version for version, _ in workspace.store.room(Histories).list_versions(skill.id)} | read.versions.keys()
    found = [line for line in lines if line.version_id in known]
    if len(found) < len(lines):
        left_out.append(f"{counted(len(lines) - len(found), 'attempt')} with a version that is not in the file")
    return found


def _candidate(skill: Skill, line: MadeLine, versions: Mapping[str, tuple[str | None, SkillFiles]]) -> NewCandidate:
    base, files = versions[line.base_version][1], versions[line.version_id][1]
    made = Candidate(
        id=candidate_id(skill.id, base.digest, files.digest),
        skill_id=skill.id,
        base_version=base.digest,
        version_id=files.digest,
        origin="step" if isinstance(line, StepCandidateLine) else "host",
        reasoning=line.reasoning,
        findings=(IMPORTED, *findings(base, files)),
    )
    # The edits' sources are rows of the other store, so they stay behind.
    edits = tuple(
        (
            Edit(each.op, each.target, each.content, each.path),
            EditReport(n, each.op, each.path, each.status, each.reason, each.detail),
        )
        for n, each in enumerate(line.edits)
    )
    return NewCandidate(made, files, edits)
