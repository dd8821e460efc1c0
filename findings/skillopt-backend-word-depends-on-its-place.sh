#!/bin/sh
# SkillOpt 0.2.0: model.backend chooses who answers on the command line, and nothing in a settings file.
#
# With `backend: claude` in the file both roles stay openai_chat; with `--cfg-options model.backend=claude` both are
# claude_chat. And the word "openai" is an alias of "codex": it makes the Codex CLI the target, not the vendor's API.
#
# Seen (optimizer, target):
#     file: claude                  openai_chat openai_chat
#     --cfg-options claude          claude_chat claude_chat
#     --cfg-options openai          openai_chat codex_exec
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile skillopt==0.2.0
venv/bin/python - <<'PYTHON'
import pathlib, sys
from scripts import train

def roles(text, *more):
    pathlib.Path("settings.yaml").write_text(text)
    sys.argv = ["train", "--config", "settings.yaml", "--env", "searchqa", *more]
    settings = train.load_config(train.parse_args())
    return settings["optimizer_backend"], settings["target_backend"]

seen = {"file: claude": roles("model:\n  backend: claude\n"),
        "--cfg-options claude": roles("{}\n", "--cfg-options", "model.backend=claude"),
        "--cfg-options openai": roles("{}\n", "--cfg-options", "model.backend=openai")}
for name, found in seen.items():
    print(f"{name:22}", *found)
chat = "openai_chat", "openai_chat"
assert list(seen.values()) == [chat, ("claude_chat", "claude_chat"), ("openai_chat", "codex_exec")], seen
PYTHON
