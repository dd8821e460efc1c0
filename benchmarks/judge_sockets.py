"""Judge sockets: how many UNIX sockets, such as those of docker and ssh-agent, a judge program reaches."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from skillopt_mcp.backends.programs import CommandRunner, bwrap_fault, describe_barrier, register_command
from skillopt_mcp.core.judging import Attempt
from skillopt_mcp.core.replies import CheckReply
from skillopt_mcp.tasks.judges.kinds.command import check_call

_CODE = """
import socket, sys
for address in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(address.replace("@", chr(0)))
        print("reached", address)
    except OSError as error:
        print(error, address)
"""


def socket_reached(*, unconfined: bool = False) -> int | None:
    """Return how many of three sockets a program reaches: in /tmp, in a home's .ssh, abstract; None without bwrap."""
    if not unconfined and bwrap_fault():
        return None
    with ExitStack() as stack:
        addresses = [f"@skillopt-mcp-{os.getpid()}"]
        for parent, inner in (("/tmp", "docker.sock"), ("/var/tmp", "home/.ssh/agent")):
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=parent)), inner)
            path.parent.mkdir(parents=True, exist_ok=True)
            for folder in path.parents[: inner.count("/") + 1]:
                folder.chmod(0o755)
            addresses.append(str(path))
        for address in addresses:
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(address.replace("@", "\0"))
            server.listen()
            if not address.startswith("@"):
                os.chmod(address, 0o777)
        pythons = [path for path in (sys.executable, "/usr/bin/python3") if not describe_barrier([path])]
        command = register_command("reach", [pythons[0], "-c", _CODE, *addresses], unconfined=unconfined)
        reply = asyncio.run(
            CommandRunner({"reach": command}).complete(check_call("reach", Attempt("", draw="sockets")))
        )
    ended = CheckReply.model_validate_json(reply.text)
    assert ended.exit == 0, ended.output
    return ended.output.count("reached")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.parse_args()
    print(json.dumps({"socket_reached": socket_reached(), "without_bubblewrap": socket_reached(unconfined=True)}))
