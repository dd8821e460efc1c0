"""What the optimizer reads: of train tasks all that the judge says, of the others nothing."""

from __future__ import annotations

import json
from pathlib import Path

from hostwork import Clock, begun_proposal, server
from workshop import Place

from benchmarks.host_agent import items_of
from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core.calls import Call, Question, Rollout
from skillopt_mcp.core.tasks import SPLITS
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.workspace import Workspace

N = 8
ALL_ON = Config(epochs=3, batch=4, minibatch=4, repeats=2, skill_aware=True, slow_update=True, meta_skill=True)


def asked(split: str, n: int) -> str:
    return f"Which {split} word has the number {n}?"


def wanted(split: str, n: int) -> str:
    return f"{split}ish-word-{n}"


def with_tasks(place: Place) -> None:
    """Add tasks of every split whose prompts and expected answers name the split, and attempts at them by sessions."""
    workspace = place.open()
    tasks = [
        {"prompt": asked(split, n), "judge": {"kind": "exact", "expected": wanted(split, n)}, "split": split}
        for split in SPLITS
        for n in range(N)
    ]
    assert add_tasks(workspace.store, workspace.place, str(place.skill), tasks).added == 3 * N
    for n, split in enumerate(("val", "test")):
        recording = Recording(
            task=asked(split, n), hard=False, answer="?", reason=f"it is {wanted(split, n)}", session_id=split
        )
        record_trajectory(workspace.store, workspace.place, str(place.skill), recording)


def assert_only_train_is_shown(shown: str) -> None:
    for n in range(N):
        assert asked("train", n) in shown
        assert f'"no idea" does not equal "{wanted("train", n)}"' in shown
    for split in ("val", "test"):
        assert f"{split}ish" not in shown
        assert f"Which {split} word" not in shown


def attempt(call: Call) -> str:
    """Answer right where the skill has the lesson, and by chance else, so that repeats of a task differ."""
    assert isinstance(call.request, Rollout)
    is_right = b"the word is" in call.request.files.main or call.draw.endswith("/1")
    return str(call.request.task.judge.model_dump()["expected"]) if is_right else "no idea"


def improve(call: Call) -> str:
    """Return an edit to whatever asks for some, and prose to all else."""
    edit = {"op": "append", "content": f"- Mind the words of {len(call.draw)} letters.", "evidence": [1]}
    return json.dumps({"reasoning": "so", "edits": [edit]}) if call.stage == "reflect" else "nothing"


def test_a_run_shows_the_optimizer_what_train_tasks_expect_and_nothing_of_the_others(place: Place) -> None:
    with_tasks(place)
    target, optimizer = Scripted(attempt, name="anthropic:target"), Scripted(improve, name="anthropic:optimizer")
    with Workspace(place.store_path, target=target, optimizer=optimizer, project=place.folder) as workspace:
        replay(
            workspace.store,
            workspace.models,
            workspace.place,
            start_run(workspace.store, workspace.models, workspace.place, str(place.skill), ALL_ON),
        )
    shown = "\n".join(call.request.evidence for call in optimizer.calls if isinstance(call.request, Question))
    assert {call.stage for call in optimizer.calls} >= {"reflect", "slow_update", "meta_skill"}
    assert_only_train_is_shown(shown)


def test_a_host_that_reflects_reads_what_train_tasks_expect_and_nothing_of_the_others(
    place: Place, clock: Clock
) -> None:
    with_tasks(place)
    host = server(place, clock, place.folder / "work")
    standing, read = begun_proposal(host, str(place.skill), rollouts=N), []
    while standing.status == "work":
        for item in items_of(standing.work):
            texts = [path.read_text() for path in sorted(Path(item.folder).rglob("*.md"))]
            is_task = any("# Work: do one task" in text for text in texts)
            if is_task:
                assert not any("ish-word" in text for text in texts)
            else:
                read += texts
            answer = "no idea" if is_task else json.dumps({"reasoning": "so", "edits": []})
            Path(item.folder, "answer.md").write_text(answer)
            if is_task:
                Path(item.folder, "tool_calls.jsonl").write_text("")
        standing = submit_work(
            host.store,
            host.models,
            host.place,
            [{"work_id": item.work_id} for item in items_of(standing.work)],
            wait=Wait(host.jobs),
        )  # type: ignore[assignment]
    assert_only_train_is_shown("\n".join(read))
    assert "no tool was called" not in "\n".join(read)
