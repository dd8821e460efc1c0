from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest
import zstandard
from workshop import Place

from skillopt_mcp.actions.hook_events import HookEvent, parse_event
from skillopt_mcp.actions.sessions import SessionsRead, capture, read_sessions, session_files, session_id
from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.evidence import Trajectory
from skillopt_mcp.core.mining import Episode
from skillopt_mcp.store.episodes import Episodes
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
    line,
)

N_DAMAGED = int(os.environ.get("SKILLOPT_DAMAGED", "20"))  # files of 100 lines
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


def counted(found: SessionsRead) -> tuple[int, int]:
    return found.recorded, found.n_unchanged


def read(workspace: Workspace, *paths: Path) -> SessionsRead:
    return read_sessions(workspace.store, workspace.place, session_files(paths))


def episodes(workspace: Workspace) -> list[Episode]:
    return list(workspace.store.table(Episodes).list_episodes(1))


def test_a_correction_is_an_attempt_that_failed_with_the_persons_words(tracked: Workspace, place: Place) -> None:
    path = written(place, [*used(place), claude_user("No: round at the end"), claude_said("41.9")])
    assert counted(read(tracked, path)) == (1, 0)
    assert counted(read(tracked, path)) == (0, 1)
    kept = trajectory(tracked, 1)
    assert (kept.prompt, kept.answer, kept.hard, kept.reason) == (
        "Close March", "The sum is 42.", False, "No: round at the end",
    )  # fmt: skip
    assert kept.messages[0] == ("skill", "opened", "ledger-clerk")
    assert kept.messages[-1] == ("user", "No: round at the end", None)
    [episode] = episodes(tracked)
    assert (episode.label, episode.why, episode.skill) == ("rejected", "said", str(place.skill))
    assert (episode.rejected, episode.correction, episode.answer) == ("The sum is 42.", "No: round at the end", "41.9")


def test_an_answer_that_was_accepted_after_a_correction_is_one_task_and_two_attempts(
    tracked: Workspace, place: Place
) -> None:
    lines = [*used(place), claude_user("No: round at the end"), claude_said("41.9"), claude_user("perfect, thanks")]
    assert counted(read(tracked, written(place, lines))) == (2, 0)
    [episode] = episodes(tracked)
    assert (episode.label, episode.answer, episode.rejected) == ("accepted", "41.9", "The sum is 42.")
    first, second = trajectory(tracked, 1), trajectory(tracked, 2)
    assert (first.hard, first.answer, second.hard, second.answer) == (False, "The sum is 42.", True, "41.9")
    assert first.prompt == second.prompt == "Close March"
    assert second.messages[1] == ("user", "No: round at the end", None)


def test_what_teaches_nothing_is_not_kept_and_what_no_rule_understands_is_to_be_asked(
    tracked: Workspace, place: Place
) -> None:
    alone = written(place, used(place), "a.jsonl")
    unclear = written(place, [*used(place), claude_user("hm and the other ones")], "b.jsonl")
    assert counted(read(tracked, alone, unclear)) == (1, 0)
    [episode] = episodes(tracked)
    assert (episode.label, episode.rejected, episode.correction) == (
        "unknown", "The sum is 42.", "hm and the other ones",
    )  # fmt: skip
    assert trajectory(tracked, 1).hard is None


def test_commands_of_the_host_itself_are_no_words_of_the_person(tracked: Workspace, place: Place) -> None:
    command = claude_user("<command-name>/model</command-name>\n<command-args>opus</command-args>")
    read(tracked, written(place, joined(used(place), command, claude_user("no, round it to cents"))))
    [episode] = episodes(tracked)
    assert (episode.label, episode.rejected) == ("rejected", "The sum is 42.")


def test_a_retry_and_a_next_step_belong_to_the_task_and_a_new_task_does_not(tracked: Workspace, place: Place) -> None:
    lines = joined(
        used(place), claude_user("ok, redo it"), claude_said("41"), claude_user("now add a note"), claude_said("Done."),
        claude_user("thanks"), claude_said("Welcome."),
        claude_user("Write a letter to the bank about the missing statement"), claude_said("Dear bank"),
        claude_user("no, shorter than that"), claude_said("Dear"),
        claude_user("thanks. now close the books of all the suppliers"), claude_skill(str(place.skill)),
        claude_said("7"), claude_user("perfect"),
    )  # fmt: skip
    read(tracked, written(place, lines))
    episode, other = sorted(episodes(tracked), key=lambda each: each.index)
    assert (other.prompt, other.answer) == ("thanks. now close the books of all the suppliers", "7")
    assert (episode.prompt, episode.label, episode.answer) == ("Close March", "accepted", "Done.")


