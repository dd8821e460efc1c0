"""Simulated: target and optimizer in a seeded world: deterministic, free, no real model."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import ClassVar, NamedTuple

from pydantic import BaseModel, Field

from skillopt_mcp.backends.api.prices import SpecOptions, parse_options
from skillopt_mcp.backends.registry import Resolved, backend
from skillopt_mcp.backends.world import NOISE, PLACEBOS, TOPICS, Kind, World, amount, right_answer, taught_by, topics_of
from skillopt_mcp.core import replies
from skillopt_mcp.core.calls import Call, Message, Question, Reply, Rollout, Usage
from skillopt_mcp.core.edits import Edit, Patch
from skillopt_mcp.core.errors import BackendError
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.prompts.rendering import EVIDENCE, NEXT_TO, OTHER, split_evidence

Row = dict[str, object]
DROPPED = "Drop the rule: "
# It opens with a literal, which is searched for an order of magnitude faster than the beginning of a line.
_TRAJECTORY = re.compile(r"\n### Trajectory \d+ \((\w+)\b[^)\n]*\)\n(`{3,})task\n")
_TEXT = re.compile(r"\n### Text (\d+) \([^)\n]*\)\n(`{3,})(?:diff|text)\n")
_TRIED = re.compile(r"^(?:  - tried: )?(\{.*\})$", re.MULTILINE)
_OTHER_FILES = "\n\n=== "


def parts(evidence: str) -> tuple[str, str, str]:
    """Return the skill's main text, the history of earlier steps and epochs, and the evidence itself."""
    known, earlier, body = split_evidence(evidence)
    skill, end = _find_fence(known, "skill")
    notes = known[end:]
    if notes.lstrip("\n").startswith(NEXT_TO):
        notes = notes[_find_fence(notes, OTHER)[1] :]
    return skill.partition(_OTHER_FILES)[0], f"{notes}{earlier}".strip(), body.removeprefix(EVIDENCE)


def attempts_in(body: str) -> list[tuple[bool, frozenset[str]]]:
    """Return of each attempt whether it failed, and the topics that its task needs."""
    return [(said == "failed", topics_of(task)) for said, task in _find_headed(_TRAJECTORY, body)]


def rows_of(body: str) -> list[Row]:
    """Return the numbered edits or suggestions."""
    rows: list[Row] = json.loads(_find_fence(body, "json")[0] or "[]")
    return rows


def number_of(row: Row) -> int:
    """Return the number that a row is called by."""
    return int(str(row["number"]))


def worth(row: Row) -> float:
    """The worth of an edit or a suggestion, from 0 (harmful) to 1."""
    target, content = str(row.get("target", "")), f"{row.get('content', '')}{row.get('instruction', '')}"
    removed = f"{target if row.get('op') == 'delete' else ''}{content.partition(DROPPED)[2]}"
    if any(topic.harmful in removed for topic in TOPICS):
        return 1.0
    if any(topic.harmful in content for topic in TOPICS):
        return 0.0
    return 1.0 if any(topic.lesson in content for topic in TOPICS) else 0.4


def _find_headed(opening: re.Pattern[str], body: str) -> Iterator[tuple[str, str]]:
    """Yield what each heading says, and what is fenced below it; one whose fence has no end is none."""
    text, at, endless = f"\n{body}\n", 0, set()
    while found := opening.search(text, at):
        said, marks = found.groups()
        at = found.end()
        end = -1 if marks in endless else text.find(f"\n{marks}\n", at - 1)
        if end < 0:
            # Looked for once: however many such headings there are, the text is read once.
            endless.add(marks)
        else:
            yield said, text[at:end]
            at = end


def _find_fence(text: str, label: str) -> tuple[str, int]:
    """The text in the first fence of a label, and where the fence ends: 0 when there is none.

    No line of it is a fence as long as its own (`prompts.rendering.fence`), so the next such line ends it.
    """
    opening = f"```{label}\n"
    before, found, after = f"\n{text}".partition(opening)
    line = before.rpartition("\n")[2]
    content, ending, _ = f"\n{after}".partition(f"\n{line}```")
    if not (found and ending) or line.strip("`"):
        return "", 0
    return content[1:], len(before) - 1 + len(opening) + len(content) - 1 + len(ending)


