"""Taking in: another store's history of a skill, taken in as evidence to read, never as a verdict to act on.

An imported version never counts as one that was live here; an imported candidate is held for a person and has to be
tested here; decisions, promotions, permissions and events are archived, where nothing but a reader ever looks at them.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import shlex
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import ValidationError

from skillopt_mcp import limits
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.paths import collision
from skillopt_mcp.errors import BadInput, NotFound
from skillopt_mcp.guard.capabilities import findings
from skillopt_mcp.operations.judging import without_command
from skillopt_mcp.operations.redacting import holds_secret, redacted_line
from skillopt_mcp.operations.results import Result
from skillopt_mcp.operations.tasks import parse_task
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import Candidate, NewCandidate, candidate_id
from skillopt_mcp.records.edits import Edit, EditReport
from skillopt_mcp.records.histories import (
    FORMAT_VERSION,
    LINE,
    AnyLine,
    CandidateLine,
    Content,
    Ending,
    Heading,
    RetiredTaskLine,
    TaskLine,
    Told,
    TrajectoryLine,
    VersionLine,
)
from skillopt_mcp.records.skills import Skill, SkillFile, SkillFiles, short
from skillopt_mcp.records.tasks import NewTask
from skillopt_mcp.redaction.redacting import Redactor
from skillopt_mcp.store.histories import Histories, NewHistory, Taken

_TEXTS = (TaskLine, TrajectoryLine, CandidateLine, Told)
IMPORTED = "it was imported from another store: see that you know where its edits come from"


class Received(Result):
    """What came of an import: how much of each kind was new; with status conflicts, nothing was taken in."""

    status: Literal["imported", "nothing_new", "conflicts"]
    skill: str
    versions: int
    tasks: int
    trajectories: int
    candidates: int
    told: int
    conflicts: list[str]
    left_out: list[str]


@dataclass(slots=True)
class _Read:
    """A history as it was read, its versions put together."""

    skill: str = ""
    sha256: str = ""
    contents: dict[str, bytes] = field(default_factory=dict)
    versions: dict[str, tuple[str | None, SkillFiles]] = field(default_factory=dict)
    tasks: list[NewTask] = field(default_factory=list)
    retired: list[tuple[NewTask, str]] = field(default_factory=list)
    trajectories: list[TrajectoryLine] = field(default_factory=list)
    candidates: list[CandidateLine] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)


def import_history(workspace: Workspace, file: Path, skill: str | None = None, *, keep_mine: bool = False) -> Received:
    """Take a history into a skill that is here (the one of its name, else `skill`), all of it or nothing.

    What contradicts what is here is reported, and with `keep_mine` left out. Raises BadInput when the file is no
    history, or damaged, or holds what no skill may; NotFound when the skill is not here.
    """
    if not workspace.is_made:
        # No store is made for what is no history, or of a skill that is not here.
        _taker(workspace, file, skill, _read(file, None).skill)
    read = _read(file, workspace.redactor)
    tracked = _taker(workspace, file, skill, read.skill)
    left_out = _without_secrets(workspace.redactor, read)
    new = NewHistory(
        sha256=read.sha256,
        versions=list(read.versions.values()),
        tasks=_judged(workspace, read.tasks, left_out),
        trajectories=_placed(workspace, tracked, read, left_out),
        candidates=[_candidate(tracked, line, read.versions) for line in read.candidates],
        told=read.told,
        retired=read.retired,
    )
    _check_documents(workspace, tracked, read)
    taken = workspace.store.room(Histories).add(tracked.id, new, keep_mine=keep_mine)
    workspace.forget(tracked)
    return _received(tracked, file, taken, left_out)


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


def _received(skill: Skill, file: Path, taken: Taken, left_out: list[str]) -> Received:
    status: Literal["imported", "nothing_new", "conflicts"] = "imported" if taken.n_new else "nothing_new"
    advice = "Everything in it was here already."
    if taken.n_new:
        advice = "No live file changed. Its candidates have to be tested here: skillopt-mcp evaluate CANDIDATE."
    elif taken.conflicts:
        status, advice = "conflicts", f"Nothing was taken in. To keep what is here: import --keep-mine {file}"
    return Received(
        status=status, skill=skill.name, versions=taken.versions, tasks=taken.tasks, trajectories=taken.trajectories,
        candidates=taken.candidates, told=taken.told, conflicts=taken.conflicts, left_out=left_out, next_step=advice,
    )  # fmt: skip


def _without_secrets(redactor: Redactor, read: _Read) -> list[str]:
    """Leave out the versions that a secret seems to stand in, and what rests on them; return what was left out."""
    withheld = {version for version, (_, files) in read.versions.items() if holds_secret(redactor, files)}
    kept = [line for line in read.candidates if not {line.base_version, line.version_id} & withheld]
    told = [f"version {short(version)}: a secret seems to stand in it" for version in withheld]
    if len(kept) < len(read.candidates):
        told.append(f"{len(read.candidates) - len(kept):,} candidates that rest on a version that is left out")
    read.versions = {version: row for version, row in read.versions.items() if version not in withheld}
    read.candidates = kept
    return told


def _read(file: Path, redactor: Redactor | None) -> _Read:
    """Return the history in a file, its texts without secrets where it is redacted. Raises BadInput, saying where."""
    read = _Read()
    n = 0
    try:
        for n, line in enumerate(_lines(file), 1):
            _take(read, redacted_line(redactor, line) if redactor and isinstance(line, _TEXTS) else line, n)
    except FileNotFoundError:
        raise BadInput(f"'{file}' cannot be read (No such file or directory): check the path") from None
    except gzip.BadGzipFile as error:
        raise BadInput(f"'{file}' is no history, or damaged: name a file that 'export' wrote") from error
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"'{file}' cannot be read ({error}): it is no history, or cut short") from error
    except ValidationError as error:
        raise BadInput(f"'{file}' line {n + 1} is no line of a history: {_why(error)}") from error
    except BadInput as error:
        raise BadInput(f"'{file}' line {n}: {error}") from error
    if not read.sha256:
        raise BadInput(f"'{file}' is cut short or no history: it has no last line")
    return read


def _lines(file: Path) -> Iterator[AnyLine]:
    """Yield the lines, the last one checked against those before it."""
    whole, n_bytes, n = hashlib.sha256(), 0, 0
    with gzip.open(file, "rb") as packed:
        while raw := packed.readline(limits.HISTORY_LINE_BYTES + 1):
            n_bytes += len(raw)
            if len(raw) > limits.HISTORY_LINE_BYTES or n_bytes > limits.HISTORY_BYTES:
                raise BadInput(
                    f"it is longer than {limits.HISTORY_LINE_BYTES // limits.MIB} MiB, or the file than "
                    f"{limits.HISTORY_BYTES // limits.MIB} MiB"
                )
            line = LINE.validate_json(raw)
            yield line
            if isinstance(line, Ending):
                if (line.n, line.sha256) != (n, whole.hexdigest()) or packed.read(1):
                    raise BadInput("what is before it is not what it says: the file is damaged")
                return
            whole.update(raw)
            n += 1


def _take(read: _Read, line: AnyLine, n: int) -> None:
    if isinstance(line, Heading) != (n == 1):
        raise BadInput("a history begins with its heading, and has one")
    match line:
        case Heading():
            if line.version > FORMAT_VERSION:
                raise BadInput(f"its format {line.version} is newer than this release knows: upgrade skillopt-mcp")
            read.skill = line.skill
        case Content():
            content = _content(line)
            read.contents[hashlib.sha256(content).hexdigest()] = content
        case VersionLine():
            read.versions[line.id] = (line.parent_id, _files(line, read.contents))
        case TaskLine() | RetiredTaskLine():
            task = parse_task(line.task)
            if task.split is None:
                raise BadInput("a task of a history has a split")
            if isinstance(line, RetiredTaskLine):
                read.retired.append((task, line.reason))
            else:
                read.tasks.append(task)
        case TrajectoryLine():
            _check_size(line)
            read.trajectories.append(line)
        case CandidateLine():
            if not {line.base_version, line.version_id} <= read.versions.keys():
                raise BadInput("a candidate comes after its versions")
            read.candidates.append(line)
        case Told():
            read.told.append(line)
        case Ending():
            read.sha256 = line.sha256


def _content(line: Content) -> bytes:
    try:
        raw = line.text.encode() if line.text is not None else base64.b64decode(line.base64 or "", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise BadInput(f"a content is neither text nor base 64 ({error})") from error
    if len(raw) > limits.FILE_BYTES:
        raise BadInput(f"a file has {len(raw):,} bytes, {limits.FILE_BYTES:,} are allowed")
    return raw


def _files(line: VersionLine, contents: Mapping[str, bytes]) -> SkillFiles:
    """Return the files of a version, which may be those of a skill, and are those that its id names."""
    if len(line.files) > limits.SKILL_FILES:
        raise BadInput(f"a version has {len(line.files)} files, {limits.SKILL_FILES} are allowed")
    paths: list[str] = []
    for file in line.files:
        if file.sha256 not in contents:
            raise BadInput("a version comes after the contents of its files")
        parts = file.path.split("/")
        plain = file.path.isprintable() and file.path == str(PurePosixPath(file.path)) and "\\" not in file.path
        if not plain or len(file.path) > limits.PATH_CHARACTERS or len(parts) > limits.SKILL_DEPTH + 1:
            raise BadInput(f"{quoted(file.path)} is no path of a skill's file")
        if file.path.startswith("/") or any(part.startswith(".") or ":" in part for part in parts):
            raise BadInput(f"{quoted(file.path)} is no path of a skill's file")
        if file.path in paths or collision(file.path, paths):
            raise BadInput(f"{quoted(file.path)} collides with another file of the version")
        paths.append(file.path)
    files = SkillFiles(tuple(SkillFile(each.path, contents[each.sha256], each.executable) for each in line.files))
    if sum(len(file.content) for file in files.files) > limits.SKILL_BYTES or files.digest != line.id:
        raise BadInput(f"version {short(line.id)} is larger than a skill may be, or not what its digest names")
    if files.get(files.main_path) is None:
        raise BadInput(f"version {short(line.id)} has no {files.main_path}")
    return files


def _check_size(line: TrajectoryLine) -> None:
    size = len(line.prompt) + len(line.answer) + len(line.reason) + sum(map(len, map("".join, line.messages)))
    if size > limits.TRAJECTORY_CHARACTERS or not line.prompt.strip():
        raise BadInput(f"an attempt has no prompt, or more than {limits.TRAJECTORY_CHARACTERS:,} characters")


def _check_documents(workspace: Workspace, skill: Skill, read: _Read) -> None:
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


def _placed(workspace: Workspace, skill: Skill, read: _Read, left_out: list[str]) -> list[TrajectoryLine]:
    """Return the attempts whose version is known."""
    known = {version for version, _ in workspace.store.room(Histories).list_versions(skill.id)} | read.versions.keys()
    found = [line for line in read.trajectories if line.version_id in known]
    if len(found) < len(read.trajectories):
        left_out.append(f"{len(read.trajectories) - len(found):,} attempts with a version that is not in the file")
    return found


def _candidate(
    skill: Skill, line: CandidateLine, versions: Mapping[str, tuple[str | None, SkillFiles]]
) -> NewCandidate:
    base, files = versions[line.base_version][1], versions[line.version_id][1]
    made = Candidate(
        id=candidate_id(skill.id, base.digest, files.digest),
        skill_id=skill.id,
        base_version=base.digest,
        version_id=files.digest,
        origin="host",
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


def _why(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
