#!/bin/sh
# rouge-score 0.1.2: a text in Russian or Chinese has ROUGE 0 with itself.
#
# The tokenizer keeps a to z and 0 to 9 and drops the rest, so such texts have no words. In mixed texts only the Latin part
# counts: two sentences that agree in a product's name alone are equal.
#
# Seen (ROUGE-L, F):
#     'hello world' with itself 1.0;  'привет мир' with itself 0;  '你好 世界' with itself 0
#     'Docker запущен' with 'Docker удалён' 1.0
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile rouge-score==0.1.2
venv/bin/python - <<'PYTHON'
from rouge_score.rouge_scorer import RougeScorer

scorer = RougeScorer(["rougeL"])
pairs = [(text, text) for text in ("hello world", "привет мир", "你好 世界")] + [("Docker запущен", "Docker удалён")]
scores = [scorer.score(*pair)["rougeL"].fmeasure for pair in pairs]
for pair, score in zip(pairs, scores):
    print(*map(repr, pair), score)
assert scores == [1.0, 0.0, 0.0, 1.0], scores
PYTHON
