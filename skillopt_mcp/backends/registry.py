"""Registry: the backends by name, each imported only when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.names import backend_name
from skillopt_mcp.errors import BackendError, Unset


def open_backend(spec: str) -> Backend:
    """Return the backend of a spec, "name:model". Raises BackendError when there is none, or it cannot be used."""
    name, model = backend_name(spec)
    return _LOADERS[name](model)


def lacking(spec: str) -> str:
    """Return what the environment does not say that a backend needs, such as its key; "" when it can be asked.

    Raises BackendError when no key would help: there is no such backend, or it cannot be told so.
    """
    try:
        open_backend(spec)
    except Unset as error:
        return str(error)
    return ""


def batched(backend: Backend) -> Backend | None:
    """Return a backend as its vendor's batch API answers for it, None where there is none. Raises BackendError."""
    batcher = _BATCHERS.get(backend.name.partition(":")[0])
    return batcher(backend) if batcher else None


def _openai_batch(backend: Backend) -> Backend | None:
    from skillopt_mcp.backends.api.openai_batch import batched as batched_openai  # noqa: PLC0415

    return batched_openai(backend)


def _anthropic_batch(backend: Backend) -> Backend | None:
    from skillopt_mcp.backends.api.anthropic_batch import batched as batched_anthropic  # noqa: PLC0415

    return batched_anthropic(backend)


def _simulated(model: str) -> Backend:
    from skillopt_mcp.backends.simulated import open_simulated  # noqa: PLC0415

    return open_simulated(model)


def _scripted(model: str) -> Backend:
    from skillopt_mcp.backends.scripted import open_scripted  # noqa: PLC0415

    return open_scripted(model)


def _openai(model: str) -> Backend:
    from skillopt_mcp.backends.api.openai import open_openai  # noqa: PLC0415

    return open_openai(model)


def _anthropic(model: str) -> Backend:
    from skillopt_mcp.backends.api.anthropic import open_anthropic  # noqa: PLC0415

    return open_anthropic(model)


def _environment(model: str) -> Backend:
    from skillopt_mcp.backends.environment import open_rolling  # noqa: PLC0415

    return open_rolling(model)


def _claude_code(model: str) -> Backend:
    _need_posix("claude-code")
    from skillopt_mcp.backends.agents.claude_code import open_claude_code  # noqa: PLC0415

    return open_claude_code(model)


def _codex(model: str) -> Backend:
    _need_posix("codex")
    from skillopt_mcp.backends.agents.codex import open_codex  # noqa: PLC0415

    return open_codex(model)


def _plugin(model: str) -> Backend:
    from skillopt_mcp.backends.plugged import open_plugged  # noqa: PLC0415

    return open_plugged(model)


def _host(model: str) -> Backend:
    from skillopt_mcp.backends.host import open_host  # noqa: PLC0415

    return open_host(model)


def _need_posix(name: str) -> None:
    if os.name != "posix":
        raise BackendError(f"the backend '{name}' runs on Linux and macOS only: use WSL, or another backend")


_LOADERS: dict[str, Callable[[str], Backend]] = {
    "simulated": _simulated,
    "scripted": _scripted,
    "openai": _openai,
    "anthropic": _anthropic,
    "claude-code": _claude_code,
    "codex": _codex,
    "env": _environment,
    "plugin": _plugin,
    "host": _host,
}
_BATCHERS: dict[str, Callable[[Backend], Backend | None]] = {"openai": _openai_batch, "anthropic": _anthropic_batch}
