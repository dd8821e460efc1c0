"""Facts: what a page shows of a skill, run, candidate or promotion test, read from the store.

What is `sealed` is for a host, whose agent may see it: nothing of held-out tasks, and of a test `accepted` alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from itertools import accumulate
from statistics import fmean
from typing import Literal

from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.costs import UsedRow, account, describe_price, used_by
from skillopt_mcp.documents.diffs import truncate_middle, unified_diff
from skillopt_mcp.documents.text import quoted, shown
from skillopt_mcp.errors import NotFound
from skillopt_mcp.evidence import kind_of, shown_origin
from skillopt_mcp.gates.promotion import GATE, walk_of
from skillopt_mcp.gates.search import metric_value
from skillopt_mcp.promotion_tests import report_of, unit_rows, verdict_for_agents
from skillopt_mcp.promotions.consent import Consent
from skillopt_mcp.promotions.promoting import next_step
from skillopt_mcp.records.candidates import Candidate
from skillopt_mcp.records.evidence import Mean, TestReport
from skillopt_mcp.records.next_step import NextStep
from skillopt_mcp.records.results import HistoryRow, UnitRow
from skillopt_mcp.records.runs import Run, StepRecord
from skillopt_mcp.records.skills import Skill, short
from skillopt_mcp.runs import planned, resume_step, unusual
from skillopt_mcp.show.inspecting import describe_sources
from skillopt_mcp.show.listing import history, skill_row
from skillopt_mcp.show.run_report import served_rows
from skillopt_mcp.skill_folders import handle, known
from skillopt_mcp.store.ledger import Servings
from skillopt_mcp.store.promotion_tests import TestAnswer, TestRow
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.promotion_test import Test, stored_test
from skillopt_mcp.workspace import Workspace

ROOM = 900_000
"""Bytes of prompts, answers and diffs on a page: what is beyond is left out, and the page says so."""
MAX_TASKS, MAX_LINES = 300, 2_000
_TEXT, _LINE = 4_000, 600
_Z90 = 1.645
_ORDER = {"worse": 0, "better": 1, "same": 2}
_KEPT = ("accept", "accept_best")

Outcome = Literal["kept", "rejected", "held", "unchanged"]


class Room:
    """What is left of the room for texts, which hostile ones would fill."""

    def __init__(self, n_bytes: int = ROOM) -> None:
        self.n_left = n_bytes

    def take(self, text: str, limit: int = _TEXT) -> str | None:
        """Return a text, its middle left out where it is long; None where no room is left."""
        cut = truncate_middle(text, limit)
        n_bytes = len(escape(shown(cut)).encode("utf-8", "replace"))
        if n_bytes > self.n_left:
            return None
        self.n_left -= n_bytes
        return cut


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """A task of a promotion test, and of each text the attempt that shows the change best; None: not shown."""

    name: str
    tag: str
    unit: UnitRow
    prompt: str | None = None
    old: TestAnswer | None = None
    new: TestAnswer | None = None

    @property
    def scores(self) -> tuple[float, float]:
        """Return the mean scores with the old text and with the new one."""
        return fmean(self.unit.before or [0.0]), fmean(self.unit.after or [0.0])


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a diff: which step or edit wrote it, and from which attempts."""

    text: str
    step: str = ""
    behind: str = ""


@dataclass(frozen=True, slots=True)
class StepFacts:
    """A step of a run: what became of its candidate and why, and the candidate's val score with its 90 % interval."""

    record: StepRecord
    outcome: Outcome
    why: str
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is that goes on; `seconds_left` is by the time that its steps took so far."""

    stage: str
    n_done: int
    n_total: int
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run: its steps, the val score that it began with, and what is charged to each cap."""

    run: Run
    metric: str
    steps: tuple[StepFacts, ...]
    base: float | None
    settings: dict[str, object]
    caps: tuple[tuple[str, float, float], ...]
    progress: Progress | None


