"""Library: what hosts read of one workspace beside the results of tools: resources, completions, and tracked skills.

Prompts, answers and per-task results of held-out tasks are in none of it.
"""

from __future__ import annotations

import hashlib
import json
import mimetypes
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import quote

from skillopt_mcp.documents.characters import shown
from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.documents.lines import is_text
from skillopt_mcp.documents.verbatim import front_matter_json
from skillopt_mcp.errors import BadSkill, NotFound
from skillopt_mcp.operations.looks.inspecting import described
from skillopt_mcp.operations.looks.listing import all_skills
from skillopt_mcp.operations.paging import ANSWER_BYTES, page_start, shortened
from skillopt_mcp.operations.results import SkillRow
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.skills import MAIN_FILE, Skill, SkillFile, SkillFiles, short
from skillopt_mcp.server import resources

Content = tuple[str | bytes, str | None]
Entry = dict[str, object]

_SCHEME = "skill://"
_NAME = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_MOST_FILES = 512
_MOST_BYTES = 16 * 1024 * 1024
_PAGE = 50
_BETWEEN = ",\n "
_STEP_BYTES = 120
_MORE_BYTES = 120
_MOST_VALUES = 100
_DIRECTORY = "inode/directory"


class Library:
    """The reading side of a workspace. Nothing is tracked or evaluated for being read here."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def read(self, uri: str) -> Content:
        """Return what is at an address, with its kind. Raises NotFound where nothing is."""
        found = resources.matched(uri)
        if found is None:
            raise NotFound(f"there is no resource at {uri[:300]}")
        template, parts = found
        if template == resources.SKILL_FILE:
            return self._skill_file(uri)
        readers: dict[str, Callable[[Mapping[str, str]], str]] = {
            resources.SKILLS: lambda _: self._skills(),
            resources.SKILL: lambda part: described(self._workspace, self._tracked(part["skill"]).path)[1],
            resources.VERSION: self._version,
            resources.DIFF: self._diff,
            resources.CANDIDATE: partial(self._described, "candidate", "candidate_id"),
            resources.RUN: partial(self._described, "run", "run_id"),
        }
        return readers[template](parts), resources.mime_type(template)

    def complete(self, argument: str, beginning: str, others: Mapping[str, str]) -> list[str]:
        """Return what an argument of a template or a prompt may be, given its beginning and those filled in already."""
        store = self._workspace.store
        skills = store.skills.list_skills()
        chosen = [skill for skill in skills if others.get("skill", skill.name) == skill.name]
        if argument == "skill":
            found = [skill.name for skill in skills]
        elif argument == "candidate_id":
            found = [each.id for skill in chosen for each in reversed(store.candidates.list_candidates(skill.id))]
        elif argument == "run_id":
            found = [run.id for skill in chosen for run in reversed(store.runs.list_runs(skill.id))]
        elif argument in ("version", "old", "new"):
            found = [short(version) for skill in chosen for version in self._versions(skill)]
        else:
            found = []
        return [each for each in dict.fromkeys(found) if each.startswith(beginning)][:_MOST_VALUES]

    def list_entries(self, cursor: str | None) -> tuple[list[Entry], str | None]:
        """Return the tracked skills that can be served, as SEP-2640 describes them, and the cursor of the next page."""
        start, places = page_start(cursor), list(self._served().items())
        entries = [self._entry(root, skill) for root, skill in places[start : start + _PAGE]]
        more = start + _PAGE < len(places)
        return [entry for entry in entries if entry is not None], str(start + _PAGE) if more else None

    def get_entry(self, uri: str) -> Entry | None:
        """Return the entry of the skill whose SKILL.md has this address, or None."""
        root = uri.removesuffix(f"/{MAIN_FILE}")
        skill = self._served().get(root) if root != uri else None
        return self._entry(root, skill) if skill else None

    def list_children(self, uri: str) -> list[Entry] | None:
        """Return what lies directly in a directory of a skill, None when the address is none of a directory."""
        for root, skill in self._served().items():
            if uri != root and not uri.startswith(f"{root}/"):
                continue
            found = self._servable(skill)
            if found is None:
                return None
            below = {
                address.removeprefix(f"{uri}/"): file
                for address, file in _addresses(root, found[0]).items()
                if address.startswith(f"{uri}/")
            }
            children = _children(uri, below)
            for child in children:
                if child["uri"] == f"{root}/{MAIN_FILE}":
                    child |= {"name": skill.name, "description": found[1]["description"]}
            return children or None
        return None

    def _skill_file(self, uri: str) -> Content:
        for root, skill in self._served().items():
            found = self._servable(skill) if uri.startswith(f"{root}/") else None
            file = _addresses(root, found[0]).get(uri) if found else None
            if file is not None:
                return file.content.decode() if is_text(file.content) else file.content, _kind(file.path)
        raise NotFound(f"there is no file of a tracked skill at {uri[:300]}")

    def _skills(self) -> str:
        rows = all_skills(self._workspace)
        n_of = Counter(row.name for row in rows)
        lines, room = list[str](), ANSWER_BYTES
        for row in rows:
            line = json.dumps(_short(row, is_alone=n_of[row.name] == 1), ensure_ascii=False)
            room -= len(line.encode()) + len(_BETWEEN)
            if room < _MORE_BYTES:
                more = {"left_out": len(rows) - len(lines), "next_step": "list_skills lists all, a page at a time"}
                lines.append(json.dumps(more))
                break
            lines.append(line)
        return f"[{_BETWEEN.join(lines)}]"

    def _tracked(self, name: str) -> Skill:
        skills = self._workspace.store.skills
        # Of several it is the one that the tools mean.
        skill = self._workspace.kept(name) if len(skills.find_paths(name)) > 1 else skills.find_skill(name)
        if skill is None:
            raise NotFound(f"no skill '{name[:80]}' is tracked: skillopt://skills lists those that are")
        return skill

    def _version(self, parts: Mapping[str, str]) -> str:
        skills, skill = self._workspace.store.skills, self._tracked(parts["skill"])
        return shown(skills.get_files(skill.id, skills.get_version(skill.id, parts["version"]).id).text)

    def _diff(self, parts: Mapping[str, str]) -> str:
        skills, skill = self._workspace.store.skills, self._tracked(parts["skill"])
        old, new = (skills.get_version(skill.id, parts[name]).id for name in ("old", "new"))
        return unified_diff(skills.get_files(skill.id, old), skills.get_files(skill.id, new), skill.name)

    def _described(self, kind: str, name: str, parts: Mapping[str, str]) -> str:
        found, text = described(self._workspace, parts[name])
        if found != kind:
            raise NotFound(f"'{parts[name][:80]}' is not the id of a {kind}")
        return text

    def _versions(self, skill: Skill) -> list[str]:
        promotions = self._workspace.store.promotions.list_promotions(skill.id)
        candidates = self._workspace.store.candidates.list_candidates(skill.id)
        live = [skill.live_version, *(id for each in promotions for id in (each.to_version, each.from_version))]
        return [*live, *(candidate.version_id for candidate in reversed(candidates))]

    def _served(self) -> dict[str, Skill]:
        """Return the tracked skills by the address of their root; those of one name are told apart by their number."""
        skills = [skill for skill in self._workspace.store.skills.list_skills() if _NAME.fullmatch(skill.name)]
        names = [skill.name for skill in skills]
        return {
            f"{_SCHEME}{skill.name}" if names.count(skill.name) == 1 else f"{_SCHEME}{skill.id}/{skill.name}": skill
            for skill in skills
        }

    def _servable(self, skill: Skill) -> tuple[SkillFiles, dict[str, object]] | None:
        """Return the live files of a skill and its front matter, None when it is not one that a host would take."""
        try:
            files = self._workspace.live(skill)
        except BadSkill:
            return None
        front = front_matter_json(files.main)
        fits = len(files.files) <= _MOST_FILES and sum(len(file.content) for file in files.files) <= _MOST_BYTES
        described = front and front.get("name") == skill.name and isinstance(front.get("description"), str)
        return (files, front) if front and described and fits and files.main_path == MAIN_FILE else None

    def _entry(self, root: str, skill: Skill) -> Entry | None:
        found = self._servable(skill)
        if found is None:
            return None
        files, front = found
        manifest = [
            {
                "uri": uri,
                "digest": f"sha256:{hashlib.sha256(file.content).hexdigest()}",
                "size": len(file.content),
            }
            for uri, file in _addresses(root, files).items()
        ]
        return {"uri": f"{root}/{MAIN_FILE}", "frontmatter": front, "resources": manifest}


def _short(row: SkillRow, *, is_alone: bool) -> Entry:
    """Return what is told of a skill among many: what to do next, and where it is, unless its name says that."""
    where = {} if row.tracked and is_alone else {"path": row.path}
    return {"name": row.name, "tracked": row.tracked, **where, "next_step": shortened(row.next_step, _STEP_BYTES)}


def _addresses(root: str, files: SkillFiles) -> dict[str, SkillFile]:
    return {f"{root}/{quote(file.path, safe='/')}": file for file in files.files}


def _children(uri: str, below: Mapping[str, SkillFile]) -> list[Entry]:
    """Return the direct children among what lies below a directory, by their paths inside it."""
    children: dict[str, Entry] = {}
    for path, file in below.items():
        first, _, rest = path.partition("/")
        name = first if rest else file.path.rpartition("/")[2]
        kind = _DIRECTORY if rest else _kind(file.path)
        children[first] = {"uri": f"{uri}/{first}", "name": name, **({"mimeType": kind} if kind else {})}
    return list(children.values())


def _kind(path: str) -> str | None:
    return "text/markdown" if path.endswith(".md") else mimetypes.guess_type(path, strict=False)[0]
