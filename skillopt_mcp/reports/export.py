"""Exporting: a run as files, its versions, its history and what each step did; or one version of a skill."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.results import Result
from skillopt_mcp.core.runs import Run, StepRecord
from skillopt_mcp.core.skills import MAIN_FILE, SkillFiles, short
from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.documents.live_files import put_file
from skillopt_mcp.reports.run_report import RunFacts, describe_run, figures_of, gather_run, n_tasks_of
from skillopt_mcp.store.opening import Store
from skillopt_mcp.workspace.place import Place

RUN_FILE = "run.json"
BEST = "best_skill"
_TEMPORARY = ".writing-"


class Exported(Result):
    """What was written where; `n_written` counts the files that were new or had changed."""

    run_id: str
    folder: str
    best_version: str
    n_steps: int
    n_files: int
    n_written: int


def check_folder(folder: Path, run_id: str | None = None) -> None:
    """Raise BadInput unless a run can be written there: an empty or new folder, or one that holds this very run."""
    try:
        entries = sorted(folder.iterdir()) if folder.exists() else []
    except OSError as error:
        raise BadInput(f"'{folder}' cannot be used ({error.strerror}): name another folder") from error
    held = _held(folder / RUN_FILE) if entries else run_id
    if entries and (run_id is None or held != run_id):
        what = f"holds run '{held}'" if held else "is in use"
        raise BadInput(f"'{folder}' {what}: name an empty folder, or one that does not exist yet")


def export_run(store: Store, place: Place, run_id: str, folder: Path) -> Exported:
    """Write a run as far as it has come; a second time brings the folder up to date.

    Each file appears whole or not at all, the folder of the best skill too. Raises NotFound, and BadInput when the
    folder is in use or cannot be written.
    """
    facts = gather_run(store, place, store.runs.get_run(run_id))
    run, steps = facts.run, facts.records
    check_folder(folder, run.id)
    best = _files(store, run, steps[-1].best_version if steps else run.base_version)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The file that names the run comes first.
        frozen = {name: value for name, value in asdict(run).items() if name != "result"}
        frozen |= {name: json.loads(frozen[name]) for name in ("config", "prompts")}
        frozen["n_tasks"] = asdict(n_tasks_of(store, run))
        contents = {RUN_FILE: _json(frozen), **dict(_contents(store, place, facts, best))}
        written = [path for path, content in contents.items() if _put(folder / path, content)]
        _put_folder(folder / BEST, best)
    except OSError as error:
        raise BadInput(f"'{folder}' cannot be written ({error.strerror}): name another folder") from error
    return Exported(
        run_id=run.id,
        folder=str(folder),
        best_version=short(best.digest),
        n_steps=len(steps),
        n_files=len(contents) + len(best.files),
        n_written=len(written),
    )


class ExportedVersion(Result):
    """A version that was written as files, byte for byte."""

    skill: str
    version: str
    folder: str
    n_files: int


def export_version(store: Store, place: Place, name: str, version: str, folder: Path) -> ExportedVersion:
    """Write the files of a version into a folder that is new or empty; it appears whole or not at all.

    Raises NotFound, and BadInput when the folder is in use or cannot be written.
    """
    skill = place.find_kept(name)
    files = store.skills.get_files(skill.id, store.skills.get_version(skill.id, version).id)
    check_folder(folder)
    target = Path(os.path.realpath(folder))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=target.parent))
        try:
            _fill(new, files)
            os.rename(new, target)  # only an empty folder gives way
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise BadInput(f"'{folder}' cannot be written ({error.strerror}): name another folder") from error
    return ExportedVersion(skill=skill.name, version=short(files.digest), folder=str(folder), n_files=len(files.files))


def _contents(store: Store, place: Place, facts: RunFacts, best: SkillFiles) -> Iterator[tuple[str, bytes]]:
    """Yield every file but the first as (path, content)."""
    run, steps = facts.run, facts.records
    yield "best_skill.md", best.main
    if run.memory:
        version = steps[-1].best_memory if steps else None
        memory = store.skills.get_files(run.memory.skill_id, version or run.memory.version)
        yield f"best_{memory.main_path}", memory.main
    measured = _measure_steps(store, run, steps)
    history = {step.n: step.model_dump(mode="json") | _describe_step(store, run, step, measured) for step in steps}
    yield "history.json", _json([*history.values()])
    yield "report.md", f"```\n{describe_run(store, place, facts)}\n```\n".encode()
    if facts.result:
        yield "summary.json", _json(facts.result.model_dump(mode="json") | figures_of(store, facts))
    versions = {run.base_version}
    yield "skills/skill_v0000.md", _files(store, run, run.base_version).main
    for step in steps:
        of_skill = step.candidate_version if step.kind != "memory" else None
        versions |= {step.current_version, of_skill or step.current_version}
        yield f"skills/skill_v{step.n:04d}.md", _files(store, run, step.current_version).main
        yield f"steps/step_{step.n:04d}/step.json", _json(history[step.n])
        yield from _step(store, step)
    for version in sorted(versions):
        for file in _files(store, run, version).files:
            yield f"versions/{short(version)}/{file.path}", file.content


def _measure_steps(store: Store, run: Run, steps: Sequence[StepRecord]) -> dict[int, dict[str, Any]]:
    """The seconds, and by stage the calls and tokens, of each step; what names no step belongs to the one before it.

    A step of a memory file counts with the one of the skill before it.
    """
    named, ordinal = dict[str, int](), 0
    for step in steps:
        ordinal += step.kind == "step"
        what = f"s{ordinal}" if step.kind in ("step", "memory") else step.kind
        named.setdefault(f"e{step.epoch}{what}", step.n)
    found, n, before = dict[int, dict[str, Any]](), 1, 0
    for draw, stage, tokens_in, tokens_out, at in store.ledger.list_answered(run.id):
        place, before = draw.partition("/")[2].partition("/")[0], before or at
        n = named.get(place, 0 if place[:1] == "e" else n)  # 0: a step that has not ended
        row = found.setdefault(n, {"wall_time_s": 0, "tokens": {}})
        used = row["tokens"].setdefault(stage, {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0})
        for name, value in zip(used, (1, tokens_in, tokens_out), strict=True):
            used[name] += value
        row["wall_time_s"] += max(at - before, 0)
        before = max(at, before)
    return found


def _describe_step(
    store: Store, run: Run, step: StepRecord, measured: Mapping[int, dict[str, Any]]
) -> dict[str, object]:
    """What SkillOpt's history.json says of a step besides its scores, by the names that it has there."""
    n_ranked = len(store.candidates.list_edits(step.candidate_id)) if step.candidate_id else 0
    candidate = step.candidate_version if step.kind != "memory" else None
    return {
        "wall_time_s": 0, "tokens": {}, **measured.get(step.n, {}),
        "skill_len": len(_files(store, run, step.current_version).main.decode()),
        "candidate_skill_len": len(_files(store, run, candidate).main.decode()) if candidate else None,
        "n_edits_merged": n_ranked + len(step.left_out), "n_edits_ranked": n_ranked,
    }  # fmt: skip


