"""Rendering: the facts of a page as one HTML file that needs no script, as Markdown, and as tables.

What others wrote (names, prompts, answers, diffs) is hostile: all is escaped, and hidden characters are shown.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from skillopt_mcp import __version__
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import GROUPS, cut_prompt
from skillopt_mcp.core.text import counted, shown, truncate_middle
from skillopt_mcp.gates.verdicts import LABELS, caveats, claims_of, describe, explain, label
from skillopt_mcp.reports.facts import MAX_TASKS, Facts, SkillFacts
from skillopt_mcp.reports.run_report import RunFacts
from skillopt_mcp.workspace.costs import price_cell

_TEMPLATES = Path(__file__).with_name("templates")
Script = Literal["", "live", "app"]
WIDTH, HEIGHT = 640, 220
_LEFT, _TOP, _BOTTOM = 34, 8, 20
_MANY = 60
_NOT_XML = re.compile("[^\t\n\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKDOWN = re.compile(r"[^\w\s.,;:()/%+='→?-]|_|:(?=//)|(?<=www)\.", re.IGNORECASE)  # no address is a link


def html_page(
    facts: Sequence[Facts], skills: Sequence[SkillFacts] = (), store: str | None = None, *, script: Script = ""
) -> str:
    """Return a page on one thing or on several side by side, or on all skills where there are none.

    Commands name the `store` where it is not the default one. A `script` swaps the parts of a live page, or the page in
    a host; none is needed to read it.
    """
    style = (_TEMPLATES / "style.css").read_text("utf-8")
    code = (_TEMPLATES / f"{script}.js").read_text("utf-8") if script else ""
    sources = [f"style-src {_hash_of(style)}", "img-src data:", "base-uri 'none'", "form-action 'none'"]
    sources += [f"script-src {_hash_of(code)}", "connect-src 'self'"] if script else []
    policy = "; ".join(["default-src 'none'", *sources])
    return templates().get_template("page.html.j2").render(
        facts=facts, skills=skills, policy=policy, style=Markup(style), script=Markup(code), store=store,
        is_live=script == "live",
    )  # fmt: skip


def html_part(name: str, **values: Any) -> str:
    """Return one part of a page, as the page has it."""
    return templates().get_template(f"{name}.html.j2").render(**values)


def markdown(facts: Sequence[Facts]) -> str:
    """Return the same for a pull request or a host: tasks by id and tag alone."""
    texts = templates(is_html=False).get_template("report.md.j2")
    return "\n".join(texts.render(each=each) for each in facts)


def _hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def templates(*, is_html: bool = True) -> Environment:
    """The templates of HTML and XML, or of Markdown; what they show of others is text in it."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=is_html,
        undefined=StrictUndefined,
        finalize=_visible if is_html else _plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=lambda share: f"{100 * share:.0f}",
        duration=lambda s: f"{s / 3600:.1f} hours" if s >= 5400 else f"{max(1, round(s / 60))} min",
        code=as_code,
        cut_middle=truncate_middle,
        xml=lambda text: _NOT_XML.sub("\ufffd", shown(text)),
    )
    environment.globals.update({
        "version": __version__, "label": label, "describe": describe, "caveats": caveats,
        "explain": explain, "claims": claims_of, "labels": LABELS, "curve_of": curve, "evidence_of": evidence,
        "price_cell": price_cell, "fence": _fence, "max_tasks": MAX_TASKS, "counted": counted,
        "groups": GROUPS, "cut_prompt": cut_prompt, 
        "command": lambda action, store, **given: NextStep(action, given).as_command(store),
    })  # fmt: skip
    return environment


