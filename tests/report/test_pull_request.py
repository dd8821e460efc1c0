"""A gate's comment and JUnit file, from what it found: what they say, and that nobody else's words say it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from skillopt_mcp.core import evidence
from skillopt_mcp.core.evidence import Lost, RunCounts, Solved, Unanswered, Units
from skillopt_mcp.core.gating import Gated, GatedSkill, GatedTasks, GateUsed, WorseTask
from skillopt_mcp.reports.pull_request import MAX_COMMENT, digest_path, read_counts, render_comment, render_junit

OURS = re.compile(r"</?(?:code|details|summary)>|<!-- skillopt-mcp gate[ 0-9a-f=]* -->")
HOSTILE = [
    "**Better on these cases**: all is well",
    "</code></summary></details>\n\n# Better",
    "```\n</details>\n**Better**\n~~~\n````",
    "ping @everyone and @octo/team, see #12, GH-3, octo/repo#4, a@b.example",
    "![pixel](https://evil.example/x.png) [click](javascript:alert(1)) <img src=https://evil.example>",
    "www.evil.example https://evil.example",
    "a | b | Better | 9 / 0 / 0 |\n|---|---|",
    "<!-- skillopt-mcp gate 0123456789abcdef=900 -->",
    "$x$ \\[y\\] :tada: _u_ ~~s~~ &amp; &#64;you",
    "\u202egnp.exe \x1b[2J \x00 \ud800 \uffff \u200b",
]


def a_report(verdict: str = "worse", **given: Any) -> evidence.TestReport:
    return evidence.TestReport(
        verdict=verdict, alpha=0.05, units=Units(seen=12, of=12, better=1, same=4, worse=7), test_id="t-1",
        runs=RunCounts(base=24, candidate=24), lost=Lost(), test_in_release=1, p_bound=0.01,
        solved=Solved(before=0.8, after=0.4), **given,
    )  # fmt: skip


def a_skill(path: str = "skills/tone", **given: Any) -> GatedSkill:
    values: dict[str, Any] = {
        "path": path, "change": "changed", "outcome": "failed", "verdict": "worse", "claim": "on these cases",
        "tasks": GatedTasks.model_validate({"from": "base", "n": 12}), "report": a_report(), "number_known": True,
    }  # fmt: skip
    return GatedSkill(**values | given)


def a_gate(*skills: GatedSkill, **given: Any) -> Gated:
    values = {"base": "a" * 40, "head": "b" * 40, "command": "skillopt-mcp gate --base main", "skills": list(skills)}
    return Gated(**values | given)


def tokens_of(markdown: str) -> list[Token]:
    """All that a renderer of GitHub's dialect makes of a comment, flat."""
    found = list[Token]()
    for token in MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(markdown):
        found += [token, *(token.children or [])]
    return found


def test_the_first_line_says_the_verdict_its_claim_and_the_number_of_the_test() -> None:
    first = render_comment(a_gate(a_skill(test_number=3))).splitlines()[0]
    assert first.startswith("**Worse on these cases**: the new text of <code>skills/tone</code> solves fewer")
    assert "(test 3 of this pull request)" in first
    assert render_comment(a_gate(a_skill())).count("solves fewer") == 1
    unknown = render_comment(a_gate(a_skill(number_known=False))).splitlines()[0]
    assert "at least test 1: this claim is for one test" in unknown


@pytest.mark.parametrize(
    ("given", "begins"),
    [
        ({"verdict": "better", "outcome": "passed", "claim": "on tasks like these"}, "**Better on tasks like these**:"),
        ({"verdict": "cant_tell", "outcome": "neutral"}, "**Can't tell yet on these cases**: nothing is proven of "),
        ({"verdict": "not_tested", "outcome": "neutral"}, "**Not tested**: "),
        ({"verdict": None, "report": None, "outcome": "not_run", "why": "no login"}, "**Could not run**: "),
        ({"verdict": None, "report": None, "outcome": "neutral", "change": "deleted"}, "**Not tested**: "),
    ],
)  # fmt: skip
def test_each_verdict_has_words_of_its_own(given: dict[str, Any], begins: str) -> None:
    assert render_comment(a_gate(a_skill(**given))).startswith(begins)


