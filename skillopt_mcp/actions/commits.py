"""Commits: tasks out of a git repository: releases with what a person wrote of them, and changes with tests.

Git is read alone: nothing that a repository or its configuration names is run, and nothing is fetched. Tests run as
judges do, by the program that a person registered.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from skillopt_mcp.actions.mining import Mining, MiningPlan, add_drafts, plan_mining
from skillopt_mcp.backends.programs import CommandRunner, run_programs
from skillopt_mcp.core.commands import RegisteredCommand
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.evidence import Attempted
from skillopt_mcp.core.judging import Score
from skillopt_mcp.core.limits import KIB
from skillopt_mcp.core.mining import Draft
from skillopt_mcp.core.redacting import redact
from skillopt_mcp.core.results import TasksAdded
from skillopt_mcp.core.tasks import Task, describe_hosts_own
from skillopt_mcp.core.text import counted, quoted
from skillopt_mcp.documents.frontmatter import read
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.drafts import find_faults, group_variants
from skillopt_mcp.tasks.formats.rows import parse_task
from skillopt_mcp.tasks.judges.checking import passes
from skillopt_mcp.tasks.judges.kinds.command import unregistered
from skillopt_mcp.workspace.linting import run_git
from skillopt_mcp.workspace.place import Place

MAX_COMMITS, _MAX_TAGS = 2_000, 240
_MAX_FILES, _MAX_BYTES, _MAX_CHARS, _MAX_LISTED, _MAX_ORIGIN, _TRIES = 60, 256 * KIB, 24_000, 20, 200, 4
_GONE, _REGULAR = "000000", "100"  # modes of git
# A change on which nothing depends: programs may take no answer for a failure of their own.
_NO_CHANGE = "--- /dev/null\n+++ b/unrelated.txt\n@@ -0,0 +1 @@\n+unrelated\n"
_NAME, _NO_TEXT = re.compile(r"\w{2,80}"), re.compile(r"\+\+\+ |\+\[[^\]]{1,80}\]: ")
_MIN_FACTS = 2  # besides the version; with fewer, lines are judged by a model
_CHANGELOG = re.compile(r"(?:.*/)?(?:changelog|changes|history|news|release[-_]?notes)(?:\.\w{1,8})?", re.IGNORECASE)
_RELEASE_WORDS = frozenset(["changelog", "changelogs", "changes", "history", "news", "release", "releases", "released"])
_TEST = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__)/|(?:^|/)test_[^/]*$|[._-](?:test|spec)\.\w{1,8}$", re.IGNORECASE
)
_VERSION = re.compile(r"\d{1,9}(?:\.\d{1,9}){1,5}[\w.+-]{0,40}")
_TOKEN = re.compile(r"[^\s`'\"()\[\]{},;<>*|]{2,80}")
_IS_FACT = re.compile(r"\d|_|\w\.\w|^--|[a-z][A-Z]")
_WORD = re.compile(r"[^\W\d_]{4,40}")
_PATH = re.compile(r"[\w.-]{0,80}[/.][\w./-]{1,200}")
_COMMON = re.compile(
    "about|after|also|before|both|code|each|files?|from|have|into|make|more|only|other|skills?|tasks?|than|that|the.{1,2}|"
    "this|those|used?|users?|using|wants?|what|when|where|which|with|works?|writ.{1,3}|yours?|[wc]ould|should|must|will"
)
_KIND, _TRAILER = re.compile(r"\w{2,12}(?:\([^)\n]{0,40}\))?!?:"), re.compile(r"^[\w-]{2,40}-by: .*$", re.MULTILINE)
# What a test runner reads of the folders around a test.
_SETUP = re.compile(
    r"(?:__init__|conftest)\.py|(?:pyproject|cargo)\.toml|pytest\.ini|setup\.cfg|(?:package|tsconfig)\.json|go\.mod|makefile"
)


class Commit(NamedTuple):
    """A commit that is no merge, and the files that it changes, by path, as (mode, blob) after it."""

    sha: str
    message: str
    changed: Mapping[str, tuple[str, str]]


def mine_commits(store: Store, place: Place, plan: MiningPlan, repository: Path, program: str) -> TasksAdded:
    """Add the tasks of a repository's commits that pass the checks of drafts; no model is asked.

    Raises BadInput where git cannot read the repository, or the `program` for tests ("" for none) is not registered.
    """
    named = store.commands.find_named([program] if program else [])
    if program and (program not in named or named[program].unattended):
        raise BadInput(unregistered(program))
    text = store.skills.get_files(plan.skill.id, plan.skill.live_version).main.decode("utf-8", "replace")
    found = list(read_commits(repository, text, plan.mining.since, plan.mining.n_tasks, named.get(program)))
    drafts = {n: each for n, each in enumerate(found) if isinstance(each, Draft)}
    faults = find_faults(drafts, {}, named, place.secrets)
    usable = {n: each for n, each in drafts.items() if n not in faults}
    grouped, near = group_variants(usable, store.tasks.list_tasks(plan.skill.id))
    dropped = [each for each in found if isinstance(each, str)]
    dropped += [f"{drafts[n].origin}: {fault}" for n, fault in (faults | near).items()]
    return add_drafts(store, place, plan, list(grouped.values()), dropped, ())


def mine_own_repository(store: Store, place: Place, name: str) -> TasksAdded:
    """`mine_commits` of the repository that a skill lies in; no test is run."""
    plan = plan_mining(store, place, name, Mining(("repo",)))
    path = Path(plan.skill.path)
    return mine_commits(store, place, plan, path if path.is_dir() else path.parent, "")


def read_commits(
    repository: Path, skill_text: str, since: str, limit: int, program: RegisteredCommand | None = None
) -> Iterator[Draft | str]:
    """Yield up to `limit` drafts that fit a skill's description, and as texts what was left out, and why.

    `since`: a date in ISO 8601, "" for all. Commits with tests need the `program` that a person registered: it
    has to fail the parent, and to pass the commit. Raises BadInput where git cannot read the repository, BackendError
    where the program cannot be run.
    """
    # Paths of commits are those from the root.
    repository /= _ask(repository, "rev-parse", "--show-cdup").decode().strip()
    if _ask(repository, "rev-parse", "--is-shallow-repository").strip() == b"true":
        yield "the clone is shallow: what came before is not read (git fetch --unshallow brings it)"
    try:  # git itself takes any words for a date
        bounds = [f"--since=@{datetime.fromisoformat(since).timestamp():.0f}"] if since else []
    except (ValueError, OverflowError) as error:
        raise BadInput(f"--since must be a date such as 2026-11-01, got {quoted(since, 80)}") from error
    order = _ask(repository, "rev-list", f"--max-count={MAX_COMMITS}", *bounds, "HEAD").decode().split()
    if not order:
        yield f"no commit is from {quoted(since, 80)} or later"
        return
    if len(order) == MAX_COMMITS:
        yield f"only the newest {MAX_COMMITS:,} commits were read"
    commits = _list_commits(repository, order)
    front = read(skill_text.encode("utf-8", "surrogatepass"))
    named = ((front and front.description) or skill_text)[:_MAX_CHARS].lower()
    words = {word for word in _WORD.findall(named) if not _COMMON.fullmatch(word)}
    paths = tuple(each.strip(".") for each in _PATH.findall(named))
    n_made = 0
    if words & _RELEASE_WORDS or any(map(_CHANGELOG.fullmatch, paths)):
        for found in _read_releases(repository, order, commits, needs_example="```" not in skill_text):
            n_made += isinstance(found, Draft)
            yield found
            if n_made == limit:
                return
    else:
        yield "releases were left out: the skill's description names neither a changelog nor a release"
    ranked = list[tuple[int, int, Commit]]()
    for commit in commits.values():
        title = f"{commit.message.partition(chr(10))[0]} {' '.join(commit.changed)}".lower()
        n_fit = len(words.intersection(_WORD.findall(title)))
        n_fit += sum(path.lower().startswith(paths) or path.lower().endswith(paths) for path in commit.changed)
        kinds = {bool(_TEST.search(path)) for path, (mode, _) in commit.changed.items() if mode != _GONE}
        if n_fit and kinds == {True, False}:
            ranked.append((-n_fit, len(ranked), commit))
    if ranked and program is None:
        yield f"{counted(len(ranked), 'commit')} with tests were left out: no registered program was named to run them"
    for _, _, commit in sorted(ranked)[: _TRIES * limit]:
        if program is None or n_made == limit:
            return
        try:
            yield _draft_change(repository, commit, program)
            n_made += 1
        except BadInput as error:
            yield f"commit {commit.sha[:12]}: {error}"


def _list_commits(repository: Path, order: Sequence[str]) -> dict[str, Commit]:
    """The commits of these ids, by id, without merges."""
    options = ("--stdin", "-r", "--always", "--no-renames", "--raw", "-z", "--format=%x01%H%n%B")
    found = dict[str, Commit]()
    for part in _ask(repository, "diff-tree", *options, stdin="\n".join(order).encode()).split(b"\x01")[1:]:
        head, *rows = part.decode("utf-8", "replace").split("\0")
        sha, _, message = head.partition("\n")
        changed = {path: (row.split()[1], row.split()[3]) for row, path in zip(rows[::2], rows[1::2], strict=False)}
        found[sha] = Commit(sha, _TRAILER.sub("", redact(message)).strip(), changed)
    return found


def _read_releases(
    repository: Path, order: Sequence[str], commits: Mapping[str, Commit], *, needs_example: bool
) -> Iterator[Draft | str]:
    """Yield a draft of each tag's commits and what was added to the changelog, the newest first.

    The oldest is the example in all others where there has to be one: so no task shows another's answer.
    """
    form = "--format=%(refname:strip=2)%00%(objectname)%00%(*objectname)"
    tags = dict[str, str]()
    listed = _ask(repository, "for-each-ref", "--merged=HEAD", form, "refs/tags").decode("utf-8", "replace")
    for line in listed.split("\n")[:-1]:
        name, sha, peeled = line.split("\0")
        tags.setdefault(peeled or sha, name)
    known = [sha for sha in order if sha in tags]
    if len(known) < 2:
        yield f"releases were left out: {counted(len(known), 'tag')} among the commits that were read; it takes two"
        return
    pairs, example = list(pairwise(known)), ""
    if needs_example and len(pairs) > 1:
        example = "\n".join(_list_added(repository, *pairs.pop()))[: _MAX_CHARS // 4]
    for new, old in pairs[:_MAX_TAGS]:
        try:
            inside = _ask(repository, "rev-list", "--no-merges", new, f"^{old}").decode().split()
            messages = [commits[sha].message for sha in inside if sha in commits]
            yield _draft_release(tags[new], messages, _list_added(repository, new, old), example)
        except BadInput as error:
            yield f"tag {quoted(tags[new], 80)}: {error}"


def _list_added(repository: Path, new: str, old: str) -> list[str]:
    """The lines that a commit has and an older one lacks in the changelog nearest to the root."""
    names = _ask(repository, "diff-tree", "-r", "--name-only", "--no-renames", "-z", old, new)
    logs = filter(_CHANGELOG.fullmatch, names.decode("utf-8", "replace").split("\0"))
    path = min(logs, key=lambda each: (each.count("/"), each), default="")
    lines = redact(_diff(repository, old, new, [path], "-U0")).split("\n") if path else []
    return [line[1:].rstrip() for line in lines if line.startswith("+") and not _NO_TEXT.match(line)]


def _draft_release(tag: str, messages: Sequence[str], lines: Sequence[str], example: str) -> Draft:
    """The draft of a release. Raises BadInput where nothing can be judged."""
    section = "\n".join(lines).strip()
    points = [line.strip(" -*+") for line in lines if line.strip(" -*+=") and not line.startswith("#")]
    if not (messages and points and len(section) <= _MAX_CHARS):
        why = f"its section has more than {_MAX_CHARS:,} characters" if points else "nothing was added to a changelog"
        raise BadInput(why if messages else "no commit since the tag before")
    version = (_VERSION.search(tag) or [tag])[0]
    listed = "\n".join(f"- {each[:600]}".replace("\n", "\n  ") for each in messages)[:_MAX_CHARS]
    prompt = f"Write the changelog's section for version {version} of these commits, and nothing else:\n\n{listed}\n"
    prompt += f"\nAn earlier section, for its form:\n\n{example}\n" if example else ""
    said, omitted = section.lower(), dict[str, None]()
    facts = [each for each in dict.fromkeys([version, *_list_facts(listed)]) if each.lower() in said]
    for subject in (each.partition("\n")[0] for each in messages):
        own, words = _list_facts(subject), set(_WORD.findall(subject.lower()))
        if not any(each.lower() in said for each in own) and 3 * sum(word in said for word in words) < len(words):
            omitted |= dict.fromkeys(each for each in own if each.lower() not in example.lower())  # as the person did
        if (kind := _KIND.match(subject)) and kind[0].lower() not in said:
            omitted[kind[0]] = None
    judges: list[dict[str, object]] = [{"kind": "contains", "expected": facts[:_MAX_LISTED]}] if facts else []
    names = "|".join(re.sub(r"([^\w\s#:-])", r"\\\1", each) for each in list(omitted)[:_MAX_LISTED])
    pattern = {"kind": "js_regex", "pattern": rf"(^|\W)({names})($|\W)", "flags": "i", "match": "not_contains"}
    row = {"prompt": prompt, "judge": {"kind": "all", "judges": [*judges, pattern]}, "tags": ["release"]}
    task = parse_task(row)
    if not omitted or len(facts) <= _MIN_FACTS or passes(task.judge, prompt) or not passes(task.judge, section):
        stated = [f"It says: {each[:400]}" for each in points[:_MAX_LISTED]]
        task = parse_task({**row, "judge": {"kind": "all", "judges": [*judges, {"kind": "rubric", "points": stated}]}})
    return Draft(task, "repo", f"tag {tag}"[:_MAX_ORIGIN], section)


def _draft_change(repository: Path, commit: Commit, program: RegisteredCommand) -> Draft:
    """The draft of a commit whose tests fail without the rest of its change. Raises BadInput."""
    parent, tree = f"{commit.sha}^", dict[str, tuple[str, str]]()
    listed = _ask(repository, "ls-tree", "-r", "-z", "--full-tree", parent).decode("utf-8", "replace")
    for entry in listed.split("\0")[:-1]:
        kind, _, path = entry.partition("\t")
        mode, _, blob = kind.split()
        tree[path] = (mode, blob)
    tests = {path: entry for path, entry in commit.changed.items() if _TEST.search(path)}
    tree = {path: entry for path, entry in (tree | tests).items() if entry[0] != _GONE}
    changed = [path for path in commit.changed if path not in tests]
    needed = [path for path in commit.changed if path in tree]
    folders = {str(each) for path in commit.changed for each in PurePosixPath(path).parents}
    named, endings = defaultdict[str, list[str]](list), {PurePosixPath(path).suffix for path in commit.changed}
    wanted, files, n_bytes = dict.fromkeys(needed), dict[str, str | None](), 0
    for pure in map(PurePosixPath, tree):
        if _SETUP.fullmatch(pure.name.lower()) and str(pure.parent) in folders:
            wanted[str(pure)] = None
        elif pure.suffix in endings:
            named[pure.stem].append(str(pure))
    while path := next(iter(wanted), ""):
        del wanted[path]
        mode, blob = tree[path]
        size = int(_ask(repository, "cat-file", "-s", blob)) if mode.startswith(_REGULAR) else 0
        n_bytes += size
        if len(files) == _MAX_FILES or n_bytes > _MAX_BYTES:
            raise BadInput(f"its tests need more than {_MAX_FILES} files or {_MAX_BYTES // KIB} KiB")
        content = _ask(repository, "cat-file", "blob", blob) if mode.startswith(_REGULAR) else b"\0"
        text = content.decode("utf-8", "replace").replace("\0", "\ufffd")
        is_taken = text.encode() == content and not describe_hosts_own(path)
        if path in needed and not is_taken:
            raise BadInput(f"{quoted(path, 80)} is no text file that a task may have")
        files[path] = text if is_taken else None
        # What a file names comes along, such as what it imports.
        words = named.keys() & set(_NAME.findall(files[path] or ""))
        wanted |= dict.fromkeys(other for word in sorted(words) for other in named[word] if other not in files)
    patch = _diff(repository, parent, commit.sha, changed)
    if len(patch) > _MAX_CHARS or "\nBinary files " in patch:
        raise BadInput(f"its change is not of text, or has more than {_MAX_CHARS:,} characters")
    prompt = (
        f"Make this change to the files here:\n\n{commit.message[: _MAX_CHARS // 4]}\n\nThese tests have to pass, and "
        f"stay as they are: {', '.join(sorted(tests.keys() & tree.keys()))}. Answer with the change alone, as one "
        "unified diff (see `git diff`)."
    )
    judge = {"kind": "command", "name": program.name}
    taken = {path: text for path, text in files.items() if text is not None}
    task = parse_task({"prompt": prompt, "judge": judge, "tags": ["tests"], "files": taken})
    stored = Task(0, 0, "", task.prompt, task.judge, "train", task.digest, files=task.files)
    tried = [Attempted(stored, text, (), f"commit/{n}") for n, text in enumerate((_NO_CHANGE, patch))]
    before, after = run_programs(CommandRunner({program.name: program}), tried)
    if lost := next((each for each in (before, after) if not isinstance(each, Score)), None):
        raise BadInput(f"its tests could not be run: {lost.reason}")
    if isinstance(before, Score) and before.hard:
        raise BadInput("its tests pass without its change")
    if not (isinstance(after, Score) and after.hard):
        raise BadInput(f"its tests fail with its change: {after.reason[:300]}")
    return Draft(task, "repo", f"commit {commit.sha[:12]}", patch)


def _list_facts(text: str) -> list[str]:
    """The numbers and names in a text: versions, tickets, flags, identifiers."""
    found = (token.strip(".:!?") for token in _TOKEN.findall(text))
    return list(dict.fromkeys(each for each in found if len(each) > 1 and _IS_FACT.search(each)))


def _diff(repository: Path, old: str, new: str, paths: Iterable[str], *options: str) -> str:
    """The difference of two commits in these paths, of UTF-8 text."""
    fixed = ("--no-ext-diff", "--no-textconv", "--no-renames", "--no-color", *options)
    done = _ask(repository, "--literal-pathspecs", "diff-tree", "-r", "-p", *fixed, old, new, "--", *paths)
    return done.decode("utf-8", "replace")


def _ask(repository: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """The output of git. Raises BadInput where it fails, with its reason."""
    try:
        done = run_git(repository, *arguments, stdin=stdin)
    except (OSError, subprocess.SubprocessError) as error:
        raise BadInput(f"git cannot read {quoted(str(repository), 300)}: {error}") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise BadInput(f"git cannot read {quoted(str(repository), 300)}: {quoted(said, 300)}")
    return done.stdout
