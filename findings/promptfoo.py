"""promptfoo 0.123.1 in this folder, and what it makes of a configuration whose provider is its own "echo"."""

import json
import os
import pathlib
import platform
import subprocess

VERSION, NODE, BINDING = "0.123.1", "22.23.3", "0.5.29"
# Its optional packages are more than 1 GB; it needs but the binding of its database.
arch = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
system = {"Linux": f"linux-{arch}-gnu", "Darwin": f"darwin-{arch}"}[platform.system()]
packages = f"promptfoo@{VERSION}", f"node@{NODE}", f"@libsql/{system}@{BINDING}"
subprocess.run(
    ["npm", "install", "--silent", "--no-fund", "--no-audit", "--omit=optional", "--prefix", ".", *packages], check=True
)


def evaluate(prompt, *tests):
    """The exit code, what it wrote, and the results in the order of the tests."""
    folder = pathlib.Path.cwd()
    config, out = folder / "promptfooconfig.json", folder / "out.json"
    config.write_text(json.dumps({"prompts": [prompt], "providers": ["echo"], "tests": list(tests)}))
    out.unlink(missing_ok=True)
    names = "PROMPTFOO_DISABLE_TELEMETRY", "PROMPTFOO_DISABLE_UPDATE", "PROMPTFOO_DISABLE_REMOTE_GENERATION"
    env = os.environ | dict.fromkeys(names, "1") | {"PROMPTFOO_CONFIG_DIR": str(folder / "home")}
    command = "node_modules/.bin/node", "node_modules/promptfoo/dist/src/entrypoint.js", "eval", "-c", config, "-o", out
    done = subprocess.run([*command, "--no-cache", "--no-table"], env=env, capture_output=True, text=True, timeout=300)
    results = json.loads(out.read_text())["results"]["results"] if out.exists() else []
    return done.returncode, done.stdout + done.stderr, sorted(results, key=lambda each: each["testIdx"])
