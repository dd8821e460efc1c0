"""Agent output: graders of eval.yaml that look at the agent's last message, as skill-validator and vally mean them."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Literal

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Attempt, Judge, Outcome, Score, Unscored, judge
from skillopt_mcp.tasks.judges.base import QUOTED, is_encodable, quoted
from skillopt_mcp.tasks.judges.javascript import JavaScriptPattern, NoEqualPattern, compile_javascript

OutputGrader = Literal[
    "output_contains", "output_not_contains", "output_matches", "output_not_matches", "exit_success",
    "output-contains", "output-not-contains", "output-matches", "output-not-matches", "exit-success",
]  # fmt: skip
_FLAGS = re.compile(r"\(\?([ims]+)\)")
# What means the same in .NET and in JavaScript, but for $, which in .NET also stands before a last line feed.
_DOTNET = re.compile(
    r"\\[dDwWsSbBtnrf]|\\[^\w\n]|\[\^?(?!\])(?:\\[dwstnrf]|\\[^\w\n]|(?!-\[)[^\\\]])+\]"
    r"|\((?:\?:|(?!\?))|[^\\\[($]|(\$)(?=(?:\|[^()]*)?\)*\Z)"
)
_UNCERTAIN = re.compile("[\r\x85\u2028\u2029\ufeff\u0130\u0131\u017f\u212a]")


@judge("agent_output", of_evals=True)
class AgentOutput(Judge):
    """The answer passes `grader` of an eval.yaml by `value`: `output_contains`, `output_not_matches`, ...

    Those are skill-validator's, with patterns of .NET without case; with hyphens they are vally's, with JavaScript's.
    """

    grader: OutputGrader
    value: str = ""
    case_sensitive: bool = False

    def score(self, attempt: Attempt) -> Outcome:
        """The whole answer is looked at; one with characters of which it is not certain has no score."""
        text = attempt.answer
        try:
            if self._kind == "exit-success":
                found = bool(text)
            elif self._kind.endswith("contains"):
                found = self._fold(self.value) in self._fold(text)
            else:
                found = self._compile(text).search(text)
        except BadInput as error:
            return Unscored(f"{self.grader} cannot judge {quoted(text)}: {error}")
        passes = found != ("-not-" in self._kind)
        verb = "passes" if passes else "fails"
        return Score(passes, float(passes), f"{quoted(text, QUOTED)} {verb} {self.grader} {quoted(self.value, QUOTED)}")

    def check(self) -> None:
        if not is_encodable(self.value) or (self._kind != "exit-success" and not self.value.strip()):
            raise BadInput(f"agent_output judge: {self.grader} needs a value, a text of UTF-8")
        if self._kind.endswith("matches"):
            self._compile()

    def references(self) -> list[str]:
        return [self.value] if self._kind == "output-contains" else []

    def is_form_only(self) -> bool:
        return self._kind == "exit-success"

    @property
    def _kind(self) -> str:
        return self.grader.replace("_", "-")

    def _fold(self, text: str) -> str:
        if self.case_sensitive:
            return text
        # .NET folds each character by itself, and none into ASCII.
        return text.lower() if "-" in self.grader else "".join(
            upper if len(upper := each.upper()) == 1 and (each.isascii() or not upper.isascii()) else each
            for each in text
        )  # fmt: skip

    def _compile(self, text: str = "") -> JavaScriptPattern:
        """Compile the pattern. Raises BadInput, also where a text may mean another thing in .NET."""
        if "-" in self.grader:
            inline = _FLAGS.match(self.value)
            return compile_javascript(self.value[inline.end() :] if inline else self.value, inline[1] if inline else "")
        categories = {unicodedata.category(each) for each in set(text) if not each.isascii()}
        has_words = any(each[0] in "LMN" or each in ("Pc", "Cf") for each in categories)
        if _UNCERTAIN.search(text) or (has_words and re.search(r"\\[dDwWbB]", self.value)):
            raise BadInput("it holds characters that .NET may read otherwise")
        return compile_javascript(_translate_dotnet(self.value), "i")


@lru_cache(maxsize=256)
def _translate_dotnet(pattern: str) -> str:
    """Write a pattern of .NET for JavaScript. Raises NoEqualPattern naming what may mean another thing there."""
    pattern, parts, at = pattern.removeprefix("(?i)"), list[str](), 0
    while at < len(pattern):
        part = _DOTNET.match(pattern, at)
        if part is None or any(each.isalpha() and not each.isascii() for each in part[0]):
            raise NoEqualPattern(f"{quoted(pattern[at : at + 4])} of .NET")
        parts.append(r"\n?$" if part[1] else part[0])
        at = part.end()
    return "".join(parts)
