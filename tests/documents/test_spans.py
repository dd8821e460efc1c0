"""Spans: what is front matter, body, code and protected, and that nothing is lost."""

from __future__ import annotations

import time

import pytest
from corpus import BYTES, DOCUMENTS
from hypothesis import given

from skillopt_mcp.documents.markdown import Document, has_marker, parse

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


@given(BYTES)
def test_offsets_come_back_from_the_unified_text(content: bytes) -> None:
    unified = parse(content).unified
    assert b"\r" not in unified.text
    for at in range(len(unified.text) + 1):
        assert unified.from_original(unified.to_original(at)) == at


def test_a_document_is_cut_into_its_four_kinds() -> None:
    content = b"---\nname: x\n---\nText.\n```py\ncode\n```\nMore.\n" + START + b"\nkept\n" + END + b"\n"
    assert parts(content) == [
        ("front_matter", b"---\nname: x\n---\n"),
        ("body", b"Text.\n"),
        ("code", b"```py\ncode\n```\n"),
        ("body", b"More.\n"),
        ("protected", START + b"\nkept\n" + END + b"\n"),
    ]


def test_a_real_shape_has_its_region_and_not_the_marker_in_its_code() -> None:
    [region] = protected(DOCUMENTS["trained"])
    assert region.startswith(START + b"\nMatch on amount first")
    assert region.endswith(END + b"\n")


def test_both_kinds_of_region_are_found_with_any_space_in_the_comment() -> None:
    content = b"a\n<!--SLOW_UPDATE_START-->\nx\n<!--\tSLOW_UPDATE_END  -->\nb\n"
    content += b"<!--\nAPPENDIX_START -->y<!-- APPENDIX_END -->c\n"
    assert protected(content) == [
        b"<!--SLOW_UPDATE_START-->\nx\n<!--\tSLOW_UPDATE_END  -->\n",
        b"<!--\nAPPENDIX_START -->y<!-- APPENDIX_END -->",
    ]


def test_a_start_without_an_end_protects_the_rest() -> None:
    assert protected(b"a\n" + START + b"\nx\n") == [START + b"\nx\n"]


def test_an_end_without_a_start_protects_itself() -> None:
    assert protected(b"a\n" + END + b"\nx\n") == [END + b"\n"]


def test_a_second_start_changes_nothing_and_two_whole_regions_are_both_protected() -> None:
    assert protected(START + b"1" + START + b"2" + END + b"3") == [START + b"1" + START + b"2" + END]
    assert protected(START + b"1" + END + b"2" + START + b"3" + END) == [START + b"1" + END, START + b"3" + END]


def test_regions_that_cross_are_one() -> None:
    content = START + b"1<!-- APPENDIX_START -->2" + END + b"3<!-- APPENDIX_END -->4"
    assert protected(content) == [content[:-1]]


def test_a_marker_after_a_fence_that_never_closes_still_counts() -> None:
    assert protected(b"```\ncode\n" + START + b"\nx\n" + END + b"\n") == [START + b"\nx\n" + END + b"\n"]


def test_indentation_before_a_marker_is_protected_with_it() -> None:
    assert protected(b"a\n  " + START + b"x" + END + b" \t\r\nb") == [b"  " + START + b"x" + END + b" \t\r\n"]


@pytest.mark.parametrize(
    "piece", ["- ", "> ", "- ```\n", "<!-- ", "   " + END.decode(), "\t", "```\n" + START.decode()]
)
def test_a_large_hostile_document_is_read_soon(piece: str) -> None:
    started = time.process_time()
    assert_whole((piece * (200_000 // len(piece)) + "\n- ```\n").encode() + START)
    assert time.process_time() - started < 3


def test_text_with_a_marker_or_its_beginning_is_recognised() -> None:
    assert has_marker("x <!--  slow_update_end")
    assert has_marker("<!-- APPENDIX_START -->")
    assert not has_marker("<!-- a note --> SLOW_UPDATE_START")
