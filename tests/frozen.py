"""Frozen: imported last of all, it spares every process forked from here what the first use of a thing would do.

Models and patterns are built, and what was imported is not looked through for garbage.
"""

import gc

from pydantic import BaseModel, TypeAdapter


def _build(model: type[BaseModel]) -> None:
    for inner in model.__subclasses__():
        if inner.__module__.startswith("skillopt_mcp."):
            inner.model_rebuild()
        _build(inner)


_build(BaseModel)
for adapter in [each for each in gc.get_objects() if type(each) is TypeAdapter]:
    adapter.rebuild()
gc.freeze()
