from __future__ import annotations

import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from workshop import SEED, SIMULATION, Place, use

from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import start_run, unfinished_run
from skillopt_mcp.backends import programs
from skillopt_mcp.backends.programs import register_command
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.world import make_tasks
from skillopt_mcp.core.candidates import GATE
from skillopt_mcp.core.errors import BackendError, BadInput, Busy, NotFound, Refused
from skillopt_mcp.core.runs import Run
from skillopt_mcp.core.tasks import NewTask, Split
from skillopt_mcp.reports.listing import list_skills
from skillopt_mcp.store.pool import Connection, Pool
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.tasks.splits import DEFAULT_SHARES
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.progress import Notify, Progress
from skillopt_mcp.workspace.workspace import Workspace

CONFIG = Config(epochs=2, batch=10, seed=2)


def test_a_finished_run_is_answered_again_with_nothing_asked(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    first = replay(workspace.store, workspace.models, workspace.place, run)
    use(workspace, Scripted(lambda _: 1 / 0, name=SIMULATION), "target", "optimizer")  # type: ignore[arg-type,return-value]
    assert replay(workspace.store, workspace.models, workspace.place, run) == first
    assert replay(workspace.store, workspace.models, workspace.place, workspace.store.runs.get_run(run.id)) == first
    assert workspace.store.runs.get_run(run.id).status == "finished"


def editing(place: Place, stage: str) -> Notify:
    """Return what edits the live file once, when a run reports this stage."""
    before = place.main.read_bytes()

    def notify(standing: Progress) -> None:
        if standing.stage == stage and place.main.read_bytes() == before:
            place.main.write_bytes(before + b"\n- Mind the date.\n")

    return notify


def test_a_version_that_could_not_be_promoted_any_more_is_not_tested(place: Place, workspace: Workspace) -> None:
    run, before = (
        start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG),
        place.main.read_bytes(),
    )
    result = replay(workspace.store, workspace.models, workspace.place, run, editing(place, "step"))
    assert (result.verdict, result.test) == (None, None)
    assert re.match("it was not tested, .*: the live file of 'ledger-clerk' is version [0-9a-f]{12} now", result.reason)
    assert result.next_step.as_command() == f"skillopt-mcp evaluate {result.candidate_id} --rebase"
    assert workspace.store.tests.list_of_skill(run.skill_id) == []
    place.main.write_bytes(before)
    assert evaluate_candidate(workspace.store, workspace.models, workspace.place, str(result.candidate_id)).accepted


def test_a_run_whose_file_changed_during_its_test_does_not_say_promote(place: Place, workspace: Workspace) -> None:
    result = replay(
        workspace.store,
        workspace.models,
        workspace.place,
        start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG),
        editing(place, GATE),
    )
    assert result.verdict == "better"
    assert result.next_step.as_command() == f"skillopt-mcp evaluate {result.candidate_id} --rebase"


class Died(BaseException):
    """What ends a process, as seen by its store."""


def test_a_run_that_dies_after_any_of_its_last_commits_ends_like_one_that_did_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, n_commits, last = Pool.write, 0, sys.maxsize

    @contextmanager
    def counted(pool: Pool, *, evidence: bool = False) -> Iterator[Connection]:
        nonlocal n_commits
        if n_commits == last:
            raise Died
        with write(pool, evidence=evidence) as connection:
            yield connection
        n_commits += 1
        if n_commits == last:
            raise Died

    def outcome(name: str) -> list[object]:
        workspace = place.open(store=name)
        result = replay(workspace.store, workspace.models, workspace.place, workspace.store.runs.get_run(run_id))
        assert result.status == "finished"
        attempts = workspace.store._pool.rows(
            "select test_id, unit, arm, number, score, cause from test_attempt order by 1, 2, 3, 4"
        )
        # What was under way is asked again, and shows so.
        return [
            result.verdict,
            result.candidate_id,
            workspace.store.runs.list_steps(run_id),
            decisions(workspace),
            attempts,
        ]

    def begun(name: str) -> tuple[Workspace, Run]:
        workspace = place.open(store=name)
        place.add_tasks(workspace)
        return workspace, start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)

    workspace, run = begun("whole.db")
    run_id = run.id
    with monkeypatch.context() as patched:
        patched.setattr(Pool, "write", counted)
        workspace.models.concurrency = 1
        assert replay(workspace.store, workspace.models, workspace.place, run).verdict == "better"
    n_whole, whole = n_commits, outcome("whole.db")
    for last in range(n_whole - 5, n_whole, 2):
        workspace, run = begun(f"{last}.db")
        n_commits = 0
        with monkeypatch.context() as patched:
            patched.setattr(Pool, "write", counted)
            workspace.models.concurrency = 1
            with pytest.raises(Died):
                replay(workspace.store, workspace.models, workspace.place, run)
        workspace.close()
        assert outcome(f"{last}.db") == whole


def decisions(workspace: Workspace) -> list[str]:
    rows = workspace.store._pool.rows("select gate, base_version, version_id, scope, verdict from decision")
    return sorted(map(str, rows))


