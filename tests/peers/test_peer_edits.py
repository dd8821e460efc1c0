"""Patches change a document as in the published packages, but for a written list of intended differences."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import pytest
from drawn_patches import Case, draw
from drawn_patches import Edit as Drawn
from intended import EITHER, INTENDED, Seen, words
from peer_packages import PACKAGES, answers

from skillopt_mcp.core.edits import Edit, Patch
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.documents.edits import apply_patch

N_CASES = 5_000


@dataclass(frozen=True)
class Outcome:
    """What an engine makes of a case: the text in the end, the text before each edit, and what became of each edit."""

    text: str
    before: tuple[str, ...]
    statuses: tuple[str, ...]


def ours(case: Case) -> Outcome:
    """Return what our engine makes of a case."""
    document, edits = case
    files = SkillFiles((SkillFile(MAIN_FILE, document.encode()),))
    patch = Patch(tuple(Edit(edit["op"], edit["target"], edit["content"]) for edit in edits))  # type: ignore[arg-type]
    applied = apply_patch(files, patch)
    return Outcome(applied.files.main.decode(), (), tuple(report.status for report in applied.reports))


def theirs(package: str, cases: list[Case]) -> list[Outcome]:
    """Return what a published engine makes of each case."""
    return [
        Outcome(texts[-1] if texts else document, (document, *texts[:-1]), tuple(statuses))
        for (document, _), (texts, statuses) in zip(cases, answers(package, "edits", cases), strict=True)
    ]


def named(package: str, case: Case, peer: Outcome) -> list[tuple[str, str] | None]:
    """Return for every edit the first intended difference that holds for it and what is expected of it, or None."""
    document, edits = case
    seen = [Seen(package, document, edits, index, peer.before[index]) for index in range(len(edits))]
    return [next(((name, fate) for name, holds, fate in INTENDED if holds(one)), None) for one in seen]


@pytest.mark.parametrize("package", PACKAGES)
def test_5_000_random_patches_differ_only_where_it_is_intended(package: str) -> None:
    random = Random(f"patches {package}")
    cases = [draw(random) for _ in range(N_CASES)]
    peers = theirs(package, cases)
    names = [named(package, case, peer) for case, peer in zip(cases, peers, strict=True)]
    plain: list[Case] = [
        (case[0], [edit for edit, name in zip(case[1], found, strict=True) if name is None])
        for case, found in zip(cases, names, strict=True)
    ]

    unclassified: list[tuple[Case, str]] = []
    counted: Counter[str] = Counter()
    for case, rest, found, peer, peer_rest in zip(cases, plain, names, peers, theirs(package, plain), strict=True):
        mine, mine_rest = ours(case), ours(rest)
        if words(mine_rest.text) != words(peer_rest.text):
            unclassified.append((rest, f"ours {mine_rest.text!r}, theirs {peer_rest.text!r}"))
        for name, status in zip(found, mine.statuses, strict=True):
            if name and name[1] not in (EITHER, status):
                unclassified.append((case, f"{name[0]}: {status}"))
        if words(mine.text) != words(peer.text):
            counted.update({name[0] for name in found if name})
        elif mine.text == peer.text:
            counted["the same"] += 1

    assert not unclassified, "\n".join(map(str, min(unclassified, key=_size)))
    assert {name for name, _, _ in INTENDED} - set(counted) <= ({"marker in code"} if package == "skillrl" else set())
    assert sum(len(rest[1]) for rest in plain) > N_CASES / 2
    assert counted["the same"] > N_CASES / 10


def _size(found: tuple[tuple[str, list[Drawn]], str]) -> int:
    (document, edits), _ = found
    return len(document) + sum(len(str(edit)) for edit in edits)
