"""Host agent: does the work of a host by its folder alone, as the simulated world has it."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path

from skillopt_mcp.backends.proposer import Proposer
from skillopt_mcp.backends.world import World, right_answer, taught_by, topics_of
from skillopt_mcp.prompts.parsing import parse_reply
from skillopt_mcp.records.calls import Question
from skillopt_mcp.records.replies import SCHEMAS


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
        skill = "\n".join(path.read_text() for path in sorted(place.glob("skill/*/*.md")))
        answer = self.attempt(order, skill) if "# Work: do one task" in order else self._answer(place)
        (place / "answer.md").write_text(answer)
        return answer

    def attempt(self, order: str, skill: str) -> str:
        """Return the answer to the task of an order, as whoever has read this text of a skill gives it."""
        prompt = order.partition("## The task\n\n")[2].rstrip("\n")
        rate = World(seed=self.seed).pass_rate(taught_by(skill), topics_of(prompt))
        return right_answer(self.seed, prompt) if self.chance.random() < rate else "0.00"

    def _answer(self, place: Path) -> str:
        schema = json.loads((place / "reply.schema.json").read_text())
        name = next(name for name, model in SCHEMAS.items() if set(model.model_fields) == set(schema["properties"]))
        question = Question((place / "INSTRUCTIONS.md").read_text(), (place / "EVIDENCE.md").read_text(), name)
        said = parse_reply(Proposer(self.seed, 0.7, 0.1).answer(question, "draw"), SCHEMAS[name])
        return said if isinstance(said, str) else said.model_dump_json()
