"""Patterns of JavaScript as hypothesis draws them, and what Node says of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Self

from hypothesis import strategies as st

NODE = os.environ.get("NODE") or shutil.which("node")
_ORACLE = """
require("readline").createInterface({input: process.stdin}).on("line", (line) => {
  const [pattern, flags, text] = JSON.parse(line);
  let said = null;
  try {
    const all = new RegExp(pattern, flags.includes("g") ? flags : flags + "g");
    said = [new RegExp(pattern, flags).test(text), (text.match(all) || []).length];
  } catch (error) {}
  console.log(JSON.stringify(said));
});
"""


class Node:
    """A Node that says of (pattern, flags, text) whether it matches and how often; None where it refuses."""

    def __enter__(self) -> Self:
        assert NODE
        self._process = subprocess.Popen([NODE, "-e", _ORACLE], stdin=-1, stdout=-1, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, pattern: str, flags: str, text: str) -> tuple[bool, int] | None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([pattern, flags, text]) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        return said and (said[0], said[1])


CHARACTERS = [
    *"abKksSiIz09_- \t\n\r\x00\x08.:c[]{}\\QE", *"\u2028\u2029\u00a0\ufeff\u180e\u0085\u200b\u212a\u017f",
    *"éÉßẞµμΜıİǆǅǄΣσς\ufb05\ufb06ᾳᾼ", *"😀😁𐐀𐐨", "\ud83d", "\ude00",
]  # fmt: skip
_ESCAPES = [
    *(rf"\{each}" for each in "dDwWsSbBnrtvfzQEAkpxcuaeq-./]^$&"), r"\0", r"\1", r"\2", r"\8", r"\07", r"\377", r"\400",
    r"\x41", r"\x4", r"\u0041", r"\u{41}", r"\u{1F600}", r"\uD83D", r"\uDE00", r"\uD83D\uDE00", r"\cA", r"\c1",
    r"\k<n>", r"\p{L}", r"\P{L}", r"\p{Lu}", r"\p{Script=Greek}", r"\u017f", r"\é", r"\😀",
]  # fmt: skip
_ODD = ["[^]", "[]", "[[:alpha:]]", "{", "}", "]", "{1", "{,2}", "(?i)", "(?i:a)", "*", "|", ")", "(", "^", "$", "."]
_QUANTIFIERS = ["*", "+", "?", "{2}", "{0}", "{1,2}", "{2,1}", "{2,}", "{1001}", "{,2}", "**", "*?", "??", "{1,2}?"]
_single = st.sampled_from(CHARACTERS) | st.sampled_from(_ESCAPES)
_class = st.tuples(
    st.sampled_from(["[", "[^"]), st.lists(st.tuples(_single, st.sampled_from(["", "", "-"])), max_size=4)
).map(lambda drawn: drawn[0] + "".join(a + b for a, b in drawn[1]) + "]")
_GROUPS = ["(", "(?:", "(?:", "(?<n>", "(?<m>", "(?=", "(?!", "(?<="]


def _extend(atoms: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    terms = st.tuples(atoms, st.sampled_from(["", "", *_QUANTIFIERS])).map("".join)
    branches = st.lists(st.lists(terms, max_size=3).map("".join), min_size=1, max_size=3).map("|".join)
    return branches | st.tuples(st.sampled_from(_GROUPS), branches).map(lambda drawn: f"{drawn[0]}{drawn[1]})")


patterns = st.recursive(_single | _class | st.sampled_from(_ODD), _extend, max_leaves=8)
flags = st.sets(st.sampled_from("dgimsuy"), max_size=4).map(lambda drawn: "".join(sorted(drawn)))
texts = st.lists(st.sampled_from(CHARACTERS), max_size=8).map("".join)
