"""Verdicts: what a promotion test found, as a person sees it; an agent never does. No backend is loaded for that."""

from __future__ import annotations

import re
from typing import Literal

from skillopt_mcp.core.calls import AGAINST, Rollout
from skillopt_mcp.core.evidence import Arm, Standing, TestReport, Triggering
from skillopt_mcp.core.results import UnitRow
from skillopt_mcp.gates.power import find_what_decides
from skillopt_mcp.gates.promotion import net_of
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.skills import GATED_OWN
from skillopt_mcp.tasks.judges.kinds.combined import Partial
from skillopt_mcp.tasks.judges.kinds.opens import Opens
from skillopt_mcp.training.promotion_test import Test, standing_of
from skillopt_mcp.workspace.evidence import is_pasted, origins

_PROMPT_SHOWN = 200


def report_of(store: Store, test: Test, standing: Standing | None = None) -> TestReport:
    """All that a person sees of a test; an agent never does."""
    standing, row = standing or standing_of(test, store), store.tests.find(test.row.id) or test.row
    is_live = store.skills.get_skill(row.skill_id).live_version == row.version_id
    is_live = is_live and standing.live and not row.plan.one_text
    decides = None
    if standing.verdict in ("cant_tell", "not_better") and not standing.void and not row.plan.in_rounds:
        nets = [
            [net_of(new, old, graded=row.plan.graded) for new, old in zip(each.after, each.before, strict=False)]
            for each in unit_rows(store, test, standing)
        ]
        decides = find_what_decides(row.plan, nets, [task.tags for task in test.tasks])
    openings: dict[Arm, list[tuple[bool, bool]]] = {"base": [], "candidate": []}
    for each in store.tests.list_attempts(row.id):
        judge = test.tasks[each.unit].judge
        if isinstance(judge, Opens) and each.opened is not None:
            openings[each.arm].append((judge.expected, each.opened))
    return TestReport(
        **standing.model_copy(update={"live": is_live}).model_dump(),
        test_id=test.row.id,
        release=row.release,
        test_in_release=row.number,
        decides=decides,
        promotions_here=store.tests.promotions_on(test.row.tasks),
        backend=test.row.backend,
        unanswered=store.tests.list_unanswered(test.row.id),
        pasted=is_pasted(test.row.backend),
        in_part=sum(isinstance(task.judge, Partial) for task in test.tasks),
        triggering={arm: found for arm, pairs in openings.items() if (found := Triggering.count(pairs))},
        loading=[
            f"{text} text: {found.state + ': ' if found.state != 'arrived' else ''}{found.words}"
            for text, files in (("old", test.base), ("new", test.candidate))
            for found in store.arrivals.list_of(
                origins(test.row.backend)[0], Rollout(files, test.tasks[0]).next_to(test.other).files.digest
            )
            if found.words
        ],
        against=re.split("[,+ ]", row.backend.partition(AGAINST)[2])[0] if row.plan.one_text else "",
        on_cases=GATED_OWN.match(store.skills.get_skill(row.skill_id).path) is not None,
    )


def unit_rows(store: Store, test: Test, standing: Standing | None = None) -> list[UnitRow]:
    """The units that a test has counted, in its order."""
    plan = test.row.plan
    standing = standing or standing_of(test, store)
    scores: dict[tuple[Arm, int], list[float]] = {}
    for each in store.tests.list_attempts(test.row.id):  # what came after the last pair that counts is paid alone
        if each.number * plan.n_units + each.unit < (standing.pilot or standing.pairs):
            scores.setdefault((each.arm, each.unit), []).append(each.score)
    rows = []
    for unit in range(standing.units.seen):
        after, before = scores.get(("candidate", unit), []), scores.get(("base", unit), [])
        before = list(plan.earlier[unit]) if standing.pilot else before
        gain = sum(after) / max(1, len(after)) - sum(before) / max(1, len(before))
        outcome: Literal["better", "same", "worse"] = "better" if gain > 0 else "worse" if gain < 0 else "same"
        task = test.tasks[unit]
        prompt = " ".join(task.prompt.split())[:_PROMPT_SHOWN]
        rows.append(UnitRow(task=task.name, outcome=outcome, before=before, after=after, prompt=prompt))
    return rows
