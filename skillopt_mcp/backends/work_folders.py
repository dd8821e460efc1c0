"""WorkFolders: the private folders in which a host does its work, wave by wave, and what it left there."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from skillopt_mcp.backends.agents.working_copy import Unusable, write_inside
from skillopt_mcp.backends.work import ORDER, TASK_FOLDER, HandedWork
from skillopt_mcp.core import limits
from skillopt_mcp.core.errors import BadInput, StoreError
from skillopt_mcp.prompts.rendering import fence

FOLDER_VARIABLE = "SKILLOPT_WORK"
# Install knows what it allowed in a folder of work by this name.
_ROOT = "skillopt-"
_DIGITS = 12
# The same for every file, so that no time shows which version is newer.
_TIME = 1_000_000_000
_STALE_S = 86_400.0
_SETTLED_S = 0.5
# Without O_NONBLOCK a pipe put in the place of a file would hang the server.
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class WorkFolders:
    """The folder of work of one store: a folder per wave in it, and one per lease in that."""

    def __init__(self, store_path: Path, environ: Mapping[str, str]) -> None:
        base = environ.get(FOLDER_VARIABLE)
        # Without links: a host holds what it allows in a folder against the path that they lead to, too.
        named = Path(os.path.realpath(os.path.expanduser(base))) if base else None
        outer = named or Path(os.path.realpath(tempfile.gettempdir())) / f"skillopt-work-{os.geteuid()}"
        # The same whenever and by whomever a store is used: what a host allows in its folder was written once.
        self.root = outer / f"{_ROOT}{hashlib.sha256(os.fsencode(store_path.resolve())).hexdigest()[:_DIGITS]}"

    def folder(self, lease_id: str) -> Path:
        """Return the folder of a lease, whether it is there or not: that of its wave, and its number in that."""
        wave, _, number = lease_id.rpartition("-")
        return self.root / wave / number

    def list_finished(self, needed: Mapping[str, Sequence[str]]) -> list[str]:
        """Those of the leases whose needed files are written, and have not changed for a moment."""

        def look() -> dict[str, list[tuple[int, int]]]:
            found = dict[str, list[tuple[int, int]]]()
            for lease_id, names in needed.items():
                with suppress(OSError):
                    states = [os.lstat(self.folder(lease_id) / name) for name in names]
                    if all(state.st_size for state in states):
                        found[lease_id] = [(state.st_size, state.st_mtime_ns) for state in states]
            return found

        before = look()
        newest = max((mtime for files in before.values() for _, mtime in files), default=0)
        if time.time() - newest / 1e9 > _SETTLED_S:
            return list(before)
        # An agent may be in the middle of writing.
        time.sleep(_SETTLED_S)
        after = look()
        return [lease_id for lease_id, files in before.items() if after.get(lease_id) == files]

    def make(self, lease_id: str, work: HandedWork) -> Path:
        """Return the new folder of a lease with all that belongs to the work. Raises StoreError, BadInput."""
        folder = self.folder(lease_id)
        try:
            self._make_folder(folder)
            (folder / TASK_FOLDER).mkdir()
            (folder / ORDER).write_bytes(work.order.encode("utf-8", "replace"))
            for file in work.files:
                write_inside(folder, file.path, file.content, executable=file.executable)
            for inner, folders, files in os.walk(folder):
                for name in (*folders, *files, "."):
                    os.utime(os.path.join(inner, name), (_TIME, _TIME))
        except Unusable as reason:
            self.remove([lease_id])
            raise BadInput(str(reason)) from None
        except OSError as error:
            self.remove([lease_id])
            raise StoreError(
                f"the work folder '{folder}' cannot be made ({error.strerror}): free or name a folder with "
                f"{FOLDER_VARIABLE}"
            ) from error
        return folder

    def _make_folder(self, folder: Path) -> None:
        for is_last in (False, False, True):
            _make_private(self.root.parent)
            try:
                _make_private(self.root)
                folder.parent.mkdir(mode=0o700, exist_ok=True)
                folder.mkdir(mode=0o700)
            except (FileNotFoundError, FileExistsError):
                # Another process removed the folder with the last work in it.
                if is_last:
                    raise
            else:
                return

    def read(self, lease_id: str, name: str) -> str | None:
        """Return a text that was left in a folder, None when there is none. Raises BadInput when it cannot be used."""
        try:
            opened = os.open(self.folder(lease_id) / name, _READING)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadInput(
                f"'{name}' of the work cannot be read ({error.strerror}): write it as a plain file"
            ) from None
        with open(opened, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise BadInput(f"'{name}' of the work is not a plain file: write it as one")
            content = file.read(limits.TRAJECTORY_CHARACTERS + 1)
        if len(content) > limits.TRAJECTORY_CHARACTERS:
            raise BadInput(
                f"'{name}' of the work has more than {limits.TRAJECTORY_CHARACTERS:,} bytes: make it shorter"
            )
        return content.decode("utf-8", "replace")

    def text(self, lease_id: str) -> str:
        """Return all that lies in a folder as one text, the order first. Raises StoreError when it is gone."""
        folder = self.folder(lease_id)
        paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        if folder / ORDER not in paths:
            raise StoreError(f"the work folder '{folder}' is gone: take the work again, with submit_work")
        paths.sort(key=lambda path: path != folder / ORDER)
        return "\n\n".join(f"## {path.relative_to(folder)}\n\n{fence(_content(path))}" for path in paths)

    def remove(self, lease_ids: Iterable[str]) -> None:
        """Remove the folders of these leases, as far as they are there, and the one around them with the last."""
        for lease_id in lease_ids:
            folder = self.folder(lease_id)
            with suppress(OSError):
                shutil.rmtree(folder)
            with suppress(OSError):
                folder.parent.rmdir()
        # Not its parent: another user of the machine could take its place.
        with suppress(OSError):
            self.root.rmdir()

    def stale(self) -> list[str]:
        """Return the leases of this store whose folders are a day older than the last change of the one around them."""
        found = list[str]()
        with suppress(OSError), os.scandir(self.root) as waves:
            oldest = os.stat(self.root).st_ctime - _STALE_S
            for wave in [each for each in waves if each.name.startswith("w-")]:
                with suppress(OSError), os.scandir(wave) as folders:
                    old = [each for each in folders if each.stat(follow_symlinks=False).st_ctime < oldest]
                    found += [f"{wave.name}-{each.name}" for each in old]
        return found


def _content(path: Path) -> str:
    with suppress(OSError), open(os.open(path, _READING), "rb") as file:
        return file.read(limits.FILE_BYTES).decode("utf-8", "replace")
    return "(it cannot be read)"


def _make_private(folder: Path) -> None:
    """Make a folder that only this user can open. Raises StoreError when another one has taken its place."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise StoreError(
            f"'{folder}' is not a folder of this user's alone: remove it, or name one with {FOLDER_VARIABLE}"
        )
