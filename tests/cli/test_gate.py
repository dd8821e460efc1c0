"""Gate: git repositories whose skills differ between two revisions, through the console script."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from console import SCRIPT, Cli, parsed, run_script

from tests.vendors import Vendor, vending

YES, NO, NOISE = "Say yes.", "Say nothing.", "Be brief."
FRUIT = ["apple", "pear", "plum", "fig", "kiwi", "lime", "melon", "peach", "grape", "cherry", "quince", "mango"]


def git(folder: Path, *arguments: str) -> str:
    own = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *own, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path) -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "edit")
    return git(folder, "rev-parse", "HEAD")


def write_skill(folder: Path, body: str = YES, names: Sequence[str] = FRUIT[:10], right: str = "yes") -> Path:
    """A skill whose tasks, one for each name, are solved by the `right` answer."""
    (folder / "evals").mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: Answers about fruit.\n---\n{body}\n")
    write_tasks(folder / "evals", names, right)
    return folder


def write_tasks(folder: Path, names: Sequence[str], right: str = "yes") -> None:
    both = [{"type": "equals", "value": right}, {"type": "icontains", "value": right}]
    tests = [{"description": f"of {name}", "vars": {"q": name}, "assert": both} for name in names]
    config = {"prompts": ["What colour is {{q}} in the evening?"], "providers": ["any"], "tests": tests}
    (folder / "promptfooconfig.yaml").write_text(json.dumps(config))


@pytest.fixture
def here(cli: Cli, tmp_path: Path) -> Path:
    """A repository with the skill tone, in the folder that `cli` runs in."""
    folder = tmp_path / "here"
    git(folder, "init", "-q", "-b", "main")
    write_skill(folder / "skills/tone")
    commit(folder)
    return folder


@pytest.fixture
def target(tmp_path: Path) -> str:
    """A target that answers yes where the skill says so."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"rollout": [{"match": YES, "reply": "yes"}, {"match": "", "reply": "no"}]}))
    return f"scripted:{path}"


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    """The same target, behind a loopback address, that counts what it is asked."""
    with vending() as lent:
        lent.hears_skill, lent.reply = True, lambda asked: "yes" if YES in asked else "no"
        yield lent


@pytest.fixture
def gate(cli: Cli, here: Path, target: str, tmp_path: Path) -> Callable[..., tuple[int, dict[str, Any]]]:
    """What runs the gate, and returns its exit code and what it printed."""

    def run(*arguments: object, by: str = "") -> tuple[int, dict[str, Any]]:
        done = cli("gate", "--json", "--target", by or target, "--yes", *arguments, store=tmp_path / "store.db")
        assert done.stdout.count("\n") == 1, done.stderr
        return done.returncode, json.loads(done.stdout)

    return run


def outcomes(found: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each["path"]: (each["change"], each["outcome"]) for each in found["skills"]}


def test_a_text_that_got_worse_fails_on_these_cases_and_is_tested_once(
    gate: Callable[..., Any], here: Path, cli: Cli, tmp_path: Path
) -> None:
    write_skill(here / "skills/tone", NO)
    code, found = gate()
    (skill,) = found["skills"]
    assert (code, skill["verdict"], skill["claim"], found["head"]) == (1, "worse", "on these cases", "")
    assert skill["tasks"] == {"from": "base", "n": 10, "changed": False}
    assert skill["report"]["on_cases"]
    assert (skill["test_number"], skill["number_known"]) == (1, False), "no pull request was named"
    assert {each["new_answer"] for each in skill["worse"]} == {"no"}
    assert {each["old_answer"] for each in skill["worse"]} == {"yes"}
    asked = found["used"]["calls"]
    head = commit(here)
    code, again = gate("--base", "HEAD~1", "--head", "HEAD")
    assert (code, again["head"], again["used"]["calls"]) == (1, head, asked), "another way to the same two texts"
    said = cli("gate", "--base", "HEAD~1", "--target", f"scripted:{tmp_path}/script.json", store=tmp_path / "store.db")
    assert "On these 10 cases the new text solves fewer." in said.stdout
    assert "tasks like" not in said.stdout


