"""Preparing: what a replay is to do, settled from flags, --set, a settings file and an environment before it begins."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from skillopt_mcp.actions.tasks import add_environment
from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.environment import Rolling
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.core.errors import BackendError, BadInput
from skillopt_mcp.core.notes import describe_note
from skillopt_mcp.core.text import counted, quoted
from skillopt_mcp.prompts.loading import Prompts, load_prompts
from skillopt_mcp.reports.export import check_folder
from skillopt_mcp.tasks.environments.base import Environment, rolls_out
from skillopt_mcp.tasks.environments.registry import SKILLOPTS_OWN, environment_names, open_environment
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.settings.settling import load_settings
from skillopt_mcp.workspace.callers import find_caller
from skillopt_mcp.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that a new run starts from; `notes` are for the person."""

    config: Config
    prompts: Prompts | None
    target: str | Backend | None
    optimizer: str | None
    judge: str | None
    environment: Environment | None
    concurrency: int | None
    out: Path | None
    notes: tuple[str, ...]


def prepare(file: str | None, pairs: Sequence[str], flags: Mapping[str, object], skill: str) -> Prepared:
    """What a new run starts from: a settings file, the pairs of --set and flags (by setting), the last first.

    Raises BadInput for a setting, a file or a folder that cannot be used.
    """
    settings = load_settings(Path(file).expanduser() if file else None, pairs, flags)
    notes, named = [*settings.notes], settings.environment
    # An environment that a flag names must be there, one of SkillOpt's own files need not.
    is_own = named in SKILLOPTS_OWN and find_spec("skillopt") is not None
    if named and "environment" not in flags and named.partition(":")[0] not in environment_names():
        plan = settings.splits
        if not is_own:
            notes.append(f"no environment '{named}' is registered here: the run takes the stored tasks")
            named = None
        elif plan and settings.data_path:
            place = "split_dir" if plan.mode == "split_dir" else "data_path"
            named += f":split_mode={plan.mode},split_ratio={plan.ratio},split_seed={plan.seed}"
            named += f",{place}={settings.data_path}"
    environment = open_environment(named) if named else None
    if settings.data_path and settings.splits and not is_own:
        notes.append(
            f"the run takes the stored tasks; those of '{settings.data_path}' are added with: skillopt-mcp tasks add "
            f"{skill} {settings.data_path} --split-mode {settings.splits.mode}"
        )
    target: str | Backend | None = settings.target
    if environment and rolls_out(environment):
        if "target" in flags:
            raise BadInput(f"the environment '{named}' attempts its tasks itself: leave out --target")
        target = Rolling(environment, named)
    for role, word in settings.chosen_by.items():
        # What SkillOpt calls a backend may be no part of its name here: an error has to name the word.
        spec = target if role == "target" else settings.optimizer
        try:
            _ = open_backend(spec) if isinstance(spec, str) and find_caller() != "agent" else None
        except BackendError as error:
            raise BackendError(f"{quoted(word)} chose '{spec}' as {role}: {error}") from None
    out = Path(os.path.expanduser(settings.out)) if settings.out else None
    if out:
        check_folder(out)
    return Prepared(
        config=settings.config,
        prompts=load_prompts(Path(settings.prompts).expanduser()) if settings.prompts else None,
        target=target,
        optimizer=settings.optimizer,
        judge=settings.judge,
        environment=environment,
        concurrency=settings.concurrency,
        out=out,
        notes=tuple(notes),
    )


def flag_of(setting: str) -> str:
    """Return the option of a setting: its name, but for the search gate, which is not the promotion test."""
    return "search-gate" if setting == "gate" else setting.replace("_", "-")


def add_environment_tasks(
    terminal: Terminal, workspace: Workspace, skill: str, environment: Environment
) -> frozenset[str]:
    """Add the tasks of an environment to those of a skill, with notes on what was added; the digests of all of them."""
    added, of_it = add_environment(workspace.store, workspace.place, skill, environment), f"of '{environment.name}'"
    terminal.note(f"{counted(added.added, 'task')} {of_it} added, {added.duplicates} there already.")
    if added.n_removed:
        terminal.note(f"note: left out, as removed: {counted(added.n_removed, 'task')} {of_it}")
    if added.n_others:
        others = counted(added.n_others, "other task")
        terminal.note(f"note: {others} of the skill left out; without --env the run takes all")
    for note in added.notes:
        terminal.note(f"note: {describe_note(note)}")
    return added.digests
