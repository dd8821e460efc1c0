"""Backend: one call answered by a command line in a private place, whichever command line it is."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from skillopt_mcp.backends.agents.faults import Program, fault_of
from skillopt_mcp.backends.agents.places import Place, private_place, sweep_places
from skillopt_mcp.backends.agents.processes import MAX_OUTPUT_BYTES, Ended, Line, run
from skillopt_mcp.backends.agents.telling import Told
from skillopt_mcp.backends.agents.working_copy import Unusable, lay_out
from skillopt_mcp.backends.base import RETRYABLE, BackendFault
from skillopt_mcp.backends.usages import unusable_usage
from skillopt_mcp.errors import BackendError
from skillopt_mcp.records.calls import Call, Reply, Rollout, Usage

N_SLOTS = 4
_VERSION_S = 30
_SAID_CHARACTERS = 250


class Host(Protocol):
    """What differs between command lines: `skills_path` is where in a project this one looks for skills."""

    @property
    def program(self) -> Program: ...

    @property
    def skills_path(self) -> str: ...

    @property
    def timeout(self) -> float: ...

    @property
    def most_used(self) -> Usage | None:
        """Return what it is told to use at most for a call: money alone has such a limit. None without one."""
        ...

    def line(self, call: Call, place: Place) -> Line:
        """Return the command line for a call. Raises BackendFault when the user has no account that can be reached."""
        ...

    def record(self, place: Place) -> str:
        """Return what it kept of its work in a file of its own, empty where it keeps none."""
        ...

    def read(self, ended: Ended) -> Told:
        """Return what was told."""
        ...

    def secrets(self) -> Mapping[str, str]:
        """Return the names of the secrets that it can reach, by value."""
        ...


class AgentBackend:
    """Answers calls by the command line of a host. Such calls are heavy: `n_slots` of them at once are enough."""

    deferred = False
    n_slots: int | None = N_SLOTS

    def __init__(self, host: Host, name: str, fingerprint: str) -> None:
        self._host = host
        self.name, self.fingerprint = name, fingerprint
        sweep_places()

    async def complete(self, call: Call) -> Reply:
        """Return the answer to one attempt at `call`. Raises BackendFault when the attempt failed."""
        host = self._host
        try:
            ended, skill = await self._run(call)
        except Unusable as reason:
            raise host.program.fault("internal", str(reason)) from None
        except OSError as error:
            raise host.program.fault("internal", f"it could not be run: {error}") from None
        told = host.read(ended)
        failure = _failure(ended, told, host)
        if failure:
            raise failure
        messages = told.transcript(skill) if isinstance(call.request, Rollout) else ()
        # What a program counted wrongly is as good as not told: nothing of what was set aside comes back for it.
        usage = Usage(estimated=True) if unusable_usage(told.usage) else told.usage
        return Reply(told.answer or "", messages, usage, served=told.served)

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that the program may use for a call, by its own account, None when nothing limits it."""
        return self._host.most_used

    async def _run(self, call: Call) -> tuple[Ended, str | None]:
        """Return how the command line ended, and the name of the skill that it had, if any."""
        host, skill = self._host, None
        with private_place() as place:
            if isinstance(call.request, Rollout):
                skill = lay_out(place, call.request, host.skills_path)
            ended = await run(host.line(call, place), place, host.timeout)
            ended = replace(ended, record=host.record(place))
            # Secrets are not kept, nor where the working copy happened to be.
            secrets = {value: f"${name}" for value, name in host.secrets().items()}
            here = dict.fromkeys((os.path.realpath(place.work), str(place.work)), ".")
        return ended.replaced({**here, **secrets}), skill


def _failure(ended: Ended, told: Told, host: Host) -> BackendFault | None:
    program = host.program
    if ended.exit is None:
        return program.fault("timeout", f"no answer within {host.timeout:g} s", told.usage)
    if told.fault:
        return program.fault(told.fault, told.said, told.usage)
    if told.answer is None:
        return _untold(ended, program)
    if not told.answer.strip():
        return program.fault("empty", "the answer is empty", told.usage)
    return None


def _untold(ended: Ended, program: Program) -> BackendFault:
    """Return the fault of a program that ended without telling how."""
    if ended.exit == 0 or len(ended.output) >= MAX_OUTPUT_BYTES // 2:
        return program.fault("malformed", f"its {len(ended.output):,} characters of output tell no end")
    if ended.exit is not None and ended.exit < 0:
        # What it ran may have brought that about, such as by taking all memory: an attempt has one chance.
        return program.fault("malformed", f"it was ended by signal {-ended.exit}")
    errors = ended.errors.strip()
    words = errors or ended.output.strip()
    fault = fault_of(words)
    if not errors and fault in RETRYABLE:
        # Its output quotes what it read: words alone there would get an attempt made anew.
        fault = "internal"
    return program.fault(fault, f"exit code {ended.exit}: {words[-_SAID_CHARACTERS:]}")


def find_program(binary: str | None, default: str, install: str) -> tuple[str, str]:
    """Return the path and the version of a program. Raises BackendError when it is not there, or does not run."""
    path = shutil.which(os.path.expanduser(binary or default))
    if path is None:
        raise BackendError(f"the program '{binary or default}' is not found: {install}, or say binary=PATH in the spec")
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_VERSION_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BackendError(f"'{path} --version' failed ({type(error).__name__}): {install}") from None
    version = next((word for word in done.stdout.split() if word[:1].isdigit()), "unknown")
    return os.path.abspath(path), version
