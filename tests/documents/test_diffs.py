"""Diffs: what a reader is shown of a change."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from corpus import DOCUMENTS, TEXTS, skill
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.documents.diffs import changed_lines, changes, truncate_middle, unified_diff
from skillopt_mcp.records.skills import SkillFile, SkillFiles

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n", b"d\n"]), max_size=25)


def test_a_change_is_shown_with_three_lines_around_it() -> None:
    old = "".join(f"{n}\n" for n in range(1, 21))
    assert unified_diff(skill(old), skill(old.replace("10\n", "ten\n")), "demo") == (
        "--- a/demo/SKILL.md\n+++ b/demo/SKILL.md\n@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n"
    )


def test_the_changed_lines_stand_with_their_marks_file_by_file() -> None:
    old, new = skill("a\n-- x\nb", gone=b"g\n", same=b"s\n"), skill("a\n++ y\nb\n", bytes=b"\0", same=b"s\n")
    main = ["--- x", "-b\n\\ No newline at end of file", "+++ y", "+b"]
    assert changed_lines(old, new) == [main, [], ["-g"]]
    assert changed_lines(old, old) == []


def test_nothing_changed_is_an_empty_diff() -> None:
    assert unified_diff(skill("a\n"), skill("a\n"), "demo") == ""


def test_a_missing_newline_at_the_end_is_told() -> None:
    assert unified_diff(skill("a\nb"), skill("a\nb\n"), "demo").endswith(" a\n-b\n\\ No newline at end of file\n+b\n")


def test_new_and_removed_files_are_shown_against_nothing() -> None:
    added = unified_diff(skill("a\n"), skill("a\n", notes=b"x\n"), "demo")
    assert added == "--- /dev/null\n+++ b/demo/references/notes.md\n@@ -0,0 +1 @@\n+x\n"
    removed = unified_diff(skill("a\n", notes=b"x\n"), skill("a\n"), "demo")
    assert removed == "--- a/demo/references/notes.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"


def test_hidden_characters_are_shown_and_joined_emoji_left_alone() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u26a0\ufe0f"
    diff = unified_diff(skill(""), skill(f"a\u200bb\u202ec\x1b\tד {family} \U000e0041\n"), "demo")
    assert diff.endswith(r"+a\u{200B}b\u{202E}c\u{001B}" + f"\tד {family} " + "\\u{E0041}\n")


def test_line_endings_are_shown_only_where_they_differ() -> None:
    assert "000D" not in unified_diff(skill("a\r\n"), skill("a\r\nb\r\n"), "demo")
    assert unified_diff(skill("a\n"), skill("a\r\n"), "demo").endswith("-a\n+a\\u{000D}\n")


def test_binary_files_and_run_bits_take_one_line() -> None:
    old = SkillFiles((SkillFile("a.png", b"\0\1"), SkillFile("b.sh", b"x\n")))
    new = SkillFiles((SkillFile("a.png", b"\0\1\2"), SkillFile("b.sh", b"x\n", executable=True)))
    assert unified_diff(old, new, "demo") == (
        "Binary file demo/a.png changed (2 -> 3 bytes)\nRun bit of demo/b.sh set\n"
    )


def test_an_edit_at_both_ends_of_a_large_file_is_shown_small_and_soon() -> None:
    lines = [f"line {n}\n" if n % 2 else "the same\n" for n in range(40_000)]
    old, new = "".join(lines), "".join(["first\n", *lines[1:-1], "last\n"])
    started = time.process_time()
    diff = unified_diff(skill(old), skill(new), "demo")
    assert len(diff.splitlines()) == 2 + 2 * (1 + 5)
    same = "x\n" * 40_000
    unified_diff(skill("a\n" + same + "a\n"), skill("b\n" + same[:-2] + "b\n"), "demo")
    assert time.process_time() - started < 5


@given(LINES, LINES)
def test_the_changes_turn_the_old_lines_into_the_new(old: list[bytes], new: list[bytes]) -> None:
    built: list[bytes] = []
    at = 0
    for i1, i2, j1, j2 in changes(old, new):
        assert at <= i1 <= i2
        built += old[at:i1]
        assert j1 == len(built)
        built += new[j1:j2]
        at = i2
    assert [*built, *old[at:]] == new


def test_patch_applies_the_diff_of_every_shape(tmp_path: Path) -> None:
    for name, content in DOCUMENTS.items():
        if b"\r" in content or b"\xef\xbb\xbf" in content:
            continue
        new = b"first\n" + content.replace(b"the", b"THE", 3) + b"last"
        (tmp_path / "SKILL.md").write_bytes(content)
        diff = unified_diff(skill(content), skill(new), "demo")
        subprocess.run(["patch", "-s", "SKILL.md"], input=diff.encode(), cwd=tmp_path, check=True)
        assert (tmp_path / "SKILL.md").read_bytes() == new, name


def test_a_long_text_loses_its_middle() -> None:
    text = "".join(f"line {n}\n" for n in range(1000))
    cut = truncate_middle(text, 200)
    assert len(cut) <= 200
    assert cut.startswith("line 0\nline 1\n")
    assert cut.endswith("line 998\nline 999\n")
    head, note, tail = cut.partition("\n[... ")
    assert f"{len(text) - len(head) - len(tail.partition(chr(10))[2])} characters left out ...]" in note + tail


@given(TEXTS, st.integers(0, 80))
def test_a_truncated_text_is_never_longer_than_the_limit(text: str, limit: int) -> None:
    assert len(truncate_middle(text, limit)) <= limit
    assert truncate_middle(text, len(text)) == text
