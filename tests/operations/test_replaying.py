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

from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.world import make_tasks
from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.errors import BackendError, BadInput, Busy, NotFound, Refused
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.judges import programs
from skillopt_mcp.judges.judging import parse_judge
from skillopt_mcp.judges.programs import register_command
from skillopt_mcp.promotion_tests import evaluate_candidate
from skillopt_mcp.promotions.consent import Consent
from skillopt_mcp.promotions.promoting import promote_skill, rollback_skill
from skillopt_mcp.records.calls import Call, Reply
from skillopt_mcp.records.candidates import NewCandidate
from skillopt_mcp.records.runs import Run
from skillopt_mcp.records.tasks import NewTask
from skillopt_mcp.runs import describe_others_left, furthest, new_run, replay, start_run, unfinished_run
from skillopt_mcp.show.listing import list_skills
from skillopt_mcp.show.run_report import describe_run
from skillopt_mcp.splits import EQUAL_SHARES
from skillopt_mcp.store.driver import Connection
from skillopt_mcp.store.pool import Pool
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.confirmation import GATE
from skillopt_mcp.training.progress import Notify, Progress
from skillopt_mcp.workspace import Workspace

CONFIG = Config(epochs=2, batch=10, seed=1)


def test_a_run_trains_and_confirms_its_best_version(place: Place, workspace: Workspace) -> None:
    before = place.main.read_bytes()
    result = replay(workspace, start_run(workspace, "ledger-clerk", CONFIG))
    assert result.status == "finished"
    assert [(step.epoch, step.step, step.kind) for step in result.steps] == [
        *((1, n, "step") for n in (1, 2, 3)), *((2, n, "step") for n in (4, 5, 6)), (2, 7, "slow"), (2, 8, "meta"),
    ]  # fmt: skip
    assert result.candidate_id
    assert result.test_before is not None
    assert result.n_calls > 100
    assert place.main.read_bytes() == before


def test_a_finished_run_is_answered_again_with_nothing_asked(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace, "ledger-clerk", CONFIG)
    first = replay(workspace, run)
    use(workspace, Scripted(lambda _: 1 / 0, name=SIMULATION), "target", "optimizer")  # type: ignore[arg-type,return-value]
    assert replay(workspace, run) == first
    assert replay(workspace, workspace.store.runs.get_run(run.id)) == first
    assert workspace.store.runs.get_run(run.id).status == "finished"


def editing(place: Place, stage: str) -> Notify:
    """Return what edits the live file once, when a run tells that it is at this stage."""
    before = place.main.read_bytes()

    def notify(standing: Progress) -> None:
        if standing.stage == stage and place.main.read_bytes() == before:
            place.main.write_bytes(before + b"\n- Mind the date.\n")

    return notify


def test_a_version_that_could_not_be_promoted_any_more_is_not_tested(place: Place, workspace: Workspace) -> None:
    run, before = start_run(workspace, "ledger-clerk", CONFIG), place.main.read_bytes()
    result = replay(workspace, run, editing(place, "step"))
    assert (result.verdict, result.n_pairs) == (None, 0)
    assert re.match("it was not tested, .*: the live file of 'ledger-clerk' is version [0-9a-f]{12} now", result.reason)
    assert result.next_step.as_command() == f"skillopt-mcp evaluate {result.candidate_id} --rebase"
    assert workspace.store.decisions.count_tests(run.skill_id) == 0
    place.main.write_bytes(before)
    assert evaluate_candidate(workspace, str(result.candidate_id)).verdict == "accept"


def test_a_version_whose_folder_is_gone_is_not_tested(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace, "ledger-clerk", CONFIG)
    place.skill.rename(place.folder / "away")
    result = replay(workspace, run)
    assert (result.verdict, result.n_pairs) == (None, 0)
    assert "its folder is gone" in result.reason
    assert "its folder is gone" in result.next_step.why


def test_a_run_whose_file_changed_during_its_test_does_not_say_promote(place: Place, workspace: Workspace) -> None:
    result = replay(workspace, start_run(workspace, "ledger-clerk", CONFIG), editing(place, GATE))
    assert result.verdict == "accept"
    assert result.next_step.as_command() == f"skillopt-mcp evaluate {result.candidate_id} --rebase"


