"""Each reply has the model that answered, as the vendor or the program reports it."""

from __future__ import annotations

import json

import pytest
from agent_calls import ask as ask_agent
from agent_calls import opened
from api_calls import Opener, anthropic_at, ask, chat_at, openai_at
from loopback import Said, loopback

from skillopt_mcp.core.calls import MOST_SERVED
from tests.fake_host import FakeHost, claude_lines, codex_lines

DATED = "gpt-5-2026-08-01"


@pytest.mark.parametrize("opener", [openai_at, chat_at, anthropic_at])
def test_the_model_that_a_vendor_names_comes_with_the_reply(opener: Opener) -> None:
    with loopback(lambda n, request: Said("42", model=DATED)) as server:
        assert ask(opener(server.url)).served == DATED


@pytest.mark.parametrize(
    ("model", "configuration", "served"),
    [
        (DATED, "fp_abc", f"{DATED}/fp_abc"),
        (DATED, "b1234-random", DATED),
        (DATED, None, DATED),
        (" two\nlines ", "fp_abc", "two lines/fp_abc"),
        ("m" * 999, "fp_abc", "m" * MOST_SERVED),
    ],
)
def test_openais_fingerprint_follows_the_model_and_an_odd_name_spoils_no_answer(
    model: object, configuration: object, served: str
) -> None:
    with loopback(lambda n, request: Said("42", model=model, configuration=configuration)) as server:
        reply = ask(chat_at(server.url))
    assert (reply.text, reply.served) == ("42", served)


def test_claude_code_names_the_model_of_each_message_and_else_the_one_that_it_began_with(claude: FakeHost) -> None:
    begun, *rest = claude_lines("done", ("Read", {"file_path": "a"}, "b"))
    assert isinstance(begun, dict)
    claude.play({**begun, "model": "alias-resolved"}, *rest)
    assert ask_agent(opened(claude)).served == "alias-resolved"
    said = [line for line in rest if isinstance(line, dict) and line["type"] == "assistant"]
    for line, model in zip(said, ("big-model", "fallback-model"), strict=True):
        line["message"]["model"] = model
    claude.play({**begun, "model": "alias-resolved"}, *rest)
    assert ask_agent(opened(claude)).served == "big-model + fallback-model"
    said[1]["message"]["model"] = "<synthetic>"
    claude.play({**begun, "model": "alias-resolved"}, *rest)
    assert ask_agent(opened(claude)).served == "big-model"


def test_codex_names_the_model_that_it_asked_for_unless_another_answers(codex: FakeHost) -> None:
    rows = [{"type": "turn_context", "payload": {"cwd": ".", "model": "gpt-5-codex", "summary": "none"}}]
    files = {"../../home/.codex/sessions/1/rollout-a.jsonl": "\n".join(map(json.dumps, rows))}
    codex.play(*codex_lines("done"), files=files)
    assert ask_agent(opened(codex)).served == "gpt-5-codex"
    rerouted = {"type": "error", "message": "model rerouted: gpt-5-codex -> gpt-5.2 (HighRiskCyberActivity)"}
    codex.play({"type": "item.completed", "item": rerouted}, *codex_lines("done"), files=files)
    assert ask_agent(opened(codex)).served == "gpt-5.2"
    codex.play(*codex_lines("done"))
    assert ask_agent(opened(codex)).served == ""
