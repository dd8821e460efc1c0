"""Spans: what is front matter, code and protected."""

from __future__ import annotations

import time

import pytest

from skillopt_mcp.documents.markdown import parse

START, END = b"<!-- SLOW_UPDATE_START -->", b"<!-- SLOW_UPDATE_END -->"


def protected(content: bytes) -> list[bytes]:
    return [content[start:end] for start, end in parse(content).protected]


def test_a_document_has_front_matter_code_and_protected_regions() -> None:
    region = START + b"\nkept\n" + END + b"\n"
    document = parse(b"---\nname: x\n---\nText.\n```py\ncode\n```\nMore.\n" + region)
    assert document.content[: document.body_start] == b"---\nname: x\n---\n"
    assert [document.content[code.start : code.end] for code in document.code] == [b"```py\ncode\n```\n"]
    assert protected(document.content) == [region]


def test_both_kinds_of_region_are_found_with_any_space_in_the_comment() -> None:
    content = b"a\n<!--SLOW_UPDATE_START-->\nx\n<!--\tSLOW_UPDATE_END  -->\nb\n"
    content += b"<!--\nAPPENDIX_START -->y<!-- APPENDIX_END -->c\n"
    assert protected(content) == [
        b"<!--SLOW_UPDATE_START-->\nx\n<!--\tSLOW_UPDATE_END  -->\n",
        b"<!--\nAPPENDIX_START -->y<!-- APPENDIX_END -->",
    ]


def test_regions_that_cross_are_one() -> None:
    content = START + b"1<!-- APPENDIX_START -->2" + END + b"3<!-- APPENDIX_END -->4"
    assert protected(content) == [content[:-1]]


def test_a_marker_after_a_fence_that_never_closes_still_counts() -> None:
    assert protected(b"```\ncode\n" + START + b"\nx\n" + END + b"\n") == [START + b"\nx\n" + END + b"\n"]


@pytest.mark.parametrize(
    "piece", ["- ", "> ", "- ```\n", "<!-- ", "   " + END.decode(), "\t", "```\n" + START.decode()]
)
def test_a_large_hostile_document_is_read_soon(piece: str) -> None:
    started = time.process_time()
    content = (piece * (200_000 // len(piece)) + "\n- ```\n").encode() + START
    assert protected(content)[-1].endswith(START)
    assert time.process_time() - started < 3
