"""Judge backend: checks go to the commands, all else to the model."""

from __future__ import annotations

import asyncio

from skillopt_mcp.backends.base import is_deferred
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.wrappers import Judges
from skillopt_mcp.judges.programs import CommandRunner
from skillopt_mcp.records.calls import Call, Question, Stage


def call(stage: Stage) -> Call:
    """Return a call of the role judge."""
    return Call("judge", stage, Question("say", "this", stage), "d")


def test_each_stage_goes_to_the_backend_that_answers_it() -> None:
    model, commands = Scripted(lambda call: "a grade"), Scripted(lambda call: "an exit", name="commands")
    judges = Judges(model, commands)
    assert asyncio.run(judges.complete(call("judge"))).text == "a grade"
    assert asyncio.run(judges.complete(call("check"))).text == "an exit"
    assert (model.n_calls, commands.n_calls) == (1, 1)
    assert judges.fingerprint == "scripted+commands"


def test_rubrics_wait_for_a_model_that_answers_later_and_checks_do_not() -> None:
    model = Scripted(lambda call: "a grade", name="host")
    model.deferred = True
    judges = Judges(model, CommandRunner({}))
    assert is_deferred(judges, call("judge"))
    assert not is_deferred(judges, call("check"))
