"""Kinds: one module a kind of judge, or a few that share their means; a module that is put here is loaded."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
