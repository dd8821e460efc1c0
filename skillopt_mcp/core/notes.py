"""Notes: the caveats of results, as codes with numbers, and in words for a person."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.core.calls import Call, Reply
from skillopt_mcp.core.errors import Stopped
from skillopt_mcp.core.evidence import Trial


class Note(BaseModel):
    """One caveat: a code such as `near_train_tasks`, its numbers by name, the ids that it is about, and a way out."""

    model_config = ConfigDict(frozen=True)
    code: str
    numbers: dict[str, float] = Field(default_factory=dict)
    ids: list[str] = Field(default_factory=list)
    advice: str = ""


_IDS = " ({ids})"
_TEXTS = {
    "copies": "attempts 2 to {n} at a task were copies of its first, word for word: {advice}",
    "alike": "{n} of the tasks have nearly the prompt of another one with another answer" + _IDS,
    "duplicate": "{n} of the tasks have the prompt of another one" + _IDS,
    "duplicates": "{n} of the tasks are there already",
    "fails_reference": "the judges of {n} of the tasks fail the answer that they expect" + _IDS,
    "few_held_out": "{n} of the tasks are held out, {train} in train; {enough} or more held out can prove small gains",
    "host_command": "the prompts of {n} of the tasks are commands of Claude Code, which may answer itself" + _IDS,
    "judged_in_part": "{n} of the tasks are judged in part: graders of their owner are left out",
    "leak": "{n} of the tasks have nearly the prompt of one in another split" + _IDS,
    "left_out": "{n} held-out tasks are left out: they ask whether the skill opens, and this target is shown its text",
    "live_changed": "the live files of {ids} are not what the last change left: edited since, or the store is older",
    "live_unreadable": "the live files of {ids} cannot be read",
    "mixed": "{n} of {of} tasks ask whether the skill opens, the others for an answer",
    "near_duplicate": "{n} of the tasks have nearly the prompt of another one" + _IDS,
    "near_train_tasks": "{n} of {of} held-out tasks have nearly the prompt of a train task",
    "never_opened": "the skill was opened in no attempt: nothing was compared",
    "no_held_out_of_tag": "no held-out task of {tags}: add one, or no test shows a gain in it",
    "no_train_of_tag": "no train task of {tags}: add one, or no edit is learned for it",
    "passes_empty": "the judges of {n} of the tasks pass an empty answer" + _IDS,
    "passes_parrot": "the judges of {n} of the tasks pass the prompt as an answer" + _IDS,
    "program": "the judge programs of {n} of the tasks cannot be run, or pass an empty answer or the prompt" + _IDS,
    "promotion_unfinished": "promotion {ids} is not finished: the next use of the store finishes or undoes it",
    "rows_unchecked": "the rows were not checked",
    "shape_only": "the judges of {n} of the tasks look at the form of an answer alone, which promotes nothing" + _IDS,
    "unanswered": "{n} of the first {of} answers {ids}: {advice}",
    "unchecked": "{n} tasks were not checked: skillopt-mcp tasks check",
    "waiting": "{n} of the tasks are in train, whatever split they asked for, until a person has looked at them",
    "unknown_environment": "the environments that score {n} of the tasks are not installed" + _IDS,
}

WITHOUT = {
    "truncated": "cut off", "refusal": "refused", "empty": "empty", "timeout": "timed out",
    "malformed": "could not be read", "context_too_long": "too long for the model", "internal": "given up",
}  # fmt: skip
"""What became of an attempt that its target left without an answer."""
# Where the words of the backend may repeat a held-out task.
_ADVICE = {"refusal": "reword the tasks, or leave them out", "internal": "do one of the tasks by hand to see why"}
_WARNED = 3


def note_unanswered(faults: Mapping[str, tuple[int, str]]) -> list[Note]:
    """The notes of how many of a target's answers are missing by faults of its own, and what to do.

    `faults` are the number of answers, and the backend's words on one of them, by fault ("": an answer came).
    """
    numbers = {"of": sum(n for n, _ in faults.values())}
    return [
        Note(code="unanswered", numbers={"n": n, **numbers}, ids=[WITHOUT[fault]], advice=_ADVICE.get(fault, words))
        for fault, (n, words) in faults.items()
        if fault in WITHOUT
    ]


def note_copies(trials: Iterable[Trial]) -> list[Note]:
    """A note where all attempts at a task gave one answer, at each of the tasks; one attempt at a task says nothing."""
    answers = defaultdict[int, list[str]](list)
    for each in trials:
        answers[each.task.id].append(each.reply.text)
    repeated = [texts for texts in answers.values() if len(texts) > 1]
    if not repeated or any(len(set(texts)) > 1 for texts in repeated):
        return []
    advice = "the target repeats itself (a seed, a temperature of 0, a cache), so one attempt says as much"
    return [Note(code="copies", numbers={"n": max(map(len, repeated))}, advice=advice)]


def warn_unanswered(
    warn: Callable[[str], None], is_stopped: Callable[[], bool] = bool
) -> Callable[[Call, Reply], None]:
    """A callback of replies that warns of a fault of the target's own when it has come three times.

    Once `is_stopped` says so, it raises Stopped.
    """
    n_of = Counter[str]()

    def on_reply(call: Call, reply: Reply) -> None:
        fault = reply.fault or ""
        n_of[fault] += call.stage == "rollout"
        if call.stage == "rollout" and n_of[fault] == _WARNED:
            for note in note_unanswered({fault: (_WARNED, reply.text), "": (n_of.total() - _WARNED, "")}):
                warn(describe_note(note))
        if is_stopped():
            raise Stopped("interrupted; the same call continues")

    return on_reply


def describe_note(note: Note) -> str:
    """Return a note as a sentence without its full stop; one whose code is unknown by its code."""
    numbers = {name: f"{value:,g}" for name, value in note.numbers.items()}
    ids = ", ".join(note.ids)
    if note.code not in _TEXTS:
        return f"{note.code}: {', '.join([*(f'{name} {value}' for name, value in numbers.items()), *note.ids])}"
    tags = ", ".join(f"`{each}`" for each in note.ids)
    return _TEXTS[note.code].format(ids=ids, tags=tags, advice=note.advice, **numbers)
