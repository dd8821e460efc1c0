#!/bin/sh
# mcp 2.3.0 (Python SDK): a text for a parameter of type `str | None` is parsed as JSON first.
#
# For `str` it arrives as it was sent. For `str | None` the text "null" arrives as None, and a text that happens to be a JSON
# list or object is refused as "not a valid string". A tool that takes Markdown, code or a model's reply in an optional
# parameter loses or refuses some of them.
#
# Seen:
#     str          'null' -> 'null'      '[1, 2]' -> '[1, 2]'
#     str | None   'null' -> None        '[1, 2]' -> error: Input should be a valid string
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

server = MCPServer("texts")

@server.tool()
def required(text: str) -> str:
    return repr(text)

@server.tool()
def optional(text: str | None = None) -> str:
    return repr(text)

async def main():
    seen = {}
    async with Client(server) as client:
        for tool in ("required", "optional"):
            for text in ("null", "[1, 2]"):
                result = await client.call_tool(tool, {"text": text})
                said = result.content[0].text
                seen[tool, text] = "error" if result.is_error else said
                print(f"{tool:9} {text!r} -> {said.splitlines()[-2].strip() if result.is_error else said}")
    assert list(seen.values()) == ["'null'", "'[1, 2]'", "None", "error"], seen

asyncio.run(main())
PYTHON
