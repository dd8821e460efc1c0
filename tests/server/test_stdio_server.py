import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from stdio_peer import StdioPeer, call_frame, serve_command
from tool_calls import add_held_out_task, make_skill

GONE_S = 3.0
SLOW_WORLD = ("--target", "simulated:honest,seed=1,latency_ms=600000")
HEAVY = ("pysqlite3", "openai", "anthropic", "yaml", "re2", "numpy", "skillopt_mcp.store.pool")


def id_first(argument: bytes) -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"inspect","arguments":{"id":%s}}}' % argument
    )


def id_last(argument: bytes) -> bytes:
    return (
        b'{"method":"tools/call","params":{"name":"inspect","arguments":{"id":%s}},"jsonrpc":"2.0","id":7}' % argument
    )


# JSON that the SDK's own transport leaves without an answer (half a surrogate pair, 250 levels, 100,000 digits) goes
# through the same repair and the same refusal as the bytes and the cut frame here.
HOSTILE = {
    "surrogate bytes": b'"cut \xed\xa0\x80"',
    "invalid UTF-8": b'"\xff\xfe"',
    "depth 101": b"[" * 101 + b"]" * 101,
    "1,000 digits": b"9" * 1_000,
    "NaN": b"NaN",
    "overflow": b"1e999",
    "NUL": rb'"\u0000"',
    "line separator": '"\u2028"'.encode(),
    "tag characters": '"\U000e0041"'.encode(),
    "unknown argument": b'"x","extra":1',
    "duplicate key": b'"x","id":"y"',
    "unclosed text": b'"x',
    "nothing": b"",
}


def test_every_hostile_frame_is_answered_and_the_next_call_works(tmp_path: Path) -> None:
    skill = make_skill(tmp_path)
    with StdioPeer(serve_command(tmp_path), tmp_path) as peer:
        peer.initialize()
        peer.write(call_frame(0, "list_skills", {}))  # the first call of all imports what the tools need
        assert peer.answer()["id"] == 0
        for name, argument in HOSTILE.items():
            for frame in (id_first(argument), id_last(argument)):
                started = time.monotonic()
                peer.write(frame)
                answer = peer.answer()
                assert answer["id"] == 7, name
                assert ("error" in answer) or answer["result"]["isError"], name
                assert time.monotonic() - started < 2, name
        peer.write(call_frame(8, "record_trajectory", {"skill": str(skill), "task": "x"}))
        assert peer.answer()["result"]["isError"] is False


def test_a_byte_that_is_no_utf_8_is_recorded_as_the_replacement_character(tmp_path: Path) -> None:
    skill = make_skill(tmp_path)
    with StdioPeer(serve_command(tmp_path), tmp_path) as peer:
        peer.initialize()
        frame = call_frame(1, "record_trajectory", {"skill": str(skill), "task": "x", "answer": "cut"})
        peer.write(frame.replace(b'"cut"', b'"cut \xff"'))
        recorded = peer.answer()["result"]["structuredContent"]
        peer.write(call_frame(2, "inspect", {"id": recorded["trajectory_id"]}))
        assert "cut \N{REPLACEMENT CHARACTER}" in peer.answer()["result"]["structuredContent"]["text"]


def test_garbage_lines_do_no_harm(tmp_path: Path) -> None:
    with StdioPeer(serve_command(tmp_path), tmp_path) as peer:
        peer.initialize()
        for _ in range(100):
            peer.write(b"\n".join([b"garbage", b"", b"{}", b"[]", b"\xff\xfe", b"]" * 50] * 100))
        assert peer.request(1, "ping", {})["result"] == {}


def test_a_client_is_served_over_stdio(tmp_path: Path) -> None:
    skill = make_skill(tmp_path)
    command = serve_command(tmp_path)
    server = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ), cwd=tmp_path)

    async def ask() -> dict[str, Any] | None:
        async with Client(server) as client:
            assert len((await client.list_tools()).tools) == 9
            result = await client.call_tool("record_trajectory", {"skill": str(skill), "task": "x"})
            return result.structured_content

    recorded = anyio.run(ask)
    assert recorded
    assert recorded["n_new"] == 1


