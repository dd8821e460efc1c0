from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest
import zstandard
from workshop import Place

from skillopt_mcp.actions.hook_events import HookEvent, parse_event
from skillopt_mcp.actions.sessions import Harvested, capture, harvest, session_files, session_id
from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.evidence import Trajectory
from skillopt_mcp.workspace.workspace import Workspace
from tests.session_lines import (
    claude_call,
    claude_said,
    claude_skill,
    claude_user,
    codex_meta,
    codex_said,
    codex_shell,
    codex_user,
    joined,
)

SESSION = "01a20073-5da9-75f2-8792-ac3e8f2f6415"


@pytest.fixture
def tracked(workspace: Workspace, place: Place) -> Workspace:
    workspace.place.skill(str(place.skill))
    return workspace


def used(place: Place, prompt: str = "Close March") -> list[bytes]:
    return joined(claude_user(prompt), claude_skill(str(place.skill)), claude_said("The sum is 42."))


def written(place: Place, lines: Iterable[bytes], name: str = f"{SESSION}.jsonl") -> Path:
    path = place.folder / "sessions" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    return path


def trajectory(workspace: Workspace, n: int) -> Trajectory:
    found = workspace.store.trajectories.get_trajectory(n)
    assert found
    return found[1]


def counted(found: Harvested) -> tuple[int, int, int]:
    return found.recorded, found.known, found.open


def test_an_attempt_is_recorded_once_with_no_score_and_with_what_the_person_said_next(
    tracked: Workspace, place: Place
) -> None:
    path = written(place, [*used(place), claude_user("No: round at the end")])
    assert counted(harvest(tracked.store, tracked.place, [path])) == (1, 0, 0)
    assert counted(harvest(tracked.store, tracked.place, [path])) == (0, 1, 0)
    kept = trajectory(tracked, 1)
    assert (kept.prompt, kept.answer, kept.hard, kept.soft) == ("Close March", "The sum is 42.", None, None)
    assert kept.messages[0] == ("skill", "opened", "ledger-clerk")
    assert kept.messages[-1] == ("user", "No: round at the end", None)


def test_what_a_person_says_when_a_session_is_taken_up_again_comes_to_the_attempt_before_it(
    tracked: Workspace, place: Place
) -> None:
    turn, correction = used(place), claude_user("No, wrong: it is 4. The key is sk-ant-api03-" + "aB3dE5" * 16)
    assert counted(hooked(place, written(place, turn), "SessionEnd")) == (1, 0, 0)
    before = trajectory(tracked, 1)
    assert before.messages[-1].role == "assistant"
    path = written(place, [*turn, correction, claude_said("It is 4.")])
    assert counted(harvest(tracked.store, tracked.place, [path], dry_run=True)) == (0, 1, 0)
    assert trajectory(tracked, 1) == before
    assert counted(hooked(place, path, "Stop")) == (0, 1, 0)
    [*same, said] = trajectory(tracked, 1).messages
    assert tuple(same) == before.messages
    assert said.role == "user"
    assert said.content.startswith("No, wrong: it is 4. The key is [redacted:")
    for _ in range(2):
        assert counted(hooked(place, path, "SessionEnd")) == (0, 1, 0)
    assert trajectory(tracked, 1).messages == (*same, said)
    assert verify_store(place.store_path).problems == []


def test_sessions_of_codex_are_read_plain_and_packed(tracked: Workspace, place: Place) -> None:
    lines = joined(codex_meta(), codex_user("Close"), codex_shell(f"cat {place.main}", "x"), codex_said("42"))
    plain = written(place, lines, f"rollout-2026-11-21T23-31-30-{SESSION}.jsonl")
    packed = plain.with_name(f"{plain.name}.zst")
    packed.write_bytes(zstandard.compress(b"".join(lines[:3])) + zstandard.compress(b"".join(lines[3:])))
    assert session_files([plain.parent]) == [plain, packed]
    assert session_id(plain) == session_id(packed) == SESSION
    assert counted(harvest(tracked.store, tracked.place, [packed])) == (1, 0, 0)
    assert counted(harvest(tracked.store, tracked.place, [plain])) == (0, 1, 0)