def test_what_a_schedule_a_program_or_a_side_chain_asked_is_no_persons(tracked: Workspace, place: Place) -> None:
    skill = claude_skill(str(place.skill))
    scheduled = {"isMeta": True, "scheduledTaskId": "515ccfe3", "turnOrigin": "scheduled", "promptSource": "system"}
    cases = {
        "cron": joined(claude_user("Close March", **scheduled), skill, claude_said("42"), claude_user("No, wrong way")),
        "sdk": [
            line({**json.loads(each), "entrypoint": "sdk-cli"})
            for each in joined(used(place), claude_user("No, wrong way"))
        ],
        "side": [
            line({"isSidechain": True, **json.loads(each)}) for each in joined(used(place), claude_user("No, wrong"))
        ],
        "exec": joined(
            line({"type": "session_meta", "payload": {"id": "x", "source": "exec", "originator": "codex_exec"}}),
            codex_user("Close"), codex_shell(f"cat {place.main}", "x"), codex_said("42"), codex_user("No, wrong way"),
        ),
        "agent": joined(
            line({"type": "session_meta", "payload": {"id": "x", "source": {"subagent": {"other": "review"}}}}),
            codex_user("Close"), codex_shell(f"cat {place.main}", "x"), codex_said("42"), codex_user("No, wrong way"),
        ),
    }  # fmt: skip
    for name, lines in cases.items():
        assert counted(read(tracked, written(place, lines, f"{name}.jsonl"))) == (0, 0), name
    assert episodes(tracked) == []
    # What it did is not the answer to what a person asked before.
    lines = joined(used(place), claude_user("Check the build", **scheduled), claude_said("Red."), claude_user("thanks"))
    read(tracked, written(place, lines))
    assert episodes(tracked) == []


def test_what_a_sub_agent_opened_belongs_to_the_task_in_which_it_began(tracked: Workspace, place: Place) -> None:
    def at(minute: int, lines: Iterable[bytes]) -> list[bytes]:
        return [line({**json.loads(each), "timestamp": f"2026-11-28T10:{minute:02}:00.000Z"}) for each in lines]

    main = joined(
        at(1, [claude_user("Say hello"), claude_said("Hello.")]),
        at(3, [claude_user("Close the books of the month of March"), claude_said("42")]),
        at(9, [claude_user("no, it has to be rounded"), claude_said("41")]),
        at(11, [claude_user("Write a letter to the bank about the missing statement"), claude_said("Dear bank")]),
    )
    path = written(place, main)
    (path.with_suffix("") / "subagents").mkdir(parents=True)
    agent = path.with_suffix("") / "subagents" / "agent-a1.jsonl"
    agent.write_bytes(b"".join(line({"isSidechain": True, **json.loads(each)}) for each in at(4, used(place, "Do"))))
    read(tracked, path.parent)
    [episode] = episodes(tracked)
    assert (episode.prompt, episode.label) == ("Close the books of the month of March", "rejected")


def test_work_of_our_own_and_a_load_that_failed_are_left_out(tracked: Workspace, place: Place) -> None:
    own = joined(used(place, "Train it"), claude_call("mcp__skillopt__submit_work", {"replies": []}, "taken"),
                 claude_said("Done."), claude_user("no, wrong one"))  # fmt: skip
    item = joined(used(place, "Do it"), claude_call("Read", {"file_path": "/tmp/w/WORK.md"}, "held out"),
                  claude_said("Done."), claude_user("no, wrong one"))  # fmt: skip
    call = claude_call("Skill", {"skill": "ledger-clerk"}, "Shell command permission check failed")
    answer = json.loads(call[1])
    answer["message"]["content"][0]["is_error"] = True
    failed = [
        claude_user("Sum these up for me"),
        call[0],
        line(answer),
        claude_said("I can't."),
        claude_user("no, try"),
    ]
    for name, lines in {"own": own, "item": item, "failed": failed}.items():
        assert counted(read(tracked, written(place, lines, f"{name}.jsonl"))) == (0, 0), name
    assert episodes(tracked) == []


