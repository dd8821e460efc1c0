"""Judging: who judges is known, and able to, before anything is spent; whose evidence it is stays with the verdict."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from workshop import LESSONS, SEED, SIMULATION, Place, use

from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.world import make_tasks
from skillopt_mcp.calls.asking import Asker
from skillopt_mcp.errors import BackendError, Refused
from skillopt_mcp.evidence import origins
from skillopt_mcp.gates.confirm import ConfirmRule
from skillopt_mcp.judges.judging import parse_judge
from skillopt_mcp.judges.kinds.combined import All
from skillopt_mcp.judges.kinds.rubric import Rubric
from skillopt_mcp.judges.programs import bwrap_fault, register_command
from skillopt_mcp.promotion_tests import evaluate_candidate
from skillopt_mcp.promotions.consent import Consent
from skillopt_mcp.promotions.promoting import promote_skill
from skillopt_mcp.records.judging import Judge
from skillopt_mcp.records.tasks import NewTask, Split
from skillopt_mcp.runs import replay, start_run
from skillopt_mcp.show.inspecting import inspect
from skillopt_mcp.splits import DEFAULT_SHARES
from skillopt_mcp.store.driver import connect
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.confirmation import open_test, run_test
from skillopt_mcp.workspace import Workspace

RUBRIC = Rubric(rubric="The answer is an amount.", votes=3)
FORM = parse_judge({"kind": "length", "min": 2})
CONFIG = Config(epochs=1, batch=10, max_pairs=20)


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
    skill = workspace.skill(str(place.skill))
    tasks = [replace(task, judge=All(judges=[task.judge, RUBRIC])) for task in make_tasks(n, SEED)]
    workspace.store.tasks.add_tasks(skill.id, tasks, DEFAULT_SHARES)
    return workspace


def add(workspace: Workspace, place: Place, judge: Judge, n: int = 12, split: Split | None = "test") -> None:
    tasks = [NewTask(f"What is {n}?", judge, split=split) for n in range(n)]
    workspace.store.tasks.add_tasks(workspace.skill(str(place.skill)).id, tasks, DEFAULT_SHARES)


@pytest.mark.skipif(sys.platform == "win32", reason="the program is one of Unix")
def test_a_program_that_changes_during_a_test_judges_no_more_of_it(place: Place, public: Path) -> None:
    workspace = place.open()
    program, right = public / "check", "#!/bin/sh\ngrep -q right answer.txt\n"
    program.write_text(right)
    program.chmod(0o755)
    workspace.store.commands.register(register_command("check", [str(program)], unconfined=bool(bwrap_fault())))
    add(workspace, place, parse_judge({"kind": "command", "name": "check"}))
    target = Scripted(lambda call: changing("right" if LESSONS in call.request.files.text else "wrong"))  # type: ignore[union-attr]

    def changing(answer: str) -> str:
        if target.n_calls == 9:
            program.write_text("#!/bin/sh\nexit 0\n")
        return answer

    use(workspace, target)
    candidate = place.propose(workspace)
    with pytest.raises(BackendError, match="the program of the judge command 'check' has changed"):
        evaluate_candidate(workspace, candidate)
    assert promote_skill(workspace, candidate, Consent.PERSON).status == "refused"
    program.write_text(right)
    again = evaluate_candidate(workspace, candidate)
    assert (again.verdict, again.base.mean, again.candidate.mean) == ("accept", 0.0, 1.0)


@pytest.mark.skipif(sys.platform == "win32", reason="the program is one of Unix")
def test_a_secret_that_a_program_prints_is_not_kept(place: Place, public: Path) -> None:
    program, secret = public / "check", "ghp_" + "k7Qm2Zx9Lp4RtW3vB8nH5sD1fG6jY0cA9eTu"
    program.write_text(f'#!/bin/sh\necho "wrong, and TOKEN is {secret}"\nexit 1\n')
    program.chmod(0o755)
    with place.open() as workspace:
        workspace.store.commands.register(register_command("check", [str(program)], unconfined=bool(bwrap_fault())))
        add(workspace, place, parse_judge({"kind": "command", "name": "check"}), split=None)
        use(workspace, Scripted(lambda _: "an answer"), "target", "optimizer")
        replay(workspace, start_run(workspace, "ledger-clerk", CONFIG))
    with connect(place.store_path) as connection:  # type: ignore[attr-defined]
        reasons = [str(row[0]) for row in connection.execute("select reason from trial").fetchall()]
    assert all("wrong, and TOKEN is [redacted:" in reason for reason in reasons)
    assert reasons
    files = [path for path in place.store_path.parent.rglob("*") if path.is_file()]
    assert not [path for path in files if secret.encode() in path.read_bytes()]


def test_another_judge_gives_other_evidence_and_so_another_test(place: Place) -> None:
    workspace = with_rubrics(place)
    candidate = place.propose(workspace)
    rule = ConfirmRule(max_pairs=8)
    use(workspace, all_pass("judge-one"), "judge")
    first = evaluate_candidate(workspace, candidate, None, rule=rule)
    use(workspace, all_pass("judge-two"), "judge")
    second = evaluate_candidate(workspace, candidate, None, rule=rule)
    made = workspace.store.candidates.get_candidate(candidate)
    tests = workspace.store.decisions.list_confirmations(made.skill_id, made.base_version, made.version_id)
    assert [test.j for test in tests] == [2, 1]
    assert second.alpha < first.alpha
    assert [origins(test.backend)[1].split("+")[0] for test in tests] == ["judge-two", "judge-one"]


def test_a_run_is_frozen_with_its_judge_and_says_so(place: Place) -> None:
    workspace = with_rubrics(place)
    with pytest.raises(BackendError, match=r"role 'judge': start with --judge BACKEND:MODEL$"):
        start_run(workspace, "ledger-clerk", CONFIG)
    judge = all_pass()
    use(workspace, judge, "judge")
    run = start_run(workspace, "ledger-clerk", CONFIG)
    assert (run.judge, workspace.store.runs.get_run(run.id)) == ("scripted-judge", run)
    use(workspace, all_pass("another"), "judge")
    with pytest.raises(Refused, match="and judge 'scripted-judge': resume it with these"):
        replay(workspace, run)
    use(workspace, judge, "judge")
    assert replay(workspace, run).status == "finished"
    rows = {(row.role, row.stage): row for row in workspace.store.ledger.list_rows(run.id)}
    # Of three votes on each answer, the two that agree; equal answers to one task on one draw are one question.
    asked = "select distinct t.task_id, c.draw, r.text from trial t"
    asked += " join call c on c.id = t.call_id join reply r on r.call_id = c.id"
    answers = workspace.store._pool.rows(f"{asked} where c.scope = ?", [run.id])
    assert len(answers) > rows["target", "rollout"].n_calls / 2
    assert rows["judge", "judge"].n_calls == 2 * len(answers)
    assert "judge scripted-judge" in inspect(workspace, run.id).text


def test_a_run_whose_held_out_tasks_judge_the_form_alone_confirms_nothing_and_says_why(place: Place) -> None:
    workspace = place.open()
    skill = workspace.skill(str(place.skill))
    train = [replace(task, judge=FORM, split="train") for task in make_tasks(20, SEED)]
    workspace.store.tasks.add_tasks(skill.id, train, DEFAULT_SHARES)
    add(workspace, place, FORM)
    before = workspace.live(skill).digest
    answers = Scripted(
        lambda call: "short" if call.request.digest.startswith(before) else "long enough", name=SIMULATION
    )
    use(workspace, answers)
    result = replay(workspace, start_run(workspace, "ledger-clerk", CONFIG))
    assert result.candidate_id
    assert (result.verdict, result.n_pairs) == (None, 0)
    assert (
        result.reason == "the held-out tasks judge the form of answers alone (length, heading), which promotes nothing"
    )


def test_a_test_that_judged_the_form_alone_promotes_nothing_though_it_accepted(place: Place) -> None:
    workspace = place.open()
    add(workspace, place, FORM)
    candidate = workspace.store.candidates.get_candidate(place.propose(workspace))
    files = [
        workspace.store.skills.get_files(candidate.skill_id, version)
        for version in (candidate.base_version, candidate.version_id)
    ]
    target = Scripted(lambda call: "long enough" if LESSONS in call.request.files.text else "short", name="real:model")  # type: ignore[union-attr]
    tasks = workspace.store.tasks.list_tasks(candidate.skill_id)
    test = open_test(workspace.store, (files[0], files[1]), tasks, target.fingerprint, ConfirmRule())
    with Asker(workspace.store, {"target": target}, test.row.id) as ask:
        assert run_test(test, workspace.store, ask).verdict == "accept"
    before = place.main.read_bytes()
    result = promote_skill(workspace, candidate.id, Consent.PERSON)
    assert (result.status, result.reason) == (
        "refused", "its test judged the form of answers alone (length, heading)",
    )  # fmt: skip
    assert place.main.read_bytes() == before
