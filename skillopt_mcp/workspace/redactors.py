"""Redactors: the secrets that a process knows, and what takes them out of what a store keeps."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from skillopt_mcp.core.errors import StoreError
from skillopt_mcp.core.redacting import KnownSecrets, Redactor, known_secrets

SALT_BYTES = 32
LARGEST_FILE_BYTES = 64 * 1024
CREDENTIAL_FILES = (
    ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".npmrc", ".pypirc", ".git-credentials",
    ".docker/config.json", ".pgpass", ".codex/auth.json", ".claude/.credentials.json",
)  # fmt: skip


def known_here(environ: Mapping[str, str]) -> KnownSecrets:
    """Return the secrets that this process knows itself: of its environment, and of the user's credential files."""
    return known_secrets(environ, _credential_files(Path(os.path.expanduser("~"))))


def open_redactor(store_path: Path, known: KnownSecrets) -> Redactor:
    """Return the redactor of a store; its salt is kept next to the store, so that placeholders stay the same.

    Raises StoreError when the salt can neither be read nor made.
    """
    path = store_path.with_name(f"{store_path.name}.salt")
    try:
        salt = _salt(path)
    except OSError as error:
        raise StoreError(f"'{path}' cannot be made ({error.strerror}): check the folder's permissions") from error
    return Redactor(salt, known)


def _salt(path: Path) -> bytes:
    """Return the salt in the file, made by the first process."""
    if not path.exists():
        own = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        with open(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(SALT_BYTES))
        try:
            os.link(own, path)
        except FileExistsError:
            pass
        finally:
            own.unlink()
    return path.read_bytes()


def _credential_files(home: Path) -> Iterator[str]:
    for name in CREDENTIAL_FILES:
        try:
            status = (home / name).stat()
            if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST_FILE_BYTES:
                yield (home / name).read_text("utf-8", "replace")
        except OSError:
            continue  # not there, or not ours to read: then nothing of it is in a transcript either