def test_what_would_decide_is_said_where_nothing_is_proven() -> None:
    skill = a_skill(verdict="cant_tell", outcome="neutral", why="Add 6 tasks of priority")
    assert "Add 6 tasks of priority" in render_comment(a_gate(skill))


def test_a_gate_that_could_ask_nothing_is_not_called_worse() -> None:
    comment = render_comment(a_gate(stopped="the login has expired"))
    assert comment.startswith("**Could not run**: <code>the login has expired</code>")
    assert "worse" not in comment.replace("any-but-worse", "")


def test_the_worst_skill_comes_first_and_the_table_names_all() -> None:
    good = a_skill("skills/good", verdict="better_here", outcome="passed")
    untested = a_skill("skills/bare", verdict=None, report=None, tasks=None, outcome="not_run", why="it has no tasks")
    comment = render_comment(a_gate(good, untested, a_skill("skills/bad")))
    assert comment.startswith("**Worse on these cases**: the new text of <code>skills/bad</code>")
    assert "2 others: 1 not run, 1 passed." in comment.splitlines()[0]
    rows = [line for line in comment.splitlines() if line.startswith("| <code>")]
    assert [row.split("</code>")[0] for row in rows] == [
        "| <code>skills/bad", "| <code>skills/bare", "| <code>skills/good",
    ]  # fmt: skip


def test_tasks_that_got_worse_show_both_answers_and_held_out_ones_id_and_tags_alone() -> None:
    worse = [
        WorseTask(id="open-1", tags=["dates"], old_answer="the 3rd of May", new_answer="May"),
        WorseTask(id="held-1", tags=["dates"]),
    ]
    comment = render_comment(a_gate(a_skill(worse=worse), used=GateUsed(calls=48, tokens=1200, usd=None)))
    assert "the 3rd of May" in comment
    assert "- <code>held-1</code>, <code>dates</code>" in comment
    assert "48 calls, 1,200 tokens, price not known" in comment
    assert "skillopt-mcp gate --base main" in comment


@pytest.mark.parametrize("text", HOSTILE)
def test_words_of_others_are_text_wherever_they_stand(text: str) -> None:
    report = a_report(unanswered=[Unanswered(fault="timeout", base=1, candidate=0, reason=text)], models=[text])
    worse = [WorseTask(id=text, tags=[text], old_answer=text, new_answer=text * 50), WorseTask(id=text)]
    skill = a_skill(f"skills/{text}", before=text, why=text, notes=[text], report=report, worse=worse)
    untested = a_skill(text, verdict=None, report=None, outcome="not_run", why=text)
    for gated in (a_gate(skill, untested, command=f"skillopt-mcp gate {text}"), a_gate(stopped=text, base=text)):
        comment = render_comment(gated)
        assert comment.startswith("**Worse on these cases**" if gated.skills else "**Could not run**")
        assert read_counts(comment) == ({key_of("skills/tone", text): 1} if gated.skills else {})
        kinds = {"link_open", "image", "em_open", "s_open"}
        is_code = 0
        for token in tokens_of(comment):
            assert token.type not in kinds
            if token.type in ("html_block", "html_inline"):
                # Nothing but our own tags, and in them text whose signs are all written as numbers.
                assert not re.search(r"[<>@#!\[\]`*]|://|www\.", OURS.sub("", token.content).replace("&#", "")), token
            is_code += token.content.count("<code>") - token.content.count("</code>")
            if token.type == "text" and not is_code:
                assert "evil" not in token.content
                assert "@" not in token.content
        assert sum(token.type == "strong_open" for token in tokens_of(comment)) == 1
        assert comment.count("<details>") == comment.count("</details>") or "details" in text


def key_of(path: str, before: str) -> str:
    counts = read_counts(render_comment(a_gate(a_skill(path, before=before))))
    assert counts
    return next(iter(counts))


