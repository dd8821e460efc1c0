"""Hatch build: the list of tools goes into the wheel, so that a server sends it before it imports the tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface[Any]):
    """Writes `server/tools.json`; a checkout has none, and lists its tools from the code."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file to what is packed."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from skillopt_mcp.server.app import listing  # noqa: PLC0415
        from skillopt_mcp.server.tools import tools_over  # noqa: PLC0415
        from skillopt_mcp.workspace.workspace import Workspace  # noqa: PLC0415

        path = Path(self.directory) / "tools.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(listing(tools_over(Workspace(Path("skillopt.db")))), "utf-8")
        build_data["force_include"][str(path)] = "skillopt_mcp/server/tools.json"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the file again: it is not a package."""
        (Path(self.directory) / "tools.json").unlink(missing_ok=True)
