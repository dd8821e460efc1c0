"""Judging: who judges the tasks at hand, known to be able to before anything is spent on answers to judge."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.host import is_host
from skillopt_mcp.backends.programs import NO_COMMANDS, CommandRunner
from skillopt_mcp.backends.resolved import resolve_spec
from skillopt_mcp.backends.wrappers import Judges
from skillopt_mcp.core.calls import Role
from skillopt_mcp.core.errors import BackendError
from skillopt_mcp.core.evidence import EvidenceKind
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.judges.judging import leaves, missing_programs
from skillopt_mcp.tasks.judges.kinds.command import CommandJudge
from skillopt_mcp.tasks.judges.kinds.rubric import Rubric

_JUDGED_BY = " judged by "
_SIMULATED = "simulated:"


def judges_for(
    store: Store, tasks: Iterable[Task], open_model: Callable[[], Backend], clean: Callable[[str], str] = str
) -> Judges | None:
    """Who answers for the role `judge` on these tasks; None when no judge of theirs asks anybody.

    `open_model` is called for rubrics only; `clean` takes secrets out of what commands print. Raises what `open_model`
    raises, and BackendError when that is a simulation, when a command that a task names is not registered, or its
    program is no longer the registered one.
    """
    needed = [leaf for task in tasks for leaf in leaves(task.judge)]
    names = sorted({leaf.name for leaf in needed if isinstance(leaf, CommandJudge)})
    has_rubric = any(isinstance(leaf, Rubric) for leaf in needed)
    if not names and not has_rubric:
        return None
    model = open_model() if has_rubric else None
    if model and model.fingerprint.startswith(_SIMULATED):
        raise BackendError(
            f"'{model.name}' is a simulation, which judges by no rubric: name a model with --judge BACKEND:MODEL"
        )
    commands = CommandRunner(store.commands.named(names), clean=clean)
    for name in names:
        commands.command(name)
    return Judges(model, commands)


def try_programs(store: Store, tasks: Iterable[Task]) -> None:
    """Raise BackendError if a judge program of the tasks cannot start: before answers to judge are paid for."""
    names = {name for task in tasks for name in missing_programs(task.judge, ())}
    if names:
        # A thread of its own: the caller's may have an event loop already.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, CommandRunner(store.commands.named(names)).try_all()).result()


def judge_named(backends: Mapping[Role, Backend]) -> str:
    """Return the name of the judge model among the backends; empty when no rubric needs one."""
    judges = backends.get("judge")
    return judges.model_name if isinstance(judges, Judges) else ""


def evidence_of(backends: Mapping[Role, Backend]) -> str:
    """What names the origin of evidence: the target's fingerprint, and the judges' where one is asked."""
    judge = backends.get("judge")
    return backends["target"].fingerprint + (f"{_JUDGED_BY}{judge.fingerprint}" if judge else "")


def shown_origin(evidence: str) -> str:
    """Return a text of `evidence_of` for people: commands are named only where there are some."""
    return evidence.replace(f"+{NO_COMMANDS}", "")


def origins(evidence: str) -> list[str]:
    """Return the fingerprints that a text of `evidence_of` names: the target's, and the judges'."""
    return evidence.split(_JUDGED_BY)


def is_host_run(evidence: str) -> bool:
    """Whether a text of `evidence_of` names a host, as target or as judge."""
    return any(map(_is_of_host, origins(evidence)))


def is_simulated(evidence: str) -> bool:
    """Whether a text of `evidence_of` names a simulation or a script: it says nothing about a real model."""
    return any(origin.startswith(("simulated", "scripted")) for origin in origins(evidence))


def kind_of(evidence: str) -> EvidenceKind:
    """Who made the attempts: our own processes ran the target and the judges, or a host's agents did."""
    if is_simulated(evidence):
        return "simulated"
    return "host" if is_host_run(evidence) else "own"


def kind_of_test(store: Store, test_id: str, evidence: str) -> EvidenceKind:
    """Who made the attempts of a test whose text of `evidence_of` this is; a script's are marked."""
    kind = kind_of(evidence)
    return "unattended" if kind == "own" and store.permissions.find_unattended(test_id) is not None else kind


def describe_unremembered(store: Store, spec: str, environ: Mapping[str, str] = os.environ) -> str:
    """Why agents may not use a backend, in a line that names what differs from what is remembered; "" where they may.

    Nothing of it is run. Raises BackendError where there is no such backend.
    """
    found = resolve_spec(spec, environ)
    known = [each for each in store.permissions.list_backends() if each["backend"] == found.parts["backend"]]
    installed = {each["program"] for each in known if "program" in each and "sha256" not in each}
    program = found.parts.get("program")
    if found.parts in known or (found.is_usual and (program in installed if installed else found.is_sole)):
        return ""
    if found.is_usual and not installed:
        differs = f"several programs have the name of '{program}', and it is only the first on the PATH"
    else:
        # A model alone makes no usual backend another one.
        nearest = min(known, key=lambda each: len(_find_differing(found.parts, each)), default={})
        names = _find_differing(found.parts, nearest) - ({"model"} if found.is_usual else set())
        differs = "; ".join(
            f"its {name} is {found.parts.get(name, 'none')}, remembered is {nearest.get(name, 'none')}"
            for name in sorted(names - {"backend"})
        )
    command = shlex.join(["skillopt-mcp", "--store", str(store.path), "doctor", "--backend", spec])
    why = f"agents use remembered backends alone, not '{spec}': {differs}"
    return f"{why}. A person remembers it at a terminal: {command}"


def _find_differing(one: Mapping[str, str], other: Mapping[str, str]) -> set[str]:
    return {name for name in {*one, *other} if one.get(name) != other.get(name)}


def is_attempted_by_host(evidence: str) -> bool:
    """Whether a text of `evidence_of` names a host as target."""
    return _is_of_host(origins(evidence)[0])


def is_judged_by_host(evidence: str) -> bool:
    """Whether a text of `evidence_of` names a host as judge."""
    return any(map(_is_of_host, origins(evidence)[1:]))


def opens_skills(evidence: str) -> bool:
    """Whether the target that a text of `evidence_of` names loads a skill by itself, as command lines of hosts do."""
    return evidence.startswith(("claude-code:", "codex:"))


def is_pasted(evidence: str) -> bool:
    """Whether the target that a text of `evidence_of` names reads the skill in its prompt: vendors and sub-agents."""
    return evidence.startswith(("openai:", "anthropic:")) or is_attempted_by_host(evidence)


def n_votes(task: Task) -> int:
    """How many questions the rubrics of a task ask of each answer to it at most."""
    return sum(leaf.votes for leaf in leaves(task.judge) if isinstance(leaf, Rubric))


def fewest_votes(task: Task) -> int:
    """How many of these are asked at least: more than half of each rubric's."""
    return sum(leaf.votes // 2 + 1 for leaf in leaves(task.judge) if isinstance(leaf, Rubric))


def _is_of_host(origin: str) -> bool:
    return is_host(origin.partition("+")[0])
