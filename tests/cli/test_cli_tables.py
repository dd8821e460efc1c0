from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from skillopt_mcp.cli.tables import lay_out_table, shorten_to

COLUMNS = ("id", "state", "target")
ID = "r-0123456789ab"
SPEC = "openai:gpt-4o-mini,base_url=https://gateway.example.com/v1,api=chat"
CELLS = st.text(st.sampled_from("ab 漢\n"), max_size=40)


def test_a_long_last_cell_is_cut_and_no_other_one() -> None:
    _, lines = lay_out_table(COLUMNS, [(ID, "finished", SPEC), (ID, "open", "What is the sum of all open items?")], 50)
    assert lines == [
        "r-0123456789ab  finished  openai:gpt-...1,api=chat",
        "r-0123456789ab  open      What is the sum of al...",
    ]


def test_a_narrow_terminal_gets_a_record_for_each_row() -> None:
    head, lines = lay_out_table(COLUMNS, [(ID, "finished", SPEC), ("r-1", "open", "")], 30)
    assert (head, lines) == (
        "",
        ["id: r-0123456789ab", "state: finished", "target: openai:gpt...,api=chat", "", "id: r-1", "state: open"],
    )


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=4), st.integers(1, 120), st.integers(1, 2))
def test_no_line_of_a_table_is_wider_than_the_terminal_and_no_id_is_cut(
    rows: list[tuple[str, str, str]], width: int, n_long: int
) -> None:
    head, lines = lay_out_table(COLUMNS, rows, width, n_long)
    if head:
        assert len(lines) == len(rows)
        assert all(cell_len(line) <= width for line in (head, *lines))
        assert all(line.startswith(row[0].replace("\n", " ").rstrip()) for line, row in zip(lines, rows, strict=True))
    else:
        assert all(not row[0] or f"id: {row[0]}".replace("\n", " ") in lines for row in rows)
    assert all("\n" not in line for line in lines)


@given(st.text(st.sampled_from("ab 漢")), st.integers(3, 60))
def test_a_shortened_text_takes_no_more_than_it_may_and_begins_as_it_did(text: str, width: int) -> None:
    shown = shorten_to(text, width)
    assert cell_len(shown) <= width
    assert shown == text or "..." in shown
