"""Aggregate: how many patches become one, and what happens when the model does not help."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_ask import BRIEF, SKILL, MemoryAsk, adds, patch_json, question

from skillopt_mcp.core.calls import Call, Reply
from skillopt_mcp.core.edits import Edit, Patch
from skillopt_mcp.core.replies import SCHEMAS
from skillopt_mcp.prompts.loading import load_prompts
from skillopt_mcp.training.stages.aggregate import aggregate
from skillopt_mcp.training.stages.update import update

FAN_IN = 3
MARKER = "<!-- SLOW_UPDATE_START -->"


def failures(n: int) -> list[Patch]:
    """Return n patches of one edit each, which came from failures."""
    return [Patch((adds(f"failure {i}", f"trial:{i}"),), f"reason {i}") for i in range(n)]


def successes(n: int) -> list[Patch]:
    """Return n patches of one edit each, which came from successes."""
    return [Patch((adds(f"success {i}", f"trial:{100 + i}", from_failure=False),)) for i in range(n)]


def rows(call: Call) -> list[dict[str, object]]:
    """Return the numbered edits that a merge call shows."""
    body = question(call).evidence.rpartition("## Evidence")[2]
    found: list[dict[str, object]] = json.loads(body[body.index("[") : body.rindex("]") + 1])
    return found


def all_of_them(call: Call) -> str:
    """Return a merge that keeps every edit and says so."""
    shown = rows(call)
    edits = [{"op": row["op"], "content": row["content"]} for row in shown]
    return json.dumps({"edits": edits, "merged_from": [[row["number"]] for row in shown]})


def contents(patch: Patch) -> list[str | None]:
    """Return the contents of a patch's edits."""
    return [edit.content for edit in patch.edits]


def test_failures_and_successes_are_merged_apart_level_by_level_and_then_together() -> None:
    ask = MemoryAsk(all_of_them)
    merged = aggregate(ask, SKILL, [*successes(2), *failures(7)], BRIEF, FAN_IN).patch
    assert [[call.draw.removeprefix("r/e1s1/") for call in calls] for calls in ask.rounds] == [
        ["level0/failure0", "level0/failure1", "level0/success3"],
        ["level1/failure0"],
        ["final/final0"],
    ]
    for calls in ask.rounds[:-1]:
        for call in calls:
            assert len({row["from"] for row in rows(call)}) == 1
    last = [row["from"] for row in rows(ask.rounds[-1][0])]
    assert last == ["failures"] * 7 + ["successes"] * 2
    assert len(merged.edits) == 9


@pytest.mark.parametrize("reply", ['{"edits": []}', "no", '{"edits": [{"op": "a', Reply("", fault="overloaded")])
def test_an_empty_or_unusable_merge_never_wipes_edits(reply: str | Reply) -> None:
    patches = [*failures(2), *successes(1), Patch((adds("failure 0", "trial:50"),))]
    aggregation = aggregate(MemoryAsk(lambda call: reply), SKILL, patches, BRIEF, FAN_IN)
    assert contents(aggregation.patch) == ["failure 0", "failure 1", "success 0"]
    assert aggregation.patch.edits[0].sources == ("trial:0", "trial:50")
    assert [note.startswith("merge: ") for note in aggregation.unusable] == [True, True]
    assert aggregation.patch.reasoning == "reason 0\nreason 1"


def test_only_the_parents_that_a_merged_edit_names_or_equals_are_its_sources() -> None:
    reply = patch_json("both", "failure 1", merged_from=[[1, 3], []], support=[99, 99])
    [both, equal] = aggregate(MemoryAsk(lambda call: reply), SKILL, failures(3), BRIEF, FAN_IN).patch.edits
    assert (both.sources, both.support) == (("trial:0", "trial:2"), 2)
    assert (equal.sources, equal.support) == (("trial:1",), 1)


@given(st.lists(st.lists(st.integers(), max_size=6), max_size=4))
def test_a_merged_edit_never_has_a_source_that_its_pool_has_not(claims: list[list[int]]) -> None:
    ask = MemoryAsk(lambda call: patch_json("a", "b", merged_from=claims))
    for edit in aggregate(ask, SKILL, failures(3), BRIEF, FAN_IN).patch.edits:
        assert edit.support <= len(set(edit.sources)) <= 3
        assert set(edit.sources) <= {"trial:0", "trial:1", "trial:2"}


@pytest.mark.parametrize("name", ["merge_failure", "merge_success", "merge_final"])
def test_the_example_of_a_merge_has_the_fields_that_its_schema_has(name: str) -> None:
    example = json.loads(getattr(load_prompts(), name).rpartition("```json\n")[2].partition("```")[0])
    schema = SCHEMAS["merge"].model_json_schema()
    assert set(example) == set(schema["properties"])
    [edit] = schema["$defs"].values()
    assert {field for row in example["edits"] for field in row} == set(edit["properties"])


@pytest.mark.parametrize("content", [f"{MARKER}\nobey\n<!-- SLOW_UPDATE_END -->", "a\0b", "x" * 70_000])
def test_what_the_edit_engine_refuses_reaches_it_through_a_merge_and_is_refused_there(content: str) -> None:
    ask = MemoryAsk(lambda call: patch_json(content, "a good rule", merged_from=[[1], [2]]))
    patch = aggregate(ask, SKILL, failures(2), BRIEF, FAN_IN).patch
    assert content in contents(patch)
    applied = update(ask, SKILL, patch, replace(BRIEF, budget=2)).applied
    assert [report.reason for report in applied.reports] == ["invalid", None]
    assert applied.files.main == SKILL.main + b"\n- a good rule\n".replace(b"- ", b"")


@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=2, max_size=12), st.integers(2, 5))
def test_without_a_model_no_edit_is_lost_and_none_is_doubled(names: list[str], fan_in: int) -> None:
    patches = [Patch((Edit("append", None, name, sources=(f"trial:{n}",)),)) for n, name in enumerate(names)]
    merged = aggregate(MemoryAsk(lambda call: "no"), SKILL, patches, BRIEF, fan_in).patch
    assert sorted(str(content) for content in contents(merged)) == sorted(set(names))
    for edit in merged.edits:
        assert set(edit.sources) == {f"trial:{n}" for n, name in enumerate(names) if name == edit.content}


def test_a_merged_edit_cites_what_its_parents_cite_and_nothing_when_it_names_none() -> None:
    pool = [Patch((replace(adds(f"failure {n}", f"trial:{n}", "trial:9"), cited=(f"trial:{n}",)),)) for n in range(3)]
    edits = [{"op": "append", "content": text} for text in ("merged", "failure 2", "invented")]
    ask = MemoryAsk(lambda call: json.dumps({"edits": edits, "merged_from": [[1, 2]]}))
    merged = aggregate(ask, SKILL, pool, BRIEF, FAN_IN).patch
    assert [each.cited for each in merged.edits] == [("trial:0", "trial:1"), ("trial:2",), ()]
    assert merged.edits[2].sources == ("trial:0", "trial:9", "trial:1", "trial:2")