def test_a_task_that_the_skill_should_have_opened_for_is_flagged_without_what_was_done(
    tracked: Workspace, place: Place
) -> None:
    lines = joined(
        claude_user("Ask the ledger clerk to close the books"), claude_call("Bash", {"command": "secret plan"}, "x"),
        claude_said("42"), claude_user("you forgot the ledger clerk"),
    )  # fmt: skip
    read(tracked, written(place, lines))
    [episode] = episodes(tracked)
    assert (episode.skill, episode.prompt, episode.label) == ("", "Ask the ledger clerk to close the books", "rejected")
    kept = trajectory(tracked, 1)
    assert kept.hard is None
    assert kept.messages[0] == ("skill", "not opened", "ledger-clerk")
    assert "secret plan" not in str(kept.messages)


def test_a_skill_with_a_short_name_is_not_named_by_every_task(tracked: Workspace, place: Place) -> None:
    other = place.skill.with_name("tdd")
    other.mkdir()
    (other / "SKILL.md").write_text("---\nname: tdd\ndescription: Tests first.\n---\n\n# Tests\n")
    tracked.place.skill(str(other))
    read(tracked, written(place, joined(claude_user("Say hello"), claude_said("Hello."), claude_user("no, in French"))))
    assert [list(tracked.store.table(Episodes).list_episodes(each)) for each in (1, 2)] == [[], []]


@pytest.mark.parametrize(
    ("command", "output", "label", "why"),
    [
        ("pytest -q", "3 passed in 0.1s", "accepted", "tests"),
        ("pytest -q", "1 failed, 2 passed in 0.1s", "rejected", "tests"),
        ("git checkout -- ledger.py", "", "rejected", "reverted"),
    ],
)
def test_tests_and_reverts_after_the_answer_say_how_it_ended(
    tracked: Workspace, place: Place, command: str, output: str, label: str, why: str
) -> None:
    call = claude_call("Bash", {"command": command}, output)
    lines = joined(used(place), claude_user("and what does the suite of tests make of that?"), call, claude_said("So."))
    read(tracked, written(place, lines))
    [episode] = episodes(tracked)
    assert (episode.label, episode.why) == (label, why)


def test_a_change_that_is_in_the_last_commit_a_week_later_was_accepted(tracked: Workspace, place: Place) -> None:
    repository = place.folder / "repository"
    repository.mkdir()
    (repository / "sum.py").write_text("total = round(sum(rows), 2)\n")
    for arguments in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *arguments], cwd=repository, check=True)
    for name, new, expected in (("a", "total = round(sum(rows), 2)", "accepted"), ("b", "total = 7", None)):
        edit = {"file_path": str(repository / "sum.py"), "old_string": "x", "new_string": new}
        lines = joined(used(place, name * 9), claude_call("Edit", edit, "ok"), claude_said("Done."))
        there = {"cwd": str(repository), "timestamp": "2026-01-01T10:00:00.000Z"}
        read(tracked, written(place, [line({**json.loads(each), **there}) for each in lines], f"{name}.jsonl"))
        assert [each.label for each in episodes(tracked) if each.prompt == name * 9] == [expected] * bool(expected)


def test_a_second_reading_reads_what_is_new_from_the_last_task_on(tracked: Workspace, place: Place) -> None:
    old = joined(*(joined(used(place, f"Close the books of month {n}"), claude_user("thanks")) for n in range(50)))
    path = written(place, old)
    first = read(tracked, path)
    assert (first.recorded, first.n_bytes) == (50, path.stat().st_size)
    assert (read(tracked, path).n_bytes, read(tracked, path).n_unchanged) == (0, 1)
    with path.open("ab") as file:
        file.write(b"".join(joined(claude_said("Welcome."), claude_user("hm no, it is off by one cent"))))
    more = read(tracked, path)
    assert more.n_bytes < first.n_bytes / 20
    assert trajectory(tracked, 50).hard is False
    assert len(episodes(tracked)) == 50
    # Another file in its place, and one that became shorter, are read from their beginning.
    path.unlink()
    path.write_bytes(b"".join([*joined(used(place, "Another one for the books of May"), claude_user("thanks")), *old]))
    assert read(tracked, path).n_bytes == path.stat().st_size
    path.write_bytes(b"".join([*joined(used(place, "And one for the books of June"), claude_user("thanks")), *old * 2]))
    assert read(tracked, path).n_bytes == path.stat().st_size
    path.write_bytes(b"".join(old[:7]))
    assert read(tracked, path).n_bytes == path.stat().st_size


