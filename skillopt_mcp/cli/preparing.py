"""Preparing: what a replay is to do, settled from flags, --set, a settings file and an environment before it begins."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.environment import Rolling
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.documents.text import counted, quoted
from skillopt_mcp.environments.base import Environment, rolls_out
from skillopt_mcp.environments.registry import environment_names, open_environment
from skillopt_mcp.errors import BackendError, BadInput
from skillopt_mcp.prompts.loading import Prompts, load_prompts
from skillopt_mcp.settings.settling import Settings, load_settings
from skillopt_mcp.show.export import check_folder
from skillopt_mcp.show.notes import describe_note
from skillopt_mcp.tasks import FromEnvironment
from skillopt_mcp.training.config import Config


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a person said something: a file, pairs behind --set, flags by the name of their setting."""

    file: str | None
    pairs: Sequence[str]
    flags: Mapping[str, object]


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


def prepare(sources: Sources, skill: str) -> Prepared:
    """Return what a new run starts from. Raises BadInput for a setting, a file or a folder that cannot be used."""
    settings = load_settings(Path(sources.file).expanduser() if sources.file else None, sources.pairs, sources.flags)
    notes = [*settings.notes]
    named = _environment_named(settings, sources.flags, notes)
    environment = open_environment(named) if named else None
    if settings.data_path and settings.splits:
        notes.append(
            f"the run takes the stored tasks; those of '{settings.data_path}' are added with: skillopt-mcp tasks add "
            f"{skill} {settings.data_path} --split-mode {settings.splits.mode}"
        )
    target = _target(settings, sources.flags, environment, named)
    _check_chosen(settings, {"target": target, "optimizer": settings.optimizer})
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


def added_notes(name: str, added: FromEnvironment) -> list[str]:
    """Return notes on the tasks that an environment added."""
    notes = [f"{counted(added.added, 'task')} of '{name}' added, {added.duplicates} there already."]
    if added.n_removed:
        notes.append(f"note: left out, as removed: {counted(added.n_removed, 'task')} of '{name}'")
    if added.n_others:
        notes.append(
            f"note: {counted(added.n_others, 'other task')} of the skill left out; without --env the run takes all"
        )
    return [*notes, *(f"note: {describe_note(note)}" for note in added.notes)]


def _environment_named(settings: Settings, flags: Mapping[str, object], notes: list[str]) -> str | None:
    """Return the environment to open: one named by a flag must be there, one of SkillOpt's own files need not."""
    named = settings.environment
    if named is None or "environment" in flags or named.partition(":")[0] in environment_names():
        return named
    notes.append(f"no environment '{named}' is registered here: the run takes the stored tasks")
    return None


def _check_chosen(settings: Settings, named: Mapping[str, str | Backend | None]) -> None:
    """Raise BackendError when a backend cannot be asked that a word of SkillOpt's chose, naming the key with the word.

    What SkillOpt calls it may be no part of its name here.
    """
    for role, said in settings.chosen_by.items():
        spec = named[role]
        try:
            _ = open_backend(spec) if isinstance(spec, str) else None
        except BackendError as error:
            raise BackendError(f"{quoted(said)} chose '{spec}' as {role}: {error}") from None


def _target(
    settings: Settings, flags: Mapping[str, object], environment: Environment | None, named: str | None
) -> str | Backend | None:
    """Return who attempts the tasks: the environment itself where it does that."""
    if environment is None or not rolls_out(environment):
        return settings.target
    if "target" in flags:
        raise BadInput(f"the environment '{named}' attempts its tasks itself: leave out --target")
    return Rolling(environment, named)
