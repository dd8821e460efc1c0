"""Pull request: what a gate found, as a comment in Markdown and as JUnit XML.

What others wrote (paths, ids, tags, answers, reasons) is hostile: in the comment it is code, in which nothing is a
link, an image, a mention or the end of a block. The comment is cut at whole parts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from skillopt_mcp.core.evidence import Verdict
from skillopt_mcp.core.gating import Gated, GatedSkill
from skillopt_mcp.core.text import counted, truncate_middle
from skillopt_mcp.reports.rendering import as_code, templates
from skillopt_mcp.workspace.evidence import is_simulated

MAX_COMMENT = 65_000
"""Characters; GitHub takes 65,536 in a comment, and in the summary of a check run."""
_MAX_COUNTS, _MAX_ANSWER = 400, 1_500
_SENTENCES: dict[Verdict, tuple[str, str]] = {
    "better": ("Better", "{new} solves more"),
    "better_here": ("Better", "{new} solves more"),
    "worse": ("Worse", "{new} solves fewer"),
    "worse_here": ("Worse", "{new} solves fewer"),
    "no_worse": ("No worse", "{new} loses less than the margin"),
    "not_better": ("No gain in sight", "nothing is proven of {path}"),
    "cant_tell": ("Can't tell yet", "nothing is proven of {path}"),
    "not_tested": ("Not tested", "neither text of {path} reached the model"),
}
_UNTESTED = {"failed": "Failed", "not_run": "Could not run", "neutral": "Not tested", "passed": "Nothing to test"}
"""The outcomes without a verdict, the most important first."""
_ORIGINS = {"base": "of the base", "head": "new in this pull request", "store": "of the store", "given": "given"}
_IS_MARKED = re.compile(r"<!-- skillopt-mcp gate((?: [0-9a-f]{16}=[0-9]{1,6})*) -->\s*\Z")
_JUNIT = {"failed": ("failures", "failure"), "not_run": ("errors", "error"), "neutral": ("skipped", "skipped")}


def render_comment(gated: Gated, counts: Mapping[str, int] | None = None, source: str = "") -> str:
    """Show what a gate found, in Markdown of at most `MAX_COMMENT` characters whose first line is the verdict.

    Args:
        counts: The numbers of tests that the comment before this one has, as `read_counts` reads them.
        source: A sentence on who reports it, where that is no run of this repository: its tests are not counted.
    """
    page: Any = (
        templates(is_html=False)
        .get_template("comment.md.j2")
        .make_module({"describe_skill": describe_skill, "origins": _ORIGINS})
    )
    numbers = dict(counts or {})
    for skill in gated.skills if not source else ():
        if skill.report:
            key = digest_path(skill.before or skill.path)
            numbers[key] = max(numbers.get(key, 0), min(skill.test_number, 10**6 - 1))
    mark = "".join(f" {key}={n}" for key, n in list(numbers.items())[:_MAX_COUNTS])
    verdict, sentence = describe_gated(gated)
    # What has the least number is kept first, where not all can be.
    parts = [(0, f"{source}{' ' * bool(source)}**{verdict}**: {sentence}\n")]
    skills = sorted(gated.skills, key=_importance)
    if len(skills) > 1:
        parts += [(1, page.heads()), *((2, page.row(skill)) for skill in skills)]
    for skill in skills:
        parts.append((3, page.facts(skill, len(skills) > 1 or gated.stopped)))
        parts += [(4, page.worse(task)) for task in skill.worse]
        parts += [(5, page.mathematics(skill.report))] if skill.report else []
    left, taken = MAX_COMMENT - len(page.end(gated, len(parts), f"<!-- skillopt-mcp gate{mark} -->")), set[int]()
    for at in sorted(range(len(parts)), key=lambda at: parts[at][0]):
        if len(parts[at][1]) <= left:
            taken.add(at)
            left -= len(parts[at][1])
    end = page.end(gated, len(parts) - len(taken), f"<!-- skillopt-mcp gate{mark} -->")
    return "".join([*(text for at, (_, text) in enumerate(parts) if at in taken), end])


def describe_gated(gated: Gated) -> tuple[str, str]:
    """The verdict with its claim, on the skill that matters most; in Markdown a sentence, and how the others are."""
    skills = sorted(gated.skills, key=_importance)
    if gated.stopped and not any(skill.outcome == "failed" for skill in skills):
        return "Could not run", as_code(gated.stopped, 600)
    if not skills:
        return "No skill changed", "there is nothing to test."
    first, *others = skills
    verdict, sentence = describe_skill(first)
    required = f" Required: {gated.require}." if first.outcome == "failed" else ""
    counts = {name: sum(each.outcome == name for each in others) for name in _UNTESTED}
    rest = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in counts.items() if n)
    return verdict, f"{sentence}.{required}" + (f" {counted(len(others), 'other')}: {rest}." if others else "")


def describe_skill(skill: GatedSkill, show: Callable[[str], str] = as_code) -> tuple[str, str]:
    """The verdict on a skill with its claim, and a sentence; what others wrote is as `show` shows it."""
    if skill.verdict is None:
        why = skill.why.rstrip(".") or ("deleted" if skill.change == "deleted" else "no test was made")
        return _UNTESTED[skill.outcome], f"{show(skill.path)}: {show(why)}"
    verdict, sentence = _SENTENCES[skill.verdict]
    claim = f" {skill.claim}" if skill.claim and skill.verdict != "not_tested" else ""
    path, against = show(skill.path), skill.report.against if skill.report else ""
    new = f"{path} with {show(against)}" if against else f"the new text of {path}"
    number = f"test {skill.test_number} of {'these models' if against else 'this pull request'}"
    if not skill.number_known:
        number = f"at least test {skill.test_number}: this claim is for one test"
    unreal = ", in a simulation" if skill.report and is_simulated(skill.report.backend) else ""
    return verdict + claim, f"{sentence.format(new=new, path=path)} ({number}){unreal}"


def read_counts(body: str) -> dict[str, int] | None:
    """The numbers of tests by skill with which the comment of a gate ends; None where this is no such comment."""
    found = _IS_MARKED.search(body)
    return {key: int(n) for key, n in (each.split("=") for each in found[1].split())} if found else None


def render_junit(gated: Gated) -> str:
    """Show what a gate found as JUnit XML: a suite for each skill, whose one case is its verdict."""
    rows = []
    if gated.stopped or not gated.skills:
        rows.append(("gate", "error" if gated.stopped else "system-out", gated.stopped or "no skill changed", [""]))
    for skill in gated.skills:
        lines = [skill.why if skill.verdict else "", *skill.notes]
        for task in skill.worse[:_MAX_COUNTS]:
            lines.append(f"worse: {task.id} {' '.join(task.tags)}")
            for name, text in (("old", task.old_answer), ("new", task.new_answer)):
                lines += [f"{name} answer: {truncate_middle(text, _MAX_ANSWER)}"] if text is not None else []
        tag = _JUNIT.get(skill.outcome, ("", "system-out"))[1]
        rows.append((skill.path, tag, ": ".join(describe_skill(skill, str)), lines))
    return templates().get_template("junit.xml.j2").render(rows=rows, counted=list(_JUNIT.values()))


def _importance(skill: GatedSkill) -> int:
    return list(_UNTESTED).index(skill.outcome)


def digest_path(path: str) -> str:
    """By what the tests of a skill are counted: its path at the base, or at the head where it is new."""
    return hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:16]
