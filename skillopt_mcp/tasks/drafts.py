"""Drafts: what tasks are drafted about, and what a machine finds wrong with them without a run. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Judge
from skillopt_mcp.core.mining import Draft, Source
from skillopt_mcp.core.redacting import KnownSecrets
from skillopt_mcp.core.replies import DraftedTask
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.documents.frontmatter import body_of
from skillopt_mcp.documents.markdown import fenced_code
from skillopt_mcp.tasks.formats.rows import parse_task
from skillopt_mcp.tasks.judges.base import on_one_line, quoted
from skillopt_mcp.tasks.judges.checking import check_usable, decides_by_answer, families, passes
from skillopt_mcp.tasks.judges.kinds.final_answer import FinalAnswer
from skillopt_mcp.tasks.judges.kinds.json_value import Json, found_values
from skillopt_mcp.tasks.judges.kinds.text import Contains
from skillopt_mcp.tasks.splits import default_name

MAX_PER_SUBJECT = 6
SPREAD = 3  # tasks of one tag, of which one is for training
_MIN_WORDS = 4
_HEADING = re.compile(r"^#{1,6}[ \t]+(.*?)[ \t]*#*$", re.MULTILINE)
_ITEM = re.compile(r"^\s*(?:[-*+]|\d{1,9}[.)])\s+", re.MULTILINE)
_BREAK = re.compile(r"\n\s*\n|\n(?=(?:[-*+]|\d{1,9}[.)])\s)")
_WORD = re.compile(r"[^\W_]{4,}")
_TAG_WORDS = 3
_MAX_ORIGIN = 200
# By the kind that a model names: the judge, and its field for what is expected.
_JUDGES = {
    "exact": ("final_answer", "expected"), "contains": ("contains", "expected"), "json": ("json", "fields"),
    "regex": ("regex", "pattern"), "command": ("command", "name"), "rubric": ("rubric", "points"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Subject:
    """What one task is drafted about: a rule, a complaint, or an episode with the answers that are known of it.

    `nth`: which of the tasks on the same it is, from 1.
    """

    source: Source
    origin: str
    text: str
    tag: str = ""
    accepted: str = ""
    rejected: str = ""
    correction: str = ""
    nth: int = 1


def list_rules(text: str) -> list[tuple[str, str]]:
    """The rules of a skill's text, as (heading, rule): items of lists and paragraphs, without code and short lines."""
    content = body_of(text).encode("utf-8", "surrogatepass")
    for block in reversed(fenced_code(content, 0)):
        content = content[: block.start] + b"\n" + content[block.end :]
    heading, found = "", dict[tuple[str, str], None]()
    for part in _BREAK.split(_HEADING.sub(r"\n\n\g<0>\n\n", content.decode("utf-8", "replace"))):
        rule = " ".join(_ITEM.sub("", part).split())
        if marked := _HEADING.fullmatch(part.strip()):
            heading = marked[1]
        elif len(rule.split()) >= _MIN_WORDS and not rule.endswith(":"):
            found[heading, rule] = None
    return list(found)


def plan_subjects(text: str, complaints: Sequence[str], n_tasks: int) -> list[Subject]:
    """What `n_tasks` tasks are drafted about: each complaint, then each rule of a skill's text, as often as it takes.

    Each has a tag of its own where that leaves a tag enough tasks for both sides of a split, else that of its heading.
    """
    given = [("", each, f"complaint: {each}") for each in complaints]
    given += [(heading, rule, f"rule: {rule}") for heading, rule in list_rules(text)]
    has_own = len(given) * SPREAD <= n_tasks
    subjects, used = list[Subject](), Counter[str]()
    for n, (heading, rule, origin) in enumerate(given[:n_tasks], 1):
        is_own = has_own or n <= len(complaints)
        words = islice(_WORD.findall((rule if is_own else heading or "rules").lower()), _TAG_WORDS)
        tag = "-".join(words) or (f"rule-{n}" if is_own else "rules")
        used[tag] += is_own
        tag += f"-{used[tag]}" if used[tag] > 1 else ""
        subjects.append(Subject("skill", origin[:_MAX_ORIGIN], rule, tag))
    n_each, more = divmod(n_tasks, len(subjects) or 1)
    counts = [min(MAX_PER_SUBJECT, n_each + (n < more)) for n in range(len(subjects))]
    return [replace(subject, nth=k + 1) for subject, n in zip(subjects, counts, strict=True) for k in range(n)]


def make_draft(drafted: DraftedTask, subject: Subject, tags: Collection[str]) -> Draft:
    """The draft of a model's reply on a subject. Raises BadInput where it is no task."""
    kind, expected = drafted.kind.strip().lower(), [each for each in drafted.expected if each.strip()]
    if kind not in _JUDGES or not expected:
        why = (
            "`expected` is empty"
            if kind in _JUDGES
            else f"unknown kind {quoted(kind)}; use one of {', '.join(_JUDGES)}"
        )
        raise BadInput(why)
    name, field = _JUDGES[kind]
    value: object = expected if field in ("expected", "points") else expected[0]
    if field == "fields":
        try:
            value = json.loads(expected[0])
        except (ValueError, RecursionError) as error:
            raise BadInput("`expected` of a json judge is no JSON object of paths and values") from error
    tag = subject.tag or (drafted.tag if drafted.tag in tags else subject.source)
    task = parse_task({
        "prompt": drafted.prompt, "judge": {"kind": name, field: value}, "tags": [tag],
        "files": {file.path: file.content for file in drafted.files},
    })  # fmt: skip
    # Of a session, what the person took or rejected is known; else the model says it.
    accepted = drafted.accepted if drafted.accepted.strip() else subject.accepted
    rejected = subject.rejected or ("" if subject.source == "sessions" else drafted.rejected)
    return Draft(task, subject.source, subject.origin, accepted, rejected, subject.correction)


