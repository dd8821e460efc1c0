"""Replay: train a skill offline on its stored tasks, in a way that can be stopped and gone on with at any moment."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from skillopt_mcp.backends.batches import Patience
from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.agreeing import ends_here
from skillopt_mcp.cli.breaking_off import Way, broken_off
from skillopt_mcp.cli.capping import Capped
from skillopt_mcp.cli.consolidating import Consolidation, consolidated, told_next
from skillopt_mcp.cli.preparing import Prepared, Sources, added_notes, prepare
from skillopt_mcp.cli.resuming import check_changed, note_others, unwilling_to_conclude, unwilling_to_go_on
from skillopt_mcp.cli.telling import say_outcome, say_policy, told_estimate
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.errors import BadInput, Busy, Refused, SkillOptError, Stopped, StoreError
from skillopt_mcp.operations.answering import ALLOWED, lock_of, run_backends
from skillopt_mcp.operations.runs.consolidating import Document
from skillopt_mcp.operations.runs.estimating import estimate_run
from skillopt_mcp.operations.runs.policies import replay_policy
from skillopt_mcp.operations.runs.replaying import (
    CONCLUDED,
    begin,
    check_new,
    conclude,
    new_run,
    replay,
    unfinished_run,
)
from skillopt_mcp.operations.runs.simulating import advised
from skillopt_mcp.operations.spending.batching import abandon, told_of, waiting_batches
from skillopt_mcp.operations.spending.listing_runs import told_elsewhere, told_own
from skillopt_mcp.operations.stores.exporting import check_folder, export_run
from skillopt_mcp.operations.tasks.adding import add_environment
from skillopt_mcp.operations.testing.calibrating import run_prospect
from skillopt_mcp.operations.testing.evaluating import is_simulated
from skillopt_mcp.operations.testing.twinned import twins_in_run
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.evidence import Metric
from skillopt_mcp.records.runs import Run

EXPECTED = 1
AROUND = ("target", "optimizer", "judge", "slots", "out", "prompts")
IN_PYTHON = "to end its search there, a callback of 'baseline' raises skillopt_mcp.Enough"
# What a resumed run may be told anew.
_FREE = frozenset({"target", "optimizer", "judge", "slots", "out"})


@dataclass(frozen=True, slots=True)
class Options(Capped):
    """What to train, with whom, and the settings that differ from the defaults."""

    skill: str = ""
    target: str | None = None
    optimizer: str | None = None
    judge: str | None = None
    given: Mapping[str, object] = field(default_factory=dict)
    slots: int | None = None
    env: str | None = None
    config: str | None = None
    set: Sequence[str] = ()
    prompts: str | None = None
    out: str | None = None
    memory: str | None = None
    document: Document = "both"
    resume: bool = False
    conclude: bool = False
    allow_changed: bool = False
    by_batch: bool = False
    abandon: bool = False
    policy: str | None = None

    @property
    def settings(self) -> dict[str, object]:
        """Return the settings that were given as flags, those of Config and those of the run around it."""
        around = {name: getattr(self, name) for name in AROUND} | {"environment": self.env}
        return {**self.given, **{name: value for name, value in around.items() if value is not None}}


def run(options: Options) -> int:
    """Return 0 when the run has finished or was told, 1 when it was not wanted or stopped at a cap, 130 interrupted."""
    if options.slots is not None and options.slots < 1:
        raise BadInput(f"slots '{options.slots}' is not possible: use 1 or more")
    if options.resume and options.conclude:
        raise BadInput("--resume searches on, and --conclude ends the search: give one of them")
    if options.allow_changed and not (options.resume or options.conclude):
        raise BadInput("--allow-changed goes on with a run that is there: give --resume with it, or --conclude")
    if options.policy:
        return _other_gate(options, options.policy)
    if options.dry_run and options.abandon:
        raise BadInput("--abandon asks nothing of models: leave out --dry-run")
    if options.memory:
        return _with_memory(options, options.memory)
    if options.abandon:
        return _abandoned(options)
    return _resumed(options) if options.resume or options.conclude else _new(options)


def _other_gate(options: Options, policy: str) -> int:
    if options.resume or options.conclude or options.settings.keys() - {"metric"}:
        raise BadInput("--policy looks at a run that is over: it takes --metric and nothing else")
    with Workspace(options.store_path) as workspace:
        result = replay_policy(workspace, options.skill, policy, cast(Metric | None, options.given.get("metric")))
    if options.json:
        terminal.emit(result, options)
        return 0
    say_policy(result, policy, options)
    return 0


def _with_memory(options: Options, memory: str) -> int:
    ready = prepare(Sources(options.config, options.set, options.settings), options.skill)
    asked = Consolidation(
        options.skill, memory, options.document, options.resume, options.conclude, options.allow_changed, options
    )
    with _workspace(options, ready, _patience(options)) as workspace:
        return consolidated(workspace, asked, ready)


def _resumed(options: Options) -> int:
    flag = "--conclude" if options.conclude else "--resume"
    frozen = [name for name in options.settings if name not in _FREE]
    frozen += [name for name in ("config", "set") if getattr(options, name)]
    if frozen:
        name = "env" if frozen[0] == "environment" else frozen[0].replace("_", "-")
        raise BadInput(f"a {flag[2:]}d run keeps the settings it was begun with: leave out '--{name}'")
    with Workspace(options.store_path) as workspace:
        begun = unfinished_run(workspace, options.skill)
        waiting = waiting_batches(workspace, begun.id)
        if options.skill != begun.id and not options.json:
            note_others(workspace, begun, flag)
    if own := told_own(begun):
        raise Refused(f"{own}{f'; {IN_PYTHON}' if options.conclude else ''}")
    if waiting and not options.json:
        terminal.note(f"note: {told_of(waiting)}; the run goes on by batch")
    out = Path(options.out).expanduser() if options.out else None
    if out:
        check_folder(out, begun.id)
    with _workspace(options, begun, Patience() if waiting else _patience(options)) as workspace:
        way = " ".join(["skillopt-mcp replay", shlex.quote(options.skill), flag, ALLOWED, *_named(options)])
        check_changed(workspace, begun, way, allowed=options.allow_changed, silent=options.json, ends=options.conclude)
        unwilling_to = unwilling_to_conclude if options.conclude else unwilling_to_go_on
        if (code := unwilling_to(workspace, begun, options, options.slots)) is not None:
            return code
        if options.conclude:
            begun = conclude(workspace, begun, CONCLUDED)
        return _replay(workspace, begun, options, Way(options.skill, options.slots, out, options.by_batch))


def _workspace(options: Options, run: Run | Prepared, batch: Patience | None) -> Workspace:
    """Return a workspace with the backends that a run begins with, or was begun with, where no other ones are named."""
    return Workspace(
        options.store_path, target=options.target or run.target, optimizer=options.optimizer or run.optimizer,
        judge=options.judge or run.judge or None, caps=options.caps, batch=batch,
    )  # fmt: skip


def _named(options: Options) -> list[str]:
    """Return the backends that were named, as a command names them."""
    named = (("target", options.target), ("optimizer", options.optimizer), ("judge", options.judge))
    return [f"--{role} {shlex.quote(spec)}" for role, spec in named if spec]


def _patience(options: Options) -> Patience | None:
    return Patience() if options.by_batch else None


def _abandoned(options: Options) -> int:
    """Return 0 once the vendor was told to answer no more of what the newest unfinished run has there."""
    if options.settings.keys() - _FREE or options.resume or options.conclude:
        raise BadInput("--abandon cancels what a run has at a vendor: it takes no settings, no --resume or --conclude")
    with Workspace(options.store_path) as workspace:
        begun = unfinished_run(workspace, options.skill)
    with _workspace(options, begun, Patience()) as workspace:
        batches = abandon(workspace, run_backends(workspace, begun), begun.id)
    names = [batch.vendor_id or batch.id for batch in batches]
    if options.json:
        terminal.emit({"run_id": begun.id, "cancelled": names})
    elif names:
        terminal.say(
            f"Cancelled: {', '.join(names)}. What the vendor had answered by then is paid; --resume collects it."
        )
    else:
        terminal.say(f"Run {begun.id} has nothing at a vendor.")
    return 0


def _new(options: Options) -> int:
    ready = prepare(Sources(options.config, options.set, options.settings), options.skill)
    if not options.json:
        for note in ready.notes:
            terminal.note(f"note: {note}")
    with _workspace(options, ready, _patience(options)) as workspace:
        begun = _begun(workspace, options, ready)
        if isinstance(begun, int):
            return begun
        return _replay(workspace, begun, options, Way(options.skill, ready.slots, ready.out, options.by_batch))


def _begun(workspace: Workspace, options: Options, ready: Prepared) -> Run | int:
    """Return a new run, or the code to end with where the person does not want to spend what it may take."""
    config, only = ready.config, None
    for role in ("target", "optimizer") if ready.environment is None else ():
        # Where nobody answers, that is told before anything of the skill.
        workspace.backend(role)
    if ready.environment is not None:
        if options.dry_run:
            raise BadInput(
                f"a run adds the tasks of the environment '{ready.environment.name}', which a dry run does not: leave "
                "out --dry-run (what the run takes is asked before), or --env where its tasks are stored already"
            )
        added = add_environment(workspace, options.skill, ready.environment)
        only = added.digests
        if not options.json:
            for note in added_notes(ready.environment.name, added):
                terminal.note(note)
    if other := told_elsewhere(workspace, options.skill):
        terminal.note(f"warning: {other}.")
    if locked := workspace.locked(workspace.recorded(options.skill)):
        terminal.note(f"warning: {locked}.")
    if twins := twins_in_run(workspace, options.skill, config, only):
        terminal.note(options.on_store(f"warning: {twins}."))
    new = new_run(workspace, options.skill, config, ready.prompts, only)
    check_new(workspace, new)
    estimate = estimate_run(workspace, options.skill, config, only)
    why = "" if options.json else run_prospect(workspace, options.skill, config, only)
    warning = f"\nwarning: at the end, {why}." if why else ""
    told = f"{told_estimate(estimate, config)}{warning}"
    if (code := ends_here(workspace, estimate.calls, options, told, ready.slots)) is not None:
        return code
    begin(workspace, new)
    return new


def _replay(workspace: Workspace, begun: Run, options: Options, way: Way) -> int:
    simulated = is_simulated(workspace.backend("target").fingerprint)
    label = f"SIMULATION ({begun.target})" if simulated else ""
    try:
        # What somebody else is advancing neither begins nor goes on here.
        lock_of(workspace, begun).release()
        if not options.json:
            terminal.note(f"Run {begun.id} {_entering(begun, options)}. {label}".rstrip())
        with Watch("SIMULATION" if label else "", silent=options.json) as watch:
            result = replay(
                workspace, begun, watch.notify, watch.on_reply, way.slots, allow_changed=options.allow_changed
            )
    except StoreError as error:
        return broken_off(workspace, begun, options, way, error)
    except (KeyboardInterrupt, Stopped) as stop:
        _export(workspace, begun, way)
        return broken_off(workspace, begun, options, way, stop if isinstance(stop, Stopped) else None)
    except Busy as error:
        why = str(error).partition(":")[0]
        raise Busy(
            f"{why}; nothing that was answered is lost: once that is over, go on with skillopt-mcp replay "
            f"{shlex.quote(options.skill)} --resume"
        ) from error
    _export(workspace, begun, way)
    result = advised(workspace, begun.skill_id, result)
    if options.json:
        terminal.emit(result.model_copy(update={"next_step": told_next(result, label, options)}))
    else:
        say_outcome(workspace, result, label, options)
    return 0


def _entering(begun: Run, options: Options) -> str:
    if begun.conclusion:
        return f"searches no more, {begun.conclusion}"
    return "goes on" if options.resume or options.conclude else "begins"


def _export(workspace: Workspace, begun: Run, way: Way) -> None:
    """Write the run to its folder; where that fails, what became of the run is told all the same."""
    if not way.out:
        return
    try:
        done = export_run(workspace, begun.id, way.out)
    except SkillOptError as error:
        terminal.note(f"warning: the run is kept, but was not written as files: {error}.")
    else:
        terminal.note(f"{counted(done.n_files, 'file')} in {done.folder}; best_skill.md is the best version.")
