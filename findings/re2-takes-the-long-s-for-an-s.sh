#!/bin/sh
# google-re2 1.1.20251105: [Ss] alone is two letters, but [Ss] as one of two alternatives also matches U+017F.
#
# That is the long s; nobody asks for case to be ignored. [Kk]|[0-9] so matches U+212A, the Kelvin sign. The same characters
# in one class do not, nor does a class of more letters as an alternative. Python's re takes neither sign in any of these.
#
# Seen, fullmatch of U+017F by re2 / by re:
#     [Ss] False / False    [Ss]|[0-9] True / False    [Ss]|x True / False    [Ss0-9] False / False
#     [KkSs]|[0-9] False / False
# and of U+212A:
#     [Kk] False / False    [Kk]|[0-9] True / False
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile google-re2==1.1.20251105
venv/bin/python - <<'PYTHON'
import re
import re2

cases = [("[Ss]", "\u017f"), ("[Ss]|[0-9]", "\u017f"), ("[Ss]|x", "\u017f"), ("[Ss0-9]", "\u017f"),
         ("[KkSs]|[0-9]", "\u017f"), ("[Kk]", "\u212a"), ("[Kk]|[0-9]", "\u212a")]
seen = [(bool(re2.fullmatch(pattern, text)), bool(re.fullmatch(pattern, text))) for pattern, text in cases]
for (pattern, text), found in zip(cases, seen):
    print(f"{pattern:13} U+{ord(text):04X} re2 {found[0]} re {found[1]}")
assert seen == [(False, False), (True, False), (True, False), (False, False), (False, False), (False, False), (True, False)], seen
PYTHON