_MAX_NOTES = 10
_AWARE: dict[str, type[replies.AwarePatchReply | replies.AwareSuggestReply | replies.AwareRewriteReply]] = {
    "patch": replies.AwarePatchReply, "suggest": replies.AwareSuggestReply, "rewrite": replies.AwareRewriteReply,
}  # fmt: skip


def form_reply(skill: str, patch: replies.PatchReply, schema: str) -> replies.ProposalReply:
    """Return a patch in the form that was asked for: as it is, as suggestions, or as the whole new text."""
    if schema == "suggest":
        texts = [
            DROPPED + (edit.target or "").strip().removeprefix("- ")
            if edit.op == "delete"
            else (edit.content or "").strip().removeprefix("- ")
            for edit in patch.edits
        ]
        suggestions = [replies.SuggestionReply(instruction=text) for text in texts]
        return replies.SuggestReply(reasoning=patch.reasoning, suggestions=suggestions)
    if schema == "rewrite":
        return replies.RewriteReply(
            reasoning=patch.reasoning, skill=_apply_edits(skill, patch.edits) if patch.edits else ""
        )
    return patch


def with_notes(evidence: str, patch: replies.PatchReply, schema: str) -> replies.ProposalReply:
    """Return a patch in its form with a class per failure: a lapse where the skill teaches all that was needed."""
    skill, _, body = parts(evidence)
    taught, attempts = taught_by(skill), attempts_in(body)
    lapsed = [failed and bool(topics) and topics <= taught for failed, topics in attempts]
    classified = [
        replies.ClassReply(trajectory=n, kind="lapse" if lapse else "defect")
        for n, ((failed, _), lapse) in enumerate(zip(attempts, lapsed, strict=True), start=1)
        if failed
    ]
    topics = sorted({name for (_, needed), lapse in zip(attempts, lapsed, strict=True) if lapse for name in needed})
    notes = [f"Before answering, go through the rule on {name} once more." for name in topics]
    values = form_reply(skill, patch, schema).model_dump()
    return _AWARE[schema].model_validate(values | {"classified": classified, "notes": notes})


def merge(skill: str, body: str, schema: str) -> BaseModel:
    """What many analysts proposed as one: edits or suggestions without doubles, those from failures first, or a text.

    The text has every line that one of the texts added, and none that one took away.
    """
    rows = sorted(rows_of(body), key=lambda row: row.get("from") != "failures")
    if schema == "merge_suggestions":
        suggested: dict[str, list[int]] = {}
        for row in rows:
            suggested.setdefault(str(row["instruction"]), []).append(number_of(row))
        return replies.MergeSuggestionsReply(
            reasoning="(simulated) Equal suggestions were put together.",
            suggestions=[replies.SuggestionReply(instruction=instruction) for instruction in suggested],
            merged_from=[sorted(numbers) for numbers in suggested.values()],
        )
    if schema == "merge_rewrites":
        old, texts = skill.splitlines(), {int(number): text for number, text in _find_headed(_TEXT, body)}
        added, gone = dict[str, None](), dict[str, None]()
        for text in texts.values():
            new, is_diff = text.splitlines(), text.startswith("--- ")
            more = [line[1:] for line in new[2:] if line[:1] == "+"] if is_diff else [x for x in new if x not in old]
            less = [line[1:] for line in new[2:] if line[:1] == "-"] if is_diff else [x for x in old if x not in new]
            added |= dict.fromkeys(filter(None, more))
            gone |= dict.fromkeys(filter(None, less))
        edits = [replies.EditReply(op="delete", target=f"{line}\n") for line in gone]
        edits += [replies.EditReply(op="append", content=line) for line in added]
        return replies.MergeRewritesReply(
            reasoning="(simulated) All lessons were put together.",
            skill=_apply_edits(skill, edits),
            merged_from=sorted(texts),
        )
    merged: dict[tuple[str, str], tuple[replies.EditReply, list[int]]] = {}
    anchors: set[str | None] = set()
    for row in rows:
        edit, number = replies.EditReply.model_validate(row), number_of(row)
        lesson = ("", edit.content.strip()) if edit.content else (edit.op, edit.target or "")
        if lesson in merged:
            merged[lesson][1].append(number)
            continue
        if edit.op == "insert_after" and edit.content and edit.target in anchors:
            edit = replies.EditReply(op="append", content=edit.content.rstrip("\n"), path=edit.path)
        anchors.add(edit.target)
        merged[lesson] = (edit, [number])
    return replies.MergeReply(
        reasoning="(simulated) Equal lessons were put together.",
        edits=[edit for edit, _ in merged.values()],
        merged_from=[sorted(numbers) for _, numbers in merged.values()],
    )


