#!/bin/sh
# skillrl 1.0.0: an analyst is shown the beginning of the skill once more with each attempt, and each answer twice.
#
# The conversation of its question-answering environment holds the system prompt, which is the skill, and the answer: both
# stand next to "Current Skill" and "Model answer". Of a message only 800 characters are shown, head and tail: what a judge
# quotes out of the middle of a longer one is not there. Count this before you compare prompts by their length.
#
# Seen, for a minibatch of 8 attempts:
#     skill 9 times, answers 16 times, middle of the skill once
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile skillrl==1.0.0
venv/bin/python - <<'PYTHON'
from skillrl.envs.qa import SimpleQAEnv
from skillrl.pipeline.reflect import run_minibatch_reflect

class Client:
    model, prompts = "made-up", []
    def chat(self, *, system, user, stage="", **_):
        if stage == "analyst":
            Client.prompts.append(user)
            return '{"reasoning": "r", "edits": []}', {}
        return "I looked at every page of the ledger, and at the notes below each of its tables. " * 2 + "ANSWER: 12.50", {}

SKILL = "# BEGINNING\n\n" + "- Read the page first.\n" * 40 + "- MIDDLE.\n" + "- Give two decimals.\n" * 40
items = [{"id": str(n), "question": f"What is item {n}?", "context": "", "answers": ["none of these"]} for n in range(8)]
client = Client()
env = SimpleQAEnv(train_items=items, val_items=items[:1], test_items=items[:1])
results = [env.rollout_one(item=item, skill=SKILL, target_client=client) for item in env.get_items("train")]
run_minibatch_reflect(rollout_results=results, current_skill=SKILL, optimizer_client=client, verbose=False)
[prompt] = Client.prompts
found = {word: prompt.count(word) for word in ("BEGINNING", "ANSWER", "MIDDLE")}
print(found)
assert found == {"BEGINNING": 9, "ANSWER": 16, "MIDDLE": 1}, found
PYTHON