def _step(store: Store, step: StepRecord) -> Iterator[tuple[str, bytes]]:
    place = f"steps/step_{step.n:04d}"
    if step.candidate_id is None:
        return
    candidate = store.candidates.get_candidate(step.candidate_id)
    edits = [
        {"op": edit.op, "path": edit.path, "target": edit.target, "content": edit.content, "status": report.status,
         "reason": report.reason, "detail": report.detail, "sources": list(edit.sources)}
        for edit, report in store.candidates.list_edits(step.candidate_id)
    ]  # fmt: skip
    skills = store.skills
    before = skills.get_files(candidate.skill_id, candidate.base_version)
    after = skills.get_files(candidate.skill_id, candidate.version_id)
    yield f"{place}/patch.json", _json({"reasoning": candidate.reasoning, "edits": edits})
    yield f"{place}/candidate_skill.md", after.main
    yield (
        f"{place}/candidate.diff",
        unified_diff(before, after, skills.get_skill(candidate.skill_id).name).encode(),
    )


def _files(store: Store, run: Run, version: str) -> SkillFiles:
    return store.skills.get_files(run.skill_id, version)


def _json(value: object) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()


def _held(path: Path) -> str | None:
    """Return the run that a folder holds, None when it holds none."""
    try:
        found: object = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return str(found.get("id")) if isinstance(found, Mapping) else None


def _put(path: Path, content: bytes) -> bool:
    """Write a file in one go, unless it has this content; return whether it had not."""
    if path.is_file() and path.read_bytes() == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    put_file(path, content)
    return True


def _fill(folder: Path, files: SkillFiles) -> None:
    for file in files.files:
        place = folder / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.content)
        place.chmod(0o755 if file.executable else 0o644)
    folder.chmod(0o755)


def _put_folder(path: Path, files: SkillFiles) -> None:
    """Put a folder with exactly these files in the place of the one that an earlier export left."""
    new = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=path.parent))
    old = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=path.parent))
    try:
        _fill(new, files)
        if path.exists():
            os.rename(path, old / MAIN_FILE)
        os.rename(new, path)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