def test_a_skill_that_is_tracked_later_is_looked_for_in_what_was_read_before(tracked: Workspace, place: Place) -> None:
    other = place.skill.with_name("letter-desk")
    other.mkdir()
    (other / "SKILL.md").write_text("---\nname: letter-desk\ndescription: Letters.\n---\n\n# Letters\n")
    lines = joined(claude_user("Write"), claude_skill(str(other)), claude_said("Dear"), claude_user("no, shorter"))
    path = written(place, lines)
    assert counted(read(tracked, path)) == (0, 0)
    tracked.place.skill(str(other))
    assert counted(read(tracked, path)) == (1, 0)


def test_what_a_person_says_when_a_session_is_taken_up_again_is_read(tracked: Workspace, place: Place) -> None:
    turn, correction = used(place), claude_user("No, wrong: it is 4. The key is sk-ant-api03-" + "aB3dE5" * 16)
    assert counted(hooked(place, written(place, turn), "SessionEnd")) == (0, 0)
    path = written(place, [*turn, correction, claude_said("It is 4.")])
    assert counted(hooked(place, path, "Stop")) == (1, 0)
    assert trajectory(tracked, 1).reason.startswith("No, wrong: it is 4. The key is [redacted:")
    assert counted(hooked(place, path, "SessionEnd")) == (0, 1)
    with path.open("ab") as file:
        file.write(claude_user("perfect, thanks"))
    assert counted(hooked(place, path, "Stop")) == (1, 0)
    assert [each.label for each in episodes(tracked)] == ["accepted"]
    assert verify_store(place.store_path).problems == []
    for file_path in place.store_path.parent.glob("*.db*"):
        assert file_path.is_dir() or b"sk-ant-api03-aB3dE5aB3dE5" not in file_path.read_bytes()


def test_sessions_of_codex_are_read_plain_and_packed(tracked: Workspace, place: Place) -> None:
    lines = joined(codex_meta(), codex_user("Close March"), codex_shell(f"cat {place.main}", "x"), codex_said("42"),
                   codex_user("no, round it to cents"))  # fmt: skip
    plain = written(place, lines, f"rollout-2026-11-21T23-31-30-{SESSION}.jsonl")
    packed = plain.with_name(f"{plain.name}.zst")
    packed.write_bytes(zstandard.compress(b"".join(lines[:3])) + zstandard.compress(b"".join(lines[3:])))
    assert session_files([plain.parent]) == [plain, packed]
    assert session_id(plain) == session_id(packed) == SESSION
    assert counted(read(tracked, packed)) == (1, 0)
    assert counted(read(tracked, packed, plain)) == (0, 1)
    assert [each.label for each in episodes(tracked)] == ["rejected"]


