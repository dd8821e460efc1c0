"""Recorded evidence: written next to a skill after its test, read again by anybody, and tried again in part."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from secrets import SystemRandom, token_hex

from skillopt_mcp.actions.gate.gating import Gate, rule
from skillopt_mcp.actions.gate.pairs import Compared, GateOptions, Pair, compare_revisions
from skillopt_mcp.actions.promotion_tests import check_ready
from skillopt_mcp.core.errors import BadInput, Outage, Refused, SkillOptError
from skillopt_mcp.core.evidence import Arm, Standing, TestReport
from skillopt_mcp.core.gating import Gated, GatedSkill, GatedTasks
from skillopt_mcp.core.skills import EVIDENCE_FILE, is_memory
from skillopt_mcp.core.tasks import NewTask, Task
from skillopt_mcp.core.text import counted, quoted
from skillopt_mcp.documents.live_files import put_file
from skillopt_mcp.gates.recorded import SPOT_CHANCE, RecordedTest
from skillopt_mcp.gates.rounds import DEFAULT_MARGIN
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.stages.rollout import PlannedRollout, rollout
from skillopt_mcp.workspace.models import Models

_WRITE = "skillopt-mcp gate --target BACKEND --write-evidence"


def _place_record(skill: str) -> str:
    """Where the evidence of a skill's folder lies, or of a memory file, by its path in the repository."""
    return f"{skill.removesuffix('.md')}.evidence.json" if is_memory(skill) else posixpath.join(skill, EVIDENCE_FILE)


def _digest_tasks(tasks: Iterable[NewTask | Task]) -> str:
    return hashlib.sha256("\n".join(sorted(task.digest for task in tasks)).encode()).hexdigest()


def write_evidence(store: Store, gate: Gate) -> list[str]:
    """Write what was found of each skill next to it, in the working tree; what is to say of that, a line each."""
    said = list[str]()
    for due in gate.due.values():
        pair, row = due.pair, store.tests.find(due.test.row.id)
        if row is None or store.decisions.latest_in(row.id) is None:
            continue
        place = gate.compared.top / (name := _place_record(pair.found.path))
        try:
            record = RecordedTest.of(
                row.plan, store.tests.list_attempts(row.id), base=pair.old.digest, head=pair.new.digest,
                tasks=_digest_tasks(pair.tasks or due.tasks), origin=pair.origin if pair.tasks else "store",
                target=re.split("[,+ ]", row.backend)[0],
                host="".join(re.findall(r"version=([^,+ ]+)", row.backend)[:1]),
            )  # fmt: skip
            if os.path.realpath(place.parent) != str(place.parent):
                raise BadInput("its folder is reached through a link")
            put_file(place, record.content)
        except (BadInput, OSError) as error:
            said.append(f"Not recorded: {name}: {error}.")
        else:
            said.append(f"Recorded: {name}.")
    return said


def check_recorded(folder: Path, options: GateOptions) -> Gated:
    """What was recorded of the skills that differ between two revisions, read again: no model, key or store."""
    found, skills = compare_revisions(folder, options), list[GatedSkill]()
    for pair in found.pairs:
        skill = GatedSkill(path=pair.found.path or ".", change=pair.found.change, before=pair.found.before)
        why = f"No evidence was recorded for it yet: {_WRITE}." if pair.tasks else "It has no tasks in the repository."
        why = "It has no new text." if pair.old == pair.new else why
        update: dict[str, object] = {"outcome": "neutral", "why": why}
        try:
            if pair.found.change != "deleted" and (read := _read_record(found, pair, options)):
                update = _describe_record(*read, pair, options)
        except Refused as error:
            update = {"outcome": "failed", "why": f"Its evidence does not hold: {error}."}
        except SkillOptError as error:
            update = {"outcome": "not_run", "why": f"{error}."}
        skills.append(skill.model_copy(update=update))
    return Gated(base=found.base.commit, head=found.head.commit, require=options.require, skills=skills)


def _describe_record(record: RecordedTest, standing: Standing, pair: Pair, options: GateOptions) -> dict[str, object]:
    served = f", served by {', '.join(map(quoted, record.models))}" if record.models else ""
    n_left, origin = len(pair.tasks) - record.plan.n_units, pair.origin if pair.tasks else record.origin
    outcome, claim = rule(record.verdict, options.require, origin, record.plan.n_units)
    number, is_own = record.plan.number * (not record.plan.in_rounds), origin in ("base", "head")
    facts = {"test_id": "recorded", "test_in_release": number, "backend": record.target, "on_cases": is_own}
    return {
        "outcome": outcome, "verdict": record.verdict, "claim": claim, "test_number": max(1, number),
        "tasks": GatedTasks.model_validate({"from": origin, "n": record.plan.n_units, "changed": pair.is_changed}),
        "report": TestReport.model_validate(standing.model_dump() | facts),
        "notes": [
            f"Recorded with {quoted(f'{record.target} {record.host}'.strip())}{served}; the verdict follows "
            "from the outcomes. That shows what was recorded, not who ran it.",
            *(["Its tasks are not in the repository, and were not compared."] * (not pair.tasks)),
            *([f"It has further tasks that were not asked: {n_left}."] * (n_left > 0)),
        ],
    }  # fmt: skip


