"""Names: the backends that a spec may begin with; light, for a server checks its own before it loads anything."""

from __future__ import annotations

from skillopt_mcp.errors import BackendError

BESIDE = " beside "
# What follows a comma in a spec of these says how the model is asked; what of that changes answers, fingerprints tell.
_WITH_OPTIONS = frozenset({"openai", "anthropic", "claude-code", "codex"})
BACKENDS = ("simulated", "scripted", "openai", "anthropic", "claude-code", "codex", "env", "plugin", "host")


def backend_name(spec: str) -> tuple[str, str]:
    """Return the backend that a spec "name:model" names, and the model. Raises BackendError when there is none."""
    name, _, model = spec.strip().partition(":")
    if not is_spec(spec):
        raise BackendError(f"unknown backend '{name}' in '{spec}'; use one of: {', '.join(BACKENDS)}")
    return name, model


def is_spec(name: str) -> bool:
    """Return whether a backend's name is one that a spec opens: that of a backend of a program's own is none."""
    return name.strip().partition(":")[0] in BACKENDS


def without_options(name: str) -> str:
    """Return a backend's name as far as it says which model is asked, beside which document, and not how."""
    spec, beside, companion = name.partition(BESIDE)
    asked = spec.partition(",")[0] if spec.partition(":")[0] in _WITH_OPTIONS else spec
    return f"{asked}{beside}{companion}"
