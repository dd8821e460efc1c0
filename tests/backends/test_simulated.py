"""The simulated world: its rules, and a backend that is deterministic and blind to judges."""

import asyncio
from dataclasses import replace

import pytest
from pydantic import BaseModel

from skillopt_mcp.backends.simulated import Simulated, open_simulated
from skillopt_mcp.backends.world import (
    PLACEBOS,
    TOPICS,
    World,
    make_skill,
    make_tasks,
    right_answer,
    taught_by,
    topics_of,
    true_score,
)
from skillopt_mcp.core.calls import Call, Question, Reply, Rollout
from skillopt_mcp.core.edits import Edit
from skillopt_mcp.core.errors import BackendError
from skillopt_mcp.core.evidence import Trajectory
from skillopt_mcp.core.replies import SCHEMAS, EditReply, MergeRewritesReply, PatchReply
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.core.tasks import NewTask, Task
from skillopt_mcp.prompts.loading import fill, load_prompts
from skillopt_mcp.prompts.parsing import parse_reply
from skillopt_mcp.prompts.rendering import (
    render_edits,
    render_evidence,
    render_rewrites,
    render_suggestions,
    render_trajectories,
)
from skillopt_mcp.tasks.judges.kinds.numeric import Numeric
from skillopt_mcp.tasks.judges.kinds.text import Contains, Exact

SKILL = make_skill(7)


def stored(tasks: list[NewTask]) -> list[Task]:
    return [Task(i, 1, task.name or "", task.prompt, task.judge, "train", task.digest) for i, task in enumerate(tasks)]


def ask(backend: Simulated, files: SkillFiles, task: Task, draw: str) -> Reply:
    return asyncio.run(backend.complete(Call("target", "rollout", Rollout(files, task), draw)))


def with_lines(files: SkillFiles, *lines: str) -> SkillFiles:
    text = files.main + "".join(f"\n- {line}\n" for line in lines).encode()
    return files.replaced(SkillFile(MAIN_FILE, text))


def n_passed(backend: Simulated, files: SkillFiles, tasks: list[Task], n_draws: int) -> int:
    async def run() -> int:
        passed = 0
        for n in range(n_draws):
            task = tasks[n % len(tasks)]
            reply = await backend.complete(Call("target", "rollout", Rollout(files, task), f"run:{n}"))
            passed += reply.text == right_answer(7, task.prompt)
        return passed

    return asyncio.run(run())


def reason(backend: Simulated, question: Question, draw: str = "run:1") -> str:
    stage = {"patch": "reflect", "merge": "merge", "rank": "rank"}[question.schema]
    return asyncio.run(backend.complete(Call("optimizer", stage, question, draw))).text  # type: ignore[arg-type]


def attempts(prompts: list[str], *, hard: bool) -> list[Trajectory]:
    return [Trajectory(f"trial:{i}", p, "1.00", (), hard, float(hard), "", "rollout") for i, p in enumerate(prompts)]


def reflection(files: SkillFiles, prompts: list[str], *, hard: bool = False, budget: int = 4) -> Question:
    instructions = fill(load_prompts().analyst_failure, budget=budget)
    evidence = render_evidence(files.text, render_trajectories(attempts(prompts, hard=hard)))
    return Question(instructions, evidence, "patch")


def proposed(backend: Simulated, question: Question, draw: str = "run:1") -> list[EditReply]:
    reply = parse_reply(reason(backend, question, draw), PatchReply)
    assert isinstance(reply, PatchReply)
    return reply.edits


@pytest.mark.parametrize("kind", ["honest", "placebo"])
@pytest.mark.parametrize("n_lessons", [0, 6, 10])
def test_the_pass_rate_over_two_thousand_draws_is_the_true_score(kind: str, n_lessons: int) -> None:
    files = with_lines(SKILL, *(topic.lesson for topic in TOPICS[:n_lessons]))
    tasks = stored(make_tasks(40, seed=7))
    expected = true_score(files, tasks, World(kind, 7, 0.1))  # type: ignore[arg-type]
    rate = n_passed(open_simulated(f"{kind},seed=7"), files, tasks, 2_000) / 2_000
    assert abs(rate - expected) < 0.04


def test_the_target_never_reads_the_judge() -> None:
    class Blind(Task):
        @property
        def judge(self) -> object:  # type: ignore[override]
            raise AssertionError("the target looked at the judge")

    backend = open_simulated("honest,seed=7")
    for task in stored(make_tasks(20, seed=7)):
        other = replace(task, judge=Contains(expected="no such answer"), digest="0" * 64)
        blind = object.__new__(Blind)
        for name in ("prompt", "digest", "files"):
            object.__setattr__(blind, name, getattr(task, name))
        answers = {ask(open_simulated("honest,seed=7"), SKILL, each, "d").text for each in (task, other, blind)}
        assert answers == {ask(backend, SKILL, task, "d").text}


