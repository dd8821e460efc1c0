"""Diffs: what a reader is shown of a change."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from corpus import DOCUMENTS, skill

from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.core.text import truncate_middle
from skillopt_mcp.documents.diffs import list_changed_lines, unified_diff


def test_the_changed_lines_stand_with_their_marks_file_by_file() -> None:
    old, new = skill("a\n-- x\nb", gone=b"g\n", same=b"s\n"), skill("a\n++ y\nb\n", bytes=b"\0", same=b"s\n")
    main = ["--- x", "-b\n\\ No newline at end of file", "+++ y", "+b"]
    assert list_changed_lines(old, new) == [main, [], ["-g"]]
    assert list_changed_lines(old, old) == []


def test_hidden_characters_are_shown_and_joined_emoji_left_alone() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u26a0\ufe0f"
    diff = unified_diff(skill(""), skill(f"a\u200bb\u202ec\x1b\tד {family} \U000e0041\n"), "demo")
    assert diff.endswith(r"+a\u{200B}b\u{202E}c\u{001B}" + f"\tד {family} " + "\\u{E0041}\n")


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