def test_what_differs_is_changed_added_renamed_deleted_or_reached_by_a_link(
    gate: Callable[..., Any], here: Path, target: str
) -> None:
    for name in ("moved", "linked", "same"):
        write_skill(here / "skills" / name, f"{name}: {' '.join(FRUIT)} {YES}")
    write_skill(here / "skills/gone", "Whatever else it is that a skill may say of lakes, rivers, seas and ponds.")
    (here / "shared").mkdir()
    (here / "shared/rules.md").write_text("Old rules.\n")
    (here / "skills/linked/rules.md").symlink_to("../../shared/rules.md")
    (here / "CLAUDE.md").write_text(f"{NOISE}\n")
    (here / "evals").mkdir()
    write_tasks(here / "evals", FRUIT[:9])
    commit(here)
    git(here, "rm", "-rq", "skills/gone")
    git(here, "mv", "skills/moved", "skills/new-place")
    (here / "skills/new-place/SKILL.md").write_text(
        (here / "skills/new-place/SKILL.md").read_text().replace("moved", "new-place").replace(YES, NO)
    )
    (here / "shared/rules.md").write_text("Other rules.\n")
    (here / "CLAUDE.md").write_text(f"{YES}\n")
    write_skill(here / "skills/added")
    (here / "skills/same/.note").write_text("no part of a skill")
    code, found = gate("--base", "HEAD")
    assert outcomes(found) == {
        "CLAUDE.md": ("changed", "passed"),
        "skills/added": ("added", "passed"),
        "skills/gone": ("deleted", "neutral"),
        "skills/linked": ("changed", "neutral"),
        "skills/new-place": ("renamed", "failed"),
    }
    by_path = {each["path"]: each for each in found["skills"]}
    assert code == 1
    assert by_path["skills/new-place"]["before"] == "skills/moved"
    assert by_path["skills/added"]["tasks"]["from"] == "head"
    assert by_path["skills/added"]["report"]["solved"] == {
        "before": 0.0,
        "after": 1.0,
    }
    assert by_path["skills/linked"]["verdict"] == "not_better", "both texts say yes"
    code, one = gate("--base", "HEAD", "skills/added", "skills/gone")
    assert (code, len(one["skills"])) == (0, 2)


def test_the_old_tasks_decide_where_a_head_edits_text_tasks_and_judge_at_once(
    gate: Callable[..., Any], here: Path
) -> None:
    write_skill(here / "skills/tone", NO, right="no")
    code, found = gate()
    (skill,) = found["skills"]
    assert (code, skill["outcome"], skill["tasks"]) == (1, "failed", {"from": "base", "n": 10, "changed": True})
    assert any("differ at the head" in note for note in skill["notes"])
    write_skill(here / "skills/tone", YES, FRUIT[3:])
    code, found = gate()
    (skill,) = found["skills"]
    assert (code, skill["outcome"], skill["report"]) == (0, "neutral", None)
    assert "its tasks alone" in skill["why"]


def test_the_same_two_texts_are_tested_again_where_the_base_has_other_tasks(
    gate: Callable[..., Any], here: Path
) -> None:
    write_skill(here / "skills/tone", NO)
    first = gate("--pr", "7")[1]["skills"][0]
    write_skill(here / "skills/tone", YES, FRUIT)
    commit(here)
    write_skill(here / "skills/tone", NO, FRUIT)
    code, found = gate("--pr", "7")
    (second,) = found["skills"]
    assert (code, first["tasks"]["n"], second["tasks"]["n"]) == (1, 10, 12)
    assert (first["test_number"], second["test_number"]) == (1, 2)


def test_few_tasks_go_in_rounds_and_what_cannot_be_told_is_no_green_tick(gate: Callable[..., Any], here: Path) -> None:
    write_skill(here / "skills/tone", names=FRUIT[:3])
    commit(here)
    write_skill(here / "skills/tone", f"{YES} {NOISE}", names=FRUIT[:3])
    code, found = gate("--base", "HEAD")
    assert (code, outcomes(found), found["skills"][0]["verdict"]) == (
        0, {"skills/tone": ("changed", "neutral")}, "cant_tell",
    )  # fmt: skip
    assert "decide" in found["skills"][0]["why"]
    write_skill(here / "skills/tone", NO, names=FRUIT[:3])
    code, found = gate("--base", "HEAD")
    assert (code, found["skills"][0]["verdict"], found["skills"][0]["claim"]) == (1, "worse_here", "on these cases")


