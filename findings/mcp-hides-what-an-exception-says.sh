#!/bin/sh
# mcp 2.3.0 (Python SDK): of an exception in a tool the caller learns nothing but the tool's name, unless it is a ToolError.
#
# ValueError, FileNotFoundError and the like arrive as "Error executing tool NAME". A wrong
# argument, though, is answered with the whole validation report. An argument that no parameter has is dropped in
# silence, so a misspelt optional one has no effect.
#
# Seen:
#     ValueError  -> Error executing tool fails
#     ToolError   -> Error executing tool says: the file is locked by pid 12
#     misspelt    -> limit=10
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile mcp==2.3.0
venv/bin/python - <<'PYTHON'
import asyncio
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("errors")

@server.tool()
def fails() -> str:
    raise ValueError("the file is locked by pid 12")

@server.tool()
def says() -> str:
    raise ToolError("the file is locked by pid 12")

@server.tool()
def listing(limit: int = 10) -> str:
    return f"limit={limit}"

async def main():
    async with Client(server) as client:
        calls = [("fails", {}), ("says", {}), ("listing", {"limits": 3})]
        texts = [(await client.call_tool(tool, arguments)).content[0].text for tool, arguments in calls]
    for name, text in zip(("ValueError ", "ToolError  ", "misspelt   "), texts):
        print(name, "->", text)
    assert texts[0] == "Error executing tool fails" and "pid 12" in texts[1] and texts[2] == "limit=10", texts

asyncio.run(main())
PYTHON
