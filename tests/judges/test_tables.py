"""Tables: reading Markdown, CSV and TSV, and comparing cells."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.judges.judging import parse_judge, score
from skillopt_mcp.judges.kinds.table import parse_table
from skillopt_mcp.records.judging import Score

ROWS = [["name", "pay"], ["Ann", "1200"], ["Bob", "90"]]
MARKDOWN = "| name | pay |\n|:---|---:|\n| Ann | 1200 |\n| **Bob** | 90 |"


def judged(answer: str, **spec: object) -> Score:
    """Return the score of an answer under a table judge."""
    found = score(parse_judge({"kind": "table", "expected": ROWS, **spec}), answer)
    assert isinstance(found, Score)
    return found


@pytest.mark.parametrize(
    "text",
    [
        MARKDOWN,
        f"As asked, in a table:\n\n{MARKDOWN}\n\nAnn earns more, by far.",
        f"First\n\n| x |\n|---|\n| 1 |\n\nthen\n\n{MARKDOWN}",
        "name | pay\n--- | ---\nAnn | 1200\nBob | 90",
        "name,pay\nAnn,1200\nBob,90",
        "```csv\nname,pay\r\nAnn,1200\r\nBob,90\r\n```",
        'Here:\n\nname, pay\n"Ann", 1200\nBob, 90\n\nAll, of it, is there.'.rpartition("\n\n")[0],
        "name\tpay\nAnn\t1200\nBob\t90\n",
        "name;pay\nAnn;1200\nBob;90",
    ],
)
def test_tables_of_every_kind_are_read(text: str) -> None:
    assert parse_table(text) == ROWS


def test_soft_is_the_share_of_right_cells() -> None:
    assert judged(MARKDOWN).hard
    wrong = judged(MARKDOWN.replace("1200", "1300"))
    assert (wrong.hard, wrong.soft) == (False, pytest.approx(5 / 6))
    assert wrong.reason == '5 of 6 cells as expected; row 2 is "Ann | 1300", expected "Ann | 1200"'
    longer = judged(MARKDOWN + "\n| Cy | 3 |")
    assert (longer.hard, longer.soft) == (False, 0.75)
    assert longer.reason == '6 of 8 cells as expected; 4 x 2, expected 3 x 2; row 4 is "Cy | 3", expected ""'
    wider = judged("name,pay,x\nAnn,1200,1\nBob,90,2").reason
    assert wider == '6 of 9 cells as expected; 3 x 3, expected 3 x 2; row 1 is "name | pay | x", expected "name | pay"'
    assert judged("nothing").reason == 'no table in "nothing", expected 3 x 2'


def test_rows_may_stand_in_any_order_but_the_first() -> None:
    turned = "name,pay\nBob,90\nAnn,1200"
    assert not judged(turned).hard
    assert judged(turned, any_order=True).hard
    assert judged("Bob,90\nname,pay\nAnn,1200", any_order=True).soft == pytest.approx(1 / 3)
    assert judged("name,pay\nAnn,1200\nAnn,1200", any_order=True).soft == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("cell", "wanted", "tolerance", "same"),
    [
        ("1,200", "1200", 0, True),
        ("$1,200.00", "1200", 0, True),
        ("1200.4", "1200", 0.5, True),
        ("1200.6", "1200", 0.5, False),
        ("12%", "12 %", 0, True),
        ("12%", "12", 0, False),
        ("12 of 30", "30", 0, False),
        ("ANN", "ann", 0, True),
        ("v2", "2", 0, False),
        ("-5", "5", 0, False),
        ("−5", "-5", 0, True),
    ],
)
def test_cells_are_equal_as_numbers_or_as_texts(cell: str, wanted: str, tolerance: float, same: bool) -> None:
    spec = parse_judge({"kind": "table", "expected": [["k", "v"], ["x", wanted]], "tolerance": tolerance})
    found = score(spec, f"| k | v |\n|---|---|\n| x | {cell} |")
    assert isinstance(found, Score)
    assert found.hard is same


def test_a_huge_table_is_compared_in_a_moment() -> None:
    rows = [[f"k{n}", str(n)] for n in range(500)]
    answer = "\n".join(f"k{n},x" for n in range(12_000))
    started = time.process_time()
    assert not judged(answer, expected=rows, any_order=True).hard
    assert not judged("|-" * 50_000, expected=rows).hard
    assert not judged("- |" * 33_000 + "x", expected=rows).hard
    assert time.process_time() - started < 3


CELLS = st.text(st.sampled_from("abcXYZ 0123456789.-"), min_size=1, max_size=8).map(str.strip).filter(bool)


@given(st.integers(2, 4).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=2, max_size=6)))
def test_a_table_written_in_markdown_passes_its_own_judge(rows: list[list[str]]) -> None:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    for any_order in (False, True):
        found = score(parse_judge({"kind": "table", "expected": rows, "any_order": any_order}), "\n".join(lines))
        assert isinstance(found, Score)
        assert found.hard
