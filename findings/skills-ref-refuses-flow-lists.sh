#!/bin/sh
# skills-ref 0.1.1, the reference validator of Agent Skills: valid YAML with brackets, braces or anchors is "invalid".
#
# Its reader is strictyaml, a subset of YAML. `allowed-tools: [Read]` and `metadata: {version: "1.0"}` fail, the same data in
# block style passes. A skill that its host loads may so fail the validator over style.
#
# Seen (exit code of agentskills validate):
#     allowed-tools: [Read] 1;  block list 0;  metadata: {version: "1.0"} 1;  metadata in a block 0
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile skills-ref==0.1.1
venv/bin/python - <<'PYTHON'
import pathlib, subprocess

CASES = {"flow-list": "allowed-tools: [Read]", "block-list": "allowed-tools:\n  - Read",
         "flow-map": 'metadata: {version: "1.0"}', "block-map": "metadata:\n  version: 1.0"}
codes = {}
for name, extra in CASES.items():
    folder = pathlib.Path(name)
    folder.mkdir()
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Use it for dates.\n{extra}\n---\nBody\n")
    done = subprocess.run(["venv/bin/agentskills", "validate", name], capture_output=True, text=True)
    codes[name] = done.returncode
    print(name, done.returncode)
assert codes == {"flow-list": 1, "block-list": 0, "flow-map": 1, "block-map": 0}, codes
PYTHON