def test_stdout_carries_json_rpc_and_nothing_else(tmp_path: Path) -> None:
    skill = make_skill(tmp_path)
    with StdioPeer(serve_command(tmp_path, "--target", "simulated:honest,seed=1"), tmp_path) as peer:
        peer.initialize()
        calls = [
            ("record_trajectory", {"skill": str(skill), "task": "x"}),
            ("record_trajectory", {"skill": "nope", "task": "x"}),
            ("propose_edits", {"skill": str(skill), "edits": [{"op": "append", "content": "x"}]}),
            ("list_skills", {}),
            ("nope", {}),
        ]
        for number, (tool, arguments) in enumerate(calls, 1):
            peer.write(call_frame(number, tool, arguments))
        peer.write(b"garbage")
        assert {peer.answer()["id"] for _ in calls} == {1, 2, 3, 4, 5}
        assert peer.process.stdin
        peer.process.stdin.close()
        assert peer.process.wait(GONE_S) == 0
        assert peer.rest() == []


def test_prints_and_children_never_reach_the_wire() -> None:
    program = (
        "import os, sys; from skillopt_mcp.server.start import claim_pipes; receiving, sending = claim_pipes();"
        "print('print', flush=True); os.system('echo child'); os.write(1, b'raw');"
        "os.write(sending, os.read(receiving, 9) + sys.stdin.read().encode())"
    )
    done = subprocess.run([sys.executable, "-c", program], input=b"wire", capture_output=True, check=True)
    assert done.stdout == b"wire"
    assert done.stderr.split() == [b"print", b"child", b"raw"]


def heavy_modules(stderr: bytes) -> set[str]:
    imported = {line.rsplit(b"|", 1)[-1].strip().decode() for line in stderr.splitlines() if b"|" in line}
    assert "mcp.server" in imported
    return {name for name in HEAVY if name in imported}


def with_import_times(command: list[str]) -> list[str]:
    return [command[0], "-X", "importtime", *command[1:]]


def test_nothing_heavy_is_imported_before_initialize_is_answered(tmp_path: Path) -> None:
    frame = {"jsonrpc": "2.0", "id": 0, "method": "initialize"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    command = with_import_times(serve_command(tmp_path))
    done = subprocess.run(
        command, input=json.dumps({**frame, "params": params}).encode(), capture_output=True, check=True
    )
    assert b'"result"' in done.stdout
    assert heavy_modules(done.stderr) == set()


def test_vendor_libraries_are_not_imported_by_the_demo(tmp_path: Path) -> None:
    program = "import sys; from skillopt_mcp.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-X", "importtime", "-c", program, "demo", "--json", "--dir", str(tmp_path / "demo")]
    done = subprocess.run(command, capture_output=True, check=True)
    imported = {line.rsplit(b"|", 1)[-1].strip() for line in done.stderr.splitlines() if b"|" in line}
    assert b"skillopt_mcp.backends.world" in imported
    assert imported & {b"openai", b"anthropic", b"mcp"} == set()


def test_vendor_libraries_are_not_imported_by_work_on_a_simulation(tmp_path: Path) -> None:
    add_held_out_task(skill := make_skill(tmp_path))
    command = with_import_times(serve_command(tmp_path, "--target", "simulated:honest,seed=1"))
    # A file, for a pipe that is not read yet would hold the server up once it is full.
    log = tmp_path / "stderr"
    with log.open("wb") as stderr, StdioPeer(command, tmp_path, stderr=stderr.fileno()) as peer:
        assert peer.process.stdin
        peer.initialize()
        task = {"prompt": "1 + 2?", "judge": {"kind": "exact", "expected": "3"}}
        for number, (tool, arguments) in enumerate(
            [
                ("add_tasks", {"skill": str(skill), "tasks": [task]}),
                ("propose_edits", {"skill": str(skill), "edits": [{"op": "append", "content": "Add up."}]}),
            ],
            1,
        ):
            peer.write(call_frame(number, tool, arguments))
            result = peer.answer()["result"]
            assert result["isError"] is False
        candidate_id = result["structuredContent"]["candidate_id"]
        peer.write(call_frame(3, "evaluate_candidate", {"candidate_id": candidate_id}))
        assert peer.answer()["result"]["isError"] is False
        peer.process.stdin.close()
        assert peer.process.wait(GONE_S) == 0
    imported = heavy_modules(log.read_bytes())
    assert "skillopt_mcp.store.pool" in imported
    assert imported & {"openai", "anthropic"} == set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_server(tmp_path: Path, number: int) -> None:
    with StdioPeer(serve_command(tmp_path), tmp_path) as peer:
        peer.initialize()
        peer.process.send_signal(number)
        assert peer.process.wait(GONE_S) == 0


