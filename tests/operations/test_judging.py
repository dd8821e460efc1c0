"""Judging: who judges is known, and able to, before anything is spent; whose evidence it is stays with the verdict."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from workshop import LESSONS, SEED, SIMULATION, Place, use

from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.promotions.promoting import promote_skill
from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.backends.programs import bwrap_fault, register_command
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.world import make_tasks
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.errors import BackendError, Refused
from skillopt_mcp.core.evidence import Solved
from skillopt_mcp.core.judging import Judge
from skillopt_mcp.core.tasks import NewTask, Split
from skillopt_mcp.reports.lookup import inspect
from skillopt_mcp.store.pool import connect
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.tasks.judges.kinds.combined import All
from skillopt_mcp.tasks.judges.kinds.rubric import Rubric
from skillopt_mcp.tasks.splits import DEFAULT_SHARES
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.evidence import origins
from skillopt_mcp.workspace.skill_folders import read_skill
from skillopt_mcp.workspace.workspace import Workspace

RUBRIC = Rubric(rubric="The answer is an amount.", votes=3)
FORM = parse_judge({"kind": "length", "min": 2})
CONFIG = Config(epochs=1, batch=10)


@pytest.fixture
def public() -> Iterator[Path]:
    """Return a new folder that every user may enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def all_pass(name: str = "scripted-judge") -> Scripted:
    """Return a judge that finds every rubric fulfilled."""
    return Scripted(lambda _: '{"grade": "all"}', name=name)


def with_rubrics(place: Place, n: int = 30) -> Workspace:
    """Return a workspace with tasks of the simulated world, which a judge model has to look at too."""
    workspace = place.open()
    skill = workspace.place.skill(str(place.skill))
    tasks = [replace(task, judge=All(judges=[task.judge, RUBRIC])) for task in make_tasks(n, SEED)]
    workspace.store.tasks.add_tasks(skill.id, tasks, DEFAULT_SHARES)
    return workspace


def add(workspace: Workspace, place: Place, judge: Judge, n: int = 12, split: Split | None = "test") -> None:
    tasks = [NewTask(f"What is {n}?", judge, split=split) for n in range(n)]
    workspace.store.tasks.add_tasks(workspace.place.skill(str(place.skill)).id, tasks, DEFAULT_SHARES)


@pytest.mark.skipif(sys.platform == "win32", reason="the program is one of Unix")
def test_a_program_that_changes_during_a_test_judges_no_more_of_it(place: Place, public: Path) -> None:
    workspace = place.open()
    program, right = public / "check", "#!/bin/sh\ngrep -q right answer.txt\n"
    program.write_text(right)
    program.chmod(0o755)
    workspace.store.commands.register(register_command("check", [str(program)], unconfined=bool(bwrap_fault())))
    add(workspace, place, parse_judge({"kind": "command", "name": "check"}), 4)
    target = Scripted(lambda call: changing("right" if LESSONS in call.request.files.text else "wrong"))  # type: ignore[union-attr]

    def changing(answer: str) -> str:
        if target.n_calls == 9:
            program.write_text("#!/bin/sh\nexit 0\n")
        return answer

    use(workspace, target)
    candidate = place.propose(workspace)
    with pytest.raises(BackendError, match="the program of the judge command 'check' has changed"):
        evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate)
    assert promote_skill(workspace.store, workspace.place, candidate, Consent.PERSON).status == "refused"
    program.write_text(right)
    again = evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate).test
    assert again
    assert (again.verdict, again.solved) == ("better_here", Solved(before=0.0, after=1.0))


