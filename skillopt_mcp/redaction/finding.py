"""Finding: all secrets of a text, wherever escapes hide them, none twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import re2

from skillopt_mcp.redaction import chance
from skillopt_mcp.redaction.contexts import CONTEXT_SIGN, find_contexts
from skillopt_mcp.redaction.known import NOTHING_KNOWN, KnownSecrets
from skillopt_mcp.redaction.mnemonics import find_mnemonics
from skillopt_mcp.redaction.shapes import LATIN1, PRIVATE_KEY, SHAPE_SIGN, Found, Pattern, find_shapes
from skillopt_mcp.redaction.views import View, views

Look = Callable[[bytes], Iterable[Found]]
# Most texts hold none of it: they are read once, where each way to look would read them once more. It may take several
# times as long on a long text without words, so only a shorter one is read for it.
_SIGN: Pattern = re2.compile(f"{SHAPE_SIGN}|{PRIVATE_KEY.decode()}|(?:{CONTEXT_SIGN})".encode(), LATIN1)
_SHORT = 131_072


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret of a text: from where to where it stands, in bytes, its kind, and its value without escapes."""

    start: int
    end: int
    kind: str
    value: bytes


def find_secrets(text: bytes, known: KnownSecrets = NOTHING_KNOWN) -> list[Secret]:
    """Return the secrets of a text in order; what is learned by a name is found again where it stands without."""
    seen = views(text)
    secrets = _apart(_all_found(seen, lambda text: _looks(text, known)))
    if not secrets:
        return []
    learned = KnownSecrets({each.value: each.kind for each in secrets if _is_telling(each)})
    return _apart([*secrets, *_all_found(seen, lambda _: (learned.find,))]) if len(learned) else secrets


def _looks(text: bytes, known: KnownSecrets) -> tuple[Look, ...]:
    """Return the ways to look at a text that may find something. A sign is known in ASCII alone."""
    if len(text) <= _SHORT and text.isascii() and not _SIGN.search(text):
        return known.find, find_mnemonics
    return known.find, find_shapes, find_contexts, find_mnemonics


def _all_found(seen: list[View], looks: Callable[[bytes], tuple[Look, ...]]) -> Iterator[Secret]:
    for view in seen:
        for look in looks(view.text):
            for found in look(view.text):
                start, end = view.origin(found.start, found.end)
                yield Secret(start, end, found.kind, view.text[found.start : found.end])


def _apart(secrets: Iterable[Secret]) -> list[Secret]:
    """Return secrets in order; of those that overlap, the longest and first found one, over all that they cover."""
    apart: list[Secret] = []
    for each in sorted(secrets, key=lambda secret: secret.start):
        if not apart or each.start >= apart[-1].end:
            apart.append(each)
            continue
        last = apart[-1]
        widest = each if each.end - each.start > last.end - last.start else last
        apart[-1] = replace(widest, start=last.start, end=max(last.end, each.end))
    return apart


def _is_telling(secret: Secret) -> bool:
    """Return whether a secret that showed by its context alone can be known again without it."""
    by_context = secret.kind in ("password", "credential", "cookie", "url-password")
    return by_context and (chance.is_password(secret.value) or chance.is_random(secret.value, 8))
