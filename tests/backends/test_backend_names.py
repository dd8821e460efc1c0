"""What of a backend's name says which model is asked."""

import pytest

from skillopt_mcp.backends.names import without_options


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("openai:m,base_url=http://a/v1,timeout=5.0", "openai:m"),
        ("anthropic:m,max_tokens=9 beside notes:CLAUDE.md@1a2b", "anthropic:m beside notes:CLAUDE.md@1a2b"),
        ("claude-code:haiku,tools=Read+Bash", "claude-code:haiku"),
        ("codex:m", "codex:m"),
        # What follows the comma is another world, script, environment or program there.
        ("simulated:honest,seed=3", "simulated:honest,seed=3"),
        ("scripted:/a,b.json", "scripted:/a,b.json"),
        ("env:qa:data,x=1", "env:qa:data,x=1"),
        ("plugin:mine:fast,x=1", "plugin:mine:fast,x=1"),
        ("mine, of a program", "mine, of a program"),
    ],
)
def test_a_model_is_the_same_under_other_options_and_nothing_else_is(name: str, asked: str) -> None:
    assert without_options(name) == asked