def _visible(value: object) -> object:
    """Return a text with its hidden characters shown, so that what is read is what is there."""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _plain(value: object) -> object:
    """Return a text that Markdown takes for text alone."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    line = " ".join(shown(value).split())
    return _MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", line)


def as_code(text: str, limit: int = 200) -> Markup:
    """Return a text as one line of code in Markdown, cut after `limit` characters; nothing in it is more than text."""
    return Markup(f"<code>{_plain(text if len(text) <= limit else f'{text[:limit]}...') or '-'}</code>")


def _fence(lines: Iterable[str], kind: str = "diff") -> Markup:
    """Return lines as a block of code of a kind that none of them can end."""
    text = "\n".join(map(shown, lines))
    marks = "`" * (1 + max([2, *map(len, re.findall("`+", text))]))
    return Markup(f"{marks}{kind}\n{text}\n{marks}")


# Charts


@dataclass(frozen=True, slots=True)
class Curve:
    """The learning curve of a run as paths of an SVG: the current score as a line, candidates as marks."""

    name: str
    line: str
    marks: dict[str, str]
    intervals: str
    end: tuple[float, float]


def curve(runs: Sequence[RunFacts]) -> list[Curve]:
    """Return the learning curves of runs over the same axes: scores from 0 to 1, and steps."""
    n_most = max(len(run.steps) for run in runs)

    def x(n: int) -> float:
        return round(_LEFT + (WIDTH - _LEFT - 60) * n / max(1, n_most), 1)

    def y(score: float) -> float:
        return round(_TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - min(1.0, max(0.0, score))), 1)

    curves = []
    for run in runs:
        at = y(run.baseline if run.baseline is not None else run.steps[0].record.current)
        line, intervals, marks = [f"M{x(0)} {at}"], list[str](), dict[str, str]()
        for n, step in enumerate(run.steps, start=1):
            if (now := y(step.record.current)) != at:
                line.append(f"H{x(n)}V{now}")
                at = now
            if step.record.candidate is None:
                continue
            place = f"{x(n)} {y(step.record.candidate)}"
            marks[step.outcome] = marks.get(step.outcome, "") + f"M{place}{_SHAPES[step.outcome]}"
            if step.interval and (step.outcome != "rejected" or len(run.steps) <= _MANY):
                intervals.append(f"M{x(n)} {y(step.interval[0])}V{y(step.interval[1])}")
        end = (x(len(run.steps)), at)
        curves.append(Curve(run.run.id, f"{''.join(line)}H{end[0]}", marks, "".join(intervals), end))
    return curves


_SHAPES = {"kept": "h.01", "rejected": "m-3 -3l6 6m0 -6l-6 6", "held": "m0 -5l5 9h-10z", "unchanged": "h.01"}


def evidence(path_of_test: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    """The totals of a test and its boundaries, pair by pair, as paths of an SVG: see `SignTest.path`."""
    totals, least = [0, *(total for total, *_ in path_of_test)], [least for _, least, *_ in path_of_test]
    most = [each for _, _, *rest in path_of_test for each in rest]
    low, high = min(totals + least + most), max(totals + least + most)

    def point(n: int, value: int) -> str:
        x = _LEFT + (WIDTH - _LEFT - 60) * n / len(least)
        return f"{x:.1f} {_TOP + (HEIGHT - _TOP - _BOTTOM) * (high - value) / max(1, high - low):.1f}"

    def path(values: Sequence[int], first: int) -> str:
        return "M" + "L".join(point(n, value) for n, value in enumerate(values, start=first))

    zero, *ends = (float(point(0, value).split()[1]) for value in (0, totals[-1], least[-1]))
    paths = {"total": path(totals, 0), "least": path(least, 1), "most": path(most, 1) if most else ""}
    return {**paths, "zero": zero, "ends": _apart(*ends), "low": low, "high": high}


def _apart(one: float, other: float) -> tuple[float, float]:
    """Where two labels stand, so that neither covers the other."""
    shift = max(0.0, 14 - abs(one - other)) / 2
    return (one + 4 - shift, other + 4 + shift) if one <= other else (one + 4 + shift, other + 4 - shift)


# Tables


def write_csv(facts: Sequence[Facts], folder: Path) -> list[Path]:
    """Write tasks, steps and spend as tables, by id and tag alone, and return their files."""
    tasks = [
        (each.id, task.unit.task, task.tag, task.unit.outcome, *(f"{score:.4f}" for score in task.unit.scores))
        for each in facts
        for task in each.tasks
    ]
    steps = [
        (run.run.id, step.record.n, step.record.epoch, step.outcome, step.record.candidate,
         *(step.interval or ("", "")), step.record.current, step.record.best, step.why)
        for each in facts
        for run in each.runs
        for step in run.steps
    ]  # fmt: skip
    spend = [
        (each.id, row.test, row.role, row.stage, row.n_calls, row.n_missing, row.n_failed, row.tokens_in,
         row.tokens_out, row.usd)
        for each in facts
        for row in each.spend
    ]  # fmt: skip
    heads = {
        "tasks": ("report", "task", "tag", "outcome", "before", "after"),
        "steps": ("run", "step", "epoch", "outcome", "candidate", "low", "high", "current", "best", "why"),
        "spend": ("report", "test", "role", "stage", "calls", "missing", "failed", "tokens_in", "tokens_out", "usd"),
    }
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    paths = []
    for name, rows in (("tasks", tasks), ("steps", steps), ("spend", spend)):
        paths.append(folder / f"{name}.csv")
        with open(paths[-1], "w", encoding="utf-8", newline="", opener=_private) as file:
            csv.writer(file).writerows([heads[name], *(map(_cell, row) for row in rows)])
    return paths


def write_page(text: str, path: Path) -> None:
    """Write a file that its user alone may read: there are held-out tasks in it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(path, "w", encoding="utf-8", errors="replace", opener=_private) as file:
        file.write(text)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula, and no terminal for a command."""
    text = shown(value) if isinstance(value, str) else ""
    return f"'{text}" if text.lstrip()[:1] in ("=", "+", "-", "@", "＝", "＋", "－", "＠") else text or value
