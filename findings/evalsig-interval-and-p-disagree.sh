#!/bin/sh
# evalsig 0.1.2: one McNemar result can have an interval that excludes 0 and a p-value above 0.05.
#
# Up to 25 disagreements the p-value is exact (binomial), while the interval is always Wald's. Five items better, none worse,
# five the same: whoever reads the interval sees a gain, whoever reads p sees none.
#
# Seen:
#     5 better, 0 worse, 5 same: p 0.0625 (mcnemar_exact), 95 % interval 0.19 to 0.81
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile evalsig==0.1.2
venv/bin/python - <<'PYTHON'
import numpy as np
from evalsig.inference.mcnemar import mcnemar_test

result = mcnemar_test(np.zeros(10), np.array([1] * 5 + [0] * 5))
low, high = result.ci
print(f"5 better, 0 worse, 5 same: p {result.p_value} ({result.method}), 95 % interval {low:.2f} to {high:.2f}")
assert result.p_value == 0.0625 and round(low, 2) == 0.19 and round(high, 2) == 0.81
PYTHON
