"""Opening tests: the tasks that a promotion test takes, what it asks of a candidate, and which one goes on."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from skillopt_mcp.core.candidates import GATE, Candidate
from skillopt_mcp.core.errors import BadInput, Busy, Refused
from skillopt_mcp.core.skills import DocumentVersion
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.core.text import quoted
from skillopt_mcp.store.files import lock_run
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.promotion_tests import NewTest
from skillopt_mcp.training.progress import Notify, Progress
from skillopt_mcp.training.promotion_test import (
    BETTER,
    Asked,
    Test,
    held_out,
    in_order,
    open_test,
    stored_test,
)
from skillopt_mcp.workspace.evidence import evidence_of, is_simulated
from skillopt_mcp.workspace.host_work import withdraw
from skillopt_mcp.workspace.leases import leases_in_time
from skillopt_mcp.workspace.models import Models
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import handle

_POLL_S = 0.2
_SALT_OF_SIMULATIONS = "simulated"
_SHARE_OF_KIND = 0.8


def tasks_to_test(store: Store, models: Models, skill_id: int, among: Sequence[Task] | None = None) -> list[Task]:
    """Return the held-out tasks of a promotion test, in use and `among` these. Raises BadInput, Refused."""
    ids = None if among is None else {task.id for task in among}
    held = [task for task in held_out(models.list_tasks(skill_id)) if ids is None or task.id in ids]
    if not held:
        skill = handle(store, store.skills.get_skill(skill_id))
        is_waiting = any(task.waits for task in store.tasks.list_in_use(skill_id))
        review = f"a person looks at those that wait: skillopt-mcp tasks review {shlex.quote(skill)}"
        more = review if is_waiting else "add tasks with add_tasks or 'tasks add'"
        raise BadInput(f"the skill has no held-out task (split test): {models.describe_left_out(skill_id) or more}")
    if all(task.judge.is_form_only() for task in held):
        raise Refused(
            f"all {len(held)} held-out tasks judge the form of an answer alone (length, heading): add held-out tasks "
            "with a judge of what is said"
        )
    return held


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
        is_same = asked.is_of(row.plan) and (row.other, row.series) == (other, asked.series)
        if is_same and not (again and store.decisions.latest_in(row.id)):
            test = stored_test(store, row)  # its tasks may have been removed since
            if row.backend == evidence_of(models.backends_for(test.tasks)):
                if row.is_open or not _is_outdated(store, models, test, skill_id, among):
                    return test
                withdraw(store, place, row.id)
                if not store.tests.withdraw(row.id):
                    return test
    return open_next_test(store, models, place, candidate, asked, among, foreseen=True)


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


def _specify(store: Store, candidate: Candidate, asked: Asked) -> Asked:
    """What is asked of this very candidate: whether it is worse where its text is live, and the kind it is about.

    Raises BadInput for a kind that it cannot have.
    """
    is_live = store.skills.get_skill(candidate.skill_id).live_version == candidate.version_id
    asked = replace(asked, live=asked.live or (is_live and asked.margin is None))
    held = [set(task.tags) for task in held_out(store.tasks.list_in_use(candidate.skill_id))]
    if asked.tag:
        n_tagged, way_on = sum(asked.tag in tags for tags in held), "leave out --kind, or add --cases"
        if not n_tagged:
            known_tags = ", ".join(f"`{each}`" for each in sorted(set().union(*held))[:20]) or "none"
            raise BadInput(f"no held-out task has the tag {quoted(asked.tag)}; there are: {known_tags}")
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


def open_next_test(
    store: Store, models: Models, place: Place, candidate: Candidate, asked: Asked,
    among: Sequence[Task] | None = None, *, foreseen: bool = False,
) -> Test:  # fmt: skip
    """A new test of a candidate on the held-out tasks `among` these, not stored if it is `foreseen` alone.

    Raises what `current_test` raises.
    """
    skill_id, other = _tested_with(store, place, candidate)
    held = tasks_to_test(store, models, skill_id, among)
    backend = evidence_of(models.backends_for(held))
    # A test of a simulation, which proves nothing, has a salt by which its results come about again.
    salt = _SALT_OF_SIMULATIONS if is_simulated(backend) else None
    opens = backend.startswith(("claude-code:", "codex:"))  # these load a skill by themselves
    asked = replace(_specify(store, candidate, asked), opens=opens, salt=salt)
    new = NewTest(candidate.skill_id, candidate.base_version, candidate.version_id, backend, other, asked.series)
    return open_test(store, new, held, asked, foreseen=foreseen)


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
