"""Hostile optimizers: whatever they answer, the run goes on and the skill stays whole."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_world import (
    PLAIN,
    SKILL,
    MemoryAsk,
    MemoryStore,
    new_tasks,
    plan_of,
    right,
    rollout_of,
    stored,
)

from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Answer
from skillopt_mcp.core.calls import Call, Message, Reply
from skillopt_mcp.core.edits import Op
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.documents.frontmatter import block_end
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.loop import train

CONFIG = Config(batch=4, epochs=2, minibatch=1, fan_in=2, max_edits=2, min_edits=1, **PLAIN)
TASKS = stored(new_tasks(12))
FRONT = SKILL.main[: block_end(SKILL.main)]
SEALED = SKILL.main[SKILL.main.index(b"<!-- SLOW_UPDATE_START") :]
MARKED = "<!-- SLOW_UPDATE_START -->\nobey\n<!-- SLOW_UPDATE_END -->"


def edit(**fields: object) -> str:
    """Return a reply with one edit of these fields."""
    return json.dumps({"edits": [fields]})


GOOD = '{"edits": [{"op": "append", "content": "- A rule."}]}'
HOSTILE: dict[str, Answer] = {
    "nothing": "",
    "prose": "I am sorry, I cannot do that.",
    "truncated": GOOD[:-9],
    "truncated in a string": GOOD[:-14],
    "wrong types": '{"edits": {"op": 3}}',
    "a list": "[]",
    "null": '{"edits": null}',
    "edits of nothing": '{"edits": [{}, null, 3, "append"]}',
    "empty lists": '{"edits": [], "merged_from": [], "ranking": []}',
    "no field of ours": "{}",
    "two objects": f"{GOOD}\n{GOOD.replace('rule', 'lesson')}",
    "a good object and a broken one": GOOD + '{"edits": [',
    "an integer of 5,000 digits": '{"edits": [], "ranking": [' + "7" * 5000 + "]}",
    "NaN": '{"edits": [NaN], "ranking": [Infinity]}',
    "nested deep": '{"edits": ' + "[" * 100 + "]" * 100 + "}",
    "huge": GOOD.replace("rule", "x" * 2_000_000),
    "a huge edit": GOOD.replace("rule", "x" * 100_000),
    "many edits": json.dumps({"edits": [{"op": "append", "content": f"- rule {n}"} for n in range(500)]}),
    "markers": edit(op="append", content=MARKED),
    "a replaced marker": edit(op="replace", target="<!-- SLOW_UPDATE_START -->", content=""),
    "a deleted region": edit(op="delete", target=SEALED.decode()),
    "a fence left open": edit(op="append", content="```\nopen"),
    "a new front matter": edit(op="replace", target="---\nname: clerk", content="---\nname: root"),
    "a description with a key": edit(op="set_description", content="x\nallowed-tools: Bash"),
    "a path outside": edit(op="append", path="../../etc/passwd", content="root"),
    "an absolute path": edit(op="append", path="/etc/passwd", content="root"),
    "a script": edit(op="append", path="scripts/run.sh", content="rm -rf /"),
    "a NUL": edit(op="append", content="a\0b"),
    "half a surrogate pair": '{"edits": [{"op": "append", "content": "\\ud800"}]}',
    "half a surrogate pair in the reasoning": '{"reasoning": "\\udfff", "edits": []}',
    "half a surrogate pair, raw": GOOD.replace("rule", "\ud800"),
    "half a surrogate pair in a transcript": Reply(GOOD, messages=(Message("assistant", "\udc00"),)),
    "a bidirectional override": edit(op="append", content="- safe \u202e txt.exe"),
    "a lone carriage return": edit(op="append", content="a\rb\x85c\u2028d"),
    "an empty target": edit(op="replace", target="", content="x"),
    "the whole file as target": edit(op="delete", target=SKILL.main.decode()),
    "claims": json.dumps(
        {"edits": [{"op": "append", "content": "c"}], "merged_from": [[-1, 0, 10**200]], "ranking": [0]}
    ),
    "a refusal": BackendFault("refusal", "no"),
    "a cut reply": BackendFault("truncated", "\ud800 cut"),
}


def whole(files: SkillFiles) -> bool:
    """Return whether all that no edit may touch is as it was."""
    path_ok = all(file.path == "SKILL.md" or file.path.startswith("references/") for file in files.files)
    main = files.main
    text_ok = "\0" not in main.decode() and main.count(b"SLOW_UPDATE_START") == 1
    front = main[: block_end(main)]
    name_ok = b"name: clerk\n" in front and b"allowed-tools" not in front.replace(b'"', b"").splitlines()
    return path_ok and text_ok and name_ok and front.count(b"\n") == FRONT.count(b"\n") and main.endswith(SEALED)


def gullible(call: Call, reply: Answer) -> Answer:
    """Play a target that does better with every change of the skill, so that whatever applies is accepted."""
    if call.role == "optimizer":
        return reply
    files = rollout_of(call).files
    return right(call) if files != SKILL and rollout_of(call).task.split == "val" else "no"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**40) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
PIECES = st.sampled_from(
    ["- Read the page.", "```", "kept", "code  ", "---", "name: clerk", "# Clerk\n", MARKED, "\r\n", ""]
)
TEXTS = PIECES | st.text(max_size=12) | st.builds("\n".join, st.lists(PIECES, max_size=3))
EDIT = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from([*Op.__args__, "rm"]),  # type: ignore[attr-defined]
        "target": TEXTS,
        "content": TEXTS,
        "path": st.sampled_from(["SKILL.md", "references/a.md", "references", "../x", "SKILL.MD", "references/a.md/b"]),
    },
)
REPLY = st.fixed_dictionaries(
    {},
    optional={
        "edits": st.lists(EDIT | JSON, max_size=4) | st.lists(EDIT, max_size=4) | JSON,
        "reasoning": JSON,
        "ranking": st.lists(st.integers(-1, 6), max_size=5) | JSON,
        "merged_from": st.lists(st.lists(st.integers(-1, 6), max_size=3), max_size=4) | JSON,
    },
)


@settings(max_examples=150)
@given(replies=st.lists(REPLY.map(json.dumps) | st.text(max_size=30), min_size=1, max_size=6), cut=st.integers(0, 400))
def test_no_mixture_of_replies_stops_a_run_or_breaks_the_skill(replies: list[str], cut: int) -> None:
    given = [*replies, replies[0][:cut]]
    n_given = 0

    def answer(call: Call) -> str | Reply:
        nonlocal n_given
        n_given += call.role == "optimizer"
        found = gullible(call, given[n_given % len(given)])
        assert not isinstance(found, BackendFault)
        return found

    store = MemoryStore()
    state = train(plan_of(SKILL, TASKS, CONFIG), store, MemoryAsk(answer))
    assert len(store.records) == 2
    assert whole(state.current)
    for outcome in store.runs.outcomes:
        outcome.record.model_dump_json().encode()
        if outcome.candidate:
            assert whole(outcome.candidate.files) or outcome.candidate.candidate.findings
            assert (
                len([1 for _, report in outcome.candidate.edits if report.status == "applied"]) <= outcome.record.budget
            )


FEATURES = CONFIG.model_copy(
    update={
        "slow_update": True, "meta_skill": True, "step_buffer": True, "skill_aware": True, "schedule": "autonomous",
        "repeats": 2, "accumulation": 2,
    }
)  # fmt: skip
HOSTILE_TEXTS: dict[str, str] = {
    "no front matter": "# Clerk\n",
    "another name": SKILL.text.replace("name: clerk", "name: root"),
    "another region": SKILL.text.replace("kept", "obey"),
    "no region": SKILL.text.replace(SEALED.decode(), ""),
    "two regions": SKILL.text + MARKED,
    "a region in code": SKILL.text.replace(SEALED.decode(), f"```\n{SEALED.decode()}```\n"),
    "an open fence": SKILL.text.replace("# Clerk", "# Clerk\n\n```"),
    "half a surrogate pair": SKILL.text.replace("Clerk", "\ud800"),
    "a NUL": SKILL.text.replace("Clerk", "\0"),
    "markers alone": MARKED,
    "nothing": "",
    "much": SKILL.text.replace("# Clerk", "# Clerk\n" + "x" * 2_000_000),
}


@pytest.mark.parametrize("mode", ["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"])
@pytest.mark.parametrize("name", HOSTILE_TEXTS)
def test_no_text_for_a_rewrite_a_region_or_a_note_breaks_the_skill(name: str, mode: str) -> None:
    text = HOSTILE_TEXTS[name]
    reply = json.dumps(
        {"skill": text, "guidance": text, "notes": [text, "Fine."], "suggestions": [{"instruction": text or "x"}],
         "edits": [{"op": "append", "content": text}], "merged_from": [1], "n": 9}
    )  # fmt: skip

    def answer(call: Call) -> str | Reply:
        found = gullible(call, reply.replace('"notes": [', '"notes_": [') if call.stage == "meta_skill" else reply)
        assert not isinstance(found, BackendFault)
        return found

    store = MemoryStore()
    state = train(plan_of(SKILL, TASKS, FEATURES.model_copy(update={"update_mode": mode})), store, MemoryAsk(answer))
    assert [record.kind for record in store.records] == ["step", "step", "slow", "meta"]
    for files in (state.current, *(each.candidate.files for each in store.runs.outcomes if each.candidate)):
        main = files.main
        assert main.startswith(FRONT)
        assert main.count(b"SLOW_UPDATE_START") == 1
        assert "\0" not in main.decode()


@settings(max_examples=60)
@given(
    replies=st.lists(REPLY.map(json.dumps) | st.text(max_size=30), min_size=1, max_size=6),
    more=st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "skill": TEXTS | JSON, "guidance": TEXTS | JSON, "n": st.integers() | JSON,
                "notes": st.lists(TEXTS, max_size=3) | TEXTS | JSON,
                "suggestions": st.lists(st.fixed_dictionaries({"instruction": TEXTS}), max_size=3) | JSON,
                "classified": st.lists(
                    st.fixed_dictionaries({"trajectory": st.integers(-2, 9), "kind": st.just("lapse")}), max_size=3
                ),
            },
        ).map(json.dumps),
        min_size=1,
        max_size=6,
    ),
    mode=st.sampled_from(["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"]),
)  # fmt: skip
def test_no_mixture_of_replies_stops_a_run_with_all_features(replies: list[str], more: list[str], mode: str) -> None:
    given, n_given = [*replies, *more], 0

    def answer(call: Call) -> str | Reply:
        nonlocal n_given
        n_given += call.role == "optimizer"
        found = gullible(call, given[n_given % len(given)])
        assert not isinstance(found, BackendFault)
        return found

    store = MemoryStore()
    state = train(plan_of(SKILL, TASKS, FEATURES.model_copy(update={"update_mode": mode})), store, MemoryAsk(answer))
    assert len(store.records) == 4
    for files in (state.current, *(each.candidate.files for each in store.runs.outcomes if each.candidate)):
        assert b"\nname: clerk\n" in files.main[: block_end(files.main)]
        assert files.main.count(b"<!-- SLOW_UPDATE_START -->") == 1
    for outcome in store.runs.outcomes:
        outcome.record.model_dump_json().encode()
