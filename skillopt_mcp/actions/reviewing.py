"""Reviewing: the tasks that no person has looked at, as cards; a person keeps, corrects or drops each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from inspect import getdoc

from skillopt_mcp.core.errors import BadInput, NotFound
from skillopt_mcp.core.judging import judge_json
from skillopt_mcp.core.mining import Draft
from skillopt_mcp.core.tasks import NewTask, Task
from skillopt_mcp.core.text import quoted, storable
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.drafts import find_faults, is_shown
from skillopt_mcp.tasks.formats.rows import make_row, parse_task
from skillopt_mcp.tasks.judges.checking import check_usable, decides_by_answer, passes
from skillopt_mcp.tasks.judges.judging import leaves
from skillopt_mcp.tasks.splits import DEFAULT_SHARES, Placed
from skillopt_mcp.workspace.place import Place

ANSWERS = ("accepted", "rejected", "correction")
"""What a draft has besides its task; of these a card may show a part, of all else the whole."""


@dataclass(frozen=True, slots=True)
class ReviewCard:
    """A task to look at, the draft that it was mined as, and what is shown of it: titles and texts in their order."""

    task: Task
    draft: Draft | None
    sections: tuple[tuple[str, str], ...]

    @property
    def as_json(self) -> str:
        """What a person edits to correct it."""
        row = make_row(self.task)
        row.pop("split")
        answers = {name: getattr(self.draft, name) for name in ANSWERS} if self.draft else {}
        return json.dumps(row | answers, indent=2, ensure_ascii=False) + "\n"


def list_cards(store: Store, place: Place, skill: str) -> list[ReviewCard]:
    """The tasks in use that no person has looked at, in the order in which they were added. Raises NotFound."""
    skill_id = place.find_kept(skill).id
    unseen = [task for task in store.tasks.list_in_use(skill_id) if not task.looked_at]
    drafts = store.tasks.list_drafts(skill_id) if unseen else {}
    waiting = {task.id: drafts[task.id] for task in unseen if task.id in drafts}
    faults = find_faults(waiting, {}, [each.name for each in store.commands.list_commands()], place.secrets)
    return [
        ReviewCard(task, drafts.get(task.id), _describe(drafts.get(task.id) or task, faults.get(task.id, "")))
        for task in unseen
    ]


def _describe(shown: Task | Draft | NewTask, fault: str) -> tuple[tuple[str, str], ...]:
    """What a person looks at of a task: all that can change a verdict, and what the machine makes of its judge."""
    task = shown.task if isinstance(shown, Draft) else shown
    files = [(f"File {file.path}", file.content) for file in task.files]
    sections = [("Prompt", task.prompt), *files]
    checks = dict[str, bool]()
    if isinstance(shown, Draft):
        sections += [(name.capitalize(), text) for name in ANSWERS if (text := getattr(shown, name))]
        if shown.accepted:
            checks["the accepted answer passes"] = passes(task.judge, shown.accepted)
        if shown.rejected:
            checks["the rejected one fails"] = not passes(task.judge, shown.rejected)
    asked = "\n".join([task.prompt, *(text for _, text in files)])
    checks["an empty one fails"] = not passes(task.judge, "")
    checks["the prompt fails"] = not passes(task.judge, asked)
    checks["no key in prompt or files"] = not is_shown(task.judge, asked)
    made = "; ".join(f"{what}: {'yes' if is_so else 'NO'}" for what, is_so in checks.items())
    if not decides_by_answer(task.judge):
        made = "none: its judge asks a model or a program, or looks at what was recorded"
    words = dict.fromkeys(" ".join((getdoc(leaf) or "").split("\n\n")[0].split()) for leaf in leaves(task.judge))
    sections += [("Judge", f"{judge_json(task.judge)}\n{'; '.join(words)}"), ("Checks", made)]
    more = {"Fault": fault, "Tags": ", ".join(task.tags), "Group": task.group}
    if isinstance(shown, Draft):
        more["Drafted from"] = f"{shown.source}: {shown.origin}"
    return (*sections, *((title, text) for title, text in more.items() if text))


def keep_tasks(store: Store, place: Place, tasks: Sequence[Task]) -> list[Placed]:
    """Mark tasks as looked at by the person who keeps them; the split of those that waited is drawn now."""
    new = [NewTask(task.prompt, task.judge, task.name, None, task.tags, task.files, task.group) for task in tasks]
    return store.tasks.add_tasks(tasks[0].skill_id, new, DEFAULT_SHARES, login=place.login) if tasks else []


def find_unseen(store: Store, place: Place, skill: str, ids: Sequence[str]) -> list[Task]:
    """The tasks of these ids that no person has looked at. Raises NotFound for another id."""
    unseen = {card.task.name: card.task for card in list_cards(store, place, skill)}
    if unknown := [each for each in ids if each not in unseen]:
        raise NotFound(f"no task {quoted(unknown[0])} waits for a look: skillopt-mcp tasks list shows all")
    return [unseen[each] for each in dict.fromkeys(ids)]


def read_correction(store: Store, place: Place, card: ReviewCard, text: str) -> ReviewCard:
    """The card of a task as a person has edited it, not stored. Raises BadInput where it is no task to be used."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"this is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise BadInput("a task is a JSON object")
    answers = {name: value.pop(name, "") for name in ANSWERS} if card.draft else {}
    if strange := [name for name, each in answers.items() if not isinstance(each, str)]:
        raise BadInput(f"{strange[0]} must be a text")
    task, registered = parse_task(value), [each.name for each in store.commands.list_commands()]
    check_usable(task, registered, place.secrets)
    draft, fault = None, ""
    if card.draft:
        accepted, rejected, correction = (place.redactor.text(storable(each)) for each in answers.values())
        draft = replace(card.draft, task=task, accepted=accepted, rejected=rejected, correction=correction)
        fault = find_faults({0: draft}, {}, registered, place.secrets).get(0, "")
    made = replace(
        card.task, name=task.name or card.task.name, prompt=task.prompt, judge=task.judge, tags=task.tags,
        files=task.files, group=task.group, split=task.split or card.task.split, digest=task.digest,
    )  # fmt: skip
    return ReviewCard(made, draft, _describe(draft or task, fault))


def correct_task(store: Store, place: Place, card: ReviewCard, corrected: ReviewCard) -> Placed:
    """Store a task as a person corrected it, looked at, in place of the one that it was, in one step.

    It stays in train where a run has learned from what it was. Raises BadInput where it cannot be added; then all is as
    it was.
    """
    old, new = card.task, corrected.task
    task = NewTask(new.prompt, new.judge, new.name, None, new.tags, new.files, new.group)
    given = replace(corrected.draft, task=task) if corrected.draft else task
    return store.tasks.add_tasks(old.skill_id, [given], DEFAULT_SHARES, login=place.login, corrects=old.id)[0]
