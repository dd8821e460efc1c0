"""Formats in which people keep their tasks: one module a format; a module that is put here is loaded."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
