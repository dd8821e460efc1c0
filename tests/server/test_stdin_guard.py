import json
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from skillopt_mcp.server import wire as stdin_guard
from skillopt_mcp.server.wire import Refusal, read_frame, read_frames

PARSE_ERROR, INVALID_REQUEST = -32700, -32600


def id_first(argument: bytes, frame_id: bytes = b"7") -> bytes:
    return b'{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"a":%s}}' % (frame_id, argument)


def id_last(argument: bytes, frame_id: bytes = b"7") -> bytes:
    return b'{"method":"tools/call","params":{"a":%s,"id":1},"jsonrpc":"2.0","id":%s}' % (argument, frame_id)


ORDERS = pytest.mark.parametrize("frame", [id_first, id_last])


def chunks(*parts: bytes) -> Callable[[], bytes]:
    left: Iterator[bytes] = iter(parts)
    return lambda: next(left, b"")


def argument(outcome: object) -> object:
    assert isinstance(outcome, JSONRPCRequest)
    assert outcome.id == 7
    assert outcome.params is not None
    return outcome.params["a"]


@ORDERS
@pytest.mark.parametrize("text", [rb'"cut \ud83d"', rb'"cut \udc00"', b'"cut \xed\xa0\x80"'])
def test_a_lone_surrogate_is_repaired(frame: Callable[[bytes], bytes], text: bytes) -> None:
    assert argument(read_frame(frame(text))) == "cut \N{REPLACEMENT CHARACTER}"


def test_a_surrogate_pair_and_an_escaped_backslash_stay_as_they_are() -> None:
    line = id_first(rb'["\ud83d\ude00", "\\ud83d", "\ud83d"]')
    assert argument(read_frame(line)) == ["😀", "\\ud83d", "\N{REPLACEMENT CHARACTER}"]


@ORDERS
@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (b'"a\rb"', "This message is not valid JSON (Invalid control character at, character "),
        (b'"\xff"', "This message is not valid UTF-8; encode it as UTF-8."),
        (b"[" * 150 + b"]" * 150, "This message is nested deeper than 100 levels; flatten it."),
        (b"[" * 250 + b"]" * 250, "This message is nested deeper than 100 levels; flatten it."),
        (b"[" * 100_000 + b"]" * 100_000, "This message is nested deeper than 100 levels; flatten it."),
        (b"9" * 100_000, "This message holds a number of more than 4300 digits; shorten it."),
        (b"NaN", "This message holds NaN or an infinite number, which is not JSON; leave it out."),
        (b"[[-Infinity]]", "This message holds NaN or an infinite number, which is not JSON; leave it out."),
        (b"1e999", "This message holds NaN or an infinite number, which is not JSON; leave it out."),
        (b'"open', "This message is not valid JSON ("),
    ],
)
def test_a_frame_that_cannot_be_served_is_refused_under_its_own_id(
    frame: Callable[[bytes], bytes], argument: bytes, message: str
) -> None:
    outcome = read_frame(frame(argument))
    assert isinstance(outcome, Refusal)
    assert (outcome.id, outcome.code) == (7, PARSE_ERROR)
    assert outcome.message.startswith(message)


@ORDERS
def test_depth_up_to_the_limit_is_served(frame: Callable[[bytes], bytes]) -> None:
    within = stdin_guard.MAX_DEPTH - 1  # params itself is the first level
    assert isinstance(read_frame(frame(b"[" * within + b"]" * within)), JSONRPCRequest)
    assert isinstance(read_frame(frame(b"[" * (within + 1) + b"]" * (within + 1))), Refusal)


@pytest.mark.parametrize(
    ("line", "frame_id"),
    [
        (b'{"jsonrpc":"2.0","id":3}', 3),
        (b'{"id":3,"method":"x"}', 3),
        (b'{"jsonrpc":"1.0","id":"three","method":"x"}', "three"),
        (b'{"jsonrpc":"2.0","id":3,"method":"x","params":[1]}', 3),
        (id_first(b"1", b"1.5"), 1.5),
        (id_first(b"1", b"true"), None),
        (id_first(b"1", b"null"), None),
        (b'[{"jsonrpc":"2.0","id":3,"method":"x"}]', None),
    ],
)
def test_what_is_not_a_request_of_this_protocol_is_refused(line: bytes, frame_id: object) -> None:
    outcome = read_frame(line)
    assert isinstance(outcome, Refusal)
    assert (outcome.id, outcome.code) == (frame_id, INVALID_REQUEST)


@pytest.mark.parametrize("line", [b"", b"  \r", b"garbage", b"{}", b"[1]", b"5", b"{", b"\xff"])
def test_blank_lines_and_garbage_ask_for_nothing(line: bytes) -> None:
    assert read_frame(line) is None


def test_notifications_and_responses_pass() -> None:
    assert isinstance(read_frame(b'{"jsonrpc":"2.0","method":"x","params":{"id":1}}'), JSONRPCNotification)
    assert isinstance(read_frame(b'{"jsonrpc":"2.0","id":1,"result":{}}'), JSONRPCResponse)
    assert read_frame(b'{"id":1,"result":{}}') is None


def test_a_refusal_is_one_line_of_json_rpc() -> None:
    frame = Refusal("a\n", PARSE_ERROR, "no").frame()
    assert frame.count(b"\n") == 1
    assert json.loads(frame) == {"jsonrpc": "2.0", "id": "a\n", "error": {"code": PARSE_ERROR, "message": "no"}}


@ORDERS
def test_a_frame_over_the_limit_is_refused_and_the_next_one_served(frame: Callable[[bytes], bytes]) -> None:
    huge = frame(b'"' + b"x" * (stdin_guard.MAX_FRAME_BYTES + 1) + b'"')
    parts = [huge[at : at + 65536] for at in range(0, len(huge), 65536)]
    first, second = read_frames(chunks(*parts, b"\n" + frame(b"2") + b"\n"))
    assert first == Refusal(7, PARSE_ERROR, "This message has 8.0 MiB, over the limit of 8 MiB; send less.")
    assert argument(second) == 2


def test_a_frame_over_the_limit_is_not_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdin_guard, "MAX_FRAME_BYTES", 100_000)
    frame = stdin_guard._Frame()
    for _ in range(100):
        frame.add(b"x" * 65536)
    assert sum(map(len, frame.parts)) <= 2 * 4096


@given(st.data())
def test_frames_do_not_depend_on_how_the_pipe_cuts_them(data: st.DataObject) -> None:
    lines = [id_first(b'"a"'), b"", id_last(rb'"\ud83d"'), b"garbage", id_first(b"NaN"), id_last('"ü"'.encode())]
    whole = b"\n".join(lines)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=20)))
    parts = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert list(read_frames(chunks(*parts))) == [outcome for line in lines if (outcome := read_frame(line))]


@given(st.binary(max_size=300))
def test_no_bytes_stop_the_reader(noise: bytes) -> None:
    outcomes = list(read_frames(chunks(noise + b"\n", id_first(b"1"))))
    assert argument(outcomes[-1]) == 1


@given(st.integers(), st.text())
def test_every_cut_of_a_request_behind_its_id_is_refused_under_it(number: int, text: str) -> None:
    line = id_first(json.dumps([number, text], ensure_ascii=False).encode("utf-8", "surrogatepass"))
    for end in range(line.index(b"7,") + 2, len(line), 7):
        outcome = read_frame(line[:end])
        assert isinstance(outcome, Refusal)
        assert outcome.id == 7
