"""Replay: a run trained to its outcome: its search, the candidate that this made, and the promotion test of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from pydantic import JsonValue

from skillopt_mcp.actions.candidates import store_best
from skillopt_mcp.actions.forecasts import caps_of_search, price_of_run
from skillopt_mcp.actions.next_steps import advise_accepted
from skillopt_mcp.actions.opening_tests import current_test, only_here, open_next_test, tasks_to_test
from skillopt_mcp.core.budgets import Caps
from skillopt_mcp.core.candidates import GATE, Candidate
from skillopt_mcp.core.errors import BadInput, CapReached, Refused, Waiting
from skillopt_mcp.core.evidence import Standing, TestReport, Verdict
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import MemoryOutcome, Replayed
from skillopt_mcp.core.runs import Run, RunStatus, StepRecord
from skillopt_mcp.core.skills import SkillFiles, short
from skillopt_mcp.core.tracing import span
from skillopt_mcp.gates.search import metric_value
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.loop import restored, train
from skillopt_mcp.training.plan import RunPlan
from skillopt_mcp.training.progress import Notify, pause_reporter, silent
from skillopt_mcp.training.promotion_test import Asked, Test, run_test, stored_test
from skillopt_mcp.workspace.costs import account, add_up
from skillopt_mcp.workspace.models import Models
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.runs import describe_changes, make_plan, step_row, tasks_of
from skillopt_mcp.workspace.verdicts import report_of

TOPPED = "the current version scores 1.00 on the val tasks, so the gate accepts no candidate"
NO_BETTER = "no candidate did better than the live version on the val tasks"
SEARCH_CAPPED = "the search ended at its cap, so that its promotion test could be paid"


def replay(
    store: Store, models: Models, place: Place, run: Run, notify: Notify = silent, *, allow_changed: bool = False
) -> Replayed:  # fmt: skip
    """Return the outcome of a run, trained from wherever it stopped, its best version confirmed on held-out tasks.

    It resumes under the caps that it was given last, replaced by those of the workspace. Raises Busy when it is locked,
    and Refused when it was frozen with other backends or, without `allow_changed`, one has another fingerprint now.
    When interrupted, or stopped at a cap or by an outage (Stopped), what was finished is kept.
    """
    skill = store.skills.get_skill(run.skill_id)
    if run.result:
        return Replayed.model_validate_json(run.result)
    models.backends_of(run)
    lock = models.lock_run(run)
    status: RunStatus = "stopped"
    higher = store.runs.get_higher(run.id) if run.status == "stopped" else ""
    try:
        run = store.runs.get_run(run.id)
        if run.result:
            status = "finished"
            return Replayed.model_validate_json(run.result)
        run, backends = models.take_up(run, allow_changed=allow_changed)
        store.runs.set_status(run.id, "running")
        higher = ""
        plan = make_plan(store, place.secrets, run)
        price = price_of_run(store, models, run, tasks_of(store, run))
        kept_back = caps_of_search(store, models, run.caps, price) or run.caps
        on_pause = pause_reporter(notify)

        def search(limits: Caps) -> Best:
            state = models.ask(
                run.id, backends, lambda ask: train(plan, store, ask, notify, stop_when_perfect=True),
                payer=replace(run, caps=limits), on_pause=on_pause,
            )  # fmt: skip
            return Best(state.best, state.best_score, state.best_other)

        def try_test(test: Test) -> Standing:
            backends = models.backends_for(test.tasks)
            models.note_caller(test.row.id, test.tasks)
            with only_here(store, test, notify):
                return models.ask(
                    test.row.id, backends, lambda ask: run_test(test, store, ask, notify),
                    payer=run, on_pause=on_pause,
                )  # fmt: skip

        with span("run", run=run.id, skill=skill.name):
            reason = ""
            try:
                best = search(kept_back)
            except CapReached:
                steps = store.runs.list_steps(run.id)
                if kept_back == run.caps:
                    raise
                if run.count_better(steps):
                    best, reason = _best_of(store, run), SEARCH_CAPPED
                else:  # there is nothing to test yet
                    best = search(run.caps)
            result = _Ending(store, models, place, run, try_test).finish(plan, best)
            result = result.model_copy(update={"reason": result.reason or reason})
        store.runs.set_status(run.id, "finished", result.model_dump_json())
        status = "finished"
        return result
    except CapReached as reached:
        higher = reached.higher
        raise
    finally:
        try:
            if status == "stopped":
                store.runs.set_status(run.id, "stopped", higher=higher)
        finally:
            lock.release()


class Best(NamedTuple):
    """The best version of a search, and its score on val; with a memory file, the best pair."""

    files: SkillFiles
    score: float
    memory: SkillFiles | None = None

    def of_documents(self, plan: RunPlan) -> list[tuple[RunPlan, SkillFiles]]:
        """Each document of a run, as a plan of its own, with its best version: the skill, then the memory file."""
        return [(plan, self.files), *([(plan.turned(), self.memory)] if self.memory else [])]


def _best_of(store: Store, run: Run) -> Best:
    """The best version of the finished steps of a run, of which there are some."""
    last, skills = store.runs.list_steps(run.id)[-1], store.skills
    memory = skills.get_files(run.memory.skill_id, last.best_memory) if run.memory and last.best_memory else None
    return Best(skills.get_files(run.skill_id, last.best_version), last.best, memory)


def best_candidate(store: Store, place: Place, run_id: str) -> Candidate:
    """Return the best version of a run, finished or not, as a candidate. Raises NotFound, BadInput without one.

    Of a run with a memory file it is that of the skill, and once this is decided, or not better, that of the file.
    """
    run = store.runs.get_run(run_id)
    if run.kind != "replay" or not run.count_better(store.runs.list_steps(run_id)):
        raise BadInput(f"run '{run_id}' has no version that is better than its base: there is nothing to test")
    best = _best_of(store, run)
    documents = best.of_documents(make_plan(store, place.secrets, run))
    made = [store_best(store, plan, files, best.score) for plan, files in documents if files != plan.base]
    latest = store.decisions.latest
    return next((c for c in made if not latest(c.skill_id, GATE, c.base_version, c.version_id)), made[0])


@dataclass(frozen=True, slots=True)
class _Ending:
    """The end of a run's search: what becomes of the best version of each of its documents."""

    store: Store
    models: Models
    place: Place
    run: Run
    try_test: Callable[[Test], Standing]

    def finish(self, plan: RunPlan, best: Best) -> Replayed:
        """The outcome: the best version becomes a candidate, and the promotion gate looks at it once.

        A memory file is looked at after the skill, with that as its own gate left it.
        """
        proven = [(document, *self._prove(document, files, best.score)) for document, files in best.of_documents(plan)]
        result, *of_memory = [self._describe(*each) for each in proven]
        for each in of_memory:
            own = MemoryOutcome.model_validate(each.model_dump(include=set(MemoryOutcome.model_fields)))
            is_open = result.next_step is None or result.next_step.action == "inspect"
            step = each.next_step if is_open else result.next_step
            result = result.model_copy(update={"memory": own, "next_step": step})
        return result

    def _prove(self, plan: RunPlan, files: SkillFiles, score: float) -> tuple[Candidate | None, TestReport | str]:
        """The candidate made of a document, None without one, and its test, or why there is none."""
        store, models, place, run = self.store, self.models, self.place, self.run
        if files == plan.base:
            own = plan.skill_id == run.skill_id
            return None, why_none([step for step in store.runs.list_steps(run.id) if (step.kind != "memory") == own])
        # Another run, or a host, may have made the same candidate before, and without the other document.
        made = replace(store_best(store, plan, files, score), run_id=run.id)
        decided = store.decisions.latest(plan.skill_id, GATE, made.base_version, made.version_id)
        if not decided and (moved := self._describe_moved(made)):
            return made, f"it was not tested, as it could not be promoted: {moved}"
        asked = Asked(graded=plan.config.metric == "soft")
        try:
            held = tasks_to_test(store, models, run.skill_id, tasks_of(store, run))
        except (BadInput, Refused) as error:
            return made, str(error)
        # The test that the run began before it stopped goes on.
        begun = [row for test_id in store.runs.list_finishes(run.id) if (row := store.tests.find(test_id))]
        of_run = next((stored_test(store, row) for row in reversed(begun) if row.version_id == made.version_id), None)
        if not of_run and plan.other and (trouble := place.describe_trouble(store.skills.get_skill(plan.other_id))):
            return made, f"it was not tested, as the other document of the run is missing: {trouble}"
        test = of_run or current_test(store, models, place, made, asked, among=held)
        if test.foreseen:
            test = open_next_test(store, models, place, made, asked, held)
        # A process may die between the verdict and the end of its run: its test is not another one then.
        store.runs.add_finish(run.id, test.row.id)
        return made, report_of(store, test, self.try_test(test))

    def _describe_moved(self, made: Candidate) -> str:
        """How what is live differs from what the run began with, "" where it does not, or is what the run made."""
        skill = self.store.skills.get_skill(made.skill_id)
        if trouble := self.place.describe_trouble(skill):
            return trouble
        live = self.place.again(skill).live_version
        if live in (made.base_version, made.version_id):
            return ""
        began = short(made.base_version)
        return f"the live file of '{skill.name}' is version {short(live)} now, the run began with {began}"

    def _describe(self, plan: RunPlan, made: Candidate | None, outcome: TestReport | str) -> Replayed:
        """What became of a document; `outcome` is what its promotion test found, or why there was none."""
        store, run, test = self.store, self.run, None if isinstance(outcome, str) else outcome
        used = account(store, run.id)
        own, tests = add_up(used.own), used.of_tests
        steps, config = store.runs.list_steps(run.id), plan.config
        start = steps[0].baseline if steps else None
        if not steps:
            # What the base version scored by the replies in the store, asking no model.
            of_run = plan if plan.skill_id == run.skill_id else plan.turned()
            with suppress(Waiting):
                mean = restored(of_run, store, self.models.stored_ask(run)).evaluation.mean
                start = mean if mean.n else None
        return Replayed(
            run_id=run.id,
            skill=store.skills.get_skill(plan.skill_id).name,
            status="finished",
            steps=[step_row(step) for step in steps],
            best_version=short(made.version_id if made else plan.base.digest),
            candidate_id=made.id if made else None,
            verdict=test.verdict if test else None,
            accepted=test.accepted if test else None,
            reason=outcome if isinstance(outcome, str) else "",
            test=test,
            n_calls=own.n_calls,
            n_missing=own.n_missing,
            tokens_in=own.tokens_in,
            tokens_out=own.tokens_out,
            usd=own.usd,
            n_test_calls=tests.n_calls,
            test_tokens=tests.tokens_in + tests.tokens_out,
            test_usd=tests.usd if used.tests else None,
            backend=run.target,
            changes=describe_changes(run),
            metric=config.metric,
            baseline=metric_value(start, config.metric, config.mixed_weight) if start else None,
            baseline_hard=start.hard if start else None,
            baseline_soft=start.soft if start else None,
            simulated=self.models.is_simulated(tasks_of(store, run), "optimizer"),
            next_step=self._choose_step(made, test.verdict if test else None),
        )

    def _choose_step(self, made: Candidate | None, verdict: Verdict | None) -> NextStep:
        """What to do after a run with its best version, which may have been promoted before the run ended."""
        store, run = self.store, self.run
        if made is None:
            return NextStep(action="inspect", arguments={"id": run.id}, why="nothing to promote")
        changes = store.promotions.list_promotions(made.skill_id)
        if any(change.to_version == made.version_id for change in changes):
            return NextStep(action="inspect", arguments={"id": made.id}, why="the best version was promoted before")
        arguments: dict[str, JsonValue] = {"candidate_id": made.id}
        decided = store.decisions.latest(made.skill_id, GATE, made.base_version, made.version_id)
        is_accepted = "better" in (verdict, decided.verdict if decided else None)
        if (is_accepted or verdict is None) and (moved := self._describe_moved(made)):
            return NextStep(action="evaluate_candidate", arguments={**arguments, "rebase": True}, why=moved)
        if is_accepted:
            return advise_accepted(store, made)
        why = "its best version was not accepted" if verdict else "nothing to promote"
        return NextStep(action="inspect", arguments={"id": run.id}, why=why)


def why_none(steps: Sequence[StepRecord]) -> str:
    """Why no version of a run is better than its base: it may never have made one, or never measured one."""
    if not steps:
        return TOPPED
    if any(step.candidate is not None for step in steps):
        return NO_BETTER
    notes = [note for step in steps for note in (*step.unusable, *step.unmatched)]
    if notes:
        said = "1 reply or edit was" if len(notes) == 1 else f"{len(notes)} replies or edits were"
        return f"no candidate was ever made: {said} unusable, the first so: {notes[0].rstrip('.')}"
    return "no candidate was ever made: the optimizer proposed nothing that changes the skill"
