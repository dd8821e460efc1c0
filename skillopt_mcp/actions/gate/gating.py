"""Gating: each skill that differs between two revisions tested old against new, and what comes of that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skillopt_mcp.actions.gate.pairs import OF_A_SKILL, GateOptions, Pair, compare_revisions, store_tasks
from skillopt_mcp.actions.opening_tests import current_test, open_next_test
from skillopt_mcp.actions.promotion_tests import check_ready, run_open_test
from skillopt_mcp.actions.texts import check_texts, store_text
from skillopt_mcp.core.budgets import Caps
from skillopt_mcp.core.candidates import Candidate
from skillopt_mcp.core.errors import BackendError, CapReached, Stopped
from skillopt_mcp.core.evidence import Standing, Verdict
from skillopt_mcp.core.gating import Claim, Gated, GatedSkill, GatedTasks, GateUsed, Require, WorseTask
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.core.text import counted, quoted
from skillopt_mcp.gates.promotion import MIN_UNITS, Reading
from skillopt_mcp.gates.rounds import DEFAULT_MARGIN
from skillopt_mcp.gates.verdicts import describe
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.skills import GATED
from skillopt_mcp.training.outage import raise_if_all_failed
from skillopt_mcp.training.progress import Notify
from skillopt_mcp.training.promotion_test import Asked, Test, in_order, standing_of
from skillopt_mcp.training.stages.rollout import PlannedRollout, rollout
from skillopt_mcp.workspace.costs import used_by
from skillopt_mcp.workspace.models import Models
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.verdicts import report_of, unit_rows

_SHOWN, _ANSWER_SHOWN = 20, 2_000
_HOW_TO_ADD = "add evals/evals.json to its folder, or name others with --tasks FILE"
_WORSE = frozenset({"worse", "worse_here"})
_CLAIMING = _WORSE | {"better", "better_here", "no_worse"}


@dataclass(slots=True)
class Due:
    """What a skill is tested with: the candidate on these tasks, and its test, which may not be open yet."""

    pair: Pair
    candidate: Candidate
    tasks: list[Task]
    asked: Asked
    test: Test
    n_earlier: int | None


class Gate:
    """The tests of the skills that differ between two revisions: what they would ask, and what comes of them.

    Raises BadInput where the revisions cannot be read, BackendError without a target where there is one to test.
    """

    def __init__(self, store: Store, models: Models, place: Place, options: GateOptions) -> None:
        self._store, self._models, self._place, self.options = store, models, place, options
        found = self.compared = compare_revisions(Path.cwd(), options)
        self.due: dict[str, Due] = {}
        if any(pair.found.change != "deleted" for pair in found.pairs):
            models.backend("target")
        skills = [self._plan(pair) for pair in found.pairs]
        self.gated = Gated(base=found.base.commit, head=found.head.commit, require=options.require, skills=skills)

    @property
    def tests(self) -> dict[str, Test]:
        """The tests that have no verdict yet, by the paths of the skills."""
        return {path: due.test for path, due in self.due.items() if not standing_of(due.test, self._store).verdict}

    def _plan(self, pair: Pair) -> GatedSkill:
        found = pair.found
        skill = GatedSkill(path=found.path or ".", change=found.change, before=found.before, notes=pair.notes)
        if found.change == "deleted":
            return skill.model_copy(update={"outcome": "neutral", "why": "It is deleted: there is nothing to test."})
        if pair.fault:
            return skill.model_copy(update={"why": pair.fault})
        if pair.old == pair.new and not self.options.one_text:
            why = f"Its text is the same{': its tasks alone differ' if pair.is_changed else ''}; nothing is tested."
            return skill.model_copy(update={"outcome": "neutral", "why": why})
        try:
            return self._plan_test(pair, skill)
        except OF_A_SKILL as error:
            return skill.model_copy(update={"why": str(error)})

    def _plan_test(self, pair: Pair, skill: GatedSkill) -> GatedSkill:
        store, path = self._store, pair.found.path
        if not self.options.one_text:
            check_texts(self._models, pair.old, pair.new, quoted(skill.path))
        tested, held, notes = store_tasks(store, self._place.secrets, self.compared, pair)
        if tested is None:
            why = f"It has no tasks{' that can be used' * bool(notes)}: {_HOW_TO_ADD}."
            return skill.model_copy(update={"outcome": "neutral", "why": why, "notes": notes})
        origin = pair.origin if pair.tasks else "store"
        series = self.options.series or pair.new.digest[:12] if tested.path.startswith(GATED) else ""
        candidate = store_text(
            store, self._place.secrets, tested, pair.old.digest, pair.new, f"{path} in a pull request"
        )
        require, count_earlier = self.options.require, self.options.count_earlier
        n_earlier = count_earlier(pair.found.before or path) if count_earlier else None
        margin = DEFAULT_MARGIN if require == "no-worse" else None
        asked = Asked(margin, live=require == "any-but-worse", series=series, number=(n_earlier or 0) + 1)
        test = current_test(store, self._models, self._place, candidate, asked, among=held)
        if standing_of(test, store).verdict and in_order(held, test.row.plan.salt) != list(test.tasks):
            test = open_next_test(store, self._models, self._place, candidate, asked, held, foreseen=True)
        if n_earlier is not None and not test.row.is_open:
            n_earlier += 1  # this one is not among them
        self.due[skill.path] = Due(pair, candidate, held, asked, test, n_earlier)
        notes += [self.options.one_text] if self.options.one_text else []
        notes += ["Its tasks are new in this pull request."] if origin == "head" else []
        notes += ["Its tasks differ at the head: those of the base decide."] if pair.is_changed else []
        tasks = GatedTasks.model_validate({"from": origin, "n": len(held), "changed": pair.is_changed})
        return skill.model_copy(update={"tasks": tasks, "notes": [*notes, *candidate.findings]})

    def run(self, notify: Notify) -> Gated:
        """What came of all tests; those that have a verdict ask nothing. The first call is a probe.

        A test that cannot be made stops no other, but where the target cannot be asked, or the caps are used up.
        """
        caps, halted, is_probed = self._models.caps, "", False
        skills, stopped = list[GatedSkill](), ""
        for skill in self.gated.skills:
            due, why = self.due.get(skill.path), halted
            if due is None:
                skills.append(skill)
                continue
            try:
                if not (halted or standing_of(due.test, self._store).verdict):
                    self._limit(caps, due)
                    if due.test.foreseen:
                        due.test = open_next_test(
                            self._store, self._models, self._place, due.candidate, due.asked, due.tasks
                        )
                    if not is_probed:
                        self._probe(due.test)
                        is_probed = True
                    run_open_test(self._store, self._models, due.test, waits=True, notify=notify)
            except OF_A_SKILL as error:
                why = str(error).rstrip(".")
                if isinstance(error, Stopped | BackendError) and not isinstance(error, CapReached):
                    if not is_probed:
                        stopped, why = f"the first call failed, and nothing was tested: {why}", "The first call failed"
                    halted = why
            finally:
                self._models.caps = caps
            standing = standing_of(due.test, self._store)
            n, of = self._store.tests.count_attempts(due.test.row.id), due.test.row.plan.most_runs
            kept = f"; {n} of at most {counted(of, 'attempt')} are kept, and the same command continues" if n else ""
            update = self._conclude(skill, due, standing) if standing.verdict else {"why": f"{why}{kept}."}
            skills.append(skill.model_copy(update=update))
        return self.gated.model_copy(update={"skills": skills, "used": self.sum_used(), "stopped": stopped})

    def _limit(self, caps: Caps, due: Due) -> None:
        """Leave the test what the others of this gate have not used of the caps. Raises CapReached for nothing."""
        others = [each.test.row.id for each in self.due.values() if each is not due]
        spent = [self._store.budgets.get_spent(each) for each in others]
        left = Caps(
            None if caps.calls is None else caps.calls - sum(each.calls for each in spent),
            None if caps.tokens is None else caps.tokens - sum(each.tokens for each in spent),
            None if caps.usd is None else caps.usd - sum(each.usd for each in spent),
            None if caps.minutes is None else caps.minutes - sum(each.seconds for each in spent) / 60,
        )
        if any(each is not None and each <= 0 for each in (left.calls, left.tokens, left.usd, left.minutes)):
            raise CapReached(f"the caps ({caps.options}) are used up by the tests of other skills")
        self._models.caps = left

    def _probe(self, test: Test) -> None:
        """Ask the first attempt of a test, with the base's text where that comes. Raises Outage without an answer."""
        store, models = self._store, self._models
        wanted = Reading(test.row.plan, store.tests.list_attempts(test.row.id)).wanted(2)
        arm, unit, number = next((each for each in wanted if each[0] == "base"), wanted[0])
        call = PlannedRollout(test.files(arm), test.tasks[unit], f"{test.row.id}/{unit}/{arm}/{number}")
        check_ready(store, models, test)
        trials = models.ask(test.row.id, models.backends_for(test.tasks), lambda ask: rollout(ask, [call]))
        raise_if_all_failed(store, test.row.id, trials, "the first task")

    def _conclude(self, skill: GatedSkill, due: Due, standing: Standing) -> dict[str, object]:
        """What a test says: its outcome by what is required, its claim, its number, and what got worse."""
        test = due.test
        row, report = self._store.tests.find(test.row.id) or test.row, report_of(self._store, test, standing)
        verdict, is_own = standing.verdict, skill.tasks is not None and skill.tasks.origin in ("base", "head")
        opened = [each for each in self._store.tests.list_of_skill(row.skill_id) if each.is_open]
        series = [each.id for each in opened if each.series == row.series]
        worse = [(n, each) for n, each in enumerate(unit_rows(self._store, test, standing)) if each.outcome == "worse"]
        shown = [n for n, _ in worse[:_SHOWN]] if is_own else []
        answers = self._store.tests.list_answers(row.id, shown, _ANSWER_SHOWN)
        texts = {
            (each.unit, each.arm): each.text
            for each in sorted(answers, key=lambda each: (each.arm == "base") == (each.score >= 0.5))
        }
        why = f"Neither is better in sight on {counted(report.units.of, 'task')}; more tasks would decide."
        if report.void or verdict == "not_tested":
            why = " ".join(describe(report))
        elif report.decides and report.decides.add and not report.decides.tag:
            why = f"{counted(report.decides.add, 'further task')} would more likely than not decide."
        outcome, claim = rule(verdict, self.options.require, skill.tasks.origin if skill.tasks else "", len(test.tasks))
        return {
            "outcome": outcome, "verdict": verdict, "claim": claim, "why": "" if verdict in _CLAIMING else why,
            "test_number": max(row.number or series.index(row.id) + 1, due.n_earlier or 0),
            "number_known": due.n_earlier is not None or not row.series or (
                self.options.count_earlier is None and bool(self.options.series) and self.compared.is_whole
            ),
            "report": report,
            "worse": [
                WorseTask(id=each.task, tags=list(test.tasks[n].tags), old_answer=texts.get((n, "base")),
                          new_answer=texts.get((n, "candidate")))
                for n, each in worse[:_SHOWN]
            ],
        }  # fmt: skip

    def sum_used(self) -> GateUsed:
        """What all its tests used."""
        spent = [used_by(self._store, due.test.row.id) for due in self.due.values()]
        return GateUsed(
            calls=sum(each.n_calls for each in spent), tokens=sum(each.tokens for each in spent),
            usd=None if any(each.usd is None for each in spent) else sum(each.usd or 0.0 for each in spent),
        )  # fmt: skip


def rule(
    verdict: Verdict | None, require: Require, origin: str, n_units: int
) -> tuple[Literal["passed", "neutral", "failed"], Claim]:
    """What comes of a verdict on so many units by what is required, and what it claims by whose tasks they are."""
    is_general = verdict in ("better", "worse") and origin not in ("base", "head") and n_units >= MIN_UNITS
    claim: Claim = "on tasks like these" if is_general else "on these cases" if verdict in _CLAIMING else ""
    if verdict in _WORSE or (require == "better" and verdict == "not_better"):
        return "failed", claim
    return "passed" if verdict in _CLAIMING else "neutral", claim
