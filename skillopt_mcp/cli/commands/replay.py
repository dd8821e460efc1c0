"""Replay: train a skill offline on its stored tasks, in a way that can be stopped and gone on with at any moment."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from skillopt_mcp.backends.batches import Patience
from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.agreeing import asked_for, is_real
from skillopt_mcp.cli.capping import Capped, foreseen
from skillopt_mcp.cli.consolidating import Consolidation, consolidated, told_next
from skillopt_mcp.cli.preparing import Prepared, Sources, added_notes, prepare
from skillopt_mcp.cli.resuming import asked_roles, check_changed, may_go_on, note_others
from skillopt_mcp.cli.telling import say_outcome, say_policy, told_estimate
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.documents.counts import counted
from skillopt_mcp.errors import BadInput, Busy, CapReached, Refused, SkillOptError, Stopped, StoreError
from skillopt_mcp.operations.answering import ALLOWED, run_backends
from skillopt_mcp.operations.runs.consolidating import Document
from skillopt_mcp.operations.runs.estimating import estimate_run
from skillopt_mcp.operations.runs.policies import replay_policy
from skillopt_mcp.operations.runs.replaying import check_able, replay, start_run, unfinished_run
from skillopt_mcp.operations.runs.simulating import advised
from skillopt_mcp.operations.spending.batching import abandon, told_of, waiting_batches
from skillopt_mcp.operations.spending.charging import told_under_way
from skillopt_mcp.operations.spending.forecasting import forecast
from skillopt_mcp.operations.spending.listing_runs import told_elsewhere, told_own
from skillopt_mcp.operations.stores.exporting import check_folder, export_run
from skillopt_mcp.operations.tasks.adding import add_environment
from skillopt_mcp.operations.testing.calibrating import run_prospect
from skillopt_mcp.operations.testing.evaluating import is_simulated
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.evidence import Metric
from skillopt_mcp.records.runs import Run

EXPECTED, INTERRUPTED = 1, 130
AROUND = ("target", "optimizer", "judge", "slots", "out", "prompts")
# What a resumed run may be told anew.
_FREE = frozenset({"target", "optimizer", "judge", "slots", "out"})


@dataclass(frozen=True, slots=True)
class _Way:
    """How a run is carried out, which does not change what it finds."""

    slots: int | None
    out: Path | None


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
    """Return 0 when the run has finished, 1 when it was not wanted or stopped at a cap, 130 when it was interrupted."""
    if options.slots is not None and options.slots < 1:
        raise BadInput(f"slots '{options.slots}' is not possible: use 1 or more")
    if options.allow_changed and not options.resume:
        raise BadInput("--allow-changed goes on with a run that is there: give --resume with it")
    if options.policy:
        return _other_gate(options, options.policy)
    if options.memory:
        return _with_memory(options, options.memory)
    if options.abandon:
        return _abandoned(options)
    return _resumed(options) if options.resume else _new(options)


def _other_gate(options: Options, policy: str) -> int:
    if options.resume or options.settings.keys() - {"metric"}:
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
    asked = Consolidation(options.skill, memory, options.document, options.resume, options.allow_changed, options)
    with Workspace(
        options.store_path, target=ready.target, optimizer=ready.optimizer, judge=ready.judge, caps=options.caps,
        batch=_patience(options),
    ) as workspace:  # fmt: skip
        return consolidated(workspace, asked, ready)


def _resumed(options: Options) -> int:
    frozen = [name for name in options.settings if name not in _FREE]
    frozen += [name for name in ("config", "set") if getattr(options, name)]
    if frozen:
        name = "env" if frozen[0] == "environment" else frozen[0].replace("_", "-")
        raise BadInput(f"a resumed run keeps the settings it was begun with: leave out '--{name}'")
    with Workspace(options.store_path) as workspace:
        begun = unfinished_run(workspace, options.skill)
        waiting = waiting_batches(workspace, begun.id)
        if options.skill != begun.id and not options.json:
            note_others(workspace, begun)
    if own := told_own(begun):
        raise Refused(own)
    if waiting and not options.json:
        terminal.note(f"note: {told_of(waiting)}; the run goes on by batch")
    out = Path(options.out).expanduser() if options.out else None
    if out:
        check_folder(out, begun.id)
    with _workspace(options, begun, Patience() if waiting else _patience(options)) as workspace:
        way = f"skillopt-mcp replay {shlex.quote(options.skill)} --resume {ALLOWED}"
        check_changed(workspace, begun, way, allowed=options.allow_changed, silent=options.json)
        if not may_go_on(workspace, begun, options.slots, yes=options.yes, silent=options.json):
            terminal.note("Nothing more was spent.")
            return EXPECTED
        return _replay(workspace, begun, options, _Way(options.slots, out))


def _workspace(options: Options, begun: Run, batch: Patience | None) -> Workspace:
    """Return a workspace with the backends that a run was begun with, where no other ones are named."""
    target, optimizer = options.target or begun.target, options.optimizer or begun.optimizer
    judge = options.judge or begun.judge or None
    return Workspace(
        options.store_path, target=target, optimizer=optimizer, judge=judge, caps=options.caps, batch=batch
    )  # fmt: skip


def _patience(options: Options) -> Patience | None:
    return Patience() if options.by_batch else None


def _abandoned(options: Options) -> int:
    """Return 0 once the vendor was told to answer no more of what the newest unfinished run has there."""
    if options.settings.keys() - _FREE or options.resume:
        raise BadInput("--abandon cancels what a run has at a vendor: it takes no settings, and no --resume")
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
    with Workspace(
        options.store_path, target=ready.target, optimizer=ready.optimizer, judge=ready.judge, caps=options.caps,
        batch=_patience(options),
    ) as workspace:  # fmt: skip
        begun = _begun(workspace, options, ready)
        if begun is None:
            terminal.note("Nothing was spent.")
            return 1
        return _replay(workspace, begun, options, _Way(ready.slots, ready.out))


def _begun(workspace: Workspace, options: Options, ready: Prepared) -> Run | None:
    """Return a new run, or None when the person does not want to spend what it may take."""
    config, only = ready.config, None
    for role in ("target", "optimizer") if ready.environment is None else ():
        # Where nobody answers, that is told before anything of the skill.
        workspace.backend(role)
    if ready.environment is not None:
        added = add_environment(workspace, options.skill, ready.environment)
        only = added.digests
        if not options.json:
            for note in added_notes(ready.environment.name, added):
                terminal.note(note)
    if other := told_elsewhere(workspace, options.skill):
        terminal.note(f"warning: {other}.")
    if locked := workspace.locked(workspace.recorded(options.skill)):
        terminal.note(f"warning: {locked}.")
    estimate = estimate_run(workspace, options.skill, config, only)
    real = is_real(workspace, asked_for(estimate.calls))
    if estimate.n_train and estimate.n_val:
        check_able(workspace)
        if not options.json:
            terminal.note(told_estimate(estimate, config))
            why = run_prospect(workspace, options.skill, config, only)
            if why:
                terminal.note(f"warning: at the end, {why}.")
            if real:
                terminal.note(foreseen(forecast(workspace, estimate.calls, ready.slots)))
        if real and not terminal.agreed("Spend that much?", yes=options.yes, ask=not options.json):
            return None
    return start_run(workspace, options.skill, config, ready.prompts, only)


def _replay(workspace: Workspace, begun: Run, options: Options, way: _Way) -> int:
    simulated = is_simulated(workspace.backend("target").fingerprint)
    label = f"SIMULATION ({begun.target})" if simulated else ""
    if not options.json:
        terminal.note(f"Run {begun.id} {'goes on' if options.resume else 'begins'}. {label}".rstrip())
    try:
        with Watch("SIMULATION" if label else "", silent=options.json) as watch:
            result = replay(
                workspace, begun, watch.notify, watch.on_reply, way.slots, allow_changed=options.allow_changed
            )
    except StoreError as error:
        return _broken_off(workspace, begun, options, way, error)
    except (KeyboardInterrupt, Stopped) as stop:
        _export(workspace, begun, way)
        return _broken_off(workspace, begun, options, way, stop if isinstance(stop, Stopped) else None)
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


def _export(workspace: Workspace, begun: Run, way: _Way) -> None:
    """Write the run to its folder; where that fails, what became of the run is told all the same."""
    if not way.out:
        return
    try:
        done = export_run(workspace, begun.id, way.out)
    except SkillOptError as error:
        terminal.note(f"warning: the run is kept, but was not written as files: {error}.")
    else:
        terminal.note(f"{counted(done.n_files, 'file')} in {done.folder}; best_skill.md is the best version.")


def _broken_off(
    workspace: Workspace, begun: Run, options: Options, way: _Way, stopped: Stopped | StoreError | None
) -> int:
    """Return the exit code of a run that did not reach its end, told why and how to go on."""
    n_steps = len(workspace.store.runs.list_steps(begun.id))
    # Whoever sits at a terminal is asked again.
    agreed = [] if terminal.is_interactive() or not is_real(workspace, asked_roles(begun)) else ["--yes"]
    resume = _command(options, "--resume", *_again(options, way, stopped), *agreed)
    waiting = waiting_batches(workspace, begun.id)
    # What is at a vendor goes on there, and is collected.
    under_way = "" if isinstance(stopped, Stopped) or waiting else told_under_way(workspace.store, begun.id)
    reason = "; ".join(filter(None, [str(stopped) if stopped else "nothing that was answered is lost", under_way]))
    if options.json:
        shown = {"run_id": begun.id, "status": "stopped", "verdict": None, "n_steps": n_steps, "reason": reason}
        at_vendor = [batch.vendor_id or batch.id for batch in waiting]
        terminal.emit(shown | {"next_step": resume, "at_vendor": at_vendor})
    how = "Stopped" if stopped else "Interrupted"
    terminal.note(f"{how} after {counted(n_steps, 'finished step')}; {reason.rstrip('.')}. Go on with:\n  {resume}")
    if waiting:
        abandoned = _command(options, "--abandon")
        terminal.note(f"{told_of(waiting)[:1].upper()}{told_of(waiting)[1:]}. To cancel it:\n  {abandoned}")
    return EXPECTED if stopped else INTERRUPTED


def _command(options: Options, *more: str) -> str:
    """Return a command about the run of the skill that was asked for."""
    store = ["--store", shlex.quote(options.store)] if options.store else []
    return " ".join(["skillopt-mcp replay", shlex.quote(options.skill), *more, *store])


def _again(options: Options, way: _Way, stopped: Stopped | StoreError | None) -> list[str]:
    """Return what to give to go on in the same way: a higher cap, where a cap stopped it, and how it is carried out."""
    higher = [stopped.higher] if isinstance(stopped, CapReached) and stopped.higher else []
    slots = [f"--slots {way.slots}"] if way.slots else []
    out = [f"--out {shlex.quote(str(way.out))}"] if way.out else []
    batch = ["--by-batch"] if options.by_batch else []
    return [*higher, *slots, *out, *batch]
