"""Judge checks: how often the judge model of tasks agrees with answers that are known to pass or to fail."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from secrets import token_hex

from pydantic import BaseModel

from skillopt_mcp.actions.evals import LABELLED, Plan, Tried, read_answers, read_file
from skillopt_mcp.actions.tasks import parse_rows
from skillopt_mcp.backends.base import Backend
from skillopt_mcp.backends.wrappers import judges_for
from skillopt_mcp.core.calls import Role
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.evidence import Attempted
from skillopt_mcp.core.judging import Score
from skillopt_mcp.core.skills import Skill
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.judges.judging import judge_all, leaves, n_votes
from skillopt_mcp.tasks.splits import make_unstored
from skillopt_mcp.training.settings.reading import SplitPlan
from skillopt_mcp.workspace.costs import used_by
from skillopt_mcp.workspace.models import Models
from skillopt_mcp.workspace.place import Place

_MOST_RECORDED = 1_000
Labelled = Sequence[tuple[Attempted, bool]]


class JudgeAgreement(BaseModel):
    """How often a judge agreed with `n` labelled answers, what it said of others, and what that used in all.

    `false_passes` should fail, `false_fails` should pass; for `unscored` ones there was no usable reply.
    """

    n: int
    agree: int
    false_passes: int
    false_fails: int
    unscored: int
    used: str
    disagreements: list[Tried]


def read_tasks(store: Store, place: Place, path: Path, how: Plan) -> list[Task]:
    """The tasks of a file that can be used; of another tool's case what is left of it. Raises BadInput."""
    rows, _ = read_file(path, how if isinstance(how, SplitPlan) else replace(how, partial=True))
    new = parse_rows(rows, store if store.path.exists() else None, place.secrets).tasks.values()
    return [make_unstored(0, each, "train") for each in new]


def list_labelled(store: Store, skill: Skill | None, tasks: Sequence[Task], answers: Path | None) -> Labelled:
    """The answers that a model of these tasks' judges would judge, and whether each passes, without repeats.

    They come from the file `answers`, from recorded attempts with a score, and from what the judges themselves expect;
    where they differ, the first counts. Raises BadInput where there is none, or a row of the file is of no task.
    """
    labels = dict[tuple[str, str], bool]()
    names = dict.fromkeys(task.name for task in tasks)
    for name, answer, passes in read_answers(answers, names, has_labels=True) if answers else ():
        labels.setdefault((name, answer), passes)
    named = {task.prompt.strip(): task.name for task in tasks}
    for id in store.trajectories.recent_trajectories(skill.id, _MOST_RECORDED) if skill else ():
        recorded = store.trajectories.get_trajectory(id)
        if recorded and (name := named.get(recorded[1].prompt.strip(), "")):
            labels.setdefault((name, recorded[1].answer), bool(recorded[1].hard))
    for each in tasks:
        # A rubric expects no text of its own; where one stands next to a text that is expected, it has to accept that.
        for leaf in leaves(each.judge):
            for answer in leaf.references() if leaf.kind in ("exact", "f1", "anls") else ():
                labels.setdefault((each.name, answer), True)
    by_name = {task.name: task for task in tasks if n_votes(task)}
    found = list[tuple[Attempted, bool]]()
    for (name, answer), passes in labels.items():
        if task := by_name.get(name):
            # Its own draw, whatever else is checked with it: it is asked once.
            draw = hashlib.sha256(answer.encode("utf-8", "replace")).hexdigest()[:12]
            found.append((Attempted(task, answer, (), f"check/{task.digest[:12]}/{draw}"), passes))
    if not found:
        raise BadInput(
            f"no labelled answer of a task that a model judges: give some with --answers FILE, as {LABELLED}"
        )
    return found


def measure_judge(store: Store, models: Models, place: Place, labelled: Labelled) -> JudgeAgreement:
    """How often the judge says what the labels do. What was asked before is not asked again.

    Raises BackendError without a judge that can be asked, CapReached, Outage.
    """
    scope = f"check-{token_hex(6)}"
    attempts = [attempted for attempted, _ in labelled]
    judges = judges_for(store, [each.task for each in attempts], partial(models.backend, "judge"), place.redactor.text)
    backends: dict[Role, Backend] = {"judge": judges} if judges else {}
    models.check_caps(backends)
    outcomes = models.ask(scope, backends, lambda ask: judge_all(ask, attempts))
    differ = [
        Tried(case=each.task.name, passes=outcome.hard, why=outcome.reason)
        for (each, passes), outcome in zip(labelled, outcomes, strict=True)
        if isinstance(outcome, Score) and outcome.hard is not passes
    ]
    unscored = sum(not isinstance(each, Score) for each in outcomes)
    false_passes = sum(each.passes is True for each in differ)
    return JudgeAgreement(
        n=len(labelled), agree=len(labelled) - unscored - len(differ), unscored=unscored, disagreements=differ,
        false_passes=false_passes, false_fails=len(differ) - false_passes, used=str(used_by(store, scope)),
    )  # fmt: skip
