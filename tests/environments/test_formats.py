"""Formats: tasks that are exported are read back."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from skillopt_mcp.cli.main import main
from skillopt_mcp.tasks.formats.registry import read_rows


def test_exported_tasks_are_read_back_as_they_were_whatever_the_suffix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"id": "t1", "prompt": 'Say "a, b",\r\nthen\n\n; é \u2028=1+1', "split": "test", "tags": ["x, y", ""],
         "judge": {"kind": "exact", "expected": 'a "b"'}, "files": {"in/data.csv": "a,b\r\n1,2"}},
        {"id": "007", "prompt": '{"not": "decoded"}', "judge": {"kind": "exact", "expected": "1"}, "split": "train"},
        {"prompt": "  3", "judge": {"kind": "exact", "expected": "[1]"}, "split": "val", "group": "g"},
    ]  # fmt: skip
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "SKILL.md").write_text("---\nname: mine\ndescription: Adds numbers.\n---\n# Mine\n")
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    monkeypatch.chdir(tmp_path)
    lines = ["tasks add ./mine rows.json", *(f"tasks export ./mine out{end}" for end in (".csv", ".json", ".jsonl"))]
    lines += [f"tasks add ./mine out{end}" for end in (".csv", ".json", ".jsonl")]
    assert [main(shlex.split(line)) for line in lines] == [0] * len(lines)
    table, kept, same = (read_rows(tmp_path / f"out{end}") for end in (".csv", ".json", ".jsonl"))
    assert table == kept == same
    assert len(kept) == 3
    assert (tmp_path / "out.csv").read_text().startswith("id,prompt,judge,split,")
    assert capsys.readouterr().out.count("0 added, 3 duplicates") == 3
