"""Reading histories: the lines of a file that another store wrote, checked one by one and put together."""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from skillopt_mcp import limits
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.paths import collision
from skillopt_mcp.documents.readable import unreadable
from skillopt_mcp.errors import BadInput
from skillopt_mcp.operations.redacting import redacted_line
from skillopt_mcp.operations.stores.telling import Tell, nobody
from skillopt_mcp.operations.tasks.adding import parse_task
from skillopt_mcp.records.histories import (
    FORMAT_VERSION,
    LINE,
    AnyLine,
    CandidateLine,
    Content,
    Ending,
    ErasedLine,
    Heading,
    MadeLine,
    RetiredTaskLine,
    StepCandidateLine,
    TaskLine,
    Told,
    TrajectoryLine,
    VersionLine,
)
from skillopt_mcp.records.skills import SkillFile, SkillFiles, short
from skillopt_mcp.records.tasks import NewTask
from skillopt_mcp.redaction.redacting import Redactor

_TEXTS = (TaskLine, TrajectoryLine, ErasedLine, CandidateLine, StepCandidateLine, Told)


@dataclass(slots=True)
class ReadHistory:
    """A history as it was read, its versions put together."""

    skill: str = ""
    sha256: str = ""
    contents: dict[str, bytes] = field(default_factory=dict)
    versions: dict[str, tuple[str | None, SkillFiles]] = field(default_factory=dict)
    tasks: list[NewTask] = field(default_factory=list)
    retired: list[tuple[NewTask, str]] = field(default_factory=list)
    trajectories: list[TrajectoryLine] = field(default_factory=list)
    erased: list[ErasedLine] = field(default_factory=list)
    candidates: list[MadeLine] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)


def read_history(file: Path, redactor: Redactor | None, tell: Tell = nobody) -> ReadHistory:
    """Return the history in a file, its texts without secrets where it is redacted. Raises BadInput, saying where."""
    read = ReadHistory()
    n = 0
    try:
        for n, line in enumerate(_lines(file), 1):
            _take(read, redacted_line(redactor, line) if redactor and isinstance(line, _TEXTS) else line, n)
            tell("reading lines", n, 0)
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


def _take(read: ReadHistory, line: AnyLine, n: int) -> None:
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
        case ErasedLine():
            read.erased.append(line)
        case CandidateLine() | StepCandidateLine():
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
    paths: list[str] = []
    for file in line.files:
        if file.sha256 not in contents:
            raise BadInput("a version comes after the contents of its files")
        if not file.path.isprintable() or ":" in file.path or len(file.path) > limits.PATH_CHARACTERS:
            raise BadInput(f"{quoted(file.path)} is no path of a skill's file")
        if file.path in paths or collision(file.path, paths):
            raise BadInput(f"{quoted(file.path)} collides with another file of the version")
        paths.append(file.path)
    files = SkillFiles(tuple(SkillFile(each.path, contents[each.sha256], each.executable) for each in line.files))
    if fault := unreadable(files):
        raise BadInput(f"version {short(line.id)} is none that a skill may have: {fault}")
    if files.digest != line.id:
        raise BadInput(f"version {short(line.id)} is not what its digest names")
    return files


def _check_size(line: TrajectoryLine) -> None:
    size = len(line.prompt) + len(line.answer) + len(line.reason) + sum(map(len, map("".join, line.messages)))
    if size > limits.TRAJECTORY_CHARACTERS or not line.prompt.strip():
        raise BadInput(f"an attempt has no prompt, or more than {limits.TRAJECTORY_CHARACTERS:,} characters")


def _why(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