@dataclass(frozen=True, slots=True)
class WalkPoint:
    """A unit of a test: its net result, the total so far, and the total that would have accepted there."""

    task: str
    net: int
    total: int
    least: int


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a page shows of one thing; of a skill, that is its newest test or run."""

    id: str
    skill: Skill
    sealed: bool
    test: TestReport | None = None
    simulated: bool = False
    accepted: str | None = None
    price: str = ""
    tasks: tuple[TaskFacts, ...] = ()
    candidate: Candidate | None = None
    diff: tuple[DiffLine, ...] = ()
    run: RunFacts | None = None
    walk: tuple[WalkPoint, ...] = ()
    spend: tuple[UsedRow, ...] = ()
    answered_by: tuple[str, ...] = ()
    lineage: tuple[HistoryRow, ...] = ()
    steps: tuple[NextStep, ...] = ()
    undo: NextStep | None = None
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def by_tag(self) -> list[tuple[str, int, float, float]]:
        """Return each tag with its tasks and their mean scores before and after, the largest loss first."""
        found: dict[str, list[tuple[float, float]]] = {}
        for task in self.tasks:
            found.setdefault(task.tag, []).append(task.scores)
        rows = [(tag, len(each), fmean(a for a, _ in each), fmean(b for _, b in each)) for tag, each in found.items()]
        return sorted(rows, key=lambda row: row[3] - row[2]) if len(rows) > 1 else []

    @property
    def runs(self) -> list[RunFacts]:
        """Return its run, if a learning curve can be drawn of it."""
        return [self.run] if self.run and self.run.steps else []


def gather(workspace: Workspace, name: str, room: Room | None = None) -> Facts:
    """Return what there is of a skill, run, candidate or promotion test. Raises NotFound, BadSkill."""
    if not workspace.is_made:
        raise NotFound(f"there is no store at '{workspace.store_path}' yet, and so no {quoted(name)}")
    store, sealed, room = workspace.store, workspace.is_agents, room or Room()
    skill, candidate, row, run = _meant(workspace, name)
    if candidate:
        workspace.see(candidate)
    test = stored_test(store, row) if row else None
    decision = store.decisions.latest_in(row.id) if row else None
    spent = account(store, run.id, is_sealed=sealed) if run else None
    spend = list(spent.table) if spent else []
    if row and not sealed and row.id not in {each.test for each in spend}:
        spend += account(store, row.id).table
    shown_test = test and not sealed
    report = report_of(workspace, test) if test and shown_test else None
    past = history(workspace, skill.path)
    scopes = [each.id for each in (run, row if shown_test else None) if each]
    served = [each for scope in scopes for each in served_rows(store.table(Servings).list_of_scope(scope))]
    return Facts(
        id=row.id if row and not sealed else candidate.id if candidate else run.id if run else skill.name,
        skill=skill,
        sealed=sealed,
        test=report,
        simulated=bool(row and kind_of(row.backend) == "simulated") or bool(run and "simulated" in run.target),
        accepted=verdict_for_agents(store, candidate, decision.verdict if decision else None) if sealed else None,
        price=str(used_by(store, row.id)) if row and shown_test else describe_price(spent.summary) if spent else "",
        tasks=_tasks(workspace, test, room) if test and shown_test else (),
        candidate=candidate,
        diff=tuple(_diff(workspace, skill, candidate, run, room)) if candidate else (),
        run=_run(workspace, run) if run else None,
        walk=_walk(workspace, test) if test and shown_test else (),
        spend=tuple(spend),
        answered_by=tuple(dict.fromkeys(f"{each.role} {each.name}" for each in served)),
        lineage=tuple(past.rows),
        steps=tuple(_steps(workspace, skill, candidate, run)),
        undo=past.next_step,
        versions=_versions(skill, candidate, row, run),
    )  # fmt: skip


_Meant = tuple[Skill, Candidate | None, TestRow | None, Run | None]


def _meant(workspace: Workspace, name: str) -> _Meant:
    """Return what a name means, and what belongs to it. Raises NotFound."""
    store, name = workspace.store, known(name)
    candidate: Candidate | None = None
    row: TestRow | None = None
    run: Run | None = None
    if re.fullmatch("t-[0-9a-f]{12}", name):
        row = store.tests.find(name)
        if row is None:
            raise NotFound(f"no promotion test {quoted(name)}; of a candidate, name that: c-...")
        skill = store.skills.get_skill(row.skill_id)
    elif re.fullmatch("c-[0-9a-f]{12}", name):
        candidate = store.candidates.get_candidate(name)
        skill = store.skills.get_skill(candidate.skill_id)
    elif re.fullmatch("r-[0-9a-f]{12}", name):
        run = store.runs.get_run(name)
        skill = store.skills.get_skill(run.skill_id)
    else:
        skill = workspace.kept(name)
        tests = [(each.created_at, each.id) for each in store.tests.list_of_skill(skill.id)]
        runs = [(at, each.id) for each, at in store.runs.list_started(skill.id)]
        if tests or runs:
            return _meant(workspace, max([*tests[-1:], *runs[-1:]])[1])
        proposed = store.candidates.list_candidates(skill.id)
        return skill, proposed[-1] if proposed else None, None, None
    of_skill = store.candidates.list_candidates(skill.id, steps=True)
    if run:
        made = [each for each in of_skill if each.run_id == run.id and each.origin != "step"]
        candidate = made[-1] if made else None
        ids = store.runs.list_finishes(run.id)
        row = store.tests.find(ids[-1]) if ids else None
    if row and candidate is None:
        arms = (row.base_version, row.version_id)
        candidate = next((each for each in reversed(of_skill) if (each.base_version, each.version_id) == arms), None)
    if candidate and not row:
        tests_of = store.tests.list_of(skill.id, candidate.base_version, candidate.version_id)
        decision = store.decisions.latest(skill.id, GATE, candidate.base_version, candidate.version_id)
        row = (store.tests.find(decision.scope) if decision else None) or next(iter(tests_of), None)
    if candidate and candidate.run_id and not run:
        run = store.runs.get_run(candidate.run_id)
    return skill, candidate, row, run


# The tasks of a test, and the diff


def _tasks(workspace: Workspace, test: Test, room: Room) -> tuple[TaskFacts, ...]:
    """Return the tasks that a test has counted, worse first, the largest change first; the first ones with texts."""
    rows = list(enumerate(unit_rows(workspace, test)))

    def place(each: tuple[int, UnitRow]) -> tuple[int, float]:
        row = each[1]
        return _ORDER[row.outcome], -abs(fmean(row.after or [0.0]) - fmean(row.before or [0.0]))

    rows.sort(key=place)
    answers: dict[tuple[int, str], list[TestAnswer]] = {}
    for each in workspace.store.tests.list_answers(test.row.id, [unit for unit, _ in rows[:MAX_TASKS]], _TEXT + 1):
        answers.setdefault((each.unit, each.arm), []).append(each)

    def telling(unit: int, arm: str, *, solved: bool) -> TestAnswer | None:
        found = answers.get((unit, arm))
        return (max if solved else min)(found, key=lambda each: each.score) if found else None

    def fitted(answer: TestAnswer | None) -> TestAnswer | None:
        text, said = (room.take(each) for each in (answer.text, answer.said)) if answer else (None, None)
        return answer._replace(text=text, said=said) if answer and text is not None and said is not None else None

    tasks = []
    for n, (unit, row) in enumerate(rows):
        task = test.tasks[unit]
        old = telling(unit, "base", solved=row.outcome != "better")
        new = telling(unit, "candidate", solved=row.outcome == "better")
        prompt = room.take(task.prompt) if n < MAX_TASKS else None
        tag = task.tags[0] if task.tags else ""
        tasks.append(TaskFacts(row.task, tag, row, prompt, fitted(old), fitted(new)))
    return tuple(tasks)


def _diff(workspace: Workspace, skill: Skill, candidate: Candidate, run: Run | None, room: Room) -> Iterator[DiffLine]:
    """Yield the lines of a candidate's diff, each with the edit that wrote it or took it out."""
    store, origin = workspace.store, dict[str, tuple[str, str]]()
    edits = [(f"edit {report.index + 1}", edit) for edit, report in store.candidates.list_edits(candidate.id)]
    if run and candidate.origin == "run":
        epochs = sorted({step.epoch for step in store.runs.list_steps(run.id)})
        tried = [each for epoch in epochs for each in store.runs.list_tried(run.id, epoch)]
        edits = [(f"step {each.n}", each.edit) for each in tried if each.verdict in _KEPT]
    for name, edit in edits:
        for mark, text in (("-", edit.target), ("+", edit.content)):
            for line in (text or "").splitlines():
                origin[f"{mark}{line.strip()}"] = (name, describe_sources(edit))
    before, after = (store.skills.get_files(skill.id, each) for each in (candidate.base_version, candidate.version_id))
    lines = unified_diff(before, after, skill.name).splitlines()
    for n, line in enumerate(lines):
        text = room.take(line, _LINE) if n < MAX_LINES else None
        if text is None:
            yield DiffLine(f"[... {len(lines) - n:,} more lines ...]")
            return
        yield DiffLine(text, *origin.get(f"{line[:1]}{line[1:].strip()}", ()))


