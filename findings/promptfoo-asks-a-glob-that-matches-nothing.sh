#!/bin/sh
# promptfoo 0.123.1: a glob that matches no file is itself sent to the model, and the run exits 0.
#
# `prompts/*.txt` or `file://prompts/*.txt` of an empty folder becomes the text of the prompt; a file named without a glob
# that is missing is an error. One sign decides for plain text too: "What is a/b?" is a prompt, for `?` makes it a glob
# without a match, while "Say yes/no" is taken for a path and fails.
#
# Seen, prompt of the configuration, exit code, what was asked:
#     prompts/*.txt 0 ['prompts/*.txt'];  file://prompts/*.txt 0 ['file://FOLDER/prompts/*.txt'];  prompts/one.txt 1 []
#     What is a/b? 0 ['What is a/b?'];  Say yes/no 1 []
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 - <<'PYTHON'
import pathlib
from promptfoo import evaluate

pathlib.Path("prompts").mkdir()
seen = {}
for prompt in ("prompts/*.txt", "file://prompts/*.txt", "prompts/one.txt", "What is a/b?", "Say yes/no"):
    code, _, results = evaluate(prompt, {"vars": {}})
    seen[prompt] = code, [each["response"]["output"].replace(str(pathlib.Path.cwd()), "FOLDER") for each in results]
    print(prompt, *seen[prompt])
assert seen == {"prompts/*.txt": (0, ["prompts/*.txt"]), "file://prompts/*.txt": (0, ["file://FOLDER/prompts/*.txt"]),
                "prompts/one.txt": (1, []), "What is a/b?": (0, ["What is a/b?"]), "Say yes/no": (1, [])}, seen
PYTHON