def start_slow_call(peer: StdioPeer, skill: Path) -> None:
    """Leave the server in the middle of an evaluation that would take minutes."""
    peer.initialize()
    add_held_out_task(skill)
    peer.write(call_frame(2, "propose_edits", {"skill": str(skill), "edits": [{"op": "append", "content": "x"}]}))
    candidate_id = peer.answer()["result"]["structuredContent"]["candidate_id"]
    peer.write(call_frame(3, "evaluate_candidate", {"candidate_id": candidate_id}))
    peer.write(call_frame(4, "list_skills", {}))
    assert peer.answer()["id"] == 4


def end_input(peer: StdioPeer) -> None:
    assert peer.process.stdin
    peer.process.stdin.close()


def end_by(*numbers: int) -> Callable[[StdioPeer], None]:
    def end(peer: StdioPeer) -> None:
        for number in numbers:
            peer.process.send_signal(number)

    return end


def cancel_and_end_input(peer: StdioPeer) -> None:
    peer.write(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}')
    assert peer.request(5, "ping", {})["result"] == {}
    end_input(peer)


def test_a_server_in_the_middle_of_a_call_ends_in_time_however_its_host_ends_it(tmp_path: Path) -> None:
    endings = [end_input, cancel_and_end_input, end_by(signal.SIGTERM), end_by(signal.SIGINT, signal.SIGTERM)]
    with ExitStack() as stack:
        peers = []
        for number in range(len(endings)):
            place = tmp_path / str(number)
            peers.append(
                stack.enter_context(StdioPeer(serve_command(place, *SLOW_WORLD), make_skill(place).parents[2]))
            )
            start_slow_call(peers[-1], place / "project" / ".claude" / "skills" / "ledger")
        for end, peer in zip(endings, peers, strict=True):
            end(peer)
        deadline = time.monotonic() + GONE_S
        assert [peer.process.wait(max(0.0, deadline - time.monotonic())) for peer in peers] == [0] * len(endings)


# A host that starts a server, prints its pid, keeps (or hands on) the server's stdin, and can then be killed.
HOST = """
import json, subprocess, sys, time
command, frames, hand_on = json.loads(sys.argv[1])
server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
for frame in frames:
    server.stdin.write(frame.encode() + b"\\n")
    server.stdin.flush()
    if '"id"' in frame:
        server.stdout.readline()
if hand_on:
    keeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    subprocess.Popen(keeper, pass_fds=[server.stdin.fileno(), server.stdout.fileno()], stdout=2)
print(server.pid, flush=True)
time.sleep(60)
"""


def gone(pid: int, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("hand_on", [False, True], ids=["its end closes", "another process holds its end"])
def test_a_server_whose_host_is_killed_is_gone_within_3_seconds(tmp_path: Path, *, hand_on: bool) -> None:
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    frames = [json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})]
    reported = json.dumps([serve_command(tmp_path), frames, hand_on])
    with subprocess.Popen(
        [sys.executable, "-c", HOST, reported], stdout=subprocess.PIPE, start_new_session=True
    ) as host:
        assert host.stdout
        server = int(host.stdout.readline())
        assert not gone(server, 0.1)
        host.kill()
        try:
            assert gone(server, GONE_S)
        finally:
            os.killpg(host.pid, signal.SIGKILL)
