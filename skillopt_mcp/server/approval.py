"""Approval: ask the person through their host before a live file changes; the answer never passes through the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import anyio.to_thread
from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import build_resolver_plans, resolve_arguments
from mcp.shared.exceptions import MCPError
from mcp_types import ClientCapabilities, ElicitationCapability, InputRequiredResult
from pydantic import BaseModel, ConfigDict, Field

from skillopt_mcp.core.candidates import Approval, Consent
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import Promoted
from skillopt_mcp.core.text import quoted
from skillopt_mcp.workspace.workspace import Workspace

if TYPE_CHECKING:
    from skillopt_mcp.actions.promotions.review import ConsentQuestion

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


class DialogAnswer(NamedTuple):
    """The outcome of a dialog, in a few words; a yes is an approval with an id, which serves this call alone."""

    text: str
    approval: Approval
    approval_id: int | None = None
    is_no: bool = False


class DialogApprover:
    """Asks about the changes of one workspace that lack a person's agreement, in a dialog of their host."""

    def __init__(self, workspace: Workspace, consent: Consent) -> None:
        self._workspace, self._consent = workspace, consent
        self._unheard: set[Approval] = set()

    async def ask(
        self, tool: str, given: Mapping[str, Any], context: Context[dict[str, Any], Any]
    ) -> InputRequiredResult | DialogAnswer | None:
        """What the host has to ask first (in the newer era), or the person's answer; None: no one was asked.

        A yes is kept as an approval of exactly what was shown, which the tool then finds.
        """
        asked: ConsentQuestion | None = None

        # Runs when the call comes, and again when it comes back with the answer.
        def question(context: Context[dict[str, Any], Any]) -> Elicit[Agreement] | Agreement:
            nonlocal asked
            if context.session.check_client_capability(_ASKS):
                asked = self._question(tool, given)
            return Elicit(asked.text, Agreement) if asked else Agreement(write=False)

        marker = {"answer": (Resolve(question), True)}
        try:
            resolved = await resolve_arguments(marker, build_resolver_plans(marker, set(given)), given, context)
        except ToolError:
            if asked is None:
                raise
            return DialogAnswer(
                "the host was asked, and its answer had not the form that was asked for", asked.approval
            )
        # A host may say that it can ask, and then not be able to: the person's command serves there as well.
        except MCPError as error:
            if asked is None:
                raise
            why = f"{error.error.code}, {quoted(error.error.message, _SHOWN_ERROR)}"
            return DialogAnswer(f"the host was asked, and answered with an error ({why})", asked.approval)
        if isinstance(resolved, InputRequiredResult):
            return resolved
        # A write may wait for another process: not in the loop.
        return await anyio.to_thread.run_sync(self._settle, asked, resolved["answer"]) if asked else None

    async def close(self, answer: DialogAnswer) -> None:
        """Take back what a person agreed to, unless the call that they were asked for has made the change."""
        if answer.approval_id is not None:
            with anyio.CancelScope(shield=True):  # also of a call that the host has cancelled
                drop = self._workspace.store.approvals.drop
                await anyio.to_thread.run_sync(drop, answer.approval.skill_id, answer.approval_id)

    def with_answer(self, result: BaseModel, answer: DialogAnswer) -> BaseModel:
        """Return the result of a tool that lacks an approval, with the person's answer."""
        if not isinstance(result, Promoted) or result.status != "needs_approval":
            return result
        if not answer.is_no:
            return result.model_copy(update={"reason": f"{result.reason}; {answer.text}"})
        # That the person said no is the reason by now.
        why = "the user said no, and the file stays as it is: ask what they want changed"
        step = NextStep(action="propose_edits", arguments={"skill": result.skill}, why=why)
        return result.model_copy(update={"next_step": step})

    def _question(self, tool: str, given: Mapping[str, Any]) -> ConsentQuestion | None:
        """What to ask a person before this call changes a file."""
        # A server that idles holds none of what a promotion takes.
        from skillopt_mcp.actions.promotions.review import question_of_promotion, question_of_rollback  # noqa: PLC0415

        if tool == "promote_skill":
            consent = replace(self._consent, unproven=bool(given.get("unproven")))
            return question_of_promotion(self._workspace.store, self._workspace.place, given["candidate_id"], consent)
        return question_of_rollback(
            self._workspace.store, self._workspace.place, given["skill"], given.get("version") or None, self._consent
        )

    def _settle(self, asked: ConsentQuestion, given: ElicitationResult[Agreement]) -> DialogAnswer:
        """Keep a yes as an approval, a no as a decline."""
        from skillopt_mcp.actions.promotions.consent import agree, decline  # noqa: PLC0415

        approval = asked.approval
        if not isinstance(given, AcceptedElicitation):
            # Hosts decline and cancel also by themselves, and nothing in their answer shows it.
            text = f"the host answered {given.action}, perhaps without asking the user"
            if given.action == "decline" and approval not in self._unheard:
                self._unheard.add(approval)  # one that declines everything is noted once
                decline(self._workspace.store, self._workspace.place, approval, text)
            return DialogAnswer(text, approval)
        if not given.data.write:
            decline(self._workspace.store, self._workspace.place, approval)
            return DialogAnswer("the person was asked, and said no", approval, is_no=True)
        return DialogAnswer(
            "the person said yes", approval, agree(self._workspace.store, self._workspace.place, approval)
        )
