"""Places: the private folder of one command line, and the variables that it is started with."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from pydantic import JsonValue

PREFIX = "skillopt-agent-"


class FolderPaths:
    """The paths in a private folder.

    `work`, where the command line runs, lies in what looks like a `repository`: hosts look for instructions and skills
    no higher up. `home` is for settings and state; `prompt`, `output` and `errors` are its standard streams.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.repository = folder, folder / "repository"
        self.work, self.home, self.tmp = self.repository / "work", folder / "home", folder / "tmp"
        self.prompt, self.output, self.errors = folder / "prompt.txt", folder / "output.jsonl", folder / "errors.txt"


@contextmanager
def private_place() -> Iterator[FolderPaths]:
    """Enter with a new place that only this user can open; it is removed at the end, whatever lies in it then."""
    lock = None
    while lock is None:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = _lock(folder)
    try:
        place = FolderPaths(folder)
        git = place.repository / ".git"
        for path in (place.work, place.home, place.tmp, git / "objects", git / "refs"):
            path.mkdir(parents=True)
        (git / "HEAD").write_text("ref: refs/heads/main\n")
        yield place
    finally:
        _remove(folder)
        os.close(lock)


def sweep_places() -> None:
    """Remove the places of this user whose processes died: the lock of a place dies with its process."""
    with os.scandir(tempfile.gettempdir()) as entries:
        found = [Path(entry.path) for entry in entries if entry.name.startswith(PREFIX)]
    for folder in found:
        lock = _lock(folder)
        if lock is not None:
            _remove(folder)
            os.close(lock)


def _lock(folder: Path) -> int | None:
    """Return the held lock of a folder; None when another process holds it, it is not ours, or it is gone."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held = os.fstat(opened)
        # A sweep may have come between the making and the locking of a place.
        if held.st_uid == os.geteuid() and os.path.samestat(held, os.lstat(folder)):
            return opened
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.ENOENT):
            os.close(opened)
            raise
    os.close(opened)
    return None


def _remove(folder: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(folder)
        return
    # What ran in there may have taken away the right to write in its folders.
    for inner, folders, _ in os.walk(folder):
        for name in ("", *folders):
            path = os.path.join(inner, name)
            with suppress(OSError):
                if stat.S_ISDIR(os.lstat(path).st_mode):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


_COMMON = re.compile(
    r"PATH|LANG|LANGUAGE|LC_[A-Z]+|TZ|USER|LOGNAME|SHELL|(?:HTTP|HTTPS|NO|ALL)_PROXY|(?:http|https|no|all)_proxy"
    r"|SSL_CERT_FILE|SSL_CERT_DIR|NODE_EXTRA_CA_CERTS|REQUESTS_CA_BUNDLE|SYSTEM_VERSION_COMPAT|__CF_USER_TEXT_ENCODING"
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|HEADERS|CREDENTIAL")
_SECRET_CHARACTERS = 8
_TOKEN_CHARACTERS = 20


def pick_variables(environ: Mapping[str, str], more: str, place: FolderPaths) -> dict[str, str]:
    """Return the variables that are passed on: the common ones, and those that the pattern `more` matches whole."""
    wanted = re.compile(more)
    kept = {name: value for name, value in environ.items() if _COMMON.fullmatch(name) or wanted.fullmatch(name)}
    return {**kept, "TERM": "dumb", "TMPDIR": str(place.tmp)}


MADE_UP_KEY = "sk-made-up-for-a-server-on-loopback"


def make_variables(program: str, place: FolderPaths) -> dict[str, str]:
    """The variables of a load check: none of the person's, and what finds the program's own interpreter."""
    folders = [os.path.dirname(os.path.realpath(path)) for path in (program, shutil.which("node") or "") if path]
    path = ":".join([os.path.dirname(program), *folders, "/usr/local/bin", "/usr/bin", "/bin"])
    return {
        "PATH": path, "HOME": str(place.home), "LANG": "C.UTF-8", "TERM": "dumb", "TMPDIR": str(place.tmp),
        "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
    }  # fmt: skip


def current_model(path: Path, parse: Callable[[str], object]) -> str:
    """Return the `model` that a person chose in a program's own settings, "" where it is left to the program."""
    try:
        model = cast(dict[str, object], parse(path.read_text("utf-8"))).get("model")
    except (OSError, ValueError, AttributeError):
        return ""
    return model if isinstance(model, str) else ""


def secrets_of(environ: Mapping[str, str], files: Iterable[Path]) -> dict[str, str]:
    """Return the names of secrets by value: those in the environment, and the tokens in a host's own files."""
    found = {
        value: name
        for name, value in environ.items()
        if _SECRET.search(name.upper()) and len(value) >= _SECRET_CHARACTERS and not value.startswith("/")
    }
    for path in files:
        try:
            content: JsonValue = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        found |= {token: path.stem.strip(".").upper() for token in _texts(content) if len(token) >= _TOKEN_CHARACTERS}
    # A secret that holds another one goes first.
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def _texts(value: JsonValue) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
