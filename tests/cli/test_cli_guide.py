"""The guide at the command line: a page at a time, wherever the program is installed, with no store."""

from __future__ import annotations

import io
import re

import pytest
from changes import at_a_terminal
from console import Cli, parsed
from rich.console import Console

from skillopt_mcp.cli.main import main
from skillopt_mcp.cli.markdown import Page, column_widths, with_commands
from skillopt_mcp.cli.parsing import COMMANDS, PAGE_OF
from skillopt_mcp.guide.pages import pages


def test_the_pages_are_listed_and_no_store_is_made(cli: Cli, tmp_path) -> None:
    listed = cli("guide", store=tmp_path / "store.db")
    assert listed.returncode == 0
    assert all(page.name in listed.stdout and page.title in listed.stdout for page in pages())
    assert not (tmp_path / "store.db").exists()
    assert [page["name"] for page in parsed(cli("guide", "--json"))["pages"]] == [page.name for page in pages()]


def test_a_page_is_printed_as_it_was_written_without_the_marks_of_its_generated_parts(
    cli: Cli, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli("guide", "store").stdout == next(page.text for page in pages() if page.name == "store")
    for page in pages():
        assert main(["guide", page.name]) == 0
        printed = capsys.readouterr().out
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


@pytest.mark.parametrize("name", [each.name for each in pages()])
def test_at_a_terminal_a_page_keeps_its_words_whole_and_its_links_are_commands(name: str) -> None:
    text = next(each.text for each in pages() if each.name == name)
    for width in (60, 80, 200):
        screen = io.StringIO()
        Console(file=screen, width=width, force_terminal=True, color_system=None).print(Page(text))
        shown = screen.getvalue()
        assert "…" not in shown
        assert "](" not in shown
        assert not re.search(r"\(#[a-z]|\.md#", shown)
        assert not any(f"({each.name}.md" in shown for each in pages())
        cells = [line for line in text.splitlines() if line.startswith("| ")]
        words = {word for line in cells for word in re.findall(r"`([^` ]{12,40})`", line)}
        assert {word for word in words if word not in shown} == set()


def test_the_guide_is_laid_out_where_a_person_looks(make_place) -> None:
    code, screen = at_a_terminal(make_place(), "guide", "settings", answer="", COLUMNS="80", TERM="xterm")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", screen)
    assert code == 0
    assert re.search(r"\nSkillOpt: optimizer\.min_learning_rate *\r\n", shown)
    assert "(or train in Python (skillopt-mcp guide python))" in shown
    assert "…" not in shown


def test_a_link_names_the_command_that_prints_its_page_and_code_stays_as_it_is() -> None:
    text = "See [the\nstore](store.md#tasks-in-git), [there](#above) or [x](https://e.example).\n\n    [a](store.md)\n"
    fenced = "```\n[b](store.md)\n```\n~~~~ text\n~~~\n[c](store.md)\n~~~~~\n"
    fenced += "````\n```\n[d](store.md)\n````"
    assert with_commands(text + fenced) == (
        "See the\nstore (`skillopt-mcp guide store`), there or [x](https://e.example).\n\n    [a](store.md)\n" + fenced
    )


@pytest.mark.parametrize(
    ("rows", "width", "widths"),
    [
        ([["a", "b"], ["one", "two words"]], 80, [3, 9]),
        ([["name", "x" * 30], ["short", "a long text of many words" * 2]], 60, [5, 50]),
        ([["n" * 30, "x" * 30]], 63, None),
        ([["n" * 30, "x" * 30]], 64, [30, 30]),
        ([["word " * 20, "word " * 10]], 80, [38, 38]),
    ],
)
def test_columns_take_what_their_words_need_and_share_the_rest(
    rows: list[list[str]], width: int, widths: list[int] | None
) -> None:
    assert column_widths(rows, width) == widths
