"""What commands print for people, pinned as one file a command in `snapshots/`; UPDATE_SNAPSHOTS=1 writes them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from changes import make_accepted, make_candidate
from console import TARGET, Cli, Place

SNAPSHOTS = Path(__file__).parent / "snapshots"
# A command, what it is called in the table's words: SKILL, GOOD (accepted) and NEW (not tested) are of one place.
TABLE = {
    "skills": ["skills", "skills track SKILL", "skills permit SKILL", "skills permit SKILL --yes",
               "skills revoke SKILL",
               "skills add-root /", "skills forget SKILL", "skills move SKILL nowhere"],
    "tasks": ["tasks list gone", "tasks check SKILL", "tasks add SKILL rows.jsonl", "tasks add SKILL gone.jsonl",
              "tasks remove SKILL gone", "tasks remove SKILL t1 --yes", "tasks list SKILL",
              "tasks export SKILL f.jsonl", "tasks export SKILL f.jsonl"],
    "tasks_judges": ["tasks judges", "tasks judges add right --unconfined -- /bin/true", "tasks judges add right",
                     "tasks judges remove x"],
    "evaluate": ["evaluate NEW", "evaluate gone", f"evaluate NEW --target {TARGET} --dry-run",
                 f"evaluate NEW --target {TARGET} --max-calls 10", "evaluate NEW --rebase"],
    "promote": ["promote NEW", "promote GOOD", "promote GOOD --yes", "promote GOOD --yes --simulated", "promote GOOD"],
    "rollback": ["rollback SKILL", "rollback SKILL 0123456789ab"],
    "show": ["show", "show SKILL", "show gone", "show --out x"],
    "diff": ["diff SKILL", "diff gone"],
    "replay": ["replay SKILL", f"replay SKILL --target {TARGET}", "replay SKILL --resume",
               f"replay SKILL --target {TARGET} --optimizer {TARGET} --dry-run --epochs 1"],
    "store": ["store verify", "store backup copy.db", "store backup copy.db", "store restore copy.db",
              "store erase trajectory:1 --dry-run"],
    "check": ["check SKILL", "check gone"],
}  # fmt: skip
_VARIABLE = (
    (r"(?s)--- a/.*?\n\n(?=[A-Z])", "[the diff]\n\n"),
    (r"\b([crt])-[0-9a-f]{12}\b", r"\1-ID"),
    (r"\b[0-9a-f]{64}\b", "HASH"),
    (r"\b[0-9a-f]{12}\b", "VERSION"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?Z?", "TIME"),
    (r"\d{8}-\d{6}", "TIME"),
    (r"[\d,]+ bytes", "N bytes"),
    (r"(confined by) .*", r"\1 ..."),
    (r" by a person.*", " by a person"),
)


@pytest.mark.parametrize("name", TABLE)
def test_what_a_command_prints(name: str, cli: Cli, make_place, tmp_path: Path) -> None:
    place: Place = make_place(n_tasks=6 if name == "tasks" else 60)
    words = {"SKILL": "ledger-clerk"}
    if any("NEW" in line for line in TABLE[name]):
        words["NEW"] = make_candidate(place, "- And one line more.")
    if any("GOOD" in line for line in TABLE[name]):
        words["GOOD"] = make_accepted(place)
    (tmp_path / "here" / "rows.jsonl").write_text(
        '{"id": "t1", "prompt": "What is 2 + 5?", "judge": {"kind": "exact", "expected": "7"}, "split": "test"}\n'
        '{"prompt": "What is 2 + 6?", "judge": "8"}\n'
    )
    printed = []
    for line in TABLE[name]:
        done = cli(*(words.get(word, word) for word in line.split()), store=place.store_path)
        text = done.stdout + done.stderr
        for pattern, instead in _VARIABLE:
            text = re.sub(pattern, instead, text.replace(str(tmp_path), "TMP"))
        printed.append(f"$ skillopt-mcp {line}\n{text.rstrip()}\n[{done.returncode}]\n")
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(printed))
    assert path.read_text() == "\n".join(printed)
