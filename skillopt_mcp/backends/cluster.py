"""Cluster: attempts in one actor a node of a Ray cluster, and judge programs as its tasks; the driver keeps the rest.

The driver, this process, holds the store, what may be spent, and every retry: Ray itself repeats nothing.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError, RuntimeEnvSetupError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from skillopt_mcp import __version__
from skillopt_mcp.backends.base import Backend, BackendFault, worst_case
from skillopt_mcp.backends.programs import CommandRunner
from skillopt_mcp.backends.wrappers import Redacting, Wrapper, open_models
from skillopt_mcp.core.calls import Call, Question, RayOptions, Reply, Rollout, Usage
from skillopt_mcp.core.commands import RegisteredCommand
from skillopt_mcp.core.errors import BackendError, SkillOptError
from skillopt_mcp.core.limits import MAX_CONCURRENCY
from skillopt_mcp.core.redacting import Redactor, known_secrets
from skillopt_mcp.core.replies import CheckReply
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import Task, TaskFile
from skillopt_mcp.core.text import quoted

_LOOK_S, _CONNECT_S = 5.0, 10.0
_MAX_OBJECTS, _MAX_SHOWN = 1_000, 300


class Cluster:
    """A connection to a Ray cluster: how many attempts each of its nodes takes at once. Raises BackendError for none.

    Of `options.needs` nothing is sent to workers on this machine. No argument holds a secret: workers take theirs from
    their own environment.
    """

    def __init__(self, options: RayOptions) -> None:
        self._share = {name: n for name, n in (("CPU", options.cpus), *options.resources) if n}
        needs: dict[str, object] = {"working_dir": options.needs}
        if options.needs in ("pip", "none"):
            needs = {"pip": [f"skillopt-mcp=={__version__}"]} if options.needs == "pip" else {}
        is_local, self._is_ours = options.address == "local", not ray.is_initialized()
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            if not is_local:  # Ray ends this process where nothing answers
                host, _, port = options.address.rpartition(":")
                socket.create_connection((host, int(port)), _CONNECT_S).close()
            ray.init(
                address=options.address, runtime_env=None if is_local else needs, log_to_driver=False,
                logging_level="ERROR", ignore_reinit_error=True, **({"include_dashboard": False} if is_local else {}),
            )  # fmt: skip
        except (RayError, ConnectionError, RuntimeError, ValueError, OSError, OverflowError) as error:
            raise BackendError(
                f"cannot use Ray at {quoted(options.address)}: {_first_line(error)}; start it (ray start --head), or "
                "name --ray local"
            ) from error
        self.slots = self.list_slots()
        self.n_slots = min(sum(self.slots.values()), MAX_CONCURRENCY)
        if not self.n_slots:
            wanted = ", ".join(f"{name}={n:g}" for name, n in self._share.items())
            raise BackendError(
                f"no node of Ray at {quoted(options.address)} has room for an attempt, which takes {wanted}"
            )

    def close(self) -> None:
        """Leave the cluster, if it was entered here: workers end, and what Ray prints in the end comes now."""
        if self._is_ours:
            ray.shutdown()

    def list_slots(self) -> dict[str, int]:
        """How many attempts each living node with room for any takes at once, by its id."""
        found = {}
        for node in ray.nodes():
            n = min(int(node["Resources"].get(name, 0.0) / each + 1e-9) for name, each in self._share.items())
            if node["Alive"] and n:
                found[str(node["NodeID"])] = n
        return found

    def spread(self, spec: str, backend: Backend) -> Backend:
        """A backend, the one of a spec, whose attempts the workers make."""
        return _Spread(spec, backend, self)

    def runner(self, commands: Mapping[str, RegisteredCommand], clean: Callable[[str], str] = str) -> CommandRunner:
        """What runs registered commands as tasks of the cluster."""
        return _SpreadRunner(commands, clean, self.n_slots)


class _Worker:
    """The actor of a node: it opens the backend once, and keeps its own secrets out of what it sends back."""

    def __init__(self, spec: str, fingerprint: str) -> None:
        self._spec, self._fingerprint = spec, fingerprint
        self._backend: Backend | None = None

    async def roll_out(
        self, files: SkillFiles, task: Task, task_files: tuple[TaskFile, ...], memory: str | None, draw: str
    ) -> Reply | Exception:
        """One attempt, or why there is none: what is raised in an actor arrives as Ray's own error."""
        try:
            if self._backend is None:
                opened = open_models(self._spec)
                if opened.fingerprint != self._fingerprint:
                    raise BackendError(
                        f"a worker on '{os.uname().nodename}' would answer as {quoted(opened.fingerprint, 200)}, not "
                        f"as {quoted(self._fingerprint, 200)}: install the same versions on all nodes"
                    )
                self._backend = Redacting(opened, _make_redactor())
            request = Rollout(files, replace(task, files=task_files), memory)
            return await self._backend.complete(Call("target", "rollout", request, draw))
        except (BackendFault, SkillOptError) as error:
            return error


