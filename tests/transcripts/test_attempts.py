from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.actions.transcripts import PART_BYTES, SessionAttempt, SessionTurn, Use, split_turns
from skillopt_mcp.core.calls import Message
from skillopt_mcp.core.limits import MIB
from tests.session_lines import (
    FOLDER,
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

CLERK = f"{FOLDER}/.claude/skills/clerk"
CLERK_USE = Use(path=f"{CLERK}/SKILL.md")


def read(*parts: object) -> list[SessionTurn]:
    """The turns in which a skill was opened."""
    turns = split_turns(enumerate(joined(*parts)))  # type: ignore[arg-type]
    return [turn for turn in turns if turn.attempt.uses]


def test_a_turn_of_claude_code_in_which_a_skill_was_opened_is_an_attempt() -> None:
    [found] = read(
        claude_user("Close March"), claude_said("I look."), claude_skill(CLERK), claude_said("The sum is 42."),
        claude_user("Thanks"), claude_said("Welcome."),
    )  # fmt: skip
    assert (found.index, found.said.text, found.folder) == (0, "Close March", FOLDER)
    assert found.attempt == SessionAttempt(
        messages=(
            Message("assistant", "I look."),
            Message("tool_call", '{"skill":"clerk"}', "Skill"),
            Message("tool", "Launching skill: clerk", "Skill"),
            Message("assistant", "The sum is 42."),
        ),
        answer="The sum is 42.",
        uses=(CLERK_USE,),
    )


def test_a_turn_of_codex_in_which_a_skill_was_read_is_an_attempt() -> None:
    [found] = read(
        codex_meta(), codex_user("Hello"), codex_said("Hello."), codex_user("Close March"),
        codex_shell("cat .agents/skills/clerk/SKILL.md", "Always sum."), codex_said("The sum is 42."),
    )  # fmt: skip
    assert (found.index, found.said.text, found.folder) == (1, "Close March", FOLDER)
    assert found.attempt == SessionAttempt(
        messages=(
            Message("tool_call", '{"command":"cat .agents/skills/clerk/SKILL.md"}', "shell"),
            Message("tool", "Always sum.", "shell"),
            Message("assistant", "The sum is 42."),
        ),
        answer="The sum is 42.",
        uses=(Use(path=".agents/skills/clerk/SKILL.md"),),
    )


def test_a_command_typed_by_the_user_opens_a_skill() -> None:
    name = "<command-message>clerk</command-message>\n<command-name>/clerk</command-name>"
    typed = f"{name}\n<command-args>March</command-args>"
    [found] = read(claude_user(typed), claude_said("42"))
    assert (found.said.text, found.attempt.uses) == ("/clerk March", (Use(name="clerk"),))


def test_a_skill_that_the_user_of_codex_names_is_used_though_no_one_reads_it() -> None:
    shown = f"<skill>\n<name>clerk</name>\n<path>{CLERK}/SKILL.md</path>\n# Clerk\n</skill>"
    given = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": shown}]}
    [found] = read(codex_meta(), codex_user("$clerk March"), line({"type": "response_item", "payload": given}))
    assert (found.said.text, found.attempt.uses) == ("$clerk March", (CLERK_USE,))


def test_a_skill_that_is_written_is_not_one_that_is_used() -> None:
    written = claude_call("Write", {"file_path": f"{CLERK}/SKILL.md", "content": "new"}, "ok")
    assert read(claude_user("Change the skill"), written, claude_said("Done.")) == []


def test_what_was_said_to_and_by_our_own_tools_is_left_out() -> None:
    [found] = read(
        claude_user("Train it"), claude_skill(CLERK),
        claude_call("mcp__skillopt__submit_work", {"replies": [{"reply": "held out"}]}, "held out, too"),
        claude_call("mcp__plugin_skillopt_skillopt__inspect", {"id": "held out"}, "held out"),
        claude_call("mcp__other__submit_work", {"kept": 1}, "kept"),
    )  # fmt: skip
    assert found.attempt.is_own
    assert "held out" not in str(found.attempt.messages)
    assert str(found.attempt.messages).count("kept") == 2


@given(cut=st.integers(min_value=0, max_value=2_000))
def test_a_transcript_torn_anywhere_reads_as_far_as_it_goes(cut: int) -> None:
    text = b"".join(
        joined(claude_user("One"), claude_skill(CLERK), claude_said("1"), claude_user("Two"), claude_skill(CLERK))
    )
    whole = read(text.splitlines(keepends=True))
    torn = read(text[:cut].splitlines(keepends=True))
    assert [found.index for found in torn] == [found.index for found in whole][: len(torn)]


def test_a_long_turn_keeps_its_beginning_and_its_end_in_bounded_memory() -> None:
    def lines() -> Iterator[bytes]:
        yield claude_user("Close March")
        yield from claude_skill(CLERK)
        for n in range(600):
            yield from claude_call("Bash", {"command": f"step {n}"}, "x" * 100_000)
        yield claude_said("The sum is 42.")

    tracemalloc.start()
    try:
        [found] = split_turns(enumerate(lines()))
        assert found.attempt.answer
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * MIB
    assert found.attempt.answer == "The sum is 42."
    assert found.attempt.messages[0].role == "system"
    assert "left out" in found.attempt.messages[0].content
    commands = [
        message.content for message in found.attempt.messages if message.name == "Bash" and message.role == "tool_call"
    ]
    assert commands[0] == '{"command":"step 0"}'
    assert commands[-1] == '{"command":"step 599"}'
    assert len(commands) < 3 * PART_BYTES / 100_000


def test_a_load_that_failed_is_no_attempt_with_the_skill() -> None:
    wrong = (
        claude_user("Close March"),
        claude_call("Skill", {"skill": "clerk"}, "Shell command permission check failed"),
    )
    failed = line({**json.loads(wrong[1][1]), **_failed(wrong[1][1])})
    assert read(wrong[0], wrong[1][0], failed, claude_said("No."), claude_user("Hm")) == []
    typed = "<command-name>/clerk</command-name><command-args>do</command-args>"
    refused = line({"type": "system", "subtype": "local_command", "content": "<local-command-stderr>failed"})
    assert read(claude_user(typed), refused, claude_user("Hm")) == []
    assert read(codex_meta(), codex_user("Close"), codex_shell("cat .agents/skills/clerk/SKILL.md", NO_FILE)) == []
    assert read(claude_user(typed), claude_said("Done."), claude_user("Hm"))[0].attempt.uses == (Use(name="clerk"),)


NO_FILE = "Process exited with code 1\nOutput:\ncat: no such file\n"


def _failed(answer: bytes) -> dict[str, object]:
    message = json.loads(answer)["message"]
    message["content"][0]["is_error"] = True
    return {"message": message}


def test_what_ends_a_line_elsewhere_ends_none_within_a_text() -> None:
    said = claude_said("SUM").replace(b"SUM", "The sum\u2028is\u0085 42.".encode())
    [found] = read(claude_user("Close March"), claude_skill(CLERK), said)
    assert found.attempt.answer == "The sum\u2028is\u0085 42."
