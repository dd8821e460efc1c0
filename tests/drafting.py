"""Drafting: a skill with three rules, and a model that drafts tasks about what it is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

RULES = (
    "Begin the line of a breaking change with BREAKING and a colon.",
    "Name the ticket at the end of each line in square brackets.",
    "Write sums of money with the euro sign after the number.",
)
COMPLAINT = "It forgets to thank the contributors by name."
SKILL = """---
name: ship-notes
description: Write release notes for the shop.
---
# Release notes

Write for users:

## Lines

- {}
- {}
- {}

```text
- Do not take this for a rule of the skill.
```
""".format(*RULES)
_SUBJECT = re.compile(r"^## Subject (\d+): a (\w+)[^\n]*\n\n(.*?)(?=^## Subject|\Z)", re.MULTILINE | re.DOTALL)
_WORDS = ["harbour", "lantern", "meadow", "ribbon", "falcon", "copper", "violet", "saddle", "walnut", "glacier"]
Drafted = dict[str, Any]


def make_skill(folder: Path) -> Path:
    """Write the skill."""
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    return folder


def subjects_of(asked: str) -> list[tuple[int, str, str]]:
    """The subjects of a question: number, kind and text."""
    return [(int(number), kind, text) for number, kind, text in _SUBJECT.findall(asked)]


class Drafter:
    """A model that drafts what can be used, but for what `spoil` makes of it; `n_asked` counts its questions."""

    def __init__(self, spoil: Callable[[Drafted, str], Drafted | None] = lambda task, text: task) -> None:
        self.n_asked, self._n, self._spoil = 0, 0, spoil

    def __call__(self, asked: str) -> str:
        self.n_asked += 1
        made = [self._spoil(self._draft(number, text), text) for number, _, text in subjects_of(asked)]
        return json.dumps({"tasks": [each for each in made if each]})

    def _draft(self, number: int, text: str) -> Drafted:
        self._n += 1
        one, two = _WORDS[self._n % 10], _WORDS[(self._n * 3 + self._n // 10) % 10]
        thing = f"{one} {two} page number {100 + self._n}"
        facts = {
            RULES[0]: (f"The flag for the {thing} is gone. Write its line.", ["BREAKING:", thing], "Removed"),
            RULES[1]: (f"Write the line of ticket {7000 + self._n}: a faster {thing}.", [f"[{7000 + self._n}]"], "("),
            RULES[2]: (f"The {thing} costs {500 + self._n} euros now. Write its line.", [f"{500 + self._n} €"], "€"),
        }  # fmt: skip
        found = next((facts[rule] for rule in RULES if rule in text), None)
        prompt, expected, wrong = found or (f"Thank Ada for the {thing}.", ["thanks to Ada", thing], "Done")
        return {
            "number": number, "unfit": "", "prompt": prompt, "files": [], "kind": "contains", "expected": expected,
            "accepted": f"- The line: {' '.join(expected)}", "rejected": f"- {wrong} {thing} {self._n}", "tag": "",
        }  # fmt: skip
