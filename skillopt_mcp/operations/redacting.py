"""Redacting: the redactor of a store, which knows what this process and its user's credential files hold."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic_core import to_json

from skillopt_mcp.errors import StoreError
from skillopt_mcp.records.histories import LINE, AnyLine
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.redaction.known import KnownSecrets, known_secrets
from skillopt_mcp.redaction.redacting import Redactor

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
    """Return the redactor of a store; its salt lies beside the store, so that a secret's placeholder stays the same.

    Raises StoreError when the salt can neither be read nor made.
    """
    path = store_path.with_name(f"{store_path.name}.salt")
    try:
        salt = _salt(path)
    except OSError as error:
        raise StoreError(f"'{path}' cannot be made ({error.strerror}): check the folder's permissions") from error
    return Redactor(salt, known)


def redacted_line(redactor: Redactor, line: AnyLine) -> AnyLine:
    """Return a line of a history without secrets; one that is none any more then is a fault of the redactor."""
    plain = line.model_dump_json()
    if redactor.text(plain) is plain:
        return line
    return LINE.validate_json(to_json(redactor.json(line.model_dump(mode="json"))))


def holds_secret(redactor: Redactor, files: SkillFiles) -> bool:
    """Return whether a secret seems to stand in a version's files, or names: they are what cannot be redacted."""
    texts = (text for file in files.files for text in (file.path, file.content.decode("utf-8", "surrogateescape")))
    return any(redactor.text(text) != text for text in texts)


def _salt(path: Path) -> bytes:
    """Return the salt in the file, which is made by whoever comes first."""
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