@pytest.mark.skipif(sys.platform == "win32", reason="the program is one of Unix")
def test_a_secret_that_a_program_prints_is_not_kept(place: Place, public: Path) -> None:
    program, secret = public / "check", "ghp_" + "k7Qm2Zx9Lp4RtW3vB8nH5sD1fG6jY0cA9eTu"
    program.write_text(f'#!/bin/sh\necho "wrong, and TOKEN is {secret}"\nexit 1\n')
    program.chmod(0o755)
    with place.open() as workspace:
        workspace.store.commands.register(register_command("check", [str(program)], unconfined=bool(bwrap_fault())))
        add(workspace, place, parse_judge({"kind": "command", "name": "check"}), split=None)
        use(workspace, Scripted(lambda _: "an answer"), "target", "optimizer")
        replay(
            workspace.store,
            workspace.models,
            workspace.place,
            start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG),
        )
    with connect(place.store_path) as connection:  # type: ignore[attr-defined]
        reasons = [str(row[0]) for row in connection.execute("select reason from trial").fetchall()]
    assert all("wrong, and TOKEN is [redacted:" in reason for reason in reasons)
    assert reasons
    files = [path for path in place.store_path.parent.rglob("*") if path.is_file()]
    assert not [path for path in files if secret.encode() in path.read_bytes()]


def test_another_judge_gives_other_evidence_and_so_another_test(place: Place) -> None:
    workspace = with_rubrics(place)
    candidate = place.propose(workspace)
    for name in ("judge-one", "judge-two"):
        use(workspace, all_pass(name), "judge")
        evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate)
    tests = workspace.store.tests.list_of_skill(1)
    assert [test.number for test in tests] == [1, 2]
    assert [origins(test.backend)[1].split("+")[0] for test in tests] == ["judge-one", "judge-two"]


def test_a_run_is_frozen_with_its_judge_and_says_so(place: Place) -> None:
    workspace = with_rubrics(place)
    with pytest.raises(BackendError, match=r"role 'judge': pass --judge "):
        start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    judge = all_pass()
    use(workspace, judge, "judge")
    run = start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG)
    assert (run.judge, workspace.store.runs.get_run(run.id)) == ("scripted-judge", run)
    use(workspace, all_pass("another"), "judge")
    with pytest.raises(Refused, match="and judge 'scripted-judge': resume it with these"):
        replay(workspace.store, workspace.models, workspace.place, run)
    use(workspace, judge, "judge")
    assert replay(workspace.store, workspace.models, workspace.place, run).status == "finished"
    rows = {(row.role, row.stage): row for row in workspace.store.ledger.list_rows(run.id)}
    # Of three votes on each answer, the two that agree; equal answers to one task on one draw are one question.
    asked = "select distinct t.task_id, c.draw, r.text from trial t"
    asked += " join call c on c.id = t.call_id join reply r on r.call_id = c.id"
    answers = workspace.store._pool.rows(f"{asked} where c.scope = ?", [run.id])
    assert len(answers) > rows["target", "rollout"].n_calls / 2
    assert rows["judge", "judge"].n_calls == 2 * len(answers)
    assert "judge scripted-judge" in inspect(workspace.store, workspace.place, run.id).text


def test_a_run_whose_held_out_tasks_judge_the_form_alone_confirms_nothing_and_says_why(place: Place) -> None:
    workspace = place.open()
    skill = workspace.place.skill(str(place.skill))
    train = [replace(task, judge=FORM, split="train") for task in make_tasks(20, SEED)]
    workspace.store.tasks.add_tasks(skill.id, train, DEFAULT_SHARES)
    add(workspace, place, FORM)
    before = read_skill(Path(skill.path)).digest
    answers = Scripted(
        lambda call: "short" if call.request.digest.startswith(before) else "long enough", name=SIMULATION
    )
    use(workspace, answers)
    result = replay(
        workspace.store,
        workspace.models,
        workspace.place,
        start_run(workspace.store, workspace.models, workspace.place, "ledger-clerk", CONFIG),
    )
    assert result.candidate_id
    assert result.verdict is None
    assert "judge the form of an answer alone (length, heading)" in result.reason
    assert workspace.store.tests.list_of_skill(skill.id) == []
    with pytest.raises(Refused, match="judge the form of an answer alone"):
        evaluate_candidate(workspace.store, workspace.models, workspace.place, result.candidate_id)
