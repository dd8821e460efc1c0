"""Missing answers: what a target brings about is a failure everywhere, what was lost on the way is asked again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest
from training_world import PLAIN, RUN, SKILL, Bench, new_tasks, question_of, right, rollout_of

from benchmarks.host_agent import items_of
from skillopt_mcp.backends import spending as retrying
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Answer, Scripted
from skillopt_mcp.backends.spending import POLICIES
from skillopt_mcp.core.calls import LOST, OF_THE_TARGET, Call, Fault
from skillopt_mcp.core.errors import Outage
from skillopt_mcp.core.evidence import Metric, SearchGate
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.loop import train
from skillopt_mcp.training.plan import State
from skillopt_mcp.training.stages.longitudinal import compare_versions
from tests.acceptance.doors import Facts, Server, Workbench
from tests.acceptance.world import KINDS, TAUGHT, answer_work, lesson

CONFIG = Config(batch=20, epochs=1, minibatch=2, max_edits=1, min_edits=1, **PLAIN)
RAMBLE = json.dumps({"reasoning": "r", "edits": [{"op": "append", "content": "- Ramble."}]})
RAMBLED = SKILL.replaced(SkillFile(MAIN_FILE, SKILL.main + b"- Ramble.\n"))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {fault: policy._replace(wait_s=0.0005) for fault, policy in POLICIES.items()}
    monkeypatch.setattr(retrying, "POLICIES", quick)


def place_in_split(call: Call) -> int:
    return int(rollout_of(call).task.name.removeprefix("t")) // 3


def rambling(fault: Fault) -> Scripted:
    """Return a target that solves 12 of 20, and with the edit 4: the other 16 have no answer.

    Of those that are lost, 8 are, and at first alone.
    """

    def answer(call: Call) -> Answer:
        if call.role == "optimizer":
            return RAMBLE
        if "Ramble." not in rollout_of(call).files.text:
            return right(call) if place_in_split(call) < 12 else "wrong"
        if place_in_split(call) < (12 if fault in LOST else 4) or "/try" in call.draw:
            return right(call)
        return BackendFault(fault, "nothing came")

    return Scripted(answer)


def run(bench: Bench, backend: Scripted, config: Config = CONFIG) -> State:
    with bench.ask(backend, concurrency=1) as ask:
        return train(bench.plan(config), bench.store, ask)


@pytest.fixture
def large(tmp_path: Path) -> Bench:
    return Bench(tmp_path, SKILL, new_tasks(60))


@pytest.mark.parametrize("gate", get_args(SearchGate))
@pytest.mark.parametrize("metric", get_args(Metric))
@pytest.mark.parametrize("fault", sorted(OF_THE_TARGET))
def test_a_text_that_makes_the_model_ramble_does_not_win(
    large: Bench, fault: Fault, metric: Metric, gate: SearchGate
) -> None:
    with large:
        state = run(large, rambling(fault), CONFIG.model_copy(update={"metric": metric, "gate": gate}))
        [step] = large.store.runs.list_steps(RUN)
        assert (step.verdict, step.candidate, step.n_missing, state.best) == ("reject", 0.2, 16, SKILL)


@pytest.mark.parametrize("fault", sorted(LOST))
def test_what_was_lost_on_the_way_is_asked_again_and_is_no_score(large: Bench, fault: Fault) -> None:
    with large:
        state = run(large, rambling(fault))
        [step] = large.store.runs.list_steps(RUN)
        assert (step.verdict, step.candidate, step.n_missing) == ("accept_best", 1.0, 0)
        assert state.best != SKILL


@pytest.mark.parametrize("fault", sorted(OF_THE_TARGET | LOST))
def test_the_baseline_counts_what_the_target_brought_about_and_nothing_else(large: Bench, fault: Fault) -> None:
    n_failing = 8 if fault in OF_THE_TARGET else 1

    def answer(call: Call) -> Answer:
        if call.role == "optimizer":
            return '{"edits": []}'
        return BackendFault(fault, "nothing came") if place_in_split(call) < n_failing else right(call)

    with large:
        run(large, Scripted(answer))
        [step] = large.store.runs.list_steps(RUN)
        assert step.baseline
        assert (step.baseline.hard, step.baseline.n_missing) == ((0.6, 0) if fault in OF_THE_TARGET else (1.0, 1))
        assert (step.train.hard, step.train.n_missing) == (step.baseline.hard, step.baseline.n_missing)


@pytest.mark.parametrize("fault", sorted(OF_THE_TARGET | LOST))
def test_a_baseline_without_any_answer_stops_the_run_and_names_the_way_out(bench: Bench, fault: Fault) -> None:
    nothing = Scripted(lambda _: BackendFault(fault, "cut off: raise max_tokens"))
    with pytest.raises(Outage, match=r"val tasks has an answer with a score.*cut off: raise max_tokens"):
        run(bench, nothing)


@pytest.mark.parametrize("fault", sorted(OF_THE_TARGET))
def test_a_slow_update_and_a_contrast_are_shown_that_an_answer_was_cut_off(large: Bench, fault: Fault) -> None:
    asked: list[str] = []

    def answer(call: Call) -> Answer:
        if call.role == "optimizer":
            asked.append(call.draw.rpartition("/")[2])
            assert "contrast" not in asked[-1] or f"missing ({fault}): nothing came" in question_of(call).evidence
            return '{"edits": []}'
        return BackendFault(fault, "nothing came") if call.draw.endswith("/r1") else right(call)

    with large, large.ask(Scripted(answer)) as ask:
        train(large.plan(CONFIG.model_copy(update={"repeats": 2})), large.store, ask)
        assert asked
        assert all("contrast" in each for each in asked)
    tasks = [task for task in large.tasks if task.split == "train"]
    cut = Scripted(lambda call: BackendFault(fault, "x") if "Ramble." in rollout_of(call).files.text else right(call))
    with Bench(large.store.path.parent / "b", SKILL, new_tasks(60)) as other, other.ask(cut) as ask:
        compared = compare_versions(ask, (SKILL, RAMBLED), tasks, "mixed", n=20, draw="r/e2slow")
    assert [pair.change for pair in compared.pairs] == ["regressed"] * 20


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workbench]:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = Workbench(tmp_path)
    found.add_tasks({"train": 8, "val": 8, "test": 12})
    yield found
    found.close()


def drive(host: Server, job_id: str, is_lost: Callable[[str], bool], lost: dict[str, object]) -> tuple[Facts, str]:
    """Do a job's work as a host's agents, but hand in another thing for what is lost; return its end, and questions."""
    standing, questions = host.tool("submit_work", job_id=job_id, max_items=16), ""
    while standing["status"] == "work":
        replies = list[dict[str, object]]()
        for item in items_of(standing["work"]):
            order = Path(item.folder, "WORK.md").read_text()
            given = lost if is_lost(order) else {"reply": answer_work(Path(item.folder))}
            replies.append({"work_id": item.work_id, **given})
            questions += order if Path(item.folder, "reply.schema.json").exists() else ""
        receipts = host.tool("submit_work", replies=replies, max_items=0)["receipts"]
        refused = [{"work_id": each["work_id"], "failed": "no"} for each in receipts if each["status"] == "refused"]
        standing = host.tool("submit_work", replies=refused, job_id=job_id, max_items=16)
    return standing, questions


NO_ANSWERS: list[dict[str, object]] = [{"failed": "the agent stopped"}, {"reply": " "}, {"reply": 7}]


@pytest.mark.parametrize("lost", NO_ANSWERS)
@pytest.mark.parametrize("arm", ["old", "new"])
def test_leases_that_end_without_an_answer_never_help_the_new_text(
    desk: Workbench, arm: str, lost: dict[str, object]
) -> None:
    lines = [lesson(kind) for kind in KINDS]
    if arm == "old":
        desk.skill_file.write_text(TAUGHT.replace("NAME", "greeter"))
        lines = ["- Be brief."]
    with desk.serve() as host:
        candidate_id = desk.propose(host, *lines)
        job_id = host.tool("evaluate_candidate", candidate_id=candidate_id)["job_id"]
        done, _ = drive(host, job_id, lambda order: (lines[0] in order) == (arm == "new"), lost)
    assert (done["status"], done["evaluated.accepted"]) == ("done", False)
    assert desk.tested(candidate_id).solved == ((1.0, 1.0) if arm == "old" else (0.0, 0.0))


@pytest.mark.parametrize("lost", NO_ANSWERS)
def test_leases_that_end_without_an_answer_are_no_score_in_a_proposal(desk: Workbench, lost: dict[str, object]) -> None:
    with desk.serve() as host:
        job_id = host.tool("propose_edits", skill=str(desk.skill_path), rollouts=8)["job_id"]
        done, asked = drive(host, job_id, lambda order: "do one task" in order and "the morning" in order, lost)
    assert done["proposed.status"] == "candidate"
    assert done["proposed.notes"][0] == "2 of the first 8 answers given up: do one of the tasks by hand to see why"
    assert ("the noon" in asked, "the morning" in asked) == (True, False)
