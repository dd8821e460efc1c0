"""Conforming: where a reply of a host breaks what its work asked for, schema or skill, in words that mend it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from skillopt_mcp.backends.api.schemas import lenient_schema
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.judges.schemas import Breach, validator
from skillopt_mcp.limits import PATCH_EDITS
from skillopt_mcp.operations.paging import shortened
from skillopt_mcp.records.edits import Edit, Patch
from skillopt_mcp.records.replies import AwareReply, PatchReply
from skillopt_mcp.records.skills import SkillFiles

_SHOWN = 3
_FAULT_BYTES = 160
_OF_KEYS = ("required", "additionalProperties")


def broken(value: Mapping[str, object], model: type[BaseModel]) -> str:
    """Return what in a JSON object breaks the schema of a reply as it is published, and how it should be; or ""."""
    places: dict[str, list[str]] = {}
    for breach in validator(json.dumps(lenient_schema(model))).iter_errors(value):
        where = ".".join(map(str, breach.absolute_path)) or "the object"
        at = places.setdefault(_fault(breach), [])
        # A place that lacks two keys breaks the schema twice.
        if where not in at:
            at.append(where)
    told = [f"{_some(at, ', ')}: {fault}" for fault, at in places.items()]
    return _some(told, "; ")


def unplaced(reply: PatchReply, files: SkillFiles) -> str:
    """Return why none of the edits that a reply proposes can be made in a skill; "" where one can, or none is proposed.

    One that can be made is not to be lost with the others.
    """
    proposals = reply.proposals()
    if not proposals or (isinstance(reply, AwareReply) and reply.notes):
        return ""
    edits = tuple(Edit(each.op, each.target, each.content, each.path) for each in proposals[:PATCH_EDITS])
    reports = apply_patch(files, Patch(edits)).reports
    if any(report.status == "applied" for report in reports):
        return ""
    details = [f"edits.{report.index} ({report.op}): {report.detail}" for report in reports]
    return f"none of its edits can be made in the skill that it is about: {_some(details, '; ')}"


def _fault(breach: Breach) -> str:
    properties, value = breach.schema.get("properties"), breach.instance
    if breach.validator in _OF_KEYS and isinstance(properties, dict) and isinstance(value, dict):
        required = breach.schema.get("required", ())
        needed = [name for name in properties if isinstance(required, list) and name in required]
        lacking = ", ".join(quoted(name) for name in needed if name not in value)
        besides = _some([shortened(quoted(str(name)), 60) for name in value if name not in properties], ", ")
        faults = filter(None, (lacking and f"{lacking} missing", besides and f"{besides} not known"))
        optional = ", ".join(name for name in properties if name not in needed)
        possible = f"possible {optional}, " if optional else ""
        return f"{' and '.join(faults)} (needed are {', '.join(needed)}, {possible}and no others)"
    return shortened(breach.message, _FAULT_BYTES)


def _some(parts: Sequence[str], between: str) -> str:
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return between.join(parts[:_SHOWN]) + more
