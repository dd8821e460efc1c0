"""Finding: which of two skills of one name is meant, and what a look leaves alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from workshop import SIMULATION, Place

from skillopt_mcp.actions.promotions.consent import add_root, revoke
from skillopt_mcp.actions.promotions.promoting import promote_skill, rollback_skill
from skillopt_mcp.actions.promotions.review import review_rollback
from skillopt_mcp.actions.runs import describe_running, start_run, unfinished_run
from skillopt_mcp.actions.tasks import check_stored
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.errors import BadInput, NotFound
from skillopt_mcp.reports.history import history
from skillopt_mcp.reports.listing import list_skills
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.runs import resume_step
from skillopt_mcp.workspace.skill_folders import find_folder, quote_handle
from skillopt_mcp.workspace.skills import move_skill
from skillopt_mcp.workspace.workspace import Workspace

NAME = "ledger-clerk"
REPO, WEB, SECOND, HOME = "repo", "repo/apps/web", "second", "home"
# Where skills of one name lie, which of them are tracked, and the current folder; then which one is meant where its
# tasks or files are worked with: the sign of no single one is "".
MEANT = [
    ((REPO, WEB), (WEB,), "repo", REPO),
    ((REPO, WEB), (REPO, WEB), "repo", REPO),
    ((REPO, WEB), (REPO, WEB), "repo/docs", REPO),
    ((REPO, WEB), (WEB,), "repo/docs", REPO),
    ((REPO, WEB), (REPO, WEB), "repo/apps", WEB),
    ((REPO, WEB), (REPO, WEB), "repo/apps/web", WEB),
    ((REPO, WEB), (REPO, WEB), "repo/apps/web/src", WEB),
    ((REPO, WEB), (REPO,), "repo/apps/web/src", WEB),
    ((REPO, WEB), (REPO, WEB), "repo/.claude/skills", REPO),
    ((REPO, WEB), (REPO, WEB), "elsewhere", ""),
    ((REPO, WEB), (WEB,), "elsewhere", WEB),
    ((REPO,), (), "repo/apps/web/src", REPO),
    ((WEB,), (), "repo/apps/web/src", WEB),
    ((WEB,), (WEB,), "repo", WEB),
    ((WEB,), (), "repo", ""),
    ((REPO, SECOND), (REPO,), "second", SECOND),
    ((REPO, SECOND), (REPO,), "second/docs", SECOND),
    ((REPO, SECOND), (REPO, SECOND), "second", SECOND),
    ((REPO, SECOND), (REPO,), "elsewhere", REPO),
    ((REPO, SECOND), (REPO, SECOND), "elsewhere", ""),
    ((REPO, SECOND, HOME), (REPO,), "second", SECOND),
    ((REPO, HOME), (), "repo", REPO),
    ((REPO, HOME), (HOME,), "repo", REPO),
    ((REPO, HOME), (REPO,), "elsewhere", ""),
    ((REPO, HOME), (REPO, HOME), "elsewhere", ""),
    ((REPO, HOME), (REPO, HOME), "home", HOME),
    ((HOME,), (), "repo/docs", HOME),
]


def copied(place: Place, folder: Path) -> Path:
    """Return a copy of the skill in another checkout, which has it in its own folder of skills."""
    copy = folder / ".claude" / "skills" / NAME
    shutil.copytree(place.skill, copy)
    (folder / ".git").mkdir()
    return copy


def opened(place: Place, project: Path) -> Workspace:
    return place.stack.enter_context(Workspace(place.store_path, target=SIMULATION, project=project))


def paths(workspace: Workspace) -> list[str]:
    return workspace.store.skills.find_paths(NAME)


def test_a_name_means_the_skill_of_the_folder_or_else_of_the_checkout(
    place: Place, workspace: Workspace, tmp_path: Path
) -> None:
    copy = copied(place, place.folder / "second")
    inner = place.folder / "second" / "docs" / "deep"
    inner.mkdir(parents=True)
    workspace.place.skill(str(copy))
    (place.root / ".git").mkdir()
    assert opened(place, place.root).place.skill(NAME).path == str(place.skill)
    assert opened(place, inner).place.skill(NAME).path == str(copy)
    assert opened(place, copy.parent).place.skill(NAME).path == str(copy)
    elsewhere = place.folder / "elsewhere"
    elsewhere.mkdir()
    with pytest.raises(NotFound, match="2 skills are named"):
        opened(place, elsewhere).place.skill(NAME)


def test_advice_calls_a_skill_by_its_path_where_another_has_its_name(place: Place, workspace: Workspace) -> None:
    promote_skill(workspace.store, workspace.place, place.accepted(workspace), Consent.PERSON_SIMULATED)
    skill = workspace.place.skill(str(place.skill))
    assert quote_handle(workspace.store, skill) == NAME
    assert history(workspace.store, workspace.place, str(place.skill)).next_step.arguments["skill"] == NAME
    copy = workspace.place.skill(str(copied(place, place.folder / "second")))
    assert quote_handle(workspace.store, copy) == copy.path
    assert history(workspace.store, workspace.place, str(place.skill)).next_step.arguments["skill"] == str(place.skill)
    assert review_rollback(workspace.store, workspace.place, str(place.skill)).handle == str(place.skill)
    run = start_run(workspace.store, workspace.models, workspace.place, str(place.skill), Config(epochs=1))
    step = resume_step(workspace.store, run)
    assert step
    assert step.as_command() == f"skillopt-mcp replay {place.skill} --resume"
    (place.folder / "third").mkdir()
    third = Path(copy.path).rename(place.folder / "third" / NAME)
    assert move_skill(workspace.store, workspace.place, copy.path, str(third)).next_step.arguments == {"id": str(third)}
    workspace.store.skills.forget(copy.id)
    assert quote_handle(workspace.store, skill) == NAME


@pytest.mark.parametrize(("places", "tracked", "current", "used"), MEANT)
def test_of_skills_of_one_name_the_nearest_is_meant(
    place: Place, monkeypatch: pytest.MonkeyPatch, places: tuple[str, ...], tracked: tuple[str, ...], current: str,
    used: str
) -> None:  # fmt: skip
    for checkout in ("repo", "second"):
        (place.folder / checkout / ".git").mkdir(parents=True)
    skills = {each: place.folder / each / ".claude" / "skills" / NAME for each in places}
    for folder in skills.values():
        shutil.copytree(place.skill, folder)
    shutil.rmtree(place.skill)
    project = place.folder / current
    project.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("HOME", str(place.folder / "home"))
    workspace = opened(place, project)
    for each in tracked:
        workspace.place.skill(str(skills[each]))

    roots = workspace.place.roots()
    try:
        found = find_folder(workspace.store, roots, NAME, project)
    except NotFound:
        found = None
    assert next((each for each, folder in skills.items() if folder == found), "") == used


WORK: list[Callable[[Workspace, str], object]] = [
    lambda workspace, name: start_run(workspace.store, workspace.models, workspace.place, name, Config()),
    lambda workspace, name: unfinished_run(workspace.store, workspace.place, name),
    lambda workspace, name: describe_running(workspace.store, workspace.place, name),
    lambda workspace, name: check_stored(workspace.store, workspace.place, name),
    lambda workspace, name: review_rollback(workspace.store, workspace.place, name, None),
    lambda workspace, name: rollback_skill(workspace.store, workspace.place, name, None, Consent.PERSON),
    lambda workspace, name: revoke(workspace.store, workspace.place, name),
]


@pytest.mark.parametrize("work", WORK)
def test_what_cannot_be_done_with_a_copy_does_not_track_it(
    place: Place, workspace: Workspace, work: Callable[[Workspace, str], object]
) -> None:
    copy = copied(place, place.folder / "the second")
    there = opened(place, place.folder / "the second")
    for name in (NAME, str(copy)):
        with pytest.raises(NotFound) as refused:
            work(there, name)
        assert f'nor is anything else recorded of "{copy}": add tasks' in str(refused.value)
    assert paths(there) == [str(place.skill)]
    assert opened(place, place.folder).place.skill(NAME).path == str(place.skill)


def test_the_skill_of_a_checkout_is_listed_and_promoted_from_its_subfolders_and_no_other_is(
    place: Place, workspace: Workspace
) -> None:
    copy = copied(place, place.folder / "second")
    (place.folder / "second" / "docs").mkdir()
    below, aside = opened(place, place.folder / "second" / "docs"), opened(place, place.root)
    assert [row.promotable for row in list_skills(below.store, below.place).skills if row.path == str(copy)] == [True]
    assert below.place.root_of(below.place.skill(str(copy))) == copy.parent
    assert aside.place.root_of(aside.place.skill(str(copy))) is None
    assert aside.place.describe_locked(aside.place.skill(str(copy))).endswith(
        f"skillopt-mcp skills add-root {copy.parent}"
    )
    assert below.place.describe_locked(below.place.skill(str(copy))) == ""


def test_a_root_that_is_itself_a_skill_is_refused_and_so_opens_nothing(place: Place) -> None:
    outside = shutil.copytree(place.skill, place.folder / "elsewhere" / NAME)
    workspace = place.open()
    for given in (outside, outside / "references" / ".."):
        (outside / "references").mkdir(exist_ok=True)
        with pytest.raises(BadInput, match="skill itself"):
            add_root(workspace.store, str(given))
    assert workspace.place.root_of(workspace.place.skill(str(outside))) is None
    add_root(workspace.store, str(outside.parent))
    assert workspace.place.root_of(workspace.place.skill(str(outside))) == outside.parent
