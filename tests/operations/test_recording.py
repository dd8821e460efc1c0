from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from workshop import Place

from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.core import limits
from skillopt_mcp.core.calls import TOOL_CALL, Message
from skillopt_mcp.core.errors import BadInput, NotFound
from skillopt_mcp.core.results import Proposed
from skillopt_mcp.reports.lookup import inspect
from skillopt_mcp.store.episodes import Episodes
from skillopt_mcp.workspace.skill_folders import read_skill
from skillopt_mcp.workspace.workspace import Workspace

DONE = Recording(task="Sum the invoice", hard=False, reason="VAT was left out")


def n_stored(workspace: Workspace) -> int:
    return sum(
        workspace.store.trajectories.count_trajectories(skill.id)[0] for skill in workspace.store.skills.list_skills()
    )


def old(folder: Path) -> None:
    """Let every file of a skill look as if it had been written long ago, as far as a program can."""
    for file in folder.rglob("*"):
        os.utime(file, ns=(1, 1))


def test_an_attempt_is_stored_with_the_version_that_was_live(place: Place) -> None:
    with place.open() as workspace:
        made = record_trajectory(workspace.store, workspace.place, str(place.skill), DONE)
        assert (made.trajectory_id, made.skill, made.n_new, made.outcome) == (
            "trajectory:1", "ledger-clerk", 1, "recorded",
        )  # fmt: skip
        assert made.version == read_skill(Path(workspace.place.skill("ledger-clerk").path)).digest[:12]


def test_one_session_and_index_is_one_trajectory_and_the_first_record_stays(place: Place) -> None:
    first = Recording(task="a", session_id="s", index=0)
    with place.open() as workspace:
        assert record_trajectory(workspace.store, workspace.place, str(place.skill), first).duplicate is False
        again = record_trajectory(workspace.store, workspace.place, str(place.skill), replace(first, task="b"))
        assert (again.trajectory_id, again.duplicate, again.n_new) == ("trajectory:1", True, 1)
        assert "task: a" in inspect(workspace.store, workspace.place, "trajectory:1").text
        for other in (replace(first, index=1), replace(first, session_id="t"), replace(first, index=None)):
            assert record_trajectory(workspace.store, workspace.place, str(place.skill), other).duplicate is False
        assert n_stored(workspace) == 4


def test_the_next_step_is_a_score_and_once_there_are_three_a_proposal(place: Place) -> None:
    with place.open() as workspace:
        ids = [
            record_trajectory(workspace.store, workspace.place, str(place.skill), Recording(task=f"{n}"))
            for n in range(4)
        ]
        assert [(each.next_step.action, each.next_step.arguments["task"]) for each in ids] == [
            ("record_trajectory", each.trajectory_id) for each in ids
        ]
        scored = [
            record_trajectory(
                workspace.store, workspace.place, "ledger-clerk", Recording(each.trajectory_id, hard=False)
            )
            for each in ids
        ]
        assert [each.next_step.action for each in scored] == ["record_trajectory"] * 2 + ["propose_edits"] * 2
        assert scored[0].next_step.why == "1 of 4 new attempts have a score"


def test_an_edit_of_the_skill_between_two_recordings_makes_two_versions(place: Place) -> None:
    with place.open() as workspace:
        versions = set()
        for n in range(50):
            place.main.write_text(f"# Rule {n:04}\n")  # the same size each time, many within one tick of the clock
            versions.add(
                record_trajectory(
                    workspace.store, workspace.place, "ledger-clerk" if n else str(place.skill), DONE
                ).version
            )
        assert len(versions) == 50


def test_an_edit_that_keeps_size_and_time_is_seen_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with place.open() as workspace:
        monkeypatch.setattr("skillopt_mcp.workspace.skill_folders.TICK_NS", -(1 << 62))  # the young are kept, too
        place.main.write_text("# Rule 1\n")
        old(place.skill)
        first = record_trajectory(workspace.store, workspace.place, str(place.skill), DONE).version
        place.main.unlink()
        (place.folder / "aside").write_text("takes the number of the file")
        place.main.write_text("# Rule 2\n")
        old(place.skill)
        assert record_trajectory(workspace.store, workspace.place, str(place.skill), DONE).version != first


