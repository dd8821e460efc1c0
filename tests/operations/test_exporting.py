from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from workshop import Place

from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.core.errors import BadInput, NotFound
from skillopt_mcp.core.skills import SkillFile, SkillFiles, short
from skillopt_mcp.reports.export import check_folder, export_run, export_version
from skillopt_mcp.reports.run_report import list_runs
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.skill_folders import read_skill
from skillopt_mcp.workspace.workspace import Workspace

CONFIG = Config(epochs=2, batch=15)


def stamps(folder: Path) -> dict[str, int]:
    """Return every file's inode: a file that was written again has another."""
    return {str(path.relative_to(folder)): path.stat().st_ino for path in folder.rglob("*") if path.is_file()}


def test_a_finished_run_is_there_as_files(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    result = replay(workspace.store, workspace.models, workspace.place, run)
    out = place.folder / "out"
    done = export_run(workspace.store, workspace.place, run.id, out)
    steps = workspace.store.runs.list_steps(run.id)
    best = workspace.store.skills.get_files(run.skill_id, steps[-1].best_version)
    assert (out / "best_skill.md").read_bytes() == (out / "best_skill" / "SKILL.md").read_bytes() == best.main
    history = json.loads((out / "history.json").read_text())
    for row, step in zip(history, steps, strict=True):
        assert row.items() >= step.model_dump(mode="json").items()
        assert row["skill_len"] == len(workspace.store.skills.get_files(run.skill_id, step.current_version).main)
        assert row["n_edits_merged"] - len(step.left_out) == row["n_edits_ranked"] >= step.n_applied
        assert json.loads((out / "steps" / f"step_{step.n:04d}" / "step.json").read_text()) == row
    assert history[0]["tokens"]["rollout"]["calls"] >= CONFIG.batch
    for row in history:
        expected = {"step": {"reflect"}, "slow": {"slow_update"}, "meta": {"meta_skill"}}[row["kind"]]
        assert not expected.isdisjoint(row["tokens"]), (row["n"], row["kind"], row["tokens"])
    # Every answered call of the run belongs to one step.
    used = workspace.store.ledger.list_rows(run.id)
    told = [stage for row in history for stage in row["tokens"].values()]
    assert sum(each["calls"] for each in told) == sum(row.n_calls for row in used)
    assert sum(each["prompt_tokens"] for each in told) == sum(row.tokens_in for row in used)
    assert all(row["wall_time_s"] >= 0 for row in history)
    assert json.loads((out / "summary.json").read_text())["verdict"] == result.verdict
    assert json.loads((out / "run.json").read_text())["config"]["epochs"] == 2
    assert "step epoch budget" in (out / "report.md").read_text()
    for step in steps:
        place_of = out / "steps" / f"step_{step.n:04d}"
        current = workspace.store.skills.get_files(run.skill_id, step.current_version)
        assert (out / "skills" / f"skill_v{step.n:04d}.md").read_bytes() == current.main
        if step.candidate_version:
            candidate = workspace.store.skills.get_files(run.skill_id, step.candidate_version)
            assert (place_of / "candidate_skill.md").read_bytes() == candidate.main
            patch = json.loads((place_of / "patch.json").read_text())
            assert sum(edit["status"] == "applied" for edit in patch["edits"]) == step.n_applied
            assert (out / "versions" / short(step.candidate_version) / "SKILL.md").read_bytes() == candidate.main
    assert done.n_written == len(stamps(out)) - len(best.files)
    assert not [*out.rglob(".writing-*"), *out.rglob(".skillopt-*")]


def test_a_second_export_writes_only_what_changed(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    out = place.folder / "out"

    def stop(progress) -> None:  # type: ignore[no-untyped-def]
        if progress.stage == "step" and progress.n_done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(workspace.store, workspace.models, workspace.place, run, stop)
    first = export_run(workspace.store, workspace.place, run.id, out)
    assert first.n_steps == 2
    before = stamps(out)
    assert export_run(workspace.store, workspace.place, run.id, out).n_written == 0
    replay(workspace.store, workspace.models, workspace.place, run)
    again = export_run(workspace.store, workspace.place, run.id, out)
    after = stamps(out)
    assert again.n_steps == len(workspace.store.runs.list_steps(run.id)) > 2
    kept = [name for name in before if name.startswith(("versions/", "steps/")) and before[name] == after[name]]
    assert len(kept) == len([name for name in before if name.startswith(("versions/", "steps/"))])


def test_the_folder_of_the_best_skill_holds_no_file_of_another_version(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    out = place.folder / "out"
    export_run(workspace.store, workspace.place, run.id, out)
    (out / "best_skill" / "old.md").write_text("left over")
    export_run(workspace.store, workspace.place, run.id, out)
    assert [path.name for path in (out / "best_skill").iterdir()] == ["SKILL.md"]


def test_a_folder_that_is_in_use_is_left_alone(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    mine = place.folder / "mine"
    mine.mkdir()
    check_folder(mine)
    (mine / "best_skill.md").write_text("mine")
    with pytest.raises(BadInput, match="is in use: name an empty folder"):
        export_run(workspace.store, workspace.place, run.id, mine)
    assert [path.name for path in mine.iterdir()] == ["best_skill.md"]
    out = place.folder / "out"
    export_run(workspace.store, workspace.place, run.id, out)
    other = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", Config(epochs=1))
    with pytest.raises(BadInput, match=f"holds run '{run.id}'"):
        export_run(workspace.store, workspace.place, other.id, out)
    with pytest.raises(BadInput, match=f"holds run '{run.id}'"):
        check_folder(out)
    with pytest.raises(BadInput, match="cannot be used"):
        check_folder(mine / "best_skill.md")
    with pytest.raises(NotFound):
        export_run(workspace.store, workspace.place, "r-000000000000", place.folder / "new")
    assert not (place.folder / "new").exists()


def test_a_file_is_there_whole_or_not_at_all(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    out = place.folder / "out"
    export_run(workspace.store, workspace.place, run.id, out)
    whole = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    changed = SkillFiles((SkillFile("SKILL.md", b"changed"),))
    monkeypatch.setattr(type(workspace.store.skills), "get_files", lambda *_: changed)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(BadInput, match="cannot be written \\(No space left on device\\)"):
        export_run(workspace.store, workspace.place, run.id, out)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == whole


def test_runs_are_listed_with_what_they_reached_and_used(place: Place, workspace: Workspace) -> None:
    assert list_runs(workspace.store, workspace.place).next_step.action == "replay"
    first = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    result = replay(workspace.store, workspace.models, workspace.place, first)
    second = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", Config(epochs=1))
    listed = list_runs(workspace.store, workspace.place)
    assert {row.id for row in listed.runs} == {first.id, second.id}
    assert listed.next_step.as_command() == "skillopt-mcp replay ledger-clerk --resume"
    row = next(row for row in listed.runs if row.id == first.id)
    assert (row.status, row.n_steps, row.verdict) == ("finished", len(result.steps), result.verdict)
    assert (row.n_calls, row.best, row.usd) == (result.n_calls, result.steps[-1].best, 0.0)
    assert row.tokens > 0
    assert row.started_at.endswith("Z")
    assert list_runs(workspace.store, workspace.place, "ledger-clerk").runs == listed.runs
    with pytest.raises(NotFound):
        list_runs(workspace.store, workspace.place, "nosuch")


def test_a_version_is_there_as_files_byte_for_byte(place: Place, workspace: Workspace) -> None:
    (place.skill / "scripts").mkdir()
    (place.skill / "scripts" / "run.sh").write_bytes(b"#!/bin/sh\r\n\xff")
    (place.skill / "scripts" / "run.sh").chmod(0o755)
    version = workspace.place.skill("ledger-clerk").live_version
    files = read_skill(place.skill)
    place.skill.rename(place.folder / "aside")
    for out in (place.folder / "new" / "out", place.folder / "empty"):
        (place.folder / "empty").mkdir(exist_ok=True)
        done = export_version(workspace.store, workspace.place, "ledger-clerk", version[:8], out)
        assert (done.version, done.n_files, read_skill(out)) == (version[:12], 2, files)
        assert stat.S_IMODE(out.stat().st_mode) == 0o755
        assert [path.name for path in out.parent.iterdir() if path.name.startswith(".")] == []


def test_a_version_is_not_written_into_a_folder_in_use(place: Place, workspace: Workspace) -> None:
    version = workspace.place.skill("ledger-clerk").live_version
    out = place.folder / "mine"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    with pytest.raises(BadInput, match="is in use"):
        export_version(workspace.store, workspace.place, "ledger-clerk", version, out)
    with pytest.raises(BadInput, match="cannot be"):
        export_version(workspace.store, workspace.place, "ledger-clerk", version, out / "mine.txt")
    with pytest.raises(NotFound):
        export_version(workspace.store, workspace.place, "ledger-clerk", "0" * 12, place.folder / "out")
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
    assert not (place.folder / "out").exists()
