"""Main: `python -m skillopt_mcp.packaging FOLDER` writes the plugin, the bundle's folder and the registry's entry."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from skillopt_mcp.packaging.assembling import HERE, assemble_bundle, assemble_plugin


def main() -> int:
    """Return 0 when all three are written."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m skillopt_mcp.packaging FOLDER\n")
        return 2
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    written = [assemble_plugin(folder / "plugin"), assemble_bundle(folder / "bundle")]
    written.append(Path(shutil.copy(HERE / "server.json", folder)))
    sys.stdout.writelines(f"{path}\n" for path in written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
