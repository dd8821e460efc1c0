"""World: the rules of the simulation: tasks need lessons, a skill teaches some, and what is true is known."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

from skillopt_mcp.core.judging import Judge, Score
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.core.tasks import NewTask, Task
from skillopt_mcp.tasks.judges.judging import score
from skillopt_mcp.tasks.judges.kinds.numeric import Numeric
from skillopt_mcp.tasks.judges.kinds.text import Exact


@dataclass(frozen=True, slots=True)
class Topic:
    """Something that tasks need: the line that teaches it, and the line that spoils it even where it is taught."""

    name: str
    lesson: str
    harmful: str


TOPICS: tuple[Topic, ...] = (
    Topic(
        "currency",
        "Convert every amount to the currency of the invoice, at the rate of the posting date, before adding up.",
        "Ignore currency codes: amounts in different currencies can be added as they stand.",
    ),
    Topic(
        "rounding",
        "Round once, at the very end, half up to two decimals; never round the lines before they are summed.",
        "Round each line to whole units first, so that the sums stay easy to check.",
    ),
    Topic(
        "dates",
        "Read dates by the locale of the sender: 03/04 from a US supplier is March 4, from a European one April 3.",
        "Read every date as month before day, whoever sent the document.",
    ),
    Topic(
        "units",
        "Bring quantities to the unit of the price list first: a dozen is 12 pieces, a gross is 144.",
        "Take quantities as printed; units of measure never change the amount.",
    ),
    Topic(
        "vat",
        "Apply VAT per line by the line's own rate, and take shipping into the rate of the main goods.",
        "Apply the highest VAT rate found in the document to the whole amount.",
    ),
    Topic(
        "negatives",
        "An amount in parentheses or with a trailing minus is a credit: subtract it.",
        "Drop parentheses and trailing signs around amounts; they are only formatting.",
    ),
    Topic(
        "separators",
        "Decide by the last separator which one is the decimal mark: 1.234,50 is 1234.50 and 1,234.50 is the same.",
        "Delete all dots and commas from numbers before using them.",
    ),
    Topic(
        "duplicates",
        "Count a line once when document number, date and amount all agree, and keep it when one of them differs.",
        "Keep every line, even when the same document was entered twice.",
    ),
    Topic(
        "missing",
        "An empty cell is not a zero: look the value up in the carried-forward column, or leave the line out.",
        "Fill empty cells with the average of the column.",
    ),
    Topic(
        "totals",
        "Skip subtotal and carry-over rows when summing, for they repeat amounts that are already listed.",
        "Add subtotal rows as well, so that nothing is left out of the sum.",
    ),
)

PLACEBOS: tuple[str, ...] = (
    "Take a moment to understand the document before starting.",
    "Keep a friendly and professional tone throughout.",
    "Work carefully and double-check the result where possible.",
    "Remember that bookkeeping rewards patience.",
    "Think about which part of the document matters most.",
    "Prefer clear steps over clever ones.",
    "Make sure that the work is complete before finishing.",
    "Consider the purpose of the request when choosing an approach.",
    "Stay consistent from one document to the next.",
    "Use common accounting terms where they fit.",
    "Be mindful of details that are easy to overlook.",
    "Keep intermediate notes short and legible.",
    "Pay attention to the wording of the request.",
    "Aim for results that a colleague could follow.",
    "Look at the document as a whole before its parts.",
    "Ask whether the result is plausible.",
)


Kind = Literal["honest", "placebo"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NOISE = 0.1
CHANCE = 0.5
_NEEDS = re.compile(r"\(needs: ([a-z, ]+)\)")
_TOPICS: dict[str, Topic] = {topic.name: topic for topic in TOPICS}
_N_TAUGHT_AT_START = 2


@dataclass(frozen=True, slots=True)
class World:
    """One world. In `honest`, a task whose topics are all taught passes but for `noise`, any other by `noise` alone.

    In `placebo` no text helps: every task passes by chance. A task that names no topic does so in both.
    """

    kind: Kind = "honest"
    seed: int = 0
    noise: float = NOISE

    def pass_rate(self, taught: frozenset[str], topics: frozenset[str]) -> float:
        """The chance that a task which needs `topics` passes with a skill that teaches `taught`."""
        if self.kind == "placebo" or not topics:
            return CHANCE
        return 1 - self.noise if topics <= taught else self.noise


def topics_of(prompt: str) -> frozenset[str]:
    """Return the names of the topics that a task prompt says it needs."""
    match = _NEEDS.search(prompt)
    return (
        frozenset(name for part in match[1].split(",") if (name := part.strip()) in _TOPICS) if match else frozenset()
    )


def taught_by(text: str) -> frozenset[str]:
    """Return the names of the topics whose lesson stands in a skill's text, without the harmful line."""
    return frozenset(topic.name for topic in TOPICS if topic.lesson in text and topic.harmful not in text)


