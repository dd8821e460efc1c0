"""Entry: `python -m skillopt_mcp.server`, the same server as `skillopt-mcp serve`."""

from __future__ import annotations

import sys

from skillopt_mcp.cli.main import main

sys.exit(main(["serve", *sys.argv[1:]]))
