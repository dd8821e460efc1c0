"""Services: the tools, the resources and the approver of one workspace; importing this imports operations and store."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from skillopt_mcp.core.budgets import LOGIN_CAPS, NO_CAPS, Caps
from skillopt_mcp.core.calls import HOST
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.errors import NotFound
from skillopt_mcp.core.skills import Skill, short
from skillopt_mcp.core.text import shown
from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.reports.listing import all_skills
from skillopt_mcp.server import resources
from skillopt_mcp.server.app import Services
from skillopt_mcp.server.approval import DialogApprover
from skillopt_mcp.server.lifecycle import Setup
from skillopt_mcp.server.tools import tools_over
from skillopt_mcp.store import pool
from skillopt_mcp.workspace.answers import ANSWER_BYTES, shorten
from skillopt_mcp.workspace.costs import default_tokens
from skillopt_mcp.workspace.workspace import Workspace

if TYPE_CHECKING:
    from skillopt_mcp.reports.inspecting import Thing

# Below what a call may take, so that a host gets the reason before it gives up.
BUSY_S = 22


def open_services(setup: Setup, leaving: Future[None]) -> Services:
    """Return the services of a setup; where it names no backend, the host does the work, without a key.

    Once `leaving` is done, no call waits for work in the background.
    """
    pool.BUSY_TIMEOUT_S = BUSY_S
    given = Caps(*setup.caps)
    is_login = given == NO_CAPS and default_tokens(setup.target or "")
    workspace = Workspace(
        setup.store_path,
        target=setup.target or HOST,
        optimizer=setup.optimizer or HOST,
        judge=setup.judge or HOST,
        caps=LOGIN_CAPS if is_login else given,
        hands_out=True,
    )
    workspace.models.lease_s = setup.lease_minutes * 60
    workspace.jobs.leaving = leaving
    return services_over(workspace, require_approval=setup.require_approval)


def services_over(workspace: Workspace, *, require_approval: bool = False) -> Services:
    """Return the services of a workspace; with `require_approval`, no standing permission is enough."""
    consent = Consent.APPROVED if require_approval else Consent.STANDING
    workspace.place.caller = "agent"
    return Services(tools_over(workspace, consent), StoreResources(workspace), DialogApprover(workspace, consent))


Content = tuple[str, str]

_BETWEEN = ",\n "
_MORE_BYTES = 120
_MOST_VALUES = 100


class StoreResources:
    """What hosts read of one workspace: never prompts, answers or results of held-out tasks. Reading tracks nothing."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def read(self, uri: str) -> Content:
        """What is at an address, with its kind. Raises NotFound where nothing is."""
        found = resources.match(uri)
        if found is None:
            raise NotFound(f"there is no resource at {uri[:300]}")
        template, parts = found
        readers: dict[str, Callable[[Mapping[str, str]], str]] = {
            resources.SKILLS: lambda _: self._skills(),
            resources.SKILL: lambda part: self._look_up(self._find_tracked(part["skill"]).path).text,
            resources.VERSION: self._version,
            resources.DIFF: self._diff,
            resources.CANDIDATE: partial(self._describe, "candidate", "candidate_id"),
            resources.RUN: partial(self._describe, "run", "run_id"),
            resources.REPORT: lambda part: self._report(part["id"], as_page=False),
            resources.PAGE: lambda part: self._report(part["id"], as_page=True),
            resources.APP: lambda _: self._report("", as_page=True),
        }
        return readers[template](parts), resources.mime_type(template)

    def complete(self, argument: str, beginning: str, others: Mapping[str, str]) -> list[str]:
        """What an argument of a template or a prompt may be, given its beginning and those filled in already."""
        store = self._workspace.store
        skills = store.skills.list_skills()
        chosen = [skill for skill in skills if others.get("skill", skill.name) == skill.name]
        if argument == "skill":
            found = [skill.name for skill in skills]
        elif argument == "candidate_id":
            found = [each.id for skill in chosen for each in reversed(store.candidates.list_candidates(skill.id))]
        elif argument == "run_id":
            found = [run.id for skill in chosen for run in reversed(store.runs.list_runs(skill.id))]
        elif argument == "id":
            found = [
                each for name in ("skill", "candidate_id", "run_id") for each in self.complete(name, beginning, {})
            ]
        elif argument in ("version", "old", "new"):
            found = [short(version) for skill in chosen for version in self._versions(skill)]
        else:
            found = []
        return [each for each in dict.fromkeys(found) if each.startswith(beginning)][:_MOST_VALUES]

    def _skills(self) -> str:
        rows = all_skills(self._workspace.store, self._workspace.place)
        n_of = Counter(row.name for row in rows)
        lines, room = list[str](), ANSWER_BYTES
        for row in rows:
            # The path where the name does not say it.
            where = {} if row.tracked and n_of[row.name] == 1 else {"path": row.path}
            short_row = {"name": row.name, "tracked": row.tracked, **where, "next_step": row.next_step.action}
            line = json.dumps(short_row, ensure_ascii=False)
            room -= len(line.encode()) + len(_BETWEEN)
            if room < _MORE_BYTES:
                more = {"left_out": len(rows) - len(lines), "more": "list_skills"}
                lines.append(json.dumps(more))
                break
            lines.append(line)
        return f"[{_BETWEEN.join(lines)}]"

    def _find_tracked(self, name: str) -> Skill:
        skills = self._workspace.store.skills
        # Of several with that name, the one that the tools use.
        skill = self._workspace.place.find_kept(name) if len(skills.find_paths(name)) > 1 else skills.find_skill(name)
        if skill is None:
            raise NotFound(f"no skill '{name[:80]}' is tracked: skillopt://skills lists those that are")
        return skill

    def _version(self, parts: Mapping[str, str]) -> str:
        skills, skill = self._workspace.store.skills, self._find_tracked(parts["skill"])
        return shown(skills.get_files(skill.id, skills.get_version(skill.id, parts["version"]).id).text)

    def _diff(self, parts: Mapping[str, str]) -> str:
        skills, skill = self._workspace.store.skills, self._find_tracked(parts["skill"])
        old, new = (skills.get_version(skill.id, parts[name]).id for name in ("old", "new"))
        return unified_diff(skills.get_files(skill.id, old), skills.get_files(skill.id, new), skill.name)

    def _look_up(self, id: str) -> Thing:
        from skillopt_mcp.reports.inspecting import SHOWN  # noqa: PLC0415
        from skillopt_mcp.reports.lookup import look_up  # noqa: PLC0415

        return look_up(self._workspace.store, self._workspace.place, id, SHOWN)

    def _describe(self, kind: str, name: str, parts: Mapping[str, str]) -> str:
        thing = self._look_up(parts[name])
        if thing.kind != kind:
            raise NotFound(f"'{parts[name][:80]}' is not the id of a {kind}")
        return thing.text

    def _report(self, id: str, *, as_page: bool) -> str:
        """Return the report on a thing, as a page or as text; of all skills without an id."""
        # Few hosts ask for it.
        from skillopt_mcp.reports.facts import gather, gather_skills  # noqa: PLC0415
        from skillopt_mcp.reports.rendering import html_page, markdown  # noqa: PLC0415

        facts = [gather(self._workspace.store, self._workspace.place, id)] if id else []
        if as_page:
            return html_page(
                facts, [] if facts else gather_skills(self._workspace.store, self._workspace.place), script="app"
            )
        return shorten(markdown(facts), ANSWER_BYTES)

    def _versions(self, skill: Skill) -> list[str]:
        promotions = self._workspace.store.promotions.list_promotions(skill.id)
        candidates = self._workspace.store.candidates.list_candidates(skill.id)
        live = [skill.live_version, *(id for each in promotions for id in (each.to_version, each.from_version))]
        return [*live, *(candidate.version_id for candidate in reversed(candidates))]
