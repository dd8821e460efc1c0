"""Pinned: the old console script, with the two changes that are meant, and its runs named as in RUN_IDS.

A run shuffles by its name, which follows from its settings: a renamed setting would shuffle otherwise.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace

import skillopt_mcp.optimizer.training as loop
from skillopt_mcp.operations.runs import replaying
from skillopt_mcp.prompts.asking import ask_parsed
from skillopt_mcp.prompts.forms import Brief

from skillopt_mcp.documents.edits import apply_patch
from skillopt_mcp.records.calls import Ask, Call
from skillopt_mcp.records.edits import UNSHOWN, Edit, Patch
from skillopt_mcp.records.replies import RankReply
from skillopt_mcp.records.runs import Run
from skillopt_mcp.records.skills import SkillFiles
from skillopt_mcp.stages.aggregate import Aggregation
from skillopt_mcp.stages.select import Selection

IS_PATCH = "--update-mode" not in sys.argv
left_out = list[Edit]()  # by the step before

# 1. An edit's support counts the attempts that it cites, not all that its author was shown.
Edit.support = property(lambda edit: sum(not each.startswith(UNSHOWN) for each in edit.cited))

# 2. Edits beyond a step's budget start the pool of the next step.
pool_only = loop.aggregate


def aggregate(ask: Ask, files: SkillFiles, patches: Sequence[Patch], brief: Brief, fan_in: int) -> Aggregation:
    edits = [each for each in left_out if not IS_PATCH or apply_patch(files, Patch((each,))).files != files]
    before = [Patch(tuple(edits), "left out by the step before")] if edits else []
    return pool_only(ask, files, [*before, *patches], brief, fan_in)


def select(ask: Ask, files: SkillFiles, patch: Patch, brief: Brief) -> Selection:
    pool, budget = patch.edits, max(0, brief.budget)
    left_out.clear()
    if len(pool) <= budget:
        return Selection(patch)
    best, unusable = list(pool), tuple[str, ...]()
    if budget:
        question = brief.question(files, brief.instructions(brief.form.rank), brief.form.render(pool), "rank")
        [parsed] = ask_parsed(ask, [Call("optimizer", "rank", question, brief.draw)], RankReply)
        ranked = [n - 1 for n in parsed.value.ranking if 1 <= n <= len(pool)] if parsed.value else []
        others = sorted(range(len(pool)), key=lambda n: (not pool[n].from_failure, -pool[n].support, n))
        best = [pool[n] for n in dict.fromkeys([*ranked, *others])]
        unusable = () if parsed.value else (f"rank: {parsed.problem}",)
    left_out.extend(best[budget : budget + 12])
    return Selection(Patch(tuple(best[:budget]), patch.reasoning), unusable)


loop.aggregate, loop.select = aggregate, select
natural, ids, named = replaying.new_run, iter(os.environ["RUN_IDS"].split()), dict[str, str]()


def pinned(*arguments: object) -> Run:
    left_out.clear()
    run = natural(*arguments)  # type: ignore[arg-type]
    named[run.id] = named.get(run.id) or next(ids, run.id)
    return replace(run, id=named[run.id])


replaying.new_run = pinned  # type: ignore[assignment]
from skillopt_mcp.cli.main import main  # noqa: E402 (what the commands import is the pinned one)

sys.exit(main())
