"""Promotion tests: which two texts one compares, what it could find, running it in the background, its verdict."""

from __future__ import annotations

import functools
import shlex
import subprocess
import tarfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pydantic import JsonValue

from skillopt_mcp.actions.next_steps import advise_skill, bring_back, find_apart, is_reason_to_promote, undo_edit
from skillopt_mcp.actions.promotions.consent import permission_gaps
from skillopt_mcp.actions.tasks import near_train_tasks
from skillopt_mcp.backends.arrivals import check_arrivals
from skillopt_mcp.backends.asking import Asker, Outstanding, run_or_wait
from skillopt_mcp.backends.base import Backend, environment_name
from skillopt_mcp.backends.spending import Budget
from skillopt_mcp.core.advice import advise_promotion
from skillopt_mcp.core.budgets import Caps, Spent
from skillopt_mcp.core.calls import Call, Reply, Role, Rollout
from skillopt_mcp.core.candidates import GATE, ON_TOP, Candidate, NewCandidate, candidate_id, edited_on_top
from skillopt_mcp.core.errors import BadInput, Busy, NotFound, Refused
from skillopt_mcp.core.evidence import Standing
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.notes import Note, note_unanswered
from skillopt_mcp.core.redacting import KnownSecrets
from skillopt_mcp.core.results import Evaluated, Foreseen, KindOfTask, PowerRow, Replayed
from skillopt_mcp.core.runs import Run
from skillopt_mcp.core.skills import DocumentVersion, Skill, SkillFile, SkillFiles, is_memory, short
from skillopt_mcp.core.tasks import SPLITS, Task
from skillopt_mcp.core.text import quoted
from skillopt_mcp.core.tracing import span
from skillopt_mcp.gates.guard.capabilities import findings
from skillopt_mcp.gates.power import gain_found_in_half, power_of
from skillopt_mcp.gates.promotion import ENOUGH_UNITS, least_of_kind
from skillopt_mcp.store.files import lock_run
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.promotion_tests import NewTest
from skillopt_mcp.tasks.judges.checking import families
from skillopt_mcp.tasks.judges.judging import is_form_alone, list_attemptable, n_votes
from skillopt_mcp.tasks.splits import stratified
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.progress import Notify, Progress, pause_reporter
from skillopt_mcp.training.promotion_test import (
    BETTER,
    Asked,
    Test,
    foreseen_test,
    held_out,
    in_order,
    is_front_matter_alone,
    open_test,
    plan_of,
    run_test,
    standing_of,
    stored_test,
)
from skillopt_mcp.workspace.costs import default_tokens
from skillopt_mcp.workspace.evidence import (
    evidence_of,
    is_host,
    is_pasted,
    is_simulated,
    kind_of,
    kind_of_test,
    opens_skills,
)
from skillopt_mcp.workspace.host_work import estimate_host_test, hand_out, withdraw
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.leases import leases_in_time
from skillopt_mcp.workspace.linting import run_git
from skillopt_mcp.workspace.models import Models
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.runs import describe_own_backend
from skillopt_mcp.workspace.skill_folders import handle, id_meant, is_version, known, quote_handle, read_skill
from skillopt_mcp.workspace.skills import check_merged, describe_endings
from skillopt_mcp.workspace.verdicts import report_of

_POLL_S = 0.2
_PROMPT_SHOWN = 200
_SALT_OF_SIMULATIONS = "simulated"


# Which tasks


def chosen_tasks(
    store: Store, models: Models, skill: Skill, config: Config, only: Collection[str] | None = None
) -> list[Task]:
    """Return the tasks of a run, in the order they were added; a limit keeps each kind (the first tag) in its share.

    With `only`, digests of tasks, it takes no others. Raises BackendError when no target is set.
    """
    found = [task for task in target_tasks(store, models, skill.id) if only is None or task.digest in only]
    kept, limits = set[int](), (config.limit_train, config.limit_val, config.limit_test)
    for split, limit in zip(SPLITS, limits, strict=True):
        # By content, so that the same tasks are chosen in whatever order they were added.
        own = sorted((task for task in found if task.split == split), key=lambda task: task.digest)
        kinds = [task.tags[0] if task.tags else "" for task in own]
        kept |= {own[at].id for at in stratified(kinds, limit or len(own), f"limit {split} {config.seed}")}
    return [task for task in found if task.id in kept]


