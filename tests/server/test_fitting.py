import json

import pytest

from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import EditOutcome, Proposed, Receipt, Submitted
from skillopt_mcp.reports.details import Inspected
from skillopt_mcp.server.app import fit_result


def proposed(diff: str, details: list[str]) -> Proposed:
    edits = [
        EditOutcome(index=n, op="append", path="SKILL.md", status="unmatched", reason="not_found", detail=detail)
        for n, detail in enumerate(details)
    ]
    return Proposed(status="candidate", skill="ledger", candidate_id="c-1", diff=diff, edits=edits)


def test_a_result_that_fits_stays_as_it_is() -> None:
    result = Inspected(id="x", kind="skill", text="x" * 9_000)
    assert json.loads(fit_result(result)) == result.model_dump()


def test_the_longest_text_gives_way_in_its_middle_and_says_so() -> None:
    result = proposed("+first\n" + "+line\n" * 5_000 + "+last\n", ["short"])
    shown = json.loads(fit_result(result))
    assert shown["diff"].startswith("+first\n")
    assert shown["diff"].endswith("+last\n")
    assert "\n[... cut to fit ...]\n" in shown["diff"]
    assert shown["edits"] == [edit.model_dump() for edit in result.edits]


@pytest.mark.parametrize("n", [64, 5_000])
@pytest.mark.parametrize("letter", ["x", "\u00e9", "\u6f22", "\x01"])
def test_a_result_fits_whatever_its_lists_hold_and_counts_what_it_leaves_out(letter: str, n: int) -> None:
    step = NextStep(action="submit_work", arguments={"job_id": "r-123456789012"}, why="correct it")
    receipts = [Receipt(work_id=f"w-{at:032x}", status="refused", reason=f"{at} {letter * 300}") for at in range(n)]
    inner = proposed(letter * 5_000, [f"{at} {letter * 90}" for at in range(n)])
    submitted = Submitted(status="done", job_id="r-123456789012", receipts=receipts, proposed=inner, next_step=step)
    text = fit_result(submitted)
    shown = json.loads(text)
    assert len(text) < 10_000
    assert shown["next_step"]["arguments"] == {"job_id": "r-123456789012"}
    n_shown = len(shown["receipts"]) + len(shown["proposed"]["edits"])
    assert n_shown + shown["n_not_shown"] == 2 * n


def test_a_next_step_that_takes_a_whole_answer_is_left_out_and_never_cut() -> None:
    step = NextStep(action="add_tasks", arguments={"skill": "x" * 12_000}, why="")
    shown = json.loads(fit_result(proposed("+line\n" * 5_000, ["short"] * 64).model_copy(update={"next_step": step})))
    assert shown["next_step"] is None
