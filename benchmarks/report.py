"""Report: a large and a hostile page in a real Chromium: time, size, requests, console, axe, and what stays inert."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from benchmarks.doors import parser, run, show
from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.runs import new_run
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core.calls import Call, Rollout
from skillopt_mcp.core.candidates import Candidate, NewCandidate, candidate_id
from skillopt_mcp.core.edits import Edit, EditReport
from skillopt_mcp.core.evidence import Mean
from skillopt_mcp.core.runs import StepOutcome, StepRecord
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile
from skillopt_mcp.core.tasks import SPLITS, NewTask
from skillopt_mcp.reports.facts import gather
from skillopt_mcp.reports.rendering import html_page, write_page
from skillopt_mcp.tasks.judges.judging import parse_judge
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.workspace import Workspace

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
N_STEPS, N_TRIALS, N_UNITS = 2_000, 100_000, 500
TELLTALE = "window.isTaken"
LESSON = "- Answer with the word yes."
_URL = "http://127.0.0.1:9"
_TAKES = f"{TELLTALE} = true"
HOSTILE = (
    f"<script>{_TAKES}</script>", f'"><img src="{_URL}/x" onerror="{_TAKES}">',
    f"<svg onload='{_TAKES}'></svg>",
    f"</pre></details></section></main></script><script>{_TAKES}</script>",
    "</style><style>* { display: none }</style>",
    f"&lt;script&gt;{_TAKES}&lt;/script&gt;", f"&#60;script&#62;{_TAKES}&#60;/script&#62;",
    "\u202eevil\u2066 \u200b\ufeff\x00\x1b[31m",
    f"www.evil.example [click](javascript:{_TAKES}) ``` @everyone | <{_URL}>", "{{ 7 * 7 }} {% include 'x' %}",
    f'<iframe srcdoc="<script>parent.{_TAKES}</script>"></iframe>',
    f'<base href="{_URL}"><meta http-equiv="refresh" content="0;url={_URL}">',
    f' =HYPERLINK("{_URL}")', "x" * 1_000_000,
)  # fmt: skip


@dataclass
class Visit:
    """What happened while a page was open."""

    seconds: float = 0.0
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    width: int = 0


@contextmanager
def browser() -> Iterator[Any]:
    """Lend a Chromium without a window."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def visited(
    opened: Any, url: str, width: int = 1280, *, dark: bool = False, **options: Any
) -> Iterator[tuple[Page, Visit]]:
    """Lend a page that is loaded; what it asks for, and what goes wrong on it, is noted until the end."""
    context = opened.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", **options
    )
    page, visit = context.new_page(), Visit()
    page.on("request", lambda each: visit.requests.append(each.url))
    page.on("console", lambda each: visit.errors.append(each.text) if each.type in ("error", "warning") else None)
    page.on("pageerror", lambda each: visit.errors.append(str(each)))
    page.on("dialog", lambda each: visit.errors.append(f"dialog: {each.message}"))
    started = time.perf_counter()
    page.goto(url, wait_until="load")
    if options.get("java_script_enabled", True):
        page.evaluate("() => new Promise(requestAnimationFrame)")
    visit.seconds = time.perf_counter() - started
    visit.width = page.evaluate("document.documentElement.scrollWidth")
    try:
        yield page, visit
    finally:
        context.close()


def violations(page: Page) -> list[str]:
    """Return what axe-core finds wrong on a page, with where."""
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415

    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {[node['target'] for node in each['nodes']][:3]}" for each in found]


def strangers(visit: Visit) -> list[str]:
    """Return what a page asked for besides itself."""
    return [each for each in visit.requests[1:] if not each.startswith("data:")]


# Two stores to look at


