"""promptfoo itself: it accepts what `tasks export` writes, and gives the verdicts that are given here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.hosts

PROGRAM = str(Path(sys.executable).with_name("skillopt-mcp"))
SAMPLES = Path(__file__).parents[1] / "evals" / "promptfoo"
TIMEOUT_S = 180


def run(place: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": f"{Path(os.environ['NODE']).parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(place),
        "PROMPTFOO_CONFIG_DIR": str(place / "promptfoo"), "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1", "SKILLOPT_STORE": str(place / "store.db"),
    }  # fmt: skip
    return subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


@pytest.mark.parametrize("sample", ["files", "references", "scenarios"])
def test_promptfoo_accepts_what_is_written_and_gives_the_same_verdicts(tmp_path: Path, sample: str) -> None:
    if not (os.environ.get("NODE") and os.environ.get("PROMPTFOO")):
        pytest.skip("NODE or PROMPTFOO names no program: see .ci/hosts")
    promptfoo = [os.environ["NODE"], os.environ["PROMPTFOO"]]
    skill = tmp_path / "skills" / "ledger"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: ledger\ndescription: Work out amounts.\n---\n\nRead first.\n")
    assert run(tmp_path, PROGRAM, "tasks", "add", str(skill), str(SAMPLES / sample)).returncode == 0
    done = run(tmp_path, PROGRAM, "tasks", "export", str(skill), "out.yaml", "--format", "promptfoo")
    assert done.returncode == 0, done.stderr
    done = run(tmp_path, *promptfoo, "validate", "-c", "out.yaml")
    assert done.returncode == 0, done.stdout
    assert "Configuration is valid" in done.stdout + done.stderr

    # The provider echo answers with the prompt.
    run(tmp_path, *promptfoo, "eval", "-c", "out.yaml", "-o", "results.json", "--no-cache", "--no-table")
    results = json.loads((tmp_path / "results.json").read_text())["results"]["results"]
    asked = {row["testCase"]["description"]: (row["response"]["output"], row["success"]) for row in results}
    assert len(asked) == len(results) > 0
    rows = [json.dumps({"case": name, "answer": answer}) for name, (answer, _) in asked.items()]
    (tmp_path / "answers.jsonl").write_text("\n".join(rows))
    tried = run(tmp_path, PROGRAM, "tasks", "try", str(skill), "out.yaml", "--answers", "answers.jsonl", "--json")
    verdicts = {row["case"]: row["passes"] for row in json.loads(tried.stdout)["results"]}
    assert verdicts == {name: success for name, (_, success) in asked.items()}
