"""Host agent: does the work of a host by its folder alone, as the simulated world has it."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.simulation import missing_lines, pass_rate, right_answer
from skillopt_mcp.backends.work import EVIDENCE

_FAILED = re.compile(r"^### Trajectory (\d+) \(failed\b[^\n]*\n`{3,}task\n([^\n]*)", re.MULTILINE)
_SKILL = re.compile(r"^```skill\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ROWS = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BUDGET = re.compile(r"at most (\d+) (?:edit|suggestion)")


class Item(NamedTuple):
    """One folder of a wave of work, and the id that a reply to it may have."""

    work_id: str
    folder: str


def items_of(work: Any) -> list[Item]:
    """Return the folders of a new wave of work, as a tool or Python has it; [] where there is none."""
    if not work:
        return []
    wave, count = (work["dir"], work["count"]) if isinstance(work, dict) else (work.dir, work.count)
    return [Item(f"{Path(wave).name}-{n}", f"{wave}/{n}") for n in range(1, count + 1)]


@dataclass
class Agent:
    """A fresh agent for each piece of work; what it got to see is kept in `seen`."""

    seed: int
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    seen: list[str] = field(default_factory=list)

    def do(self, folder: str) -> str:
        """Do the work in a folder, and return the answer, which stands in answer.md then."""
        place = Path(folder)
        order = (place / "WORK.md").read_text()
        self.seen.append(order)
        answer = self.attempt(order) if "# Work: do one task" in order else self._reply(place, order)
        (place / "answer.md").write_text(answer)
        return answer

    def attempt(self, order: str) -> str:
        """Return the answer to the task of an order, as an agent with the skill of the order gives it."""
        skill, _, prompt = order.rstrip("\n").rpartition("## The task\n\n")
        return right_answer(self.seed, prompt) if self.chance.random() < pass_rate(skill, prompt) else "0.00"

    def _reply(self, place: Path, order: str) -> str:
        """Return the reply to a question: what failed tasks lack, all that is to be merged, or an order as it came."""
        wanted = json.loads((place / "reply.schema.json").read_text())["properties"]
        instructions, _, evidence = order.partition(EVIDENCE)
        found = _ROWS.search(evidence)
        numbered = json.loads(found[1]) if found else []
        if "ranking" in wanted:
            return json.dumps({"reasoning": "as they came", "ranking": [row["number"] for row in numbered]})
        if "merged_from" in wanted:
            merged: dict[str, tuple[dict[str, object], list[int]]] = {}
            for row in numbered:
                edit = {name: row.get(name) for name in ("op", "target", "content")}
                edit |= {"path": row.get("path", "SKILL.md"), "evidence": []}
                merged.setdefault(json.dumps(edit), (edit, []))[1].append(row["number"])
            edits, numbers = [edit for edit, _ in merged.values()], [these for _, these in merged.values()]
            return json.dumps({"reasoning": "equal lessons together", "edits": edits, "merged_from": numbers})
        skill = found[1] if (found := _SKILL.search(evidence)) else ""
        limit = _BUDGET.search(instructions)
        lessons: dict[str, list[int]] = {}
        for number, prompt in _FAILED.findall(evidence):
            for lesson in missing_lines(skill, prompt)[0]:
                lessons.setdefault(lesson, []).append(int(number))
        rest = {"op": "append", "target": None, "path": "SKILL.md"}
        edits = [{**rest, "content": f"- {line}", "evidence": tries} for line, tries in lessons.items()]
        return json.dumps({"reasoning": "what they lacked", "edits": edits[: int(limit[1]) if limit else 4]})