# A run


def _run(workspace: Workspace, run: Run) -> RunFacts:
    store, config = workspace.store, Config.of_run(run.config)
    records, reasons = store.runs.list_steps(run.id), store.decisions.reasons_in(run.id)
    found = {each.id: each.findings for each in store.candidates.list_candidates(run.skill_id, steps=True)}

    def step(record: StepRecord) -> StepFacts:
        findings = found.get(record.candidate_id or "", ())
        notes = [*record.unusable, *record.unmatched]
        why = [reasons.get(record.n) or (truncate_middle(notes[0], 200) if notes else "no usable edit")]
        if findings:
            why.append(f"the guard wants a person to look: {truncate_middle(findings[0], 200)}")
        outcome: Outcome = "unchanged" if record.verdict == "no_change" else "rejected"
        if record.verdict in _KEPT:
            outcome = "held" if findings else "kept"
        interval = wilson(record.candidate, record.val) if record.candidate is not None else None
        return StepFacts(record, outcome, "; ".join(why), interval)

    spent, caps = store.budgets.get_spent(run.id), run.caps
    named = (
        ("calls", spent.calls, caps.calls), ("tokens", spent.tokens, caps.tokens),
        ("US dollars", spent.usd, caps.usd), ("minutes", spent.seconds / 60, caps.minutes),
    )  # fmt: skip
    base = records[0].baseline if records else None
    return RunFacts(
        run=run,
        metric=config.metric,
        steps=tuple(map(step, records)),
        base=metric_value(base, config.metric, config.mixed_weight) if base else None,
        settings={**unusual(run)},
        # What is charged is that of its promotion test, too.
        caps=() if workspace.is_agents else tuple((name, used, cap) for name, used, cap in named if cap is not None),
        progress=_progress(workspace, run, len(records), spent.seconds),
    )


