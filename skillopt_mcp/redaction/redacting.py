"""Redacting: texts with a placeholder where a secret stood, the same for the same secret."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from skillopt_mcp.records.calls import Message
from skillopt_mcp.redaction.finding import Secret, find_secrets
from skillopt_mcp.redaction.known import NOTHING_KNOWN, KnownSecrets

# Nothing that is looked for goes on over it, so texts that stand around it are read at once and apart.
_BETWEEN = "\n\0\n"


@dataclass(frozen=True, slots=True)
class Redactor:
    """Replaces secrets by "[redacted:KIND:ID]"; without `salt` nobody can make the id, four hex digits, of a guess.

    What stands in an `allowed` text is left: a task may be about a value that looks like a secret.
    """

    salt: bytes = b""
    known: KnownSecrets = NOTHING_KNOWN

    def text(self, text: str, allowed: str = "") -> str:
        """Return a text without secrets; where there is none it is returned unchanged."""
        raw = text.encode("utf-8", "surrogatepass")
        secrets = find_secrets(raw, self.known)
        if allowed and secrets:
            left = allowed.encode("utf-8", "surrogatepass")
            secrets = [secret for secret in secrets if secret.value not in left]
        return self._replaced(raw, secrets).decode("utf-8", "surrogatepass") if secrets else text

    def texts(self, texts: Sequence[str], allowed: str = "") -> list[str]:
        """Return several texts without secrets; what one of them tells by a name is known in all."""
        joined = _BETWEEN.join(texts)
        told = self.text(joined, allowed)
        if told is joined:
            return list(texts)
        redacted = told.split(_BETWEEN)
        return redacted if len(redacted) == len(texts) else [self.text(text, allowed) for text in texts]

    def messages(self, messages: Sequence[Message], allowed: str = "") -> tuple[Message, ...]:
        """Return messages without secrets in what they say."""
        contents = self.texts([message.content for message in messages], allowed) if messages else []
        told = zip(messages, contents, strict=True)
        return tuple(message._replace(content=content) for message, content in told)

    def json(self, value: JsonValue) -> JsonValue:
        """Return a decoded JSON value without secrets in its texts; the name of a field tells what its value is."""
        written = to_json(value)
        try:
            redacted: JsonValue = from_json(self.text(written.decode()))
        except ValueError:  # a secret that seems to reach over the end of its text: each text is looked at by itself
            return self._apart(value, written)
        return redacted

    def _apart(self, value: JsonValue, written: bytes) -> JsonValue:
        """Return a value whose parts are redacted apart; a text that none can be made of is replaced whole."""
        if isinstance(value, list):
            return [self.json(each) for each in value]
        if not isinstance(value, dict):
            return self._placeholder(Secret(0, len(written), "credential", written)).decode()
        if len(value) > 1:
            return {name: each for pair in value.items() for name, each in self._pair(*pair)}
        return {name: self._apart(each, to_json(each)) for name, each in value.items()}

    def _pair(self, name: str, value: JsonValue) -> list[tuple[str, JsonValue]]:
        redacted = self.json({name: value})
        return list(redacted.items()) if isinstance(redacted, dict) else []

    def _replaced(self, raw: bytes, secrets: Sequence[Secret]) -> bytes:
        pieces: list[bytes] = []
        done = 0
        for secret in secrets:
            start, end = _whole_characters(raw, secret.start, secret.end)
            pieces += (raw[done:start], self._placeholder(secret))
            done = end
        return b"".join((*pieces, raw[done:]))

    def _placeholder(self, secret: Secret) -> bytes:
        digest = hashlib.blake2b(secret.value, digest_size=2, key=self.salt[: hashlib.blake2b.MAX_KEY_SIZE])
        return f"[redacted:{secret.kind}:{digest.hexdigest()}]".encode()


def _whole_characters(raw: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the bounds moved out of the middle of characters."""
    while start > 0 and raw[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(raw) and raw[end] & 0xC0 == 0x80:
        end += 1
    return start, end


def redact(text: str, known: KnownSecrets = NOTHING_KNOWN) -> str:
    """Return a text without secrets, each replaced by a placeholder that names its kind."""
    return Redactor(known=known).text(text)