def test_name_and_fingerprint_say_that_it_is_a_simulation_and_latency_changes_neither() -> None:
    backend = open_simulated("honest,seed=7,latency_ms=20")
    full = "simulated:honest,seed=7,noise=0.1,helpful=0.6,harmful=0.1,trajectory_bytes=0"
    assert (backend.name, backend.fingerprint) == ("simulated:honest,seed=7", full)
    assert open_simulated("").name == "simulated:honest"
    assert open_simulated("honest,noise=0.10,seed=7").fingerprint == full


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ("cheating", "'model' of 'simulated:cheating'"),
        ("honest,sed=1", "option 'sed'"),
        ("honest,seed", "option 'seed'"),
        ("honest,seed=1,seed=2", "option 'seed'"),
        ("honest,world=placebo", "option 'world'"),
        ("honest,noise=0.6", "'noise'"),
        ("honest,noise=nan", "'noise'"),
        ("honest,seed=x", "'seed'"),
        ("honest,seed=-1", "'seed'"),
        ("honest,trajectory_bytes=99999999999", "'trajectory_bytes'"),
        ("honest,helpful=0.8,harmful=0.3", "helpful and harmful"),
    ],
)
def test_a_bad_option_is_named(spec: str, named: str) -> None:
    with pytest.raises(BackendError, match=named):
        open_simulated(spec)


def test_reflection_keeps_to_its_budget_and_to_the_shares_of_help_and_harm() -> None:
    backend = open_simulated("honest,seed=7")
    prompts = [task.prompt for task in make_tasks(20, seed=7)]
    edits = [edit for n in range(100) for edit in proposed(backend, reflection(SKILL, prompts), f"run:{n}")]
    contents = [str(edit.content).strip().removeprefix("- ") for edit in edits]
    assert len(edits) == 400
    assert abs(sum(content in {topic.lesson for topic in TOPICS} for content in contents) / 400 - 0.6) < 0.1
    assert abs(sum(content in {topic.harmful for topic in TOPICS} for content in contents) / 400 - 0.1) < 0.06
    assert abs(sum(content in PLACEBOS for content in contents) / 400 - 0.3) < 0.1
    assert {edit.op for edit in edits} == {"append", "insert_after"}
    assert all(SKILL.text.count(edit.target) == 1 for edit in edits if edit.target)
    assert not any(content in SKILL.text for content in contents)


def evidence_of(prompts: list[str], *, hard: bool = False, files: SkillFiles = SKILL, history: str = "") -> str:
    return render_evidence(files.text, render_trajectories(attempts(prompts, hard=hard)), history=history)


def answered(backend: Simulated, schema: str, evidence: str, draw: str = "run:1") -> BaseModel:
    call = Call("optimizer", "reflect", Question("at most 4 suggestions", evidence, schema), draw)
    reply = parse_reply(asyncio.run(backend.complete(call)).text, SCHEMAS[schema])
    assert isinstance(reply, BaseModel), reply
    return reply


def suggestion(line: str, n: int = 1, *, from_failure: bool = True) -> Edit:
    return Edit("append", None, line, sources=(f"trial:{n}",), from_failure=from_failure)


PROMPTS = [task.prompt for task in make_tasks(20, seed=7)]


@pytest.mark.parametrize("schema", sorted(set(SCHEMAS) - {"rubric", "points", "check"}))
def test_every_question_of_the_optimizer_has_an_answer(schema: str) -> None:
    backend = open_simulated("honest,seed=7")
    lists = {
        "merge": render_edits([suggestion("a")]), "rank": render_edits([suggestion("a")]),
        "budget": render_edits([suggestion("a")]), "merge_suggestions": render_suggestions([suggestion("a")]),
        "merge_rewrites": render_rewrites(SKILL, [suggestion(SKILL.text)]),
    }  # fmt: skip
    evidence = render_evidence(SKILL.text, lists[schema]) if schema in lists else evidence_of(PROMPTS)
    answered(backend, schema, evidence)


def test_whole_texts_become_one_with_what_each_adds_and_without_what_each_takes_away() -> None:
    gone = "- Find the document number first, and stay on that document.\n"
    texts = [SKILL.text.replace(gone, ""), f"{SKILL.text}- Read it twice.\n", f"{SKILL.text}- Ask.\n"]
    for shown in (SKILL, SkillFiles((SkillFile(MAIN_FILE, b"# Clerk\n" * 3),))):
        body = render_rewrites(shown, [suggestion(text) for text in texts])
        assert body.count("```diff\n") == (3 if shown is SKILL else 0)
        reply = answered(open_simulated("honest"), "merge_rewrites", render_evidence(SKILL.text, body))
        assert isinstance(reply, MergeRewritesReply)
        assert reply.skill.count("- Read it twice.") == reply.skill.count("- Ask.") == 1
        assert gone not in reply.skill
        assert reply.merged_from == [1, 2, 3]


def test_a_lesson_teaches_its_topic_until_its_harmful_line_spoils_it() -> None:
    for topic in TOPICS:
        assert taught_by(f"- {topic.lesson}") == {topic.name}
        assert taught_by(f"- {topic.lesson}\n- {topic.harmful}") == frozenset()
    assert taught_by("\n".join(PLACEBOS)) == frozenset()


def test_made_tasks_are_judged_by_the_right_answer_of_their_seed() -> None:
    for task in make_tasks(50, seed=3):
        answer = right_answer(3, task.prompt)
        assert isinstance(task.judge, Exact | Numeric)
        assert task.judge.expected == (answer if isinstance(task.judge, Exact) else float(answer))


def test_the_true_score_is_the_mean_pass_rate() -> None:
    skill, tasks = make_skill(3), make_tasks(40, seed=3)
    share = sum(topics_of(task.prompt) <= taught_by(skill.text) for task in tasks) / 40
    assert true_score(skill, tasks) == pytest.approx(0.9 * share + 0.1 * (1 - share))
    assert true_score(skill, tasks, World(noise=0)) == pytest.approx(share)
    assert true_score(skill, tasks, World("placebo")) == 0.5
    other = [replace(task, judge=Contains(expected="x")) for task in tasks]
    assert true_score(skill, other) == true_score(skill, tasks)
