"""`gate --write-evidence` and `gate --recorded`: what was found lies next to a skill, and is read again by anybody."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from console import SCRIPT, Cli

N = 10
OLD, NEW = "Answer with no.\n", "Answer with the word itself.\n"
MAIN = "---\nname: echo\ndescription: Echo a word.\n---\n\n"


@pytest.fixture
def repository(tmp_path: Path, cli: Cli) -> Path:
    """A repository whose main branch has one skill with evals, and whose working tree has a better text."""
    top = tmp_path / "here"
    skill = top / "skills" / "echo"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(MAIN + OLD)
    tests = [{"vars": {"q": f"Say word-{n}"}, "assert": [{"type": "contains", "value": f"word-{n}"}]} for n in range(N)]
    config = {"prompts": ["{{q}}"], "providers": ["x"], "tests": tests}
    (skill / "promptfooconfig.yaml").write_text(json.dumps(config))
    rules = [{"match": [NEW, f"Say word-{n}"], "reply": f"word-{n}"} for n in range(N)]
    (tmp_path / "target.json").write_text(json.dumps({"rollout": [*rules, {"reply": "no"}]}))
    git(top, "init", "-q", "-b", "main")
    commit(top)
    git(top, "checkout", "-q", "-b", "edit")
    (skill / "SKILL.md").write_text(MAIN + NEW)
    return top


def git(top: Path, *arguments: str) -> None:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    named = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *named, *arguments], cwd=top, check=True, env=environ, capture_output=True)


def commit(top: Path) -> None:
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "x")


@pytest.fixture
def evidence(repository: Path, cli: Cli, tmp_path: Path) -> Path:
    """The evidence that a gate has written for the better text, and committed with it."""
    target = f"scripted:{tmp_path / 'target.json'}"
    done = cli("gate", "--base", "main", "--target", target, "--write-evidence", "--yes", store=tmp_path / "store.db")
    assert done.returncode == 0, done.stdout + done.stderr
    path = repository / "skills" / "echo" / "SKILL.evidence.json"
    assert path.exists(), done.stdout + done.stderr
    commit(repository)
    return path


def test_an_agent_writes_no_evidence_which_holds_the_outcome_of_each_case(
    repository: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    target, store = f"scripted:{tmp_path / 'target.json'}", tmp_path / "store.db"
    done = cli("gate", "--base", "main", "--target", target, "--write-evidence", "--yes", store=store)
    assert (done.returncode, "is for a person" in done.stderr) == (1, True), done.stdout + done.stderr
    assert not (repository / "skills" / "echo" / "SKILL.evidence.json").exists()
    assert not store.exists(), "nothing was asked"


def check(cli: Cli, *more: str) -> tuple[int, dict[str, Any]]:
    """The exit code of `gate --recorded`, and what it says of the one skill."""
    done = cli("gate", "--base", "main", "--recorded", "--json", *more)
    found = json.loads(done.stdout)
    [skill] = found["skills"]
    return done.returncode, skill


def test_recorded_evidence_is_read_again_without_model_key_or_store(
    evidence: Path, cli: Cli, tmp_path: Path, repository: Path
) -> None:
    code, skill = check(cli)
    assert (code, skill["outcome"], skill["verdict"]) == (0, "passed", "better"), skill
    assert (skill["claim"], skill["tasks"]["n"]) == ("on these cases", N)
    assert "not who ran it" in skill["notes"][0]
    assert len(evidence.read_bytes()) <= 8192
    assert str(tmp_path) not in evidence.read_text()
    # Neither the text nor what a host is given changes by it.
    again = cli("gate", "--base", "edit", "--recorded", "--json")
    assert json.loads(again.stdout)["skills"] == []
    assert json.loads(evidence.read_text())["head"] == skill_digest(repository)
    commands = [SCRIPT, "gate", "--base", "main", "--recorded"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "nobody")}
    started = time.monotonic()
    alone = subprocess.run(commands, cwd=repository, env=environ, capture_output=True, text=True, check=False)
    assert time.monotonic() - started < 10  # of a loaded machine
    assert alone.returncode == 0, alone.stdout + alone.stderr
    assert "BETTER (SIMULATION)" in alone.stdout
    assert not (tmp_path / "nobody").exists()


def skill_digest(repository: Path) -> str:
    from skillopt_mcp.core.skills import SkillFile, SkillFiles

    return SkillFiles((SkillFile("SKILL.md", (repository / "skills/echo/SKILL.md").read_bytes()),)).digest


def flip(record: dict[str, Any]) -> None:
    record["outcomes"] = [each.replace("1", "0") for each in record["outcomes"]]


def resalt(record: dict[str, Any]) -> None:
    record["plan"]["salt"] = "00" * 16


def add_outcomes(record: dict[str, Any]) -> None:
    record["outcomes"][-1] = f"{record['outcomes'][-1]}1111"


def rename_unit(record: dict[str, Any]) -> None:
    record["plan"]["units"][3] = "ab" * 32


def claim_more(record: dict[str, Any]) -> None:
    record["verdict"] = "worse"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (flip, "does not follow"),
        (resalt, "salt"),
        (add_outcomes, "order of its salt"),
        (rename_unit, "salt or a task"),
        (claim_more, "not worse"),
    ],
)
def test_evidence_that_was_tampered_with_is_named(
    evidence: Path, cli: Cli, change: Callable[[dict[str, Any]], None], says: str
) -> None:
    record = json.loads(evidence.read_text())
    change(record)
    evidence.write_text(json.dumps(record))
    code, skill = check(cli)
    assert (code, skill["outcome"], skill["report"]) == (1, "failed", None)
    assert says in skill["why"]


def claim_of_others(record: dict[str, Any]) -> None:
    record |= {"origin": "store", "tasks": "ab" * 32}


def claim_of_more(record: dict[str, Any]) -> None:
    record["origin"] = "given"


def widen_margin(record: dict[str, Any]) -> None:
    record["plan"]["margin"] = 0.9
    units = len(record["plan"]["units"])
    record |= {"verdict": "no_worse", "outcomes": ["1 0"] * units}


def weigh_cases(record: dict[str, Any]) -> None:
    record["plan"] |= {"live": False, "kind": [0, 1], "tag": "x"}


@pytest.mark.parametrize(
    ("change", "says"),
    [(claim_of_others, "its tasks changed"), (widen_margin, "another question"), (weigh_cases, "another question")],
)
def test_evidence_of_other_tasks_or_of_an_easier_question_passes_nothing(
    evidence: Path, cli: Cli, change: Callable[[dict[str, Any]], None], says: str
) -> None:
    record = json.loads(evidence.read_text())
    change(record)
    evidence.write_text(json.dumps(record))
    for require in ("better", "no-worse", "any-but-worse"):
        code, skill = check(cli, "--require", require)
        assert (code, skill["outcome"], skill["verdict"]) == (2, "not_run", None)
        assert says in skill["why"]


def test_tasks_of_the_repository_are_claimed_as_such_whatever_the_evidence_says(evidence: Path, cli: Cli) -> None:
    record = json.loads(evidence.read_text())
    claim_of_more(record)
    evidence.write_text(json.dumps(record))
    code, skill = check(cli)
    assert (code, skill["claim"], skill["tasks"]["from"]) == (0, "on these cases", "base")


def edit_text(top: Path) -> None:
    (top / "skills/echo/SKILL.md").write_text(f"{MAIN}{NEW}More.\n")


def edit_base(top: Path) -> None:
    git(top, "checkout", "-q", "main")
    (top / "skills/echo/SKILL.md").write_text(f"{MAIN}{OLD}Nothing else.\n")
    commit(top)
    git(top, "checkout", "-q", "edit")
    git(top, "rebase", "-q", "-X", "theirs", "main")


def edit_tasks(top: Path) -> None:
    git(top, "checkout", "-q", "main")
    path = top / "skills/echo/promptfooconfig.yaml"
    path.write_text(path.read_text().replace("word-3", "word-33"))
    commit(top)
    git(top, "checkout", "-q", "edit")
    git(top, "rebase", "-q", "main")


def remove_record(top: Path) -> None:
    git(top, "branch", "-qf", "main", "edit")
    (top / "skills/echo/SKILL.evidence.json").unlink()
    edit_text(top)


@pytest.mark.parametrize(
    ("change", "says"),
    [(edit_text, "its text changed"), (edit_base, "text at the base"), (edit_tasks, "its tasks"),
     (remove_record, "removed")],
)  # fmt: skip
def test_evidence_of_other_texts_or_tasks_is_stale(
    evidence: Path, repository: Path, cli: Cli, change: Callable[[Path], None], says: str
) -> None:
    change(repository)
    code, skill = check(cli)
    assert (code, skill["outcome"], skill["verdict"]) == (2, "not_run", None)
    assert says in skill["why"]


@pytest.mark.parametrize(
    "content",
    [b"", b"null", b"[" * 100_000, b"{" * 4_000, b'{"a":' * 1_000, "{}".encode("utf-16"), b"\xff\xfe\x00", b"x" * 9_000,
     b"x" * 2_000_000, b'{"verdict": 1e999}', b'{"verdict": "better", "verdict": []}'],
)  # fmt: skip
def test_a_hostile_file_gives_one_clear_line(evidence: Path, cli: Cli, content: bytes) -> None:
    evidence.write_bytes(content)
    code, skill = check(cli)
    assert (code, skill["outcome"]) == (2, "not_run")
    assert 10 < len(skill["why"]) < 300
    assert "\n" not in skill["why"]
    record: dict[str, Any] = {"plan": {"salt": "x", "units": ["a"], "passes": 1, "number": 10**9}}
    evidence.write_text(json.dumps(record))
    assert check(cli)[0] == 2


@pytest.mark.parametrize("score", [float("nan"), float("inf"), 1e308])
def test_scores_that_are_none_give_one_clear_line(evidence: Path, cli: Cli, score: float) -> None:
    record = json.loads(evidence.read_text())
    record["plan"] |= {"live": False, "earlier": [[score, score]] * N}
    evidence.write_text(json.dumps(record))
    code, skill = check(cli)
    assert (code, skill["outcome"]) == (2, "not_run")
    assert "earlier" in skill["why"]


def test_a_record_that_is_a_link_is_not_followed_and_not_written_through(
    evidence: Path, repository: Path, cli: Cli, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(evidence.read_bytes())
    evidence.unlink()
    evidence.symlink_to(victim)
    code, skill = check(cli)
    assert (code, skill["outcome"]) == (2, "not_run")
    victim.write_text("mine")
    target = f"scripted:{tmp_path / 'target.json'}"
    cli("gate", "--base", "main", "--target", target, "--write-evidence", "--yes", store=tmp_path / "store.db")
    assert victim.read_text() == "mine"
    assert check(cli)[0] == 0
    evidence.unlink()
    evidence.mkdir()
    command = ("gate", "--base", "main", "--target", target, "--write-evidence", "--yes")
    assert "Not recorded" in cli(*command, store=tmp_path / "store.db").stderr
    assert [*evidence.parent.glob(".*")] == [], "nothing is left of a file that could not be written"


def test_a_skill_from_before_is_warned_and_a_new_one_is_not_let_through(repository: Path, cli: Cli) -> None:
    code, skill = check(cli)
    assert (code, skill["outcome"]) == (0, "neutral")
    assert "gate --target BACKEND --write-evidence" in skill["why"]
    git(repository, "stash", "-q")
    git(repository, "mv", "skills/echo", "skills/other")
    (repository / "skills/other/SKILL.md").write_text("---\nname: other\ndescription: Another.\n---\n\nX y z.\n")
    done = json.loads(cli("gate", "--base", "main", "--recorded", "--json").stdout)
    assert {each["change"]: each["outcome"] for each in done["skills"]} == {"deleted": "neutral", "added": "not_run"}
    (repository / "skills/other/promptfooconfig.yaml").unlink()
    done = json.loads(cli("gate", "skills/other", "--base", "main", "--recorded", "--json").stdout)
    assert [each["why"] for each in done["skills"]] == ["It has no tasks in the repository."]


def test_a_few_cases_are_asked_again_and_odd_answers_are_named(
    evidence: Path, cli: Cli, tmp_path: Path, repository: Path
) -> None:
    command = ("gate", "--base", "main", "--recorded", "--spot", "--yes", "--json")
    target = tmp_path / "target.json"
    done = cli(*command, "--target", f"scripted:{target}", store=tmp_path / "other.db")
    [skill] = json.loads(done.stdout)["skills"]
    assert (done.returncode, skill["outcome"]) == (0, "passed"), skill
    assert "6 of 6 answers to 3 cases came out as recorded" in skill["notes"][-1]
    swapped = tmp_path / "swapped.json"
    rules = [{"match": [OLD, f"Say word-{n}"], "reply": f"word-{n}"} for n in range(N)]
    swapped.write_text(json.dumps({"rollout": [*rules, {"reply": "no"}]}))
    done = cli(*command, "--target", f"scripted:{swapped}", store=tmp_path / "other.db")
    [skill] = json.loads(done.stdout)["skills"]
    assert (done.returncode, skill["outcome"]) == (1, "failed")
    assert "does not fit what was recorded: 0 of 6" in skill["why"]
