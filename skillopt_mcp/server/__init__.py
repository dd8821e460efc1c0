"""Server: the operations as MCP tools over stdio."""
