"""The openai backend: what is sent, what is read, and how it gives way to servers that understand less."""

import asyncio
import json

import pytest
from api_calls import ENVIRON, REFLECT, ROLLOUT, ask, chat_at, fault_of, openai_at
from loopback import KEY, Act, Request, Said, Sent, loopback

from skillopt_mcp.backends.api.prompts import strict_schema
from skillopt_mcp.backends.openai import open_openai
from skillopt_mcp.records.calls import Message, Usage
from skillopt_mcp.records.replies import PatchReply

NOT_FOUND = Sent(404, b'{"detail": "Not Found"}', {"content-type": "application/json"})


def rejected(message: str, param: str = "") -> Sent:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": None}
    return Sent(400, json.dumps({"error": error}).encode(), {"content-type": "application/json"})


def test_a_rollout_by_the_responses_api() -> None:
    with loopback(Said("42", thinking="six times seven")) as server:
        reply = ask(openai_at(server.url, "effort=low", "temperature=0.5", "max_tokens=100"))
        sent = server.requests[0]
    assert reply.text == "42"
    assert reply.messages == (Message("assistant", "six times seven", "thinking"),)
    assert reply.usage == Usage(1000, 20, None, 0.0, 600)
    assert (sent.path, sent.headers["authorization"]) == ("/v1/responses", f"Bearer {KEY}")
    assert {name: value for name, value in sent.body.items() if name not in ("instructions", "input")} == {
        "model": "test-model",
        "temperature": 0.5,
        "max_output_tokens": 100,
        "reasoning": {"effort": "low"},
        "store": False,
    }
    assert "- Be exact." in sent.system
    assert sent.user == "What is 6 x 7?\n\n## Files\n\n### a.txt\n\n```\nsix\n```"


def test_a_rollout_by_chat_completions() -> None:
    with loopback(Said("42", thinking="six times seven")) as server:
        reply = ask(chat_at(server.url, "effort=low", "max_tokens=100"))
        sent = server.requests[0]
    assert (reply.text, reply.messages) == ("42", (Message("assistant", "six times seven", "thinking"),))
    assert reply.usage == Usage(1000, 20, None, 0.0, 600)
    assert sent.path == "/v1/chat/completions"
    assert [message["role"] for message in sent.body.pop("messages")] == ["system", "user"]
    assert sent.body == {"model": "test-model", "reasoning_effort": "low", "max_tokens": 100}


@pytest.mark.parametrize("opener", [openai_at, chat_at])
def test_a_question_is_held_to_the_schema_of_its_reply(opener) -> None:
    with loopback('{"edits": []}') as server:
        assert ask(opener(server.url), REFLECT).text == '{"edits": []}'
        body = server.requests[0].body
    found = body["text"]["format"] if "text" in body else body["response_format"]["json_schema"]
    assert (found["name"], found["strict"], found["schema"]) == ("PatchReply", True, strict_schema(PatchReply))


@pytest.mark.parametrize("opener", [openai_at, chat_at])
def test_a_server_without_schemas_is_asked_once_with_and_then_without(opener) -> None:
    def act(n: int, request: Request) -> Act:
        has_schema = "text" in request.body or "response_format" in request.body
        return rejected("This response_format type is unavailable now") if has_schema else '{"edits": []}'

    with loopback(act) as server:
        backend = opener(server.url)
        assert [ask(backend, REFLECT).text for _ in range(3)] == ['{"edits": []}'] * 3
        assert len(server.requests) == 4


def test_a_server_without_responses_is_asked_once_and_then_by_chat() -> None:
    def act(n: int, request: Request) -> Act:
        return NOT_FOUND if request.path.endswith("/responses") else "42"

    with loopback(act) as server:
        backend = openai_at(server.url)
        assert [ask(backend).text for _ in range(3)] == ["42"] * 3
        assert [request.path.rpartition("/")[2] for request in server.requests] == ["responses"] + ["completions"] * 3


