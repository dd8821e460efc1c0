"""Baselines: how many of its tasks the live text of a skill solves now. No verdict rests on that."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_mcp.actions.next_steps import advise_skill
from skillopt_mcp.backends.arrivals import check_arrivals
from skillopt_mcp.core.calls import Ask, Role, Rollout
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.evidence import Trial, Triggering
from skillopt_mcp.core.notes import Note, note_copies, note_unanswered
from skillopt_mcp.core.results import Baseline
from skillopt_mcp.core.skills import Skill, short
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.gates.promotion import MAX_PASSES
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.promotion_tests import baseline_id
from skillopt_mcp.tasks.judges.judging import n_votes
from skillopt_mcp.tasks.judges.kinds.combined import Partial
from skillopt_mcp.tasks.judges.kinds.opens import Opens
from skillopt_mcp.training.promotion_test import held_out
from skillopt_mcp.training.stages.rollout import PlannedRollout, rollout
from skillopt_mcp.workspace.evidence import evidence_of, kind_of_test
from skillopt_mcp.workspace.models import Models
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skills import check_merged


def estimate_baseline(store: Store, models: Models, place: Place, name: str, attempts: int) -> dict[Role, int]:
    """The calls that a baseline still asks of each role at most. Raises BadInput, NotFound, BadSkill."""
    _, tasks, scope = _place_baseline(store, models, place, name, attempts)
    found = store.tests.scores_in_baseline(scope)
    missing = [(task, max(0, attempts - len(found.get(task.id, ())))) for task in tasks]
    return {"target": sum(n for _, n in missing), "judge": sum(n * n_votes(task) for task, n in missing)}


def measure_baseline(store: Store, models: Models, place: Place, name: str, attempts: int) -> Baseline:
    """A baseline of so many attempts at each task with the live text; those that it has serve again.

    The attempts at train tasks are what the next proposal learns from; the others feed the forecast of a promotion test
    and its pilot. Raises BadInput where the skill has no task, CapReached, Outage where nothing comes.
    """
    skill, tasks, scope = _place_baseline(store, models, place, name, attempts)
    files = store.skills.get_files(skill.id, skill.live_version)
    check_merged(files)
    backends = models.ready_for(tasks)
    check_arrivals(store, backends["target"], [Rollout(files, task) for task in tasks])
    models.note_caller(scope, tasks)
    made, openings = list[Trial](), list[tuple[bool, bool]]()

    def attempt(ask: Ask) -> None:
        for n in range(attempts):
            trials = rollout(ask, [PlannedRollout(files, task, _name_draw(scope, n, task)) for task in tasks])
            store.tests.add_baseline([each for each in trials if not each.missing])
            made.extend(trials)
            for each in trials:
                if isinstance(judge := each.task.judge, Opens) and each.hard is not None and not each.reply.missing:
                    openings.append((judge.expected, each.hard == judge.expected))
            lost = [each for each in trials if each.missing]  # the same command asks for these again
            unjudged = {each.draw for each in lost if not each.reply.missing}
            store.calls.forget(scope, {each.reply.id for each in lost}, unjudged)

    models.ask(scope, backends, attempt)
    notes = [*note_unanswered(store.calls.count_faults(scope)), *note_copies(made)]
    if n_in_part := sum(isinstance(task.judge, Partial) for task in tasks):
        notes.append(Note(code="judged_in_part", numbers={"n": n_in_part}))
    kind = kind_of_test(store, scope, evidence_of(backends))
    found = Baseline.of(skill.name, short(skill.live_version), tasks, store.tests.scores_in_baseline(scope), kind)
    return found.model_copy(
        update={"attempts": attempts, "triggering": Triggering.count(openings), "notes": notes,
                "next_step": advise_skill(store, skill)}
    )  # fmt: skip


def _place_baseline(
    store: Store, models: Models, place: Place, name: str, attempts: int
) -> tuple[Skill, Sequence[Task], str]:
    """The skill, its tasks, and the scope of the attempts. Raises BadInput, NotFound, BadSkill."""
    if not 1 <= attempts <= MAX_PASSES:
        raise BadInput(f"--baseline takes 1 to {MAX_PASSES} attempts at each task, got {attempts}")
    skill = place.skill(name)
    tasks = models.list_tasks(skill.id)
    if not tasks:
        raise BadInput(f"'{skill.name}' has no task: {models.describe_left_out(skill.id) or 'add some (tasks add)'}")
    return skill, tasks, _name_scope(models, skill, tasks)


def _name_scope(models: Models, skill: Skill, tasks: Sequence[Task]) -> str:
    # By the evidence of a promotion test, whose forecast and pilot look for these attempts.
    evidence = evidence_of(models.backends_for(held_out(tasks) or tasks))
    return baseline_id(skill.id, skill.live_version, evidence)


def find_in_baseline(store: Store, models: Models, skill: Skill) -> dict[int, str]:
    """The draws of a baseline's first attempts at train tasks with the live text, by task id."""
    tasks = models.list_tasks(skill.id)
    scope = _name_scope(models, skill, tasks)
    found = store.tests.scores_in_baseline(scope)
    return {task.id: _name_draw(scope, 0, task) for task in tasks if task.split == "train" and task.id in found}


def _name_draw(scope: str, n: int, task: Task) -> str:
    # One of its own for each task: what its judge lost is forgotten by it, and no other task is judged again.
    return f"{scope}/{n}/{task.digest[:12]}"
