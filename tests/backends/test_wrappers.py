"""Wrappers: no secrets, judges by command, a plugin, and the check of a backend."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from api_calls import ENVIRON
from loopback import KEY as API_KEY
from loopback import Sent, loopback

from skillopt_mcp.backends.agents.places import FolderPaths
from skillopt_mcp.backends.agents.working_copy import lay_out
from skillopt_mcp.backends.base import BackendFault, is_deferred, worst_case
from skillopt_mcp.backends.plugin import Plugged
from skillopt_mcp.backends.programs import CommandRunner
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.wrappers import Judges, Redacting, check_backend
from skillopt_mcp.core.calls import Call, Message, Question, Reply, Rollout, Stage, Usage
from skillopt_mcp.core.errors import BackendError, StoreError, Waiting
from skillopt_mcp.core.redacting import Redactor
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.tasks.judges.kinds.text import Exact
from skillopt_mcp.workspace.evidence import is_simulated

TASK = Task(1, 1, "one", "What is due?", Exact(expected="1"), "train", "digest")
FILES = SkillFiles((SkillFile(MAIN_FILE, b"# Skill\n"), SkillFile("references/more.md", b"More.\n")))
MEMORY = SkillFiles((SkillFile("CLAUDE.md", b"# Memory\n"),))


def test_a_host_finds_the_memory_where_its_work_begins_and_the_skill_where_skills_are(tmp_path: Path) -> None:
    both, alone = FolderPaths(tmp_path / "both"), FolderPaths(tmp_path / "alone")
    first, second = Rollout(FILES, TASK).next_to(MEMORY), Rollout(MEMORY, TASK).next_to(FILES)
    assert first == second == Rollout(SkillFiles((*FILES.files, *MEMORY.files)), TASK, "CLAUDE.md")
    assert first.files.text == "# Skill\n\n\n=== CLAUDE.md ===\n# Memory\n\n\n=== references/more.md ===\nMore.\n"
    assert lay_out(both, first, ".claude/skills") == "skill"
    assert (both.work / "CLAUDE.md").read_text() == "# Memory\n"
    assert sorted(each.name for each in (both.work / ".claude/skills/skill").iterdir()) == [MAIN_FILE, "references"]
    assert lay_out(alone, Rollout(MEMORY, TASK), ".claude/skills") is None
    assert [each.name for each in alone.work.iterdir()] == ["CLAUDE.md"]


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
        (Reply("x", ("y",)), "its messages are not a tuple of"),  # type: ignore[arg-type]
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
        (ValueError(f"no {KEY}"), f"failed: ValueError: no {REDACTOR.text(KEY)} (test_wrappers.py, line "),
    ],
)
def test_a_worst_case_that_cannot_be_one_is_reported_in_one_line(most: object, message: str) -> None:
    with pytest.raises(BackendError) as error:
        worst_case(Redacting(Bounding(most), REDACTOR), QUESTION)
    assert "'worst_case' of the backend \"mine\"" in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def judge_call(stage: Stage) -> Call:
    """Return a judge_call of the role judge."""
    return Call("judge", stage, Question("say", "this", stage), "d")


def test_each_stage_goes_to_the_backend_that_answers_it() -> None:
    model, commands = Scripted(lambda call: "a grade"), Scripted(lambda call: "an exit", name="commands")
    judges = Judges(model, commands)
    assert asyncio.run(judges.complete(judge_call("judge"))).text == "a grade"
    assert asyncio.run(judges.complete(judge_call("check"))).text == "an exit"
    assert (model.n_calls, commands.n_calls) == (1, 1)
    assert judges.fingerprint == "scripted+commands"


def test_rubrics_wait_for_a_model_that_answers_later_and_checks_do_not() -> None:
    model = Scripted(lambda call: "a grade", name="host")
    model.deferred = True
    judges = Judges(model, CommandRunner({}))
    assert is_deferred(judges, judge_call("judge"))
    assert not is_deferred(judges, judge_call("check"))


def test_two_sets_of_options_are_two_backends() -> None:
    mine = Scripted(lambda _: "yes", name="mine")
    mine.fingerprint = "mine 1"
    fast, slow = Plugged(mine, "mine:fast"), Plugged(mine, "mine:slow")
    assert (fast.name, fast.fingerprint) == ("plugin:mine:fast", "mine 1@plugin:mine:fast")
    assert slow.fingerprint != fast.fingerprint
    assert not is_simulated(fast.fingerprint)


def test_a_simulation_that_a_plugin_opens_counts_as_one() -> None:
    for inner in (open_backend("simulated:honest"), Scripted(lambda _: "yes")):
        assert is_simulated(Plugged(inner, "wrap").fingerprint)
        assert is_simulated(f"real judged by {Plugged(inner, 'wrap').fingerprint}")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)


def test_a_backend_that_answers_is_asked_once_and_nothing_is_wrong() -> None:
    with loopback("ok") as server:
        assert check_backend(f"openai:m,base_url={server.url}/v1") == (None, "ok")
        assert check_backend(f"anthropic:m,base_url={server.url}") == (None, "ok")
        assert [request.user for request in server.requests] == ["Answer with the word: ok"] * 2


def test_a_wrong_key_is_named_and_not_shown() -> None:
    with loopback(Sent(401, b'{"error": {"message": "bad key ' + API_KEY.encode() + b'"}}')) as server:
        assert check_backend(f"anthropic:m,base_url={server.url}") == (
            f"{server.host} (m): 401 bad key $ANTHROPIC_API_KEY; "
            "set ANTHROPIC_API_KEY in the environment to a key that may use this model",
            "",
        )


def test_what_cannot_be_opened_is_reported_without_a_call() -> None:
    assert str(check_backend("openai:m,effort=huge")[0]).startswith("'effort' of 'openai:m' cannot be used")
    assert str(check_backend("none-such:m")[0]).startswith("unknown backend 'none-such'")


def test_a_backend_that_costs_nothing_is_only_opened() -> None:
    assert check_backend("simulated:honest") == (None, "")
