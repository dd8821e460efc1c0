"""Arrivals: before attempts with a text are asked for, whether the host loads it, and what would run by that."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from skillopt_mcp.backends.base import Backend, Loading
from skillopt_mcp.core.calls import Rollout
from skillopt_mcp.core.errors import NotLoaded
from skillopt_mcp.core.skills import SkillFiles, short
from skillopt_mcp.core.text import quoted
from skillopt_mcp.gates.guard.capabilities import find_commands
from skillopt_mcp.store.calls import Load
from skillopt_mcp.store.opening import Store

_COMMAND_SHOWN, _LIVE_VERSIONS = 80, 1000


def unseen_commands(store: Store, skill_id: int, files: SkillFiles) -> list[str]:
    """What a host would run by loading a text, and no person has seen: neither live at any time, nor agreed to."""
    found = find_commands(files)
    if not found:
        return []
    live = (store.skills.get_files(skill_id, each) for each in store.skills.list_live(skill_id, _LIVE_VERSIONS))
    return sorted(found - store.arrivals.list_seen(skill_id) - {each for old in live for each in find_commands(old)})


def check_arrivals(store: Store, backend: Backend, requests: Sequence[Rollout], see: str = "") -> None:
    """Raise NotLoaded where the host that is to load a text does not, or would run by that what no person has seen.

    Each text is driven once through the host itself; no model is asked, and nothing of the person's is passed on. By
    the command `see` a person is shown what would run.
    """
    if not isinstance(backend, Loading) or not backend.loads:
        return
    by_text: dict[tuple[str, str], list[Rollout]] = {}
    for request in requests:
        by_text.setdefault((request.files.digest, request.task.folder), []).append(request)
    for (version, folder), group in by_text.items():
        first = group[0]
        if not first.files.files:
            continue
        if unseen := unseen_commands(store, first.task.skill_id, first.files):
            shown = ", ".join(quoted(each, _COMMAND_SHOWN) for each in unseen[:3])
            raise NotLoaded(
                f"a host that loads version {short(version)} runs {shown}, which no person has seen: it was not "
                f"loaded{see and f'; see it at a terminal: {see}'}"
            )
        by_prompt = all(each.task.prompt.split(maxsplit=1)[:1] == [f"/{folder}"] for each in group)
        load = Load(backend.fingerprint, version, f"/{folder}" if by_prompt else folder)
        # A text that others were loaded by its name for is not loaded once more for one prompt.
        found = store.arrivals.get(load) or store.arrivals.get(load._replace(folder=folder))
        if found is None:
            # A thread of its own: the caller's may have an event loop already.
            with ThreadPoolExecutor(1) as thread:
                found = thread.submit(asyncio.run, backend.load(first, by_prompt=by_prompt)).result()
            if found is None:
                continue
            store.arrivals.add(load, found)
        if found.state == "refused":
            raise NotLoaded(
                f"'{backend.name}' does not load version {short(version)}, and nothing was asked: {found.words.strip()}"
            )
