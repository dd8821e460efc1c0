"""Rendering: records as the text that a model is shown, every piece of data inside a fence it cannot close."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel

from skillopt_mcp.core.calls import NO_TOOL_CALL, TOOL_CALL, Ask, Call, Message, Question, lends_threads
from skillopt_mcp.core.edits import Edit
from skillopt_mcp.core.evidence import Trajectory
from skillopt_mcp.core.replies import PROPOSALS, ProposalReply
from skillopt_mcp.core.skills import SkillFile, SkillFiles, is_memory
from skillopt_mcp.core.text import without_hidden
from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.documents.edits import rewritten
from skillopt_mcp.prompts.loading import Prompts, fill
from skillopt_mcp.prompts.parsing import parse_reply

TRAJECTORY_LIMIT = 12_000
MESSAGE_CHARACTERS = 20_000
# One message of a transcript may take this part of an attempt's limit: one of the agent or a person, and what a tool
# gave back. In the middle of a longer one only the lines stay that the judge quotes.
MESSAGE_SHARE, TOOL_SHARE = 15, 20
MIN_MESSAGE = 400
MAX_QUOTES, AROUND_QUOTE = 8, 100
MAX_NAME = 80
ASKED = "\n\n# What is asked of you\n\n"
"""Behind it the instructions of a question begin to differ from those of others about the same text."""
EVIDENCE = "## Evidence\n\n"
_CUT_END = "cut here ...]\n"
_GOES_ON = ", goes on]\n"
_BACKTICKS = re.compile(r"`{3,}")
_SECTION = re.compile(r"## (?!Evidence\n)[^\n]+\n\n(`{3,})\w+\n.*?\n\1\n\n", re.DOTALL)
_QUOTED = re.compile(r"""(["'`])(?=\S)([^"'`\n]{3,200}?)(?:\.\.\.)?\1|“([^“”\n]{3,200})”""")
OTHER = "other"
NEXT_TO = "## The other document, which this question is not about\n\n"
# What a question about one document of a run with two says of the other.
_OF_SKILL = (
    'Agents that use the skill also read the memory file "{memory}", in every session; it is shown below, and edited '
    "in questions of its own. Do not repeat or contradict it, and edit the skill alone."
)
_OF_MEMORY = (
    'Here "the skill" is the memory file "{memory}", which agents read in every session: it should be short, and hold '
    "whatever the task is. The skill that they use with it is the other document shown below, and is edited in "
    'questions of its own. Do not repeat or contradict it, and edit "{memory}" alone: leave out the path.'
)
_ORIGINS = {"user": "person", "assistant": "agent", TOOL_CALL: "agent calls", "tool": "tool"}
_OTHER = "other"
# What reads like the beginning of a message. Behind a line end, a literal, it is found ten times as fast as behind "^".
_HEADER = re.compile(r"\[(?=(?:person|agent|tool|other)\b)")
_HEADER_WITHIN = re.compile(rf"\n{_HEADER.pattern}")


def fence(text: str, label: str = "") -> str:
    """Return `text` in a code fence longer than any run of backticks in it, so that data cannot close its own fence."""
    marks = "```"
    if marks in text:
        marks = "`" * (max(map(len, _BACKTICKS.findall(text))) + 1)
    return f"{marks}{label}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{marks}"


def cut_middle(text: str, limit: int) -> str:
    """Return `text`, redacted before, in at most `limit` characters: the middle goes, and a line says how much went."""
    if len(text) <= limit:
        return text
    marker = f"\n[... {len(text) - limit:,} characters and more cut here ...]\n"
    keep = limit - len(marker)
    if keep <= 0:
        return text[:limit]
    head = keep // 2
    return text[:head] + marker + text[len(text) - (keep - head) :]


def cut_message(message: Message) -> Message:
    """Return a message, without secrets, as it is kept: the middle of a long one cut out, but of arguments: JSON."""
    is_said = message.role in ("assistant", "tool") and len(message.content) > MESSAGE_CHARACTERS
    return message._replace(content=cut_middle(message.content, MESSAGE_CHARACTERS)) if is_said else message


def shorten(text: str, limit: int, reason: str) -> str:
    """Return `text` without its middle where it is longer than `limit`, but for its lines that a judge's reason quotes.

    A quote is what stands in quotation marks, or a longer line of the reason; it adds its length and 2 AROUND_QUOTE at
    most.
    """
    if len(text) <= limit:
        return text
    lines = [line for line in map(str.strip, reason.splitlines()) if 12 <= len(line) <= 200]
    found = dict.fromkeys([*(match[2] or match[3] for match in _QUOTED.finditer(reason)), *lines])
    quotes = list(found)[:MAX_QUOTES]
    start, end = limit // 2, len(text) - (limit - limit // 2)
    spans = [(0, start)]
    for at, n in sorted((at, len(quote)) for quote in quotes if (at := text.find(quote, start, end)) >= 0):
        line_end = text.find("\n", at + n, end)
        last = min(line_end if line_end >= 0 else end, at + n + AROUND_QUOTE)
        spans.append((max(text.rfind("\n", start, at) + 1, start, at - AROUND_QUOTE), last))
    shown, reached = "", 0
    for first, last in (*spans, (end, len(text))):
        marker = f"\n[... {first - reached:,} characters left out ...]\n"
        is_gap = first - reached > len(marker)
        shown += f"{marker}{text[first:last]}" if is_gap else text[reached:last]
        reached = max(reached, last)
    return shown


def split_evidence(evidence: str) -> tuple[str, str, str]:
    """Return what `render_evidence` made in three parts: the skill with the notes on it, earlier steps, and the rest.

    The first is the same for all questions about a text, the second for those of a step. Other evidence is all rest.
    """
    ends = [0]
    while evidence.startswith("## Skill\n") and (found := _SECTION.match(evidence, ends[-1])):
        ends.append(found.end())
    known = ends[-2] if evidence.startswith("## Earlier steps\n", ends[-2] if len(ends) > 1 else 0) else ends[-1]
    return evidence[:known], evidence[known : ends[-1]], evidence[ends[-1] :]


def render_evidence(skill: str, body: str, notes: str = "", history: str = "", other: str = "") -> str:
    """Return the evidence of one question: the skill's whole text (anchors are copied from it), then `body`.

    Between them come the other document of the run, the optimizer's notes and what earlier steps tried, if any.
    """
    before = f"{NEXT_TO}{fence(other, OTHER)}\n\n" if other else ""
    before += f"## Notes from earlier epochs\n\n{fence(notes, 'notes')}\n\n" if notes else ""
    if history:
        before += f"## Earlier steps\n\n{fence(history, 'history')}\n\n"
    return f"## Skill\n\n{fence(skill, 'skill')}\n\n{before}{EVIDENCE}{body}\n"


def render_trajectories(trajectories: Sequence[Trajectory], limit: int = TRAJECTORY_LIMIT) -> str:
    """Return numbered trajectories, the data of each cut to `limit` characters; their ids are not shown."""
    if not trajectories:
        return "There are no trajectories."
    return "\n\n".join(_render_trajectory(number, each, limit) for number, each in enumerate(trajectories, start=1))


def render_contrasts(pairs: Sequence[tuple[Trajectory, Trajectory]], limit: int = TRAJECTORY_LIMIT) -> str:
    """Return pairs of attempts at one task, the failed one before the one that succeeded, numbered through."""
    parts = []
    for n, (failed, succeeded) in enumerate(pairs):
        attempts = (_render_trajectory(2 * n + 1, failed, limit), _render_trajectory(2 * n + 2, succeeded, limit))
        parts.append("\n\n".join((f"## Task {n + 1}, attempted twice", *attempts)))
    return "\n\n".join(parts)


def render_edits(edits: Sequence[Edit]) -> str:
    """Return the edits as a fenced JSON list, numbered from 1: the numbers that merge and rank answer with."""
    rows = []
    for number, edit in enumerate(edits, 1):
        row: dict[str, object] = {"number": number, "op": edit.op, "path": edit.path}
        row |= {name: text for name, text in (("target", edit.target), ("content", edit.content)) if text is not None}
        rows.append(row | {"support": edit.support, "from": _name_source(edit)})
    return _format_rows(rows)


def render_suggestions(suggestions: Sequence[Edit]) -> str:
    """Return suggestions as a fenced JSON list, numbered from 1."""
    rows = []
    for number, edit in enumerate(suggestions, 1):
        row: dict[str, object] = {"number": number, "instruction": edit.content}
        row |= {} if edit.target is None else {"where": edit.target}
        rows.append(row | {"support": edit.support, "from": _name_source(edit)})
    return _format_rows(rows)


def _format_rows(rows: Sequence[dict[str, object]]) -> str:
    return fence("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]", "json")


def render_rewrites(files: SkillFiles, rewrites: Sequence[Edit]) -> str:
    """Return whole texts of a skill, numbered from 1: each as its diff from `files`, or whole if that is less."""
    parts = []
    for number, each in enumerate(rewrites, start=1):
        text = each.content or ""
        diff = unified_diff(files, files.replaced(SkillFile(files.main_path, text.encode("utf-8", "replace"))), "skill")
        is_diff = diff.startswith("--- ") and len(diff) < len(text)
        shown = fence(diff, "diff") if is_diff else fence(text, "text")
        parts.append(f"### Text {number} (from {_name_source(each)}, support {each.support})\n{shown}")
    return "\n\n".join(parts)


def _render_trajectory(number: int, trajectory: Trajectory, limit: int) -> str:
    prompt = cut_middle(without_hidden(trajectory.prompt), limit // 4)
    reason = cut_middle(without_hidden(trajectory.reason), limit // 8)
    answer = cut_middle(shorten(without_hidden(trajectory.answer), limit // 4, reason), limit // 2)
    messages = [message for message in trajectory.messages if message != NO_TOOL_CALL]
    # Both are shown by themselves.
    if messages and messages[0].role == "user" and messages[0].content == trajectory.prompt:
        del messages[0]
    if messages and messages[-1].role == "assistant" and messages[-1].content.strip() == trajectory.answer.strip():
        del messages[-1]
    for n, message in enumerate(messages):
        share = TOOL_SHARE if message.role == "tool" else MESSAGE_SHARE
        content = shorten(without_hidden(message.content), max(MIN_MESSAGE, limit // share), reason)
        messages[n] = message._replace(content=content)
    transcript = _render_transcript(messages, limit - len(prompt) - len(answer) - len(reason))
    outcome = "unscored"
    if trajectory.hard is not None:
        soft = "" if trajectory.soft is None else f", soft score {trajectory.soft:.2f}"
        outcome = f"{'succeeded' if trajectory.hard else 'failed'}{soft}"
    parts = [f"### Trajectory {number} ({outcome})", fence(prompt, "task")]
    parts += [fence(text, label) for label, text in (("transcript", transcript), ("answer", answer)) if text]
    if reason:
        parts.append("What the judge says:\n" + fence(reason, "reason"))
    return "\n".join(parts)


def _render_transcript(messages: Sequence[Message], limit: int) -> str:
    """Return messages, each below the line that says whose it is; no message can write such a line.

    Where the middle is cut, the line is repeated for the message that continues behind the cut.
    """
    headers, shown = list[str](), list[str]()
    for message in messages:
        origin = _ORIGINS.get(message.role, _OTHER)
        if name := message.name or ("" if message.role in _ORIGINS else message.role):
            origin += " " + " ".join(without_hidden(name).replace("]", ")").split())[:MAX_NAME]
        headers.append(f"[{origin}]")
        shown.append(headers[-1] + _HEADER_WITHIN.sub("\n [", f"\n{message.content}"))
    whole = "\n\n".join(shown)
    if len(whole) <= limit:
        return whole
    longest = max(map(len, headers)) + len(_GOES_ON)
    cut = cut_middle(whole, max(limit - longest, 0))
    tail = cut.rpartition(_CUT_END)[2]
    if not cut.endswith(_CUT_END + tail) or _HEADER.match(tail):
        return cut
    starts = list(accumulate((len(each) + 2 for each in shown), initial=0))
    header = headers[min(bisect_right(starts, len(whole) - len(tail)), len(headers)) - 1]
    return cut[: len(cut) - len(tail)] + header.removesuffix("]") + _GOES_ON + tail


def _name_source(edit: Edit) -> str:
    return "failures" if edit.from_failure else "successes"


M = TypeVar("M", bound=BaseModel)
MAX_REASKS = 2
SHOWN = 200


@dataclass(frozen=True, slots=True)
class Parsed(Generic[M]):
    """A usable reply as `value`, or None with the `problem` and the beginning of what was answered."""

    value: M | None
    problem: str = ""


def ask_parsed(
    ask: Ask, calls: Sequence[Call], model: type[M], check: Callable[[int, M], str] | None = None,
    n_reasks: int = MAX_REASKS,
) -> list[Parsed[M]]:  # fmt: skip
    """Return the parsed reply to each call, asked together; unusable ones are asked again as child calls.

    `check` says what else is wrong with the parsed reply to the call of a number, and nothing ("") when it can be used.
    Where `ask` lends threads, what is asked again waits for no other call.
    """
    if len(calls) > 1 and lends_threads(ask):

        def ask_one(n: int) -> Parsed[M]:
            return ask_parsed(ask, [calls[n]], model, (lambda _, reply: check(n, reply)) if check else None)[0]

        return [each.result() for each in [ask.submit(partial(ask_one, n)) for n in range(len(calls))]]
    results: list[Parsed[M]] = [Parsed(None)] * len(calls)
    reasons: dict[int, str] = dict.fromkeys(range(len(calls)), "")
    for round_ in range(n_reasks + 1):
        if not reasons:
            break
        asked = []
        for i, reason in reasons.items():
            call = calls[i]
            if round_ and isinstance(call.request, Question):
                again = f"Your last answer could not be used ({reason}). Answer with the JSON object only."
                request = replace(call.request, instructions=f"{call.request.instructions}\n\n{again}")
                call = call._replace(request=request, draw=f"{call.draw}/again{round_}")
            asked.append(call)
        for i, reply in zip(list(reasons), ask(asked), strict=True):
            # A reply may hold half surrogate pairs, which no store takes.
            beginning = reply.text[:SHOWN].encode("utf-8", "backslashreplace").decode()
            if reply.missing:  # it stays so
                results[i], reasons[i] = Parsed(None, f"missing ({reply.fault}): {beginning}"), ""
                continue
            parsed = parse_reply(reply.text, model)
            reason = parsed if isinstance(parsed, str) else check(i, parsed) if check else ""
            if isinstance(parsed, str) or reason:
                results[i] = Parsed(None, f"{reason}: {beginning}")
            else:
                results[i] = Parsed(parsed)
            reasons[i] = reason
        reasons = {i: reason for i, reason in reasons.items() if reason}
    return results


UpdateMode = Literal["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"]
Group = Literal["failure", "success", "contrast"]


@dataclass(frozen=True, slots=True)
class Form:
    """How changes are asked for and shown in one update mode. Names are those of prompts and of reply schemas.

    `rules` is the prompt that says what a change is held to, `analyst` has those for failures, successes and contrasts,
    `merge` those for failures, successes and the final merge; `whole`: each proposal is a whole text, and one stays
    (`render_rewrites`).
    """

    reply: str
    rules: str
    analyst: tuple[str, str, str]
    merge_reply: str
    merge: tuple[str, str, str]
    rank: str
    render: Callable[[Sequence[Edit]], str]
    whole: bool = False

    def analyst_reply(self, *, aware: bool) -> tuple[str, type[ProposalReply]]:
        """Return schema and model of what an analyst answers."""
        name = f"aware_{self.reply}" if aware else self.reply
        return name, PROPOSALS[name]

    def problem(self, files: SkillFiles, reply: ProposalReply) -> str:
        """Return why a reply cannot be used with this skill: a whole text may not change what is protected."""
        texts = [edit.content or "" for edit in reply.proposals()] if self.whole else []
        return next((found for text in texts if isinstance(found := rewritten(files, text), str)), "")


FORMS: dict[UpdateMode, Form] = {
    "patch": Form(
        "patch", "edit_rules", ("analyst_failure", "analyst_success", "analyst_contrast"),
        "merge", ("merge_failure", "merge_success", "merge_final"), "rank", render_edits,
    ),
    "rewrite_from_suggestions": Form(
        "suggest", "suggestion_rules", ("suggest_failure", "suggest_success", "suggest_contrast"),
        "merge_suggestions", ("merge_suggestions",) * 3, "rank_suggestions", render_suggestions,
    ),
    "full_rewrite_minibatch": Form(
        "rewrite", "rewrite_rules", ("rewrite_failure", "rewrite_success", "rewrite_contrast"),
        "merge_rewrites", ("merge_rewrites",) * 3, "rank", render_edits, whole=True,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Brief:
    """What the questions of one step share: prompts, edit budget, draw, update mode, and what is remembered.

    `notes` are the optimizer's own from earlier epochs, `history` is what earlier steps tried; `other` is the other
    document of a run that trains two.
    """

    prompts: Prompts
    budget: int
    draw: str
    mode: UpdateMode = "patch"
    notes: str = ""
    history: str = ""
    other: SkillFiles | None = None

    @property
    def form(self) -> Form:
        """Return the form of the update mode."""
        return FORMS[self.mode]

    def instructions(self, *names: str) -> str:
        """Return the prompts of these names, one after the other, with this step's budget in them."""
        return "\n".join(fill(getattr(self.prompts, name), budget=self.budget) for name in names)

    def question(
        self, files: SkillFiles, instructions: str, body: str, schema: str, refs: tuple[str, ...] = ()
    ) -> Question:
        """Return a question about a skill with `body` as its evidence, and with what is remembered.

        All questions of a step begin alike, so that a vendor reads that from its cache: with the preamble, the rules,
        the skill and what is remembered (`split_evidence`).
        """
        other = self.other.text if self.other else ""
        before = self.instructions("preamble", self.form.rules).rstrip()
        if self.other:
            form, memory = (_OF_SKILL, self.other) if is_memory(self.other.main_path) else (_OF_MEMORY, files)
            before = f"{before}\n\n{form.format(memory=memory.main_path)}"
        evidence = render_evidence(files.text, body, self.notes, self.history, other)
        return Question(f"{before}{ASKED}{instructions}", evidence, schema, refs)