def test_lone_surrogates_become_replacement_characters(place: Place) -> None:
    cut = "emoji cut in half \ud83d"
    recording = Recording(
        cut, False, None, cut, cut, [cut, {"role": cut, "content": cut, "name": cut}], session_id=cut, index=0
    )
    with place.open() as workspace:
        record_trajectory(workspace.store, workspace.place, str(place.skill), recording)
        text = inspect(workspace.store, workspace.place, "trajectory:1").text
        assert "task: emoji cut in half \ufffd" in text
        assert "[emoji cut in half \ufffd]" in text
        assert record_trajectory(workspace.store, workspace.place, str(place.skill), recording).duplicate is True


@pytest.mark.parametrize(
    ("recording", "message"),
    [
        (Recording(""), "task is empty: say what was asked"),
        (Recording(" \n"), "task is empty"),
        (Recording("t", soft=1.5), "soft must be 0-1, got 1.5"),
        (Recording("t", soft=float("nan")), "soft must be 0-1, got nan"),
        (Recording("t", hard=True, soft=0.0), "hard is true and soft is 0: leave out soft"),
        (Recording("t", index=-1), "index must be 0 to 2^53 - 1, got -1"),
        (Recording("t", session_id="s", index=1 << 70), "index must be 0 to 2^53 - 1"),
        (Recording("t", session_id="s", index=10**5000), "index must be 0 to 2^53 - 1"),
        (Recording("t", session_id="s" * 201, index=0), "session_id has more than 200 characters"),
        (Recording("t", messages=[{"role": "user"}]), "message 0 must be {role, content} with texts"),
        (Recording("t", messages=["fine", 7]), "message 1 must be {role, content}"),
        (
            Recording("x" * (limits.TRAJECTORY_CHARACTERS + 1)),
            "characters, at most 4,194,304: leave out tool output",
        ),
        (Recording("t", messages=["x" * 50_000_000]), "the trajectory has 50,0"),
        (Recording("t", answer="x" * 50_000_000), "the trajectory has 50,0"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_a_bad_recording_is_refused_in_one_short_line_and_nothing_is_stored(
    place: Place, recording: Recording, message: str
) -> None:
    with place.open() as workspace:
        with pytest.raises(BadInput) as error:
            record_trajectory(workspace.store, workspace.place, str(place.skill), recording)
        assert message in str(error.value)
        assert len(str(error.value)) < 300
        assert workspace.store.skills.list_skills() == []


CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
USE = {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}}
CALLED = Message(TOOL_CALL, '{"a": 1}', "add")


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (
            [
                {"role": "user", "content": [{"type": "text", "text": "Add."}, {"type": "image", "source": {}}]},
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": "2"},
                {"role": "assistant", "content": "It is 2.", "tool_calls": None, "name": None},
            ],
            [Message("user", "Add."), Message("user", "[image]"), CALLED, Message("tool", "2", "add"),
             Message("assistant", "It is 2.")],
        ),
        (
            [
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}, {"text": "So:"}, USE]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1",
                                              "content": [{"type": "text", "text": "2"}]}]},
                {"role": "assistant", "content": ["It is ", {"type": "output_text", "text": "2."}]},
            ],
            [Message("assistant", "Hm.", "thinking"), Message("assistant", "So:"), CALLED, Message("tool", "2", "add"),
             Message("assistant", "It is "), Message("assistant", "2.")],
        ),
        ([{"role": "assistant", "content": "Now.", "tool_calls": [CALL]}], [Message("assistant", "Now."), CALLED]),
    ],
    ids=["tool_calls", "blocks", "both"],
)  # fmt: skip
def test_messages_are_taken_as_vendors_write_them(
    place: Place, given: list[dict[str, object]], stored: list[Message]
) -> None:
    with place.open() as workspace:
        record_trajectory(workspace.store, workspace.place, str(place.skill), replace(DONE, messages=given))
        found = workspace.store.trajectories.get_trajectory(1)
        assert found
        assert list(found[1].messages) == stored


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None}, {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "content": None, "tool_calls": [7]}, {"role": "a", "content": [7]},
        {"role": "a", "content": {"text": "b"}}, {"role": "a", "content": "b", "tool_calls": "c"},
    ],
)  # fmt: skip
def test_a_message_that_says_nothing_is_refused(place: Place, message: dict[str, object]) -> None:
    with place.open() as workspace:
        with pytest.raises(BadInput, match="message 0 must be"):
            record_trajectory(workspace.store, workspace.place, str(place.skill), replace(DONE, messages=[message]))
        assert workspace.store.skills.list_skills() == []


