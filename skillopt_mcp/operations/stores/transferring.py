"""Transferring: a skill's whole history as one file, to be taken in by another store."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

from pydantic import BaseModel, JsonValue

from skillopt_mcp.documents.counts import counted
from skillopt_mcp.errors import BadInput
from skillopt_mcp.operations.redacting import holds_secret, redacted_line
from skillopt_mcp.operations.results import Result
from skillopt_mcp.operations.skills.resembling import told_likeness
from skillopt_mcp.operations.stores.appearing import appear, hidden_beside
from skillopt_mcp.operations.stores.telling import Tell, nobody
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.histories import (
    FORMAT_VERSION,
    CandidateLine,
    Content,
    EditLine,
    Ending,
    Heading,
    RetiredTaskLine,
    StepCandidateLine,
    TaskLine,
    VersionFile,
    VersionLine,
)
from skillopt_mcp.records.skills import Skill, SkillFile, SkillFiles, short
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.store.histories import Histories

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class Sent(Result):
    """A history that was written; `left_out` says what of the skill is not in it, and why.

    `redacted` names the tasks that hold a secret here, and a placeholder for it in the file; `likeness` tells of a
    skill whose folder is gone and that this one seems to be.
    """

    skill: str
    file: str
    n_lines: int
    n_bytes: int
    left_out: list[str]
    redacted: list[str]
    likeness: str = ""


def export_history(workspace: Workspace, skill: str, file: Path, tell: Tell = nobody) -> Sent:
    """Write a skill's history to a new file, with every text redacted once more; it appears whole or not at all.

    A version in which a secret stands is left out with all that rests on it, for its digest names it as it is. Raises
    BadInput when the file is there or cannot be written.
    """
    tracked = workspace.kept(skill)
    target = Path(os.path.abspath(file))
    hidden = hidden_beside(target)
    left_out: list[str] = []
    redacted: list[str] = []
    try:
        with open(os.open(hidden, _NEW, 0o600), "wb") as raw:
            with gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as packed:
                n_lines = _write(packed, _lines(workspace, tracked, left_out, redacted), tell)
            raw.flush()
            os.fsync(raw.fileno())
        n_bytes = hidden.stat().st_size
        appear(hidden, target)
    except OSError as error:
        raise BadInput(f"'{target}' cannot be written ({error.strerror}): name another file") from error
    finally:
        with suppress(OSError):
            hidden.unlink()
    return Sent(
        skill=tracked.name, file=str(target), n_lines=n_lines, n_bytes=n_bytes, left_out=left_out,
        redacted=redacted, likeness=told_likeness(workspace, tracked.path),
        next_step=f"To take it into another store: {shlex.join(['skillopt-mcp', 'import', str(target)])}",
    )  # fmt: skip


def _write(file: gzip.GzipFile, lines: Iterable[BaseModel], tell: Tell) -> int:
    """Write the lines and the one that ends them; return how many there are before that."""
    whole, n = hashlib.sha256(), 0
    for line in lines:
        raw = line.model_dump_json().encode() + b"\n"
        whole.update(raw)
        file.write(raw)
        n += 1
        tell("writing lines", n, 0)
    file.write(Ending(n=n, sha256=whole.hexdigest()).model_dump_json().encode() + b"\n")
    return n


def task_line(task: Task, reason: str | None = None) -> TaskLine | RetiredTaskLine:
    """Return the line that tells of a task as it is, a secret in it too; a `reason` for one that was retired."""
    return TaskLine(task=_plain(task)) if reason is None else RetiredTaskLine(task=_plain(task), reason=reason)


def _lines(workspace: Workspace, skill: Skill, left_out: list[str], redacted: list[str]) -> Iterator[BaseModel]:
    store, redactor = workspace.store, workspace.redactor
    retired = store.retirements.list_retired(skill.id)
    erased = store.room(Histories).list_erased(skill.id)
    has_steps = any(each.origin == "step" for each in store.candidates.list_candidates(skill.id, steps=True))
    oldest = FORMAT_VERSION if has_steps else 3 if erased else 2 if retired else 1
    yield Heading(skill=skill.name, version=oldest)
    withheld: set[str] = set()
    told: set[str] = set()
    for version, parent in store.room(Histories).list_versions(skill.id):
        files = store.skills.get_files(skill.id, version)
        if holds_secret(redactor, files):
            withheld.add(version)
            left_out.append(f"version {short(version)}: a secret seems to stand in it")
            continue
        for file in files.files:
            if (sha256 := hashlib.sha256(file.content).hexdigest()) not in told:
                told.add(sha256)
                yield _content(file)
        yield _version(version, parent, files)
    for task in store.tasks.list_tasks(skill.id):
        gone = retired.get(task.id)
        plain = task_line(task, gone.reason if gone else None)
        line = redacted_line(redactor, plain)
        if line is not plain:
            redacted.append(redactor.text(task.name))
        yield line
    n_attempts = 0
    changed = store.room(Histories).changed_trajectories(skill.id)
    left_out += [f"trajectory:{n}: it is not what was written (skillopt-mcp verify)" for n in sorted(changed)]
    for attempt in store.room(Histories).walk_trajectories(skill.id, changed):
        if attempt.version_id in withheld:
            n_attempts += 1
        else:
            yield redacted_line(redactor, attempt)
    yield from (redacted_line(redactor, line) for line in erased if line.version_id not in withheld)
    if n_attempts:
        left_out.append(f"{counted(n_attempts, 'attempt')} with a version that is left out")
    yield from _candidates(workspace, skill, withheld, left_out)
    for each in store.room(Histories).list_told(skill.id):
        yield redacted_line(redactor, each)


def _candidates(workspace: Workspace, skill: Skill, withheld: set[str], left_out: list[str]) -> Iterator[BaseModel]:
    store = workspace.store
    for candidate_id in store.room(Histories).list_candidate_ids(skill.id):
        made = store.candidates.get_candidate(candidate_id)
        if {made.base_version, made.version_id} & withheld:
            left_out.append(f"candidate {made.id}: it rests on a version that is left out")
            continue
        edits = tuple(
            EditLine(
                op=edit.op, path=edit.path, target=edit.target, content=edit.content, status=report.status,
                reason=report.reason, detail=report.detail,
            )
            for edit, report in store.candidates.list_edits(candidate_id)
        )  # fmt: skip
        kind = StepCandidateLine if made.origin == "step" else CandidateLine
        line = kind(base_version=made.base_version, version_id=made.version_id, reasoning=made.reasoning, edits=edits)
        yield redacted_line(workspace.redactor, line)


def _content(file: SkillFile) -> Content:
    try:
        return Content(text=file.content.decode("utf-8"))
    except UnicodeDecodeError:
        return Content(base64=base64.b64encode(file.content).decode())


def _version(version: str, parent: str | None, files: SkillFiles) -> VersionLine:
    held = tuple(
        VersionFile(path=file.path, sha256=hashlib.sha256(file.content).hexdigest(), executable=file.executable)
        for file in files.files
    )
    return VersionLine(id=version, parent_id=parent, files=held)


def _plain(task: Task) -> dict[str, JsonValue]:
    files: dict[str, JsonValue] = {file.path: file.content for file in task.files}
    judge = cast(JsonValue, task.judge.model_dump(mode="json"))
    return {
        "id": task.name, "prompt": task.prompt, "judge": judge, "split": task.split, "tags": list(task.tags),
        "files": files,
    }  # fmt: skip
