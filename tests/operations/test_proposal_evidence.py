"""What a proposal learns from: train tasks of every kind, attempts that exist, and room for what was found."""

from __future__ import annotations

import json
from collections import Counter

from workshop import Place, use

from skillopt_mcp.actions.promotions.review import review_candidate
from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core.calls import Call, Rollout


def rows(kind: str, n: int) -> list[object]:
    return [
        {
            "prompt": f"{kind} {k}?",
            "judge": {"kind": "exact", "expected": f"{kind}-{k}"},
            "split": "train",
            "tags": [kind],
        }
        for k in range(n)
    ]


def edits(n: int) -> str:
    row = [{"op": "append", "content": f"Lesson {k}.", "evidence": [1]} for k in range(n)]
    return json.dumps({"reasoning": "why", "edits": row})


def test_a_rare_kind_is_never_missing_and_attempts_that_exist_are_used_again(place: Place) -> None:
    made: list[str] = []

    def attempt(call: Call) -> str:
        assert isinstance(call.request, Rollout)
        made.append(call.request.task.prompt)
        return "no idea"

    workspace = place.open()
    add_tasks(workspace.store, workspace.place, str(place.skill), [*rows("often", 24), *rows("rare", 3)])
    use(workspace, Scripted(attempt), "target")
    use(workspace, Scripted(lambda call: edits(0), name="scripted:nothing"), "optimizer")
    seen = list[set[str]]()
    for _ in range(6):
        propose_from_evidence(workspace.store, workspace.models, workspace.place, str(place.skill), 8)
        tracked = workspace.place.skill(str(place.skill))
        last = workspace.store.runs.list_runs(tracked.id)[-1]
        seen.append({task.prompt for task in workspace.store.tasks.list_tasks(tracked.id) if task.id in last.tasks})
    assert all(len(prompts) == 8 and any(each.startswith("rare") for each in prompts) for prompts in seen)
    assert set(Counter(made).values()) == {1}
    assert set(made) == set[str]().union(*seen)


def test_a_proposal_has_up_to_twelve_edits_and_names_what_it_leaves_out(place: Place) -> None:
    workspace = place.open()
    add_tasks(workspace.store, workspace.place, str(place.skill), rows("often", 2))
    use(workspace, Scripted(lambda call: "no idea"), "target")

    def reply(call: Call) -> str:
        return json.dumps({"ranking": list(range(1, 15))}) if call.stage == "rank" else edits(14)

    use(workspace, Scripted(reply, name="scripted:many"), "optimizer")
    proposed = propose_from_evidence(workspace.store, workspace.models, workspace.place, str(place.skill), 2)
    assert [each.status for each in proposed.edits] == ["applied"] * 12
    assert proposed.left_out == ["Lesson 12.", "Lesson 13."]
    # A person who is asked to agree reads what failed, and what changes; not how edits were merged.
    assert proposed.candidate_id
    review = review_candidate(workspace.store, workspace.place, proposed.candidate_id)
    assert review.why.startswith("1 x often")
    assert review.changes == "+24 -0 lines in SKILL.md"
