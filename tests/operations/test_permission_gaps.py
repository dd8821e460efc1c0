"""Permission gaps: the estimate of a test says beforehand what the promotion would find, and both ask one function."""

from dataclasses import replace

import pytest
from workshop import EVEN, LESSONS, SEED, Place, as_if_real, solving, use

import skillopt_mcp
from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.estimates import run_gaps
from skillopt_mcp.actions.forecasts import foresee
from skillopt_mcp.actions.opening_tests import current_test
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.promotions.consent import permit
from skillopt_mcp.actions.promotions.promoting import promote_skill
from skillopt_mcp.actions.texts import candidate_named
from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.backends.world import make_tasks
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.commands import RegisteredCommand
from skillopt_mcp.core.tasks import NewTask
from skillopt_mcp.tasks.judges.judging import parse_judge

OWN = ("train tasks", "held-out tasks", "an optimizer", "small", "no session")


# All of them, and each that is lacking alone or with the next one.
LACKING = [set[int](), *({n} for n in range(len(OWN))), *({n, (n + 1) % len(OWN)} for n in range(len(OWN)))]


@pytest.mark.parametrize("is_own", [tuple(n not in lacking for n in range(len(OWN))) for lacking in LACKING])
def test_the_estimate_and_the_promotion_agree(place: Place, is_own: tuple[bool, ...]) -> None:
    train, held_out, learned, small, no_session = is_own
    workspace = place.open()
    skill = workspace.place.skill(str(place.skill))
    permit(workspace.store, workspace.place, "ledger-clerk", simulated=False)
    tasks = [replace(task, split="train" if n % 3 else "test") for n, task in enumerate(make_tasks(45, SEED))]
    for split, is_looked_at in (("train", train), ("test", held_out)):
        part = [task for task in tasks if task.split == split]
        # One that nobody looked at is enough.
        workspace.store.tasks.add_tasks(skill.id, part[1:], EVEN, login="a person")
        workspace.store.tasks.add_tasks(skill.id, part[:1], EVEN, login="a person" if is_looked_at else None)
    use(workspace, as_if_real())
    if not no_session:
        recording = Recording(task="week 1", answer="1", hard=False, reason="wrong", session_id="s")
        record_trajectory(workspace.store, workspace.place, str(place.skill), recording)
    text = LESSONS if small else LESSONS + "\n- Write it down." * 80
    if learned:
        candidate_id = place.learned(workspace, text, rollouts=64)
    else:
        candidate_id = str(
            propose_edits(
                workspace.store, workspace.place, skill.path, [{"op": "append", "content": text}]
            ).candidate_id
        )
    candidate = candidate_named(workspace.store, workspace.place, candidate_id)
    gaps = foresee(
        workspace.store, workspace.models, current_test(workspace.store, workspace.models, workspace.place, candidate)
    ).beyond_permission
    # Without a run nothing is known of train tasks and sessions, and that is a gap by itself.
    assert len(gaps) == (sum(not each for each in is_own) if learned else 1 + (not held_out) + (not small))
    if candidate.run_id:
        of_run = run_gaps(workspace.store, workspace.models, workspace.store.runs.get_run(candidate.run_id))
        assert of_run == [each for each in gaps if "come from" in each]
    assert evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id).accepted
    result = promote_skill(workspace.store, workspace.place, candidate_id, Consent.STANDING)
    assert (result.status, result.reason) == (("needs_approval", gaps[0]) if gaps else ("promoted", ""))


BY_HOST, AT_RUN = "a host's agents made or judged the attempts ", "that its edits come from"


