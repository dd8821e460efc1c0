"""Sessions: the files in which hosts keep their transcripts: where they lie, what they are called, and their lines."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel

from skillopt_mcp.actions.hook_events import HookEvent, lines_of, transcripts_of
from skillopt_mcp.actions.trajectories import (
    Recording,
    attach_reaction,
    attach_transcript,
    record_trajectory,
    recorded_itself,
)
from skillopt_mcp.actions.transcripts import SessionAttempt, Use, attempts, is_host_line
from skillopt_mcp.core.errors import BadInput, SkillOptError
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import Result
from skillopt_mcp.core.skills import Skill
from skillopt_mcp.core.text import quoted
from skillopt_mcp.store.opening import Store
from skillopt_mcp.workspace.answers import shorten
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import main_path
from skillopt_mcp.workspace.skills import first_to_track
from skillopt_mcp.workspace.workspace import Workspace

_ENDINGS = (".jsonl", ".jsonl.zst")
_CODEX_NAME = re.compile(r"rollout-[\dT-]+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


def session_folders(home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the folders in which Claude Code and Codex keep their sessions; they need not exist."""
    claude = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex = Path(environ.get("CODEX_HOME") or home / ".codex")
    return [claude / "projects", codex / "sessions", codex / "archived_sessions"]


def session_files(paths: Iterable[Path]) -> list[Path]:
    """Return the transcripts at these paths, files or folders, in order. Raises BadInput for a path that is neither."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_file():
            found[path] = None
        elif path.is_dir():
            found |= dict.fromkeys(_below(path))
        else:
            raise BadInput(
                f"{quoted(str(path))} is neither a file nor a folder: name a transcript, or a folder of some"
            )
    return list(found)


def session_id(path: Path) -> str:
    """Return the id of the session that a transcript holds: that of its name, so that each reading finds the same."""
    name = path.name.removesuffix(".zst").removesuffix(".jsonl")
    codex = _CODEX_NAME.fullmatch(name)
    return codex[1] if codex else name


def _below(folder: Path) -> Iterator[Path]:
    for inner, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if name.endswith(_ENDINGS):
                yield Path(inner) / name


PROBLEMS_SHOWN = 20
REASON_BYTES = 300
OPENED = "opened"


class SessionProblem(BaseModel):
    """A transcript, or an attempt in it, that could not be used, and why."""

    path: str
    reason: str


class Harvested(Result):
    """What was found: `recorded` attempts are new, `known` ones were recorded before, `open` ones may go on."""

    n_files: int
    n_bytes: int
    recorded: int
    known: int
    open: int
    skills: dict[str, int]
    problems: list[SessionProblem]
    n_problems: int
    dry_run: bool = False


class Harvester:
    """Takes the attempts out of one transcript after the other. With `dry_run` it counts them and stores nothing."""

    def __init__(self, store: Store, place: Place, *, dry_run: bool = False) -> None:
        self._store, self._place = store, place
        self._dry_run = dry_run
        self._finder = _Finder(store.skills.list_skills() if store.is_made else [])
        self._problems: list[SessionProblem] = []
        self._skills: Counter[str] = Counter()
        self._n_files = self._n_bytes = self._known = self._open = 0

    def read(self, path: Path, *, finished: bool, advance: Callable[[int], None] = lambda _: None) -> None:
        """Read one transcript. Unless the session has `finished`, its last turn may go on, and is left for later."""

        def count(n_bytes: int) -> None:
            self._n_bytes += n_bytes
            advance(n_bytes)

        session = session_id(path)
        lines = _Lines(lines_of(path, count))
        try:
            for attempt in attempts(lines):
                for skill in self._finder.skills(attempt):
                    if attempt.reaction is None and not finished:
                        self._open += 1
                    else:
                        self._keep(path, session, attempt, skill)
            if lines.is_foreign:
                raise BadInput("not a transcript of Claude Code or Codex: none of its lines is one that they write")
        except (BadInput, OSError) as error:
            self._problem(path, error)
            self._n_files += lines.is_known
        else:
            self._n_files += 1

    def result(self) -> Harvested:
        """What was found so far."""
        return Harvested(
            n_files=self._n_files,
            n_bytes=self._n_bytes,
            recorded=self._skills.total(),
            known=self._known,
            open=self._open,
            skills=dict(sorted(self._skills.items())),
            problems=self._problems[:PROBLEMS_SHOWN],
            n_problems=len(self._problems),
            dry_run=self._dry_run,
            next_step=self._next_step(),
        )

    def _next_step(self) -> NextStep | None:
        if self._finder.is_empty:
            return first_to_track(self._store, self._place)
        if not self._skills:
            return None
        [(skill, n)] = self._skills.most_common(1)
        return NextStep(action="record_trajectory", arguments={"skill": skill}, why=f"{n} attempts have no score")

    def _keep(self, path: Path, session: str, attempt: SessionAttempt, skill: Skill) -> None:
        try:
            known = self._is_known(session, attempt, skill)
        except SkillOptError as error:
            self._problem(path, error)
            return
        if known:
            self._known += 1
        else:
            self._skills[skill.name] += 1

    def _is_known(self, session: str, attempt: SessionAttempt, skill: Skill) -> bool:
        """Whether an attempt was recorded before, by the agent itself or by another reading; else record it."""
        is_placed = bool(self._store.trajectories.find_placed(skill.id, session, attempt.index)[0])
        messages: list[object] = [{"role": "skill", "content": OPENED, "name": skill.name}]
        messages += [message._asdict() for message in attempt.messages]
        if attempt.reaction is not None:
            messages.append({"role": "user", "content": attempt.reaction})
        recording = Recording(
            task=attempt.prompt, answer=attempt.answer, messages=messages, session_id=session, index=attempt.index
        )
        of_itself = recorded_itself(self._store, self._place.redactor, skill.id, attempt.recorded, recording)
        if of_itself and not self._dry_run:
            attach_transcript(self._store, self._place, skill.id, of_itself, recording)
        if is_placed and attempt.reaction is not None and not self._dry_run:
            attach_reaction(self._store, self._place, skill.id, recording, of_itself)
        if is_placed or of_itself or self._dry_run:
            return is_placed or bool(of_itself)
        return record_trajectory(self._store, self._place, skill.path, recording).duplicate

    def _problem(self, path: Path, error: Exception) -> None:
        self._problems.append(SessionProblem(path=str(path), reason=shorten(str(error), REASON_BYTES)))


def harvest(
    store: Store,
    place: Place,
    files: Iterable[Path],
    *,
    dry_run: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> Harvested:
    """Record every attempt with a tracked skill that these transcripts hold, each once however often it is read."""
    work = Harvester(store, place, dry_run=dry_run)
    for path in files:
        work.read(path, finished=True, advance=advance)
    return work.result()


class _Lines:
    """The lines of a file, and whether a host seems to have written any of those that were read."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self.is_known = self.is_foreign = False

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            self.is_known = is_host_line(line)
            self.is_foreign = not self.is_known
            yield line
            if self.is_known:
                break
        yield from self._lines


