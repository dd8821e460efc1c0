#!/bin/sh
# statgate 0.1.1 and evalsig 0.1.2: a sequential test never decides if all pairs differ by the same amount.
#
# A new text that fails each of 1,000 cases which the old one solved is the clearest result there is. Both tests estimate the
# variance from the differences, find 0, and go on: the p-value stays 1, the interval is infinite. One case that differs
# ends it.
#
# Seen:
#     statgate, 1,000 of 1,000 worse: decided False, p 1.0;   999 of 1,000: decided True, p 0.0
#     evalsig, 1,000 of 1,000 better: stopped False, half width inf;   999 of 1,000: stopped True
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile statgate==0.1.1 evalsig==0.1.2
venv/bin/python - <<'PYTHON'
from evalsig.inference.sequential import sequential_gate
from statgate.core.sequential import MixtureSPRT

all_worse = MixtureSPRT().update([-1.0] * 1000)
one_same = MixtureSPRT().update([-1.0] * 999 + [0.0])
print(f"statgate, 1,000 of 1,000 worse: decided {all_worse.decided}, p {all_worse.p_value};  "
      f" 999 of 1,000: decided {one_same.decided}, p {one_same.p_value}")
all_better = sequential_gate([1.0] * 1000)
first_same = sequential_gate([0.0] + [1.0] * 999)
print(f"evalsig, 1,000 of 1,000 better: stopped {all_better.stopped}, half width {all_better.half_width};  "
      f" 999 of 1,000: stopped {first_same.stopped}")
assert (all_worse.decided, all_worse.p_value, one_same.decided) == (False, 1.0, True)
assert (all_better.stopped, first_same.stopped) == (False, True)
PYTHON
