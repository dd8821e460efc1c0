"""Listing skills: what is told of each takes as many queries with many candidates as with few."""

from __future__ import annotations

import itertools
import shutil

import pytest
from hostwork import Clock, begun, begun_proposal, server
from workshop import Place, right_when_taught, use

from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.operations.candidates.proposing import propose_edits
from skillopt_mcp.operations.evidence.recording import Recording, record_trajectory
from skillopt_mcp.operations.looks.listing import PAGE, TO_TRACK, list_skills
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.records.candidates import Decision
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.store.pressing import Pressing

VERDICTS = ("accept", "reject", "undecided")


def proposed(host: Workspace, place: Place, first: int, n: int) -> list[str]:
    return [place.propose(host, f"- Rule {first + each}: be kind.") for each in range(n)]


def n_queries(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many queries it takes to list the skills."""
    # The first time, it reads more.
    list_skills(workspace)
    asked = list[str]()

    def counted(patch: pytest.MonkeyPatch, way: str) -> None:
        inner = getattr(Pool, way)
        patch.setattr(Pool, way, lambda pool, sql, *values: (asked.append(sql), inner(pool, sql, *values))[1])

    with monkeypatch.context() as patch:
        counted(patch, "rows")
        counted(patch, "row")
        list_skills(workspace)
    return len(asked)


def test_many_candidates_are_listed_with_as_many_queries_as_few(
    place: Place, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file that was written just now is looked at once more: even what is young is remembered here.
    monkeypatch.setattr("skillopt_mcp.operations.sightings.TICK_NS", -(1 << 62))
    place.add_tasks(place.open())
    host = server(place, clock, place.folder / "work")
    proposed(host, place, 0, 2)
    few = n_queries(host, monkeypatch)
    proposed(host, place, 2, 20)
    assert n_queries(host, monkeypatch) == few


def test_of_tests_under_way_that_of_the_newest_candidate_is_told(place: Place, host: Workspace) -> None:
    older, newer, newest = proposed(host, place, 0, 3)
    jobs = {each: begun(host, each).job_id for each in (newer, older)}
    [row] = list_skills(host).skills
    assert row.next_step.startswith(
        f"the test of {newer} is under way: submit_work with job_id {jobs[newer]}; 4 pieces"
    )
    host.store.leases.withdraw(jobs[newer])
    [row] = list_skills(host).skills
    assert row.next_step.startswith(
        f"the test of {older} is under way: submit_work with job_id {jobs[older]}; 4 pieces"
    )
    host.store.leases.withdraw(jobs[older])
    [row] = list_skills(host).skills
    assert row.next_step == f"evaluate_candidate {newest}"


def test_the_verdicts_of_all_versions_are_those_that_count_for_each(place: Place, workspace: Workspace) -> None:
    store, tracked = workspace.store, workspace.skill(str(place.skill))
    backends = ("simulated", "anthropic:some-model")
    orders = list(itertools.permutations(itertools.product(backends, VERDICTS), 2))
    versions = []
    for n, order in enumerate(orders):
        edits = [{"op": "append", "content": f"- Rule {n}: be kind."}]
        made = store.candidates.get_candidate(propose_edits(workspace, str(place.skill), edits).candidate_id or "")
        versions.append(made.version_id)
        base = made.base_version
        for k, (backend, verdict) in enumerate(order):
            row = ConfirmationRow(
                f"t-{n}-{backend}-{k}", tracked.id, base, made.version_id, 0, 0.0, f"{backend}{k}", ()
            )
            store.decisions.open_confirmation(row, lambda n, staked: 0.001)
            store.decisions.add_decision(Decision(tracked.id, GATE, base, made.version_id, row.id, verdict, "", "{}"))
    counts = {each: store.decisions.latest(tracked.id, GATE, base, each) for each in versions}
    assert store.decisions.verdicts(tracked.id, GATE, base) == {
        version: decision and decision.verdict for version, decision in counts.items()
    }
    assert store.decisions.verdicts(tracked.id, "search", base) == {}
    told = sorted((tracked.id, each.verdict, False) for each in counts.values() if each)
    assert sorted(store.room(Pressing).list_open(GATE)) == told


def test_a_candidate_that_was_accepted_is_told_before_one_that_is_open(place: Place, workspace: Workspace) -> None:
    use(workspace, Scripted(right_when_taught))
    accepted = place.accepted(workspace)
    place.propose(workspace, "- Be kind.")
    [row] = list_skills(workspace).skills
    assert (row.open_candidates, row.next_step) == (2, f"promote_skill {accepted}")


def test_a_skill_that_cannot_be_read_is_listed_with_why(place: Place, workspace: Workspace) -> None:
    linked = place.root / "linked"
    shutil.copytree(place.skill, linked)
    (linked / "more.md").symlink_to(place.main)
    row = next(each for each in list_skills(workspace).skills if each.name == "linked")
    assert row.next_step == (
        f'cannot be read: "{linked}/more.md" is a link; put the file itself in its place; '
        f"look at it with: skillopt-mcp check {linked}"
    )
    (linked / "more.md").unlink()
    row = next(each for each in list_skills(workspace).skills if each.name == "linked")
    assert row.next_step == TO_TRACK


def crowd(place: Place, workspace: Workspace, n: int = PAGE + 3) -> list[str]:
    """Track so many skills that come before the place's own in the list, and return their names."""
    names = [f"aaa-{each:03d}" for each in range(n)]
    for name in names:
        (place.root / name).mkdir()
        (place.root / name / "SKILL.md").write_text(f"# {name}\n")
        workspace.skill(name)
    return names


def all_steps(workspace: Workspace) -> list[str]:
    """Return what each page of the list says to do next, but for how many are left."""
    steps, cursor = list[str](), None
    while not steps or cursor:
        page = list_skills(workspace, cursor)
        cursor = page.cursor
        steps.append(page.next_step.removesuffix(f" {n_left(page.next_step)} more: pass the cursor."))
    return steps


def n_left(told: str) -> str:
    return told.removesuffix(" more: pass the cursor.").rpartition(" ")[2]


def test_an_accepted_candidate_is_named_on_every_page_wherever_its_skill_is(place: Place, workspace: Workspace) -> None:
    use(workspace, Scripted(right_when_taught))
    accepted = place.accepted(workspace)
    names = crowd(place, workspace)
    record_trajectory(workspace, names[0], Recording(task="say it", answer="1"))
    propose_edits(workspace, names[1], [{"op": "append", "content": "- Be kind."}])
    assert all_steps(workspace) == [
        f'Most pressing is the next step of "ledger-clerk", on another page: promote_skill {accepted}.',
        'Most pressing is the next step of "ledger-clerk".',
    ]


def test_an_open_candidate_on_a_later_page_is_named_before_what_is_to_learn(place: Place, workspace: Workspace) -> None:
    names = crowd(place, workspace)
    record_trajectory(workspace, names[0], Recording(task="say it", answer="1"))
    made = place.propose(workspace)
    told = f'Most pressing is the next step of "ledger-clerk", on another page: evaluate_candidate {made}.'
    assert all_steps(workspace)[0] == told
    step = "add_tasks, then evaluate the candidate"
    propose_edits(workspace, names[1], [{"op": "append", "content": "- Be kind."}])
    assert all_steps(workspace) == [
        f'Most pressing is the next step of "{names[1]}".',
        f'Most pressing is the next step of "{names[1]}", on another page: {step}.',
    ]


def test_a_test_under_way_on_a_later_page_is_named_before_an_open_candidate(place: Place, host: Workspace) -> None:
    made, names = place.propose(host), crowd(place, host)
    job = begun(host, made).job_id
    propose_edits(host, names[0], [{"op": "append", "content": "- Be kind."}])
    told = f'Most pressing is the next step of "ledger-clerk", on another page: the test of {made} is under way: '
    assert all_steps(host)[0].startswith(f"{told}submit_work with job_id {job};")


def test_a_proposal_under_way_on_a_later_page_is_named(place: Place, host: Workspace) -> None:
    for n in range(3):
        record_trajectory(host, str(place.skill), Recording(task=f"{n}: book it", answer="1", hard=False))
    job = begun_proposal(host, str(place.skill)).job_id
    crowd(place, host)
    told = f'Most pressing is the next step of "ledger-clerk", on another page: {job} is under way'
    assert all_steps(host)[0].startswith(told)


def test_what_takes_a_look_at_each_skill_is_told_of_the_skills_of_a_page(place: Place, workspace: Workspace) -> None:
    names = crowd(place, workspace)
    for name in (names[2], names[-1]):
        record_trajectory(workspace, name, Recording(task="say it", answer="1"))
    assert all_steps(workspace) == [
        f'Most pressing of these is the next step of "{names[2]}".',
        f'Most pressing of these is the next step of "{names[-1]}".',
    ]


def test_a_skill_that_is_gone_keeps_no_other_from_being_named(place: Place, workspace: Workspace) -> None:
    use(workspace, Scripted(right_when_taught))
    accepted = place.accepted(workspace)
    names = crowd(place, workspace)
    propose_edits(workspace, names[-1], [{"op": "append", "content": "- Be kind."}])
    shutil.rmtree(place.skill)
    assert accepted
    assert f'"{names[-1]}", on another page: add_tasks' in list_skills(workspace).next_step


def test_a_page_takes_as_many_queries_however_many_pages_follow(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillopt_mcp.operations.sightings.TICK_NS", -(1 << 62))
    place.propose(workspace)
    names = crowd(place, workspace)
    few = n_queries(workspace, monkeypatch)
    for each in range(3 * PAGE):
        shutil.copytree(place.root / names[0], place.root / f"bbb-{each:03d}")
        (place.root / f"bbb-{each:03d}" / "SKILL.md").write_text(f"# bbb {each}\n")
        workspace.skill(f"bbb-{each:03d}")
    assert n_queries(workspace, monkeypatch) == few
