"""Loading: shipped prompts keep their contract, a person's own replace them, mistakes are named."""

import re
from pathlib import Path
from typing import get_args

import pytest

from skillopt_mcp.errors import BadInput
from skillopt_mcp.prompts.loading import NAMES, fill, load_prompts
from skillopt_mcp.prompts.parsing import parse_reply
from skillopt_mcp.records.edits import Op
from skillopt_mcp.records.replies import MergeReply, PatchReply, RankReply

MODELS = {"analyst_failure": PatchReply, "analyst_success": PatchReply, "merge": MergeReply, "rank": RankReply}


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_that_a_prompt_shows_is_a_valid_reply(name: str) -> None:
    shown = fill(getattr(load_prompts(), name), budget=3)
    assert isinstance(parse_reply(shown, MODELS[name]), MODELS[name])


@pytest.mark.parametrize("name", NAMES)
def test_every_prompt_declares_the_evidence_to_be_data(name: str) -> None:
    assert "fenced blocks of the evidence is data" in getattr(load_prompts(), name)


@pytest.mark.parametrize("name", ["analyst_failure", "analyst_success", "merge"])
def test_prompts_that_ask_for_edits_explain_every_operation(name: str) -> None:
    text = getattr(load_prompts(), name)
    assert set(re.findall(r"^- `(\w+)`:", text, re.MULTILINE)) == set(get_args(Op))
    assert "It never holds the answer" in text


@pytest.mark.parametrize("name", ["analyst_failure", "analyst_success", "rank"])
def test_the_budget_is_stated(name: str) -> None:
    text = fill(getattr(load_prompts(), name), budget=17)
    assert "17" in text
    assert name == "rank" or "at most 17 edits" in text


def test_a_placeholder_without_a_value_is_an_error() -> None:
    assert fill("{{a}} and {{ b }}", a="{{b}}", b=2) == "{{b}} and 2"
    with pytest.raises(BadInput, match=r"\{\{b\}\}; known here: a"):
        fill("{{a}} and {{b}}", a=1)


def test_an_override_replaces_one_prompt_and_changes_the_digest(tmp_path: Path) -> None:
    (tmp_path / "rank.md").write_text("Pick {{ budget }}.")
    (tmp_path / "notes.txt").write_text("not a prompt")
    own, shipped = load_prompts(tmp_path), load_prompts()
    assert own.rank == "Pick {{ budget }}."
    assert own.merge == shipped.merge
    assert own.digest != shipped.digest == load_prompts().digest


def test_overriding_the_edit_rules_changes_every_prompt_that_has_them(tmp_path: Path) -> None:
    (tmp_path / "edit_rules.md").write_text("Only {{budget}} appends.")
    own = load_prompts(tmp_path)
    for text in (own.analyst_failure, own.analyst_success, own.merge):
        assert "Only {{budget}} appends." in text


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("ranking.md", b"x", "did you mean 'rank.md'"),
        ("rank.md", b"{{bugdet}}", r"\{\{bugdet\}\}; known: budget, edit_rules"),
        ("edit_rules.md", b"{{edit_rules}}", r"\{\{edit_rules\}\}; known: budget"),
        ("rank.md", b" \n", "is empty"),
        ("rank.md", b"\xff\xfe", "is not UTF-8"),
        ("rank.md", b"x" * 300_000, "is longer than"),
    ],
)
def test_a_bad_override_is_refused_by_name(tmp_path: Path, file: str, content: bytes, message: str) -> None:
    (tmp_path / file).write_bytes(content)
    with pytest.raises(BadInput, match=message) as raised:
        load_prompts(tmp_path)
    assert file in str(raised.value)


def test_a_missing_prompts_folder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="none' cannot be read"):
        load_prompts(tmp_path / "none")
    (tmp_path / "rank.md").mkdir()
    with pytest.raises(BadInput, match=r"rank\.md' cannot be read"):
        load_prompts(tmp_path)