def _apply_edits(skill: str, edits: list[replies.EditReply]) -> str:
    """Return the skill's text after the edits, as far as they apply."""
    files = SkillFiles((SkillFile(MAIN_FILE, skill.encode("utf-8", "replace")),))
    patch = Patch(tuple(Edit(edit.op, edit.target, edit.content) for edit in edits))
    return apply_patch(files, patch).files.main.decode()


_BUDGET = re.compile(r"at most (\d+) (?:edit|suggestion)")
_BY_NAME = {topic.name: topic for topic in TOPICS}
_DEFAULT_BUDGET = 4
_N_GUIDED = 2
_SHARE_APPENDED = 0.6
_RANKING_NOISE = 0.5


@dataclass(frozen=True)
class _Stock:
    """What is left to propose, best remedy first; `anchors` are lines of the skill that stand in it once."""

    remedies: list[str | replies.EditReply]
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
        """Return the JSON reply to a question. Raises BackendError when it asks for an unknown schema."""
        random = Random(f"{self._seed} {draw} {question.digest}")
        return f"```json\n{self._reply(question, random).model_dump_json(exclude_none=True)}\n```"

    def _reply(self, question: Question, random: Random) -> BaseModel:
        evidence, schema = question.evidence, question.schema.removeprefix("aware_")
        skill, _, body = parts(evidence)
        match schema:
            case "patch" | "suggest" | "rewrite" if not rows_of(body):
                patch = self._patch(question, random)
                if schema != question.schema:
                    return with_notes(evidence, patch, schema)
                return form_reply(skill, patch, schema)
            case "rewrite":
                said = [str(row["instruction"]) for row in rows_of(body)]
                edits = [
                    replies.EditReply(op="delete", target=f"- {each.removeprefix(DROPPED)}\n")
                    if each.startswith(DROPPED)
                    else replies.EditReply(op="append", content=f"- {each}")
                    for each in said
                ]
                return form_reply(
                    skill, replies.PatchReply(reasoning="(simulated) All were worked in.", edits=edits), "rewrite"
                )
            case "merge" | "merge_suggestions" | "merge_rewrites":
                return merge(skill, body, schema)
            case "rank":
                worths = {number_of(row): worth(row) + random.gauss(0, _RANKING_NOISE) for row in rows_of(body)}
                ranking = sorted(worths, key=lambda number: -worths[number])
                return replies.RankReply(reasoning="(simulated) The most useful first.", ranking=ranking)
            case "budget":
                n = sum(worth(row) >= 1 for row in rows_of(body))
                return replies.BudgetReply(reasoning="(simulated) As many as teach something.", n=max(1, n))
            case "slow_update" | "meta_skill":
                return self._end_epoch(evidence, schema, random)
            case "draft":  # its world has tasks enough
                return replies.DraftReply(tasks=[])
            case "label":
                return replies.LabelReply(labels=[])
        raise BackendError(f"the simulation has no answer of schema '{question.schema}'; use another backend")

    def _patch(self, question: Question, random: Random) -> replies.PatchReply:
        skill, history, body = parts(question.evidence)
        attempts = attempts_in(body)
        any_failed = any(failed for failed, _ in attempts)
        needs = Counter(name for failed, topics in attempts if failed or not any_failed for name in sorted(topics))
        found = _BUDGET.search(question.instructions)
        budget = int(found[1]) if found else _DEFAULT_BUDGET
        n_edits = budget if any_failed else random.randint(0, min(1, budget))
        stock = _stock(skill, needs, history, random)
        evidence = [n for n, (failed, _) in enumerate(attempts, start=1) if failed or not any_failed]
        picked = [edit for _ in range(n_edits) if (edit := self._pick(stock, random))]
        edits = [edit.model_copy(update={"evidence": evidence}) for edit in picked]
        needed = ", ".join(needs) or "nothing in particular"
        return replies.PatchReply(reasoning=f"(simulated) The attempts needed: {needed}.", edits=edits)

    def _end_epoch(self, evidence: str, schema: str, random: Random) -> BaseModel:
        """Guidance from what both versions lack, or notes that name what was rejected, this epoch's first."""
        skill, history, body = parts(evidence)
        if schema == "meta_skill":
            so_far = [line for line in history.splitlines() if line.startswith("- Rejected: ")]
            rows = [json.loads(match[1]) for match in reversed([*_TRIED.finditer(history)])]
            texts = [str(row["content"]) for row in rows if row.get("verdict") == "reject" and row.get("content")]
            lines = [f"- Rejected: {' '.join(text.removeprefix('- ').split())}" for text in texts]
            notes = list(dict.fromkeys([*lines, *so_far]))[:_MAX_NOTES]
            return replies.MetaSkillReply(reasoning="(simulated) What was tried in vain.", notes="\n".join(notes))
        needs = Counter(name for failed, topics in attempts_in(body) if failed for name in sorted(topics))
        stock = _stock(skill, needs, history, random)
        stock.anchors.clear()
        picked = [edit.content for _ in range(_N_GUIDED) if (edit := self._pick(stock, random)) and edit.content]
        so_far = [line for line in _find_fence(body, "guidance")[0].splitlines() if line.startswith("- ")]
        lines = list(dict.fromkeys([*so_far, *picked]))
        return replies.SlowUpdateReply(reasoning="(simulated) What both versions lack.", guidance="\n".join(lines))

    def _pick(self, stock: _Stock, random: Random) -> replies.EditReply | None:
        chance = random.random()
        if chance < self._helpful:
            remedy = stock.remedies.pop(0) if stock.remedies else None
            return _place_line(remedy, stock, random) if isinstance(remedy, str) else remedy
        lines = stock.spoilers if chance < self._helpful + self._harmful else stock.placebos
        return _place_line(lines.pop(), stock, random) if lines else None


