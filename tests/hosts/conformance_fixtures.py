"""Conformance fixtures: the tools, resources and prompts that the official suite calls by name, beside our own."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, Resolve, Sample
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    AudioContent,
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    EmptyResult,
    GetPromptResult,
    ImageContent,
    InputRequiredResult,
    JSONRPCMessage,
    ListRootsRequest,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from mcp_types import Prompt as ListedPrompt
from mcp_types import Resource as ListedResource
from mcp_types import ResourceTemplate as ListedTemplate
from mcp_types import Tool as ListedTool
from pydantic import BaseModel, Field

from skillopt_mcp.server.app import SkillOptServer

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
SCHEMA_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
DESCRIBED = {"description": "A fixture of the conformance suite"}
AnyContext = Context[Any, Any]


class FixtureServer(SkillOptServer):
    """Our server; what the suite's fixtures add stands in the SDK's own registers, beside what is ours."""

    def streamable_http_app(self, **options: Any) -> Any:
        return super().streamable_http_app(**options, event_store=Events(), retry_interval=100)

    async def list_tools(self) -> list[ListedTool]:
        fixtures = await MCPServer.list_tools(self)
        return [*await super().list_tools(), *(each.model_copy(update=DESCRIBED) for each in fixtures)]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: AnyContext | None = None
    ) -> CallToolResult | InputRequiredResult:
        if self._tool_manager.get_tool(name):
            return await MCPServer.call_tool(self, name, arguments, context)
        return await super().call_tool(name, arguments, context)

    async def list_resources(self) -> list[ListedResource]:
        return [*await super().list_resources(), *await MCPServer.list_resources(self)]

    async def list_resource_templates(self) -> list[ListedTemplate]:
        return [*await super().list_resource_templates(), *await MCPServer.list_resource_templates(self)]

    async def read_resource(
        self, uri: Any, context: AnyContext | None = None
    ) -> list[ReadResourceContents] | InputRequiredResult:
        if str(uri).startswith("test://"):
            found = await MCPServer.read_resource(self, uri, context)
            return found if isinstance(found, InputRequiredResult) else list(found)
        return await super().read_resource(uri, context)

    async def list_prompts(self) -> list[ListedPrompt]:
        fixtures = await MCPServer.list_prompts(self)
        return [*await super().list_prompts(), *(each.model_copy(update=DESCRIBED) for each in fixtures)]

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: AnyContext | None = None
    ) -> GetPromptResult | InputRequiredResult:
        if name.startswith("test_"):
            return await MCPServer.get_prompt(self, name, arguments, context)
        return await super().get_prompt(name, arguments, context)


class Events(EventStore):
    """Keeps what was streamed, so that a client that reconnects gets the rest."""

    def __init__(self) -> None:
        self._events: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        seen = int(last_event_id)
        stream = self._events[seen - 1][0]
        for number, (stream_id, message) in enumerate(self._events[seen:], seen + 1):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def mount(server: FixtureServer) -> None:
    """Add every fixture to the server."""
    _add_contents(server)
    _add_interactions(server)
    _add_rounds(server)
    _add_resources(server)
    _add_prompts(server)


def _embedded(uri: str, text: str, kind: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=kind, text=text))


def _add_contents(server: FixtureServer) -> None:
    image = ImageContent(type="image", data=PIXEL, mime_type="image/png")

    @server.tool()
    def test_simple_text() -> str:
        return "This is a simple text response for testing."

    @server.tool()
    def test_image_content() -> list[ImageContent]:
        return [image]

    @server.tool()
    def test_audio_content() -> list[AudioContent]:
        return [AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")]

    @server.tool()
    def test_embedded_resource() -> list[EmbeddedResource]:
        return [_embedded("test://embedded-resource", "This is an embedded resource content.")]

    @server.tool()
    def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
        value = _embedded("test://mixed-content-resource", '{"test": "data", "value": 123}', "application/json")
        return [TextContent(type="text", text="Multiple content types test:"), image, value]

    @server.tool()
    def test_error_handling() -> str:
        raise RuntimeError("This tool intentionally returns an error for testing")

    @server.tool()
    def json_schema_2020_12_tool() -> str:
        return "ok"

    server._tool_manager._tools["json_schema_2020_12_tool"].parameters = SCHEMA_2020

    @server.tool()
    def test_headers(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
        return region


class Response(BaseModel):
    response: str = Field(description="User's response")


class Defaults(BaseModel):
    name: str = Field(default="John Doe")
    age: int = Field(default=30)
    score: float = Field(default=95.5)
    status: str = Field(default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = Field(default=True)


def _titled(*names: str) -> list[dict[str, str]]:
    return [{"const": name, "title": name.title()} for name in names]


class Enums(BaseModel):
    untitledSingle: str = Field(json_schema_extra={"enum": ["option1", "option2", "option3"]})
    titledSingle: str = Field(json_schema_extra={"oneOf": _titled("value1", "value2", "value3")})
    legacyEnum: str = Field(json_schema_extra={"enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]})
    untitledMulti: list[str] = Field(json_schema_extra={"items": {"type": "string", "enum": ["option1", "option2"]}})
    titledMulti: list[str] = Field(json_schema_extra={"items": {"anyOf": _titled("value1", "value2")}})


def _add_interactions(server: FixtureServer) -> None:
    @server.tool()
    async def test_tool_with_logging(ctx: AnyContext) -> str:
        for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await _log(ctx, text)
            await asyncio.sleep(0.05)
        return "logged"

    @server.tool()
    async def test_logging_tool(ctx: AnyContext) -> str:
        await _log(ctx, "logged")
        return "done"

    @server.tool()
    async def test_tool_with_progress(ctx: AnyContext) -> str:
        for done in (0, 50, 100):
            await ctx.report_progress(done, 100, f"Completed step {done} of 100")
            await asyncio.sleep(0.05)
        return str((ctx.request_context.meta or {}).get("progress_token"))

    @server.tool()
    async def test_sampling(prompt: str, ctx: AnyContext) -> str:
        request = CreateMessageRequest(params=CreateMessageRequestParams(messages=[_said(prompt)], max_tokens=100))
        related = ServerMessageMetadata(related_request_id=ctx.request_id)
        result = await ctx.session.send_request(request, CreateMessageResult, metadata=related)
        return f"LLM response: {getattr(result.content, 'text', '')}"

    async def asked(ctx: AnyContext, message: str, schema: type[BaseModel]) -> str:
        result = await ctx.elicit(message, schema)
        content = result.data.model_dump_json() if result.action == "accept" else "{}"
        return f"action={result.action}, content={content}"

    @server.tool()
    async def test_elicitation(message: str, ctx: AnyContext) -> str:
        return f"User response: {await asked(ctx, message, Response)}"

    @server.tool()
    async def test_elicitation_sep1034_defaults(ctx: AnyContext) -> str:
        return f"Elicitation result: {await asked(ctx, 'Please provide user information', Defaults)}"

    @server.tool()
    async def test_elicitation_sep1330_enums(ctx: AnyContext) -> str:
        return f"Elicitation completed: {await asked(ctx, 'Please select', Enums)}"

    @server.tool()
    async def test_reconnection(ctx: AnyContext) -> str:
        closing = ctx.request_context.close_sse_stream
        if closing is not None:
            await closing()
        await asyncio.sleep(0.2)
        return "Reconnection test completed"

    @server.tool()
    async def test_trigger_tool_change(ctx: AnyContext) -> str:
        await ctx.notify_tools_changed()
        return "changed"

    @server.tool()
    async def test_trigger_prompt_change(ctx: AnyContext) -> str:
        await ctx.notify_prompts_changed()
        return "changed"

    @server.tool()
    async def test_missing_capability(said: Annotated[CreateMessageResult, Resolve(_sample)]) -> str:
        return "sampled"

    @server.tool()
    async def test_streaming_elicitation(said: Annotated[ElicitationResult[Response], Resolve(_elicit)]) -> str:
        return said.action

    low = server._lowlevel_server

    async def nothing(_: Any, __: Any) -> EmptyResult:
        return EmptyResult()

    for method, params in (
        ("logging/setLevel", SetLevelRequestParams),
        ("resources/subscribe", SubscribeRequestParams),
        ("resources/unsubscribe", UnsubscribeRequestParams),
    ):
        low.add_request_handler(method, params, nothing)


def _sample() -> Sample:
    return Sample([_said("Say something")], max_tokens=10)


def _elicit() -> Elicit[Response]:
    return Elicit("What do you say?", Response)


def _said(text: str) -> SamplingMessage:
    return SamplingMessage(role="user", content=TextContent(type="text", text=text))


async def _log(ctx: AnyContext, text: str) -> None:
    params = {"level": "info", "data": text}
    if ctx.protocol_version and ctx.protocol_version < "2026":
        await ctx.session._request_outbound.notify("notifications/message", params)


def _form(message: str, **properties: str) -> ElicitRequest:
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _sampling(text: str) -> CreateMessageRequest:
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[_said(text)], max_tokens=100))


def _answers(ctx: AnyContext, *keys: str) -> Mapping[str, Any] | None:
    """Return the answers when all of them have come."""
    given = ctx.input_responses or {}
    return given if all(key in given for key in keys) else None


def _ask(requests: Mapping[str, Any], state: str | None = None) -> InputRequiredResult:
    return InputRequiredResult(input_requests=dict(requests), request_state=state)


def _add_rounds(server: FixtureServer) -> None:
    name = {"user_name": _form("What is your name?", name="string")}

    @server.tool()
    async def test_input_required_result_elicitation(ctx: AnyContext) -> str | InputRequiredResult:
        answers = _answers(ctx, "user_name")
        content = getattr(answers["user_name"], "content", None) if answers else None
        return f"Hello, {content['name']}!" if content and "name" in content else _ask(name)

    @server.tool()
    async def test_input_required_result_sampling(ctx: AnyContext) -> str | InputRequiredResult:
        asked = {"capital_question": _sampling("What is the capital of France?")}
        return "Paris" if _answers(ctx, *asked) else _ask(asked)

    @server.tool()
    async def test_input_required_result_list_roots(ctx: AnyContext) -> str | InputRequiredResult:
        asked = {"client_roots": ListRootsRequest()}
        answers = _answers(ctx, *asked)
        return f"roots: {answers['client_roots']}" if answers else _ask(asked)

    @server.tool()
    async def test_input_required_result_request_state(ctx: AnyContext) -> str | InputRequiredResult:
        asked = {"confirm": _form("Please confirm", ok="boolean")}
        return "state-ok" if _answers(ctx, *asked) and ctx.request_state == "one" else _ask(asked, "one")

    @server.tool()
    async def test_input_required_result_tampered_state(ctx: AnyContext) -> str | InputRequiredResult:
        asked = {"confirm": _form("Please confirm", ok="boolean")}
        return "state-ok" if _answers(ctx, *asked) and ctx.request_state == "one" else _ask(asked, "one")

    @server.tool()
    async def test_input_required_result_multiple_inputs(ctx: AnyContext) -> str | InputRequiredResult:
        asked = {**name, "greeting": _sampling("Generate a greeting"), "client_roots": ListRootsRequest()}
        return "all" if _answers(ctx, *asked) else _ask(asked, "one")

    @server.tool()
    async def test_input_required_result_multi_round(ctx: AnyContext) -> str | InputRequiredResult:
        first = {"step1": _form("Step 1: What is your name?", name="string")}
        second = {"step2": _form("Step 2: What is your favorite color?", color="string")}
        if ctx.request_state == "two":
            return "done" if _answers(ctx, *second) else _ask(second, "two")
        return _ask(second, "two") if ctx.request_state == "one" and _answers(ctx, *first) else _ask(first, "one")

    @server.tool()
    async def test_input_required_result_capabilities(ctx: AnyContext) -> str | InputRequiredResult:
        able = ctx.client_capabilities
        asked: dict[str, Any] = {}
        if able and able.elicitation:
            asked |= name
        if able and able.sampling:
            asked["greeting"] = _sampling("Generate a greeting")
        return "all" if not asked or _answers(ctx, *asked) else _ask(asked)


def _add_resources(server: FixtureServer) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        return base64.b64decode(PIXEL)

    @server.resource("test://watched-resource")
    def watched() -> str:
        return "Watched resource content"

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template(id: str) -> str:
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def _add_prompts(server: FixtureServer) -> None:
    @server.prompt()
    def test_simple_prompt() -> str:
        return "This is a simple prompt for testing."

    @server.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
        embedded = UserMessage(content=_embedded(resourceUri, "Embedded resource content for testing."))
        return [embedded, UserMessage(content="Please process the embedded resource above.")]

    @server.prompt()
    def test_prompt_with_image() -> list[UserMessage]:
        image = ImageContent(type="image", data=PIXEL, mime_type="image/png")
        return [UserMessage(content=image), UserMessage(content="Please analyze the image above.")]

    @server.prompt()
    async def test_input_required_result_prompt(ctx: AnyContext) -> str | InputRequiredResult:
        asked = {"user_context": _form("What context should the prompt use?", context="string")}
        return "With context." if _answers(ctx, *asked) else _ask(asked)
