"""Training at a terminal and from Python: what a run learns in every mode, and what its numbers count."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.acceptance.doors import Workbench
from tests.acceptance.world import GUIDANCE, KINDS, NOTES, Request, Vendor, lesson

SIZES = {"train": 8, "val": 8, "test": 16}
PLAIN: dict[str, object] = {"epochs": 3, "batch": 4, "slow_update": False, "meta_skill": False}
MODES: dict[str, dict[str, object]] = {
    "patch": {},
    "suggestions": {"update_mode": "rewrite_from_suggestions"},
    "rewrite": {"update_mode": "full_rewrite_minibatch"},
    "merged patches": {"minibatch": 2},
    "merged rewrites": {"minibatch": 2, "update_mode": "full_rewrite_minibatch"},
    "accumulation": {"batch": 2, "accumulation": 2},
    "repeats": {"repeats": 2},
    "skill-aware": {"skill_aware": True},
    "autonomous": {"schedule": "autonomous"},
    "failures only": {"failure_only": True, "step_buffer": False},
    "fresh": {"search_gate": "fresh"},
    "paired": {"search_gate": "paired_se"},
    "no regression": {"search_gate": "no_regression"},
    "mixed metric": {"metric": "mixed", "mixed_weight": 0.7},
    "rescue": {"rescue": True},
}


def questions(vendor: Vendor) -> list[Request]:
    """Return what the optimizer was asked."""
    return [request for request in vendor.requests if request.schema]


def attempts(vendor: Vendor, split: str) -> list[Request]:
    """Return the attempts at the tasks of a split."""
    return [request for request in vendor.requests if not request.schema and f"({split} " in request.text]


def propose(**fields: object) -> str:
    """Return a reply of the optimizer."""
    return json.dumps({"reasoning": "because", **fields})


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_learns_all_lessons(bench: Workbench, vendor: Vendor, mode: str) -> None:
    before = bench.live_text()
    done = bench.train(SIZES, config={**PLAIN, **MODES[mode]}, target=vendor.spec, optimizer=vendor.spec)
    assert (done["status"], done.verdict, done["baseline"]) == ("finished", "better", 0.0)
    assert all(lesson(kind) in done["best_skill"] for kind in KINDS)
    scores = [step["candidate"] for step in done["steps"] if step["candidate"] is not None]
    assert scores == sorted(scores)
    # A rewrite from suggestions works in one lesson more.
    assert (len(scores), scores[-1]) == (2 if mode == "suggestions" else 4, 1.0)
    assert done.solved == (0.0, 1.0)
    assert done["n_sent"] == done["n_answered"] == len(vendor.requests)
    assert bench.live_text() == before
    # The optimizer sees train tasks alone, and test tasks are for the promotion test.
    assert not any(f"({split} " in each.text for each in questions(vendor) for split in ("val", "test"))
    first_test = min(vendor.requests.index(each) for each in attempts(vendor, "test"))
    assert first_test > max(vendor.requests.index(each) for each in questions(vendor))


def test_counts_of_a_run(bench: Workbench, vendor: Vendor) -> None:
    """A step takes a batch of train tasks, `repeats` times, and every val task once."""
    config: dict[str, object] = {**PLAIN, "epochs": 1, "repeats": 3, "batch": 4, "limit_train": 4, "limit_val": 6}
    done = bench.train(SIZES, config=config, target=vendor.spec, optimizer=vendor.spec)
    assert (len(attempts(vendor, "train")), done["n_tasks.train"], done["n_tasks.val"]) == (12, 4, 6)
    n_learning = vendor.requests.index(questions(vendor)[-1])
    assert sum("(val " in each.text for each in vendor.requests[:n_learning]) == 6
    assert len(done["steps"]) == 1
    assert 0 < done["steps"][0]["train_hard"] + 1 <= 1


# A gate, what is right with the edit where the base has 1 and 5 of 8 val tasks, and whether the gate takes the edit.
SEARCHES = [
    *((mode, (), False) for mode in ("strict", "fresh", "paired_se", "no_regression")),
    ("strict", (2, 6), False),
    ("strict", (0, 2, 5), True),
    ("fresh", (0, 2, 5), True),
    ("paired_se", (0, 2, 5), False),
    ("paired_se", (0, 1, 2, 4, 5, 6), True),
    ("no_regression", (0, 2, 5), False),
    ("no_regression", (0, 1, 5), True),
]


@pytest.mark.parametrize(("mode", "right", "is_kept"), SEARCHES)
def test_a_search_gate_keeps_what_gains_enough(
    bench: Workbench, vendor: Vendor, mode: str, right: tuple[int, ...], is_kept: bool
) -> None:
    bench.skill_file.write_text(bench.live_text() + lesson("noon") + "\n")
    edit = {"op": "append", "content": "- Smile.", "target": None, "path": "SKILL.md", "evidence": [1]}

    def act(_n: int, request: Request) -> str | None:
        if request.schema:
            return propose(edits=[edit])
        found = re.search(r"\(val (\d+)\)", request.text)
        if found is None or "- Smile." not in request.text:
            return None
        n = int(found[1])
        return list(KINDS.values())[n % 4] if n in right else "..."

    vendor.act = act
    config = {**PLAIN, "epochs": 1, "search_gate": mode, "minibatch": 8}
    done = bench.train(SIZES, config=config, target=vendor.spec, optimizer=vendor.spec)
    assert (done["baseline"], done["steps"][0]["current"]) == (0.25, len(right) / 8 if is_kept else 0.25)
    assert (done["candidate_id"] is not None, "- Smile." in done["best_skill"]) == (is_kept, is_kept)
    # The next step attempts its tasks with the version that the gate left current.
    assert any("- Smile." in each.text for each in attempts(vendor, "train")) is is_kept
    assert is_kept or attempts(vendor, "test") == []


def test_without_a_search_gate_everything_becomes_current_and_the_best_is_still_proven(
    bench: Workbench, vendor: Vendor
) -> None:
    done = bench.train(SIZES, config={**PLAIN, "use_gate": False}, target=vendor.spec, optimizer=vendor.spec)
    assert done.verdict == "better"
    assert [step["current"] for step in done["steps"]][:4] == [step["candidate"] for step in done["steps"]][:4]


@pytest.mark.parametrize(
    ("config", "n_edits"),
    [
        ({"max_edits": 1, "min_edits": 1, "schedule": "constant"}, [1, 1]),
        ({"max_edits": 3, "min_edits": 1, "schedule": "constant"}, [3, 1]),
        ({"max_edits": 2, "min_edits": 1, "schedule": "linear"}, [2, 1]),
    ],
)
def test_a_step_makes_no_more_edits_than_its_budget(
    bench: Workbench, vendor: Vendor, config: dict[str, object], n_edits: list[int]
) -> None:

    def act(_n: int, request: Request) -> str | None:
        if request.schema is None:
            return None
        if "ranking" in request.schema["properties"]:
            return propose(ranking=[1, 2, 3, 4])
        missing = [lesson(kind) for kind in KINDS if lesson(kind) not in request.text.split("# Greeting")[1][:400]]
        edit = {"op": "append", "target": None, "path": "SKILL.md", "evidence": [1]}
        return propose(edits=[{**edit, "content": line} for line in missing])

    vendor.act = act
    done = bench.train(
        SIZES, config={**PLAIN, "epochs": 1, "failure_only": True, **config}, target=vendor.spec, optimizer=vendor.spec
    )
    assert [step["n_edits"] for step in done["steps"]] == n_edits


def test_what_a_step_leaves_out_is_tried_by_the_next_one(bench: Workbench, vendor: Vendor) -> None:
    n_patches = 0

    def act(_n: int, request: Request) -> str | None:
        nonlocal n_patches
        if request.schema is None or "merged_from" in request.schema["properties"]:
            return None
        if "ranking" in request.schema["properties"]:
            return propose(ranking=[1, 2, 3, 4])
        n_patches += 1
        edit = {"op": "append", "target": None, "path": "SKILL.md", "evidence": [1]}
        return propose(edits=[{**edit, "content": lesson(kind)} for kind in KINDS] if n_patches == 1 else [])

    vendor.act = act
    config = {**PLAIN, "epochs": 1, "failure_only": True, "max_edits": 2, "min_edits": 2, "schedule": "constant"}
    done = bench.train(SIZES, config=config, target=vendor.spec, optimizer=vendor.spec)
    assert [(step["n_edits"], step["candidate"]) for step in done["steps"]] == [(2, 0.5), (2, 1.0)]


def test_slow_update_and_notes(bench: Workbench, vendor: Vendor) -> None:
    config: dict[str, object] = {"epochs": 2, "batch": 8, "slow_samples": 4}
    done = bench.train(SIZES, config=config, target=vendor.spec, optimizer=vendor.spec)
    assert [step["kind"] for step in done["steps"]] == ["step", "step", "slow", "meta"]
    assert sum("guidance" in each.schema["properties"] for each in questions(vendor) if each.schema) == 1
    assert GUIDANCE in str(done["best_skill"]) or done["steps"][2]["candidate"] <= done["steps"][1]["best"]
    assert not any(NOTES in each.text for each in questions(vendor))
    # Two batches, and two versions on four tasks, which the notes are written from, too.
    assert len(attempts(vendor, "train")) == 2 * 8 + 2 * 4
    # The notes are kept for the next run.
    vendor.requests.clear()
    bench.train(SIZES, config=config, target=vendor.spec, optimizer=vendor.spec)
    assert any(NOTES in each.text for each in questions(vendor))


def test_a_slow_update_that_gains_nothing_is_not_kept(bench: Workbench, vendor: Vendor) -> None:
    config: dict[str, object] = {**PLAIN, "batch": 8, "slow_update": True, "slow_samples": 4}
    done = bench.train(SIZES, config=config, target=vendor.spec, optimizer=vendor.spec)
    assert [step["kind"] for step in done["steps"]] == ["step", "step", "slow", "step", "slow"]
    assert any(GUIDANCE in each.text for each in attempts(vendor, "val"))
    assert not any(GUIDANCE in each.text for each in attempts(vendor, "train"))


def test_a_dry_run_sends_nothing_and_names_at_least_what_the_run_then_takes(bench: Workbench, vendor: Vendor) -> None:
    bench.add_tasks(SIZES)
    options: dict[str, Any] = {"target": vendor.spec, "optimizer": vendor.spec, "epochs": 1, "batch": 4}
    planned = bench.facts("replay", bench.skill_path, dry_run=True, **options)
    assert vendor.requests == []
    done = bench.replay(out=bench.folder / "out", **options)
    n_asked = len(questions(vendor))
    assert (n_asked, len(vendor.requests) - n_asked) <= (planned["calls.optimizer"], planned["calls.target"])
    out = bench.folder / "out"
    summary: Mapping[str, object] = json.loads((out / "summary.json").read_text())
    assert {name: summary[name] for name in ("run_id", "verdict", "best_version")} == {
        name: dict(done)[name] for name in ("run_id", "verdict", "best_version")
    }
    assert lesson("morning") in (out / "best_skill.md").read_text()


def test_a_settings_file_and_its_overriding_flags_count(bench: Workbench, vendor: Vendor) -> None:
    bench.add_tasks(SIZES)
    path = bench.folder / "night.yaml"
    path.write_text(f'epochs: 5\nbatch: 2\ntarget: "{vendor.spec}"\noptimizer: "{vendor.spec}"\n')
    planned = [
        bench.facts("replay", bench.skill_path, dry_run=True, config=path, **options)["calls"]
        for options in ({"epochs": 1}, {"set": ["train.num_epochs=1"]})
    ]
    assert planned[0] == planned[1]
