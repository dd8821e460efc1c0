#!/bin/sh
# PyYAML 6.0.4 and ruamel.yaml 0.19.1 read the same front matter as different values.
#
# PyYAML follows YAML 1.1: `2:1:7`, a common way to write a split of train, val and test, is a number in base 60, and 017 is
# octal. ruamel.yaml follows 1.2. Both drop the underscore of 10_01, so an id becomes a number.
#
# Seen:
#     PyYAML       split 7267     mode 15   id 1001
#     ruamel.yaml  split '2:1:7'  mode 17   id 1001
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile PyYAML==6.0.4 ruamel.yaml==0.19.1
venv/bin/python - <<'PYTHON'
import yaml
from ruamel.yaml import YAML

TEXT = "split: 2:1:7\nmode: 017\nid: 10_01\n"
one, two = yaml.safe_load(TEXT), YAML(typ="safe").load(TEXT)
print("PyYAML     ", one)
print("ruamel.yaml", two)
assert one == {"split": 7267, "mode": 15, "id": 1001}
assert two == {"split": "2:1:7", "mode": 17, "id": 1001}
PYTHON