def wilson(score: float, mean: Mean | None) -> tuple[float, float] | None:
    """Return the 90 % interval (Wilson) of a score on as many tasks; it is too wide for soft ones."""
    if mean is None or not mean.n:
        return None
    n, z2 = mean.n, _Z90**2
    middle, half = score + z2 / (2 * n), _Z90 * math.sqrt(score * (1 - score) / n + z2 / (4 * n * n))
    return (middle - half) / (1 + z2 / n), (middle + half) / (1 + z2 / n)


def _progress(workspace: Workspace, run: Run, n_done: int, seconds: float) -> Progress | None:
    """Return where a run is that another process advances; None where none does."""
    if not _is_advanced(workspace, run):
        return None
    n_total, tests = planned(workspace, run).n_rows, workspace.store.runs.list_finishes(run.id)
    left = seconds / n_done * (n_total - n_done) if n_done and not tests else None
    stage = "promotion test" if tests else workspace.store.calls.latest_stage(run.id) or "baseline"
    return Progress(stage, n_done, n_total, left)


def _is_advanced(workspace: Workspace, run: Run) -> bool:
    """Return whether a process trains on; the status of one that was killed says so, too."""
    if run.status != "running" or run.kind != "replay":
        return False
    lock = lock_run(workspace.store.locks_path, run.id)
    if lock:
        lock.release()
    return lock is None


