"""Replay: train a skill offline on its stored tasks, in a way that can be stopped and resumed at any moment."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import JsonValue

from skillopt_mcp.actions.estimates import estimate_rest, estimate_run, run_gaps
from skillopt_mcp.actions.replay import TOPPED, replay
from skillopt_mcp.actions.runs import (
    begin,
    describe_others_left,
    describe_running,
    list_lacking,
    new_run,
    run_reach,
    unfinished_run,
    with_memory,
)
from skillopt_mcp.cli.command import OPTIMIZER, TARGET, Flag, WrongUsage, command
from skillopt_mcp.cli.nights import Nightly, run_nightly, show_night
from skillopt_mcp.cli.preparing import Prepared, add_environment_tasks, flag_of, prepare
from skillopt_mcp.cli.reports import show_page, show_report
from skillopt_mcp.cli.spending import (
    BrokenOff,
    Planned,
    advise_real_target,
    asks_real_models,
    describe_calls,
    mark_simulation,
    require_backends,
)
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.cli.watching import Watch
from skillopt_mcp.core.errors import BadInput, Busy, Refused, SkillOptError, Stopped, StoreError
from skillopt_mcp.core.results import MemoryOutcome, Replayed
from skillopt_mcp.core.runs import Run
from skillopt_mcp.core.text import counted
from skillopt_mcp.gates.search import describe_seen
from skillopt_mcp.reports.export import check_folder, export_run
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.gating import is_topped
from skillopt_mcp.workspace.costs import account, describe_failed, describe_price
from skillopt_mcp.workspace.models import ALLOWED
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.runs import describe_own_backend, make_plan
from skillopt_mcp.workspace.workspace import Workspace

# What a resumed run may be given again.
_FREE = frozenset({"target", "optimizer", "judge", "concurrency", "out"})
_BLOCKS = "▁▂▃▄▅▆▇█"
_AROUND = ("target", "optimizer", "judge", "concurrency", "out", "prompts")
_EXIT_CODES = """exit codes:
  0    the run has finished, whatever its verdict (or --dry-run has printed its estimate)
  1    it stopped at a cap or in an outage (--resume continues), was declined, or cannot be run
  2    wrong usage
  130  interrupted (--resume continues)"""


class PlannedRun(Planned):
    """What a run would ask at most, and why no standing permission would cover its edit; nothing was asked."""

    beyond_permission: list[str]


@command("replay", example=f"replay my-skill --target {TARGET} --optimizer {OPTIMIZER}")
class Replay(Nightly):
    """Train a skill offline on its stored tasks."""

    epilog = _EXIT_CODES
    env: Annotated[str | None, Flag("an environment: its tasks are added, e.g. qa:FOLDER", "NAME[:OPTIONS]")] = None
    config: Annotated[str | None, Flag("settings in YAML, SkillOpt's own files too", "FILE")] = None
    prompts: Annotated[str | None, Flag("a folder of NAME.md in the place of the shipped prompts", "DIR")] = None
    out: Annotated[str | None, Flag("write the run there: best_skill.md, versions, history", "DIR")] = None
    memory: Annotated[str | None, Flag("a CLAUDE.md or AGENTS.md to train with the skill", "PATH")] = None
    resume: Annotated[bool, Flag("continue the newest unfinished run of the skill, under its caps")] = False
    allow_changed: Annotated[
        bool, Flag("with --resume: also where other versions of agents answer now; its versions are measured again")
    ] = False

    @classmethod
    def declare(cls, parser: argparse.ArgumentParser) -> None:
        """Declare every field of Config as a flag; what was given becomes the one field `given`."""
        parser.set_defaults(given={})
        group = parser.add_argument_group("settings (defaults, in brackets, are the paper's)")
        for name, setting in Config.model_fields.items():
            text = str(setting.description or "").replace("%", "%%")
            options: dict[str, Any] = {
                "dest": name, "action": _Keep, "default": argparse.SUPPRESS,
                "help": f"{text[:1].lower()}{text[1:]} ({str(setting.default).lower()})",
            }  # fmt: skip
            if setting.annotation is bool:
                group.add_argument(f"--{flag_of(name)}", f"--no-{flag_of(name)}", nargs=0, **options)
            elif choices := tuple(_choices(setting.annotation)):
                group.add_argument(f"--{flag_of(name)}", choices=choices, **options)
            else:
                kinds: dict[object, type] = {float: float, str: str}
                metavar = "TEXT" if setting.annotation is str else "N"
                kind = kinds.get(setting.annotation, int)
                group.add_argument(f"--{flag_of(name)}", type=kind, metavar=metavar, **options)

    def run(self, terminal: Terminal) -> Any:
        if (self.install or self.uninstall) and not self.nightly:
            raise WrongUsage("--install and --uninstall need --nightly")
        if self.nightly:
            return run_nightly(self, terminal)
        if not self.skill:
            raise WrongUsage("replay needs a SKILL, or --nightly")
        if self.allow_changed and not self.resume:
            raise WrongUsage("--allow-changed needs --resume")
        return self._resumed(terminal) if self.resume else self._new(terminal)

    # A new run

    @property
    def _settings(self) -> dict[str, object]:
        """Return the settings that were given as flags, those of Config and those of the run around it."""
        around = {name: getattr(self, name) for name in _AROUND} | {"environment": self.env}
        return {**self.given, **{name: value for name, value in around.items() if value is not None}}

    @contextmanager
    def _workspace(self, terminal: Terminal, run: Run | Prepared) -> Iterator[Workspace]:
        """Lend a workspace with the backends of a run, where no other ones are named."""
        require_backends(target=self.target or run.target, optimizer=self.optimizer or run.optimizer)
        with terminal.workspace(
            target=self.target or run.target, optimizer=self.optimizer or run.optimizer,
            judge=self.judge or run.judge or None, caps=self.caps,
            concurrency=run.concurrency if isinstance(run, Prepared) else self.concurrency, ray=self.cluster,
        ) as workspace:  # fmt: skip
            yield workspace

    def _new(self, terminal: Terminal) -> Replayed | Planned | BrokenOff:
        ready = prepare(self.config, self.set, self._settings, self.skill)
        with self._workspace(terminal, ready) as workspace:
            config, only = ready.config, None
            for role in ("target", "optimizer"):
                workspace.models.backend(role)  # one that cannot be used is named before anything of the skill
            notes = [*ready.notes, *list_lacking(workspace.models, config)]
            if ready.environment:
                if self.dry_run:
                    raise BadInput(
                        f"a dry run does not add the tasks of '{ready.environment.name}': leave out --dry-run (you are "
                        "asked before anything is spent), or --env where its tasks are stored already"
                    )
                self.name_models(terminal, workspace.models, notes)
                only = add_environment_tasks(terminal, workspace, self.skill, ready.environment)
            store, models, place = workspace.store, workspace.models, workspace.place
            new = new_run(store, models, place, self.skill, config, ready.prompts, only)
            new = with_memory(store, place, new, self.memory) if self.memory else new
            n_rows = make_plan(store, place.secrets, new).n_rows  # raises where nothing can be trained on
            estimate = estimate_run(store, models, new)
            if not ready.environment:
                self.name_models(terminal, models, notes)
            warnings = (
                describe_running(store, place, self.skill),
                place.describe_locked(place.find_recorded(self.skill)),
                models.describe_left_out(new.skill_id),
                place.describe_locked(place.find_recorded(self.memory)) if self.memory else "",
            )
            for warning in filter(None, warnings):
                terminal.note(f"warning: {warning}.")
            text = (
                f"Steps: {n_rows} ({estimate.n_steps} with edits, epochs {config.epochs}, train tasks "
                f"{estimate.n_train}, {min(config.batch, estimate.n_train)} a step). "
                f"{describe_seen(config.gate, estimate.n_val)} At most {describe_calls(estimate.calls)} "
                f"({estimate.train_rollouts:,} attempts in training, {estimate.val_rollouts:,} on val tasks, "
                f"{estimate.promotion_runs:,} in the promotion test{'s' if new.memory else ''})."
            )
            if reach := run_reach(store, models, place.secrets, new):
                self._reach, text = reach, f"{text} {reach}"
            if gaps := run_gaps(store, models, new):
                text = f"{text} No standing permission will cover its edit: {'; '.join(gaps)}."
            if plan := self.agree(terminal, workspace, estimate.calls, text):
                return PlannedRun(**plan.model_dump(), beyond_permission=gaps)
            begin(store, place.secrets, new)
            return self._train(terminal, workspace, new, ready.out)

    # A resumed run

    def _resumed(self, terminal: Terminal) -> Replayed | Planned | BrokenOff:
        frozen = [name for name in self._settings if name not in _FREE]
        if frozen := frozen + [name for name in ("config", "set") if getattr(self, name)]:
            name = "env" if frozen[0] == "environment" else flag_of(frozen[0])
            raise WrongUsage(f"a resumed run keeps its settings: leave out '--{name}'")
        with terminal.workspace() as workspace:
            run = unfinished_run(workspace.store, workspace.place, self.skill)
            if self.memory and (not run.memory or workspace.place.skill(self.memory).id != run.memory.skill_id):
                raise BadInput(f"run '{run.id}' does not train '{self.memory}': leave out --memory, or start a new run")
            others = describe_others_left(workspace.store, run) if self.skill != run.id else ""
            folder = self.out or workspace.store.runs.get_folder(run.id)
        if own := describe_own_backend(run):
            raise Refused(own)
        out = Path(folder).expanduser() if folder else None
        if out:
            check_folder(out, run.id)
        with self._workspace(terminal, run) as workspace:
            store, models, place = workspace.store, workspace.models, workspace.place
            named = [f"--{role} {shlex.quote(spec)}" for role in ("target", "optimizer", "judge")
                     if (spec := getattr(self, role))]  # fmt: skip
            way = " ".join(["skillopt-mcp replay", shlex.quote(self.skill), "--resume", ALLOWED, *named])
            models.backends_of(run)
            if not self.allow_changed:
                models.check_unchanged(run, way)
            notes = [f"{others}."] if others else []
            self.name_models(terminal, models, [*notes, *list_lacking(models, Config.of_run(run.config))])
            reach = run_reach(store, models, place.secrets, run)
            if reach and not run.result:
                self._reach = reach
                terminal.note(reach)
            then = "its outcome is kept" if run.status == "finished" else "its versions are measured again"
            for each in models.list_changed(run):
                terminal.note(f"note: {each}; {then}")
            # Under caps that are used up nothing is sent: it goes as far as what was answered, and says why it stops.
            if self.dry_run or (asks_real_models(models, run.roles) and not models.has_used_up(run)):
                spent, left = store.budgets.get_spent(run.id), estimate_rest(store, models, place.secrets, run)
                text = (
                    f"Sent so far: {counted(spent.calls, 'call')}. What is left of {run.id}: at most "
                    f"{describe_calls(left)}. {models.caps_of(run).describe_used(spent)}"
                )
                kept = "Nothing more was spent."
                if plan := self.agree(terminal, workspace, left, text.rstrip(), declined=kept):
                    return plan
            return self._train(terminal, workspace, run, out)

    # Training

    def _train(self, terminal: Terminal, workspace: Workspace, run: Run, out: Path | None) -> Replayed | BrokenOff:
        store, models, place = workspace.store, workspace.models, workspace.place
        label, caps = mark_simulation(models), models.caps_of(run)
        try:
            models.lock_run(run).release()
            if out:
                store.runs.set_folder(run.id, str(out.absolute()))
            terminal.note(f"Run {run.id} {'continues' if self.resume else 'starts'}. {label}".rstrip())
            with Watch(
                terminal, "SIMULATION" if label else "", records=store.runs.list_steps(run.id),
                caps=lambda: caps.describe_used(store.budgets.get_spent(run.id)),
            ) as watch:  # fmt: skip
                models.on_reply = watch.on_reply
                result = replay(store, models, place, run, watch.notify, allow_changed=self.allow_changed)
        except (KeyboardInterrupt, Stopped, StoreError) as stop:
            if not isinstance(stop, StoreError):
                _export(terminal, store, place, run, out)
            arguments: dict[str, JsonValue] = {
                "skill": self.skill, "resume": True, "concurrency": models.concurrency,
                "out": str(out) if out else None, "ray": self.ray, "ray_resources": self.ray_resources,
                "ray_cpus": self.ray_cpus if self.ray_cpus != 1 else None,
                "ray_env": self.ray_env if self.ray_env != "pip" else None,
                # A person at a terminal is asked again.
                "yes": not terminal.is_interactive and asks_real_models(models, run.roles),
            }  # fmt: skip
            n_steps = len(store.runs.list_steps(run.id))
            return BrokenOff.of(stop, "replay", arguments, run_id=run.id, n_steps=n_steps)
        except Busy as error:
            why = str(error).partition(":")[0]
            raise Busy(
                f"{why}; afterwards continue it with: skillopt-mcp replay {shlex.quote(self.skill)} --resume"
            ) from None
        _export(terminal, store, place, run, out)
        result = advise_real_target(store, models, run.skill_id, result)
        result = result.for_agents() if terminal.is_agents else result
        used, config = account(store, run.id).summary, Config.of_run(run.config)
        self._spent = describe_price(used)
        self._aside, self._label = describe_failed(used), label
        self._is_topped = bool(result.steps) and is_topped(config, result.steps[-1].current)
        return result

    # The result

    def show(self, result: Any, terminal: Terminal) -> None:
        if isinstance(result, Planned | BrokenOff):
            return result.show(terminal)
        if self.nightly:
            return show_night(result, terminal)
        tokens = counted(result.tokens_in + result.tokens_out, "token")
        terminal.say(
            f"Run {result.run_id} finished: {counted(len(result.steps), 'step')}, {counted(result.n_calls, 'call')}"
            f"{self._aside}, {tokens}, {self._spent}."
        )
        if self._is_topped:
            terminal.say(
                f"No further step: {TOPPED}. Harder val tasks, or --search-gate paired_se, leave room for one."
            )
        for change in result.changes:
            terminal.say(f"Changed during the run: {change}.")
        if result.baseline is not None and result.steps:
            scores = [result.baseline, *(step.current for step in result.steps)]
            blocks = "".join(_BLOCKS[min(int(score * len(_BLOCKS)), len(_BLOCKS) - 1)] for score in scores)
            best = result.steps[-1].best
            terminal.say(f"Val score by step: {blocks} {scores[0]:.2f} → {scores[-1]:.2f}, best {best:.2f}.")
        _show_verdict(result, self._label, terminal)
        if memory := result.memory:
            terminal.say(f"Memory file {shlex.quote(memory.skill)}, tested with the skill:")
            _show_verdict(memory, self._label, terminal)
            if memory.accepted:
                terminal.say(f"After the skill, promote it: skillopt-mcp promote {memory.candidate_id}")
        show_page(terminal, result.run_id)
        if self._label:
            terminal.say(f"{self._label}: this says nothing about a real model.")
        return None

    def exit_code(self, result: Any) -> int:
        return int(getattr(result, "exit_code", 0))


class _Keep(argparse.Action):
    """Keeps a setting that was given, by its name, among those of the command line."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        value = not str(option).startswith("--no-") if self.nargs == 0 else values
        namespace.given = {**namespace.given, self.dest: value}


def _choices(annotation: object) -> Iterator[str]:
    """Yield the texts that a literal type, or a union of such, allows."""
    for part in get_args(annotation):
        yield from [part] if isinstance(part, str) else _choices(part)


def _show_verdict(result: Replayed | MemoryOutcome, label: str, terminal: Terminal) -> None:
    if result.test:
        show_report(terminal, result.test, simulated=bool(label))
    elif result.accepted is not None:
        terminal.say("Accepted." if result.accepted else "Not accepted.")
    else:
        terminal.say(f"No verdict: {result.reason.rstrip('.')}.")


def _export(terminal: Terminal, store: Store, place: Place, run: Run, out: Path | None) -> None:
    """Write the run to its folder; where that fails, its outcome is reported all the same."""
    if out is None:
        return
    try:
        done = export_run(store, place, run.id, out)
    except SkillOptError as error:
        terminal.note(f"warning: the run is kept, but was not written as files: {error}.")
    else:
        terminal.note(f"{counted(done.n_files, 'file')} in {done.folder}; best_skill.md is the best version.")