def hostile_store(folder: Path) -> tuple[Path, str]:
    """Make a store whose every text attacks the page, and return it with the id of its promotion test."""
    place = folder / "<img src=x onerror=alert(1)>" / "bad"
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text("---\nname: bad\ndescription: bad\n---\n# Bad\n\n- Old line.\n")
    texts = iter(range(1_000_000))

    def answer(call: Call) -> str:
        if not isinstance(call.request, Rollout):
            return "{}"
        n = next(texts)
        is_new = LESSON in call.request.files.text
        is_lost = "(lost)" in call.request.task.prompt
        return "yes" if is_new != is_lost else HOSTILE[n % len(HOSTILE)]

    judge = parse_judge({"kind": "exact", "expected": "yes"})
    tasks = []
    for n in range(30):
        prompt = f"{HOSTILE[n % len(HOSTILE)]} number {n}{' (lost)' if n % 10 == 0 else ''}"
        task = NewTask(prompt, judge, f"{HOSTILE[n % 13][:60]}{n}", "test", (HOSTILE[(n + 1) % 13],))
        tasks.append(task)
    with Workspace(folder / "store.db", target=Scripted(answer), project=folder) as workspace:
        workspace.store.permissions.add_root(str(place.parent))
        skill = workspace.place.skill(str(place))
        workspace.store.tasks.add_tasks(skill.id, tasks, {"train": 0, "val": 0, "test": 1})
        lines = "\n".join(f"- {each[:5_000]}".replace("\x00", "").replace("\x1b", "") for each in HOSTILE)
        edit = {"op": "append", "content": f"{LESSON}\n{lines}"}
        proposed = propose_edits(workspace.store, workspace.place, str(place), [edit], reasoning=HOSTILE[0])
        evaluated = evaluate_candidate(workspace.store, workspace.models, workspace.place, str(proposed.candidate_id))
        assert evaluated.test
    return folder / "store.db", evaluated.test.test_id


def large_store(
    folder: Path, n_steps: int = N_STEPS, n_trials: int = N_TRIALS, n_units: int = N_UNITS
) -> tuple[Path, str]:
    """Make a store with a long run and a large promotion test, and return it with the run's id."""
    place, random = folder / "skills" / "large", Random(7)
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text("---\nname: large\ndescription: Large.\n---\n# Large\n")
    judge = parse_judge({"kind": "exact", "expected": "yes"})
    tasks = [
        NewTask(f"Question {n} of the {split} tasks, with some words.", judge, f"{split}-{n}", split, ("kind",))
        for split, m in zip(SPLITS, (40, 40, n_units), strict=True)
        for n in range(m)
    ]

    def answer(call: Call) -> str:
        assert isinstance(call.request, Rollout)
        return "yes" if random.random() < 0.3 + 0.08 * ("line 1990" in call.request.files.text) else "no " * 40

    target = Scripted(answer)
    with Workspace(folder / "store.db", target=target, optimizer=target, project=folder) as workspace:
        store = workspace.store
        store.permissions.add_root(str(place.parent))
        skill = workspace.place.skill(str(place))
        store.tasks.add_tasks(skill.id, tasks, {"train": 1, "val": 1, "test": 1})
        begun = replace(
            new_run(workspace.store, workspace.models, workspace.place, str(place), Config(epochs=40)),
            id="r-0123456789ab",
        )
        store.runs.add_run(begun)
        files = base = store.skills.get_files(skill.id, skill.live_version)
        score = 0.3
        for n in range(1, n_steps + 1):
            parent, made = files, None
            if is_kept := n % 20 == 10:
                line = f"- A lesson in line {n}, which says what to do.\n"
                files, score = parent.replaced(SkillFile(MAIN_FILE, parent.main + line.encode())), score + 0.006
                arms, findings = (parent.digest, files.digest), ("a finding",) if n % 100 == 10 else ()
                own = Candidate(candidate_id(skill.id, *arms), skill.id, *arms, "step", "", findings, begun.id)
                edit = Edit("append", content=line, sources=("trial:1", "trial:2"))
                made = NewCandidate(own, files, ((edit, EditReport(0, "append", MAIN_FILE, "applied")),))
            mean = Mean(score, score, 40)
            record = StepRecord(
                n=n, epoch=1 + n // 50, budget=4, train=mean, parent_version=parent.digest,
                candidate_version=files.digest, candidate_id=made.candidate.id if made else None,
                verdict="accept_best" if is_kept else "reject", current=score, best=score, val=mean,
                candidate=score if is_kept else score - random.random() / 5, baseline=Mean(0.3, 0.3, 40),
                current_version=files.digest, best_version=files.digest, n_proposed=1, n_applied=1, n_missing=0,
            )  # fmt: skip
            store.runs.add_step(begun.id, StepOutcome(record, (), made))
        arms = (base.digest, files.digest)
        best = Candidate(candidate_id(skill.id, *arms), skill.id, *arms, "run", "", run_id=begun.id)
        store.candidates.add_candidate(NewCandidate(best, files))
        evaluated = evaluate_candidate(workspace.store, workspace.models, workspace.place, best.id)
        assert evaluated.test
        store.runs.add_finish(begun.id, evaluated.test.test_id)
        n_there = evaluated.attempts_done
    _add_trials(folder / "store.db", begun.id, base.digest, n_trials - n_there)
    return folder / "store.db", begun.id