def test_what_is_required_decides_what_passes(gate: Callable[..., Any], here: Path) -> None:
    write_skill(here / "skills/tone", f"{YES} {NOISE}")
    for require, expected in (
        ("better", (1, "failed", "not_better")), ("no-worse", (0, "passed", "no_worse")),
        ("any-but-worse", (0, "neutral", "not_better")),
    ):  # fmt: skip
        code, found = gate("--require", require)
        assert (code, found["skills"][0]["outcome"], found["skills"][0]["verdict"]) == expected, require


def test_a_skill_that_cannot_be_tested_stops_no_other(gate: Callable[..., Any], here: Path) -> None:
    for name in ("binary", "leads-out", "merged", "no-tasks", "rubric"):
        write_skill(here / "skills" / name)
    (here / "skills/no-tasks/evals/promptfooconfig.yaml").unlink()
    (here / "skills/rubric/evals/promptfooconfig.yaml").unlink()
    evals = {"skill_name": "rubric", "evals": [{"id": 1, "prompt": "Why?", "expectations": ["It is kind"]}]}
    (here / "skills/rubric/evals/evals.json").write_text(json.dumps(evals))
    commit(here)
    for name in ("tone", "no-tasks", "rubric"):
        with (here / "skills" / name / "SKILL.md").open("a") as file:
            file.write(f"{NOISE}\n")
    (here / "skills/tone/SKILL.md").write_text((here / "skills/tone/SKILL.md").read_text().replace(YES, NO))
    (here / "skills/binary/SKILL.md").write_bytes(b"\0\1\2")
    (here / "skills/merged/SKILL.md").write_text("<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n")
    (here / "skills/leads-out/passwd").symlink_to("/etc/passwd")
    code, found = gate("--base", "HEAD")
    assert {path: outcome for path, (_, outcome) in outcomes(found).items()} == {
        "skills/binary": "not_run", "skills/leads-out": "not_run", "skills/merged": "not_run",
        "skills/no-tasks": "neutral", "skills/rubric": "not_run", "skills/tone": "failed",
    }  # fmt: skip
    why = {each["path"]: each["why"] for each in found["skills"]}
    assert code == 1
    assert "evals/evals.json" in why["skills/no-tasks"]
    assert "--judge" in why["skills/rubric"]
    assert "skillopt-gate" not in json.dumps(found), "no path of a temporary folder"


def test_a_quota_that_ends_keeps_what_was_answered_and_the_same_command_pays_nothing_twice(
    gate: Callable[..., Any], here: Path, vendor: Vendor
) -> None:
    write_skill(here / "skills/second")
    commit(here)
    write_skill(here / "skills/tone", f"{YES} {NOISE}", FRUIT)
    write_skill(here / "skills/second", NO)
    vendor.quota, spec = 7, vendor.spec()
    code, found = gate("--base", "HEAD", "--concurrency", 1, by=spec)
    assert (code, set(outcomes(found).values()), found["stopped"]) == (2, {("changed", "not_run")}, "")
    assert len(vendor.asked) == 7
    assert any("7 of at most" in each["why"] for each in found["skills"])
    vendor.quota = None
    code, found = gate("--base", "HEAD", "--concurrency", 1, by=spec)
    assert (code, outcomes(found)["skills/second"]) == (1, ("changed", "failed"))
    assert len(vendor.asked) == found["used"]["calls"], "what was paid is in the sums, once"


def test_the_first_call_is_a_probe_that_ends_the_job_in_one_line(
    gate: Callable[..., Any], here: Path, vendor: Vendor, tmp_path: Path
) -> None:
    write_skill(here / "skills/tone", NO)
    vendor.quota = 0
    code, found = gate(by=vendor.spec())
    assert (code, outcomes(found)) == (2, {"skills/tone": ("changed", "not_run")})
    assert "\n" not in found["stopped"]
    assert "credit balance" in found["stopped"]
    assert found["skills"][0]["why"] == "The first call failed.", "said once"
    assert vendor.asked == []
    vendor.quota = None
    assert gate(by=vendor.spec())[0] == 1
    script = tmp_path / "down.json"
    script.write_text(json.dumps({"rollout": [{"fault": "server", "reply": "overloaded for long"}]}))
    code, found = gate(by=f"scripted:{script}")
    assert (code, "overloaded for long" in found["stopped"]) == (2, True), found


