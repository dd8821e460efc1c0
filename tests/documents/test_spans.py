"""Spans: what is front matter, body, code and protected, and that nothing is lost."""

from __future__ import annotations

import time

import pytest
from corpus import BYTES, DOCUMENTS
from hypothesis import given

from skillopt_mcp.documents.markdown import Document, parse

START, END = b"<!-- SLOW_UPDATE_START -->", b"<!-- SLOW_UPDATE_END -->"


def parts(content: bytes) -> list[tuple[str, bytes]]:
    return [(span.kind, content[span.start : span.end]) for span in parse(content).spans]


def protected(content: bytes) -> list[bytes]:
    return [content[start:end] for start, end in parse(content).protected]


def assert_whole(content: bytes) -> None:
    spans = Document(content).spans
    assert b"".join(content[span.start : span.end] for span in spans) == content
    assert all(span.start < span.end for span in spans)
    assert [span.start for span in spans[1:]] == [span.end for span in spans[:-1]]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_that_is_not_edited_is_the_same_bytes(name: str) -> None:
    assert_whole(DOCUMENTS[name])


@given(BYTES)
def test_the_spans_of_any_bytes_are_all_of_them(content: bytes) -> None:
    assert_whole(content)


def test_a_document_is_cut_into_its_four_kinds() -> None:
    content = b"---\nname: x\n---\nText.\n```py\ncode\n```\nMore.\n" + START + b"\nkept\n" + END + b"\n"
    assert parts(content) == [
        ("front_matter", b"---\nname: x\n---\n"),
        ("body", b"Text.\n"),
        ("code", b"```py\ncode\n```\n"),
        ("body", b"More.\n"),
        ("protected", START + b"\nkept\n" + END + b"\n"),
    ]


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
    assert_whole((piece * (200_000 // len(piece)) + "\n- ```\n").encode() + START)
    assert time.process_time() - started < 3