def find_faults(
    drafts: Mapping[int, Draft], known: Mapping[int, str], registered: Collection[str], secrets: KnownSecrets
) -> dict[int, str]:
    """What is wrong with drafts, by their numbers: the first fault of each; `known` are further answers that are right.

    The judge has to pass what is accepted, reworded too, and to fail what is rejected, nothing, the question, and what
    other tasks expect. Nothing is asked, and no program is run.
    """
    keys = {n: {on_one_line(key) for key in draft.task.judge.references()} for n, draft in drafts.items()}
    found = dict[int, str]()
    for n, draft in drafts.items():
        others = {key for other, theirs in keys.items() if other != n for key in theirs} - keys[n]
        try:
            check_usable(draft.task, registered, secrets)
            found[n] = _find_fault(draft, known.get(n, ""), others) if decides_by_answer(draft.task.judge) else ""
        except BadInput as error:
            found[n] = str(error)
    return {n: fault for n, fault in found.items() if fault}


def _find_fault(draft: Draft, known: str, others: Iterable[str]) -> str:
    task, judge, accepted = draft.task, draft.task.judge, draft.accepted.strip()
    shown = [task.prompt, *(file.content for file in task.files)]
    if judge.is_form_only() or passes(judge, ""):
        return "an empty answer passes" if passes(judge, "") else "only the form of an answer is judged"
    if any(passes(judge, text) for text in [*shown, "\n".join(shown)]) or is_shown(judge, "\n".join(shown)):
        return "what is expected stands in the prompt or in a file"
    # What says the same in other words.
    reworded = {"": accepted, " after a sentence": f"Here is the answer:\n\n{accepted}"}
    if isinstance(judge, Json):
        for value in found_values(accepted):
            reworded[" in another layout"] = json.dumps(value, indent=3)
            reworded[" in a code fence"] = f"```json\n{json.dumps(value)}\n```"
    else:
        reworded |= {" in capitals": accepted.upper(), " with a point after it": f"{accepted.rstrip('.')}."}
    for what, text in reworded.items():
        if not (accepted and passes(judge, text)):
            return f"the judge fails the `accepted` answer{what}" if accepted else "`accepted` is empty"
    if known and not passes(judge, known):
        return "the judge fails the answer that the person accepted"
    if draft.source == "skill" and not draft.rejected.strip():
        return "`rejected` is empty"
    if draft.rejected and passes(judge, draft.rejected):
        return "the judge passes the `rejected` answer"
    return "what another task expects passes" if any(passes(judge, key) for key in others) else ""


def find_doubts(drafts: Mapping[int, Draft], subjects: Sequence[Subject]) -> dict[int, str]:
    """Which drafts, by the numbers of their subjects, expect a text of another rule: mostly a wrong key.

    It stands not in the draft's own rule, and no further draft on that expects it.
    """
    keys = {n: {on_one_line(text) for text in each.task.judge.texts} for n, each in drafts.items()
            if isinstance(each.task.judge, Contains) and each.source == "skill"}  # fmt: skip
    rules = {each.origin: on_one_line(each.text) for each in subjects if each.source == "skill"}
    found = dict[int, str]()
    for n, texts in keys.items():
        own = drafts[n].origin
        agreed = {key for other, theirs in keys.items() if other != n and drafts[other].origin == own for key in theirs}
        for key in sorted(texts - agreed):
            where = {origin for origin, rule in rules.items() if re.search(rf"(?<!\w){re.escape(key)}(?!\w)", rule)}
            if where and own not in where:
                found[n] = f"it expects {quoted(key)}, which another rule asks for; expect it again if that is right"
    return found


def is_shown(judge: Judge, text: str) -> bool:
    """Whether a short answer that a judge expects stands in a text, as words of its own."""
    keys, line = judge.texts if isinstance(judge, FinalAnswer) else (), on_one_line(text)
    return any(re.search(rf"(?<!\w){re.escape(on_one_line(key))}(?!\w)", line) for key in keys)


def group_variants(drafts: Mapping[int, Draft], stored: Sequence[Task]) -> tuple[dict[int, Draft], dict[int, str]]:
    """Drafts with near duplicates put into one group, and what is wrong with those that are nearly stored tasks.

    One that is stored already is neither.
    """
    digests = {task.digest for task in stored}
    tasks = [
        Task(-1 - n, 0, default_name(each.task), each.task.prompt, each.task.judge, "train", each.task.digest,
             files=each.task.files)
        for n, each in drafts.items() if each.task.digest not in digests
    ]  # fmt: skip
    grouped, faults = dict(drafts), dict[int, str]()
    for family in families([*tasks, *(replace(task, looked_at=False) for task in stored)]):
        numbers = [-1 - task.id for task in family if task.id < 0]
        if len(numbers) < len(family):
            faults |= dict.fromkeys(numbers, "nearly the same as a stored task")
        elif len(numbers) > 1:
            group = f"draft-{drafts[numbers[0]].task.digest[:8]}"
            for n in numbers:
                grouped[n] = replace(drafts[n], task=replace(drafts[n].task, group=group))
    return {n: each for n, each in grouped.items() if n not in faults}, faults
