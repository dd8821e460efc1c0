"""Mining: tasks that a model drafts from a skill's text, complaints and sessions, and that wait for a person."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from pydantic import JsonValue

from skillopt_mcp.actions.sessions import read_host_sessions
from skillopt_mcp.actions.tasks import note_spread
from skillopt_mcp.backends.asking import Outstanding
from skillopt_mcp.core.advice import advise_review
from skillopt_mcp.core.calls import LOST, Ask, Call, Reply
from skillopt_mcp.core.errors import BadInput, NotFound, Outage
from skillopt_mcp.core.mining import SOURCES, Draft, Episode, Source
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.notes import Note
from skillopt_mcp.core.results import TasksAdded, Wave, WorkEstimate
from skillopt_mcp.core.skills import Skill, SplitCounts
from skillopt_mcp.core.text import quoted, storable
from skillopt_mcp.store.episodes import Episodes
from skillopt_mcp.store.opening import Store
from skillopt_mcp.tasks.drafts import Subject, plan_subjects
from skillopt_mcp.tasks.splits import DEFAULT_SHARES
from skillopt_mcp.training.stages.draft import (
    DraftingTerms,
    count_questions,
    draft_tasks,
    label_episodes,
    make_subjects,
    make_trigger_tasks,
    origin_of,
)
from skillopt_mcp.workspace.answers import shorten
from skillopt_mcp.workspace.costs import default_tokens
from skillopt_mcp.workspace.host_work import hand_out, withdraw
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.models import Models
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import handle

DEFAULT_TASKS, MAX_TASKS = 24, 60
_Drafted = tuple[list[Draft], list[str], list[Episode]]
_MAX_DROPPED, _DROPPED_BYTES = 20, 240


@dataclass(frozen=True, slots=True)
class Mining:
    """What tasks are drafted from, and how many: rules and complaints (skill), and sessions, which come first."""

    sources: tuple[Source, ...] = ("skill",)
    n_tasks: int = DEFAULT_TASKS
    complaints: Sequence[str] = ()
    since: str = ""  # the earliest time of an episode


@dataclass(frozen=True, slots=True)
class MiningPlan:
    """What a mining asks about; the labels of `unknown` episodes are asked first.

    In those that are `missed` the skill should have been opened, and was not: they become tasks as they are. `scope` is
    what its calls are kept under: the same material is asked once.
    """

    skill: Skill
    mining: Mining
    rules: Sequence[Subject]
    episodes: Sequence[Episode]
    unknown: Sequence[Episode]
    missed: Sequence[Episode] = ()

    @property
    def scope(self) -> str:
        """The id of the job."""
        asked = [(each.session, each.index, each.label) for each in (*self.episodes, *self.unknown)]
        digest = hashlib.sha256(repr((self.skill.live_version, self.mining, self.rules, asked)).encode()).hexdigest()
        return f"m-{self.skill.id}-{self.mining.sources[-1]}-{digest[:8]}"

    @property
    def n_questions(self) -> int:
        """How many questions it asks at most."""
        n_subjects = len(self.rules) + len(make_subjects(self.episodes)) + len(self.unknown)
        return count_questions(min(self.mining.n_tasks, n_subjects), len(self.unknown))


def plan_mining(store: Store, place: Place, name: str, mining: Mining) -> MiningPlan:
    """Plan what is drafted of a skill. Raises BadInput where there is nothing to draft from."""
    if not 1 <= mining.n_tasks <= MAX_TASKS:
        raise BadInput(f"--tasks must be 1-{MAX_TASKS}, got {mining.n_tasks}")
    skill = place.skill(name)
    said = [place.redactor.text(storable(" ".join(each.split()))) for each in mining.complaints if each.strip()]
    known, missed, drafted = list[Episode](), list[Episode](), Counter[str]()
    if "sessions" in mining.sources:
        drafted.update(each.origin for each in store.tasks.list_drafts(skill.id).values())
        found = list(store.table(Episodes).list_episodes(skill.id, mining.since))
        missed = [each for each in found if not (each.skill or each.answer) and origin_of(each) not in drafted]
        # What has neither a label nor words to ask about teaches nothing.
        usable = (
            each for each in found
            if each.answer and (each.label != "unknown" or (each.correction and each.why != "asked"))
        )  # fmt: skip
        newest = islice((each for each in usable if origin_of(each) not in drafted), mining.n_tasks)
        # The oldest first, so that new ones change no question that was asked.
        known = sorted(newest, key=lambda each: (each.at, each.session, each.index))
    unknown = [each for each in known if each.label == "unknown"]
    episodes = [each for each in known if each.label != "unknown"]
    text = place.redactor.text(_read_text(store, skill)) if "skill" in mining.sources else ""
    n_left = mining.n_tasks - len(make_subjects(episodes))
    rules = [each for each in plan_subjects(text, said, n_left) if each.nth > drafted[each.origin]] if n_left else []
    if mining.sources != ("repo",) and not (rules or unknown or missed) and n_left == mining.n_tasks:
        what = f"{'its text has no rule' if text else 'no session has an answer to judge'} that is not drafted yet"
        raise BadInput(f"nothing to draft tasks of '{skill.name}' from: {what}; say what goes wrong: --complaint TEXT")
    return MiningPlan(skill, mining, rules, episodes, unknown, missed[: mining.n_tasks])


def plan_job(store: Store, place: Place, job: str) -> MiningPlan:
    """The plan of a job that was handed out, by what there is now. Raises NotFound."""
    parts = job.split("-")
    if len(parts) != 4 or not parts[1].isdecimal() or parts[2] not in SOURCES:
        raise NotFound(f"there is no job {quoted(job)}: use the job_id that came with the work")
    return plan_mining(store, place, store.skills.get_skill(int(parts[1])).path, Mining((parts[2],)))


def _read_text(store: Store, skill: Skill) -> str:
    return store.skills.get_files(skill.id, skill.live_version).main.decode("utf-8", "replace")


def mine_source(store: Store, models: Models, place: Place, name: str, source: Source, wait: Wait) -> TasksAdded:
    """`advance_mining` on one source; of sessions what is new is read before. Raises what planning raises."""
    if source == "sessions":
        skill = place.skill(name)
        job = wait.jobs.attach("sessions", lambda notify: read_host_sessions(store, place), wait.notify)
        if not job.wait(wait.seconds):
            arguments: dict[str, JsonValue] = {"skill": handle(store, skill), "source": source}
            step = NextStep(action="add_tasks", arguments=arguments, why="the sessions are still being read")
            return _describe(store, MiningPlan(skill, Mining((source,)), (), (), ()), "running", step)
        wait.jobs.drop("sessions", job)
        job.result.result()
    return advance_mining(store, models, place, plan_mining(store, place, name, Mining((source,))), wait)


def advance_mining(store: Store, models: Models, place: Place, plan: MiningPlan, wait: Wait) -> TasksAdded:
    """Where a mining stands, advanced as far as the optimizer answers: its tasks, `running`, or `work` for a host.

    Raises CapReached, Outage, BackendError: what was answered is kept.
    """
    scope = plan.scope
    job = wait.jobs.attach(scope, lambda _: _work(store, models, place, plan), wait.notify)
    if not job.wait(wait.seconds):
        step = NextStep(action="submit_work", arguments={"job_id": scope}, why="it is still running")
        return _describe(store, plan, "running", step)
    wait.jobs.drop(scope, job)
    outcome = job.result.result()
    if not isinstance(outcome, Outstanding):
        withdraw(store, place, scope)
        return add_drafts(store, place, plan, *outcome)
    if wait.capacity is None and not store.leases.list_of(scope):
        asked, tokens = (len(outcome.calls), plan.n_questions), default_tokens("host")
        estimate = WorkEstimate(questions=asked, tokens_each=tokens, by_host=["optimizer"])
        why = f"takes up to {plan.n_questions} agent runs: ask the user first"
        step = NextStep(action="submit_work", arguments={"job_id": scope}, why=why)
        return _describe(store, plan, "work", step).model_copy(update={"estimate": estimate})
    work, next_step = hand_out(store, models, place, scope, outcome, wait.capacity)
    return _describe(store, plan, "work" if work else "running", next_step, work)


def _work(store: Store, models: Models, place: Place, plan: MiningPlan) -> _Drafted | Outstanding:
    programs = [each.name for each in store.commands.list_commands() if not each.unattended]
    text, n_tasks, lost = _read_text(store, plan.skill), plan.mining.n_tasks, dict[int, Reply]()
    terms = DraftingTerms(text, store.tasks.list_tasks(plan.skill.id), programs, place.secrets)
    tags = dict.fromkeys(each.tag for each in plan.rules or plan_subjects(text, (), MAX_TASKS))

    def draft(ask: Ask) -> _Drafted:
        def noting(calls: Sequence[Call], /) -> list[Reply]:
            replies = ask(calls)
            lost.update({each.id: each for each in replies if each.fault in LOST})
            return replies

        labelled = label_episodes(noting, plan.unknown)
        subjects = [*make_subjects([*plan.episodes, *labelled]), *plan.rules][:n_tasks]
        drafts, dropped = draft_tasks(noting, terms, subjects, list(tags))
        return [*drafts, *make_trigger_tasks(plan.missed)], dropped, labelled

    optimizer = models.backend("optimizer")
    models.check_caps({"optimizer": optimizer})
    outcome = models.ask_or_wait(plan.scope, {"optimizer": optimizer}, draft)
    if lost:
        # What a vendor's failure cost is asked again next time.
        store.calls.forget(plan.scope, list(lost), ())
        if isinstance(outcome, tuple) and not outcome[0]:
            why = next(iter(lost.values())).text.strip().rstrip(".")
            raise Outage(f"no draft came, the last answer was lost: {why}. Fix that and repeat: nothing is asked twice")
    return outcome


def add_drafts(
    store: Store, place: Place, plan: MiningPlan, drafts: Sequence[Draft], dropped: Sequence[str],
    labelled: Sequence[Episode],
) -> TasksAdded:  # fmt: skip
    """Store drafts with what they were made from, without secrets; they wait, a person's too."""
    clean = []
    for each in drafts:
        texts = map(storable, (each.origin, each.accepted, each.rejected, each.correction))
        clean.append(Draft(each.task, each.source, *place.redactor.texts(list(texts))))
    store.table(Episodes).store_labels(plan.skill.id, (each for each in labelled if each.why == "asked"))
    placed = store.tasks.add_tasks(plan.skill.id, clean, DEFAULT_SHARES, waits=True)
    new = [draft for draft, each in zip(clean, placed, strict=True) if each.is_new]
    why = place.redactor.texts(list(map(storable, dropped)))
    why += [f"{draft.origin}: {each.fault}" for draft, each in zip(clean, placed, strict=True) if each.fault]
    in_use = store.tasks.list_in_use(plan.skill.id)
    n_waiting = sum(task.waits for task in in_use)
    step = advise_review(handle(store, plan.skill), n_waiting) if n_waiting else None
    return _describe(store, plan, "done", step).model_copy(update={
        "added": len(new), "duplicates": sum(each.is_duplicate for each in placed), "n_rejected": len(why),
        "drafted": dict(Counter(draft.task.tags[0] for draft in new)),
        "dropped": [shorten(each, _DROPPED_BYTES) for each in why[:_MAX_DROPPED]],
        "notes": [Note(code="waiting", numbers={"n": n_waiting})] * bool(n_waiting) + note_spread(in_use),
    })  # fmt: skip


def _describe(
    store: Store, plan: MiningPlan, status: Literal["done", "work", "running"], step: NextStep | None,
    work: Wave | None = None,
) -> TasksAdded:  # fmt: skip
    splits = SplitCounts(**store.tasks.count_tasks(plan.skill.id))
    return TasksAdded(
        skill=plan.skill.name, added=0, duplicates=0, rejected=[], splits=splits, status=status, next_step=step,
        work=work, job_id=plan.scope,
    )  # fmt: skip
