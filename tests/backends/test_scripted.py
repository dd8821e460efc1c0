"""The scripted backend answers by its script, and by nothing else."""

import asyncio
import json
from pathlib import Path

import pytest

from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Scripted, open_scripted
from skillopt_mcp.core.calls import Call, Question, Rollout
from skillopt_mcp.core.errors import TurnedDown
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.core.tasks import Task
from skillopt_mcp.tasks.judges.kinds.text import Exact

SKILL = SkillFiles((SkillFile(MAIN_FILE, b"# Skill\n- Be exact.\n"),))
TASK = Task(1, 1, "one", "What is 6 x 7?", Exact(expected="42"), "train", "0" * 64)
ROLLOUT = Call("target", "rollout", Rollout(SKILL, TASK), "run:1")
REFLECT = Call("optimizer", "reflect", Question("Propose edits.", "The evidence.", "patch"), "run:1")


def ask(backend: Scripted, call: Call) -> str:
    return asyncio.run(backend.complete(call)).text


def script(tmp_path: Path, content: object) -> Scripted:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(content))
    return open_scripted(str(path))


def test_a_fault_in_the_script_is_raised_each_time() -> None:
    backend = Scripted({"rollout": [BackendFault("rate_limit", "slow down", 2.0)]})
    for _ in range(2):
        with pytest.raises(BackendFault, match="slow down") as raised:
            ask(backend, ROLLOUT)
        assert (raised.value.fault, raised.value.retry_after) == ("rate_limit", 2.0)


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


def test_the_fingerprint_of_a_script_is_its_content(tmp_path: Path) -> None:
    first, again = script(tmp_path, {"rollout": ["1"]}), script(tmp_path, {"rollout": ["1"]})
    assert first.fingerprint == again.fingerprint != script(tmp_path, {"rollout": ["2"]}).fingerprint
    assert str(tmp_path) not in first.fingerprint


def test_a_script_that_is_silent_stops_a_run_that_can_go_on() -> None:
    call = Call("target", "rollout", Question("any", "any", "patch"), "any")
    with pytest.raises(TurnedDown, match="the script has no reply for stage 'rollout'; add one"):
        asyncio.run(Scripted({}).complete(call))