def _check(command: RegisteredCommand, call: Call) -> Reply | Exception:
    """What a registered command says of an answer, or why it could not be asked."""
    try:
        return asyncio.run(CommandRunner({command.name: command}, _make_redactor().text).complete(call))
    except (BackendFault, SkillOptError) as error:
        return error


class _Spread(Wrapper):
    """A target whose attempts are made by the workers; it has as many slots as the cluster has."""

    def __init__(self, spec: str, backend: Backend, cluster: Cluster) -> None:
        super().__init__(backend)
        self.concurrency, self.is_instant = cluster.n_slots, False
        self._spec, self._cluster = spec, cluster
        self._slots, self._looked_at = dict(cluster.slots), time.monotonic()
        self._workers: dict[str, Any] = {}
        self._n_flying = Counter[str]()
        self._objects: dict[str, Any] = {}

    async def complete(self, call: Call) -> Reply:
        """One attempt by the worker with the most free slots. Raises BackendFault as that does, or "worker_lost"."""
        request = call.request
        if not isinstance(request, Rollout):
            raise BackendError(f"'{self.name}' is asked for attempts alone on a cluster")
        if not self._slots or time.monotonic() - self._looked_at > _LOOK_S:
            self._slots, self._looked_at = self._cluster.list_slots(), time.monotonic()
        if not self._slots:
            raise BackendFault("worker_lost", "no node of the Ray cluster has room for an attempt")
        node = min(self._slots, key=lambda each: self._n_flying[each] / self._slots[each])
        if node not in self._workers:
            pinned = NodeAffinitySchedulingStrategy(node, soft=False)
            actor = ray.remote(_Worker).options(
                num_cpus=0, max_concurrency=self._slots[node], max_restarts=0, max_task_retries=0,
                scheduling_strategy=pinned,
            )  # fmt: skip
            self._workers[node] = actor.remote(self._spec, self.fingerprint)
        worker, task = self._workers[node], request.task
        files = self._put(request.files.digest, request.files)
        task_files = self._put(task.digest, task.files) if task.files else ()
        self._n_flying[node] += 1
        try:
            ref = worker.roll_out.remote(files, replace(task, files=()), task_files, request.memory, call.draw)
            return await _await_remote(ref)
        except BackendFault as fault:
            # A node that is gone is listed for a while: until the next look another one is asked.
            if fault.fault == "worker_lost" and self._workers.get(node) is worker:
                del self._workers[node]
                self._slots.pop(node, None)
            raise
        finally:
            self._n_flying[node] -= 1

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that one attempt at the call can use."""
        return worst_case(self._backend, call)

    def _put(self, digest: str, value: object) -> Any:
        """The object of a version's files, or of a task's: each is sent to a node once."""
        if digest not in self._objects:
            if len(self._objects) >= _MAX_OBJECTS:
                del self._objects[next(iter(self._objects))]
            self._objects[digest] = ray.put(value)
        return self._objects[digest]


class _SpreadRunner(CommandRunner):
    """Runs registered commands on any node; a program has to be the registered one there, too."""

    def __init__(self, commands: Mapping[str, RegisteredCommand], clean: Callable[[str], str], n_slots: int) -> None:
        super().__init__(commands, clean)
        self.concurrency = n_slots
        self._task = ray.remote(_check).options(max_retries=0, scheduling_strategy="SPREAD")

    async def complete(self, call: Call) -> Reply:
        """How the command ended. Raises BackendFault "worker_lost", and BackendError as where it runs here."""
        if not isinstance(call.request, Question):
            raise BackendError(f"stage '{call.stage}' is no question to a registered command")
        command = await asyncio.to_thread(self.command, call.request.instructions)
        reply = await _await_remote(self._task.remote(command, call))
        if reply.missing:
            return reply._replace(text=self._clean(reply.text))
        check = CheckReply.model_validate_json(reply.text)
        return reply._replace(text=check.model_copy(update={"output": self._clean(check.output)}).model_dump_json())


async def _await_remote(ref: Any) -> Reply:
    """What a worker returned. Raises what it returned as an error, and BackendFault where none came back."""
    try:
        answer = await ref
    except asyncio.CancelledError:
        ray.cancel(ref)
        raise
    except RuntimeEnvSetupError as error:
        said = quoted(" ".join(str(error).split())[-_MAX_SHOWN:], _MAX_SHOWN)
        raise BackendError(f"a worker cannot be set up: {said}; see --ray-env") from error
    except RayError as error:
        if isinstance(error, RayTaskError) and not isinstance(error.cause, RayError):
            raise BackendFault("internal", f"a worker failed: {_first_line(error.cause)}") from error
        raise BackendFault("worker_lost", f"a worker is gone: {_first_line(error)}") from error
    if isinstance(answer, Exception):
        raise answer
    return answer  # type: ignore[no-any-return]


def _make_redactor() -> Redactor:
    """What knows the secrets of a worker; the driver does not."""
    return Redactor(secrets.token_bytes(32), known_secrets(os.environ))


def _first_line(error: object) -> str:
    return quoted(next(iter(str(error).strip().splitlines()), type(error).__name__), _MAX_SHOWN)
