import json

from skillopt_mcp.core.results import EditOutcome, Proposed
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
