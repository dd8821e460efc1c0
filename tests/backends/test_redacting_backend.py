"""The redacting backend: what it shows, what it keeps, and what it leaves to the task."""

from __future__ import annotations

import asyncio

import pytest

from skillopt_mcp.backends.base import BackendFault, worst_case
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.wrappers import Redacting
from skillopt_mcp.errors import BackendError, StoreError, Waiting
from skillopt_mcp.judges.judging import parse_judge
from skillopt_mcp.records.calls import Call, Message, Question, Reply, Rollout, Usage
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.redaction.redacting import Redactor

KEY = "ghp_" + "a1B2c3D4e5F6" * 3
REDACTOR = Redactor(b"salt")
SKILL = SkillFiles((SkillFile(MAIN_FILE, b"# Skill\n"),))
QUESTION = Call("optimizer", "reflect", Question("Propose edits.", f"It printed {KEY}.", "patch"), "r-1")


def rollout(prompt: str, expected: str = "1") -> Call:
    judge = parse_judge({"kind": "exact", "expected": expected})
    return Call("target", "rollout", Rollout(SKILL, Task(1, 1, "t", prompt, judge, "train", "0" * 64)), "r-1")


def answered(call: Call, answer: str | Reply | BackendFault) -> tuple[Reply, Call]:
    backend = Scripted(lambda _: answer)
    reply = asyncio.run(Redacting(backend, REDACTOR).complete(call))
    return reply, backend.calls[0]


def test_the_optimizer_is_shown_evidence_without_secrets() -> None:
    _, sent = answered(QUESTION, "{}")
    assert isinstance(sent.request, Question)
    assert sent.request.evidence == REDACTOR.text(f"It printed {KEY}.")
    assert sent.request.instructions == "Propose edits."


def test_a_reply_and_its_messages_are_kept_without_secrets() -> None:
    reply, _ = answered(rollout("Do it"), Reply(f"used {KEY}", (Message("tool", f"out {KEY}", "sh"),), Usage(3, 4)))
    assert reply == Reply(
        REDACTOR.text(f"used {KEY}"), (Message("tool", REDACTOR.text(f"out {KEY}"), "sh"),), Usage(3, 4)
    )


@pytest.mark.parametrize("call", [rollout(f"Repeat {KEY}"), rollout("Make the key", expected=KEY)])
def test_what_the_task_says_itself_is_neither_hidden_nor_taken_from_the_answer(call: Call) -> None:
    reply, sent = answered(call, KEY)
    assert reply.text == KEY
    assert sent == call


def test_a_fault_is_shown_without_secrets_and_keeps_its_cost() -> None:
    with pytest.raises(BackendFault) as raised:
        asyncio.run(
            Redacting(Failing(BackendFault("auth", f"bad key {KEY}", 2.0, Usage(5))), REDACTOR).complete(QUESTION)
        )
    fault = raised.value
    assert (fault.fault, fault.message, fault.retry_after, fault.usage) == (
        "auth", REDACTOR.text(f"bad key {KEY}"), 2.0, Usage(5),
    )  # fmt: skip
    assert fault.__suppress_context__


def test_an_error_that_ends_the_run_is_shown_without_secrets() -> None:
    with pytest.raises(BackendError, match=r"bad key \[redacted:"):
        asyncio.run(Redacting(Failing(BackendError(f"bad key {KEY}")), REDACTOR).complete(QUESTION))


class Failing:
    """A backend that always fails so."""

    name = fingerprint = "failing"
    deferred = False

    def __init__(self, failure: BaseException) -> None:
        self._failure = failure

    async def complete(self, call: Call) -> Reply:
        raise self._failure


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError(f"bad {KEY}"), f"'failing' failed: ValueError: bad {REDACTOR.text(KEY)}"),
        (asyncio.CancelledError(), "'failing' failed: CancelledError"),
    ],
)
def test_whatever_a_backend_raises_is_the_failure_of_one_call(error: BaseException, message: str) -> None:
    with pytest.raises(BackendFault) as raised:
        asyncio.run(Redacting(Failing(error), REDACTOR).complete(QUESTION))
    assert raised.value.fault == "internal"
    assert raised.value.message.startswith(message)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), StoreError("full"), Waiting(1)])
def test_what_stops_the_program_or_the_run_goes_through(error: BaseException) -> None:
    with pytest.raises(type(error)):
        asyncio.run(Redacting(Failing(error), REDACTOR).complete(QUESTION))


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply("x", ("y",)), "its messages are no tuple of"),  # type: ignore[arg-type]
        (Reply("x", usage=Usage(-1)), 'the tokens_in of its usage is "-1"'),
        (Reply("x", fault="tired"), "its fault is \"'tired'\", not one of rate_limit"),  # type: ignore[arg-type]
    ],
)
def test_a_reply_that_cannot_be_kept_ends_the_run_with_its_reason(reply: Reply, message: str) -> None:
    with pytest.raises(BackendError, match=r'^the reply of the backend "scripted" cannot be used: ') as error:
        answered(QUESTION, reply)
    assert message in str(error.value)


class Bounding(Scripted):
    """A backend whose `worst_case` returns `most`, or raises it."""

    def __init__(self, most: object) -> None:
        super().__init__({}, name="mine")
        self.most = most

    def worst_case(self, call: Call) -> Usage | None:
        if isinstance(self.most, Exception):
            raise self.most
        return self.most  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("most", "message"),
    [
        (Usage(-(10**6), 0), 'cannot be used: the tokens_in of its usage is "-1000000", not a whole number from 0'),
        ("much", "cannot be used: its usage is of type str, not skillopt_mcp.Usage; return the most that one attempt"),
        (ValueError(f"no {KEY}"), f"failed: ValueError: no {REDACTOR.text(KEY)} (test_redacting_backend.py, line "),
    ],
)
def test_a_worst_case_that_cannot_be_one_is_reported_in_one_line(most: object, message: str) -> None:
    with pytest.raises(BackendError) as error:
        worst_case(Redacting(Bounding(most), REDACTOR), QUESTION)
    assert "'worst_case' of the backend \"mine\"" in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