def test_an_interrupted_run_is_stopped_and_can_be_resumed(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    seen = []

    def interrupt(*_: object) -> None:
        seen.append(1)
        if len(seen) == 100:
            raise KeyboardInterrupt

    workspace.models.on_reply = interrupt
    with pytest.raises(KeyboardInterrupt):
        replay(workspace.store, workspace.models, workspace.place, run)
    assert workspace.store.runs.get_run(run.id).status == "stopped"
    assert unfinished_run(workspace.store, workspace.place, "ledger-clerk").id == run.id
    command = "skillopt-mcp replay ledger-clerk"
    [row] = list_skills(workspace.store, workspace.place).skills
    assert row.next_step.as_command() == f"{command} --resume"
    assert replay(workspace.store, workspace.models, workspace.place, run).status == "finished"
    [row] = list_skills(workspace.store, workspace.place).skills
    assert row.next_step.action != "replay"
    with pytest.raises(NotFound, match=f"no run of 'ledger-clerk' is unfinished: start one with '{command} --target"):
        unfinished_run(workspace.store, workspace.place, "ledger-clerk")


def test_a_run_is_resumed_with_its_own_backends_only(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    other = place.open(target=f"simulated:honest,seed={SEED + 1}")
    with pytest.raises(Refused, match=f"has target '{SIMULATION}' and optimizer '{SIMULATION}': resume it"):
        replay(other.store, other.models, other.place, run)
    assert workspace.store.runs.get_run(run.id).status == "running"
    assert replay(workspace.store, workspace.models, workspace.place, run).status == "finished"


def test_a_run_that_is_under_way_elsewhere_is_busy(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    reached, go_on = threading.Event(), threading.Event()

    def hold(*_: object) -> None:
        reached.set()
        assert go_on.wait(30)

    other = place.open()
    other.models.on_reply = hold
    of_run = (other.store, other.models, other.place, run)
    thread = threading.Thread(target=replay, args=of_run)
    thread.start()
    assert reached.wait(30)
    with pytest.raises(Busy, match=f"run '{run.id}' is locked by another process or thread"):
        replay(workspace.store, workspace.models, workspace.place, run)
    go_on.set()
    thread.join()
    assert replay(workspace.store, workspace.models, workspace.place, run).status == "finished"


def test_tasks_and_attempts_that_come_later_do_not_enter_a_run(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    workspace.store.tasks.add_tasks(1, [replace(task, prompt=f"{task.prompt} Again.", name=None, split="train")
                                        for task in _as_new(workspace)], {"train": 1, "val": 1, "test": 1})  # fmt: skip
    result = replay(workspace.store, workspace.models, workspace.place, run)
    whole = place.open(store="uninterrupted.db")
    place.add_tasks(whole)
    assert (
        replay(
            whole.store,
            whole.models,
            whole.place,
            start_run(whole.store, whole.models, whole.place, "ledger-clerk", CONFIG),
        )
        == result
    )


def _as_new(workspace: Workspace) -> list[NewTask]:
    return [NewTask(task.prompt, task.judge) for task in workspace.store.tasks.list_tasks(1)]


@pytest.mark.parametrize(("n_train", "n_val"), [(0, 5), (1, 0)])
def test_a_run_needs_two_tasks_that_are_not_held_out_and_leaves_no_row_without(
    place: Place, n_train: int, n_val: int
) -> None:
    workspace = place.open()
    place.add_tasks(workspace, 0)
    splits: list[Split] = [*["train"] * n_train, *["val"] * n_val]  # type: ignore[list-item]
    tasks = [replace(task, split=split) for task, split in zip(_some(), splits, strict=False)]
    workspace.store.tasks.add_tasks(1, tasks, DEFAULT_SHARES)
    with pytest.raises(BadInput, match=f"or a train and a val task, got {n_train} train and {n_val} val: add tasks"):
        start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    assert workspace.store.runs.list_runs(1) == []


def _some() -> list[NewTask]:
    return make_tasks(5, SEED)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "I would not know.",
            r"no candidate was ever made: \d+ replies or edits were unusable, the first so: .*no JSON",
        ),
        ('{"reasoning": "fine as it is", "edits": []}', "no candidate was ever made: the optimizer proposed nothing"),
    ],
)
def test_a_run_whose_optimizer_never_makes_a_candidate_says_so_and_names_itself(
    place: Place, workspace: Workspace, said: str, why: str
) -> None:
    use(workspace, Scripted(lambda _: said), "optimizer")
    run = start_run(
        workspace.store,
        workspace.models,
        workspace.place,
        "ledger-clerk",
        CONFIG.model_copy(update={"slow_update": False, "meta_skill": False}),
    )
    result = replay(workspace.store, workspace.models, workspace.place, run)
    assert re.match(why, result.reason)
    assert result.next_step.as_command() == f"skillopt-mcp show {run.id}"


@pytest.mark.skipif(sys.platform == "win32", reason="the program is one of Unix")
def test_a_resumed_run_finds_out_that_a_judge_program_cannot_start_before_it_asks(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = place.open()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        shell, program = Path(folder) / "sh", Path(folder) / "check"
        Path(folder).chmod(0o755)
        shell.symlink_to("/bin/sh")
        program.write_text(f"#!{shell}\nexit 0\n")
        program.chmod(0o755)
        made = register_command("check", [str(program)], unconfined=True)
        workspace.store.commands.register(made)
        tasks = [NewTask(f"What is {n}?", parse_judge({"kind": "command", "name": "check"})) for n in range(12)]
        workspace.store.tasks.add_tasks(workspace.place.skill(str(place.skill)).id, tasks, DEFAULT_SHARES)
        target = Scripted(lambda _: "an answer")
        use(workspace, target, "target", "optimizer")
        run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
        shell.unlink()
        monkeypatch.setattr(programs, "_TRIED", set())  # it is resumed by another process
        with pytest.raises(BackendError, match="check"):
            replay(workspace.store, workspace.models, workspace.place, run)
    assert target.n_calls == 0
