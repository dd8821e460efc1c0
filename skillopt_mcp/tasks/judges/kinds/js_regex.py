"""JavaScript regex: the judge that searches a whole answer with a pattern of JavaScript, as other tools' evals do."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Attempt, Judge, Outcome, Score, Unscored, judge
from skillopt_mcp.tasks.judges.base import QUOTED, quoted
from skillopt_mcp.tasks.judges.javascript import compile_javascript

_MOST = 100_000


@judge("js_regex", of_evals=True)
class JavaScriptRegex(Judge):
    """A JavaScript `pattern` is found in the whole answer, or with `match` is not, or is found exactly N times.

    `match` is contains, not_contains or count:N; `flags` are those of `new RegExp(pattern, flags)`, by default none.
    """

    pattern: str
    flags: str = ""
    match: Annotated[str, Field(pattern=r"^(contains|not_contains|count:[0-9]+)$")] = "contains"

    def score(self, attempt: Attempt) -> Outcome:
        pattern, (kind, _, wanted) = compile_javascript(self.pattern, self.flags), self.match.partition(":")
        try:
            if kind == "count":
                n = pattern.count(attempt.answer, int(wanted) + 1)
                passes, seen = n == int(wanted), f"found {'more than ' * (n > int(wanted))}{min(n, int(wanted))} times"
            else:
                found = pattern.search(attempt.answer)
                passes, seen = found is (kind == "contains"), "found" if found else "not found"
        except BadInput as error:
            return Unscored(str(error))
        reason = f"/{quoted(self.pattern, QUOTED)}/{self.flags} {seen}, {self.match} wanted"
        return Score(passes, float(passes), reason)

    def check(self) -> None:
        if not self.pattern:
            raise BadInput("js_regex judge: an empty pattern matches every answer")
        pattern, (_, _, wanted) = compile_javascript(self.pattern, self.flags), self.match.partition(":")
        if len(wanted) > len(str(_MOST)) or int(wanted or 0) > _MOST:
            raise BadInput(f"js_regex judge: at most {_MOST:,} matches are counted, got {wanted[:20]}")
        if wanted and not pattern.is_countable:
            raise BadInput(
                "js_regex judge: what may match nothing is repeated, which is counted otherwise in JavaScript"
            )
