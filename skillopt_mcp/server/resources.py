"""Resources: what hosts may read of the store, by address; known before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from mcp.shared.uri_template import UriTemplate
from mcp_types import Resource, ResourceTemplate

SKILLS = "skillopt://skills"
SKILL = "skillopt://skill/{skill}"
VERSION = "skillopt://skill/{skill}/version/{version}"
DIFF = "skillopt://skill/{skill}/diff/{old}/{new}"
CANDIDATE = "skillopt://candidate/{candidate_id}"
RUN = "skillopt://run/{run_id}"
SKILL_FILE = "skill://{+path}"

_TEMPLATES = {
    SKILL: ("skill", "Skill", "A tracked skill: its versions, tasks per split, candidates and runs", "text/plain"),
    VERSION: ("version", "Version of a skill", "All text of a version; 8 characters of its id do", "text/plain"),
    DIFF: ("diff", "Difference of two versions", "A unified diff, hidden characters shown", "text/x-diff"),
    CANDIDATE: ("candidate", "Candidate", "Edits, findings, verdict and diff of a candidate", "text/plain"),
    RUN: ("run", "Run report", "Steps of a run, and what it used", "text/plain"),
    SKILL_FILE: ("skill_file", "File of a tracked skill", "NAME/SKILL.md and the files beside it, live", None),
}  # fmt: skip


def listed_resources() -> list[Resource]:
    """Return what hosts are told of the resources that have one address."""
    return [
        Resource(
            uri=SKILLS,
            name="skills",
            title="Skills",
            description="Skills on disk and in training, each with its next step (list_skills tells more of each)",
            mime_type="application/json",
        )
    ]


def listed_templates() -> list[ResourceTemplate]:
    """Return what hosts are told of the resources whose address has a part to fill in."""
    return [
        ResourceTemplate(uri_template=template, name=name, title=title, description=description, mime_type=mime_type)
        for template, (name, title, description, mime_type) in _TEMPLATES.items()
    ]


def matched(uri: str) -> tuple[str, Mapping[str, str]] | None:
    """Return the template of an address with the parts that fill it in, percent-decoded; None when it has none."""
    if uri == SKILLS:
        return SKILLS, {}
    for template in _TEMPLATES:
        found = _parsed(template).match(uri)
        if found is not None:
            return template, {name: part for name, part in found.items() if isinstance(part, str)}
    return None


def mime_type(template: str) -> str | None:
    """Return the kind of text behind a template."""
    return "application/json" if template == SKILLS else _TEMPLATES[template][3]


@cache
def _parsed(template: str) -> UriTemplate:
    return UriTemplate.parse(template)