def test_the_end_of_a_run_knows_what_became_of_its_candidate_meanwhile(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace, "ledger-clerk", CONFIG)
    candidate = replay(workspace, run).candidate_id

    def ended_again() -> str:
        change_run(place, "update run set result = null, status = 'stopped'")
        return replay(workspace, workspace.store.runs.get_run(run.id)).next_step.as_command()

    assert ended_again() == f"skillopt-mcp promote {candidate}"
    assert promote_skill(workspace, str(candidate), Consent.PERSON_SIMULATED).status == "promoted"
    assert ended_again() == f"skillopt-mcp show {candidate}"
    rollback_skill(workspace, "ledger-clerk", None, Consent.PERSON)
    assert ended_again() == f"skillopt-mcp show {candidate}"


def change_run(place: Place, sql: str) -> None:
    pool = Pool(place.store_path)
    with pool.write() as connection:
        connection.execute(sql)
    pool.close()


class Died(BaseException):
    """What ends a process, as far as its store can tell."""


def test_a_run_that_dies_after_any_of_its_last_commits_ends_like_one_that_did_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, write, n_commits, last = CONFIG.model_copy(update={"max_pairs": 4}), Pool.write, 0, sys.maxsize

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

    def told(name: str) -> list[object]:
        workspace = place.open(store=name)
        result = replay(workspace, workspace.store.runs.get_run(run_id))
        assert result.status == "finished"
        pairs = workspace.store._pool.rows(
            "select confirmation_id, n, task_id, base, candidate from pair order by 1, 2"
        )
        return [result, workspace.store.runs.list_steps(run_id), decisions(workspace), pairs]

    def begun(name: str) -> tuple[Workspace, Run]:
        workspace = place.open(store=name)
        place.add_tasks(workspace)
        return workspace, start_run(workspace, "ledger-clerk", config)

    workspace, run = begun("whole.db")
    run_id = run.id
    with monkeypatch.context() as patched:
        patched.setattr(Pool, "write", counted)
        assert replay(workspace, run).verdict == "undecided"
    n_whole, whole = n_commits, told("whole.db")
    for last in range(n_whole - 6, n_whole):
        workspace, run = begun(f"{last}.db")
        n_commits = 0
        with monkeypatch.context() as patched:
            patched.setattr(Pool, "write", counted)
            with pytest.raises(Died):
                replay(workspace, run)
        workspace.close()
        assert told(f"{last}.db") == whole


def decisions(workspace: Workspace) -> list[str]:
    rows = workspace.store._pool.rows("select gate, base_version, version_id, scope, verdict, inputs from decision")
    return sorted(map(str, rows))


def test_an_interrupted_run_is_stopped_and_can_be_resumed(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace, "ledger-clerk", CONFIG)
    seen = []

    def interrupt(*_: object) -> None:
        seen.append(1)
        if len(seen) == 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(workspace, run, on_reply=interrupt)
    assert workspace.store.runs.get_run(run.id).status == "stopped"
    assert unfinished_run(workspace, "ledger-clerk").id == run.id
    command = "skillopt-mcp replay ledger-clerk"
    [row] = list_skills(workspace).skills
    assert row.next_step.as_command() == f"{command} --resume"
    assert replay(workspace, run).status == "finished"
    [row] = list_skills(workspace).skills
    assert row.next_step.action != "replay"
    with pytest.raises(NotFound, match=f"no run of 'ledger-clerk' is unfinished: start one with '{command} --target"):
        unfinished_run(workspace, "ledger-clerk")


def test_a_run_that_somebody_advances_is_told_as_under_way(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace, "ledger-clerk", CONFIG)
    workspace.store.runs.set_status(run.id, "running")
    lock = lock_run(workspace.store.locks_path, run.id)
    assert lock
    [row] = list_skills(place.open()).skills
    assert (row.next_step.action, row.next_step.arguments) == ("inspect", {"id": run.id})
    lock.release()
    [row] = list_skills(place.open()).skills
    assert row.next_step.action == "replay"


