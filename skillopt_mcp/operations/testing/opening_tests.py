"""Opening tests: the promotion test of a candidate, foreseen while nothing is asked, and opened with its first call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from skillopt_mcp.backends.host import is_host
from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.errors import BackendError, BadInput, NotFound, Refused
from skillopt_mcp.gates.confirm import ConfirmRule, claimed
from skillopt_mcp.judges.shapes import is_form_alone
from skillopt_mcp.operations.candidates.learned import told_learned
from skillopt_mcp.operations.judging import evidence_of, is_host_run
from skillopt_mcp.operations.names import known
from skillopt_mcp.operations.skills.merging import check_merged
from skillopt_mcp.operations.spending.pausing import pairs_of_new, pairs_of_open
from skillopt_mcp.operations.tasks.twins import told_twins
from skillopt_mcp.operations.testing.choosing import target_tasks, tasks_to_test
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import Test, id_of_test, open_test, upcoming_test
from skillopt_mcp.optimizer.reservations import shortening
from skillopt_mcp.optimizer.sampling import described
from skillopt_mcp.records.candidates import Candidate, candidate_id
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.store.decisions import ConfirmationRow

# A person's quota pays for them: a test that a host runs pauses sooner.
HOST_PAIRS = 40
# That a candidate is no worse lets its tasks lose so much, and asks for so much less text.
MOST_LOSS, LEAST_SHORTENING = 0.1, 0.05
Evidence = Literal["", "host-run", "host-run, exposed"]
_ORIGINS: dict[Evidence, str] = {
    "host-run": "the host's own agents made or judged the attempts",
    "host-run, exposed": "the host's own agents made or judged the attempts, in a session that had seen these tasks",
}


def default_rule(workspace: Workspace) -> ConfirmRule:
    """Return the rule of a promotion test where nobody asks for another one."""
    return ConfirmRule(max_pairs=HOST_PAIRS) if is_host(workspace.backend("target").name) else ConfirmRule()


def foreseen_test(workspace: Workspace, candidate: Candidate, rule: ConfirmRule) -> Test:
    """Return the promotion test of a candidate as it stands, or as it would be opened now.

    Raises BadInput when the skill has no held-out task, Refused when nothing can come of the test.
    """
    return _test(workspace, candidate, rule, opening=False)


def prepare(workspace: Workspace, candidate: Candidate, rule: ConfirmRule) -> Test:
    """Return the opened promotion test of a candidate; what was never open takes its error rate of the skill's with it.

    Raises what `foreseen_test` raises.
    """
    return _test(workspace, candidate, rule, opening=True)


def most_pairs(workspace: Workspace, candidate_id: str, rule: ConfirmRule) -> int:
    """Return after how many more pairs a test of this rule pauses: fresh tasks may be fewer. Raises NotFound.

    A test that is open goes on with its own claim, to where its turn ends; one that has decided draws no pair.
    """
    store = workspace.store
    candidate = store.candidates.get_candidate(known(candidate_id))
    tasks, held = tasks_to_test(workspace, candidate, target_tasks(workspace, candidate.skill_id, retired=True))
    versions = (candidate.skill_id, candidate.base_version, candidate.version_id)
    evidence = evidence_of(workspace.backends_for(held))
    rows = [row for row in store.decisions.list_confirmations(*versions) if row.backend == evidence]
    return pairs_of_open(store, rows, tasks, rule.max_pairs) if rows else pairs_of_new(store, tasks, rule)


def check_claimed(test: Test, rule: ConfirmRule, candidate_id: str) -> None:
    """Raise Refused when the test of a candidate was begun for another claim than a rule makes."""
    if (rule.margin and test.rule.margin != rule.margin) or rule.claim not in ("these", test.rule.claim):
        raise _begun_otherwise(test, candidate_id)


def check_said(workspace: Workspace, candidate_id: str, rule: ConfirmRule) -> None:
    """Raise Refused when the test of a candidate was begun for another claim than a rule makes that names one.

    A rule of which nobody said what it claims goes on with what the test was begun for. Raises what `foreseen_test` and
    `get_candidate` raise.
    """
    test = foreseen_test(workspace, workspace.store.candidates.get_candidate(known(candidate_id)), rule)
    if test.rule.claim != rule.claim:
        raise _begun_otherwise(test, candidate_id)


def _begun_otherwise(test: Test, candidate_id: str) -> Refused:
    return Refused(
        f"the test of '{candidate_id}' was begun for another claim ({claimed(test.rule)}, "
        f"{described(test.row.claim, test.tasks)}): it is chosen before the evidence is seen, and stays"
    )


def _check_no_worse(candidate: Candidate, arms: tuple[SkillFiles, SkillFiles], rule: ConfirmRule) -> None:
    """Raise BadInput where it would be no reason to promote a candidate that it is no worse by so much."""
    if rule.margin >= 0:
        return
    if rule.margin < -MOST_LOSS:
        raise BadInput(f"a loss of {-rule.margin:g} is more than a shorter skill is worth: use {MOST_LOSS:g} or less")
    base, files = arms
    if shortening(base, files) < LEAST_SHORTENING:
        raise BadInput(
            f"candidate '{candidate.id}' is not {LEAST_SHORTENING * 100:g} % shorter than the live version "
            f"({len(files.text):,} and {len(base.text):,} characters), so that it is no worse would be no reason to "
            "promote it"
        )


def evidence_so_far(workspace: Workspace, row: ConfirmationRow) -> Evidence:
    """Return whether a host made or judged the attempts of a test, in a session that knew its tasks; empty for none."""
    if not is_host_run(row.backend):
        return ""
    return "host-run, exposed" if workspace.store.exposures.exposed(row.id) else "host-run"


def candidate_of_job(workspace: Workspace, job: str) -> str:
    """Return the id of the candidate whose promotion test a job is, open or only foreseen. Raises NotFound."""
    row = workspace.store.decisions.find_confirmation(job)
    if row is not None:
        return candidate_id(row.skill_id, row.base_version, row.version_id)
    found = next((each.id for each in _foreseen_of(workspace, job)), None)
    if found is None:
        raise NotFound(
            f"there is no job {quoted(job)}: use the job_id that came with the work, or that evaluate_candidate gives"
        )
    return found


def _foreseen_of(workspace: Workspace, job: str) -> Iterator[Candidate]:
    """Yield the candidates whose test would have this name: of a test that is not open, nothing else is kept."""
    store = workspace.store
    for skill in store.skills.list_skills():
        candidates = store.candidates.list_candidates(skill.id, steps=True)
        everything = target_tasks(workspace, skill.id, retired=True) if candidates else []
        yield from (each for each in reversed(candidates) if _name(workspace, each, everything) == job)


def _name(workspace: Workspace, candidate: Candidate, everything: Sequence[Task]) -> str:
    """Return what the test of a candidate is named; empty where it can have none now."""
    try:
        _, held = tasks_to_test(workspace, candidate, everything)
        evidence = evidence_of(workspace.backends_for(held))
    except (BackendError, Refused):
        # Another skill's: its judge may not be named, or nothing may be left to test it with.
        return ""
    return id_of_test(candidate.skill_id, candidate.base_version, candidate.version_id, evidence)


def _test(workspace: Workspace, candidate: Candidate, rule: ConfirmRule, *, opening: bool) -> Test:
    store = workspace.store
    base = store.skills.get_files(candidate.skill_id, candidate.base_version)
    check_merged(base)
    files = store.skills.get_files(candidate.skill_id, candidate.version_id)
    everything = target_tasks(workspace, candidate.skill_id, retired=True)
    tasks, held = tasks_to_test(workspace, candidate, everything)
    if is_form_alone(held):
        raise Refused(
            f"all {len(held)} held-out tasks judge the form of an answer alone (length, heading), which promotes "
            "nothing: add held-out tasks with a judge of what is said; nothing was spent"
        )
    _check_no_worse(candidate, (base, files), rule)
    find = open_test if opening else upcoming_test
    test = find(store, (base, files), tasks, evidence_of(workspace.backends_for(held)), rule)
    said = evidence_so_far(workspace, test.row)
    origin = f"; {said}: {_ORIGINS[said]}" if said else ""
    learned = told_learned(workspace, candidate, test.row.tasks)
    twins = told_twins(store, candidate.skill_id, test.tasks, tasks)
    test = replace(test, origin=origin + test.origin + learned + (twins and f"; {twins}"))
    check_claimed(test, rule, candidate.id)
    return test
