"""Revisions: the skills of a git repository at a commit, or in its working tree, and which of them differ.

Files are read by the ids of their contents: nothing is checked out, and no filter, hook or attribute of the repository
runs.
"""

from __future__ import annotations

import os
import posixpath
import stat
import subprocess
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import cached_property
from hashlib import new as new_hash
from pathlib import Path
from typing import Literal, NamedTuple

from skillopt_mcp.core.errors import BadInput, BadSkill
from skillopt_mcp.core.limits import FILE_BYTES, SKILL_DEPTH
from skillopt_mcp.core.skills import MAIN_FILE, is_memory
from skillopt_mcp.core.text import is_passed_over, quoted
from skillopt_mcp.workspace.linting import OF_OTHERS, OF_SKILLS, ask_git, run_git

_LINK, _PROGRAM, _SUBMODULE = "120000", "100755", "160000"
_MAIN_BRANCHES = ("origin/HEAD", "main", "master")
_NOT_IN_TREES = frozenset({"", ".", "..", ".git"})
_MAX_LINKS = 40
_SMALL, _MAX_FILES = 2_000, 5_000
"""Of so many files all are laid out; of more those of skills, and in evals/ and tests/ around these."""
_ALIKE, _MAX_WORDS, _MAX_COMPARED = 0.5, 4_000, 40_000


class Entry(NamedTuple):
    """The mode of a file as git has it, and the id of its content."""

    mode: str
    id: str


