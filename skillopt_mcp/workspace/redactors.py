"""Redactors: what takes the secrets that a process knows out of what a store keeps."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from skillopt_mcp.core.errors import StoreError
from skillopt_mcp.core.redacting import KnownSecrets, Redactor

SALT_BYTES = 32


def open_redactor(store_path: Path, known: KnownSecrets) -> Redactor:
    """The redactor of a store; its salt is kept next to the store, so that placeholders stay the same.

    Raises StoreError when the salt can neither be read nor made.
    """
    path = store_path.with_name(f"{store_path.name}.salt")
    try:
        if not path.exists():  # the first process makes it
            own = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
            with open(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secrets.token_bytes(SALT_BYTES))
            try:
                os.link(own, path)
            except FileExistsError:
                pass
            finally:
                own.unlink()
        return Redactor(path.read_bytes(), known)
    except OSError as error:
        raise StoreError(f"'{path}' cannot be made ({error.strerror}): check the folder's permissions") from error
