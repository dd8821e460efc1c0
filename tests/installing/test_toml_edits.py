from __future__ import annotations

import tomllib

import pytest

from skillopt_mcp.errors import BadInput
from skillopt_mcp.installing.toml_edits import toml_value, with_table, without_table

PATH = ("mcp_servers", "skillopt")
TABLE = {
    "command": "/opt/skillopt-mcp",
    "args": ["serve"],
    "required": True,
    "tools": {"promote_skill": {"approval_mode": "approve"}},
}
TEXTS = [
    "",
    '# mine\nmodel = "x" # why\n',
    'model = "x"\r\n[mcp_servers.a]\r\ncommand = "b"\r\n',
    '[mcp_servers]\n[mcp_servers.a]\ncommand = "b"\n\n[profiles.z]\nk = 1\n',
    'mcp_servers.a.command = "b"\n\n[[things]]\nq = 1\n\n\n',
    'notes = """\n[mcp_servers.other]\n"""\n',
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_table_comes_and_goes_and_nothing_else_changes(text: str) -> None:
    made = with_table(text, PATH, TABLE)
    expected = tomllib.loads(text)
    expected.setdefault("mcp_servers", {})["skillopt"] = TABLE
    assert tomllib.loads(made) == expected
    assert made.startswith(text)
    assert with_table(made, PATH, TABLE) == made
    assert without_table(made, PATH) == text


def test_what_a_host_adds_behind_the_table_stays() -> None:
    added = '\n# trusted\n[projects."/home/me"]\ntrust_level = "trusted"\n'
    text = with_table("a = 1\n", PATH, TABLE) + added
    assert without_table(text, PATH) == "a = 1\n" + added


def test_another_table_takes_the_place_of_the_old_one() -> None:
    text = with_table("a = 1\n", PATH, TABLE) + "\n[z]\nk = 1\n"
    changed = with_table(text, PATH, {"command": "/new"})
    assert changed == 'a = 1\n\n[mcp_servers.skillopt]\ncommand = "/new"\n\n[z]\nk = 1\n'


def test_a_text_that_does_not_parse_is_refused_with_its_place() -> None:
    with pytest.raises(BadInput, match="line 2"):
        toml_value("a = 1\nb = = 2\n")