def _add_trials(path: Path, run_id: str, version: str, n: int) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        [first] = connection.execute("select max(id) + 1 from call").fetchone()
        [task] = connection.execute("select min(id) from task").fetchone()
        ids = range(first, first + n)
        call = (
            "insert into call(id, key, scope, role, stage, draw, owner) values (?, ?, ?, 'target', 'rollout', ?, 'x')"
        )
        keys = ((id, hashlib.sha256(str(id).encode()).digest(), run_id, f"{run_id}/{id}") for id in ids)
        connection.executemany(call, keys)
        columns = "call_id, text, messages, tokens_in, tokens_out, usd, latency_ms"
        reply = f"insert into reply({columns}) values (?, 'no', '[]', 90, 9, 0, 1)"
        connection.executemany(reply, ((id,) for id in ids))
        trial = "insert into trial(version_id, task_id, call_id, hard, soft, reason) values (?, ?, ?, 0, 0, 'no')"
        connection.executemany(trial, ((version, task, id) for id in ids))


# Figures


def page_of(store: Path, id: str, path: Path) -> float:
    """Write the page on a thing of a store, and return how many seconds that took."""
    started = time.perf_counter()
    with Workspace(store, project=store.parent) as workspace:
        write_page(html_page([gather(workspace.store, workspace.place, id)]), path)
    return time.perf_counter() - started


def measure(*, is_short: bool = False) -> dict[str, object]:
    """Return the figures of both pages."""
    sizes = (200, 5_000, 60) if is_short else ()
    with tempfile.TemporaryDirectory() as temporary, browser() as opened:
        folder = Path(temporary)
        large, hostile = folder / "large.html", folder / "hostile.html"
        made_s = page_of(*large_store(folder / "large", *sizes), large)
        page_of(*hostile_store(folder / "hostile"), hostile)
        visits, found, is_inert = list[Visit](), list[str](), True
        for path in (large, hostile):
            with visited(opened, path.as_uri()) as (page, visit):
                page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
                if path == hostile:
                    found += violations(page)
                    is_inert = page.evaluate(f"{TELLTALE} === undefined") and page.url == path.as_uri()
            visits.append(visit)
        return {
            "seconds": round(visits[0].seconds, 2),
            "bytes": large.stat().st_size,
            "requests": sum(len(strangers(each)) for each in visits),
            "console_errors": sum(len(each.errors) for each in visits),
            "axe_violations": len(found),
            "hostile_inert": bool(is_inert),
            "made_in_seconds": round(made_s, 2),
        }


_TOP = "each => each.getBoundingClientRect().top + window.scrollY"


def screenshots(opened: Any, folder: Path) -> list[Path]:
    """Write the pictures of the documentation, of the demo's report, and return their files."""
    paths = [folder / f"{name}.png" for name in ("report", "learning", "tasks")]
    with tempfile.TemporaryDirectory() as temporary:
        url = Path(run(None, "demo", "--dir", f"{temporary}/demo")["report_path"]).as_uri()
        for path, width, start, end in (
            (paths[0], 800, "main", "#tasks"), (paths[1], 800, "#curve", "#spend"), (paths[2], 400, "#tasks", "#diff"),
        ):  # fmt: skip
            with visited(opened, url, width, dark=width == 400) as (page, _):
                if width == 400:
                    page.locator("details.task").first.locator("summary").click()
                top, bottom = (page.locator(name).evaluate(_TOP) for name in (start, end))
                height = min(bottom - top, 940)
                page.screenshot(
                    path=path, full_page=True, clip={"x": 0, "y": top, "width": width, "height": height}
                )  # fmt: skip
    return paths


def main() -> None:
    """Print the figures."""
    flags = parser(__doc__, "200 steps and 5,000 trials")
    flags.add_argument("--screenshots", metavar="DIR", type=Path, help="only write the pictures of docs/ there")
    options = flags.parse_args()
    if options.screenshots:
        with browser() as opened:
            print(*screenshots(opened, options.screenshots), sep="\n")
        return
    figures = measure(is_short=options.short)
    show(figures, options.json, seconds="below 2", bytes="below 2,000,000", requests="0", console_errors="0",
         axe_violations="0", hostile_inert="True")  # fmt: skip


if __name__ == "__main__":
    main()
