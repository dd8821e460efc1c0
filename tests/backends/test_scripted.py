"""The scripted backend and the registry: what was told is answered, and nothing else."""

import asyncio
import json
from pathlib import Path

import pytest

from skillopt_mcp.backends.base import FATAL, RETRYABLE, BackendFault
from skillopt_mcp.backends.names import BACKENDS
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.backends.scripted import Scripted, open_scripted
from skillopt_mcp.errors import BackendError, TurnedDown
from skillopt_mcp.records.calls import Call, Message, Question, Reply, Rollout
from skillopt_mcp.records.judging import Exact
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.records.tasks import Task

SKILL = SkillFiles((SkillFile(MAIN_FILE, b"# Skill\n- Be exact.\n"),))
TASK = Task(1, 1, "one", "What is 6 x 7?", Exact(kind="exact", expected="42"), "train", "0" * 64)
ROLLOUT = Call("target", "rollout", Rollout(SKILL, TASK), "run:1")
REFLECT = Call("optimizer", "reflect", Question("Propose edits.", "The evidence.", "patch"), "run:1")


def ask(backend: Scripted, call: Call) -> str:
    return asyncio.run(backend.complete(call)).text


def script(tmp_path: Path, content: object) -> Scripted:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(content))
    return open_scripted(str(path))


def test_a_function_of_the_call_answers_and_every_call_is_kept() -> None:
    backend = Scripted(lambda call: Reply(call.stage, usage=Reply("").usage))
    assert [ask(backend, ROLLOUT), ask(backend, REFLECT)] == ["rollout", "reflect"]
    assert backend.calls == [ROLLOUT, REFLECT]
    assert backend.n_calls == 2


def test_a_sequence_answers_in_order_and_its_last_reply_serves_on() -> None:
    backend = Scripted({"rollout": ["41", "42"], "reflect": ["{}"]})
    assert [ask(backend, call) for call in (ROLLOUT, REFLECT, ROLLOUT, ROLLOUT)] == ["41", "{}", "42", "42"]


def test_a_fault_in_the_script_is_raised_each_time() -> None:
    backend = Scripted({"rollout": [BackendFault("rate_limit", "slow down", 2.0)]})
    for _ in range(2):
        with pytest.raises(BackendFault, match="slow down") as raised:
            ask(backend, ROLLOUT)
        assert (raised.value.fault, raised.value.retry_after) == ("rate_limit", 2.0)


def test_a_stage_without_replies_is_an_error_that_names_it() -> None:
    with pytest.raises(BackendError, match="'rollout'"):
        ask(Scripted({"reflect": ["{}"]}), ROLLOUT)


def test_the_first_rule_that_matches_answers_and_plain_texts_serve_the_rest(tmp_path: Path) -> None:
    rules = [{"match": ["Be exact.", "6 x 7"], "reply": "42"}, {"match": "6 x 7", "reply": "43"}, "none"]
    backend = script(tmp_path, {"rollout": rules, "reflect": [{"match": "evidence", "fault": "timeout"}]})
    plain = SkillFiles((SkillFile(MAIN_FILE, b"# Skill\n"),))
    other = Task(2, 1, "two", "Hello", TASK.judge, "train", "1" * 64)
    calls = [
        ROLLOUT,
        Call("target", "rollout", Rollout(plain, TASK), "d"),
        Call("target", "rollout", Rollout(SKILL, other), "d"),
    ]
    assert [ask(backend, call) for call in calls] == ["42", "43", "none"]
    with pytest.raises(BackendFault, match="timeout"):
        ask(backend, REFLECT)


def test_a_rule_tells_the_messages_that_led_to_its_reply(tmp_path: Path) -> None:
    called = {"role": "tool_call", "name": "add", "content": '{"a": 1}'}
    backend = script(tmp_path, {"rollout": [{"reply": "2", "messages": [called, {"role": "tool", "content": "2"}]}]})
    reply = asyncio.run(backend.complete(ROLLOUT))
    assert reply == Reply("2", (Message("tool_call", '{"a": 1}', "add"), Message("tool", "2")))


def test_the_fingerprint_of_a_script_is_its_content(tmp_path: Path) -> None:
    first, again = script(tmp_path, {"rollout": ["1"]}), script(tmp_path, {"rollout": ["1"]})
    assert first.fingerprint == again.fingerprint != script(tmp_path, {"rollout": ["2"]}).fingerprint
    assert str(tmp_path) not in first.fingerprint


@pytest.mark.parametrize("content", [{"rolout": ["1"]}, {"rollout": [{"mach": "x"}]}, {"rollout": "1"}, [1]])
def test_a_file_that_is_no_script_is_refused(tmp_path: Path, content: object) -> None:
    with pytest.raises(BackendError, match=r"script\.json' is not usable"):
        script(tmp_path, content)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"replay": "1"}, r"rollout\.0\.Rule\.replay: Extra inputs"),
        ({"fault": "rate_limit", "retry_after": -1}, r"rollout\.0\.Rule\.retry_after: Input should be greater"),
        (5, r"rollout\.0\.str: Input should be a valid string"),
    ],
)
def test_what_is_wrong_with_a_rule_is_told_by_its_field(tmp_path: Path, entry: object, told: str) -> None:
    with pytest.raises(BackendError, match=told):
        script(tmp_path, {"rollout": [entry]})


def test_a_missing_script_is_refused_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"none\.json' cannot be read"):
        open_scripted(str(tmp_path / "none.json"))


def test_the_registry_opens_each_backend_by_its_spelling(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('{"rollout": ["42"]}')
    specs = {"simulated": "simulated:honest,seed=7", "scripted": f"scripted:{path}"}
    assert set(specs) <= set(BACKENDS)
    for spec in specs.values():
        backend = open_backend(spec)
        assert (backend.name, backend.deferred) == (spec, False)


@pytest.mark.parametrize("spec", ["", "gpt", "simulate:honest", ":honest"])
def test_an_unknown_backend_is_refused_with_the_known_ones(spec: str) -> None:
    with pytest.raises(BackendError, match="use one of: simulated, scripted"):
        open_backend(spec)


def test_what_may_be_retried_never_ends_a_run() -> None:
    assert not RETRYABLE & FATAL
    assert BackendFault("server", "down").retry_after is None


def test_a_script_that_is_silent_stops_a_run_that_can_go_on() -> None:
    call = Call("target", "rollout", Question("any", "any", "patch"), "any")
    with pytest.raises(TurnedDown, match="the script has no reply for stage 'rollout'; add one"):
        asyncio.run(Scripted({}).complete(call))
