"""Commands: one file a command, or a group of actions; see `skillopt_mcp.cli.command`."""
