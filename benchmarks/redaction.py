"""Redaction: how many planted secrets are found, how much ordinary text is changed, and how fast.

    python benchmarks/redaction.py [--json] [--seed N]

Tokens: 85 forms of 2026, standing alone, next to ids, digests and encoded data that have to stay. Ordinary text: the
documents, prompts and skill of this project, the standard library's source, source and documents of the packages
installed here, and what the system has in /usr/share/doc.
"""

from __future__ import annotations

import gzip
import itertools
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.doors import parser, show
from benchmarks.planted import KINDS, PLACES, TOKEN_FORMS, ids, planted, shapes, tokens
from skillopt_mcp.core.redacting import Redactor

TARGETS = {"found": 0.95, "prose_changed": 0.00001, "mb_per_s": 20.0}
PROJECT = Path(__file__).resolve().parents[1]
_DOCUMENTS = ("METADATA", ".md", ".rst", ".txt", ".py")
MOST_BYTES = 200_000_000
_REDACTOR = Redactor(b"benchmark")


def found(seed: int) -> tuple[float, Counter[str], Counter[str]]:
    """Return the share of planted secrets of which no half is left, and the misses by kind and by place."""
    by_kind: Counter[str] = Counter()
    by_place: Counter[str] = Counter()
    plants = list(planted(seed))
    for plant in plants:
        redacted = _REDACTOR.text(plant.text)
        if any(form in redacted for form in plant.forms):
            by_kind[plant.kind] += 1
            by_place[plant.place] += 1
    return 1 - by_kind.total() / len(plants), by_kind, by_place


def secrets(seed: int = 0, most_bytes: int = MOST_BYTES) -> dict[str, float]:
    """Return how many shapes of secrets there are, of how many no 8 characters are left, and the share of lines changed
    in ordinary text."""
    plants = list(shapes(seed))
    left = [plant for plant in plants if any(form in _REDACTOR.text(plant.text) for form in plant.forms)]
    return {
        "n": len(plants),
        "found": len(plants) - len(left),
        "prose_changed": changed(most_bytes)["prose_changed"],
    }


def alone(n_seeds: int = 20) -> dict[str, object]:
    """Return of how many forms of tokens, standing alone, fewer than half are missed, the share found, and how many
    ids changed."""
    missed: Counter[str] = Counter()
    for plant in itertools.chain.from_iterable(map(tokens, range(n_seeds))):
        missed[plant.kind] += any(form in _REDACTOR.text(plant.text) for form in plant.forms)
    texts = list(itertools.chain.from_iterable(map(ids, range(n_seeds))))
    return {
        "token_forms": len(TOKEN_FORMS),
        "token_forms_found": sum(2 * missed[kind] < n_seeds for kind in TOKEN_FORMS),
        "tokens_found": round(1 - missed.total() / (n_seeds * len(TOKEN_FORMS)), 4),
        "ids": len(texts),
        "ids_changed": sum(_REDACTOR.text(text) != text for text in texts),
    }


def ordinary_texts(most_bytes: int) -> Iterator[str]:
    """Yield the ordinary texts that are at hand, up to so many bytes."""
    paths = sysconfig.get_paths()
    library = Path(paths["stdlib"])
    folders = [Path(each) for each in sys.path if each.endswith("-packages")]
    source = (path for path in sorted(library.rglob("*.py")) if "site-packages" not in path.parts)
    documents = (path for each in folders for path in sorted(each.rglob("*")) if path.name.endswith(_DOCUMENTS))
    system = (path for path in sorted(Path("/usr/share/doc").rglob("*")) if path.is_file() and not path.is_symlink())
    n_bytes = 0
    ours = [*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("skillopt_mcp/**/*.md")]
    for path in itertools.chain(sorted(ours), source, documents, system):
        try:
            text = (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8").read()
        except (OSError, EOFError, UnicodeDecodeError):
            continue
        n_bytes += len(text)
        if n_bytes > most_bytes:
            return
        yield text


def changed(most_bytes: int = MOST_BYTES) -> dict[str, float]:
    """Return the share of lines and of files that changed, and how many MB of text one second of CPU redacts."""
    n_files = n_lines = n_bytes = n_files_changed = n_lines_changed = 0
    seconds = 0.0
    for text in ordinary_texts(most_bytes):
        started = time.process_time()
        redacted = _REDACTOR.text(text)
        seconds += time.process_time() - started
        n_files += 1
        n_lines += text.count("\n") + 1
        n_bytes += len(text.encode())
        if redacted != text:
            n_files_changed += 1
            n_lines_changed += (Counter(text.splitlines()) - Counter(redacted.splitlines())).total()
    return {
        "prose_changed": n_lines_changed / n_lines,
        "files_changed": n_files_changed / n_files,
        "files": n_files,
        "mb": round(n_bytes / 1e6, 1),
        "mb_per_s": round(n_bytes / 1e6 / seconds, 1),
    }


def main() -> None:
    """Print the figures."""
    flags = parser(__doc__, "5 MB of ordinary text")
    flags.add_argument("--seed", type=int, default=0)
    options = flags.parse_args()
    share, by_kind, by_place = found(options.seed)
    missed = {"by_kind": dict(by_kind), "by_place": dict(by_place)}
    figures = {"found": round(share, 4), "kinds": len(KINDS), "places": len(PLACES), "missed": missed}
    figures |= alone()
    figures |= changed(MOST_BYTES // 40 if options.short else MOST_BYTES)
    show(figures, options.json, found=f"{TARGETS['found']}", prose_changed="0.00001", ids_changed="0", mb_per_s="20")


if __name__ == "__main__":
    main()
