"""Proposer: the simulated optimizer, which reads evidence as a model would and answers with edits good and bad."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from pydantic import BaseModel

from skillopt_mcp.backends.catalogue import PLACEBOS, TOPICS
from skillopt_mcp.backends.reader import attempts_in, guidance_in, number_of, parts, rows_of, worth
from skillopt_mcp.backends.writer import (
    formed,
    merged_rewrites,
    merged_suggestions,
    meta_notes,
    with_notes,
    worked_in,
)
from skillopt_mcp.errors import BackendError
from skillopt_mcp.records.calls import Question
from skillopt_mcp.records.replies import (
    BudgetReply,
    EditReply,
    MergeReply,
    PatchReply,
    RankReply,
    SlowUpdateReply,
)

_BUDGET = re.compile(r"at most (\d+) (?:edit|suggestion)")
_TOPICS = {topic.name: topic for topic in TOPICS}
_DEFAULT_BUDGET = 4
_N_GUIDED = 2
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
        return f"```json\n{self._reply(question, random).model_dump_json(exclude_none=True)}\n```"

    def _reply(self, question: Question, random: Random) -> BaseModel:
        evidence, schema = question.evidence, question.schema.removeprefix("aware_")
        skill, _, body = parts(evidence)
        match schema:
            case "patch" | "suggest" | "rewrite" if not rows_of(body):
                patch = self._patch(question, random)
                return (
                    with_notes(evidence, patch, schema) if schema != question.schema else formed(skill, patch, schema)
                )
            case "rewrite":
                edits = [worked_in(row) for row in rows_of(body)]
                return formed(skill, PatchReply(reasoning="(simulated) All were worked in.", edits=edits), "rewrite")
            case "merge":
                return _merge(body)
            case "merge_suggestions":
                return merged_suggestions(body)
            case "merge_rewrites":
                return merged_rewrites(skill, body)
            case "rank":
                return _rank(body, random)
            case "budget":
                n = sum(worth(row) >= 1 for row in rows_of(body))
                return BudgetReply(reasoning="(simulated) As many as teach something.", n=max(1, n))
            case "slow_update":
                return self._guidance(question, random)
            case "meta_skill":
                return meta_notes(evidence)
        raise BackendError(f"the simulation has no answer of schema '{question.schema}'; use another backend")

    def _patch(self, question: Question, random: Random) -> PatchReply:
        skill, told, body = parts(question.evidence)
        attempts = attempts_in(body)
        any_failed = any(failed for failed, _ in attempts)
        needs = Counter(name for failed, topics in attempts if failed or not any_failed for name in sorted(topics))
        found = _BUDGET.search(question.instructions)
        budget = int(found[1]) if found else _DEFAULT_BUDGET
        n_edits = budget if any_failed else random.randint(0, min(1, budget))
        stock = _stock(skill, needs, told, random)
        evidence = [n for n, (failed, _) in enumerate(attempts, start=1) if failed or not any_failed]
        picked = [edit for _ in range(n_edits) if (edit := self._pick(stock, random))]
        edits = [edit.model_copy(update={"evidence": evidence}) for edit in picked]
        needed = ", ".join(needs) or "nothing in particular"
        return PatchReply(reasoning=f"(simulated) The attempts needed: {needed}.", edits=edits)

    def _guidance(self, question: Question, random: Random) -> SlowUpdateReply:
        skill, told, body = parts(question.evidence)
        needs = Counter(name for failed, topics in attempts_in(body) if failed for name in sorted(topics))
        stock = _stock(skill, needs, told, random)
        stock.anchors.clear()
        picked = [edit.content for _ in range(_N_GUIDED) if (edit := self._pick(stock, random)) and edit.content]
        lines = list(dict.fromkeys([*guidance_in(body), *picked]))
        return SlowUpdateReply(reasoning="(simulated) What both versions lack.", guidance="\n".join(lines))

    def _pick(self, stock: _Stock, random: Random) -> EditReply | None:
        chance = random.random()
        if chance < self._helpful:
            remedy = stock.remedies.pop(0) if stock.remedies else None
            return _placed(remedy, stock, random) if isinstance(remedy, str) else remedy
        lines = stock.spoilers if chance < self._helpful + self._harmful else stock.placebos
        return _placed(lines.pop(), stock, random) if lines else None


def _stock(skill: str, needs: Counter[str], told: str, random: Random) -> _Stock:
    """Return what may be proposed: of what `told` says was rejected, only a remedy is tried again, and last."""
    wanted = [_TOPICS[name] for name, _ in needs.most_common()]
    remedies: list[str | EditReply] = []
    for topic in wanted:
        if topic.harmful in skill:
            bullet = f"\n- {topic.harmful}"
            remedies.append(EditReply(op="delete", target=bullet if bullet in skill else topic.harmful))
        if topic.lesson not in skill:
            remedies.append(topic.lesson)
    remedies.sort(key=lambda remedy: isinstance(remedy, str) and remedy in told)
    spoilers, placebos, anchors = map(list, _lines(skill))
    if told:
        spoilers, placebos = ([line for line in lines if line not in told] for lines in (spoilers, placebos))
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


def _merge(body: str) -> MergeReply:
    merged: dict[tuple[str, str], tuple[EditReply, list[int]]] = {}
    anchors: set[str | None] = set()
    for row in sorted(rows_of(body), key=lambda row: row.get("from") != "failures"):
        edit, number = EditReply.model_validate(row), number_of(row)
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


def _rank(body: str, random: Random) -> RankReply:
    worths = {number_of(row): worth(row) + random.gauss(0, _RANKING_NOISE) for row in rows_of(body)}
    ranking = sorted(worths, key=lambda number: -worths[number])
    return RankReply(reasoning="(simulated) The most useful first.", ranking=ranking)