def test_a_wrong_score_is_corrected_with_a_reason_and_on_record(place: Place) -> None:
    workspace, skill = place.open(), str(place.skill)
    first = record_trajectory(
        workspace.store, workspace.place, skill, Recording(task="Close page 1", answer="3", hard=True)
    ).trajectory_id
    mended = Recording(task=first, hard=False, soft=0.25, reason="VAT was left out")
    corrections = [replace(mended, reason=None), mended, mended]
    outcomes = [record_trajectory(workspace.store, workspace.place, skill, each).outcome for each in corrections]
    assert outcomes == ["unexplained", "corrected", "same"]
    found = workspace.store.trajectories.get_trajectory(1)
    assert found
    assert (found[1].hard, found[1].soft) == (False, 0.25)
    assert found[1].reason == "(corrected; before: hard 1, soft 1.0) VAT was left out"
    assert verify_store(place.store_path).problems == []


def test_a_score_that_a_run_has_learned_from_stays(host: Workspace, proposal: Proposed) -> None:
    assert proposal.status == "work"
    refused = record_trajectory(
        host.store, host.place, "ledger-clerk", Recording(task="trajectory:1", hard=True, reason="it was right")
    )
    assert refused.outcome == "learned_from"
    found = host.store.trajectories.get_trajectory(1)
    assert found
    assert (found[1].hard, found[1].reason) == (False, "wrong")


def test_an_attempt_without_a_score_gets_one_once(place: Place, workspace: Workspace) -> None:
    skill = str(place.skill)
    captured = record_trajectory(
        workspace.store, workspace.place, skill, Recording(task="Close page 1", answer="3", reason="no, 4")
    )
    assert captured.trajectory_id in inspect(workspace.store, workspace.place, "ledger-clerk").text
    with pytest.raises(BadInput, match="say how trajectory:1 ended"):
        record_trajectory(workspace.store, workspace.place, skill, Recording(task=captured.trajectory_id))
    scored = record_trajectory(
        workspace.store,
        workspace.place,
        skill,
        Recording(task=captured.trajectory_id, hard=False, reason="rounded early"),
    )
    assert (scored.trajectory_id, scored.duplicate) == (captured.trajectory_id, False)
    again = record_trajectory(
        workspace.store, workspace.place, skill, Recording(task=captured.trajectory_id, hard=True)
    )
    assert again.duplicate
    found = workspace.store.trajectories.get_trajectory(1)
    assert found
    assert (found[1].hard, found[1].reason) == (False, "no, 4\nrounded early")
    assert workspace.store.trajectories.recent_trajectories(found[0], 5) == [1]
    assert captured.trajectory_id not in inspect(workspace.store, workspace.place, "ledger-clerk").text
    with pytest.raises(NotFound, match="has no trajectory:99"):
        record_trajectory(workspace.store, workspace.place, skill, Recording(task="trajectory:99", hard=True))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"accepted": True}, (True, 1.0, "")),
        ({"accepted": False}, (False, 0.0, "")),
        ({"accepted": False, "hard": True}, (True, 1.0, "")),
        ({"correction": "not in English"}, (False, 0.0, "not in English")),
        ({"correction": "not in English", "accepted": True, "reason": "why"}, (False, 0.0, "not in English\nwhy")),
        ({"correction": "  "}, (None, None, "")),
        ({"accepted": True, "soft": 0.5}, (True, 0.5, "")),
    ],
)
def test_what_a_person_took_or_corrected_scores_an_attempt(
    place: Place, workspace: Workspace, given: dict[str, Any], expected: tuple[bool | None, float | None, str]
) -> None:
    record_trajectory(workspace.store, workspace.place, str(place.skill), Recording("Say it", answer="A", **given))
    _, kept = workspace.store.trajectories.get_trajectory(1) or (0, None)
    assert kept
    assert (kept.hard, kept.soft, kept.reason) == expected
    [*found] = workspace.store.table(Episodes).list_episodes(1)
    assert [(each.prompt, each.rejected, each.label) for each in found] == (
        [("Say it", "A", "rejected")] if str(given.get("correction", "")).strip() else []
    )