def target_tasks(store: Store, models: Models, skill_id: int) -> list[Task]:
    """Return the tasks in use of a skill that its target can get a score for."""
    return list_attemptable(store.tasks.list_in_use(skill_id), environment_name(models.backend("target")))


def tasks_to_test(store: Store, models: Models, skill_id: int, among: Sequence[Task] | None = None) -> list[Task]:
    """Return the held-out tasks of a promotion test, in use and `among` these. Raises BadInput, Refused."""
    ids = None if among is None else {task.id for task in among}
    held = [task for task in held_out(target_tasks(store, models, skill_id)) if ids is None or task.id in ids]
    if not held:
        skill = handle(store, store.skills.get_skill(skill_id))
        is_waiting = any(task.waits for task in store.tasks.list_in_use(skill_id))
        review = f"a person looks at those that wait: skillopt-mcp tasks review {shlex.quote(skill)}"
        more = review if is_waiting else "add tasks with add_tasks or 'tasks add'"
        raise BadInput(f"the skill has no held-out task (split test): {more}")
    if is_form_alone(held):
        raise Refused(
            f"all {len(held)} held-out tasks judge the form of an answer alone (length, heading): add held-out tasks "
            "with a judge of what is said"
        )
    return held


# Which two texts


def candidate_named(store: Store, place: Place, name: str) -> Candidate:
    """A candidate by its id; of a skill's name, the edit that a person made to its file. Raises NotFound."""
    name = known(name)
    if store.skills.find_paths(name) or Path(name).exists() or not id_meant(name):
        return edited_candidate(store, place, name)
    return store.candidates.get_candidate(name)


def edited_candidate(store: Store, place: Place, name: str) -> Candidate:
    """Return a person's edit of a skill's file: the live version against the one that was tested or promoted last.

    Before any test that is the first version known. An edit that is tested already stays what it is. Raises BadInput
    where nothing was edited.
    """
    skill = place.skill(name)
    changes = [(each.created_at, each.to_version) for each in store.promotions.list_promotions(skill.id)]
    edited = None
    for test in store.tests.list_of_skill(skill.id):
        if not test.is_open:
            continue
        made = store.candidates.get_candidate(candidate_id(skill.id, test.base_version, test.version_id))
        version = test.version_id if made.origin == "person" else test.base_version
        if store.skills.get_version(skill.id, version).origin == "recorded":  # others were named, and never live
            changes.append((test.created_at, version))
            edited = made if made.origin == "person" else edited
    base = max(changes)[1] if changes else store.skills.list_recorded(skill.id)[0].id
    if base == skill.live_version and edited and edited.version_id == base:
        return edited
    if base == skill.live_version:
        if not any(store.tasks.count_tasks(skill.id).values()):
            shown = quote_handle(store, skill)
            raise BadInput(f"{quoted(skill.name)} has no tasks: skillopt-mcp tasks add {shown} FILE")
        raise BadInput(
            f"'{skill.name}' is unchanged since version {short(base)}: edit its file, or name the other text: "
            "--against HEAD (or another old text), or --file NEW.md"
        )
    return _kept(
        store, place.secrets, skill, base, store.skills.get_files(skill.id, skill.live_version), "an edit of the file"
    )


def candidate_of_files(
    store: Store, place: Place, name: str, new: Path | None, against: str | Path | None = None
) -> Candidate:
    """A candidate with the text of a file or a skill folder (None: the live one), against the live version or a text.

    `against` names that: a file or folder, a version of the store, or a git revision of the skill's folder.
    """
    skill = place.skill(name)
    live = store.skills.get_files(skill.id, skill.live_version)
    base = live
    if against is not None:
        base = _text_named(store, skill, str(against), live)
        store.skills.add_version(skill.id, base)
    why = f"the text of {new.name}" if new else f"an edit of {against}"
    return _kept(store, place.secrets, skill, base.digest, _read(new, base) if new else live, why)


