"""Sessions: the files in which hosts keep their transcripts, and the tasks in them that people gave and judged."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from skillopt_mcp.actions.episodes import SessionEpisode, group_turns
from skillopt_mcp.actions.hook_events import LINE_BYTES, HookEvent, lines_of, transcripts_of
from skillopt_mcp.actions.trajectories import attach_transcript, recorded_itself
from skillopt_mcp.actions.transcripts import (
    NOTHING,
    SESSION_META,
    SelfRecorded,
    SessionTurn,
    Use,
    is_host_line,
    read_side_chain,
    split_turns,
)
from skillopt_mcp.core.calls import TOOL_CALL, Message, messages_json
from skillopt_mcp.core.errors import BadInput, SkillOptError
from skillopt_mcp.core.limits import MIB
from skillopt_mcp.core.mining import Episode
from skillopt_mcp.core.results import Result
from skillopt_mcp.core.skills import Skill
from skillopt_mcp.core.text import quoted, storable
from skillopt_mcp.documents import frontmatter
from skillopt_mcp.prompts.rendering import cut_message, cut_middle
from skillopt_mcp.store.episodes import Episodes, SessionFile
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.trajectories import NewTrajectory
from skillopt_mcp.workspace.answers import shorten
from skillopt_mcp.workspace.linting import run_git
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
TEXT_CHARACTERS = 20_000
"""How much is kept of a prompt or an answer for drafting; the middle of a longer one is cut out."""
_TAIL_BYTES = 4096
_MAX_FOUND = 4 * MIB  # characters that wait to be stored
_SIDE_CHAINS = "subagents"
_WEEK = timedelta(days=7)
_MAX_LOOKS = 100  # at repositories, in one reading
_MIN_SHARED = 3  # words that an episode shares with the description of a skill that it is about
_COMMON = re.findall(
    "[a-z]+",
    """when with this that from your they them have skill used uses using user users code file files
