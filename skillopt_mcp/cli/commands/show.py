"""Show: one candidate, promotion test, run, trajectory, version or skill, all of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.looks.inspecting import detailed, inspect
from skillopt_mcp.operations.looks.inspecting_runs import answering_of, describe_run, figures_of, steps_of
from skillopt_mcp.operations.names import known, version_named
from skillopt_mcp.operations.spending.listing_runs import way_to_end
from skillopt_mcp.operations.stores.exporting import export_run, export_version
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
        fields = _fields(workspace, page.kind, page.id) if options.json else {}
        conclude = None
        if page.kind == "run":
            conclude = way_to_end(workspace, workspace.store.runs.get_run(page.id))
            if options.json:
                fields["conclude"] = conclude
            else:
                texts = [describe_run(workspace, page.id, terminal.stdout().width)]
    text, step = "".join(texts), page.next_step
    if page.kind == "skill":
        step = terminal.advice_on(options.id, step, options)
    if options.json:
        terminal.emit({"id": options.id, "kind": page.kind, "text": text, "next_step": step, **fields}, options)
        return 0
    if page.kind == "candidate":
        terminal.say_diff(text)
    else:
        terminal.say(text)
    if step:
        terminal.note(f"Next: {terminal.advice(step, options)}")
    if conclude:
        terminal.note(f"Or search no more: {terminal.advice(conclude, options)}")
    return 0


def _fields(workspace: Workspace, kind: str, id: str) -> dict[str, object]:
    """Return what is shown in fields beside the text: all of it, as no answer has to fit here."""
    if kind == "run":
        steps = [step.model_dump(mode="json") for step in steps_of(workspace, id)]
        figures = figures_of(workspace, workspace.store.runs.get_run(id))
        return {"steps": steps, "answering": answering_of(workspace, id), "run": figures}
    detail = detailed(workspace, kind, id)
    return {kind: detail.model_dump(mode="json", exclude={"n_left_out"})} if detail else {}


def _export(workspace: Workspace, folder: Path, options: Options) -> int:
    if version := version_named(known(options.id)):
        return _export_version(workspace, *version, folder, options)
    done = export_run(workspace, options.id, folder)
    if options.json:
        terminal.emit(done)
    else:
        terminal.say(
            f"Run {done.run_id}: {counted(done.n_files, 'file')} in {done.folder}, {done.n_written} new or changed."
        )
    return 0


def _export_version(workspace: Workspace, name: str, version: str, folder: Path, options: Options) -> int:
    done = export_version(workspace, name, version, folder)
    if options.json:
        terminal.emit(done, options)
    else:
        terminal.say(f"Version {done.version} of {done.skill}, files in {done.folder}: {done.n_files}.")
        terminal.note(terminal.advice(done.next_step, options))
    return 0