def test_caps_hold_over_all_tests_of_a_gate(gate: Callable[..., Any], here: Path, vendor: Vendor) -> None:
    write_skill(here / "skills/other")
    commit(here)
    for name in ("tone", "other"):
        write_skill(here / "skills" / name, NO)
    code, found = gate("--base", "HEAD", "--max-calls", 20, "--concurrency", 1, by=vendor.spec())
    assert (code, len(vendor.asked) <= 20) == (1, True)
    assert sorted(outcome for _, outcome in outcomes(found).values()) == ["failed", "not_run"]
    assert gate("--base", "HEAD", "--max-calls", 40, "--concurrency", 1, by=vendor.spec())[0] == 1
    assert len(vendor.asked) <= 40


def test_nothing_is_asked_without_a_yes_and_a_dry_run_shows_the_price(
    here: Path, vendor: Vendor, tmp_path: Path
) -> None:
    write_skill(here / "skills/tone", NO)
    words = ["gate", "--json", "--target", vendor.spec(), "--store", str(tmp_path / "store.db")]
    done = run_script(words, here)
    assert (done.returncode, "--yes" in json.loads(done.stdout)["stopped"], vendor.asked) == (2, True, [])
    write_skill(here / "skills/bare")
    (here / "skills/bare/evals/promptfooconfig.yaml").unlink()
    planned = parsed(run_script([*words, "--dry-run"], here))
    words.remove("--json")
    done = run_script([*words, "--dry-run"], here)
    assert "skills/bare: It has no tasks" in done.stderr, "what cannot be tested is said before"
    assert (planned["status"], planned["calls"]["target"], vendor.asked) == ("planned", 160, [])


def test_tests_of_a_pull_request_are_numbered_and_the_base_is_asked_less(
    gate: Callable[..., Any], here: Path, vendor: Vendor
) -> None:
    numbers, used, slow = [], [], ("--require", "better", "--concurrency", 1)
    write_skill(here / "skills/tone", NO)
    commit(here)
    git(here, "checkout", "-qb", "edit")
    for n, body in enumerate((f"{NO} {NOISE}", f"{NO} Once.", f"{NO} Twice.")):
        write_skill(here / "skills/tone", body)
        if n == 1:  # a force push: the head before is gone
            git(here, "add", "-A")
            git(here, "commit", "-q", "--amend", "-m", "other")
            git(here, "reflog", "expire", "--expire=now", "--all")
            git(here, "gc", "-q", "--prune=now")
        else:
            commit(here)
        head = git(here, "rev-parse", "HEAD")
        _, found = gate("--base", "main", "--head", head, "--pr", "7", *slow, by=vendor.spec())
        (skill,) = found["skills"]
        numbers.append((skill["test_number"], skill["number_known"]))
        used.append(skill["report"]["runs"]["base"])
    assert numbers == [(1, True), (2, True), (3, True)]
    assert used == [10, 10, 0], "a text without a gain is compared with what is kept of the base"
    _, other = gate("--base", "main", "--head", head, "--pr", "8", *slow, by=vendor.spec())
    assert other["skills"][0]["test_number"] == 1, "another pull request"


def test_git_that_cannot_answer_ends_with_two_and_says_what_to_do(
    gate: Callable[..., Any], here: Path, tmp_path: Path, cli: Cli, target: str
) -> None:
    for arguments, said in (
        (("--base", "nowhere"), "nowhere"), (("--head", "f" * 40), "name a branch"), (("--base", ""), "main branch"),
        (("missing/path",), "missing/path"), (("--base=--output=x",), "--output=x"),
    ):  # fmt: skip
        code, found = gate(*arguments)
        assert (code, said in found["stopped"]) == (2, True), found["stopped"]
    git(here, "checkout", "-qb", "edit")
    write_skill(here / "skills/tone", NO)
    commit(here)
    (here / "more").write_text("x")
    commit(here)
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", "--no-single-branch", f"file://{here}", str(shallow))
    done = run_script(["gate", "--json", "--target", target, "--base", "origin/main", "--store", "s.db"], shallow)
    assert (done.returncode, "fetch-depth: 0" in json.loads(done.stdout)["stopped"]) == (2, True)
    git(here, "checkout", "-q", "main")
    code, found = gate()
    assert (code, found["skills"], found["stopped"]) == (0, [], ""), "no skill differs: the status exists"
    done = cli("gate", store=tmp_path / "none.db")
    assert (done.returncode, done.stdout) == (0, "No skill differs.\n"), "and no target is needed"