def test_a_packed_file_that_is_cut_is_a_problem_and_what_came_before_is_kept(tracked: Workspace, place: Place) -> None:
    noise = [claude_said(os.urandom(2_000).hex()) for _ in range(200)]
    whole = zstandard.compress(b"".join([*used(place), claude_user("no, round it to cents"), *noise]))
    path = written(place, [whole[: len(whole) // 2]], "a.jsonl.zst")
    found = read(tracked, path)
    assert found.recorded == 1
    assert "is cut: what came before" in found.problems[0].reason
    path.write_bytes(whole[:500])
    assert "no line of it can be read" in read(tracked, path).problems[0].reason
    path.write_bytes(b"no frame" * 100)
    assert "damaged" in read(tracked, path).problems[0].reason


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
    found = read(tracked, notes, written(place, [*used(place), claude_user("thanks")]))
    assert (found.n_files, found.recorded) == (1, 1)
    [problem] = found.problems
    assert problem.path == str(notes)
    assert problem.reason.startswith("not a transcript of Claude Code or Codex")


def test_another_skill_of_the_same_name_is_not_the_tracked_one(tracked: Workspace, place: Place) -> None:
    other = joined(claude_user("Close"), claude_skill("/elsewhere/ledger-clerk"), claude_said("42"), claude_user("thx"))
    assert counted(read(tracked, written(place, other))) == (0, 0)


def hooked(place: Place, path: Path, event: str) -> SessionsRead:
    given = {
        "session_id": SESSION,
        "transcript_path": str(path),
        "cwd": str(place.folder),
        "hook_event_name": event,
    }
    found = capture(place.store_path, parse_event(json.dumps(given).encode()))
    assert found
    return found


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
    assert counted(hooked(place, path, "Stop")) == (0, 0)
    assert counted(read(tracked, path)) == (0, 1)
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
    lines += [*recorded_itself(tracked, place), claude_user("thanks")]
    read(tracked, written(place, lines))
    assert trajectory(tracked, 1).messages
    assert secret.encode() not in place.store_path.read_bytes()


def test_damaged_transcripts_are_read_as_far_as_they_go(tracked: Workspace, place: Place) -> None:
    whole = joined(
        used(place), claude_user("no, round it to cents"), claude_said("41.9"), claude_user("thanks"), codex_meta(),
        codex_user("Close"), codex_shell(f"cat {place.main}", "x"), codex_said("42"), codex_user("no, to cents"),
    )  # fmt: skip
    chance = Random(1)

    def damage(line: bytes) -> bytes:
        at, kind = chance.randrange(len(line)), chance.randrange(6)
        wrong = [b"\x00", b'{"a":', b"null", b"\xff\xfe", b'"\\ud800"', b"9" * 400, b"[" * 2_000][chance.randrange(7)]
        if kind == 0:
            return line[:at] + b"\n"
        if kind == 1:
            return line[:at] + wrong + line[at:]
        if kind == 2:
            return line.replace(chance.choice([b"true", b"{", b"[", b'"user"', b'"content"']), wrong, 1)
        return line if kind == 3 else line[at:] if kind == 4 else wrong + b"\n"

    for n in range(N_DAMAGED):
        path = written(place, [damage(chance.choice(whole)) for _ in range(100)], f"{n}.jsonl")
        for problem in read(tracked, path).problems:
            assert "not a transcript" in problem.reason


def test_a_fork_of_a_session_begins_with_a_copy_that_is_no_second_task(tracked: Workspace, place: Place) -> None:
    # As `claude --resume ID --fork-session` writes it: another sessionId, the same uuids and times.
    prompt, fork = "Close the month of March and give me the sum", "d5173c29-d882-49a1-9793-04c18f425d49"
    begun = [
        claude_user(prompt, uuid="8138fa3b", sessionId=SESSION, timestamp="2026-11-28T18:51:33.514Z"),
        claude_skill(str(place.skill)), claude_said("The sum is 41."), claude_user("No, you forgot the fee."),
    ]  # fmt: skip
    copied = [each.replace(SESSION.encode(), fork.encode()) for each in joined(*begun)]
    paths = [written(place, joined(*begun, claude_said("42."))), written(place, copied, f"{fork}.jsonl")]
    found = read(tracked, *paths)
    assert (found.episodes, found.recorded) == ({"rejected": 1}, 1)
    # The same words at another time are another task.
    again = claude_user(prompt, timestamp="2026-11-28T19:00:00.000Z")
    more = joined(again, claude_skill(str(place.skill)), claude_said("42."), claude_user("Perfect, thanks!"))
    for path in paths:
        path.write_bytes(path.read_bytes() + b"".join(more))
    assert read(tracked, *paths).episodes == {"accepted": 1}


@pytest.mark.parametrize("said", ["Close", "Merge it.", "Push", "Redo"])
def test_the_first_message_of_a_session_is_a_task_or_nothing(tracked: Workspace, place: Place, said: str) -> None:
    # There is nothing yet that it could react to, and what is said next is about it.
    corrected = [claude_user("No, you forgot the fee."), claude_said("42.")]
    read(tracked, written(place, [*used(place, said), *corrected]))
    assert [(each.prompt, each.label, each.correction) for each in episodes(tracked)] == [
        (said, "rejected", "No, you forgot the fee."),
    ]  # fmt: skip
    idle = joined(claude_user(said), claude_said("There is nothing to do."), used(place, "Sum up the month of March"))
    read(tracked, written(place, [*idle, *corrected], "d5173c29-d882-49a1-9793-04c18f425d49.jsonl"))
    assert sorted(each.prompt for each in episodes(tracked)) == sorted([said, "Sum up the month of March"])


def test_a_task_that_begins_with_thanks_is_read_on(tracked: Workspace, place: Place) -> None:
    thanks = "Great, thanks. Now write the sum for April with all fees"
    path = written(place, [*used(place), *used(place, thanks)])
    read(tracked, path)
    with path.open("ab") as file:
        file.write(b"".join([claude_user("No, you forgot the fee."), claude_said("42.")]))
    read(tracked, path)
    found = {each.prompt: each.label for each in episodes(tracked)}
    assert found == {"Close March": "accepted", thanks: "rejected"}