def right_answer(seed: int, prompt: str) -> str:
    """Return the right answer to a task: an amount that follows from seed and prompt alone, never from its judge."""
    digest = hashlib.sha256(f"{seed}\0{prompt}".encode("utf-8", "surrogatepass")).digest()
    return amount(100 + int.from_bytes(digest[:8], "big") % 900_000)


def amount(cents: int) -> str:
    """Return cents as an amount with two decimals."""
    return f"{cents // 100}.{cents % 100:02d}"


def true_score(files: SkillFiles, tasks: Sequence[Task | NewTask], world: World | None = None) -> float:
    """Return the expected pass rate of a skill over `tasks`, in [0, 1]: what estimates are measured against."""
    rules, taught = world or World(), taught_by(files.text)
    return sum(rules.pass_rate(taught, topics_of(task.prompt)) for task in tasks) / len(tasks)


def make_skill(seed: int) -> SkillFiles:
    """Return a bookkeeping skill that teaches two of the topics; which ones, the seed decides."""
    first, second = Random(f"skill {seed}").sample(TOPICS, _N_TAUGHT_AT_START)
    text = _SKILL.format(first=first.lesson, second=second.lesson)
    return SkillFiles((SkillFile(MAIN_FILE, text.encode()),))


def make_tasks(n: int, seed: int) -> list[NewTask]:
    """Return `n` different tasks that need one or two topics each, all topics about equally often.

    They are judged by the number that `right_answer` gives for the same seed.
    """
    random = Random(f"tasks {seed}")
    number, deck, tasks = random.randrange(1_000, 5_000), list[Topic](), list[NewTask]()
    for _ in range(n):
        if not deck:
            deck = random.sample(TOPICS, len(TOPICS))
        topics = {deck.pop().name}
        if random.random() < CHANCE:
            topics.add(random.choice(TOPICS).name)
        number += random.randrange(1, 9)
        kind, template = random.choice(_TEMPLATES)
        prompt = template.format(number=number, firm=random.choice(_FIRMS), needs=", ".join(sorted(topics)))
        answer, is_exact = right_answer(seed, prompt), random.random() < CHANCE
        judge: Judge = Exact(expected=answer) if is_exact else Numeric(expected=float(answer), tolerance=0.001)
        tasks.append(NewTask(prompt, judge, name=f"{kind}-{number}", tags=(kind,)))
    return tasks


_FIRMS = ("Halden Timber", "Orsini & Figli", "Pacific Fasteners", "Brandt Optik", "Nilsen Marine", "Calder Mills")
_TEMPLATES: tuple[tuple[str, str], ...] = (
    (
        "invoice",
        "Invoice {number} from {firm} (needs: {needs}). Work out the amount due and answer with the number only.",
    ),
    (
        "statement",
        "{firm} sent statement {number} (needs: {needs}). What is the closing balance? Answer with the number only.",
    ),
    (
        "expenses",
        "Expense report {number} for the trip to {firm} (needs: {needs}). How much is to be reimbursed? Number only.",
    ),
    (
        "ledger",
        "Ledger page {number}, account {firm} (needs: {needs}). Give the sum of the open items, the number only.",
    ),
)
_SKILL = """\
---
name: ledger-clerk
description: Work out amounts from invoices, statements, expense reports and ledger pages. Use for any question about \
what is due, open or to be reimbursed.
---

# Ledger clerk

Find the amount that is asked for, and nothing else.

## Reading the document

- Find the document number first, and stay on that document.
- {first}

## Working it out

- Write the calculation down before giving its result.
- {second}

```python
lines = [(3, 19.90), (1, 240.00)]
due = sum(quantity * price for quantity, price in lines)
```

## Answering

- Give the amount with two decimals and no currency sign.
"""


def has_made(seed: int, task: Task) -> bool:
    """Whether the simulation of this seed made a task: it alone has the right answer to it."""
    if not isinstance(task.judge, Exact | Numeric):
        return False
    outcome = score(task.judge, right_answer(seed, task.prompt))
    return isinstance(outcome, Score) and outcome.hard
