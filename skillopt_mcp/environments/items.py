"""Items: rows of question answering data sets, and the tasks that they become."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.environments.decoding import Repeated
from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.specs import check_spec
from skillopt_mcp.records.calls import storable
from skillopt_mcp.records.judging import F1
from skillopt_mcp.records.tasks import QUESTION, QUESTION_ENDING, NewTask, Split

DEFAULT_TYPE = "qa"
_ANSWERS = ("answers", "answer", "ground_truth")
_FIELDS = frozenset({"id", "question", "context", "task_type", "task_description", "split", *_ANSWERS})


def is_question(item: object) -> bool:
    """Return whether a row is one of a question answering data set. Raises BadInput where a key comes twice in it."""
    if isinstance(item, Repeated):
        raise BadInput(
            f"the key {quoted(item.key)} comes twice in one object, and JSON would keep the last: leave one out"
        )
    return isinstance(item, Mapping) and "question" in item and "judge" not in item


def question_task(item: Mapping[str, object], split: Split | None = None) -> NewTask:
    """Return the task of a row {question, answers, context?, task_type?, id?}. Raises BadInput with what to change.

    Hard is exact match and soft the token F1, both as SQuAD normalises them. The prompt never holds an answer field.
    """
    unknown = sorted(str(name) for name in item if name not in _FIELDS)
    if unknown:
        raise BadInput(f"unknown field {quoted(unknown[0])}: a question has {', '.join(sorted(_FIELDS))}")
    question = _text(item, "question")
    if not question.strip():
        raise BadInput("the question is empty: say what is asked")
    context = _text(item, "context")
    parts = [f"Context:\n{context}"] if context.strip() else []
    judge = F1(kind="f1", expected=_answers(item), exact=True)
    check_spec(judge)
    name = item.get("id")
    return NewTask(
        prompt=storable("\n\n".join([*parts, f"{QUESTION}{question}", QUESTION_ENDING])),
        judge=judge,
        name=storable(str(name)) if name not in (None, "") else None,
        split=split,
        tags=(storable(_text(item, "task_type")) or DEFAULT_TYPE,),
    )


def _answers(item: Mapping[str, object]) -> str | list[str]:
    given = next((item[name] for name in _ANSWERS if item.get(name) not in (None, "", [])), None)
    if isinstance(given, str) and given.lstrip().startswith("["):
        given = _listed(given)
    texts = [given] if isinstance(given, str | int | float) else given
    if isinstance(texts, Sequence) and texts and all(isinstance(each, str | int | float) for each in texts):
        answers = [storable(str(each)) for each in texts]
        return answers[0] if len(answers) == 1 else answers
    raise BadInput("the question has no answers: give answers, a list of texts any one of which is right")


def _listed(text: str) -> object:
    """Return the list that a cell of a table holds as JSON, or the text itself when it is none."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, list) else text


def _text(item: Mapping[str, object], name: str) -> str:
    value = item.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadInput(f"{name} must be a text")
    return value