@pytest.mark.parametrize("head", ["worktree", "HEAD"])
def test_no_filter_hook_or_attribute_of_a_repository_runs(
    gate: Callable[..., Any], here: Path, tmp_path: Path, head: str
) -> None:
    ran = tmp_path / "ran"
    (here / ".gitattributes").write_text("* filter=evil diff=evil merge=evil text eol=crlf ident export-subst\n")
    write_skill(here / "skills/tone", NO)
    for hook in ("post-checkout", "post-index-change", "pre-commit", "reference-transaction"):
        (here / ".git/hooks" / hook).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (here / ".git/hooks" / hook).chmod(0o755)
    git(here, "-c", "core.hooksPath=/dev/null", "add", "-A")
    git(here, "-c", "core.hooksPath=/dev/null", "commit", "-qm", "edit")
    for name in ("filter.evil.clean", "filter.evil.smudge", "diff.evil.textconv", "diff.evil.command", "diff.external"):
        git(here, "config", name, f"touch {ran}; cat")
    git(here, "config", "filter.evil.process", f"touch {ran}")
    git(here, "config", "core.fsmonitor", f"touch {ran}")
    for path in (here / "skills/tone").rglob("*.*"):
        if path.is_file():
            os.utime(path)
    code, found = gate("--base", "HEAD~1", "--head", head)
    assert (code, found["skills"][0]["verdict"], ran.exists()) == (1, "worse", False), found


def test_two_jobs_on_one_store_pay_each_attempt_once(here: Path, vendor: Vendor, tmp_path: Path) -> None:
    write_skill(here / "skills/tone", NO)
    words = [SCRIPT, "gate", "--json", "--yes", "--target", vendor.spec(), "--store", str(tmp_path / "store.db")]
    jobs = [subprocess.Popen(words, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)]  # fmt: skip
    found = [json.loads(job.communicate(timeout=60)[0]) for job in jobs]
    assert [job.returncode for job in jobs] == [1, 1]
    assert found[0]["skills"][0]["report"]["test_id"] == found[1]["skills"][0]["report"]["test_id"]
    assert len(vendor.asked) == len(set(vendor.asked)) * len(vendor.asked) // len(set(vendor.asked))
    assert len(vendor.asked) == max(each["used"]["calls"] for each in found)


def test_tasks_from_elsewhere_claim_more_and_are_shown_by_id_alone(
    gate: Callable[..., Any], here: Path, cli: Cli, tmp_path: Path
) -> None:
    rows = [{"prompt": f"Held out about {name}: what colour?", "id": f"held-{name}", "tags": ["fruit"], "split": "test",
             "judge": {"kind": "exact", "expected": "yes"}} for name in FRUIT]  # fmt: skip
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    own = tmp_path / "elsewhere/tone"
    own.mkdir(parents=True)
    (own / "SKILL.md").write_text("---\nname: tone\ndescription: d\n---\nSo.\n")
    other = tmp_path / "other.db"
    assert cli("tasks", "add", own, tmp_path / "rows.json", store=other).returncode == 0
    before = other.read_bytes()
    write_skill(here / "skills/tone", NO)
    for given in (tmp_path / "rows.json", other):
        code, found = gate("--tasks", given)
        (skill,) = found["skills"]
        assert (code, skill["claim"], skill["tasks"]["from"], skill["tasks"]["n"]) == (
            1, "on tasks like these", "given", 12,
        )  # fmt: skip
        assert not skill["report"]["on_cases"]
        assert all(each["id"].startswith("held-") and each["tags"] == ["fruit"] for each in skill["worse"])
        assert {each["old_answer"] for each in skill["worse"]} == {None}
        assert "Held out about" not in json.dumps(found)
    assert other.read_bytes() == before
    write_skill(here / "skills/second")
    code, found = gate("--tasks", tmp_path / "rows.json")
    assert (code, "name PATH" in found["stopped"]) == (2, True)


def test_a_tracked_skill_without_evals_is_tested_on_its_own_held_out_tasks(
    gate: Callable[..., Any], here: Path, cli: Cli, tmp_path: Path
) -> None:
    (here / "skills/tone/evals/promptfooconfig.yaml").unlink()
    commit(here)
    rows = [{"prompt": f"Held out about {name}: what colour?", "id": f"held-{name}", "split": "test",
             "judge": {"kind": "exact", "expected": "yes"}} for name in FRUIT]  # fmt: skip
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    added = cli("tasks", "add", "skills/tone", tmp_path / "rows.json", store=tmp_path / "store.db")
    assert added.returncode == 0, added.stderr
    with (here / "skills/tone/SKILL.md").open("w") as file:
        file.write(f"---\nname: tone\ndescription: d\n---\n{NO}\n")
    code, found = gate("--base", "HEAD", "--pr", "7")
    (skill,) = found["skills"]
    assert (code, skill["tasks"]["from"], skill["claim"]) == (1, "store", "on tasks like these")
    assert "Held out about" not in json.dumps(found)