def _read_record(found: Compared, pair: Pair, options: GateOptions) -> tuple[RecordedTest, Standing] | None:
    """The record of a skill at the head, and where its test stands; None for a skill from before.

    Raises BadInput where it cannot be read, or is stale, Refused where the verdict does not follow.
    """
    path, head = _place_record(pair.found.path), found.head
    content = head.read({path} & {*head.paths}).get(path)
    if pair.fault or (content is None and path in head.paths):
        raise BadInput(pair.fault or "Its evidence is no file, or too large")
    if pair.old == pair.new:
        return None
    if content is None:
        if _place_record(pair.found.before or pair.found.path) in found.base.paths:
            raise BadInput(f"Its recorded evidence was removed: {_WRITE}")
        if pair.found.change == "added" and pair.tasks:
            raise BadInput(f"It is new, and no evidence was recorded for it: {_WRITE}")
        return None
    try:
        record = RecordedTest.read(content)
    except BadInput as error:
        raise BadInput(f"Its evidence cannot be read: {error}") from None
    facts = {
        "the text at the base": record.base == pair.old.digest,
        "its text": record.head == pair.new.digest,
        "its tasks": not pair.tasks or record.tasks == _digest_tasks(pair.tasks),
    }
    if stale := [name for name, is_same in facts.items() if not is_same]:
        raise BadInput(f"Its evidence is stale: {' and '.join(stale)} changed since. Record it again: {_WRITE}")
    plan, margin = record.plan, DEFAULT_MARGIN if options.require == "no-worse" else None
    if plan.margin not in (None, margin) or plan.cases_alone or plan.kind or plan.one_text:
        raise BadInput(
            f"Its evidence is of another question than --require {options.require}. Record it again: {_WRITE}"
        )
    try:
        standing = record.recompute()
    except BadInput as error:
        raise Refused(str(error)) from None
    if pair.tasks and not {*plan.units} <= {task.digest for task in pair.tasks}:
        raise Refused("it has outcomes of a task that is none of the skill's")
    return record, standing


def repeat_cases(store: Store, models: Models, gate: Gate, checked: Gated, n: int) -> Gated:
    """Ask both texts of each skill whose record holds once more at `n` cases by chance: does it come out as recorded?

    Raises BackendError, CapReached.
    """
    skills = list[GatedSkill]()
    for skill, pair in zip(checked.skills, gate.compared.pairs, strict=True):
        skills.append(skill)
        read, due = _read_record(gate.compared, pair, gate.options) if skill.verdict else None, gate.due.get(skill.path)
        if read is None:
            continue
        plan, tasks = read[0].plan, {task.digest: task for task in due.tasks} if due else {}
        known = [unit for unit, name in enumerate(plan.units) if name in tasks]
        if due is None or not known:
            skills[-1] = skill.model_copy(update={"outcome": "not_run", "why": "Its tasks are not at hand."})
            continue
        check_ready(store, models, due.test)
        chosen = SystemRandom().sample(known, min(n, len(known)))
        asked: list[tuple[int, Arm]] = [(unit, arm) for unit in chosen for arm in ("base", "candidate")]
        scope = f"{due.test.row.id}/spot-{token_hex(4)}"
        calls = [
            PlannedRollout(pair.old if arm == "base" else pair.new, tasks[plan.units[unit]], f"{scope}/{unit}/{arm}")
            for unit, arm in asked
        ]
        backends = models.backends_for([call.task for call in calls])
        trials = models.ask(due.test.row.id, backends, partial(rollout, attempts=calls))
        if lost := [trial for trial in trials if trial.hard is None]:
            raise Outage(f"{counted(len(lost), 'repeated attempt')} was lost: {lost[0].reason}")
        solved = [bool((trial.soft or 0) >= 0.5 if plan.graded else trial.hard) for trial in trials]
        n_same, chance = read[0].chance_of([(*each, passed) for each, passed in zip(asked, solved, strict=True)])
        text = f"{n_same} of {len(asked)} answers to {counted(len(chosen), 'case')} came out as recorded"
        update: dict[str, object] = {"notes": [*skill.notes, f"Repeated: {text}."]}
        if chance < SPOT_CHANCE:
            why = f"It does not fit what was recorded: {text}, which happens by chance less than once in 100 times."
            update = {"outcome": "failed", "why": why}
        skills[-1] = skill.model_copy(update=update)
    return checked.model_copy(update={"skills": skills, "used": gate.sum_used()})
