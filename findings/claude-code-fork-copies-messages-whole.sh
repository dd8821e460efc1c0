#!/bin/sh
# Claude Code 2.1.332: a session that is forked (--resume ID --fork-session) begins its file with a copy of the other one.
#
# The copied messages keep their uuids and times, under the new session's id: who counts sessions, answers or tokens over the
# files of a project counts them once for each fork. A uuid is no key of a message, unless its first file is kept.
#
# Seen:
#     messages of the first session 2, all of them in the fork with the same uuid and time: True, sessionId the same: False
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-fund --no-audit --prefix . @anthropic-ai/claude-code@2.1.332
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 - <<'PYTHON'
import json
from fake_model import HOME, claude, serve

def ask(prompt, *more):
    options = ("--model", "claude-sonnet-4-5", "--output-format", "json", *more)
    return json.loads(claude("-p", prompt, *options, ANTHROPIC_BASE_URL=serve(), ANTHROPIC_API_KEY="none").stdout)["session_id"]

def messages(session):
    [path] = HOME.glob(f".claude/projects/*/{session}.jsonl")
    lines = map(json.loads, path.read_text().splitlines())
    return {line["uuid"]: line for line in lines if line["type"] in ("user", "assistant")}

first = ask("Hello")
fork = ask("And again", "--resume", first, "--fork-session")
before, copied = messages(first), messages(fork)
same_time = all(each in copied and copied[each]["timestamp"] == before[each]["timestamp"] for each in before)
same_session = any(each in copied and copied[each]["sessionId"] == first for each in before)
print(f"messages of the first session {len(before)}, all of them in the fork with the same uuid and time: {same_time}, "
      f"sessionId the same: {same_session}")
assert (len(before), same_time, same_session, fork != first) == (2, True, False, True)
PYTHON
