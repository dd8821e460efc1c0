"""Approval: ask the person through their host before a live file changes; the answer never passes through the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio.to_thread
from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Resolve
from mcp.server.mcpserver.resolve import build_resolver_plans, resolve_arguments
from mcp_types import ClientCapabilities, ElicitationCapability, InputRequiredResult
from pydantic import BaseModel, Field

from skillopt_mcp.operations.approving import (
    BY_THE_HOST,
    Question,
    agree,
    question_of_promotion,
    question_of_rollback,
)
from skillopt_mcp.operations.consenting import Consent
from skillopt_mcp.operations.results import Promoted
from skillopt_mcp.operations.workspace import Workspace

_ASKING = ("promote_skill", "rollback_skill")
_ASKS = ClientCapabilities(elicitation=ElicitationCapability())


class Agreement(BaseModel):
    """What the person fills in."""

    write: bool = Field(title="Write it", description="Yes: change the file now. No: leave it as it is.")


class ApprovalDesk:
    """Asks about the changes of one workspace that lack a person's agreement."""

    def __init__(self, workspace: Workspace, consent: Consent) -> None:
        self._workspace, self._consent = workspace, consent

    async def ask(
        self, tool: str, given: Mapping[str, Any], context: Context[dict[str, Any], Any]
    ) -> InputRequiredResult | str:
        """Return what the host has to ask first (in the newer era), or how the person answered; "" if nobody was asked.

        A yes is kept as an approval of exactly what was shown, which the tool then finds.
        """
        if tool not in _ASKING:
            return ""
        asking = _Asking(self._workspace, self._consent, tool, given)
        marker = {"answer": (Resolve(asking.question), True)}
        resolved = await resolve_arguments(marker, build_resolver_plans(marker, set(given)), given, context)
        if isinstance(resolved, InputRequiredResult):
            return resolved
        # A write may wait for another process: not in the loop.
        return await anyio.to_thread.run_sync(asking.settle, resolved["answer"])

    def with_answer(self, result: BaseModel, said: str) -> BaseModel:
        """Return the result of a tool that lacks an approval, with what the person said when they were asked for it."""
        if not isinstance(result, Promoted) or result.status != "needs_approval":
            return result
        return result.model_copy(update={"reason": f"{result.reason}; {said}"})


class _Asking:
    """One question: found out when the call comes, and again when it comes back with the answer."""

    def __init__(self, workspace: Workspace, consent: Consent, tool: str, given: Mapping[str, Any]) -> None:
        self._workspace, self._consent, self._tool, self._given = workspace, consent, tool, given
        self._asked: Question | None = None

    def question(self, context: Context[dict[str, Any], Any]) -> Elicit[Agreement] | Agreement:
        """Return what to ask, where the host can ask and somebody is to be asked."""
        if context.session.check_client_capability(_ASKS):
            self._asked = self._found()
        return Elicit(self._asked.text, Agreement) if self._asked else Agreement(write=False)

    def settle(self, answer: ElicitationResult[Agreement]) -> str:
        """Keep a yes as an approval; return in a few words what the person said."""
        if self._asked is None:
            return ""
        if not isinstance(answer, AcceptedElicitation):
            return f"the host was asked, and answered {answer.action}"
        if not answer.data.write:
            return "the person was asked, and said no"
        agree(self._workspace, self._asked.approval, BY_THE_HOST)
        return "the person said yes"

    def _found(self) -> Question | None:
        if self._tool == "promote_skill":
            return question_of_promotion(self._workspace, self._given["candidate_id"], self._consent)
        version = self._given.get("version") or None
        return question_of_rollback(self._workspace, self._given["skill"], version, self._consent)
