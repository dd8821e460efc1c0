"""Main: `python -m skillopt_mcp.packaging FOLDER` writes the plugin, the bundle's folder and the registry's entry."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from skillopt_mcp.packaging import HERE


def main() -> int:
    """Write the three; the plugin's and the bundle's folders must be new. Raises OSError."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m skillopt_mcp.packaging FOLDER\n")
        return 2
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    written = [shutil.copytree(HERE / part, folder / part) for part in ("plugin", "bundle")]
    written.append(Path(shutil.copy(HERE / "server.json", folder)))
    sys.stdout.writelines(f"{path}\n" for path in written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