def _stock(skill: str, needs: Counter[str], history: str, random: Random) -> _Stock:
    """All that may be proposed: of what was rejected before, only a remedy is tried again, and last."""
    wanted = [_BY_NAME[name] for name, _ in needs.most_common()]
    remedies: list[str | replies.EditReply] = []
    for topic in wanted:
        if topic.harmful in skill:
            bullet = f"\n- {topic.harmful}"
            remedies.append(replies.EditReply(op="delete", target=bullet if bullet in skill else topic.harmful))
        if topic.lesson not in skill:
            remedies.append(topic.lesson)
    remedies.sort(key=lambda remedy: isinstance(remedy, str) and remedy in history)
    spoilers, placebos, anchors = map(list, _lines(skill))
    if history:
        spoilers, placebos = ([line for line in lines if line not in history] for lines in (spoilers, placebos))
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


def _place_line(line: str, stock: _Stock, random: Random) -> replies.EditReply:
    if not stock.anchors or random.random() < _SHARE_APPENDED:
        return replies.EditReply(op="append", content=f"- {line}")
    return replies.EditReply(op="insert_after", target=stock.anchors.pop(), content=f"- {line}\n")


_MAX_REMEMBERED = 100_000
_FILLER_SHIFTS = 1 << 16
_FRAME = len('[["user",""],["assistant",""]]')
_MAX_ANSWER = 16_384
# Small words among them, as in any language: without, a text is a run of long words as no transcript ever has it.
_WORDS = (
    "ledger", "entry", "account", "balance", "posted", "carried", "line", "column", "amount", "price", "supplier",
    "to", "of", "in", "a", "is", "at", "by",
)  # fmt: skip


class SimulatedOptions(SpecOptions):
    """The options of `simulated:`; the model is the kind of world."""

    provider: ClassVar[str] = "simulated"
    unanswering: ClassVar[frozenset[str]] = frozenset({"latency_ms"})
    model: Kind = "honest"
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    noise: float = Field(default=NOISE, ge=0, le=0.5)
    helpful: float = Field(default=0.6, ge=0, le=1)
    harmful: float = Field(default=0.1, ge=0, le=1)
    latency_ms: float = Field(default=0.0, ge=0, le=600_000)
    trajectory_bytes: int = Field(default=0, ge=0, le=1 << 24)


class _TaskFacts(NamedTuple):
    topics: frozenset[str]
    answer: str
    digest: bytes


class _SkillFacts(NamedTuple):
    taught: frozenset[str]
    n_tokens: int


