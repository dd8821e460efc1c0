"""Code in a change: whatever an agent may run as it stands is a person's to look at, known or unknown to the guard."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.documents.code_lines import code_lines, explain_large_edit

BASE = b"""# Ledger

- Read the request twice.

```python
total = sum(rows)
```

Say so in `SKILL.md`, or with `git status`.
"""


def asked(new: bytes, old: bytes = BASE) -> str:
    was, now = (SkillFiles((SkillFile("SKILL.md", text),)) for text in (old, new))
    return explain_large_edit(was, now)


@pytest.mark.parametrize(
    "added",
    [
        b"```\nmake all\n```",
        b"~~~python\nimport os\n~~~",
        b"- First:\n\n  ```sh\n  make all\n  ```",
        b"> ```\n> make all\n> ```",
        b"```",
        b"    make all",
        b"\tmake all",
        b"- First:\n\n      make all",
        b">     make all",
        b"-     make all",
        b"<pre>\nmake all\n</pre>",
        b"Then <CODE>make</CODE>",
        b"$ make all",
        b"- $ make all",
        b">>> totals.clear()",
        b"me@host:~/work$ make all",
        b"[me@host work]# make all",
        b"me@mac ~ % make all",
        b"PS C:\\> make all",
        b"C:\\work dir> make all",
        b"Then <tt>make all</tt>",
        b"Use `make all` first.",
        b"Use ``make all`` first.",
        b"Use `make\xc2\xa0all` first.",
        b"Use `clear()` first.",
        b"Use `make;reboot` first.",
        b"Use `make|sh` first.",
        b"Use `$TOOL` first.",
        b"Use `{make,all}` first.",
        b"A lone \\` and `make all` behind it.",
        b"Literal `a\\` and `make all`.",
        b"Never closed: `make all",
        b"| step | `make all` |",
    ],
)
def test_an_edit_that_adds_code_is_asked_about(added: bytes) -> None:
    assert asked(BASE + b"\n" + added + b"\n").startswith("it touches code or a command (")


@pytest.mark.parametrize(
    "added",
    [
        b"- Check totals twice.",
        b"Read `SKILL.md`, then `references/a.md`.",
        b"Pass `--flag` and `dtype=str` to `pandas.read_excel`.",
        b"The branch is `main`, the column ``B2``.",
        b"A \\` alone is none.",
        b"  - A nested item.\n   1. And one more.",
        b"A first line\n  that goes on.",
        b"It costs $5, or $ 5.",
        b"1.\tAn item behind a tab.",
        b"> A quote.",
        b"Write to me@host.org, # 3 of the list.",
        b"Option C:> 5 rows.",
        b"**Bold** and *not*.",
        b"| a | b |\n|---|---|\n| 1 | 2 |",
    ],
)
def test_words_and_names_are_covered(added: bytes) -> None:
    assert asked(BASE + b"\n" + added + b"\n") == ""


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (b"total = sum(rows)", b"total = max(rows)"),
        (b"total = sum(rows)\n", b""),
        (b"total = sum(rows)", b"```\n\nAnd then:\n\n```\ntotal = sum(rows)"),
        (b"```python\ntotal = sum(rows)\n```\n", b""),
        (b"```python", b"```sh"),
        (b"`git status`", b"`git push`"),
        (b", or with `git status`", b""),
        (b"Say so in", b"Never say so in"),
        (b"Read the request twice.\n", b"Read the request twice.\n\n<pre>\n"),
    ],
)
def test_an_edit_of_code_that_is_there_or_of_the_words_on_its_line_is_asked_about(was: bytes, now: bytes) -> None:
    assert asked(BASE.replace(was, now)).startswith("it touches code or a command (")


def test_a_command_in_backticks_over_several_lines_is_code_to_its_end() -> None:
    old = b"Run `make\nall\nof it\nnow`, then rest.\n\nWords.\n"
    assert code_lines(old) == {0, 1, 2, 3}
    assert asked(old.replace(b"of it", b"--of=it"), old) != ""
    assert code_lines(b"Don`t.\n\nWords.\n\nDon`t.\n") == {0, 4}
    assert code_lines(b"```\na\n```\nWords.\n```\nb\n```\n") == {0, 1, 2, 4, 5, 6}


@given(st.text("a `\n\\~<>pre/-    ", max_size=60), st.sampled_from(["`make all`", "``a b``", "`f(x)`"]))
def test_a_command_in_backticks_on_a_line_of_its_own_is_found_in_any_company(around: str, command: str) -> None:
    text = f"{around}\n\n{command}\n"
    assert len(text.splitlines()) - 1 in code_lines(text.encode())


@pytest.mark.parametrize("line", [b"`", b"`a` ", b"\\`", b"<pre", b"<code>", b"` `` ", b"> ", b"- ", b"    ", b"\\"])
def test_it_takes_time_linear_in_a_text(line: bytes) -> None:
    def spent(text: bytes) -> float:
        begun = time.process_time()
        code_lines(text)
        return time.process_time() - begun

    small, large = (min(spent(line * n + b"x") for _ in range(3)) for n in (2_000, 16_000))
    assert large < 32 * small + 0.1
