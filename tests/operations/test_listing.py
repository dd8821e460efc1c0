"""Listing skills: what is listed of each, its next step, and that many take as many queries as few."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hostwork import begun, begun_proposal
from workshop import Place, right_when_taught, use

from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.next_steps import skill_states
from skillopt_mcp.actions.promotions.promoting import promote_skill
from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.skills import SkillRow
from skillopt_mcp.reports.facts import gather_skills
from skillopt_mcp.reports.listing import PAGE, list_skills
from skillopt_mcp.store import pool
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.skill_folders import read_skill
from skillopt_mcp.workspace.workspace import Workspace


def row_of(workspace: Workspace, name: str = "ledger-clerk") -> SkillRow:
    return next(each for each in list_skills(workspace.store, workspace.place).skills if each.name == name)


def step_of(workspace: Workspace, name: str = "ledger-clerk") -> tuple[str, object]:
    """Return the action of a skill's next step, and what it is done with."""
    step = row_of(workspace, name).next_step
    return step.action, next(iter(step.arguments.values()))


def n_queries(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, listing: Callable[..., object] = list_skills
) -> int:
    listing(workspace.store, workspace.place)  # the first time, it reads more
    asked = list[str]()
    with monkeypatch.context() as patch:
        for way in ("rows", "row"):
            inner = getattr(Pool, way)
            patch.setattr(
                Pool, way, lambda pool, sql, *values, inner=inner: (asked.append(sql), inner(pool, sql, *values))[1]
            )
        listing(workspace.store, workspace.place)
    return len(asked)


def crowd(place: Place, workspace: Workspace, n: int, first: int = 0) -> list[str]:
    """Track so many skills that come before the place's own in the list, and return their names."""
    names = [f"aaa-{each:03d}" for each in range(first, first + n)]
    for name in names:
        (place.root / name).mkdir()
        (place.root / name / "SKILL.md").write_text(f"# {name}\n")
        workspace.place.skill(name)
    return names


