"""Replay: train a skill offline on its stored tasks, in a way that can be stopped and gone on with at any moment."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from pydantic import ValidationError

from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.invocation import Invocation
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.errors import BadInput
from skillopt_mcp.operations.estimating import Estimate, estimate_run
from skillopt_mcp.operations.evaluating import is_simulated
from skillopt_mcp.operations.replaying import replay, start_run, unfinished_run
from skillopt_mcp.operations.results import Replayed
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.runs import Run

INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Options(Invocation):
    """What to train, with whom, and the settings that differ from the defaults."""

    skill: str = ""
    target: str | None = None
    optimizer: str | None = None
    epochs: int | None = None
    batch: int | None = None
    minibatch: int | None = None
    fan_in: int | None = None
    schedule: str | None = None
    max_edits: int | None = None
    min_edits: int | None = None
    metric: str | None = None
    seed: int | None = None
    sessions: int | None = None
    alpha: float | None = None
    max_pairs: int | None = None
    slots: int = 8
    resume: bool = False
    yes: bool = False

    @property
    def settings(self) -> dict[str, object]:
        """Return the settings that were given."""
        given = {name: getattr(self, name) for name in Config.model_fields}
        return {name: value for name, value in given.items() if value is not None}


def run(options: Options) -> int:
    """Return 0 when the run has finished, 1 when the person did not want it, 130 when it was interrupted."""
    if options.slots < 1:
        raise BadInput(f"slots '{options.slots}' is not possible: use 1 or more")
    stopped = _stopped(options) if options.resume else None
    target = options.target or (stopped.target if stopped else None)
    optimizer = options.optimizer or (stopped.optimizer if stopped else None)
    with Workspace(options.store_path, target=target, optimizer=optimizer) as workspace:
        begun = stopped or _begun(workspace, options)
        if begun is None:
            terminal.note("Nothing was spent.")
            return 1
        return _replay(workspace, begun, options)


def _stopped(options: Options) -> Run:
    if options.settings:
        name = next(iter(options.settings)).replace("_", "-")
        raise BadInput(f"a resumed run keeps the settings it was begun with: leave out '--{name}'")
    with Workspace(options.store_path) as workspace:
        return unfinished_run(workspace, options.skill)


def _begun(workspace: Workspace, options: Options) -> Run | None:
    """Return a new run, or None when the person does not want to spend what it may take."""
    config = _config(options.settings)
    real = not all(is_simulated(workspace.backend(role).fingerprint) for role in ("target", "optimizer"))
    estimate = estimate_run(workspace, options.skill, config)
    if estimate.n_train and estimate.n_val:
        if not options.json:
            terminal.note(_told(estimate, config))
        if real and not terminal.agreed("Spend that much?", yes=options.yes, ask=not options.json):
            return None
    return start_run(workspace, options.skill, config)


def _config(settings: dict[str, object]) -> Config:
    try:
        return Config.model_validate(settings)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = f"--{first['loc'][0]}".replace("_", "-") if first["loc"] else "the edit budget"
        raise BadInput(f"{where}: {first['msg']}: see 'skillopt-mcp replay --help'") from error


def _told(estimate: Estimate, config: Config) -> str:
    return (
        f"Steps: {estimate.n_steps} (epochs {config.epochs}, train tasks {estimate.n_train}, "
        f"{min(config.batch, estimate.n_train)} a step). "
        f"At most {estimate.target_calls:,} target calls ({estimate.train_rollouts:,} in training, "
        f"{estimate.val_rollouts:,} on val tasks, {2 * estimate.promotion_pairs:,} in the promotion test) "
        f"and about {estimate.optimizer_calls:,} optimizer calls."
    )


def _replay(workspace: Workspace, begun: Run, options: Options) -> int:
    label = f"SIMULATION ({begun.target})" if is_simulated(workspace.backend("target").fingerprint) else ""
    if not options.json:
        terminal.note(f"Run {begun.id} {'goes on' if options.resume else 'begins'}. {label}".rstrip())
    try:
        with Watch("SIMULATION" if label else "", silent=options.json) as watch:
            result = replay(workspace, begun, watch.notify, watch.on_reply, options.slots)
    except KeyboardInterrupt:
        return _interrupted(workspace, begun, options)
    if options.json:
        terminal.emit(result)
    else:
        _say(result, label)
    return 0


def _interrupted(workspace: Workspace, begun: Run, options: Options) -> int:
    n_steps = len(workspace.store.runs.list_steps(begun.id))
    store = f" --store {shlex.quote(options.store)}" if options.store else ""
    resume = f"skillopt-mcp replay {shlex.quote(options.skill)} --resume{store}"
    if options.json:
        terminal.emit({"run_id": begun.id, "status": "stopped", "n_steps": n_steps, "next_step": resume})
    terminal.note(
        f"Interrupted after {n_steps} finished steps; nothing that was answered is lost. Go on with:\n  {resume}"
    )
    return INTERRUPTED


def _say(result: Replayed, label: str) -> None:
    spent = "price unknown" if result.usd is None else f"${result.usd:.2f}"
    terminal.say(
        f"Run {result.run_id} finished: {len(result.steps)} steps, {result.n_calls:,} calls, "
        f"{result.tokens_in + result.tokens_out:,} tokens, {spent}."
    )
    say_verdict(result, label)
    advice = f"{result.next_step} --simulated" if result.verdict == "accept" and label else result.next_step
    terminal.say(f"Next: {advice}".replace("show RUN", f"show {result.run_id}"))


def say_verdict(result: Replayed, label: str) -> None:
    """Print the promotion gate's verdict, or that there was nothing to test."""
    if result.verdict is None:
        terminal.say(f"No verdict: {result.reason}.")
        return
    terminal.say(
        f"Verdict: {result.verdict.upper()}. Live {result.test_before or 0:.2f}, candidate "
        f"{result.test_after or 0:.2f} on {result.n_pairs} pairs of held-out runs; {result.reason}."
    )
    if label:
        terminal.say(f"{label}: this says nothing about a real model.")