def test_an_agent_learns_what_was_accepted_and_no_more(
    gate: Callable[..., Any], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    write_skill(here / "skills/tone", NO)
    code, found = gate()
    (skill,) = found["skills"]
    hidden = (skill["verdict"], skill["report"], skill["worse"], skill["claim"], found["used"]["calls"])
    assert (code, skill["outcome"], hidden) == (0, "neutral", (None, None, [], "", 0))


def test_the_row_of_a_gate_is_hidden_and_carries_no_promotion(
    gate: Callable[..., Any], here: Path, cli: Cli, tmp_path: Path
) -> None:
    write_skill(here / "skills/tone", NO)
    commit(here)
    write_skill(here / "skills/tone", YES)
    store = tmp_path / "store.db"
    code, found = gate("--base", "HEAD")
    assert (code, found["skills"][0]["outcome"]) == (0, "passed")
    test = found["skills"][0]["report"]["test_id"]
    shown = parsed(cli("show", test, "--json", store=store))
    candidate = shown["test"]["candidate_id"] if "test" in shown else shown["candidate_id"]
    assert parsed(cli("skills", "--json", store=store))["skills"] == []
    assert "sound" in cli("store", "verify", store=store).stdout
    for command in (("report", test), ("show", test), ("show", candidate), ("evaluate", candidate)):
        done = cli(*command, store=store)
        assert (done.returncode, "does not exist" in done.stderr + done.stdout) == (0, False), (command, done.stderr)
    assert cli("show", "tone", store=store).returncode == 1, "no skill of that name is tracked"
    before = (here / "skills/tone/SKILL.md").read_bytes()
    done = cli("promote", candidate, "--unproven", "--yes", store=store)
    assert done.returncode != 0
    assert "nothing is promoted there" in done.stdout + done.stderr
    assert (here / "skills/tone/SKILL.md").read_bytes() == before


def test_a_text_that_changes_next_to_a_broken_link_is_no_unchanged_skill(gate: Callable[..., Any], here: Path) -> None:
    (here / "skills/tone/home.md").symlink_to("/no/such/place")
    commit(here)
    write_skill(here / "skills/tone", NO)
    code, found = gate("--base", "HEAD")
    assert (code, outcomes(found)) == (2, {"skills/tone": ("changed", "not_run")})


def test_a_skill_of_the_same_name_elsewhere_is_tested_by_the_tasks_that_it_left(
    gate: Callable[..., Any], here: Path
) -> None:
    git(here, "rm", "-rq", "skills/tone")
    write_skill(here / "plugins/tone", f"{NO} {' '.join(FRUIT * 2)}", right="no")
    code, found = gate("--base", "HEAD")
    assert (code, outcomes(found)) == (1, {"plugins/tone": ("renamed", "failed")})
    assert found["skills"][0]["tasks"] == {"from": "base", "n": 10, "changed": True}


def test_many_long_skills_that_are_gone_and_new_are_compared_in_seconds(gate: Callable[..., Any], here: Path) -> None:
    write_skill(here / "skills/tone", f"{'a b ' * 2_000}{YES}")
    for n in range(40):
        write_skill(here / f"skills/old-{n}", f"{'a b ' * 2_000}{n}")
    commit(here)
    for n in range(40):
        git(here, "rm", "-rq", f"skills/old-{n}")
        write_skill(here / f"skills/new-{n}", f"{'b a ' * 2_000}{n}")
    started = time.monotonic()
    gate("--base", "HEAD", "--dry-run")
    assert time.monotonic() - started < 60


def test_a_name_with_a_line_break_writes_no_line_of_its_own(cli: Cli, here: Path, target: str, tmp_path: Path) -> None:
    write_skill(here / "skills/a\n::warning::any")
    commit(here)
    done = cli("gate", "--base", "HEAD~1", "--target", target, "--yes", store=tmp_path / "store.db")
    assert not [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("::")]
    assert "NOT RUN" in done.stdout
