"""The guide at the command line: a page at a time, wherever the program is installed, with no store."""

from __future__ import annotations

import pytest
from console import Cli, parsed

from skillopt_mcp.cli.parsing import COMMANDS, PAGE_OF
from skillopt_mcp.guide.pages import pages


def test_the_pages_are_listed_and_no_store_is_made(cli: Cli, tmp_path) -> None:
    listed = cli("guide", store=tmp_path / "store.db")
    assert listed.returncode == 0
    assert all(page.name in listed.stdout and page.title in listed.stdout for page in pages())
    assert not (tmp_path / "store.db").exists()
    assert [page["name"] for page in parsed(cli("guide", "--json"))["pages"]] == [page.name for page in pages()]


def test_a_page_is_printed_as_it_was_written_without_the_marks_of_its_generated_parts(cli: Cli) -> None:
    for page in pages():
        printed = cli("guide", page.name).stdout
        assert printed == page.text
        assert printed.startswith("# ")
        assert "<!--" not in printed


def test_a_page_is_found_by_its_file_and_in_capitals(cli: Cli) -> None:
    assert cli("guide", "Evidence.md").stdout == cli("guide", "evidence").stdout


@pytest.mark.parametrize(
    ("asked", "said"),
    [("evidnce", 'did you mean "evidence"?'), ("bubblewrap", "read of it in: "), ("zzz", "its pages: ")],
)
def test_a_page_that_is_not_there_names_what_may_be_meant(cli: Cli, asked: str, said: str) -> None:
    refused = cli("guide", asked)
    assert refused.returncode == 1
    assert f'the guide has no page "{asked}"' in refused.stderr
    assert said in refused.stderr


def test_the_help_of_a_command_names_a_page_that_is_there() -> None:
    assert set(PAGE_OF) <= set(COMMANDS)
    assert set(PAGE_OF.values()) <= {page.name for page in pages()}


def test_help_names_the_page_that_tells_more(cli: Cli) -> None:
    assert "skillopt-mcp guide tasks" in cli("judges", "--help").stdout
