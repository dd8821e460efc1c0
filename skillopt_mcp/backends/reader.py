"""Reader: how the simulated optimizer takes the evidence of a question apart."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from skillopt_mcp.backends.catalogue import TOPICS
from skillopt_mcp.backends.world import topics_of

Row = dict[str, object]
DROPPED = "Drop the rule: "
# It opens with a literal, which is searched for an order of magnitude faster than the beginning of a line.
_TRAJECTORY = re.compile(r"\n### Trajectory \d+ \((\w+)\b[^)\n]*\)\n(`{3,})task\n")
_TEXT = re.compile(r"\n### Text (\d+) \([^)\n]*\)\n(`{3,})text\n")
_TRIED = re.compile(r"^(?:  - tried: )?(\{.*\})$", re.MULTILINE)
_BODY = "\n## Evidence\n"
_OTHER_FILES = "\n\n=== "


def parts(evidence: str) -> tuple[str, str, str]:
    """Return the skill's main text, what is told of earlier steps and epochs, and the evidence itself."""
    skill, end = _fenced(evidence, "skill")
    if not end:
        return "", "", evidence
    told, _, body = evidence[end:].partition(_BODY)
    return skill.partition(_OTHER_FILES)[0], told.strip(), body


def attempts_in(body: str) -> list[tuple[bool, frozenset[str]]]:
    """Return of each attempt whether it failed, and the topics that its task needs."""
    return [(said == "failed", topics_of(task)) for said, task in _headed(_TRAJECTORY, body)]


def rows_of(body: str) -> list[Row]:
    """Return the numbered edits or suggestions."""
    rows: list[Row] = json.loads(_fenced(body, "json")[0] or "[]")
    return rows


def texts_of(body: str) -> dict[int, str]:
    """Return the numbered whole texts."""
    return {int(number): text for number, text in _headed(_TEXT, body)}


def guidance_in(body: str) -> list[str]:
    """Return the lines of the guidance so far."""
    return [line for line in _fenced(body, "guidance")[0].splitlines() if line.startswith("- ")]


def rejected_in(told: str) -> list[str]:
    """Return the texts of the edits that earlier steps tried and that were rejected, the latest first."""
    rows = [json.loads(match[1]) for match in _TRIED.finditer(told)]
    return [str(row["content"]) for row in reversed(rows) if row.get("verdict") == "reject" and row.get("content")]


def number_of(row: Row) -> int:
    """Return the number that a row is called by."""
    return int(str(row["number"]))


def worth(row: Row) -> float:
    """Return how much an edit or a suggestion is worth, from 0 (harmful) to 1."""
    target, content = str(row.get("target", "")), f"{row.get('content', '')}{row.get('instruction', '')}"
    removed = f"{target if row.get('op') == 'delete' else ''}{content.partition(DROPPED)[2]}"
    if any(topic.harmful in removed for topic in TOPICS):
        return 1.0
    if any(topic.harmful in content for topic in TOPICS):
        return 0.0
    return 1.0 if any(topic.lesson in content for topic in TOPICS) else 0.4


def _headed(opening: re.Pattern[str], body: str) -> Iterator[tuple[str, str]]:
    """Yield what each heading says, and what is fenced below it; one whose fence has no end is none."""
    text, at, endless = f"\n{body}\n", 0, set()
    while found := opening.search(text, at):
        said, marks = found.groups()
        at = found.end()
        end = -1 if marks in endless else text.find(f"\n{marks}\n", at - 1)
        if end < 0:
            # Looked for once: however many such headings there are, the text is not read anew for each.
            endless.add(marks)
        else:
            yield said, text[at:end]
            at = end


def _fenced(text: str, label: str) -> tuple[str, int]:
    """Return what stands in the first fence of a label, and where the fence ends: 0 when there is none.

    No line of it is a fence as long as its own (`prompts.rendering.fence`), so the next such line ends it.
    """
    opening = f"```{label}\n"
    before, found, after = f"\n{text}".partition(opening)
    line = before.rpartition("\n")[2]
    content, ending, _ = f"\n{after}".partition(f"\n{line}```")
    if not (found and ending) or line.strip("`"):
        return "", 0
    return content[1:], len(before) - 1 + len(opening) + len(content) - 1 + len(ending)