# Evidence, versions, what to do


def _walk(workspace: Workspace, test: Test) -> tuple[WalkPoint, ...]:
    walk = walk_of(test.row.plan, workspace.store.tests.list_attempts(test.row.id))
    if walk is None:
        return ()
    names = (task.name for task in test.tasks)
    return tuple(map(WalkPoint, names, walk.nets, accumulate(walk.nets), walk.least))


def _steps(workspace: Workspace, skill: Skill, candidate: Candidate | None, run: Run | None) -> Iterator[NextStep]:
    """Yield what to do next."""
    if run and (step := resume_step(workspace, run)):
        yield step
    if candidate and (step := next_step(workspace, candidate, Consent.PERSON)):
        yield step
    elif not candidate:
        yield skill_row(workspace, skill).next_step


def _versions(skill: Skill, candidate: Candidate | None, row: TestRow | None, run: Run | None) -> dict[str, str]:
    """Return the names by which all of it comes about again."""
    named = {"live": skill.live_version, "best": skill.best_version}
    if candidate:
        named |= {"base": candidate.base_version, "candidate": candidate.version_id}
    found = {name: short(version) for name, version in named.items() if version}
    if run:
        found |= {"target": run.target, "optimizer": run.optimizer}
        found |= {"skillopt-mcp": run.answering[-1].program} if run.answering else {}
    return found | ({"answered": shown_origin(row.backend)} if row else {})


# Several things, and all skills


@dataclass(frozen=True, slots=True)
class SkillFacts:
    """A skill as it is listed: its last verdict, its next step, whether a candidate waits for a person to look."""

    id: str
    name: str
    verdict: str
    next_step: NextStep
    held: tuple[str, ...]
    running: RunFacts | None


def gather_skills(workspace: Workspace) -> list[SkillFacts]:
    """Return all tracked skills."""
    return [_skill(workspace, each) for each in workspace.store.skills.list_listed()] if workspace.is_made else []


def _skill(workspace: Workspace, skill: Skill) -> SkillFacts:
    store, verdict = workspace.store, ""
    for candidate in reversed(store.candidates.list_candidates(skill.id)):
        decision = store.decisions.latest(skill.id, GATE, candidate.base_version, candidate.version_id)
        if decision:
            hidden = verdict_for_agents(store, candidate, decision.verdict)
            verdict = (hidden or "") if workspace.is_agents else decision.verdict
            break
    held = [
        each.id
        for each in store.candidates.list_candidates(skill.id)
        if each.findings and each.base_version == skill.live_version and each.version_id != skill.live_version
    ]
    begun = [store.runs.get_run(id) for id, _ in store.runs.list_running(skill.id)]
    running = next((run for run in begun if _is_advanced(workspace, run)), None)
    return SkillFacts(
        handle(store, skill), skill.name, verdict, skill_row(workspace, skill).next_step, tuple(held),
        _run(workspace, running) if running else None,
    )  # fmt: skip
