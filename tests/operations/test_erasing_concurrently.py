"""Erasing concurrently: what is begun, answered or handed out in between brings nothing back, nor does a kill."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hostwork import Clock, begun_proposal, server
from test_erasing import CANARY, LEARNED, erased, found_in, given_to, is_sound, recorded
from workshop import Place, use

from benchmarks.host_agent import items_of
from skillopt_mcp.actions import proposals as reflecting
from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.admin import erase as erasing
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.work_folders import WorkFolders
from skillopt_mcp.core.calls import Call, Question
from skillopt_mcp.core.errors import Busy
from skillopt_mcp.store.erasing import Erasing
from skillopt_mcp.store.files import Lock, lock_run
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.host_work import hand_out
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.workspace import Workspace


def _once_before(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, first: Callable[[], object]) -> None:
    """Let something happen right before the first call of a function."""
    real, waiting = getattr(owner, name), [first]

    def late(*args: object, **named: object) -> object:
        while waiting:
            waiting.pop()()
        return real(*args, **named)

    monkeypatch.setattr(owner, name, late)


def test_a_run_that_begins_after_the_look_keeps_what_it_may_see(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(workspace, place)
    held: list[Lock] = []

    def begin() -> None:
        lock = lock_run(
            workspace.store.locks_path,
            start_run(workspace.store, workspace.models, workspace.place, str(place.skill), Config(sessions=6)).id,
        )
        assert lock
        held.append(lock)

    _once_before(monkeypatch, Erasing, "erase", begin)
    with pytest.raises(Busy, match=r"is under way.*nothing was changed"):
        erased(place.open(), "trajectory:3")
    assert found_in(place)
    held[0].release()
    assert erased(place.open(), "trajectory:3").n == 1
    assert found_in(place) == []


def test_an_answer_that_comes_before_its_run_is_held_goes_too(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(workspace, place)
    other, n_asked = place.open(), list[Call]()

    def answer(call: Call) -> str:
        n_asked.append(call)
        if len(n_asked) > 1:
            raise KeyboardInterrupt
        saw = isinstance(call.request, Question) and CANARY in call.request.evidence
        return json.dumps({"reasoning": CANARY if saw else "fine", "edits": []})

    use(other, Scripted(answer), "optimizer")
    run = start_run(other.store, other.models, other.place, str(place.skill), Config(sessions=6, batch=4))

    def go_on() -> None:
        with pytest.raises(KeyboardInterrupt):
            replay(other.store, other.models, other.place, run)

    _once_before(monkeypatch, erasing, "lock_run", go_on)
    assert erased(workspace, "trajectory:3").answers
    assert n_asked
    assert found_in(place) == []


def test_a_question_that_is_handed_out_during_an_erasure_is_taken_back_and_asked_without_it(
    place: Place, host: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(host, place)
    reported = propose_from_evidence(host.store, host.models, host.place, str(place.skill), wait=Wait(host.jobs))
    given: list[str] = []

    def late(*args: object) -> object:
        if not given:
            erased(place.open(), "trajectory:3")
        work, step = hand_out(*args)  # type: ignore[arg-type]
        given.extend(item.work_id for item in items_of(work))
        return work, step

    monkeypatch.setattr(reflecting, "hand_out", late)
    [item] = items_of(submit_work(host.store, host.models, host.place, [], reported.job_id, Wait(host.jobs)).work)
    assert "book word 1" in given_to(item.folder)
    assert (given[1:], item.work_id) == ([item.work_id], given[-1])
    assert found_in(place) == []
    assert (
        submit_work(
            host.store, host.models, host.place, [{"work_id": given[0], "reply": LEARNED}], wait=Wait(host.jobs)
        )
        .receipts[0]
        .status
        == "withdrawn"
    )
    assert found_in(place) == []
    assert is_sound(place)


@pytest.mark.parametrize("at", [(WorkFolders, "remove"), (Erasing, "find_erased")])
def test_an_erasure_that_is_killed_on_the_way_is_completed_by_the_same_command(
    place: Place, host: Workspace, clock: Clock, monkeypatch: pytest.MonkeyPatch, at: tuple[type, str]
) -> None:
    recorded(host, place)
    begun_proposal(host, str(place.skill))
    person = server(place, clock, place.folder / "work")

    def kill() -> None:
        raise KeyboardInterrupt

    _once_before(monkeypatch, *at, kill)
    with pytest.raises(KeyboardInterrupt):
        erased(person, "trajectory:3")
    erased(person, "trajectory:3")
    assert found_in(place) == []
    assert is_sound(place)