def _text_named(store: Store, skill: Skill, name: str, live: SkillFiles) -> SkillFiles:
    if Path(name).expanduser().exists():
        return _read(Path(name).expanduser(), live)
    if is_version(name):
        with suppress(NotFound):
            return store.skills.get_files(skill.id, store.skills.get_version(skill.id, name).id)
    folder = Path(skill.path)
    at = folder.parent if is_memory(skill.path) else folder
    missing = (
        f"{quoted(name)} names no file, no version of '{skill.name}', and no git revision of {quoted(str(at), 300)}"
    )
    try:
        commit = run_git(at, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        # In a folder, git packs what is below it alone, by the paths from there.
        packed = run_git(at, "archive", "--format=tar", commit.stdout.decode().strip() or "-", "--", ".")
    except (OSError, subprocess.SubprocessError) as error:
        raise BadInput(f"{missing}: git did not answer ({error})") from None
    if commit.returncode or packed.returncode:
        raise BadInput(f"{missing}: 'skillopt-mcp show {skill.name}' lists the versions that were live")
    with TemporaryDirectory() as unpacked, tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        place = Path(unpacked) / at.name
        archive.extractall(place, filter="data")
        return read_skill(place / folder.name if is_memory(skill.path) else place)


def _read(path: Path, live: SkillFiles) -> SkillFiles:
    """Return the files of a skill folder, or those that are live with this text as their main document."""
    if path.is_dir():
        return read_skill(path)
    try:
        return live.replaced(SkillFile(live.main_path, path.expanduser().read_bytes()))
    except OSError as error:
        raise BadInput(f"'{path}' cannot be read: {error.strerror}") from None


def _kept(store: Store, secrets: KnownSecrets, skill: Skill, base: str, files: SkillFiles, why: str) -> Candidate:
    """Return a person's text as a candidate. Raises BadInput where it is no other text than its base."""
    if files.digest == base:
        raise BadInput("both texts are the same: there is nothing to test")
    before = store.skills.get_files(skill.id, base)
    new = Candidate(
        id=candidate_id(skill.id, base, files.digest),
        skill_id=skill.id,
        base_version=base,
        version_id=files.digest,
        origin="person",
        reasoning=why,
        findings=findings(before, files, secrets),
    )
    return store.candidates.add_candidate(NewCandidate(new, files))


def check_testable(store: Store, models: Models, place: Place, candidate: Candidate) -> None:
    """Raise Refused when a candidate is live, or when the live file is not the one that it was made from.

    Two texts that a person names may be tested whatever is live.
    """
    versions = candidate.base_version, candidate.version_id
    arms = tuple(store.skills.get_files(candidate.skill_id, each) for each in versions)
    check_merged(arms[0])
    is_shown_less = models.has_backend("target") and is_pasted(models.backend("target").fingerprint)
    if is_shown_less and is_front_matter_alone(*arms):
        raise Refused(
            f"candidate '{candidate.id}' changes the front matter alone, which "
            f"'{models.backend('target').name}' is not shown: test it with --target claude-code "
            "or codex, which load the skill themselves"
        )
    skill = place.again(store.skills.get_skill(candidate.skill_id))
    if candidate.origin == "person":
        return
    if skill.live_version == candidate.version_id:
        raise Refused(f"candidate '{candidate.id}' is what is live already: there is nothing to test")
    if edited_on_top(store.promotions.list_promotions(skill.id), candidate.version_id, skill.live_version):
        raise Refused(f"candidate '{candidate.id}' is not to be tested. {ON_TOP}")
    if skill.live_version != candidate.base_version:
        if made_by_run := describe_step_of_run(store, candidate):
            raise Refused(made_by_run)
        endings = describe_endings(
            *(store.skills.get_files(skill.id, each) for each in (candidate.base_version, skill.live_version))
        )
        raise Refused(
            f"the live file of '{skill.name}' is version {short(skill.live_version)}, the candidate was made from "
            f"{short(candidate.base_version)}: propose the edits again, or run: skillopt-mcp evaluate "
            f"{candidate.id} --rebase{endings and f'. {endings}'}"
        )


def describe_step_of_run(store: Store, candidate: Candidate) -> str:
    """Return that a candidate builds on earlier steps of its run, and what of that is tested; "" where it does not."""
    if candidate.origin != "step" or candidate.run_id is None:
        return ""
    run = store.runs.get_run(candidate.run_id)
    if candidate.base_version in (run.base_version, run.memory and run.memory.version):
        return ""
    numbers = [step.n for step in store.runs.list_steps(run.id) if step.candidate_id == candidate.id]
    made_in = f"step {numbers[0]}" if numbers else "a step"
    if run.result:
        result = Replayed.model_validate_json(run.result)
        outcome = result if candidate.skill_id == run.skill_id else result.memory
        made = outcome and outcome.candidate_id
        way_on = (
            f"what they came to together is the run's own candidate: skillopt-mcp evaluate {made}" if made
            else "no version of the run was better than the one that it began with, and it has no candidate"
        )  # fmt: skip
    elif own := describe_own_backend(run):
        way_on = f"what they came to together is tested when the run finishes; {own}"
    else:
        way_on = f"test what they came to together: skillopt-mcp evaluate {run.id}"
    return f"candidate '{candidate.id}' is {made_in} of run {run.id}, made on top of its earlier steps: {way_on}"


# The test of a candidate


def current_test(
    store: Store, models: Models, place: Place, candidate: Candidate, asked: Asked = BETTER, *, again: bool = False,
    among: Sequence[Task] | None = None
) -> Test:  # fmt: skip
    """Return the newest test of a candidate that asks this of the same backends, or the one that would open now.

    `again` leaves out those that have decided: the next one takes its own share of the error rate. A new one is on the
    held-out tasks `among` these. Of a run with a memory file it is with the other document. Raises BadInput and Refused
    where nothing can be tested.
    """
    skill_id, other = _tested_with(store, place, candidate)
    asked = _specify(store, candidate, asked)
    for row in store.tests.list_of(candidate.skill_id, candidate.base_version, candidate.version_id):
        if asked.is_of(row.plan) and row.other == other and not (again and store.decisions.latest_in(row.id)):
            test = stored_test(store, row)  # its tasks may have been removed since
            if row.backend == evidence_of(models.backends_for(test.tasks)):
                if row.is_open or not _is_outdated(store, models, test, skill_id, among):
                    return test
                withdraw(store, place, row.id)
                if not store.tests.withdraw(row.id):
                    return test
    held = tasks_to_test(store, models, skill_id, among)
    return foreseen_test(store, *_new_test(store, models, place, candidate, asked, held))


def _is_outdated(store: Store, models: Models, test: Test, skill_id: int, among: Sequence[Task] | None) -> bool:
    """Whether a planned test has no answer, nobody is at work on it, and its tasks are not those of today."""
    if leases_in_time(store, test.row.id):
        return False
    plan = test.row.plan
    with suppress(BadInput, Refused):
        held = tasks_to_test(store, models, skill_id, among)
        if in_order([task for task in held if not plan.cases_alone or plan.tag in task.tags], plan.salt) == list(
            test.tasks
        ):
            return False
    lock = lock_run(store.locks_path, test.row.id)
    if lock:
        lock.release()
    return lock is not None


def _new_test(
    store: Store, models: Models, place: Place, candidate: Candidate, asked: Asked, held: Sequence[Task]
) -> tuple[NewTest, Sequence[Task], Asked]:
    backend, (_, other) = evidence_of(models.backends_for(held)), _tested_with(store, place, candidate)
    new = NewTest(candidate.skill_id, candidate.base_version, candidate.version_id, backend, other)
    # A test of a simulation, which proves nothing, has a salt by which its results come about again.
    salt = _SALT_OF_SIMULATIONS if is_simulated(backend) else None
    asked = _specify(store, candidate, asked)
    return new, held, replace(asked, opens=opens_skills(backend), salt=salt)


def _tested_with(store: Store, place: Place, candidate: Candidate) -> tuple[int, DocumentVersion | None]:
    """The skill whose tasks a candidate is tested on, and the other document of its run, in the version that is live.

    A memory file is tested with the version of the skill that its run has proven, until another one is live.
    """
    run = store.runs.get_run(candidate.run_id) if candidate.run_id else None
    if run is None or run.memory is None:
        return candidate.skill_id, None
    is_of_skill = candidate.skill_id == run.skill_id
    other = place.again(store.skills.get_skill(run.memory.skill_id if is_of_skill else run.skill_id))
    version = other.live_version
    for row in filter(None, map(store.tests.find, () if is_of_skill else store.runs.list_finishes(run.id))):
        decision = store.decisions.latest_in(row.id)
        if (row.skill_id, row.base_version) == (other.id, version) and decision and decision.verdict == "better":
            version = row.version_id
    return run.skill_id, DocumentVersion(other.id, version)


_SHARE_OF_KIND = 0.8


def _specify(store: Store, candidate: Candidate, asked: Asked) -> Asked:
    """What is asked of this very candidate: whether it is worse where its text is live, and the kind it is about.

    Raises BadInput for a kind that it cannot have.
    """
    is_live = store.skills.get_skill(candidate.skill_id).live_version == candidate.version_id
    asked = replace(asked, live=asked.live or (is_live and asked.margin is None))
    held = [set(task.tags) for task in held_out(store.tasks.list_in_use(candidate.skill_id))]
    if asked.tag:
        if not any(asked.tag in tags for tags in held):
            known_tags = ", ".join(f"`{each}`" for each in sorted(set().union(*held))[:20]) or "none"
            raise BadInput(f"no held-out task has the tag {quoted(asked.tag)}; there are: {known_tags}")
        n_tagged, way_on = sum(asked.tag in tags for tags in held), "leave out --kind, or add --cases"
        if asked.live and not asked.cases_alone:
            raise BadInput(f"the test of a live text, or one with --worse, is on all tasks alike: {way_on}")
        if asked.margin is not None and not asked.cases_alone:
            raise BadInput(f"--no-worse asks about all tasks alike: {way_on}")
        if 2 * n_tagged > len(held) and not asked.cases_alone:
            most = f"{n_tagged} of {len(held)} held-out tasks have the tag {quoted(asked.tag)}"
            raise BadInput(f"{most}, and a kind has at most half of them: {way_on}")
    elif asked.margin is None and not asked.live:
        failures = store.candidates.tags_of_failures(candidate)
        shares = {tag: sum(tag in each for each in failures) / len(failures) for tag in set().union(*failures)}
        fitting = [
            tag for tag, share in shares.items()
            if share >= _SHARE_OF_KIND and 0 < 2 * sum(tag in tags for tags in held) <= len(held)
        ]  # fmt: skip
        asked = replace(asked, tag=min(fitting, key=lambda tag: (-shares[tag], tag), default=""))
    if asked.cases_alone and not asked.tag:
        raise BadInput("--cases tests the tasks of one kind alone: name it with --kind TAG")
    return asked


def opened(
    store: Store, models: Models, place: Place, candidate: Candidate, asked: Asked, held: Sequence[Task]
) -> Test:
    """Return a new test of a candidate on these held-out tasks."""
    return open_test(store, *_new_test(store, models, place, candidate, asked, held))


@contextmanager
def only_here(store: Store, test: Test, notify: Notify | None = None) -> Iterator[None]:
    """Make a test's attempts in no two processes at once, whatever they do it for. Raises Busy when another one does.

    With `notify` it waits for that one instead, and reports its progress.
    """
    lock = lock_run(store.locks_path, test.row.id)
    while lock is None:
        if notify is None:
            raise Busy(f"another process is running the test '{test.row.id}': call again to see its verdict")
        notify(Progress(GATE, 0, store.tests.count_attempts(test.row.id), test.row.plan.most_runs))
        time.sleep(_POLL_S)
        lock = lock_run(store.locks_path, test.row.id)
    try:
        yield
    finally:
        lock.release()


def evaluate_candidate(
    store: Store,
    models: Models,
    place: Place,
    name: str,
    wait: Wait | None = None,
    asked: Asked = BETTER,
    *,
    again: bool = False,
) -> Evaluated:
    """Return the verdict on a candidate, or `running` once `wait` is over (default: it waits to the end), or `work`.

    `name` is a candidate's id, or a skill whose file a person edited. The test goes on in the background; a later call
    attaches to it, and a call after the process died resumes it. A verdict stands, and nothing more is spent; `again`
    opens the next test. Where a host is the target, its work is handed out as far as `wait` has a capacity; without,
    the first call gives the estimate alone, and so does an agent's first call with any real target. A test opens, and
    takes its share of the error rate, with the first answer.

    Raises Refused when the live file is no longer the one that the candidate was made from, BackendError when no target
    is set.
    """
    candidate, wait = candidate_named(store, place, name), wait or Wait()
    wait_s, capacity = wait.seconds, wait.capacity
    check_testable(store, models, place, candidate)
    test = current_test(store, models, place, candidate, asked, again=again)
    standing = standing_of(test, store)
    if standing.verdict:
        # Noted again: a process may have died between its last attempt and the note of the verdict.
        return _concluded(store, place, candidate, test, run_test(test, store, _nothing_to_ask))
    foreseen = foresee(store, models, test) if test.foreseen and wait_s is not None else None
    if test.foreseen:
        at_host = is_host(models.backend("target").name)
        if at_host and not (capacity and capacity.items):
            return _open(store, place, candidate, test, foreseen)
        # A new test begins once its price was shown; a simulation has none.
        is_agreed = is_simulated(test.row.backend) or wait.jobs.is_offered(candidate.id)
        if not at_host and place.is_agents and foreseen and not is_agreed:
            wait.jobs.offer(candidate.id)
            tokens = f", {foreseen.tokens_each:,} tokens each" if foreseen.tokens_each else ""
            runs = f"{foreseen.most_runs} runs of {models.backend('target').name}{tokens}"
            why = f"takes up to {runs}: ask the user first"
            offer = _evaluated(store, candidate, test, standing, _evaluation(candidate, why))
            return offer.model_copy(update={"status": "estimate", "foreseen": foreseen})
        _able(store, models, test)
        test = opened(store, models, place, candidate, asked, tasks_to_test(store, models, test.tasks[0].skill_id))
    job = wait.jobs.attach(test.row.id, functools.partial(_run, store, models, test, wait_s is None), wait.notify)
    is_done = job.wait(wait_s)
    if is_done:
        wait.jobs.drop(test.row.id, job)
    # Where another session's call runs it, it is running as well; submit_work reports that itself.
    busy = is_done and wait_s is not None and capacity is None and isinstance(job.result.exception(), Busy)
    if busy or not is_done:
        step = _evaluation(candidate, "it is still running")
        running = _evaluated(store, candidate, test, standing_of(test, store), step)
        return running.model_copy(update={"status": "running", "foreseen": foreseen})
    outcome = job.result.result()
    if isinstance(outcome, Standing):
        return _concluded(store, place, candidate, test, outcome)
    # What the host is to do next, as far as its capacity goes.
    if capacity is None and not store.leases.list_of(test.row.id):
        return _open(store, place, candidate, test, foreseen)
    work, step = hand_out(store, models, place, test.row.id, outcome, capacity)
    status = "work" if work else "running"
    update = {"status": status, "work": work, "next_step": step}
    return _open(store, place, candidate, test, foreseen).model_copy(update=update)


def candidate_of_job(store: Store, job: str) -> str:
    """Return the id of the candidate whose promotion test a job is, open or only foreseen. Raises NotFound."""
    if row := store.tests.find(job):
        return candidate_id(row.skill_id, row.base_version, row.version_id)
    if job.startswith("c-"):
        return store.candidates.get_candidate(job).id
    raise NotFound(f"there is no job {quoted(job)}: use the job_id that came with the work")


def _nothing_to_ask(calls: Sequence[Call], /) -> list[Reply]:
    raise AssertionError(f"a decided test asks nothing, but asked {len(calls)} calls")


def _run(store: Store, models: Models, test: Test, waits: bool, notify: Notify) -> Standing | Outstanding:
    with only_here(store, test, notify if waits else None):
        backends, budget = _able(store, models, test), Budget(test.row.id, models.caps)
        models.note_caller(test.row.id, test.tasks)
        with span("promotion_test", test=test.row.id), Asker(
            store, backends, test.row.id, concurrency=models.concurrency, on_reply=models.on_reply,
            budget=budget, on_pause=pause_reporter(notify)
        ) as ask:  # fmt: skip
            return run_or_wait(ask, store, lambda: run_test(test, store, ask, notify))


def _able(store: Store, models: Models, test: Test) -> dict[Role, Backend]:
    """Return who answers in a test. Raises BadInput for caps that they cannot have."""
    backends = models.ready_for(test.tasks)
    arms = [Rollout(files, task).next_to(test.other) for task in test.tasks for files in (test.base, test.candidate)]
    made = candidate_id(test.row.skill_id, test.row.base_version, test.row.version_id)
    given: dict[str, JsonValue] = {"candidate_id": made, "target": backends["target"].name}
    see = NextStep(action="evaluate_candidate", arguments=given).as_command()
    check_arrivals(store, backends["target"], arms, see)
    return backends


# What it takes, what it could find, and what it found


class TestPrice(NamedTuple):
    """The promotion tests that a run may end with: their attempts at most, and the judge's calls of each."""

    n_runs: int
    votes: int


def price_of_run(store: Store, models: Models, run: Run, tasks: Sequence[Task]) -> TestPrice:
    """The price of the tests of a run on these tasks, if it finds a better version of each of its documents."""
    held = held_out(tasks)
    if not held:
        return TestPrice(0, 0)
    backend = evidence_of(models.backends_for(held))
    # What was tested without a memory file says nothing of how often the skill succeeds with it.
    earlier = {} if run.memory else store.tests.scores_of(run.skill_id, run.base_version, backend)
    plan = plan_of([family[0] for family in families(held)], earlier, BETTER, 1, "")
    return TestPrice(run.n_documents * plan.most_runs, max(map(n_votes, held)))


def caps_of_search(store: Store, models: Models, caps: Caps, price: TestPrice) -> Caps | None:
    """What a search may use of caps: all but the price of its promotion test; None where they do not hold that.

    Tokens and money are those of such calls before, or a default.
    """
    target = models.backend("target")
    usual = store.ledger.usual("target", target.name, target.fingerprint)
    n_calls = price.n_runs * (1 + price.votes)
    tokens = round(n_calls * (usual.tokens if usual else default_tokens(target.name)))
    left = Caps(
        None if caps.calls is None else caps.calls - n_calls,
        None if caps.tokens is None else caps.tokens - tokens,
        None if caps.usd is None else caps.usd - n_calls * ((usual.usd if usual else None) or 0.0),
        caps.minutes,
    )
    return None if any(each is not None and each < 0 for each in (left.calls, left.tokens, left.usd)) else left


def describe_reach(store: Store, models: Models, caps: Caps, price: TestPrice, spent: Spent) -> str:
    """Whether caps reach a verdict, where that much is spent before the test; "" without caps, or without a test."""
    caps = replace(caps, minutes=None)
    if not caps.options or not price.n_runs:
        return ""
    left = caps_of_search(store, models, caps, price)
    reached = "a verdict" if left and not left.exceeded(spent) else "no verdict"
    return f"The cap ({caps.options}) reaches {reached}: the promotion test takes up to {price.n_runs:,} runs."


def foresee(store: Store, models: Models, test: Test) -> Foreseen:
    """Return what a test could find and what it takes, by the attempts that exist at its base; nothing is asked."""
    plan, row = test.row.plan, test.row
    candidate = store.candidates.get_candidate(candidate_id(row.skill_id, row.base_version, row.version_id))
    earlier = store.tests.scores_of(row.skill_id, row.base_version, row.backend, graded=plan.graded, other=row.other)
    by_unit = [earlier.get(task_id, ()) for task_id in row.tasks]
    rows = power_of(plan, by_unit)
    n_tagged = sum(plan.tag in task.tags for task in test.tasks)
    kind = KindOfTask(tag=plan.tag, units=n_tagged, needs=least_of_kind(plan.number)) if plan.tag else None
    target = models.backend("target")
    usual = store.ledger.usual("target", target.name, target.fingerprint)
    n_done = 0 if test.foreseen else store.tests.count_attempts(row.id)
    price = TestPrice(max(0, plan.most_runs - n_done), max(map(n_votes, test.tasks)))
    spent = store.budgets.get_spent(row.id)
    return Foreseen(
        units=plan.n_units,
        passes=plan.passes,
        test_in_release=row.number,
        alpha=float(plan.alpha),
        pilot=plan.n_pilot,
        kind=kind if plan.kind else None,
        few_of_kind=kind if kind and kind.units < kind.needs and not plan.in_rounds else None,
        found_in_half=None if plan.in_rounds else gain_found_in_half(plan, by_unit),
        power=[PowerRow(gain=each.gain, chance=round(each.chance, 2), runs=round(each.runs)) for each in rows],
        most_runs=test.row.plan.most_runs,
        few_tasks=plan.n_units < ENOUGH_UNITS,
        margin=plan.margin,
        tokens_each=round(usual.tokens) if usual else default_tokens(target.name) or None,
        is_default=usual is None,
        beyond_permission=permission_gaps(store, candidate, test.tasks, row.backend),
        reach=describe_reach(store, models, models.caps, price, spent),
    )


def stored_verdict(store: Store, place: Place, candidate: Candidate) -> Evaluated | None:
    """The newest verdict on a candidate; None before its first. Nobody is asked."""
    decision = store.decisions.latest(candidate.skill_id, GATE, candidate.base_version, candidate.version_id)
    row = store.tests.find(decision.scope) if decision else None
    if row is None:
        return None
    test = stored_test(store, row)
    standing = standing_of(test, store)
    return _evaluated(store, candidate, test, standing, _after(store, place, candidate, standing))


def _concluded(store: Store, place: Place, candidate: Candidate, test: Test, standing: Standing) -> Evaluated:
    """Return a verdict; what a host still has in hand for it is taken back."""
    if kind_of(test.row.backend) == "host":
        withdraw(store, place, test.row.id)
    return _evaluated(store, candidate, test, standing, _after(store, place, candidate, standing))


def _open(store: Store, place: Place, candidate: Candidate, test: Test, foreseen: Foreseen | None) -> Evaluated:
    """Return where an open test of a host stands, and what it takes; the work itself is not handed out here."""
    estimate = estimate_host_test(test, store, foreseen)
    least, most = estimate.agent_runs()
    job = candidate.id if test.foreseen else test.row.id
    why = f"takes {least} to {most} agent runs: ask the user first"
    step = NextStep(action="submit_work", arguments={"job_id": job}, why=why)
    near = near_train_tasks(store, candidate.skill_id, test.tasks)
    skill = store.skills.get_skill(candidate.skill_id)
    outside = [] if place.root_of(skill) else [Note(code="outside_skill_roots")]
    so_far = _evaluated(store, candidate, test, standing_of(test, store), step)
    update = {
        "status": "work", "foreseen": foreseen, "estimate": estimate, "job_id": job,
        "notes": [*so_far.notes, *outside, *([near] if near else [])],
    }  # fmt: skip
    return so_far.model_copy(update=update)


def _evaluated(store: Store, candidate: Candidate, test: Test, standing: Standing, step: NextStep | None) -> Evaluated:
    kind = kind_of_test(store, test.row.id, test.row.backend)
    notes = [Note(code="rolled_back", ids=[candidate.id])] if bring_back(store, candidate) else []
    notes += [Note(code="never_opened")] if standing.verdict == "not_tested" else []
    notes += [] if standing.verdict else note_unanswered(store.calls.count_faults(test.row.id))
    return Evaluated(
        status="verdict" if standing.verdict else "running",
        candidate_id=candidate.id,
        accepted=is_reason_to_promote(store, candidate, standing.verdict) if standing.verdict else None,
        evidence=kind,
        same_session=kind == "host" and store.candidates.is_answered_by_author(candidate.id, test.row.id),
        attempts_done=standing.runs.candidate + standing.runs.base,
        test=report_of(store, test, standing) if standing.verdict else None,
        notes=notes,
        next_step=step,
    )


def _after(store: Store, place: Place, candidate: Candidate, standing: Standing) -> NextStep | None:
    """Return what to do after a verdict: promote it, or propose other edits; a live text needs nothing."""
    skill = store.skills.get_skill(candidate.skill_id)
    is_rolled_back = bring_back(store, candidate) is not None
    if candidate.version_id == skill.live_version:
        is_worse = standing.verdict in ("worse", "worse_here")
        return undo_edit(store, candidate, "the live text solves fewer tasks") if is_worse else None
    if standing.verdict and is_reason_to_promote(store, candidate, standing.verdict) and not is_rolled_back:
        apart = find_apart(store, candidate, place)
        return apart[1] if apart else advise_promotion(candidate.id, len(candidate.findings))
    if standing.verdict == "better_here" and not place.is_agents:
        why = "better on these cases; of others nothing is proven"
        return NextStep.at_terminal("promote_skill", {"candidate_id": candidate.id, "unproven": True}, why)
    # The same after every other verdict: the author of edits learns only whether a candidate was accepted.
    step = advise_skill(store, skill)
    if standing.verdict == "not_tested":
        return replace(step, why="the skill was never opened: its description has to say when it applies")
    return step


def _evaluation(candidate: Candidate, why: str) -> NextStep:
    return NextStep(action="evaluate_candidate", arguments={"candidate_id": candidate.id}, why=why)
