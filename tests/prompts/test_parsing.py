"""Parsing: whatever a model says comes back as a record or one line of text; nothing is raised."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.core.edits import Edit, Patch
from skillopt_mcp.core.replies import EditReply, MergeReply, PatchReply, RankReply
from skillopt_mcp.core.skills import SkillFile, SkillFiles
from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.prompts.parsing import MAX_BYTES, parse_reply

ONE = PatchReply(reasoning="r", edits=[EditReply(op="append", content="{x} `y`\n")])
TWO = PatchReply(edits=[EditReply(op="delete", target="z")])
FRAGMENTS = st.sampled_from(
    [
        '{"edits": [', '{"op": "append", "content": "', '{"ranking": [1, 2]}', '{"edits": []}', '"reasoning": ',
        "NaN", "-Infinity", "1e999", "9" * 5_000, "null", "true", "\ud800", '"\\ud800"', "```json\n", "\n```", "\0",
        "{", "}", "[", "]", '"', "\\", ",", ":", ' "', '{"', '{"a": ' * 300, "[" * 300, "{ }", "]}", '"}]}', "\n",
    ]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.sampled_from(["edits", "op"]), inner),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "```json\n{}\n```",
        "Here {is} my answer: {{{}}} no, {}\nThanks.",
        '<think>"edits" {{"a": </think>{}',
        "[{}]",
    ],
)
def test_the_object_is_found_wherever_it_stands(around: str) -> None:
    text = around.replace("{}", ONE.model_dump_json())
    assert parse_reply(text, PatchReply) == ONE


@pytest.mark.parametrize("tag", ["think", "THINK", "thinking"])
def test_what_a_thinking_block_holds_is_no_reply(tag: str) -> None:
    one, two = ONE.model_dump_json(), TWO.model_dump_json(exclude_none=True)
    for text in (f"<{tag}> perhaps {one}", f"Well.\n<{tag}>\n{one} or {two}"):
        assert "thinking block" in str(parse_reply(text, PatchReply))
    assert isinstance(parse_reply(f"<{tag}>{one}</{tag}> I am done.", PatchReply), str)
    assert parse_reply(f"<{tag}>{one}</{tag}>{two}", PatchReply) == TWO
    assert parse_reply(f"{two}\n<{tag}>No: {one}", PatchReply) == TWO
    spoken = PatchReply(edits=[EditReply(op="append", content=f"Begin with <{tag}>.")])
    assert parse_reply(f"It writes `<{tag}>` now. {spoken.model_dump_json()}", PatchReply) == spoken


def test_of_two_objects_the_last_valid_one_counts() -> None:
    one, two = ONE.model_dump_json(), TWO.model_dump_json(exclude_none=True)
    assert parse_reply(f"{one}\nBetter:\n{two}", PatchReply) == TWO
    assert parse_reply(f'{one}\n{{"edits": "none"}}', PatchReply) == ONE
    assert parse_reply(f'{one}\n{{"a": 1}}', PatchReply) == ONE


def test_an_empty_list_of_edits_is_an_answer_but_no_list_is_none() -> None:
    assert parse_reply('{"edits": []}', PatchReply) == PatchReply()
    for text in ("{}", '{"reasoning": "nothing to do"}', '{"edits": null}', "nothing to do", ""):
        assert parse_reply(text, PatchReply) == "the reply has no JSON object with 'edits'"


def test_a_reply_that_breaks_off_is_never_taken_for_an_empty_one() -> None:
    whole = ONE.model_copy(update={"edits": ONE.edits * 3}).model_dump_json()
    for end in range(len(whole)):
        assert isinstance(parse_reply(whole[:end], PatchReply), str)


def test_the_reason_names_the_field_or_the_place() -> None:
    wrong = '{"edits": [{"op": "rewrite"}, {}]}'
    assert str(parse_reply(wrong, PatchReply)).startswith("edits.0.op: Input should be one of append, insert_after")
    broken = parse_reply('Well: {"edits": [}', PatchReply)
    assert broken == "the JSON object at character 6 is broken at character 17: Expecting value"


APPEND = EditReply(op="append", content="a")


@pytest.mark.parametrize(
    "edits",
    [
        [{"op": "append", "content": "a", "target": None, "path": None, "evidence": None}],
        [{"op": " APPEND ", "content": "a"}],
        [{"op": "append", "content": "a", "evidence": ["1", None, True]}],
    ],
)
def test_a_null_is_a_default_and_an_op_in_capitals_is_that_op(edits: list[object]) -> None:
    for text in (
        json.dumps({"reasoning": None, "edits": edits}),
        json.dumps({"batch_size": 3, "patch": {"edits": edits}}),
    ):
        assert parse_reply(text, PatchReply) == PatchReply(edits=[APPEND])


@pytest.mark.parametrize(
    "slip", [{"op": "rewrite", "content": "b"}, {"content": "b"}, "b", {"op": "append", "content": 7}, {"op": 7}]
)
def test_a_slip_costs_an_edit_and_not_the_reply(slip: object) -> None:
    reply = parse_reply(json.dumps({"edits": [slip, {"op": "append", "content": "a"}]}), PatchReply)
    assert isinstance(reply, PatchReply)
    parent = SkillFiles((SkillFile("SKILL.md", b"# A\n"),))
    applied = apply_patch(parent, Patch(tuple(Edit(e.op, e.target, e.content, e.path) for e in reply.edits)))
    assert [(each.status, each.reason) for each in applied.reports] == [("unmatched", "invalid"), ("applied", None)]


@pytest.mark.parametrize(
    "text",
    [
        '{"ranking": [' + "9" * 5_000 + "]}",
        '{"ranking": [NaN]}',
        '{"ranking": [1e999]}',
        '{"ranking": "1"}',
        '{"ranking": null}',
        '{"ranking": [1], "reasoning": "\\ud800"}',
        '{"ranking": [1], "reasoning": "\udfff"}',
        '{"ranking": [1], "a": ' + '{"a":' * 1_500 + "1" + "}" * 1_501,
        '{"ranking": [1], "a": ' + "[" * 100 + "]" * 100 + "}",
        '{"ranking": [1], "a": "' + "x" * MAX_BYTES + '"}',
        '{"ranking": [1], "a": "' + "\u00e9" * (MAX_BYTES // 2) + '"}',
        '{"' * (MAX_BYTES // 2),
        ('{"a":' * 300 + "]") * (MAX_BYTES // 1501),
        '{"a":[' + "1," * (MAX_BYTES // 3),
        "{ " * (MAX_BYTES // 2),
    ],
    ids=range(15),
)
def test_a_hostile_reply_is_one_short_line(text: str) -> None:
    reason = parse_reply(text, RankReply)
    assert isinstance(reason, str)
    assert len(reason.splitlines()) == 1
    assert len(reason) < 300


@given(st.lists(FRAGMENTS | st.text(max_size=5), max_size=12).map("".join), st.sampled_from([PatchReply, RankReply]))
def test_nothing_that_a_model_writes_raises(text: str, model: type[PatchReply]) -> None:
    reply = parse_reply(text, model)
    assert isinstance(reply, (model, str))
    if isinstance(reply, str):
        assert "\n" not in reply
    (reply if isinstance(reply, str) else reply.model_dump_json()).encode()


@given(VALUES)
def test_no_json_value_raises(value: object) -> None:
    for key, model in (("edits", PatchReply), ("merged_from", MergeReply), ("ranking", RankReply)):
        reply = parse_reply(json.dumps({key: value}), model)
        assert isinstance(reply, str) or reply.model_dump_json()
