"""Notes in words: the caveats of results for a person."""

from __future__ import annotations

from skillopt_mcp.core.notes import Note

_IDS = " ({ids})"
_TEXTS = {
    "alike": "{n} of the tasks have nearly the prompt of another one with another answer" + _IDS,
    "duplicate": "{n} of the tasks have the prompt of another one" + _IDS,
    "duplicates": "{n} of the tasks are there already",
    "empty_splits": "no task is in {ids}",
    "fails_reference": "the judges of {n} of the tasks fail the answer that they expect" + _IDS,
    "few_held_out": "{n} of the tasks are held out; {enough} or more can prove small gains",
    "leak": "{n} of the tasks have nearly the prompt of one in another split" + _IDS,
    "live_changed": "the live files of {ids} are not what the last change left: edited since, or the store is older",
    "live_unreadable": "the live files of {ids} cannot be read",
    "near_duplicate": "{n} of the tasks have nearly the prompt of another one" + _IDS,
    "near_train_tasks": "{n} of {of} held-out tasks have nearly the prompt of a train task",
    "never_opened": "the skill was opened in no attempt: nothing was compared",
    "passes_empty": "the judges of {n} of the tasks pass an empty answer" + _IDS,
    "passes_parrot": "the judges of {n} of the tasks pass the prompt as an answer" + _IDS,
    "promotion_unfinished": "promotion {ids} is not finished: the next use of the store finishes or undoes it",
    "rows_unchecked": "the rows were not checked",
    "shape_only": "the judges of {n} of the tasks look at the form of an answer alone, which promotes nothing" + _IDS,
    "unchecked": "{n} tasks were not checked: skillopt-mcp tasks check",
    "waiting": "{n} of the tasks are in train, whatever split they asked for, until a person has looked at them",
    "unknown_environment": "the environments that score {n} of the tasks are not installed" + _IDS,
}


def describe_note(note: Note) -> str:
    """Return a note as a sentence without its full stop; one whose code is unknown by its code."""
    numbers = {name: f"{value:,g}" for name, value in note.numbers.items()}
    ids = ", ".join(note.ids)
    if note.code not in _TEXTS:
        return f"{note.code}: {', '.join([*(f'{name} {value}' for name, value in numbers.items()), *note.ids])}"
    return _TEXTS[note.code].format(ids=ids, **numbers)