def test_a_run_is_resumed_with_its_own_backends_only(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace, "ledger-clerk", CONFIG)
    other = place.open(target=f"simulated:honest,seed={SEED + 1}")
    with pytest.raises(Refused, match=f"has target '{SIMULATION}' and optimizer '{SIMULATION}': resume it"):
        replay(other, run)
    assert workspace.store.runs.get_run(run.id).status == "running"
    assert replay(workspace, run).status == "finished"


def test_a_run_that_is_under_way_elsewhere_is_busy(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace, "ledger-clerk", CONFIG)
    reached, go_on = threading.Event(), threading.Event()

    def hold(*_: object) -> None:
        reached.set()
        assert go_on.wait(30)

    thread = threading.Thread(target=replay, args=(place.open(), run), kwargs={"on_reply": hold})
    thread.start()
    assert reached.wait(30)
    with pytest.raises(Busy, match=f"run '{run.id}' is locked by another process or thread"):
        replay(workspace, run)
    go_on.set()
    thread.join()
    assert replay(workspace, run).status == "finished"


def test_nobody_else_draws_pairs_of_a_promotion_test_that_a_run_is_at(place: Place, workspace: Workspace) -> None:
    store, was_free = workspace.store, set[bool]()

    def look(call: Call, _: Reply) -> None:
        if call.draw.startswith("t-"):
            lock = lock_run(store.locks_path, call.draw.partition("/")[0])
            was_free.add(lock is not None)
            if lock:
                lock.release()

    run = start_run(workspace, "ledger-clerk", CONFIG)
    assert replay(workspace, run, on_reply=look).n_pairs
    assert was_free == {False}
    [test] = store.decisions.list_tests(1)
    lock = lock_run(store.locks_path, test.id)
    assert lock
    lock.release()


def test_tasks_and_attempts_that_come_later_do_not_enter_a_run(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace, "ledger-clerk", CONFIG)
    workspace.store.tasks.add_tasks(1, [replace(task, prompt=f"{task.prompt} Again.", name=None, split="train")
                                        for task in _as_new(workspace)], {"train": 1, "val": 1, "test": 1})  # fmt: skip
    result = replay(workspace, run)
    whole = place.open(store="uninterrupted.db")
    place.add_tasks(whole)
    assert replay(whole, start_run(whole, "ledger-clerk", CONFIG)) == result


def _as_new(workspace: Workspace) -> list[NewTask]:
    return [NewTask(task.prompt, task.judge) for task in workspace.store.tasks.list_tasks(1)]


def test_a_test_that_was_opened_with_more_tasks_does_not_stop_a_run(place: Place, workspace: Workspace) -> None:
    """A host proposes and tests the run's best version itself, on tasks that came after the run began."""
    twin = place.open(store="twin.db")
    place.add_tasks(twin)
    found = replay(twin, start_run(twin, "ledger-clerk", CONFIG))
    assert found.candidate_id
    candidate = twin.store.candidates.get_candidate(found.candidate_id)
    best = twin.store.skills.get_files(1, candidate.version_id)

    run = start_run(workspace, "ledger-clerk", CONFIG)
    place.add_tasks(workspace, 120)
    workspace.store.candidates.add_candidate(NewCandidate(replace(candidate, origin="host", run_id=None), best))
    evaluate_candidate(workspace, candidate.id, rule=ConfirmRule(max_pairs=3))
    assert replay(workspace, run).candidate_id == candidate.id


@pytest.mark.parametrize("missing", ["train", "val"])
def test_a_run_needs_train_and_val_tasks_and_leaves_no_row_without(place: Place, missing: str) -> None:
    workspace = place.open()
    place.add_tasks(workspace, 0)
    tasks = [replace(task, split="test" if missing == "val" else "val") for task in _some()]
    if missing == "val":
        tasks += [replace(task, split="train", name=None, prompt=f"{task.prompt}!") for task in _some()]
    workspace.store.tasks.add_tasks(1, tasks, {"train": 1, "val": 1, "test": 1})
    with pytest.raises(BadInput, match=f"the skill has no {missing} task: add tasks"):
        start_run(workspace, "ledger-clerk", CONFIG)
    assert workspace.store.runs.list_runs(1) == []