class Simulated:
    """Answers calls as the world has it; equal calls are answered equally, different draws independently."""

    deferred = False
    concurrency = 40

    def __init__(self, options: SimulatedOptions) -> None:
        # Latency changes no answer: a run may be resumed with another.
        self.name = SimulatedOptions(**options.model_dump(exclude={"latency_ms"}, exclude_unset=True)).spell()
        self.fingerprint = options.identity()
        self._options = options
        self._world = World(options.model, options.seed, options.noise)
        self._proposer = Proposer(options.seed, options.helpful, options.harmful)
        self._latency_s = options.latency_ms / 1000
        self.is_instant = not self._latency_s
        self._seed = str(options.seed).encode()
        self._tasks: dict[str, _TaskFacts] = {}
        self._skills: dict[str, _SkillFacts] = {}
        self._filler = ""
        if options.trajectory_bytes:
            words = " ".join(Random("filler").choices(_WORDS, k=_FILLER_SHIFTS // 4))
            self._filler = words * ((_FILLER_SHIFTS + options.trajectory_bytes) // len(words) + 1)

    async def complete(self, call: Call) -> Reply:
        """Return the simulated answer. Raises BackendError for a question the simulation has no answer to."""
        if self._latency_s > 0:
            await asyncio.sleep(self._latency_s)
        request = call.request
        if isinstance(request, Rollout):
            return self._attempt(request, call.draw)
        text = self._proposer.answer(request, call.draw)
        n_asked = len(request.instructions) + len(request.evidence)
        return Reply(text, usage=Usage(n_asked // 4, len(text) // 4, 0.0, self._options.latency_ms))

    def worst_case(self, call: Call) -> Usage:
        """Return the most that answering `call` can use; a simulation is free."""
        request = call.request
        if isinstance(request, Rollout):
            n_in = self._facts_of(request.files).n_tokens + len(request.task.prompt) // 4
            return Usage(n_in, (self._options.trajectory_bytes + _MAX_ANSWER) // 4, 0.0)
        return Usage((len(request.instructions) + len(request.evidence)) // 4, _MAX_ANSWER, 0.0)

    def _attempt(self, request: Rollout, draw: str) -> Reply:
        prompt = request.task.prompt
        task = self._tasks.get(prompt)
        if task is None:
            if len(self._tasks) >= _MAX_REMEMBERED:
                self._tasks.clear()
            digest = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).digest()
            task = _TaskFacts(topics_of(prompt), right_answer(self._world.seed, prompt), digest)
            self._tasks[prompt] = task
        skill = self._facts_of(request.files)
        key = b"\0".join((self._seed, draw.encode(), request.files.digest.encode(), task.digest))
        chance = hashlib.sha256(key).digest()
        passed = int.from_bytes(chance[:8], "big") < self._world.pass_rate(skill.taught, task.topics) * (1 << 64)
        answer = task.answer
        if not passed:
            answer = amount(int(answer.replace(".", "")) + 1 + int.from_bytes(chance[12:16], "big") % 9_999)
        working = "I followed the skill line by line, wrote the calculation down and checked it. The result is "
        size = self._options.trajectory_bytes - len(prompt) - len(answer) - _FRAME - len(working)
        if size > 0:
            shift = int.from_bytes(chance[8:12], "big") % _FILLER_SHIFTS
            working = self._filler[shift : shift + size] + working
        usage = Usage(skill.n_tokens + len(prompt) // 4, len(working) // 4, 0.0, self._options.latency_ms)
        return Reply(answer, (Message("user", prompt), Message("assistant", working + answer)), usage)

    def _facts_of(self, files: SkillFiles) -> _SkillFacts:
        found = self._skills.get(files.digest)
        if found is None:
            if len(self._skills) >= _MAX_REMEMBERED:
                self._skills.clear()
            found = self._skills[files.digest] = _SkillFacts(taught_by(files.text), len(files.text) // 4)
        return found


@backend(
    "simulated",
    spec="simulated:honest",
    answers="a seeded world for trying things out; it solves none of your tasks (`demo` brings its own)",
    is_asked=False,
    resolve=lambda text, _: Resolved({"options": text}, is_usual=True),
)
def open_simulated(text: str) -> Simulated:
    """Return the simulation that "world,name=value,..." spells; the world is honest when left out.

    Raises BackendError for an unknown world or parameter, or a value out of range.
    """
    options = parse_options(text if text.partition(",")[0].strip() else f"honest{text}", SimulatedOptions)
    if options.helpful + options.harmful > 1:
        raise BackendError(f"helpful and harmful in 'simulated:{text}' add up to more than 1; lower one of them")
    return Simulated(options)
