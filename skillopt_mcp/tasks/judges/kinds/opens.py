"""Opens: the judge that asks whether the host opened the skill, whatever it answered."""

from __future__ import annotations

from typing import ClassVar

from pydantic import StrictBool

from skillopt_mcp.core.calls import SKILL
from skillopt_mcp.core.judging import Attempt, Judge, Outcome, Score, Unscored, judge


@judge("opens")
class Opens(Judge):
    """The host opened the skill, or, where `expected` is false, did not.

    Only what a host records that loads the skill itself counts: where its text is pasted, an attempt has no score.
    """

    needs_answer_only: ClassVar[bool] = False
    expected: StrictBool

    def score(self, attempt: Attempt) -> Outcome:
        states = [message.content for message in attempt.messages if message.role == SKILL]
        if not states:
            return Unscored("no host recorded whether it opened the skill: name one that loads it, such as claude-code")
        is_opened = states[0] == "opened"
        should, was = ("" if each else "not " for each in (self.expected, is_opened))
        reason = f"the skill should {should}open on this prompt, and was {was}opened: its description decides that"
        return Score(is_opened == self.expected, float(is_opened == self.expected), reason)
