"""Driver: what the published packages do with the cases on stdin, as JSON on stdout; it runs in their interpreter."""

import importlib
import json
import sys

_ROOMS = {
    "skillopt": {
        "schedule": "skillopt.optimizer.scheduler",
        "gate": "skillopt.evaluation.gate",
        "score": "skillopt.utils",
        "edits": "skillopt.optimizer.skill",
    },
    "skillrl": {
        "schedule": "skillrl.core.scheduler",
        "gate": "skillrl.core.gate",
        "score": "skillrl.core.utils",
        "edits": "skillrl.core.editor",
    },
}


def schedules(rooms, cases):
    """Return the budgets of the steps 1 to `steps` of every case (kind, maximum, minimum, n_steps, steps)."""
    return [
        [rooms["schedule"].build_scheduler(kind, maximum, minimum, total).get_lr(step) for step in range(1, steps + 1)]
        for kind, maximum, minimum, total, steps in cases
    ]


def gates(rooms, cases):
    """Return action, current and best score of every case (metric, weight, hard, soft, current, best)."""
    return [list(_gated(rooms["gate"], *case)) for case in cases]


def compared(rooms, cases):
    """Return the action of every case (metric, candidate, current, best), the last three as [hard, soft] a task."""
    outcomes = []
    for metric, *versions in cases:
        rows = [[{"hard": hard, "soft": soft} for hard, soft in scores] for scores in versions]
        means = [rooms["score"].compute_score(row) for row in rows]
        current, best = (rooms["gate"].select_gate_score(*mean, metric, 0.5) for mean in means[1:])
        outcomes.append(_gated(rooms["gate"], metric, 0.5, *means[0], current, best)[0])  # type: ignore[call-arg]
    return outcomes


def edits(rooms, cases):
    """Return the document after each edit of every case (document, edits), and the status that each was given."""
    outcomes = []
    for document, patch in cases:
        texts, statuses = [], []
        for edit in patch:
            document, (report,) = rooms["edits"].apply_patch_with_report(document, {"edits": [edit]})
            texts.append(document)
            statuses.append(report["status"])
        outcomes.append([texts, statuses])
    return outcomes


def _gated(room, metric, weight, hard, soft, current, best):
    try:
        result = room.evaluate_gate(
            candidate_skill="candidate", cand_hard=hard, current_skill="current", current_score=current,
            best_skill="best", best_score=best, best_step=0, global_step=1, cand_soft=soft, metric=metric,
            mixed_weight=weight,
        )  # fmt: skip
    except ValueError:
        return "refused", current, best
    return result.action, result.current_score, result.best_score


def main():
    """Answer one request {package, what, cases}."""
    request = json.load(sys.stdin)
    rooms = {name: importlib.import_module(module) for name, module in _ROOMS[request["package"]].items()}
    answer = {"schedules": schedules, "gates": gates, "compared": compared, "edits": edits}[request["what"]]
    json.dump(answer(rooms, request["cases"]), sys.stdout)


if __name__ == "__main__":
    main()
