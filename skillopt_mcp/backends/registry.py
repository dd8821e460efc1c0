"""Registry: the backends by name. Each is one file of this folder, with `@backend(NAME, ...)` on what opens it.

Names are read from the text of the files, so that to list them imports no vendor's SDK: only what is opened is loaded.
"""

from __future__ import annotations

import difflib
import importlib
import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from skillopt_mcp.backends.base import Backend
from skillopt_mcp.core.errors import BackendError, Unset

if TYPE_CHECKING:
    from skillopt_mcp.core.redacting import KnownSecrets

# A part of the keys of calls.
_DEFINITION = re.compile(r'^@backend\(\s*"([a-z][a-z0-9-]*)"', re.MULTILINE)


class Resolved(NamedTuple):
    """What a spec leads to, by name ("program", "address", ...): it is this that a person remembers for agents.

    `is_usual`: a vendor at its own address, or an installed command line, with default options. `is_sole`: of the
    programs on the PATH it is the only one of its name.
    """

    parts: dict[str, str]
    is_usual: bool = False
    is_sole: bool = True


Resolve = Callable[[str, Mapping[str, str]], Resolved]


class Kind(NamedTuple):
    """A backend as it is registered: `spec` is how people write it, `answers` who answers, `needs` what it takes.

    `has_options`: what follows a comma says how the model is asked, not which one. `is_asked`: doctor makes one call.
    `resolve` says what the part of a spec behind the colon leads to, without opening it.
    """

    name: str
    spec: str
    answers: str
    needs: str
    open: Callable[[str], Backend]
    has_options: bool
    is_asked: bool
    resolve: Resolve | None


_KINDS: dict[str, Kind] = {}
Opener = TypeVar("Opener", bound=Callable[[str], Backend])


def backend(
    name: str,
    *,
    spec: str = "",
    answers: str,
    needs: str = "nothing",
    has_options: bool = False,
    is_asked: bool = True,
    resolve: Resolve | None = None,
) -> Callable[[Opener], Opener]:
    """Register what opens a backend from the part of its spec behind the colon."""

    def register(opener: Opener) -> Opener:
        _KINDS[name] = Kind(name, spec or f"{name}:MODEL", answers, needs, opener, has_options, is_asked, resolve)
        return opener

    return register


@cache
def _modules() -> dict[str, str]:
    """Return the module of each backend, by name."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return {name: path.stem for path in files for name in _DEFINITION.findall(path.read_text("utf-8"))}


def backend_names() -> list[str]:
    """Return the names of all backends, sorted."""
    return sorted(_modules())


def kind_of(name: str) -> Kind:
    """Return the backend of a name. Raises BackendError when there is none, or it cannot run here."""
    if name not in _modules():
        raise BackendError(f"unknown backend '{name}'; use one of: {', '.join(backend_names())}")
    if name not in _KINDS:
        try:
            importlib.import_module(f"{__package__}.{_modules()[name]}")
        except ModuleNotFoundError as error:
            raise BackendError(
                f"the backend '{name}' needs '{error.name}', which is not available here: use another backend"
            ) from error
    return _KINDS[name]


def backend_table() -> str:
    """Return the backends as the table that the documentation shows."""
    rows = [kind_of(name) for name in backend_names()]
    lines = [f"| `{row.spec.replace(' or ', '`, `')}` | {row.answers} | {row.needs} |" for row in rows]
    return "\n".join(["| backend | who answers | needs |", "|---|---|---|", *lines])


def backend_name(spec: str) -> tuple[str, str]:
    """Return the backend that a spec "name:model" names, and the model. Raises BackendError when there is none."""
    name, _, model = spec.strip().partition(":")
    if name not in _modules():
        # What people type first is a model alone, or the vendor's product.
        meant = "openai" if name.startswith("gpt") else "claude-code"
        usual = {"haiku", "sonnet", "opus"} | {each for each in [name] if each.startswith(("claude-", "gpt"))}
        near = difflib.get_close_matches(name, backend_names(), 1) or ["claude-code"] * (name == "claude")
        found = f"{meant}:{name}" if name in usual else ":".join([*near, *filter(None, [model])]) if near else ""
        hint = f"did you mean {found}?" if found else f"use one of: {', '.join(backend_names())}"
        raise BackendError(f"unknown backend '{name}' in '{spec}'; {hint}")
    return name, model


def is_spec(name: str) -> bool:
    """True where a backend's name is one that a spec opens, and not that of a program's own backend."""
    return name.strip().partition(":")[0] in _modules()


def without_options(name: str) -> str:
    """Return a backend's name without the options that say how a model is asked, and not which one."""
    if not is_spec(name) or not kind_of(name.partition(":")[0]).has_options:
        return name
    model = name.partition(",")[0]
    return model.partition(":")[0] if "=" in model else model


def check_no_secret(spec: str, known: KnownSecrets | None = None, called: str = "a backend") -> None:
    """Raise BackendError when the spec of a backend contains a secret: specs are stored and shown."""
    # Imported when used: it takes a tenth of a second.
    from skillopt_mcp.core.redacting import find_secrets, known_secrets  # noqa: PLC0415

    if find_secrets(spec.encode("utf-8", "replace"), known or known_secrets(os.environ)):
        raise BackendError(
            f"the spec of {called} contains a secret: write BACKEND:MODEL alone, keys are read from the environment"
        )


def open_backend(spec: str) -> Backend:
    """Return the backend of a spec, "name:model". Raises BackendError when there is none, or it cannot be used."""
    check_no_secret(spec)
    name, model = backend_name(spec)
    return kind_of(name).open(model)


def lacking(spec: str) -> str:
    """The need of a backend that the environment does not meet, such as its key; "" when it can be asked.

    Raises BackendError when no key would help: there is no such backend, or its spec is wrong.
    """
    try:
        open_backend(spec)
    except Unset as error:
        return str(error)
    return ""
