#!/bin/sh
# inspect_ai 0.3.285: exact() and f1() join the parts of a version number, and match() ignores what stands before a number.
#
# exact and f1 normalize as SQuAD does: no punctuation, no articles. "1.2.34" becomes "1234", the minus goes, "C++" and "C#"
# become "c"; only a text that is one plain number, such as 3.14, is spared. match() without numeric=True compares the end
# of the answer without a word boundary: 142 and -42 pass where 42 is right. An empty target matches every answer.
#
# Seen, scorer(answer, target):
#     exact("1.2.34", "1.23.4") = C    exact("-5", "5") = C    exact("C++", "C#") = C    exact("3.14", "314") = I
#     f1("v1.2.3", "v12.3") = 1.0
#     match("142", "42") = C    match("-42", "42") = C    match("42", "-42") = C    match("anything", "") = C
#     match(numeric=True)("142", "42") = I
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile inspect_ai==0.3.285
venv/bin/python - <<'PYTHON'
import asyncio
from inspect_ai.model import ModelName, ModelOutput
from inspect_ai.scorer import Target, exact, f1, match
from inspect_ai.solver import TaskState

async def score(scorer, answer, target):
    state = TaskState(model=ModelName("mockllm/model"), sample_id=1, epoch=1, input="q", messages=[])
    state.output = ModelOutput.from_content("mockllm/model", answer)
    return (await scorer(state, Target(target))).value

async def main():
    cases = [("exact", exact(), [("1.2.34", "1.23.4"), ("-5", "5"), ("C++", "C#"), ("3.14", "314")]),
             ("f1", f1(), [("v1.2.3", "v12.3")]),
             ("match", match(), [("142", "42"), ("-42", "42"), ("42", "-42"), ("anything", "")]),
             ("match(numeric=True)", match(numeric=True), [("142", "42")])]
    seen = []
    for name, scorer, pairs in cases:
        for answer, target in pairs:
            seen.append(await score(scorer, answer, target))
            print(f"{name}({answer!r}, {target!r}) = {seen[-1]}")
    assert seen == ["C", "C", "C", "I", 1.0, "C", "C", "C", "C", "I"], seen

asyncio.run(main())
PYTHON
