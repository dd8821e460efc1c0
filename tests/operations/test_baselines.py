"""Baselines: what was lost is no score and is asked again alone, and each judge has scores of its own."""

from __future__ import annotations

import pytest
from workshop import Place, use

from skillopt_mcp.actions.baselines import measure_baseline
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Answer, Scripted
from skillopt_mcp.core.calls import Call
from skillopt_mcp.workspace.workspace import Workspace


def grade(value: str, judge: str = "judge") -> Scripted:
    return Scripted(lambda _: f'{{"reasoning": "so", "grade": "{value}"}}', name=f"anthropic:{judge}")


def outcomes(workspace: Workspace) -> dict[str, tuple[int, int]]:
    """The passes of each task in the baseline, and of how many attempts."""
    found = measure_baseline(workspace.store, workspace.models, workspace.place, "ledger-clerk", 1)
    return {each.task: (each.passed, each.of) for each in found.tasks}


@pytest.fixture
def judged(place: Place) -> Workspace:
    """A workspace with four tasks that a model judges."""
    workspace, rubric = place.open(), {"kind": "rubric", "rubric": "Is it kind?"}
    add_tasks(workspace.store, workspace.place, str(place.skill), [
        {"prompt": f"Greet guest {n}.", "id": f"t{n}", "judge": rubric, "split": split}
        for n, split in enumerate(("train", "train", "test", "test"))
    ])  # fmt: skip
    return workspace


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("lost_by", ["target", "judge"])
def test_what_a_baseline_lost_is_no_score_and_it_alone_is_asked_again(judged: Workspace, lost_by: str) -> None:
    lost = set[str]()

    def answer(call: Call) -> Answer:
        if lost_by == "target" and "guest 2" in call.request.task.prompt and not lost:  # type: ignore[union-attr]
            return BackendFault("internal", "gone")
        return f"hello, {call.request.task.prompt}"  # type: ignore[union-attr]

    def judge(call: Call) -> Answer:
        if lost_by == "judge" and "guest 2" in str(call.request) and not lost:
            return BackendFault("internal", "gone")
        return '{"reasoning": "so", "grade": "all"}'

    target, judges = Scripted(answer, name="anthropic:target"), Scripted(judge, name="anthropic:judge")
    use(judged, target)
    use(judged, judges, "judge")
    assert outcomes(judged) == {"t0": (1, 1), "t1": (1, 1), "t2": (0, 0), "t3": (1, 1)}
    n_target, n_judge = target.n_calls, judges.n_calls
    lost.add("no more")
    assert outcomes(judged) == dict.fromkeys(("t0", "t1", "t2", "t3"), (1, 1))
    assert target.n_calls - n_target == (lost_by == "target")
    asked_again = ["guest 2" in str(call.request) for call in judges.calls[n_judge:]]
    assert any(asked_again)
    assert all(asked_again)


def test_a_baseline_is_of_its_judge(judged: Workspace) -> None:
    use(judged, Scripted(lambda _: "hello", name="anthropic:target"))
    use(judged, grade("all"), "judge")
    assert set(outcomes(judged).values()) == {(1, 1)}
    use(judged, grade("none", "a stricter one"), "judge")
    assert set(outcomes(judged).values()) == {(0, 1)}
    use(judged, grade("none"), "judge")
    assert set(outcomes(judged).values()) == {(1, 1)}, "what was there serves again"
