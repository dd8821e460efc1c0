"""skillopt-mcp: train the skill files of coding agents."""

__version__ = "0.1.0"
