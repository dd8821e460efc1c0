"""Hostile body: the peak memory of a process that a vendor answers with 150 MB or many small objects.

A reader without a limit on decoded bytes would pass 250 MB, and end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterable
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import repeat
from pathlib import Path

from skillopt_mcp.backends.anthropic import open_anthropic
from skillopt_mcp.backends.api.clients import BODY_BYTES
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.openai import open_openai
from skillopt_mcp.core.calls import Call, Question

_MB = 1_000_000
CASES = ("150 MB", "compressed", "objects", "error")


def peak_rss_mb_hostile_body() -> float:
    """Return the highest peak over all cases and both vendors, in MB."""
    return max(peaks().values())


def peaks() -> dict[str, float]:
    """Return the peak of a process that asks each vendor in each case, in MB."""
    found = {}
    for case in CASES:
        for vendor in ("openai", "anthropic"):
            with ThreadingHTTPServer(("127.0.0.1", 0), _handler(case, vendor)) as server:
                threading.Thread(target=server.serve_forever, daemon=True).start()
                asked = [sys.executable, "-m", "benchmarks.hostile_body", "--ask", vendor, case]
                ended = subprocess.run(
                    [*asked, f"http://127.0.0.1:{server.server_port}"],
                    capture_output=True, text=True, cwd=Path(__file__).parents[1],
                )  # fmt: skip
                assert ended.returncode == 0, ended.stderr
                found[f"{vendor}, {case}"] = float(ended.stdout)
                server.shutdown()
    return found


def _handler(case: str, vendor: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(400 if case == "error" else 200)
            self.send_header("content-type", "application/json")
            if case == "compressed":
                self.send_header("content-encoding", "gzip")
            self.end_headers()
            try:
                for part in _parts(case, vendor):
                    self.wfile.write(part)
            except OSError:
                pass

    return Handler


def _parts(case: str, vendor: str) -> Iterable[bytes]:
    """Return the parts of a body, which this process does not hold as a whole."""
    if case == "150 MB":
        return repeat(b" " * _MB, 150)
    if case == "compressed":
        return [_compressed()]
    start = b'{"error":[' if case == "error" else b'{"output":[' if vendor == "openai" else b'{"content":['
    item = b"[]," if case == "error" else b'{"type":""},'
    return [start + item * (BODY_BYTES // len(item) - 10) + item[:-1] + b"]}"]


@cache
def _compressed() -> bytes:
    """150 MB of spaces, compressed."""
    compressor = zlib.compressobj(wbits=31)
    return b"".join([compressor.compress(b" " * _MB) for _ in range(150)]) + compressor.flush()


def _ask(vendor: str, case: str, url: str) -> None:
    """Ask a vendor, and print the peak of this process."""
    text, key = f"m,base_url={url},max_tokens=100", {"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none"}
    backend = open_openai(text, key) if vendor == "openai" else open_anthropic(text, key)
    try:
        asyncio.run(backend.complete(Call("optimizer", "reflect", Question("Answer.", "-", "patch"), "r")))
        raise AssertionError("it was read as an answer")
    except BackendFault as fault:
        print(fault.message, file=sys.stderr)
    # Not what getrusage says, which counts the parent's peak too.
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(int(peak.split()[1]) * 1024 / _MB)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--ask", nargs=3, metavar=("VENDOR", "CASE", "URL"), help="ask one, and print the peak in MB")
    options = parser.parse_args()
    if options.ask:
        _ask(*options.ask)
    else:
        print(json.dumps({"peak_rss_mb_hostile_body": peaks()}, indent=None if options.json else 1))
