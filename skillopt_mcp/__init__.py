"""skillopt-mcp: train the skill files of coding agents.

The Python API is `train`, `evaluate` and the names that `dir(skillopt_mcp)` lists: see `help(skillopt_mcp.train)`.
Importing the package loads none of it.
"""

import re
from functools import cache
from importlib import import_module
from pathlib import Path

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "__all__":
        return ["__version__", *_modules()]
    if name not in _modules():
        raise AttributeError(f"module 'skillopt_mcp' has no attribute '{name}'")
    return getattr(import_module(_modules()[name]), name)


def __dir__() -> list[str]:
    return sorted(["__version__", *_modules()])


@cache
def _modules() -> dict[str, str]:
    """Return the module of each public name, as `__init__.pyi` imports it."""
    stub = Path(__file__).with_suffix(".pyi").read_text("utf-8")
    return {name: module for module, name in re.findall(r"^from (\S+) import (\w+)", stub, re.MULTILINE)}