@pytest.mark.parametrize(
    ("split", "name", "gap"),
    [
        ("test", "", f"{BY_HOST}of its test"),
        ("train", "", BY_HOST + AT_RUN),
        (None, "host:mine", BY_HOST + AT_RUN),
        (None, "anthropic:m", ""),
    ],
)
def test_what_a_host_made_or_judged_is_a_gap(place: Place, split: str | None, name: str, gap: str) -> None:
    workspace = place.open()
    skill = workspace.place.skill(str(place.skill))
    tasks = [replace(task, split="train" if n % 3 else "test") for n, task in enumerate(make_tasks(45, SEED))]
    if split:
        n = next(n for n, task in enumerate(tasks) if task.split == split)
        tasks[n] = replace(tasks[n], judge=parse_judge({"kind": "host", "criteria": "It is right."}))
    workspace.store.tasks.add_tasks(skill.id, tasks, EVEN, login="a person")
    use(workspace, solving(lambda call: call.request.task.judge.kind == "exact", name or "anthropic:m"))  # type: ignore[union-attr]
    candidate = candidate_named(workspace.store, workspace.place, place.learned(workspace, rollouts=64))
    use(workspace, as_if_real())
    assert foresee(
        workspace.store, workspace.models, current_test(workspace.store, workspace.models, workspace.place, candidate)
    ).beyond_permission == [gap] * bool(gap)


@pytest.mark.parametrize(
    ("mark", "gap"),
    [
        ("CI", "a script made its attempts with a backend that no person remembered for agents"),
        ("AI_AGENT", BY_HOST + AT_RUN),
    ],
)
def test_what_a_program_attempted_by_its_own_functions_is_a_gap(
    place: Place, monkeypatch: pytest.MonkeyPatch, mark: str, gap: str
) -> None:
    monkeypatch.setenv(mark, "1")
    workspace = place.open()
    skill = workspace.place.skill(str(place.skill))
    tasks = [replace(task, split="train" if n % 3 else "test") for n, task in enumerate(make_tasks(45, SEED))]
    for split, login in (("train", "a person"), ("test", None)):
        part = [task for task in tasks if task.split == split]
        workspace.store.tasks.add_tasks(skill.id, part, EVEN, login=login)
    functions = {"target": lambda skill, prompt: "no", "optimizer": lambda prompt: "{}"}
    skillopt_mcp.train(place.skill, **functions, store=place.store_path, config={"epochs": 1, "slow_update": False})
    [run] = workspace.store.runs.list_runs(skill.id)
    use(workspace, as_if_real())
    unseen = "no person has looked at 15 of its 15 held-out tasks (see tasks review)"
    assert run_gaps(workspace.store, workspace.models, run) == [unseen, gap]


def test_a_mark_covers_the_judge_program_that_a_person_saw(place: Place) -> None:
    workspace = place.open()
    skill = workspace.place.skill(str(place.skill))
    commands, tasks = workspace.store.commands, workspace.store.tasks
    commands.register(RegisteredCommand("right", ("/bin/true",), "a" * 64))
    judge = parse_judge({"kind": "all", "judges": [{"kind": "command", "name": "right"}]})
    new = [NewTask("one", judge), NewTask("two", parse_judge({"kind": "exact", "expected": "2"}))]
    tasks.add_tasks(skill.id, new, EVEN, login="a person")
    assert [task.looked_at for task in tasks.list_in_use(skill.id)] == [True, True]
    commands.register(RegisteredCommand("right", ("/bin/true",), "b" * 64))
    assert [task.looked_at for task in tasks.list_in_use(skill.id)] == [False, True]
    splits = [task.split for task in tasks.list_in_use(skill.id)]
    tasks.add_tasks(skill.id, new, EVEN, login="a person")
    assert [(task.looked_at, task.split) for task in tasks.list_in_use(skill.id)] == [(True, each) for each in splits]


def test_what_a_run_has_drawn_is_held_out_by_no_review(place: Place) -> None:
    workspace = place.open()
    skill = workspace.place.skill(str(place.skill))
    new = [replace(task, split=None) for task in make_tasks(30, SEED)]
    workspace.store.tasks.add_tasks(skill.id, new, EVEN, waits=True)
    use(workspace, as_if_real())
    run_id = candidate_named(workspace.store, workspace.place, place.learned(workspace)).run_id
    drawn = set(workspace.store.runs.get_run(str(run_id)).tasks)
    assert len(drawn) == 2
    workspace.store.tasks.add_tasks(skill.id, new, EVEN, login="a person")
    tasks = workspace.store.tasks.list_in_use(skill.id)
    assert {task.split for task in tasks if task.id in drawn} == {"train"}
    assert {task.split for task in tasks} == {"train", "val", "test"}
