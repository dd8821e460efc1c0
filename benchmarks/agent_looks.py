"""Agent looks: every command, tool and resource by which an agent may look for what is held out of a trained skill.

The lines are filled in with names: `skill`, `folder`, `run`, `candidate`, `test`, `version`, `new`, `trajectory`,
`file` (tasks of the agent's own), `target` and `optimizer`; and with `out`, an empty folder.
"""

from __future__ import annotations

from collections.abc import Mapping

Calls = list[tuple[str, dict[str, object]]]

_REPLAY = "replay {skill} --target {target} --optimizer {optimizer} --epochs 1 --yes"
# Commands that show what is in the store; what they say to an agent is nothing, or has nothing that is held out.
REFUSED = {
    "tasks export": ["tasks export {skill}", "tasks export {skill} {out}/t.jsonl", "tasks export {skill} --json"],
    "store backup": ["store backup {out}/copy.db"],
    "tasks review": ["tasks review {skill}"],
    "promote": ["promote {candidate} --simulated"],
    "show": ["show {test}", "show {test} --json"],
    "report": ["report {skill} --html {out}/page.html", "report {test} --md {out}/r.md", "report {run} --csv {out}/t"],
}
SEALED = {
    "tasks list": ["tasks list {skill}", "tasks list {skill} --all --json"],
    "tasks check": ["tasks check {skill}", "tasks check {skill} --json", "tasks check {skill} {file} --json"],
    "show": [
        "show", "show --json", "show {skill}", "show {skill} --json", "show {candidate}", "show {candidate} --json",
        "show {run}", "show {run} --json", "show {run} --out {out}/run", "show {skill}@{version} --out {out}/version",
        "show {trajectory} --json",
    ],
    "evaluate": ["evaluate {candidate} --target {target}", "evaluate {candidate} --target {target} --json"],
    "replay": [f"{_REPLAY} --out {{out}}/again", f"{_REPLAY} --out {{out}}/again --json"],
    "skills list": ["skills --json", "skills"],
    "diff": ["diff {skill} {version} {new}"],
    "store verify": ["store verify --json"],
    "doctor": ["doctor --json"],
    "check": ["check {folder} --json"],
    "tasks judges list": ["tasks judges list --json"],
}  # fmt: skip
# Those that write, ask models or need no store: they read no task back, or are refused elsewhere (test_consent.py).
OTHERS = {
    "demo", "gate", "install", "rollback", "serve", "skills add-root", "skills forget",
    "skills move", "skills permit", "skills revoke", "skills track", "store erase", "store restore", "tasks add",
    "tasks judges add", "tasks judges remove", "tasks mine", "tasks remove", "tasks try", "uninstall",
}  # fmt: skip


def reading(names: Mapping[str, str]) -> Calls:
    """Return the calls of tools that read alone."""
    ids = [names[name] for name in ("skill", "run", "candidate", "test", "trajectory")]
    ids += [f"{names['skill']}@{names[name]}" for name in ("version", "new")]
    inspected: Calls = [("inspect", {"id": each}) for each in ids]
    return [("list_skills", {}), *inspected]


def acting(names: Mapping[str, str], task: str, lesson: str) -> Calls:
    """Return calls of the tools that change something, with the name of a held-out `task`."""
    skill: dict[str, object] = {"skill": names["skill"]}
    candidate: dict[str, object] = {"candidate_id": names["candidate"]}
    again = {"prompt": "What is 2 + 5?", "judge": {"kind": "exact", "expected": "7"}, "split": "train", "id": task}
    return [
        ("add_tasks", {**skill, "tasks": [again]}),
        ("record_trajectory", {**skill, "task": task, "answer": "no", "hard": False, "reason": "no"}),
        ("propose_edits", {**skill, "edits": [{"op": "append", "content": lesson}]}),
        ("propose_edits", skill),
        ("evaluate_candidate", candidate),
        ("submit_work", {"job_id": names["test"]}),
        ("promote_skill", candidate),
        ("rollback_skill", skill),
    ]


def resource_names(names: Mapping[str, str]) -> dict[str, str]:
    """Return what the templates of resources are filled in with."""
    return {
        **names,
        "id": names["candidate"],
        "candidate_id": names["candidate"],
        "run_id": names["run"],
        "old": names["version"],
    }
