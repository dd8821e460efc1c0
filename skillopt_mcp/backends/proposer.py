"""Proposer: the simulated optimizer, which reads evidence as a model would and answers with edits good and bad."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from skillopt_mcp.backends.catalogue import PLACEBOS, TOPICS
from skillopt_mcp.backends.world import topics_of
from skillopt_mcp.errors import BackendError
from skillopt_mcp.records.calls import Question
from skillopt_mcp.records.replies import EditReply, MergeReply, PatchReply, RankReply

_SKILL = re.compile(r"^(`{3,})skill\n(.*?)\n?\1$", re.MULTILINE | re.DOTALL)
# It opens with a literal, which is searched for an order of magnitude faster than the beginning of a line.
_TRAJECTORY = re.compile(r"\n### Trajectory \d+ \((\w+)[^)\n]*\)\n(`{3,})task\n(.*?)\n\2$", re.MULTILINE | re.DOTALL)
_EDITS = re.compile(r"^(`{3,})json\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)
_BUDGET = re.compile(r"at most (\d+) edit")
_TOPICS = {topic.name: topic for topic in TOPICS}
_OTHER_FILES = "\n\n=== "
_DEFAULT_BUDGET = 4
_SHARE_APPENDED = 0.6
_RANKING_NOISE = 0.5


@dataclass(frozen=True)
class _Stock:
    """What is left to propose, best remedy first; `anchors` are lines of the skill that stand in it once."""

    remedies: list[str | EditReply]
    spoilers: list[str]
    placebos: list[str]
    anchors: list[str]


class Proposer:
    """Proposes, merges and ranks. `helpful` and `harmful` are the shares of its edits that are; the rest do nothing."""

    def __init__(self, seed: int, helpful: float, harmful: float) -> None:
        self._seed = seed
        self._helpful = helpful
        self._harmful = harmful

    def answer(self, question: Question, draw: str) -> str:
        """Return the JSON reply to a question. Raises BackendError when it asks for a schema nobody here knows."""
        random = Random(f"{self._seed} {draw} {question.digest}")
        match question.schema:
            case "patch":
                reply = self._patch(question, random).model_dump_json(exclude_none=True)
            case "merge":
                reply = _merge(question.evidence).model_dump_json(exclude_none=True)
            case "rank":
                reply = _rank(question.evidence, random).model_dump_json()
            case schema:
                raise BackendError(f"the simulation has no answer of schema '{schema}'; use another backend")
        return f"```json\n{reply}\n```"

    def _patch(self, question: Question, random: Random) -> PatchReply:
        skill, rest = _split(question.evidence)
        attempts = [(match[1] == "failed", topics_of(match[3])) for match in _TRAJECTORY.finditer(rest)]
        any_failed = any(failed for failed, _ in attempts)
        needs = Counter(name for failed, topics in attempts if failed or not any_failed for name in sorted(topics))
        found = _BUDGET.search(question.instructions)
        budget = int(found[1]) if found else _DEFAULT_BUDGET
        n_edits = budget if any_failed else random.randint(0, min(1, budget))
        stock = _stock(skill, needs, random)
        edits = [edit for _ in range(n_edits) if (edit := self._pick(stock, random))]
        needed = ", ".join(needs) or "nothing in particular"
        return PatchReply(reasoning=f"(simulated) The attempts needed: {needed}.", edits=edits)

    def _pick(self, stock: _Stock, random: Random) -> EditReply | None:
        chance = random.random()
        if chance < self._helpful:
            remedy = stock.remedies.pop(0) if stock.remedies else None
            return _placed(remedy, stock, random) if isinstance(remedy, str) else remedy
        lines = stock.spoilers if chance < self._helpful + self._harmful else stock.placebos
        return _placed(lines.pop(), stock, random) if lines else None


def _stock(skill: str, needs: Counter[str], random: Random) -> _Stock:
    wanted = [_TOPICS[name] for name, _ in needs.most_common()]
    remedies: list[str | EditReply] = []
    for topic in wanted:
        if topic.harmful in skill:
            bullet = f"\n- {topic.harmful}"
            remedies.append(EditReply(op="delete", target=bullet if bullet in skill else topic.harmful))
        if topic.lesson not in skill:
            remedies.append(topic.lesson)
    spoilers, placebos, anchors = map(list, _lines(skill))
    for lines in (spoilers, placebos, anchors):
        random.shuffle(lines)
    return _Stock(remedies, spoilers, placebos, anchors)


@lru_cache(maxsize=64)
def _lines(skill: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the harmful lines and the placebos that a skill does not have, and its own lines that stand in it once."""
    spoiling = {f"- {topic.harmful}" for topic in TOPICS}
    bullets = (line for line in skill.splitlines() if line.startswith("- ") and line not in spoiling)
    return (
        tuple(topic.harmful for topic in TOPICS if topic.harmful not in skill),
        tuple(line for line in PLACEBOS if line not in skill),
        tuple(line for line in bullets if skill.count(line) == 1),
    )


def _placed(line: str, stock: _Stock, random: Random) -> EditReply:
    if not stock.anchors or random.random() < _SHARE_APPENDED:
        return EditReply(op="append", content=f"- {line}")
    return EditReply(op="insert_after", target=stock.anchors.pop(), content=f"- {line}\n")


def _merge(evidence: str) -> MergeReply:
    merged: dict[tuple[str, str], tuple[EditReply, list[int]]] = {}
    anchors: set[str | None] = set()
    for row in sorted(_edits(evidence), key=lambda row: row.get("from") != "failures"):
        edit, number = EditReply.model_validate(row), _number(row)
        lesson = ("", edit.content.strip()) if edit.content else (edit.op, edit.target or "")
        if lesson in merged:
            merged[lesson][1].append(number)
            continue
        if edit.op == "insert_after" and edit.content and edit.target in anchors:
            edit = EditReply(op="append", content=edit.content.rstrip("\n"), path=edit.path)
        anchors.add(edit.target)
        merged[lesson] = (edit, [number])
    return MergeReply(
        reasoning="(simulated) Equal lessons were put together.",
        edits=[edit for edit, _ in merged.values()],
        merged_from=[sorted(numbers) for _, numbers in merged.values()],
    )


def _rank(evidence: str, random: Random) -> RankReply:
    worth = {_number(row): _worth(row) + random.gauss(0, _RANKING_NOISE) for row in _edits(evidence)}
    ranking = sorted(worth, key=lambda number: -worth[number])
    return RankReply(reasoning="(simulated) The most useful first.", ranking=ranking)


def _worth(row: dict[str, object]) -> float:
    content, target = str(row.get("content", "")), str(row.get("target", ""))
    if any(topic.harmful in content for topic in TOPICS):
        return 0.0
    teaches = any(topic.lesson in content for topic in TOPICS)
    cures = row.get("op") == "delete" and any(topic.harmful in target for topic in TOPICS)
    return 1.0 if teaches or cures else 0.4


def _split(evidence: str) -> tuple[str, str]:
    found = _SKILL.search(evidence)
    return (found[2].partition(_OTHER_FILES)[0], evidence[found.end() :]) if found else ("", evidence)


def _edits(evidence: str) -> list[dict[str, object]]:
    found = _EDITS.search(_split(evidence)[1])
    rows: list[dict[str, object]] = json.loads(found[2]) if found else []
    return rows


def _number(row: dict[str, object]) -> int:
    return int(str(row["number"]))
