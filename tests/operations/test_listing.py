"""Listing skills: what is told of each takes as many queries with many candidates as with few."""

from __future__ import annotations

import itertools
import shutil

import pytest
from hostwork import Clock, begun, server
from workshop import Place, right_when_taught, use

from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.operations.candidates.proposing import propose_edits
from skillopt_mcp.operations.looks.listing import TO_TRACK, list_skills
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.confirmation import GATE
from skillopt_mcp.records.candidates import Decision
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.store.pool import Pool

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
