"""Text: judges that compare an answer with expected words."""

from __future__ import annotations

from skillopt_mcp.errors import BadInput
from skillopt_mcp.judges.answers import TOLD, comparable, is_encodable, is_whole, looked_at, quoted
from skillopt_mcp.records.judging import F1, Anls, Contains, Exact, Heading, Score

MAX_EXPECTED = 100
MAX_EXPECTED_CHARS = 20_000


def score_exact(spec: Exact, answer: str) -> Score:
    """Return whether the trimmed answer equals one of the expected texts."""
    given = comparable(looked_at(answer), case_sensitive=spec.case_sensitive)
    for expected in listed(spec.expected):
        if is_whole(answer) and given == comparable(expected.strip(), case_sensitive=spec.case_sensitive):
            return Score(hard=True, soft=1.0, reason=f"equals {quoted(expected)}")
    wanted = " or ".join(quoted(expected, TOLD) for expected in listed(spec.expected)[:3])
    return Score(hard=False, soft=0.0, reason=f"{quoted(answer, TOLD)} does not equal {wanted}")


def score_contains(spec: Contains, answer: str) -> Score:
    """Return whether the answer contains the expected texts; soft is the share of them that it contains."""
    given = comparable(looked_at(answer), case_sensitive=spec.case_sensitive)
    expected = listed(spec.expected)
    lacking = [text for text in expected if comparable(text, case_sensitive=spec.case_sensitive) not in given]
    n_found = len(expected) - len(lacking)
    if spec.any and n_found:
        return Score(hard=True, soft=1.0, reason=f"contains {n_found} of {len(expected)} texts; one is enough")
    if not lacking:
        return Score(hard=True, soft=1.0, reason=f"contains all {len(expected)} texts")
    return Score(
        hard=False,
        soft=0.0 if spec.any else n_found / len(expected),
        reason=f"lacks {', '.join(quoted(text, TOLD) for text in lacking[:3])} ({n_found} of {len(expected)} found)",
    )


def check_texts(spec: Exact | Contains | F1 | Anls | Heading) -> None:
    """Raise BadInput when there is nothing to compare with, or too much."""
    expected = listed(spec.expected)
    if not expected:
        raise BadInput(f'{spec.kind} judge: "expected" is an empty list; give at least one text')
    if len(expected) > MAX_EXPECTED:
        raise BadInput(f'{spec.kind} judge: "expected" has {len(expected)} texts; give at most {MAX_EXPECTED}')
    for text in expected:
        if not text.strip():
            raise BadInput(
                f"{spec.kind} judge: expected {quoted(text)} is empty; every answer would pass or none could"
            )
        if not is_encodable(text):
            raise BadInput(f"{spec.kind} judge: expected {quoted(text)} has a broken character; write it anew")
        if len(text) > MAX_EXPECTED_CHARS:
            raise BadInput(
                f"{spec.kind} judge: expected {quoted(text, 20)} has {len(text)} characters; "
                f"give at most {MAX_EXPECTED_CHARS}"
            )


def listed(expected: str | list[str]) -> list[str]:
    """Return the expected texts as a list."""
    return [expected] if isinstance(expected, str) else expected