what which where whenever asks asked about into make makes write writes before after each every other more most""",
)
_STATES = {True: "opened", False: "not opened"}


class SessionProblem(BaseModel):
    """A transcript, or an attempt in it, that could not be used, and why."""

    path: str
    reason: str


class SessionsRead(Result):
    """What was read now: `episodes` are new, by their labels; `recorded` of their attempts were stored or scored.

    `n_unchanged` files hold nothing that was not read before.
    """

    n_files: int
    n_unchanged: int
    n_bytes: int
    episodes: dict[str, int]
    recorded: int
    skills: dict[str, int]
    problems: list[SessionProblem]
    n_problems: int


class SessionReader:
    """Takes the episodes out of one transcript after the other, and of each what was not read before."""

    def __init__(self, store: Store, place: Place) -> None:
        self._store, self._place = store, place
        self._episodes = store.table(Episodes)
        tracked = store.skills.list_listed() if store.is_made else []
        for n, skill in enumerate(tracked):
            with suppress(SkillOptError):
                tracked[n] = place.skill(skill.path)  # as it is live now
        self._finder, self.has_skills = _Finder(tracked), bool(tracked)
        self._problems: list[SessionProblem] = []
        self._skills: Counter[str] = Counter()
        self._labels: Counter[str] = Counter()
        self._found: list[tuple[Skill, int, Episode, list[NewTrajectory], SelfRecorded]] = []
        self._n_files = self._n_bytes = self._n_unchanged = self._n_looks = 0

    def read(self, path: Path, advance: Callable[[int], None] = lambda _: None) -> None:
        """Read one transcript on from its last episode, or all of one that was replaced; sub-agents with theirs."""

        def count(n_bytes: int) -> None:
            self._n_bytes += n_bytes
            advance(n_bytes)

        if path.parent.name == _SIDE_CHAINS:
            return
        self._found.clear()
        try:
            status = path.stat()
            known = self._episodes.find_file(str(path))
            begin = SessionFile(
                status.st_ino, self._finder.newest, status.st_mtime_ns, status.st_size, 0, "", 0, ""
            )  # fmt: skip
            if known and known[:4] == begin[:4]:
                self._n_unchanged += 1
                return
            is_packed = path.name.endswith(".zst")
            # A file that has only grown is read on from its last episode, any other one from its beginning.
            has_grown = known and not is_packed and known[:2] == begin[:2] and known.size <= begin.size
            if known and has_grown and _digest_before(path, known.offset) == known.before:
                begin = begin._replace(offset=known.offset, n_turns=known.n_turns, folder=known.folder)
            side = list[tuple[str, tuple[Use, ...]]]()
            for file in sorted((path.with_suffix("") / _SIDE_CHAINS).glob("*.jsonl")):
                try:
                    side.append(read_side_chain(line for _, line in lines_of(file, count)))
                except OSError as error:
                    self._problem(file, error)
            lines = _Lines(path, begin.offset, count)
            last: SessionTurn | None = None
            resumed: SessionEpisode | None = None

            def note_last(turns: Iterator[SessionTurn]) -> Iterator[SessionTurn]:
                nonlocal last
                for each in turns:
                    last = each
                    yield each

            for resumed in group_turns(note_last(split_turns(lines, begin.n_turns, begin.folder)), side):
                self._keep(path, resumed)
                if sum(len(new.messages) for _, _, _, attempts, _ in self._found for new in attempts) > _MAX_FOUND:
                    self._store_found()
            self._n_files += not lines.is_foreign
            if lines.problem:
                self._store_found()
                raise lines.problem
            if lines.is_foreign:
                raise BadInput("not a transcript of Claude Code or Codex: none of its lines is one that they write")
            if last:
                # What was said last belongs to the last episode, which may go on, or to none.
                at = resumed.first if resumed and resumed.until >= last.index else last
                begin = begin._replace(offset=at.offset, n_turns=at.index, folder=at.folder)
            before = "" if is_packed else _digest_before(path, begin.offset)
            with self._episodes.transaction():
                self._store_found()
                self._episodes.store_file(str(path), begin._replace(before=before))
        except (SkillOptError, OSError) as error:
            self._problem(path, error)

    def result(self) -> SessionsRead:
        """What was found so far."""
        return SessionsRead(
            n_files=self._n_files,
            n_unchanged=self._n_unchanged,
            n_bytes=self._n_bytes,
            episodes=dict(sorted(self._labels.items())),
            recorded=self._skills.total(),
            skills=dict(sorted(self._skills.items())),
            problems=self._problems[:PROBLEMS_SHOWN],
            n_problems=len(self._problems),
            next_step=first_to_track(self._store, self._place) if not self.has_skills else None,
        )

    def _keep(self, path: Path, episode: SessionEpisode) -> None:
        """Store an episode, and its attempts, for each tracked skill that arrived, or for the one that should have."""
        first, last, rejected = episode.first, episode.last, episode.rejected
        skills = self._finder.find_skills(episode.uses, first.folder)
        was_opened = bool(skills)
        missed = None if skills else self._finder.find_missed(f"{first.said.text}\n{episode.correction}")
        if missed and (rejected or last).attempt.answer:
            skills = [missed]
        elif was_opened and episode.label == "unknown" and self._is_kept(episode):
            episode.accept("kept", "")
        # What has neither a label nor words to ask about teaches nothing.
        if not skills or (was_opened and not rejected and episode.label == "unknown"):
            return
        is_accepted = episode.label == "accepted" and was_opened
        turns = [rejected or last, last] if is_accepted and rejected else [rejected or last]
        # Of what was done without the skill, no more is kept than that.
        done = [turn.attempt.messages if was_opened else () for turn in turns]
        texts = [first.said.text, first.folder, last.attempt.answer, rejected.attempt.answer if rejected else ""]
        texts += [episode.correction, episode.reason, *(message.content for messages in done for message in messages)]
        # What is cut holds no secret any more, of which a part might be left.
        texts = self._place.redactor.texts(list(map(storable, texts)))
        texts[:6] = [cut_middle(each, TEXT_CHARACTERS) for each in texts[:6]]
        prompt, folder, answer, wrong, correction, reason = texts[:6]
        session = session_id(path)
        for skill in skills:
            found = Episode(
                session, first.index, skill.path if was_opened else "", prompt, folder, answer, wrong, correction,
                episode.label, episode.why, first.said.at,
            )  # fmt: skip
            attempts = []
            for n, turn in enumerate(turns):
                of_last = is_accepted and turn is last
                said = reason if of_last else correction
                messages = [Message("skill", _STATES[was_opened], skill.name)]
                messages += [Message("user", correction)] if n else []
                begin = 6 + (len(done[0]) if n else 0)
                whole = (message._replace(content=texts[begin + at]) for at, message in enumerate(done[n]))
                messages += map(cut_message, whole)
                messages += [Message("user", said)] if said else []
                hard = True if of_last else False if episode.label != "unknown" and was_opened else None
                soft, why = (None, "") if hard is None else (float(hard), said or episode.why)
                attempts.append(NewTrajectory(
                    prompt=prompt, answer=answer if of_last or not rejected else wrong, hard=hard, soft=soft,
                    reason=why, messages=messages_json(messages), session_id=session,
                    position=turn.index if n else first.index,
                ))  # fmt: skip
            own = SelfRecorded(*map(frozenset[Any]().union, *episode.recorded)) if episode.recorded else NOTHING
            self._found.append((skill, episode.until, found, attempts, own))

    def _store_found(self) -> None:
        """Store what was found, in one transaction."""
        labels, skills = Counter[str](), Counter[str]()
        with self._episodes.transaction():
            for skill, until, episode, attempts, own in self._found:
                if self._episodes.is_copied(skill.id, episode):
                    continue
                labels[episode.label] += self._episodes.store_episode(skill.id, until, episode)
                for new in attempts:
                    skills[skill.name] += self._record(skill, own, new)
        self._labels += labels
        self._skills.update(skills)
        self._found.clear()

    def _record(self, skill: Skill, own: SelfRecorded, new: NewTrajectory) -> bool:
        """Record an attempt, unless the agent did so itself: then that one gets the transcript."""
        trajectories = self._store.trajectories
        if of_itself := recorded_itself(self._store, skill.id, own, new):
            attach_transcript(self._store, skill.id, of_itself, new)
            return False
        number, is_new, _ = trajectories.add_trajectory(skill.id, skill.live_version, new)
        if is_new or new.hard is None:
            return is_new
        # It was recorded before the person said this; a score of theirs changes to a failure alone.
        _, before = trajectories.get_trajectory(number) or (0, None)
        if before is None or not (before.hard is None or (before.hard and not new.hard)):
            return False
        done = trajectories.score_trajectory(skill.id, number, (new.hard, new.soft), new.reason)
        return done in ("scored", "corrected")

    def _is_kept(self, episode: SessionEpisode) -> bool:
        """Whether all that was written a week ago or longer stands in the last commit of its repository."""
        folder, n_kept = Path(episode.first.folder), 0
        try:
            is_old = datetime.now(UTC) - datetime.fromisoformat(episode.first.said.at) > _WEEK
            if not is_old or not folder.is_dir():
                return False
            for message in chain(episode.first.attempt.messages, episode.last.attempt.messages):
                if message.role != TOOL_CALL or message.name not in ("Edit", "Write"):
                    continue
                given = json.loads(message.content)
                text, name = given.get("new_string") or given["content"], os.path.relpath(given["file_path"], folder)
                self._n_looks += 1
                if self._n_looks > _MAX_LOOKS:
                    return False
                done = run_git(folder, "cat-file", "blob", f"HEAD:./{name}")
                if done.returncode or text.strip().encode() not in done.stdout:
                    return False
                n_kept += 1
        except (OSError, ValueError, TypeError, KeyError, AttributeError, subprocess.SubprocessError):
            return False
        return n_kept > 0

    def _problem(self, path: Path, error: Exception) -> None:
        self._problems.append(SessionProblem(path=str(path), reason=shorten(str(error), REASON_BYTES)))


def read_sessions(
    store: Store, place: Place, files: Iterable[Path], advance: Callable[[int], None] = lambda _: None
) -> SessionsRead:
    """Store the episodes with tracked skills that these transcripts hold, each once however often they are read."""
    reader = SessionReader(store, place)
    for path in files if reader.has_skills else ():
        reader.read(path, advance)
    return reader.result()


def read_host_sessions(
    store: Store, place: Place, paths: Sequence[Path] = (), advance: Callable[[int, int], None] = lambda *_: None
) -> SessionsRead:
    """Read what is new in these files and folders, or in all that Claude Code and Codex keep; `advance` hears n of m.

    What was found is in `Episodes.list_episodes`. Raises BadInput for a path that is neither a file nor a folder.
    """
    kept = session_folders(Path(os.path.expanduser("~")), os.environ)
    files = session_files(paths or [folder for folder in kept if folder.is_dir()])
    n_total, n_read = sum(path.stat().st_size for path in files), 0

    def count(n_bytes: int) -> None:
        nonlocal n_read
        n_read += n_bytes
        advance(n_read, n_total)

    return read_sessions(store, place, files, count)


def _digest_before(path: Path, offset: int) -> str:
    """The sha256 (hex) of the bytes before a place in a file."""
    with path.open("rb") as file:
        file.seek(max(0, offset - _TAIL_BYTES))
        return hashlib.sha256(file.read(min(offset, _TAIL_BYTES))).hexdigest()


class _Lines:
    """The lines of a file from an offset on; what was wrong with it, and whether no host seems to have written it."""

    def __init__(self, path: Path, offset: int, advance: Callable[[int], None]) -> None:
        self._path, self._offset, self._advance = path, offset, advance
        self.problem: BadInput | None = None
        self.is_foreign = False

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        if self._offset:
            with self._path.open("rb") as file:
                first = file.readline(LINE_BYTES)
            if SESSION_META in first:  # it says who began the session
                yield 0, first
        lines = lines_of(self._path, self._advance, self._offset)
        try:
            for offset, line in lines:
                self.is_foreign = not self._offset and not is_host_line(line)
                yield offset, line
                if not self.is_foreign:
                    break
            yield from lines
        except BadInput as error:
            self.problem = error


class _Finder:
    """Which tracked skill a use is one of, and which one should have been used."""

    def __init__(self, tracked: Sequence[Skill]) -> None:
        self._by_path = {main_path(skill.path): skill for skill in tracked}
        self._by_name: dict[str, list[Skill]] = {}
        for skill in tracked:
            self._by_name.setdefault(skill.name, []).append(skill)
        self.newest = max((skill.id for skill in tracked), default=0)
        self._terms: dict[int, set[str]] = {}
        for path, skill in self._by_path.items():
            with suppress(OSError):
                front = frontmatter.read(Path(path).read_bytes())
                self._terms[skill.id] = _terms(front.description or "") if front else set()

    def find_skills(self, uses: Iterable[Use], folder: str) -> list[Skill]:
        """The tracked skills that were opened, each once."""
        found = [self._skill(use, folder) for use in uses]
        return list({skill.id: skill for skill in found if skill}.values())

    def find_missed(self, words: str) -> Skill | None:
        """The one tracked skill that words name, or that they share several words of its description with."""
        terms, about = _terms(words), list[Skill]()
        for skill in self._by_path.values():
            name = _terms(skill.name)
            if (name and name <= terms) or len(terms & self._terms.get(skill.id, set())) >= _MIN_SHARED:
                about.append(skill)
        return about[0] if len(about) == 1 else None

    def _skill(self, use: Use, folder: str) -> Skill | None:
        if use.path:
            with suppress(ValueError):  # a path with a NUL
                return self._by_path.get(os.path.realpath(os.path.join(folder or "/", os.path.expanduser(use.path))))
            return None
        named = self._by_name.get(use.name, [])
        top = os.path.realpath(folder.replace("\0", ""))
        inside = [skill for skill in named if folder and Path(skill.path).is_relative_to(top)]
        # A project's own skill comes before the user's.
        here = inside or named
        return here[0] if len(here) == 1 else None


def _terms(text: str) -> set[str]:
    """The beginnings of the longer words of a text: number and tense change the ends."""
    return {word[:6] for word in re.findall(r"[^\W\d_]{4,}", text.lower()) if word not in _COMMON}


def capture(store_path: Path, event: HookEvent) -> SessionsRead | None:
    """Read what is new in the session of a hook. Raises BadInput where there is no transcript.

    Returns None where there is no skill to look for: a store is not made for this.
    """
    transcripts = transcripts_of(event)
    if not store_path.exists():
        return None
    with Workspace(store_path, project=Path(event.cwd or ".")) as workspace:
        return read_sessions(workspace.store, workspace.place, transcripts)
