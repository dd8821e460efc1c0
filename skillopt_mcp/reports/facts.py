"""Facts: what a page shows of a skill, run, candidate or promotion test, read from the store.

What `is_sealed` is for a host, whose agent may see it: nothing of held-out tasks, and of a test `accepted` alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from statistics import fmean

from skillopt_mcp.actions.promotions.promoting import choose_unproven, next_step
from skillopt_mcp.core.candidates import GATE, Candidate, Consent
from skillopt_mcp.core.evidence import TestReport
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import HistoryRow, UnitRow
from skillopt_mcp.core.runs import Run
from skillopt_mcp.core.skills import Skill, SkillRow, short
from skillopt_mcp.core.text import shown, truncate_middle
from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.gates.promotion import Reading
from skillopt_mcp.gates.verdicts import by_change
from skillopt_mcp.reports.history import SkillPage, gather_page, history
from skillopt_mcp.reports.inspecting import describe_sources, find_meant, gather_test, visible_verdict
from skillopt_mcp.reports.listing import skill_row, skill_rows
from skillopt_mcp.reports.run_report import KEPT, RunFacts, gather_run
from skillopt_mcp.store.files import is_locked
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.promotion_tests import TestAnswer, TestRow
from skillopt_mcp.training.promotion_test import Test, stored_test
from skillopt_mcp.workspace.costs import UsedRow, account, describe_price, used_by
from skillopt_mcp.workspace.evidence import kind_of, shown_origin
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.runs import resume_step
from skillopt_mcp.workspace.skill_folders import known

MAX_BYTES = 900_000
"""Of prompts, answers and diffs on a page: what is beyond is left out, and the page says so."""
MAX_TASKS, MAX_LINES = 300, 2_000
SECTIONS = ("verdict", "series", "review", "tasks", "diff", "curve", "spend")
_TEXT, _LINE = 4_000, 600


class TextBudget:
    """The bytes that are left for texts on a page, which hostile ones would fill."""

    def __init__(self) -> None:
        self.n_left = MAX_BYTES

    def take(self, text: str, limit: int = _TEXT) -> str | None:
        """Return a text, its middle left out where it is long; None where the page is full."""
        cut = truncate_middle(text, limit)
        n_bytes = len(escape(shown(cut)).encode("utf-8", "replace"))
        if n_bytes > self.n_left:
            return None
        self.n_left -= n_bytes
        return cut


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """A task of a promotion test, and of each text the attempt that shows the change best; None: not shown."""

    unit: UnitRow
    tag: str
    prompt: str | None
    old: TestAnswer | None = None
    new: TestAnswer | None = None


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a diff: which step or edit wrote it, and from which attempts."""

    text: str
    step: str = ""
    behind: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a page shows of one thing; of a skill, that is its newest test or run."""

    id: str
    skill: Skill
    is_sealed: bool
    test: TestReport | None = None
    is_running: bool = False
    is_simulated: bool = False
    accepted: str | None = None
    price: str = ""
    tasks: tuple[TaskFacts, ...] = ()
    candidate: Candidate | None = None
    diff: tuple[DiffLine, ...] = ()
    run: RunFacts | None = None
    path: tuple[tuple[int, ...], ...] = ()
    spend: tuple[UsedRow, ...] = ()
    answered_by: tuple[str, ...] = ()
    lineage: tuple[HistoryRow, ...] = ()
    steps: tuple[NextStep, ...] = ()
    undo: NextStep | None = None
    versions: dict[str, str] = field(default_factory=dict)
    own: SkillPage | None = None

    @property
    def sections(self) -> list[str]:
        """The parts of its page, in their order."""
        return [each for each in SECTIONS if self.own or each not in ("series", "review")]

    @property
    def by_tag(self) -> list[tuple[str, int, float, float]]:
        """Return each tag with its tasks and their mean scores before and after, the largest loss first."""
        found: dict[str, list[tuple[float, float]]] = {}
        for task in self.tasks:
            found.setdefault(task.tag, []).append(task.unit.scores)
        rows = [(tag, len(each), fmean(a for a, _ in each), fmean(b for _, b in each)) for tag, each in found.items()]
        return sorted(rows, key=lambda row: row[3] - row[2]) if len(rows) > 1 else []

    @property
    def runs(self) -> list[RunFacts]:
        """Return its run, if a learning curve can be drawn of it."""
        return [self.run] if self.run and self.run.steps else []


def gather(store: Store, place: Place, name: str, texts: TextBudget | None = None) -> Facts:
    """What there is of a skill, run, candidate or promotion test. Raises NotFound, BadSkill."""
    is_sealed, texts = place.is_agents, texts or TextBudget()
    skill, candidate, row, run = find_meant(store, place, name)
    if candidate:
        place.note_seen(candidate)
    decision = store.decisions.latest_in(row.id) if row else None
    ran = gather_run(store, place, run, is_explained=True) if run else None
    tested = gather_test(store, row) if row and not is_sealed else None
    is_running = bool(ran and ran.progress) or bool(row and not decision and is_locked(store.locks_path, row.id))
    spend, served = (ran.used.table, [*ran.served]) if ran else ([], [])
    if tested:
        served += store.ledger.list_served(tested.id)
        spend += account(store, tested.id).table if tested.id not in {each.test for each in spend} else []
    is_skill = not is_sealed and not re.fullmatch("[trc]-[0-9a-f]{12}", known(name))
    past, steps = history(store, place, skill.path), list[NextStep | None]()
    if not is_running:
        steps = [resume_step(store, run) if run else None]
        if not candidate and steps == [None]:
            steps = [skill_row(store, place, skill).next_step]
        steps += [next_step(store, place, candidate, Consent.PERSON)] if candidate else []
        steps += [choose_unproven(store, candidate, tested.report)] if candidate and tested else []
    return Facts(
        id=tested.id if tested else candidate.id if candidate else run.id if run else skill.name,
        skill=skill,
        is_sealed=is_sealed,
        test=tested.report if tested else None,
        is_running=is_running,
        is_simulated=bool(row and kind_of(row.backend) == "simulated") or bool(run and "simulated" in run.target),
        accepted=visible_verdict(store, place, candidate, decision.verdict) if is_sealed and decision else None,
        price=str(used_by(store, tested.id)) if tested else describe_price(ran.used.summary) if ran else "",
        tasks=_tasks(store, stored_test(store, row), tested.units, texts) if row and tested else (),
        candidate=candidate,
        diff=tuple(_diff(store, skill, candidate, run, texts)) if candidate else (),
        run=ran,
        path=_path(store, row) if row and tested else (),
        spend=tuple(spend),
        answered_by=tuple(dict.fromkeys(f"{each.role} {each.name}" for each in served)),
        lineage=tuple(past.rows),
        steps=tuple(filter(None, steps)),
        undo=past.next_step,
        versions=_versions(skill, candidate, row, run),
        own=gather_page(store, place, skill, texts.take) if is_skill else None,
    )  # fmt: skip


def _path(store: Store, row: TestRow) -> tuple[tuple[int, ...], ...]:
    """Total and boundaries of a test after each pair; none in rounds."""
    signs = Reading(row.plan, store.tests.list_attempts(row.id)).signs
    return tuple(signs.path) if signs else ()


# The tasks of a test, and the diff


def _tasks(store: Store, test: Test, units: list[UnitRow], texts: TextBudget) -> tuple[TaskFacts, ...]:
    """Return the tasks that a test has counted, worse first, the largest change first; the first ones with texts."""
    rows = sorted(enumerate(units), key=lambda each: by_change(each[1]))
    answers: dict[tuple[int, str], list[TestAnswer]] = {}
    for each in store.tests.list_answers(test.row.id, [unit for unit, _ in rows[:MAX_TASKS]], _TEXT + 1):
        answers.setdefault((each.unit, each.arm), []).append(each)

    def best_answer(unit: int, arm: str, *, is_high: bool) -> TestAnswer | None:
        found = answers.get((unit, arm))
        if not found:
            return None
        answer = (max if is_high else min)(found, key=lambda each: each.score)
        text, comment = texts.take(answer.text), texts.take(answer.comment)
        return None if text is None or comment is None else answer._replace(text=text, comment=comment)

    tasks = []
    for n, (unit, row) in enumerate(rows):
        task = test.tasks[unit]
        prompt = texts.take(task.prompt) if n < MAX_TASKS else None
        old = best_answer(unit, "base", is_high=row.outcome != "better")
        new = best_answer(unit, "candidate", is_high=row.outcome == "better")
        tasks.append(TaskFacts(row, task.tags[0] if task.tags else "", prompt, old, new))
    return tuple(tasks)


def _diff(store: Store, skill: Skill, candidate: Candidate, run: Run | None, texts: TextBudget) -> Iterator[DiffLine]:
    """Yield the lines of a candidate's diff, each with the edit that wrote it or took it out."""
    origin = dict[str, tuple[str, str]]()
    edits = [(f"edit {report.index + 1}", edit) for edit, report in store.candidates.list_edits(candidate.id)]
    if run and candidate.origin == "run":
        epochs = sorted({step.epoch for step in store.runs.list_steps(run.id)})
        tried = [each for epoch in epochs for each in store.runs.list_tried(run.id, epoch)]
        edits = [(f"step {each.n}", each.edit) for each in tried if each.verdict in KEPT]
    for name, edit in edits:
        for mark, text in (("-", edit.target), ("+", edit.content)):
            for line in (text or "").splitlines():
                origin[f"{mark}{line.strip()}"] = (name, describe_sources(edit))
    before, after = (store.skills.get_files(skill.id, each) for each in (candidate.base_version, candidate.version_id))
    lines = unified_diff(before, after, skill.name).splitlines()
    for n, line in enumerate(lines):
        text = texts.take(line, _LINE) if n < MAX_LINES else None
        if text is None:
            yield DiffLine(f"[... {len(lines) - n:,} more lines ...]")
            return
        yield DiffLine(text, *origin.get(f"{line[:1]}{line[1:].strip()}", ()))


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
    """A skill as it is listed, its last verdict, the candidates that a person has to look at, the run that goes on."""

    row: SkillRow
    verdict: str
    held: tuple[str, ...]
    running: RunFacts | None


def gather_skills(store: Store, place: Place) -> list[SkillFacts]:
    """Return all tracked skills."""
    if not store.is_made:
        return []
    found = list[SkillFacts]()
    skills, last = store.skills.list_listed(), dict[int, tuple[Candidate, str]]()
    running, held = dict[int, RunFacts](), defaultdict[int, list[Candidate]](list)
    for id, _ in reversed(store.runs.list_running()):
        if (run := gather_run(store, place, store.runs.get_run(id))).progress:
            running[run.run.skill_id] = run
    for candidate, verdict in store.candidates.list_examined(GATE):
        if verdict:
            last[candidate.skill_id] = (candidate, verdict)
        if candidate.findings:
            held[candidate.skill_id].append(candidate)
    for skill, row in zip(skills, skill_rows(store, place, skills, place.roots()), strict=True):
        ids = [it.id for it in held[skill.id] if short(it.base_version) == row.live_version != short(it.version_id)]
        verdict = visible_verdict(store, place, *last.get(skill.id, (None, None)))
        found.append(SkillFacts(row, verdict or "", tuple(ids), running.get(skill.id)))
    return found
