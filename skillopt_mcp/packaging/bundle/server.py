"""Server: what the bundle starts, in the environment that uv makes for it."""

import sys

from skillopt_mcp.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["serve", *sys.argv[1:]]))
