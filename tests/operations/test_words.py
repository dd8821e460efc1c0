"""Words: a program is told the arguments of functions, and commands as they are typed."""

import pytest

from skillopt_mcp.operations.programs.words import advice, in_words


@pytest.mark.parametrize(
    "command",
    [
        "skillopt-mcp replay x --resume --max-calls 120",
        "skillopt-mcp --store /a.b/c.db replay 'my x' --target BACKEND:MODEL --optimizer BACKEND:MODEL",
        "skillopt-mcp tasks add x FILE",
    ],
)
def test_a_whole_command_stays_as_it_is_typed(command: str) -> None:
    for around in ("{0}", "go on with {0}.", "'{0}', then call again", "first ({0}); then wait"):
        assert in_words(around.format(command)) == around.format(command)
    more = f"'{command}', or give --target BACKEND:MODEL under --max-usd. {command}; --max-calls 9 lets it go on"
    argued = f"'{command}', or give target='BACKEND:MODEL' under Caps(usd=N). {command}; Caps(calls=9) lets it go on"
    assert in_words(more) == argued


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("Call evaluate_candidate with candidate_id c-1: it may", "Call skillopt_mcp.evaluate('c-1'): it may"),
        ("Run skillopt-mcp evaluate c-1 --target BACKEND:MODEL.", "Run skillopt_mcp.evaluate('c-1')."),
    ],
)
def test_a_test_is_told_as_the_function_that_makes_it(told: str, found: str) -> None:
    assert advice(told, lambda candidate_id: f"skillopt_mcp.evaluate('{candidate_id}')") == found