def test_a_comment_is_cut_at_whole_parts_and_says_so() -> None:
    answer = "`" * 40 + "x" * 1_000_000
    worse = [WorseTask(id=f"task-{n}", old_answer=answer, new_answer=answer[::-1]) for n in range(300)]
    skills = [a_skill(f"skills/{n}", worse=worse) for n in range(3)]
    comment = render_comment(a_gate(*skills))
    assert len(comment) <= MAX_COMMENT
    assert "left out" in comment
    assert comment.count("<details>") == comment.count("</details>") > 3
    assert read_counts(comment) is not None
    assert sum(token.type == "fence" for token in tokens_of(comment)) == 1 + 2 * comment.count("<code>task-") + sum(
        "Test t-1" in line for line in comment.splitlines()
    )


def test_a_thousand_skills_with_long_names_fit() -> None:
    skills = [a_skill(f"{'@' * 4000}{n}", why="\u202e" * 9000, notes=["<" * 9000] * 90) for n in range(1000)]
    comment = render_comment(a_gate(*skills, command="x" * 10**6, stopped="\u202e" * 10**6))
    assert len(comment) <= MAX_COMMENT
    assert comment.startswith("**Worse")


def test_the_numbers_of_tests_are_found_again_and_never_fall() -> None:
    comment = render_comment(a_gate(a_skill("skills/a", test_number=2), a_skill("skills/b", test_number=1)))
    counts = read_counts(comment)
    assert counts
    assert (counts[digest_path("skills/a")], counts[digest_path("skills/b")]) == (2, 1)
    again = read_counts(render_comment(a_gate(a_skill("skills/a", test_number=1)), counts))
    assert again == counts
    renamed = read_counts(render_comment(a_gate(a_skill("skills/new", before="skills/a", test_number=3)), counts))
    assert renamed
    assert renamed[digest_path("skills/a")] == 3


def test_a_strangers_report_counts_no_test() -> None:
    assert read_counts(render_comment(a_gate(a_skill(test_number=9)), {}, "Reported by a fork.")) == {}


def test_text_that_only_quotes_the_mark_is_no_comment_of_ours() -> None:
    assert read_counts(f"look: {render_comment(a_gate(a_skill()))}\n\nis it not?") is None
    assert read_counts("<!-- skillopt-mcp gate 0123456789abcdef=1 zz -->") is None


def test_junit_has_a_suite_a_skill() -> None:
    skills = [
        a_skill("skills/bad", worse=[WorseTask(id="w1", tags=["t"], old_answer="yes", new_answer="no")]),
        a_skill("skills/bare", verdict=None, report=None, outcome="not_run", why="it has no tasks"),
        a_skill("skills/same", verdict="cant_tell", outcome="neutral", why="add 4 tasks"),
        a_skill("skills/good", verdict="better_here", outcome="passed"),
    ]
    root = ET.fromstring(render_junit(a_gate(*skills)).encode())
    counts = {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    found = {suite.get("name"): [child.tag for child in suite[0]] for suite in root}
    assert found == {
        "skills/bad": ["failure"], "skills/bare": ["error"], "skills/same": ["skipped"], "skills/good": ["system-out"],
    }  # fmt: skip
    assert "new answer: no" in (root[0][0][0].text or "")
    assert "Worse on these cases" in (root[0][0][0].get("message") or "")


@pytest.mark.parametrize(("gated", "tag"), [(a_gate(), "system-out"), (a_gate(stopped="no login"), "error")])
def test_junit_is_never_empty(gated: Gated, tag: str) -> None:
    root = ET.fromstring(render_junit(gated).encode())
    assert [child.tag for child in root[0][0]] == [tag]


@settings(max_examples=25, deadline=None)
@given(st.text(st.characters(), max_size=40))
def test_junit_is_xml_and_the_comment_keeps_its_first_line_whatever_the_text(text: str) -> None:
    worse = [WorseTask(id=text, tags=[text], old_answer=text, new_answer=text)]
    gated = a_gate(a_skill(f"s{text}", why=text, notes=[text], worse=worse))
    assert ET.fromstring(render_junit(gated).encode())[0].get("tests") == "1"
    assert render_comment(gated).splitlines()[0].startswith("**Worse on these cases**: the new text of <code>s")
    assert not {token.type for token in tokens_of(render_comment(gated))} & {"link_open", "image"}
