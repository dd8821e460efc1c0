"""The page on a skill: its series, and the tasks to look at, with commands to copy."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from benchmarks.report import violations, visited
from skillopt_mcp.cli.command import parse
from skillopt_mcp.core.mining import Draft
from skillopt_mcp.core.tasks import NewTask
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.tasks.splits import DEFAULT_SHARES
from skillopt_mcp.workspace.workspace import Workspace
from tests.report.conftest import make_demo, printed

HOSTILE = "</pre><script>window.isTaken = true</script><img src=x onerror='window.isTaken = true'>"


def test_it_has_the_series_and_the_cards_and_does_nothing(chromium: Any, tmp_path: Path) -> None:
    demo = make_demo(tmp_path)
    store, skill = demo["store_path"], demo["skill_path"]
    with Workspace(Path(store)) as workspace:
        judge = parse_judge({"kind": "contains", "expected": ["BREAKING"]})
        task = NewTask(f"Write a line about the field {HOSTILE}", judge, "a 'task'", tags=("queue",))
        draft = Draft(task, "sessions", "s#1", "BREAKING: it", f"it {HOSTILE}", f"say so {HOSTILE}")
        skill_id = workspace.place.find_kept(skill).id
        workspace.store.tasks.add_tasks(skill_id, [draft], DEFAULT_SHARES, waits=True)
    page_path = Path(printed(tmp_path, "--store", store, "report", skill).strip())
    with visited(chromium, page_path.as_uri()) as (page, visit):
        assert violations(page) == []
        assert page.evaluate("window.isTaken === undefined")
        card = page.locator("#review details", has_text="a 'task'")
        card.locator("summary").click()
        for shown in ("BREAKING: it", "say so", "the accepted answer passes: yes", "sessions: s#1", '"kind"'):
            assert shown in card.inner_text(), shown
        commands = [shlex.split(each) for each in card.locator(".cmd").all_inner_texts()]
        for verb, words in zip(("keep", "drop"), commands, strict=True):
            found: Any = parse(words[1:])
            assert (found.store, found.command.skill, getattr(found.command, verb)) == (
                store,
                str(Path(skill).parent),
                ["a 'task'"],
            )
        chart = page.locator("#series svg")
        assert chart.locator("path.kept").count() == 1
        rows = page.locator("#series tbody tr").all_inner_texts()
        [point] = json.loads(printed(tmp_path, "--store", store, "show", skill, "--json"))["series"]
        assert len(rows) == 1
        assert rows[0].split("\t")[1:4] == ["promotion", point["version"], f"{100 * point['solved']:.0f}"]
    assert visit.errors == []
    assert page_path.stat().st_mode & 0o77 == 0