@pytest.mark.parametrize(
    "content",
    [b"# My notes\n\nSee the skill.\n", b"\x89PNG\r\n\x1a\n\0\0", b'{"prompt": "P", "judge": {"kind": "exact"}}\n',
     b'["type"]\n{"type": 1, "payload": "x"}\n', b"\n"],
    ids=["prose", "picture", "tasks", "json", "blank"],
)  # fmt: skip
def test_a_file_that_is_no_transcript_is_named_and_is_no_session(
    tracked: Workspace, place: Place, content: bytes
) -> None:
    notes = written(place, [content], "notes.jsonl")
    found = harvest(tracked.store, tracked.place, [notes, written(place, used(place))])
    assert (found.n_files, found.recorded) == (1, 1)
    [problem] = found.problems
    assert problem.path == str(notes)
    assert problem.reason.startswith("not a transcript of Claude Code or Codex")


def test_another_skill_of_the_same_name_is_not_the_tracked_one(tracked: Workspace, place: Place) -> None:
    other = joined(claude_user("Close"), claude_skill("/elsewhere/ledger-clerk"), claude_said("42"))
    assert counted(harvest(tracked.store, tracked.place, [written(place, other)])) == (0, 0, 0)


def hooked(place: Place, path: Path, event: str) -> Harvested:
    given = {
        "session_id": SESSION,
        "transcript_path": str(path),
        "cwd": str(place.folder),
        "hook_event_name": event,
    }
    found = capture(place.store_path, parse_event(json.dumps(given).encode()))
    assert found
    return found


def test_a_turn_that_may_go_on_is_recorded_at_the_next_one_or_at_the_end(tracked: Workspace, place: Place) -> None:
    first, second = used(place, "Close March"), used(place, "Close April")
    stopped = hooked(place, written(place, first), "Stop")
    assert counted(stopped) == (0, 0, 1)
    again = hooked(place, written(place, [*first, *second]), "Stop")
    assert counted(again) == (1, 0, 1)
    ended = hooked(place, written(place, [*first, *second]), "SessionEnd")
    assert counted(ended) == (1, 1, 0)
    assert [trajectory(tracked, n).prompt for n in (1, 2)] == ["Close March", "Close April"]


def test_without_a_store_a_hook_makes_none(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(claude_user("Hello"))
    assert capture(tmp_path / "store" / "s.db", HookEvent(transcript_path=str(path))) is None
    assert os.listdir(tmp_path) == ["s.jsonl"]


@pytest.mark.parametrize("text", [b"", b"null", b"[]", b"\xff", b'{"transcript_path": 1}', b'{"cwd": 0}'])
def test_what_is_no_event_of_a_hook_is_refused(text: bytes) -> None:
    with pytest.raises(BadInput, match="no event of a hook"):
        parse_event(text)


RECORD = "mcp__skillopt__record_trajectory"


def recorded_itself(workspace: Workspace, place: Place, task: str = "Close March", **more: object) -> list[bytes]:
    """Return how a transcript shows that the agent recorded an attempt by our tool, which is done here."""
    given = {"skill": "ledger-clerk", "task": task, "hard": False, **more}
    recording = Recording(task=task, hard=False, session_id=str(more.get("session_id") or SESSION))
    recorded = record_trajectory(workspace.store, workspace.place, str(place.skill), recording)
    return claude_call(RECORD, given, recorded.model_dump_json())


def n_stored(workspace: Workspace) -> tuple[int, int]:
    return workspace.store.trajectories.count_trajectories(1)


def test_an_attempt_that_the_agent_recorded_itself_gets_its_transcript_and_stays_one(
    tracked: Workspace, place: Place
) -> None:
    path = written(place, [*used(place), *recorded_itself(tracked, place), claude_user("No: round at the end")])
    assert counted(hooked(place, path, "Stop")) == (0, 1, 0)
    assert counted(harvest(tracked.store, tracked.place, [path])) == (0, 1, 0)
    kept = trajectory(tracked, 1)
    assert n_stored(tracked) == (1, 1)
    assert (kept.prompt, kept.answer, kept.hard) == ("Close March", "The sum is 42.", False)
    assert kept.messages[0] == ("skill", "opened", "ledger-clerk")
    assert kept.messages[-1] == ("user", "No: round at the end", None)
    assert not any(message.name == RECORD for message in kept.messages)
    assert verify_store(place.store_path).problems == []


def test_secrets_are_taken_out_of_what_is_attached(tracked: Workspace, place: Place) -> None:
    secret = "sk-ant-api03-" + "a1B2c3D4e5F6g7H8" * 5
    lines = [*used(place), *claude_call("Bash", {"command": "env"}, f"ANTHROPIC_API_KEY={secret}")]
    harvest(tracked.store, tracked.place, [written(place, [*lines, *recorded_itself(tracked, place)])])
    assert trajectory(tracked, 1).messages
    assert secret.encode() not in place.store_path.read_bytes()
