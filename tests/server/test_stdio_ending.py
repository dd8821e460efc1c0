"""What becomes of the requests that are open when a host closes its input, stops reading, or is gone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from full_server import SEED, World
from stdio_peer import StdioPeer, call_frame, serve_command
from tool_calls import add_held_out_task, make_skill

from skillopt_mcp.store.pool import connect

GONE_S = 3.0
CLIENT = {"name": "test", "version": "1"}
# The server with no time to spare for a host that is gone.
NO_GRACE = """
import sys
from skillopt_mcp.cli.main import main
from skillopt_mcp.server import lifecycle as ending
ending.GRACE_S = 0.0
sys.exit(main(["serve", *sys.argv[1:]]))
"""


def opening(**capabilities: object) -> bytes:
    params = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": CLIENT}
    return json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode()


def record(number: int, skill: Path) -> bytes:
    return call_frame(
        number, "record_trajectory", {"skill": str(skill), "task": "x", "session_id": "s", "index": number}
    )


def test_who_still_reads_gets_the_answers_however_long_they_take(tmp_path: Path) -> None:
    skill = make_skill(tmp_path)
    command = [sys.executable, "-c", NO_GRACE, "--store", str(tmp_path / "store.db")]
    frames = [opening(), *(record(number, skill) for number in range(1, 21))]
    done = subprocess.run(command, input=b"\n".join(frames), capture_output=True, cwd=tmp_path, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(answer["id"] for answer in answers) == list(range(21))
    assert {answer["result"].get("isError", False) for answer in answers} == {False}


def test_a_call_that_waits_for_work_is_shown_that_it_goes_on_when_the_input_ends(tmp_path: Path) -> None:
    add_held_out_task(skill := make_skill(tmp_path))
    command = serve_command(tmp_path, "--target", "simulated:honest,seed=1,latency_ms=600000")
    with StdioPeer(command, tmp_path) as peer:
        assert peer.process.stdin
        peer.initialize()
        peer.write(call_frame(2, "propose_edits", {"skill": str(skill), "edits": [{"op": "append", "content": "x"}]}))
        candidate_id = peer.answer()["result"]["structuredContent"]["candidate_id"]
        peer.write(call_frame(3, "evaluate_candidate", {"candidate_id": candidate_id}))
        peer.process.stdin.close()
        answer = peer.answer()
        assert (answer["id"], answer["result"]["structuredContent"]["status"]) == (3, "running")
        assert peer.process.wait(GONE_S) == 0


def test_a_question_to_the_person_is_over_when_the_input_ends(tmp_path: Path) -> None:
    world = World(tmp_path)
    before, candidate_id = world.main.read_bytes(), world.accepted()
    command = serve_command(tmp_path, "--require-approval", "--target", f"simulated:honest,seed={SEED}")
    with StdioPeer(command, tmp_path) as peer:
        assert peer.process.stdin
        peer.write(opening(elicitation={}))
        assert peer.answer()["id"] == 0
        peer.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        peer.write(call_frame(1, "promote_skill", {"candidate_id": candidate_id}))
        assert peer.answer()["method"] == "elicitation/create"
        peer.process.stdin.close()
        answer = peer.answer()
        result = answer["result"]["structuredContent"]
        assert (answer["id"], result["status"]) == (1, "needs_approval")
        assert "the host has closed its input" in result["reason"]
        assert peer.process.wait(GONE_S) == 0
    assert world.main.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="polls a pipe")
def test_a_server_that_no_one_reads_from_is_gone_within_3_seconds_in_the_middle_of_a_call(tmp_path: Path) -> None:
    skill, store = make_skill(tmp_path), tmp_path / "store.db"
    with subprocess.Popen(
        serve_command(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path
    ) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write(b"\n".join([opening(), record(1, skill), b""]))
        server.stdin.flush()
        assert [json.loads(server.stdout.readline())["id"] for _ in range(2)] == [0, 1]
        other = connect(store)
        try:
            other.execute("begin immediate")
            server.stdin.write(record(2, skill) + b"\n")
            server.stdin.close()
            server.stdout.close()
            assert server.wait(GONE_S) == 0
        finally:
            other.close()
            server.kill()
