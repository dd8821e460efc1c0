"""Pages in a real Chromium: by eye, by keyboard, by screen reader; and what a hostile text cannot do."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import TELLTALE, large_store, page_of, screenshots, strangers, violations, visited
from skillopt_mcp.workspace.workspace import Workspace
from tests.readme import DOCS
from tests.report.conftest import printed

OPEN_ALL = "document.querySelectorAll('details').forEach(each => { each.open = true })"


def made(store: Path, path: Path, *ids: str) -> str:
    """Return the address of a page that the console script wrote."""
    assert printed(path.parent, "--store", store, "report", *ids, "--html", path) == f"{path}\n"
    return path.as_uri()


@pytest.fixture(scope="module")
def url(demo: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    return made(Path(demo["store_path"]), tmp_path_factory.mktemp("page") / "page.html", demo["run_id"])


@pytest.mark.parametrize(("width", "dark"), [(400, True), (1280, False)])
def test_a_page_is_readable_at_any_width_by_day_and_night(chromium: Any, url: str, width: int, dark: bool) -> None:
    with visited(chromium, url, width, dark=dark) as (page, visit):
        assert visit.width <= width
        page.evaluate(OPEN_ALL)
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert (strangers(visit), visit.errors) == ([], [])


def test_a_page_needs_no_script(chromium: Any, url: str) -> None:
    with visited(chromium, url, java_script_enabled=False) as (page, visit):
        page.locator("details.task").first.locator("summary").click()
        assert page.locator("details.task").first.locator("pre").first.is_visible()
        assert not page.locator("script").count()
        shown = ("main", "#curve", "#spend", "#tasks", "#diff")  # what the pictures of the documentation are cut by
        assert [page.locator(name).count() for name in shown] == [1] * len(shown)
    assert visit.errors == []


def test_a_keyboard_reaches_and_opens_everything(chromium: Any, url: str) -> None:
    with visited(chromium, url) as (page, _):
        n_summaries = page.locator("summary").count()
        reached = set[int]()
        while len(reached) < n_summaries:
            page.keyboard.press("Tab")
            place = page.evaluate(
                "(() => { const all = [...document.querySelectorAll('summary')];"
                " return all.indexOf(document.activeElement) })()"
            )
            if place >= 0 and place not in reached:
                reached.add(place)
                page.keyboard.press("Enter")
                assert page.evaluate("document.activeElement.parentElement.open")


def test_several_reports_lie_side_by_side(chromium: Any, demo: dict[str, Any], tmp_path: Path) -> None:
    with Workspace(Path(demo["store_path"])) as workspace:
        ids = [each.id for each in workspace.store.tests.list_of_skill(1)]
    url = made(Path(demo["store_path"]), tmp_path / "page.html", *ids, "ledger-clerk")  # which is the last of them
    with visited(chromium, url, 400) as (page, visit):
        page.evaluate(OPEN_ALL)
        assert page.locator("tbody > tr > th[scope=row]").count() == len(ids) == 2
        assert violations(page) == []
        assert visit.width <= 400
    assert (strangers(visit), visit.errors) == ([], [])


def test_all_skills_are_on_one_page_with_their_next_step(chromium: Any, demo: dict[str, Any], tmp_path: Path) -> None:
    with visited(chromium, made(Path(demo["store_path"]), tmp_path / "page.html")) as (page, visit):
        assert "ledger-clerk" in page.locator("h2").inner_text()
        assert page.locator("pre", has_text="Train the skill ledger-clerk").count()
        assert violations(page) == []
    assert (strangers(visit), visit.errors) == ([], [])


def test_a_hostile_text_is_shown_and_does_nothing(chromium: Any, hostile: tuple[Path, str], tmp_path: Path) -> None:
    store, id = hostile
    url = made(store, tmp_path / "page.html", id)
    with visited(chromium, url, 400) as (page, visit):
        page.evaluate(OPEN_ALL)
        assert page.evaluate(f"{TELLTALE} === undefined")
        assert page.url == url
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        for kind in (
            "script",
            "img",
            "iframe",
            "base",
            "form",
            "object",
            "meta[http-equiv=refresh]",
            "[onload]",
            "[style]",
        ):
            assert page.locator(kind).count() == 0, kind
        text = page.locator("main").inner_text()
        assert violations(page) == []
    for shown in (
        "<script>window.isTaken = true</script>",
        "&lt;script&gt;",
        "&#60;script&#62;",
        "{{ 7 * 7 }}",
        "\\u{202E}",
    ):
        assert shown in text
    assert not re.search("[\u202e\u2066\u200b\ufeff\x00\x1b]", text)
    assert (strangers(visit), visit.errors) == ([], [])
    assert (tmp_path / "page.html").stat().st_size < 2_000_000


def test_a_hostile_text_does_nothing_in_markdown_or_a_table(hostile: tuple[Path, str], tmp_path: Path) -> None:
    store, id = hostile
    markdown, tables = tmp_path / "r.md", tmp_path / "tables"
    printed(tmp_path, "--store", store, "report", id, "--md", markdown, "--csv", tables)
    text = (tables / "tasks.csv").read_text("utf-8")
    assert "HYPERLINK" in text
    assert not re.search("[\u202e\u2066\u200b\ufeff\x00\x1b]", text)
    assert not [cell for row in csv.reader(text.splitlines()) for cell in row if re.match(r"\s*[=+@＝]", cell)]
    assert "www&#46;evil" in markdown.read_text("utf-8")
    assert not re.search(r"<(?!/?code>)|://|www\.", markdown.read_text("utf-8").partition("\n```")[0])


def test_a_page_on_a_long_run_is_small_and_opens_at_once(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    page_of(*large_store(tmp_path / "store", 200, 4_000, 60), path)
    with visited(chromium, path.as_uri()) as (page, visit):
        page.locator("summary", has_text="200 steps").click()
        assert page.locator("table", has=page.locator("th", has_text="Outcome")).locator("tbody tr").count() == 200
    assert path.stat().st_size < 500_000
    assert visit.seconds < 10  # of a busy machine; the benchmark measures it
    assert (strangers(visit), visit.errors) == ([], [])


def test_the_pictures_of_the_documentation_come_from_the_demo_and_are_small(chromium: Any, tmp_path: Path) -> None:
    shown = list((DOCS / "images").glob("*.png"))
    assert shown
    # To make them takes as long as all other pages: it is done where CI asks for a browser.
    made = screenshots(chromium, tmp_path) if os.environ.get("REQUIRE_HOSTS") else shown
    assert {each.name for each in made} == {each.name for each in shown}
    assert all(each.stat().st_size < 120_000 for each in [*made, *shown])