def test_a_missing_model_is_not_taken_for_a_missing_api() -> None:
    gone = Sent(404, b'{"error": {"message": "The model `test-model` does not exist", "code": "model_not_found"}}')
    with loopback(gone) as server:
        fault = fault_of(openai_at(server.url))
        assert len(server.requests) == 1
    assert fault.fault == "model_not_found"
    assert fault.message == (
        f"{server.host} (test-model): 404 The model `test-model` does not exist; "
        "check the model's name and the base URL in the spec"
    )


def test_a_server_that_answers_responses_in_the_shape_of_chat_is_told_how_to_be_asked() -> None:
    body = {"choices": [{"message": {"content": "42"}, "finish_reason": "stop"}]}
    with loopback(Sent(200, json.dumps(body).encode(), {"content-type": "application/json"})) as server:
        fault = fault_of(openai_at(server.url))
        assert ask(chat_at(server.url)).text == "42"
    assert (fault.fault, fault.message) == (
        "malformed",
        f"{server.host} (test-model): it answers /responses in the shape of the Chat Completions API; "
        "name that API in the spec: openai:test-model,api=chat",
    )


def test_a_limit_by_the_name_that_a_server_does_not_know_is_named_otherwise() -> None:
    def act(n: int, request: Request) -> Act:
        known = "max_completion_tokens" in request.body
        return "42" if known else rejected("Unsupported parameter: 'max_tokens' is not supported", "max_tokens")

    with loopback(act) as server:
        backend = chat_at(server.url, "max_tokens=9")
        assert [ask(backend).text for _ in range(2)] == ["42", "42"]
        assert len(server.requests) == 3


def test_thoughts_in_the_text_are_taken_out_of_the_answer() -> None:
    with loopback("<think>\nsix times seven\n</think>\n\n42") as server:
        reply = ask(chat_at(server.url))
    assert (reply.text, reply.messages) == ("42", (Message("assistant", "six times seven", "thinking"),))


def test_an_error_with_status_200_is_a_fault() -> None:
    body = b'{"error": {"code": 429, "message": "slow down"}}'
    with loopback(Sent(body=body, headers={"content-type": "application/json"})) as server:
        assert fault_of(chat_at(server.url)).fault == "rate_limit"


def test_azure_is_asked_at_its_deployment_with_a_key_or_an_identity_token() -> None:
    def environ(**more: str) -> dict[str, str]:
        return {"AZURE_OPENAI_ENDPOINT": server.url, "OPENAI_API_VERSION": "2026-01-01", **more}

    with loopback("42") as server:
        assert ask(open_openai("mine,azure=on", environ(AZURE_OPENAI_API_KEY=KEY))).text == "42"
        assert ask(open_openai("mine,azure=on,api=chat", environ(AZURE_OPENAI_AD_TOKEN=KEY))).text == "42"
        by_key, by_token = server.requests
    assert by_key.path == "/openai/responses?api-version=2026-01-01"
    assert (by_key.headers["api-key"], by_key.headers.get("authorization")) == (KEY, None)
    assert by_token.path == "/openai/deployments/mine/chat/completions?api-version=2026-01-01"
    assert (by_token.headers.get("api-key"), by_token.headers["authorization"]) == (None, f"Bearer {KEY}")


def test_many_calls_at_once_share_one_client_and_each_event_loop_has_its_own() -> None:
    async def many() -> list[str]:
        return [reply.text for reply in await asyncio.gather(*(backend.complete(ROLLOUT) for _ in range(60)))]

    with loopback("42", latency_s=0.05) as server:
        backend = open_openai(f"m,base_url={server.url}/v1", ENVIRON)
        with asyncio.Runner() as one:
            assert one.run(many()) == ["42"] * 60
            assert one.run(many()) == ["42"] * 60
            assert len(backend.pools._held) == 1
        with asyncio.Runner() as other:
            assert other.run(many()) == ["42"] * 60
        assert len(backend.pools._held) == 0