def _some() -> list[NewTask]:
    return make_tasks(5, SEED)


def test_without_backends_no_run_is_left_behind(place: Place) -> None:
    workspace = place.open(target=None)
    place.add_tasks(workspace)
    with pytest.raises(Exception, match="no backend is set for the role"):
        start_run(workspace, "ledger-clerk", CONFIG)
    assert workspace.store.runs.list_runs(1) == []


def test_a_run_goes_on_though_the_live_file_changes(place: Place, workspace: Workspace) -> None:
    run = start_run(workspace, "ledger-clerk", CONFIG)
    place.main.write_text("# Mine\n")
    assert replay(workspace, run).status == "finished"
    assert place.main.read_text() == "# Mine\n"


def test_a_run_begins_with_the_notes_that_the_last_one_left(place: Place, workspace: Workspace) -> None:
    first = start_run(workspace, "ledger-clerk", CONFIG)
    assert first.note == ""
    replay(workspace, first)
    left = workspace.store.runs.note_of_skill(first.skill_id)
    assert left
    second = start_run(workspace, "ledger-clerk", CONFIG)
    assert workspace.store.runs.get_run(second.id).note == second.note == left
    assert start_run(workspace, "ledger-clerk", CONFIG.model_copy(update={"meta_skill": False})).note == ""


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
    run = start_run(workspace, "ledger-clerk", CONFIG.model_copy(update={"slow_update": False, "meta_skill": False}))
    result = replay(workspace, run)
    assert re.match(why, result.reason)
    assert result.next_step.as_command() == f"skillopt-mcp show {run.id}"


def test_a_mean_over_no_attempts_is_no_number(place: Place, workspace: Workspace) -> None:
    result = replay(workspace, start_run(workspace, "ledger-clerk", CONFIG))
    assert {row.train_hard for row in result.steps if row.kind == "meta"} == {None}
    lines = [line.split() for line in describe_run(workspace, result.run_id).splitlines() if "meta note" in line]
    assert {line[4] for line in lines} == {"-"}


def test_a_new_run_reads_no_other_than_those_that_it_may_go_on_with(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = workspace.store.runs
    config = Config(epochs=1, batch=10)
    first = start_run(workspace, "ledger-clerk", config)
    for seed in range(3):
        start_run(workspace, "ledger-clerk", config.model_copy(update={"seed": seed}))
    runs.set_status(start_run(workspace, "ledger-clerk", config).id, "finished", "{}")
    read: list[str] = []

    def get_run(run_id: str) -> Run:
        read.append(run_id)
        return found(run_id)

    found = runs.get_run
    monkeypatch.setattr(runs, "get_run", get_run)
    monkeypatch.setattr(runs, "list_runs", None)
    new = new_run(workspace, "ledger-clerk", config)
    assert furthest(workspace, new, allow_changed=False) == first
    assert read == [first.id]
    assert unfinished_run(workspace, "ledger-clerk").id not in (first.id, new.id)


def test_other_unfinished_runs_are_named_with_the_rule(workspace: Workspace) -> None:
    runs = [start_run(workspace, "ledger-clerk", CONFIG.model_copy(update={"seed": seed})) for seed in range(3)]
    assert all(run.id in describe_others_left(workspace, runs[2]) for run in runs[:2])
    for run in runs[:2]:
        workspace.store.runs.set_status(run.id, "finished", "{}")
    assert describe_others_left(workspace, runs[2]) == ""


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
        workspace.store.commands.register(register_command("check", [str(program)]))
        tasks = [NewTask(f"What is {n}?", parse_judge({"kind": "command", "name": "check"})) for n in range(12)]
        workspace.store.tasks.add_tasks(workspace.skill(str(place.skill)).id, tasks, EQUAL_SHARES)
        target = Scripted(lambda _: "an answer")
        use(workspace, target, "target", "optimizer")
        run = start_run(workspace, "ledger-clerk", CONFIG)
        shell.unlink()
        monkeypatch.setattr(programs, "_TRIED", set())  # it is resumed by another process
        with pytest.raises(BackendError, match="check"):
            replay(workspace, run)
    assert target.n_calls == 0
