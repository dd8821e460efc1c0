"""Malformed: thousands of malformed frames, and whether the next good call is answered each time.

    python benchmarks/malformed.py [--frames N] [--seed N] [--short] [--json]

Bad JSON, deep and large values, wrong types, unknown methods and tools, lists of messages, half lines, bad UTF-8: the
server may answer with an error or not at all. After every burst the same process has to answer a good call.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from benchmarks.doors import INITIALIZE, ours, parser, show

FRAMES, SHORT, BURST = 10_000, 600, 40
PATIENCE_S = 60.0
NAMES = (
    "initialize",
    "tools/call",
    "tools/list",
    "resources/read",
    "prompts/get",
    "ping",
    "no/such",
    "",
    "\x00",
    "a" * 999,
)


@dataclass
class Found:
    """How many frames were sent, how many good calls answered, and what may not happen."""

    frames: int = 0
    good_calls: int = 0
    unanswered: int = 0
    lines_that_are_no_json: int = 0
    rss_mb: int = 0


def _value(chance: Random, depth: int = 0) -> object:
    """Return something that may stand where a message has something else."""
    atoms: list[object] = [None, True, -1, 1e308, 10**40, "", "x" * chance.randrange(300), "\0", "\u202e", "NaN"]
    if depth > 3 or chance.random() < 0.6:
        return chance.choice(atoms)
    if chance.random() < 0.5:
        return [_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {str(chance.choice(["a", "name", "arguments", "skill", ""])): _value(chance, depth + 1) for _ in range(3)}


def _message(chance: Random) -> dict[str, object]:
    return {
        "jsonrpc": chance.choice(["2.0", "1.0", 2, None]),
        "id": chance.choice([1, "x", None, 1.5, -7, [], 10**30]),
        "method": chance.choice(NAMES),
        "params": _value(chance),
    }


def _wrong_call(chance: Random) -> bytes:
    tool = chance.choice(["record_trajectory", "add_tasks", "propose_edits", "submit_work", "inspect", "nope"])
    call = {"name": tool, "arguments": _value(chance)}
    return json.dumps(
        {"jsonrpc": "2.0", "id": chance.randrange(10**6, 10**7), "method": "tools/call", "params": call}
    ).encode()


def _kinds() -> list[Callable[[Random], bytes]]:
    return [
        lambda chance: json.dumps(_message(chance)).encode(),
        _wrong_call,
        lambda chance: json.dumps(_message(chance)).encode()[: chance.randrange(1, 40)],
        lambda chance: json.dumps([_message(chance) for _ in range(chance.randrange(4))]).encode(),
        lambda chance: b"[" * chance.randrange(1, 100),
        lambda chance: b'{"jsonrpc":"2.0","id":2,"method":"ping","params":' + b'{"a":' * 150 + b"1" + b"}" * 150 + b"}",
        lambda chance: bytes(chance.randrange(256) for _ in range(chance.randrange(60))).replace(b"\n", b""),
        lambda chance: (
            b'{"jsonrpc":"2.0","id":3,"method":"ping","params":{"a":"' + b"y" * chance.randrange(200_000) + b'"}}'
        ),
        lambda chance: b'{"jsonrpc":"2.0","id":' + b"9" * chance.randrange(1, 1_000) + b',"method":"ping"}',
        lambda chance: b"",
        lambda chance: b"\r",
        lambda chance: b"Content-Length: 12\r",
    ]


def measure(n_frames: int, seed: int) -> Found:
    """Return what came of so many frames, in bursts with a good call after each."""
    chance, found, kinds = Random(seed), Found(), _kinds()
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            ours(Path(folder) / "store.db"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd=folder, env={**os.environ, "HOME": folder},
        )  # fmt: skip
        assert server.stdin
        _ask(server, 0, "initialize", INITIALIZE, found)
        server.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        while found.frames < n_frames:
            burst = [chance.choice(kinds)(chance) for _ in range(min(BURST, n_frames - found.frames))]
            server.stdin.write(b"\n".join(burst) + b"\n")
            found.frames += len(burst)
            call = {"name": "list_skills", "arguments": {}}
            if not _ask(server, 10**8 + found.frames, "tools/call", call, found):
                found.unanswered += 1
                break
            found.good_calls += 1
        found.rss_mb = _rss_mb(server.pid)
        server.stdin.close()
        server.wait()
        assert server.stdout
        server.stdout.close()
    return found


def _ask(server: subprocess.Popen[bytes], number: int, method: str, params: Mapping[str, object], found: Found) -> bool:
    """Return whether a good request is answered; what else the server says meanwhile has to be JSON."""
    assert server.stdin
    assert server.stdout
    server.stdin.write(
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"
    )
    server.stdin.flush()
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and (line := server.stdout.readline()):
        try:
            answer = json.loads(line)
        except ValueError:
            found.lines_that_are_no_json += 1
            continue
        if answer.get("id") == number:
            return "result" in answer
    return False


def _rss_mb(pid: int) -> int:
    path = Path(f"/proc/{pid}/status")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")), 0)


def main() -> None:
    flags = parser(__doc__, f"{SHORT} frames")
    flags.add_argument("--frames", type=int, default=FRAMES)
    flags.add_argument("--seed", type=int, default=1)
    options = flags.parse_args()
    found = measure(SHORT if options.short else options.frames, options.seed)
    show(asdict(found), options.json, unanswered="0", lines_that_are_no_json="0")
    sys.exit(bool(found.unanswered or found.lines_that_are_no_json))


if __name__ == "__main__":
    main()
