"""Approval: ask the person through their host before a live file changes; the answer never passes through the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import build_resolver_plans, resolve_arguments
from mcp.shared.exceptions import MCPError
from mcp_types import ClientCapabilities, ElicitationCapability, InputRequiredResult
from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.documents.characters import quoted
from skillopt_mcp.operations.changes.approving import (
    BY_THE_HOST,
    Question,
    agree,
    disagree,
    question_of_promotion,
    question_of_rollback,
)
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.changes.declined import decline, note_unheard
from skillopt_mcp.operations.results import Promoted
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.candidates import Approval

_ASKING = ("promote_skill", "rollback_skill")
_COMMAND = re.compile(r"skillopt-mcp (?:approve|rollback) [^;(]*[^;( ]")
_SHOWN_ERROR = 100
_ASKS = ClientCapabilities(elicitation=ElicitationCapability())


def _fields_alone(schema: dict[str, Any]) -> None:
    """Take away what pydantic calls the form itself: Codex cancels a question whose schema has a name, unseen."""
    schema.pop("title")
    schema.pop("description")


class Agreement(BaseModel):
    """What the person fills in."""

    model_config = ConfigDict(json_schema_extra=_fields_alone)
    write: bool = Field(
        strict=True,
        title="I have read the change: write it",
        description="Yes: change the file now. No: leave it as it is.",
    )


class Said(NamedTuple):
    """What a person said in a dialog, in a few words; a yes is an approval with an id, which serves this call alone."""

    text: str
    approval: Approval
    approval_id: int | None = None
    no: bool = False


class ApprovalDesk:
    """Asks about the changes of one workspace that lack a person's agreement."""

    def __init__(self, workspace: Workspace, consent: Consent) -> None:
        self._workspace, self._consent = workspace, consent
        self._unheard: set[Approval] = set()

    async def ask(
        self, tool: str, given: Mapping[str, Any], context: Context[dict[str, Any], Any]
    ) -> InputRequiredResult | Said | None:
        """Return what the host has to ask first (in the newer era), or how the person answered; None: nobody was asked.

        A yes is kept as an approval of exactly what was shown, which the tool then finds.
        """
        if tool not in _ASKING:
            return None
        asking = _Asking(self._workspace, self._consent, tool, given, self._unheard)
        marker = {"answer": (Resolve(asking.question), True)}
        try:
            resolved = await resolve_arguments(marker, build_resolver_plans(marker, set(given)), given, context)
        except ToolError:
            if asking.asked is None:
                raise
            return Said("the host was asked, and its answer had not the form that was asked for", asking.asked.approval)
        # A host may say that it can ask, and then not be able to: the person's command serves there as well.
        except MCPError as error:
            if asking.asked is None:
                raise
            said = f"{error.error.code}, {quoted(error.error.message, _SHOWN_ERROR)}"
            return Said(f"the host was asked, and answered with an error ({said})", asking.asked.approval)
        if isinstance(resolved, InputRequiredResult):
            return resolved
        # A write may wait for another process: not in the loop.
        return await anyio.to_thread.run_sync(asking.settle, resolved["answer"])

    async def close(self, said: Said) -> None:
        """Take back what a person agreed to, unless the call that they were asked for has made the change."""
        if said.approval_id is not None:
            with anyio.CancelScope(shield=True):  # also of a call that the host has cancelled
                await anyio.to_thread.run_sync(disagree, self._workspace, said.approval, said.approval_id)

    def with_answer(self, result: BaseModel, said: Said) -> BaseModel:
        """Return the result of a tool that lacks an approval, with what the person said when they were asked for it."""
        if not isinstance(result, Promoted) or result.status != "needs_approval":
            return result
        # That somebody said no is the reason by now.
        told = {} if said.no else {"reason": f"{result.reason}; {said.text}"}
        if said.no:
            command = _COMMAND.search(result.next_step)
            later = f" Should they think better of it, they run: {command[0]}" if command else ""
            told["next_step"] = f"They said no, and the file stays as it is: ask what they want changed.{later}"
        return result.model_copy(update=told)


class _Asking:
    """One question: found out when the call comes, and again when it comes back with the answer."""

    def __init__(
        self, workspace: Workspace, consent: Consent, tool: str, given: Mapping[str, Any], unheard: set[Approval]
    ) -> None:
        self._workspace, self._consent, self._tool, self._given = workspace, consent, tool, given
        self._unheard = unheard
        self.asked: Question | None = None

    def question(self, context: Context[dict[str, Any], Any]) -> Elicit[Agreement] | Agreement:
        """Return what to ask, where the host can ask and somebody is to be asked."""
        if context.session.check_client_capability(_ASKS):
            self.asked = self._found()
        return Elicit(self.asked.text, Agreement) if self.asked else Agreement(write=False)

    def settle(self, answer: ElicitationResult[Agreement]) -> Said | None:
        """Keep a yes as an approval, a no as one; return what the person said."""
        if self.asked is None:
            return None
        approval = self.asked.approval
        if not isinstance(answer, AcceptedElicitation):
            # Hosts decline and cancel also by themselves, and nothing in their answer tells.
            said = f"the host answered {answer.action}, perhaps without asking anybody"
            if answer.action == "decline" and approval not in self._unheard:
                self._unheard.add(approval)  # one that declines everything is noted once
                note_unheard(self._workspace, approval, said)
            return Said(said, approval)
        if not answer.data.write:
            decline(self._workspace, approval, BY_THE_HOST)
            return Said("the person was asked, and said no", approval, no=True)
        return Said("the person said yes", approval, agree(self._workspace, approval, BY_THE_HOST))

    def _found(self) -> Question | None:
        if self._tool == "promote_skill":
            return question_of_promotion(self._workspace, self._given["candidate_id"], self._consent)
        version = self._given.get("version") or None
        return question_of_rollback(self._workspace, self._given["skill"], version, self._consent)
