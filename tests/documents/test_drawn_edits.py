"""Drawn edits: nothing outside of what a patch names changes, and the measure of that sees it when something does."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks import drawn_edits
from benchmarks.drawn_edits import changed_outside, document, patch
from skillopt_mcp.core.edits import Applied, Edit, EditReport, Patch
from skillopt_mcp.core.skills import SkillFile, SkillFiles


def test_no_byte_changes_outside_of_two_thousand_edits() -> None:
    for n in range(2_000):
        chance = Random(f"test {n}")
        content = document(chance)
        assert changed_outside(content, patch(chance, content)) == 0, n


def test_a_byte_that_changes_elsewhere_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(files: SkillFiles, patch: Patch) -> Applied:
        main = files.main.replace(b"two", b"2").rstrip(b"\n") + b"\r\n"
        return Applied(files.replaced(SkillFile("SKILL.md", main)), (EditReport(0, "replace", "SKILL.md", "applied"),))

    monkeypatch.setattr(drawn_edits, "apply_patch", careless)
    assert changed_outside(b"one\ntwo\nthree\n", [Edit("replace", "two", "2")]) > 0
    monkeypatch.undo()
    assert changed_outside(b"one\ntwo\nthree\n", [Edit("replace", "two", "2")]) == 0