class _Finder:
    """Which tracked skill a use is one of."""

    def __init__(self, tracked: Sequence[Skill]) -> None:
        self._by_path = {main_path(skill.path): skill for skill in tracked}
        self._by_name: dict[str, list[Skill]] = {}
        for skill in tracked:
            self._by_name.setdefault(skill.name, []).append(skill)

    @property
    def is_empty(self) -> bool:
        return not self._by_path

    def skills(self, attempt: SessionAttempt) -> list[Skill]:
        """Return the tracked skills that were opened in an attempt, each once."""
        found = [self._skill(use, attempt.folder) for use in attempt.uses]
        return list({skill.id: skill for skill in found if skill}.values())

    def _skill(self, use: Use, folder: str) -> Skill | None:
        if use.path:
            return self._by_path.get(os.path.realpath(os.path.join(folder or "/", os.path.expanduser(use.path))))
        named = self._by_name.get(use.name, [])
        inside = [skill for skill in named if folder and Path(skill.path).is_relative_to(os.path.realpath(folder))]
        # A project's own skill comes before the user's.
        here = inside or named
        return here[0] if len(here) == 1 else None


def capture(store_path: Path, event: HookEvent) -> Harvested | None:
    """Record the finished attempts of a session; at its end the last one, and those of its sub-agents, as well.

    Returns None where there is no skill to look for: a store is not made for this. Raises BadInput where there is no
    transcript.
    """
    transcripts = transcripts_of(event)
    if not store_path.exists():
        return None
    with Workspace(store_path, project=Path(event.cwd or ".")) as workspace:
        work = Harvester(workspace.store, workspace.place)
        for each in transcripts:
            work.read(each, finished=event.has_ended)
        return work.result()
