"""Fences: which lines are fenced code."""

from __future__ import annotations

import pytest

from skillopt_mcp.documents.markdown import fenced_code


def code(text: str) -> list[str]:
    content = text.encode()
    return [content[block.start : block.end].decode() for block in fenced_code(content, 0)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n```\nx\n```\nb\n", ["```\nx\n```\n"]),
        ("~~~ py\nx\n~~~\n", ["~~~ py\nx\n~~~\n"]),
        ("````\n```\nx\n```\n````\n", ["````\n```\nx\n```\n````\n"]),
        ("```\n~~~\n```\n", ["```\n~~~\n```\n"]),
        ("```\nx\n``` no\n```\n", ["```\nx\n``` no\n```\n"]),
        ("```\nx\n`````\nb", ["```\nx\n`````\n"]),
        ("text ```\nb\n", []),
        ("``` a`b\nx\n", []),
        ("    ```\n    indented code\n", []),
        ("- a\n  ```\n  x\n  ```\n- b\n", ["  ```\n  x\n  ```\n"]),
        ("1. a\n\n    ```\n    x\n    ```\n", ["    ```\n    x\n    ```\n"]),
        ("- ```\n  x\n  ```\n", ["- ```\n  x\n  ```\n"]),
        ("- a\n  - b\n\n    ```\n    x\n    ```\n", ["    ```\n    x\n    ```\n"]),
        ("- ```\n  x\nout of the list\n", ["- ```\n  x\n"]),
        ("> ```\n> x\nout of the quote\n", ["> ```\n> x\n"]),
        ("```\r\nx\r\n```\r\nb", ["```\r\nx\r\n```\r\n"]),
        ("```\rx\r```\rb", ["```\rx\r```\r"]),
        ("\t```\n\tx\n", []),
        ("```\n    ```\nx\n```\n", ["```\n    ```\nx\n```\n"]),
    ],
)
def test_fenced_code_is_what_commonmark_says(text: str, expected: list[str]) -> None:
    assert code(text) == expected


def test_a_fence_that_never_closes_runs_to_the_end_and_says_so() -> None:
    [block] = fenced_code(b"a\n```\nx\n", 0)
    assert (block.start, block.end, block.closed) == (2, 8, False)
