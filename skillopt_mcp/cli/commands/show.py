"""Show: one candidate, promotion test, run, trajectory, version or skill, all of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.operations.consenting import Consent
from skillopt_mcp.operations.exporting import export_run, export_version
from skillopt_mcp.operations.inspecting import inspect, version_named
from skillopt_mcp.operations.inspecting_tests import promotion_test
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """What to show: an id, or a skill's name; and where to write it, where it is a run or a version."""

    id: str = ""
    out: str | None = None


def run(options: Options) -> int:
    """Return 0 when it was found."""
    with Workspace(options.store_path) as workspace:
        if options.out:
            return _export(workspace, Path(options.out).expanduser(), options)
        page = inspect(workspace, options.id, consent=Consent.PERSON)
        texts = [page.text]
        while page.cursor:
            page = inspect(workspace, options.id, page.cursor, Consent.PERSON)
            texts.append(page.text)
        test = promotion_test(workspace, options.id) if page.kind == "test" else None
    text = "".join(texts)
    if options.json:
        figures = {"test": test.model_dump(mode="json")} if test else {}
        shown = {"id": options.id, "kind": page.kind, "text": text, "next_step": page.next_step, **figures}
        terminal.emit(shown)
        return 0
    if page.kind == "candidate":
        terminal.say_diff(text)
    else:
        terminal.say(text)
    if page.next_step:
        terminal.note(f"Next: {terminal.advice(page.next_step, options)}")
    return 0


def _export(workspace: Workspace, folder: Path, options: Options) -> int:
    if version := version_named(known(options.id)):
        return _export_version(workspace, *version, folder, options)
    done = export_run(workspace, options.id, folder)
    if options.json:
        terminal.emit(done)
    else:
        terminal.say(
            f"Run {done.run_id}: {done.n_files} files in {done.folder}, {done.n_written} of them new or changed."
        )
    return 0


def _export_version(workspace: Workspace, name: str, version: str, folder: Path, options: Options) -> int:
    done = export_version(workspace, name, version, folder)
    if options.json:
        terminal.emit(done)
    else:
        terminal.say(f"Version {done.version} of {done.skill}, files in {done.folder}: {done.n_files}.")
        terminal.note(terminal.advice(done.next_step, options))
    return 0
