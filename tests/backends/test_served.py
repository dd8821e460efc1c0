"""Each reply has the model that answered, as the vendor or the program reports it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agent_calls import ask as ask_agent
from agent_calls import opened
from api_calls import ENVIRON, Opener, anthropic_at, ask, chat_at, openai_at
from batch_vendor import batch_vendor
from clerk import CONFIG, answer, workspace
from fake_host import FakeHost, claude_lines, codex_lines
from loopback import Said, loopback

from skillopt_mcp.backends.batches import Patience
from skillopt_mcp.records.calls import MOST_SERVED
from skillopt_mcp.runs import replay, start_run
from skillopt_mcp.store.ledger import Servings

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


def test_what_a_batch_answered_is_stored_with_the_model_that_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    config = CONFIG.model_copy(update={"epochs": 1})
    specs = ["openai:m,base_url={}/v1", "openai:m,api=chat,base_url={}/v1", "anthropic:m,base_url={}"]
    for n, spec in enumerate(specs):
        with batch_vendor(lambda request: Said(answer(0, request), model=DATED, configuration="fp_abc")) as vendor:
            folder = tmp_path / str(n)
            with workspace(folder, spec.format(vendor.url), Patience(0.002, 1.5, 0.01)) as made:
                run = start_run(made, str(folder / "skills" / "clerk"), config)
                replay(made, run)
                names = {each.role: each.name for each in made.store.table(Servings).list_of_scope(run.id)}
        # The optimizer is asked at once, and there the vendor says that it is the model that was asked for.
        assert names == {"target": f"{DATED}/fp_abc" if "chat" in spec else DATED, "optimizer": "m"}


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
