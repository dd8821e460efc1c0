from __future__ import annotations

from pathlib import Path

import pytest
from workshop import Place

from skillopt_mcp.actions.runs import new_run
from skillopt_mcp.actions.sessions import read_sessions
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.core.errors import BadSkill, NotFound
from skillopt_mcp.core.evidence import Lost, RunCounts, Standing, Units
from skillopt_mcp.reports.listing import list_skills
from skillopt_mcp.reports.lookup import inspect
from skillopt_mcp.reports.run_report import list_runs
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.progress import Notify
from skillopt_mcp.workspace.jobs import Jobs

VERDICT = Standing(verdict="better", alpha=0.05, units=Units(), runs=RunCounts(), lost=Lost())


def test_a_workspace_that_is_not_used_makes_no_store(place: Place, home: Path) -> None:
    with place.open(store="never.db"):
        pass
    assert not (place.folder / "store" / "never.db").exists()


def test_the_name_of_no_skill_makes_no_store(place: Place, home: Path) -> None:
    """A mistyped place of a store would be an empty one ever after."""
    workspace = place.open(store="mistyped.db")
    with pytest.raises(NotFound, match="is known or lies in a skill folder"):
        add_tasks(
            workspace.store, workspace.place, "nosuch", [{"prompt": "p", "judge": {"kind": "exact", "expected": "1"}}]
        )
    with pytest.raises(NotFound, match="is known or lies in a skill folder"):
        new_run(workspace.store, workspace.models, workspace.place, "nosuch", Config())
    assert not workspace.store.is_made
    assert not workspace.store.path.exists()
    (home / ".claude" / "skills").mkdir(parents=True)
    place.skill.rename(home / ".claude" / "skills" / "ledger-clerk")
    assert workspace.place.skill("ledger-clerk").name == "ledger-clerk"


def test_a_look_makes_no_store(place: Place, tmp_path: Path) -> None:
    workspace = place.open(store="new.db")
    (tmp_path / "broken").mkdir()
    assert list_skills(workspace.store, workspace.place).skills == []
    assert list_runs(workspace.store, workspace.place).next_step.as_command() == "skillopt-mcp replay SKILL"
    with pytest.raises(NotFound, match="is known or lies in a skill folder"):
        list_runs(workspace.store, workspace.place, "nosuch")
    for id in ("c-1", "nosuch", "nosuch@12345678"):
        with pytest.raises(NotFound, match=r"no skill of that name|is known or lies in a skill folder"):
            inspect(workspace.store, workspace.place, id)
    digits = "0123456789ab"
    for id in (f"c-{digits}", f"t-{digits}", f"r-{digits}", f"w-{digits:0<32}-1", "trajectory:1"):
        with pytest.raises(NotFound, match=f"there is no store at '{workspace.store.path}' yet, and so no .*{id}"):
            inspect(workspace.store, workspace.place, id)
    with pytest.raises(BadSkill):
        inspect(workspace.store, workspace.place, str(tmp_path / "broken"))
    assert read_sessions(workspace.store, workspace.place, []).recorded == 0
    assert not workspace.store.is_made


def test_a_link_that_took_the_place_of_a_registered_root_is_no_root(place: Place) -> None:
    workspace = place.open()
    assert workspace.place.roots() == [place.root]
    place.root.rename(place.folder / "aside")
    assert workspace.place.roots() == []
    place.root.symlink_to(place.folder / "aside")
    assert workspace.place.roots() == []


def test_a_skill_inside_a_root_that_a_link_leads_out_of_has_no_root(place: Place) -> None:
    (place.folder / "outside").mkdir()
    (place.folder / "outside" / "SKILL.md").write_text("x")
    (place.root / "link").symlink_to(place.folder / "outside")
    workspace = place.open()
    assert workspace.place.root_of(workspace.place.skill("link")) is None
    assert workspace.place.root_of(workspace.place.skill("ledger-clerk")) == place.root


def _work(_: Notify) -> Standing:
    return VERDICT


def test_a_finished_job_is_handed_out_once_more_and_then_made_again() -> None:
    jobs = Jobs()
    job = jobs.attach("t", _work)
    assert job.result.result(30) == VERDICT
    assert jobs.attach("t", _work) is job
    jobs.drop("t", job)
    newer = jobs.attach("t", _work)
    assert newer is not job
    jobs.drop("t", job)
    assert jobs.attach("t", _work) is newer
