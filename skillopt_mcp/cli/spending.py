"""Spending: the caps of a command, what it may ask at most, and a person's yes before the first call."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, JsonValue

from skillopt_mcp.actions.estimates import Forecast, forecast, most_again
from skillopt_mcp.backends.arrivals import unseen_commands
from skillopt_mcp.backends.base import Backend, Loading
from skillopt_mcp.backends.world import has_made
from skillopt_mcp.cli.command import DRY_RUN, TARGET, TARGET_FLAG, YES, Capped, Flag, WrongUsage
from skillopt_mcp.cli.terminal import Terminal
from skillopt_mcp.core.calls import RayOptions, Role
from skillopt_mcp.core.errors import BadInput, CapReached
from skillopt_mcp.core.next_step import Action, NextStep
from skillopt_mcp.core.results import Result
from skillopt_mcp.core.text import counted
from skillopt_mcp.store.opening import Store
from skillopt_mcp.workspace.costs import DEFAULTS_OF
from skillopt_mcp.workspace.evidence import is_simulated
from skillopt_mcp.workspace.models import Models
from skillopt_mcp.workspace.skill_folders import handle
from skillopt_mcp.workspace.workspace import Workspace

Found = TypeVar("Found", bound=Result)
_WORLD = re.compile(r"simulated:\w+,seed=(\d+)")
_ADDRESS = re.compile(r",at=([^,+ ]+)")


@dataclass(kw_only=True)
class Spending(Capped):
    """Those among them that ask before they spend."""

    yes: Annotated[bool, YES] = False
    dry_run: Annotated[bool, DRY_RUN] = False

    def name_models(self, terminal: Terminal, models: Models, notes: Sequence[str] = ()) -> None:
        """Print who answers in each role, and at which address: the first line of a run; with --json, its first field.

        Raises BackendError for a backend that cannot be opened.
        """
        named = (role for role in get_args(Role) if models.has_backend(role))
        backends: dict[str, Backend] = {role: models.backend(role) for role in named}
        # A fingerprint holds the host, and the path if any; none where a backend sends nothing.
        self._asked = {
            role: {"model": each.name, "address": (_ADDRESS.findall(each.fingerprint) or [""])[-1]}
            for role, each in backends.items()
        }
        said = [f"{role} {row['model']} at {row['address'] or 'no known address'}" for role, row in self._asked.items()]
        terminal.note(f"Asked: {'; '.join(said)}.")
        if cluster := models.cluster:
            n_nodes = counted(len(cluster.slots), "node")
            terminal.note(f"Ray: {counted(cluster.n_slots, 'attempt')} at once on {n_nodes}.")
        for note in notes:
            terminal.note(f"note: {note}")

    def agree(
        self, terminal: Terminal, workspace: Workspace, calls: Mapping[Role, int], text: str = "",
        declined: str = "Nothing was spent.",
    ) -> Planned | None:  # fmt: skip
        """What a dry run found; None where the command continues, agreed to or with nothing to pay for.

        Raises Declined where the person does not agree, Refused where no person can be asked.
        """
        is_real = asks_real_models(workspace.models, [role for role, n_calls in calls.items() if n_calls])
        plan = Forecast()
        if self.dry_run or (is_real and not terminal.is_json):
            plan = forecast(workspace.store, workspace.models, calls)
        if text or is_real or self.dry_run:
            terminal.note(text or f"At most {describe_calls(calls)}.")
        if is_real:
            terminal.note(_describe(plan))
            if n_again := most_again(calls):
                terminal.note(f"Not included: up to {counted(n_again, 'retry', 'retries')} after unusable replies.")
        if self.dry_run:
            return Planned(**plan.model_dump(), calls=dict(calls), n_again=most_again(calls), simulated=not is_real)
        if is_real:
            terminal.ask("Spend that much?", yes=self.yes, declined=declined)
        return None

    def as_json(self, result: Any) -> Mapping[str, object]:
        reach = getattr(self, "_reach", "")
        said = {"asked": getattr(self, "_asked", {})} | ({"reach": reach} if reach else {})
        return {**said, **super().as_json(result)}


@dataclass(kw_only=True)
class Sending(Spending):
    """Those among them that have tasks done, so many calls at once."""

    target: Annotated[str | None, TARGET_FLAG] = None
    concurrency: Annotated[int | None, Flag("calls under way at once (default: set by the backend)")] = None

    ray: Annotated[str | None, Flag("make attempts and run judge programs on a Ray cluster", "ADDRESS|local")] = None
    ray_cpus: Annotated[float, Flag("CPUs of a node that one attempt takes (1)", "N")] = 1.0
    ray_resources: Annotated[str | None, Flag("what else of a node one attempt takes", "NAME=N[,NAME=N]")] = None
    ray_env: Annotated[str, Flag("what workers need: pip (this version), a folder, or none", "pip|DIR|none")] = "pip"

    def __post_init__(self) -> None:
        if self.concurrency is not None and self.concurrency < 1:
            raise WrongUsage(f"--concurrency must be 1 or more, got {self.concurrency}")
        named = self.ray_resources.split(",") if self.ray_resources else []
        wrong = [each for each in named if not re.fullmatch(r"\w+=\d+(\.\d+)?", each) or float(each.split("=")[1]) == 0]
        if wrong:
            raise WrongUsage(f"--ray-resources must be NAME=N[,NAME=N], got {wrong[0]!r}")
        if not 0 < self.ray_cpus < inf:
            raise WrongUsage(f"--ray-cpus must be above 0, got {self.ray_cpus:g}")
        if self.ray is None and (named or self.ray_cpus != 1 or self.ray_env != "pip"):
            raise WrongUsage("--ray-cpus, --ray-resources and --ray-env need --ray")
        pairs = tuple((name, float(n)) for name, n in (each.split("=") for each in named))
        self.cluster = RayOptions(self.ray, self.ray_cpus, pairs, self.ray_env) if self.ray is not None else None

    def agree_to_load(self, terminal: Terminal, workspace: Workspace, skill_id: int, *versions: str) -> None:
        """Show a person what would run while a host loads these versions, and ask whether it may."""
        target = workspace.models.backend("target")
        for version in versions if isinstance(target, Loading) and target.loads else ():
            files = workspace.store.skills.get_files(skill_id, version)
            if unseen := unseen_commands(workspace.store, skill_id, files):
                terminal.require_person(self.name)
                for command in unseen:
                    terminal.say(f"RUNS WHILE IT IS LOADED: {command}", "bold red")
                question = "May a host run this while it loads the text?"
                terminal.ask(question, yes=False, declined="Nothing was tested.")
                workspace.store.arrivals.add_seen(skill_id, unseen, workspace.place.login)


class Planned(Forecast):
    """What a command would ask of each role at most, and what that takes as far as it is known; nothing was asked.

    Up to `n_again` calls more are retries after unusable replies.
    """

    status: Literal["planned"] = "planned"
    calls: dict[Role, int]
    n_again: int
    simulated: bool

    def show(self, terminal: Terminal) -> None:
        """Print that it was a dry run: the estimate was printed before."""
        terminal.note("A dry run: nothing was spent.")


class BrokenOff(BaseModel):
    """A run or test that did not reach its end; what was answered is kept."""

    status: Literal["stopped"] = "stopped"
    run_id: str | None = None
    candidate_id: str | None = None
    verdict: None = None
    n_steps: int | None = None
    reason: str
    next_step: NextStep
    is_interrupted: bool = False

    @classmethod
    def of(cls, stop: BaseException, action: Action, arguments: Mapping[str, JsonValue], **fields: Any) -> BrokenOff:
        """Why it stopped, and the command that continues, with higher caps where that helps."""
        is_interrupted = isinstance(stop, KeyboardInterrupt)
        reason = "interrupted; what was answered is kept" if is_interrupted else str(stop).rstrip(".")
        given: dict[str, JsonValue] = {name: value for name, value in arguments.items() if value not in (None, False)}
        if isinstance(stop, CapReached):
            higher = stop.higher.split()
            given |= {flag[2:].replace("-", "_"): value for flag, value in zip(higher[::2], higher[1::2], strict=True)}
        step = NextStep(action=action, arguments=given, why="continues with what is kept")
        return cls(reason=reason, next_step=step, is_interrupted=is_interrupted, **fields)

    @property
    def exit_code(self) -> int:
        """Return 1, or 130 where a person interrupted it."""
        return 130 if self.is_interrupted else 1

    def show(self, terminal: Terminal) -> None:
        """Print why it stopped."""
        terminal.note(f"{'Interrupted' if self.is_interrupted else 'Stopped'}: {self.reason}.")


def describe_calls(calls: Mapping[Role, int]) -> str:
    """Return so many calls of each role, in words; the target has a number in any case."""
    shown = [counted(calls.get("target", 0), "target call")]
    shown += [counted(calls[role], f"{role} call") for role in ("optimizer", "judge") if calls.get(role)]
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if shown[1:] else shown[0]


def require_backends(**named: object) -> None:
    """Raise BadInput naming every role that no backend is named for."""
    if missing := [f"--{role}" for role, backend in named.items() if not backend]:
        raise BadInput(f"Needs {' and '.join(missing)}, e.g. {TARGET} (uses your Claude login, no API key needed)")


def mark_simulation(models: Models) -> str:
    """What marks the results of a simulated target, with its name; empty for a real one."""
    target = models.backend("target")
    return f"SIMULATION ({target.name})" if is_simulated(target.fingerprint) else ""


def advise_real_target(store: Store, models: Models, skill_id: int, found: Found) -> Found:
    """A result of the target's; where that simulates other tasks, its next step is to name a real one."""
    world = _WORLD.match(models.backend("target").fingerprint)
    # It has no right answer to the tasks of another one.
    if world is None or any(has_made(int(world[1]), task) for task in store.tasks.list_tasks(skill_id)):
        return found
    arguments: dict[str, JsonValue] = {"skill": handle(store, store.skills.get_skill(skill_id)), "target": TARGET}
    step = NextStep(action="replay", arguments=arguments, why=f"'{world[0]}' can solve only the tasks of its own world")
    return found.model_copy(update={"next_step": step})


def asks_real_models(models: Models, roles: Collection[Role]) -> bool:
    """Whether a backend of these roles is real, not a simulation."""
    return not all(is_simulated(models.backend(role).fingerprint) for role in roles)


def _describe(plan: Forecast) -> str:
    if plan.tokens is None:
        unknown = f"the {plan.unknown[0]}" if len(plan.unknown) == 1 else "these models"
        return (
            f"No call to {unknown} is stored yet, so tokens, cost and time are unknown; set caps with --max-calls, "
            "--max-tokens, --max-usd or --max-minutes."
        )
    if plan.minutes is None:  # a default, as nothing is measured
        return (
            f"About {plan.tokens_each:,} tokens each, mostly cached (default of {DEFAULTS_OF}): at most about "
            f"{plan.tokens:,} tokens; price and time are unknown."
        )
    usd = "at an unknown price" if plan.usd is None else f"${plan.usd:,.2f}"
    return f"From past calls: at most about {plan.tokens:,} tokens, {usd}, {plan.minutes:,.1f} minutes."