class Revision:
    """The files of a repository at a commit, or with "" in its working tree, by their paths from its top.

    Raises BadInput where git fails.
    """

    def __init__(self, top: Path, commit: str) -> None:
        self.commit, self._top, self._disk = commit, top, dict[str, bytes]()
        listing = ("ls-tree", "-r", "-z", "--full-tree", commit) if commit else ("ls-files", "-t", "-s", "-z")
        entries = dict[str, Entry]()
        for row in ask_git(top, commit, *listing).split("\0")[:-1]:
            facts, _, path = row.partition("\t")
            first, *rest = facts.split(" ")
            entries[path] = Entry(first, rest[1]) if commit else Entry(*rest[:2])
            if not commit and first != "S" and not os.path.lexists(top / path):  # S: a sparse checkout leaves it out
                del entries[path]
        if not commit:
            others = ask_git(top, commit, "ls-files", "--others", "--exclude-standard", "-z").split("\0")[:-1]
            entries |= dict.fromkeys(others, Entry("", ""))
        self.paths = sorted(path for path in entries if _NOT_IN_TREES.isdisjoint(path.lower().split("/")))
        self._entries = {path: entries[path] for path in self.paths if entries[path].mode != _SUBMODULE}

    def get(self, path: str) -> Entry:
        """A file as it is here; what git would store of one in the working tree as it has it is unchanged."""
        entry, place, mode = self._entries[path], self._top / path, ""
        if self.commit or path in self._disk or not os.path.lexists(place):
            return entry
        with suppress(OSError):
            status = os.lstat(place)
            if stat.S_ISLNK(status.st_mode):
                content, mode = os.fsencode(os.readlink(place)), _LINK
            elif stat.S_ISREG(status.st_mode) and os.path.realpath(place.parent) == str(place.parent):
                with os.fdopen(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                    content = file.read(FILE_BYTES + 1)
                mode = _PROGRAM if status.st_mode & stat.S_IXUSR else "100644"
        if not mode or len(content) > FILE_BYTES:
            return Entry(mode, "")
        kind = "sha256" if len(entry.id) == 64 else "sha1"
        ids = [new_hash(kind, b"blob %d\0%b" % (len(each), each)).hexdigest()
               for each in (content, content.replace(b"\r\n", b"\n"))]  # fmt: skip
        if entry.id in ids:
            return Entry(mode, entry.id)
        self._disk[path], self._entries[path] = content, Entry(mode, ids[0])
        return self._entries[path]

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """The contents of files by their paths, without those that are too large, or are not in this clone."""
        ids = {path: self.get(path).id for path in paths}
        wanted = "\n".join({id for path, id in ids.items() if id and path not in self._disk})
        sizes = self._ask("--batch-check", wanted).decode()
        rows = [row.split(" ") for row in sizes.splitlines()]
        small = [row[0] for row in rows if row[1] == "blob" and int(row[2]) <= FILE_BYTES]
        packed = self._ask("--batch", "\n".join(small))
        contents, at = dict[str, bytes](), 0
        for id in small:
            start = packed.index(b"\n", at) + 1
            at = start + int(packed[at : start - 1].split()[2]) + 1
            contents[id] = packed[start : at - 1]
        found = {path: self._disk.get(path, contents.get(id)) for path, id in ids.items()}
        return {path: content for path, content in found.items() if content is not None}

    def _ask(self, how: str, ids: str) -> bytes:
        try:
            return run_git(self._top, "cat-file", how, stdin=ids.encode()).stdout
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BadInput(f"git cannot be asked for files ({error}): run the gate again") from None

    @cached_property
    def _links(self) -> dict[str, str]:
        links = [path for path, entry in self._entries.items() if entry.mode == _LINK]
        if not self.commit:
            links = [path for path in self._entries if os.path.islink(self._top / path)]
        return {path: os.fsdecode(target) for path, target in self.read(links).items()}

    def _resolve(self, path: str) -> str | None:
        """Where a path leads by the links in it; None out of the repository, or in a circle."""
        for _ in range(_MAX_LINKS):
            parts = path.split("/")
            heads = ("/".join(parts[:n]) for n in range(1, len(parts) + 1))
            link = next((head for head in heads if head in self._links), None)
            if link is None:
                return path
            target = posixpath.join(posixpath.dirname(link), self._links[link], path[len(link) + 1 :])
            path = posixpath.normpath(target)
            if path.startswith("/") or path.split("/")[0] == "..":
                return None
        return None

    def _list_below(self, folder: str) -> list[str]:
        start, end = (bisect_left(self.paths, f"{folder}{mark}") for mark in "/0")
        return self.paths[start:end] if folder else self.paths

    def list_files(self, skill: str) -> dict[str, str]:
        """The files of a skill by their paths in its folder ("" is the top), and where each lies; links are followed.

        Of a memory file it is that alone. Raises BadSkill for a link out of the repository, and for too many files.
        """
        if skill in self._entries:
            return {posixpath.basename(skill): skill}
        found, waiting = dict[str, str](), [(skill, "")]
        while waiting:
            folder, inner = waiting.pop()
            for path in self._list_below(folder):
                name = inner + path[len(folder) + bool(folder) :]
                if any(map(is_passed_over, name.split("/"))):
                    continue
                real = self._resolve(path)
                if real in self._entries:
                    found[name] = real
                elif real and name.count("/") < SKILL_DEPTH and self._list_below(real):
                    waiting.append((real, f"{name}/"))
                elif path in self._links:
                    raise BadSkill(f"{quoted(path)} is a link to no file or folder of the repository")
                if len(found) > _MAX_FILES:
                    raise BadSkill(f"{quoted(skill)} has more than {_MAX_FILES:,} files")
        return found

    def list_skills(self) -> list[str]:
        """The folders of skills, and the memory files that lie in none."""
        mains = {posixpath.dirname(path) for path in self.paths if posixpath.basename(path) == MAIN_FILE}

        def is_own(path: str) -> bool:
            parts = path.split("/")
            around = [part for n, part in enumerate(parts) if "/".join(parts[:n]) in mains]
            return OF_OTHERS.isdisjoint(parts) and not (around if is_memory(path) else OF_SKILLS.intersection(around))

        memory = (path for path in self.paths if is_memory(path) and path not in self._links)
        return sorted(path for path in (*mains, *memory) if is_own(path))

    def identify(self, skill: str) -> object:
        """What is equal for the same files of a skill in two revisions."""
        try:
            return sorted((name, *self.get(path)) for name, path in self.list_files(skill).items())
        except BadSkill as error:  # it may differ all the same
            return str(error), [(path, *self.get(path)) for path in self._list_below(skill) if path in self._entries]

    def lay_out(self, place: Path, skills: Collection[str]) -> None:
        """Write the files of skills, and what their tasks are read from, into a folder, without links."""
        (place / ".git").mkdir(parents=True)  # what evals name lies in their repository
        files = dict[str, str]()
        for skill in skills:
            with suppress(BadSkill):
                base = posixpath.dirname(skill) if skill in self._entries else skill
                files |= {posixpath.join(base, name): real for name, real in self.list_files(skill).items()}
        above = {"/".join([*skill.split("/")[:n], ""]) for skill in skills for n in range(skill.count("/") + 1)}
        near = tuple(base + name for base in above for name in ("evals/", "tests/", ".claude-plugin/", "plugin.json"))
        is_small = len(self.paths) <= _SMALL
        for path in [path for path in self.paths if is_small or path.startswith(near)][:_MAX_FILES]:
            if (real := self._resolve(path)) in self._entries:
                files.setdefault(path, str(real))
        contents = self.read(files.values())
        for path, real in files.items():
            if real in contents:
                with suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
                    (place / path).parent.mkdir(parents=True, exist_ok=True)
                    (place / path).write_bytes(contents[real])
                    (place / path).chmod(0o755 if self.get(real).mode == _PROGRAM else 0o644)


class Difference(NamedTuple):
    """A skill or memory file that differs, by its path at the head; `before` is that at the base if it was renamed."""

    path: str
    change: Literal["changed", "added", "deleted", "renamed"]
    before: str = ""


def open_revisions(folder: Path, base: str | None, head: str) -> tuple[Path, Revision, Revision]:
    """The top of the checkout around a folder, where the head ("" is the working tree) left the base, and the head.

    Without a base it is the main branch. Raises BadInput where git fails, or the base is not known.
    """
    top = Path(ask_git(folder, base or "the main branch", "rev-parse", "--show-toplevel").removesuffix("\n"))
    names = [base] if base is not None else _MAIN_BRANCHES
    found = [name for name in names if base or not run_git(top, "rev-parse", "--verify", "-q", f"{name}^0").returncode]
    if not found:
        raise BadInput(f"there is no main branch ({', '.join(_MAIN_BRANCHES)}) in this checkout: name --base REV")
    verify = ("rev-parse", "--verify", "--end-of-options")
    ends = [ask_git(top, name, *verify, f"{name}^{{commit}}").strip() for name in (found[0], head or "HEAD")]
    left = ask_git(top, found[0], "merge-base", *ends).strip()
    return top, Revision(top, left), Revision(top, ends[1] if head else "")


def list_differences(base: Revision, head: Revision) -> list[Difference]:
    """The skills and memory files that differ, in the order of their paths.

    A new one of the name, or with half of the words, of one that is gone is that one, renamed. Raises BadInput.
    """
    old, new, sides = {*base.list_skills()}, {*head.list_skills()}, list[dict[str, Counter[str]]]()
    for revision, skills in ((base, old - new), (head, new - old)):
        mains = {skill: skill if is_memory(skill) else posixpath.join(skill, MAIN_FILE) for skill in skills}
        texts = {path: content.decode("utf-8", "replace") for path, content in revision.read(mains.values()).items()}
        sides.append({skill: Counter(texts.get(path, "").split()[:_MAX_WORDS]) for skill, path in mains.items()})
    (gone, added), name_of = sides, posixpath.basename
    found = [Difference(each, "changed") for each in old & new if base.identify(each) != head.identify(each)]
    names, named = [Counter(map(name_of, side)) for side in (gone, added)], {name_of(path): path for path in gone}
    for path in [path for path in added if not is_memory(path) and all(side[name_of(path)] == 1 for side in names)]:
        found.append(Difference(path, "renamed", named[name_of(path)]))
        del gone[named[name_of(path)]], added[path]
    if len(gone) * len(added) > _MAX_COMPARED:
        raise BadInput(f"{len(gone):,} skills are gone and {len(added):,} are new: too many to see which were renamed")
    alike = [
        ((name_of(path) == name_of(before) and not is_memory(path))
         + 2 * (theirs & words).total() / max(1, theirs.total() + words.total()), before, path)
        for path, words in added.items() for before, theirs in gone.items() if is_memory(before) == is_memory(path)
    ]  # fmt: skip
    for ratio, before, path in sorted(alike, reverse=True):
        if ratio >= _ALIKE and before in gone and path in added:
            found.append(Difference(path, "renamed", before))
            del gone[before], added[path]
    return sorted(
        [*found, *(Difference(each, "added") for each in added), *(Difference(each, "deleted") for each in gone)]
    )