def test_many_skills_and_candidates_take_as_many_queries_as_few(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.propose(workspace)
    crowd(place, workspace, PAGE)
    few = n_queries(workspace, monkeypatch)
    crowd(place, workspace, 3 * PAGE, PAGE)
    for n in range(20):
        place.propose(workspace, f"- Rule {n}: be kind.")
    assert n_queries(workspace, monkeypatch) == few


def test_skills_beyond_the_page_are_looked_at_on_disk_where_they_are_gone_or_most_pressing(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = crowd(place, workspace, 6 * PAGE)
    read = Counter[str]()
    monkeypatch.setattr(
        "skillopt_mcp.reports.listing.read_skill",
        lambda path, **_: (read.update([Path(path).name]), read_skill(path))[1],
    )
    list_skills(workspace.store, workspace.place)
    assert set(read) == {*names[:PAGE], "ledger-clerk"}
    shutil.rmtree(place.skill)
    step = list_skills(workspace.store, workspace.place).next_step
    assert (step.action, step.arguments) == ("skills move", {"old": "ledger-clerk"})


def test_a_page_on_many_skills_takes_as_many_queries_as_one_on_few(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(workspace, Scripted(right_when_taught))
    made = place.accepted(workspace)
    few = n_queries(workspace, monkeypatch, gather_skills)
    crowd(place, workspace, 20)
    for n in range(10):
        place.propose(workspace, f"- Rule {n}: be kind.")
    assert n_queries(workspace, monkeypatch, gather_skills) == few
    # The newest candidates have no verdict yet.
    assert [each.verdict for each in gather_skills(workspace.store, workspace.place)] == [""] * 20 + ["better"]
    assert promote_skill(workspace.store, workspace.place, made, Consent.PERSON_SIMULATED).status == "promoted"


def n_steps(place: Place, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many steps of SQLite's machine listing the skills takes, in tens."""
    done = [0]

    def count() -> int:
        done[0] += 1
        return 0

    def connect(path: Path, inner: Callable[[Path], Any] = pool.connect) -> Any:
        connection = inner(path)
        connection.set_progress_handler(count, 10)
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(pool, "connect", connect)
        with place.open() as workspace:
            workspace.store.open()
            done[0] = 0
            list_skills(workspace.store, workspace.place)
    return done[0]


def test_listing_a_skill_reads_little_of_its_tasks_for_each_attempt_and_nothing_of_other_skills_tasks(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    [other] = crowd(place, workspace, 1)
    few = n_steps(place, monkeypatch)
    for n in range(50):
        record_trajectory(workspace.store, workspace.place, "ledger-clerk", Recording(task=f"say {n}", answer="1"))
    # Each attempt without a score is looked for among the 60 held-out tasks.
    with_attempts = n_steps(place, monkeypatch)
    assert row_of(workspace).n_unscored == 50
    assert with_attempts - few < 50 * 20
    tasks = [{"prompt": f"say {n}", "judge": {"kind": "exact", "expected": "1"}} for n in range(300)]
    workspace.store.skills.forget(workspace.place.skill(other).id)
    hidden = n_steps(place, monkeypatch)
    tasks_added = add_tasks(workspace.store, workspace.place, str(place.root / other), tasks).added
    workspace.store.skills.forget(workspace.place.skill(other).id)
    assert (tasks_added, n_steps(place, monkeypatch)) == (300, pytest.approx(hidden, abs=100))


def test_the_most_pressing_skill_beyond_the_page_is_found_by_the_states_of_few(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(workspace, Scripted(right_when_taught))
    made = place.accepted(workspace)
    for name in crowd(place, workspace, 3 * PAGE):
        record_trajectory(workspace.store, workspace.place, name, Recording(task="say it", answer="1", hard=False))
    asked = list[int]()
    monkeypatch.setattr(
        "skillopt_mcp.reports.listing.skill_states",
        lambda store, ids: (asked.extend(ids), skill_states(store, ids))[1],
    )
    step = list_skills(workspace.store, workspace.place).next_step
    assert (step.action, step.arguments) == ("promote_skill", {"candidate_id": made})
    assert len(asked) <= PAGE + 2


def test_the_next_step_follows_a_skill_from_its_first_task_to_its_promotion(place: Place, workspace: Workspace) -> None:
    use(workspace, Scripted(right_when_taught))
    assert step_of(workspace) == ("propose_edits", "ledger-clerk")
    row = row_of(workspace)
    assert row.next_step.arguments["rollouts"] == 8
    assert (row.splits.train, row.splits.val + row.splits.test) == (30, 60)
    made = place.propose(workspace)
    assert (*step_of(workspace), row_of(workspace).open_candidates) == ("evaluate_candidate", made, 1)
    assert place.accepted(workspace) == made
    place.propose(workspace, "- Be kind.")  # an accepted candidate comes before an open one
    assert (*step_of(workspace), row_of(workspace).open_candidates) == ("promote_skill", made, 2)
    assert promote_skill(workspace.store, workspace.place, made, Consent.PERSON_SIMULATED).status == "promoted"
    # What was made from the version before was not made stale by an edit of a person's: it is over.
    assert step_of(workspace) == ("propose_edits", "ledger-clerk")
    assert row_of(workspace).open_candidates == 0


def test_an_edit_by_hand_makes_an_open_candidate_stale(place: Place, workspace: Workspace) -> None:
    made = place.propose(workspace)
    place.main.write_text("---\nname: ledger-clerk\ndescription: mine\n---\n# Mine\n")
    step = row_of(workspace).next_step
    assert (step.action, step.arguments) == ("evaluate_candidate", {"candidate_id": made, "rebase": True})


def test_a_skill_without_tasks_needs_them_and_one_with_unscored_attempts_scores(place: Place) -> None:
    workspace = place.open()
    [name] = crowd(place, workspace, 1)
    assert step_of(workspace, name) == ("add_tasks", name)
    record_trajectory(workspace.store, workspace.place, name, Recording(task="say it", answer="1"))
    assert step_of(workspace, name) == ("record_trajectory", name)
    assert row_of(workspace, name).n_unscored == 1
    for n in range(3):
        record_trajectory(workspace.store, workspace.place, name, Recording(task=f"say {n}", answer="1", hard=False))
    assert step_of(workspace, name)[0] == "add_tasks"  # there is nothing to test an edit on


def test_of_tests_under_way_that_of_the_newest_candidate_is_named(place: Place, host: Workspace) -> None:
    older, newer, newest = (place.propose(host, f"- Rule {n}: be kind.") for n in range(3))
    jobs = {each: begun(host, each).job_id for each in (newer, older)}
    for each in (newer, older):
        assert step_of(host) == ("submit_work", jobs[each])
        assert "4 answers" in row_of(host).next_step.why
        host.store.leases.withdraw(jobs[each])
    assert step_of(host) == ("evaluate_candidate", newest)


def test_a_proposal_under_way_and_a_run_that_stopped_are_named(place: Place, host: Workspace) -> None:
    workspace = place.open()
    run = start_run(workspace.store, workspace.models, workspace.place, str(place.skill), Config(epochs=1))
    workspace.store.runs.set_status(run.id, "stopped")
    step = row_of(workspace).next_step
    assert (step.action, step.arguments) == ("replay", {"skill": "ledger-clerk", "resume": True})
    job = begun_proposal(host, str(place.skill), rollouts=2).job_id
    assert step_of(host) == ("submit_work", job)


def test_the_first_step_of_a_skill_that_nobody_has_tracked_is_a_call_that_is_taken(place: Place) -> None:
    workspace = place.open()
    step = row_of(workspace).next_step
    assert (step.action, sorted(step.arguments)) == ("record_trajectory", ["skill", "task"])
    given = dict(step.arguments)
    assert record_trajectory(workspace.store, workspace.place, given.pop("skill"), Recording(**given)).skill


def test_a_skill_that_cannot_be_read_is_listed_with_why(place: Place, workspace: Workspace) -> None:
    linked = place.root / "linked"
    shutil.copytree(place.skill, linked)
    (linked / "more.md").symlink_to("nowhere")
    assert step_of(workspace, "linked") == ("check", str(linked))
    assert "is a link" in row_of(workspace, "linked").next_step.why
    (linked / "more.md").unlink()
    assert step_of(workspace, "linked") == ("record_trajectory", str(linked))
    shutil.rmtree(place.skill)
    assert step_of(workspace) == ("skills move", "ledger-clerk")


def test_the_most_pressing_step_of_all_skills_is_that_of_every_page(place: Place, workspace: Workspace) -> None:
    use(workspace, Scripted(right_when_taught))
    names = crowd(place, workspace, PAGE + 3)
    propose_edits(workspace.store, workspace.place, names[0], [{"op": "append", "content": "- Be kind."}])
    accepted = place.accepted(workspace)
    cursor, seen = None, list[str]()
    while not seen or cursor:
        page = list_skills(workspace.store, workspace.place, cursor)
        seen += (row.name for row in page.skills)
        cursor = page.cursor
        assert (page.next_step.action, page.next_step.arguments) == ("promote_skill", {"candidate_id": accepted})
    assert seen == [*names, "ledger-clerk"]
