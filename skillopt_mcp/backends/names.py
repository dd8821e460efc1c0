"""Names: the backends that a spec may begin with; light, for a server checks its own before it loads anything."""

from __future__ import annotations

from skillopt_mcp.errors import BackendError

BACKENDS = ("simulated", "scripted", "openai", "anthropic", "claude-code", "codex", "env", "host")


def backend_name(spec: str) -> tuple[str, str]:
    """Return the backend that a spec "name:model" names, and the model. Raises BackendError when there is none."""
    name, _, model = spec.strip().partition(":")
    if name not in BACKENDS:
        raise BackendError(f"unknown backend '{name}' in '{spec}'; use one of: {', '.join(BACKENDS)}")
    return name, model
