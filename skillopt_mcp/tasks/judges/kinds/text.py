"""Text: judges that compare an answer with expected words."""

from __future__ import annotations

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.judging import Attempt, Judge, Score, judge
from skillopt_mcp.tasks.judges.base import QUOTED, comparable, is_encodable, is_whole, quoted, take_end

MAX_EXPECTED = 100
MAX_EXPECTED_CHARS = 20_000


class Expecting(Judge):
    """Base of the kinds that expect one text, or one or all of several."""

    expected: str | list[str]

    @property
    def texts(self) -> list[str]:
        """The expected texts as a list."""
        return [self.expected] if isinstance(self.expected, str) else self.expected

    def check(self) -> None:
        if not 1 <= len(self.texts) <= MAX_EXPECTED:
            raise BadInput(f"{self.kind} judge: expected must be 1-{MAX_EXPECTED} texts, got {len(self.texts)}")
        for text in self.texts:
            if not text.strip() or len(text) > MAX_EXPECTED_CHARS or not is_encodable(text):
                raise BadInput(
                    f"{self.kind} judge: expected must be texts of 1-{MAX_EXPECTED_CHARS:,} characters of UTF-8, "
                    f"got {quoted(text, 20)}"
                )

    def references(self) -> list[str]:
        return self.texts[:1]


@judge("exact")
class Exact(Expecting):
    """The answer equals one of `expected`, after trimming, case folding (unless `case_sensitive`) and Unicode NFC."""

    case_sensitive: bool = False

    def score(self, attempt: Attempt) -> Score:
        given = comparable(take_end(attempt.answer), case_sensitive=self.case_sensitive)
        for text in self.texts:
            if is_whole(attempt.answer) and given == comparable(text.strip(), case_sensitive=self.case_sensitive):
                return Score(hard=True, soft=1.0, reason=f"equals {quoted(text)}")
        wanted = " or ".join(quoted(text, QUOTED) for text in self.texts[:3])
        return Score(hard=False, soft=0.0, reason=f"{quoted(attempt.answer, QUOTED)} does not equal {wanted}")


@judge("contains")
class Contains(Expecting):
    """The answer contains all (or, with `any`, at least one) of `expected`; soft is the share it contains."""

    any: bool = False
    case_sensitive: bool = False

    def score(self, attempt: Attempt) -> Score:
        given = comparable(take_end(attempt.answer), case_sensitive=self.case_sensitive)
        texts = self.texts
        lacking = [text for text in texts if comparable(text, case_sensitive=self.case_sensitive) not in given]
        n_found = len(texts) - len(lacking)
        if self.any and n_found:
            return Score(hard=True, soft=1.0, reason=f"contains {n_found} of {len(texts)} texts; one is enough")
        if not lacking:
            return Score(hard=True, soft=1.0, reason=f"contains all {len(texts)} texts")
        shown = ", ".join(quoted(text, QUOTED) for text in lacking[:3])
        soft = 0.0 if self.any else n_found / len(texts)
        return Score(hard=False, soft=soft, reason=f"lacks {shown} ({n_found} of {len(texts)} found)")

    def references(self) -> list[str]:
        text = "\n".join(self.texts[: 1 if self.any else None])
        # A blank at its end stands between words, in an answer.
        return [text if text == text.strip() else f"more{text}more"]
