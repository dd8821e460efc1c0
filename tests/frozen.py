"""Frozen: imported last of all, it spares every process forked from here what the first use of a thing would do.

Models, patterns and templates are built, the driver is loaded, and what was imported is not looked through for garbage.
"""

import gc

from pydantic import BaseModel, TypeAdapter

from skillopt_mcp.backends.api.clients import _read_tls
from skillopt_mcp.reports import rendering
from skillopt_mcp.store.pool import sqlite


def _build(model: type[BaseModel]) -> None:
    for inner in model.__subclasses__():
        if inner.__module__.startswith("skillopt_mcp."):
            inner.model_rebuild()
        _build(inner)


_build(BaseModel)
for adapter in [each for each in gc.get_objects() if type(each) is TypeAdapter]:
    adapter.rebuild()
sqlite()
_read_tls()
for environment in (rendering.templates(), rendering.templates(is_html=False)):
    ending = ".html.j2" if environment.autoescape else ".md.j2"
    for name in environment.list_templates():
        if name.endswith(ending):
            environment.get_template(name)
gc.freeze()
