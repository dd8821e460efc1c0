"""The GitHub Action and its workflows: their steps are read out of the files and run, over a repository of the test.

GITHUB_* is as a job has it, and the API is one on loopback. What others' actions do (checkout, cache) is not run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from console import SCRIPT

from skillopt_mcp.reports.pull_request import MAX_COMMENT
from tests.loopback_github import (
    TOKEN,
    LoopbackGithub,
    a_comment,
    a_pull,
    a_run,
    environ_of,
    serve_github,
)
from tests.readme import ROOT

EXAMPLE = ROOT / "examples/gate"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in (EXAMPLE / ".github/workflows").iterdir()}
OURS = "skillopt-mcp "
POLITE = "Thank you for writing to the ferry desk. The office looks at it. Fair winds, the ferry desk"


def steps_of(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The steps of the action, or of all jobs of a workflow."""
    for part in document["jobs"].values() if "jobs" in document else [document["runs"]]:
        yield from part["steps"]


def evaluate(expression: str, context: Mapping[str, Any]) -> Any:
    """The value of an expression of GitHub, as far as the action has such."""
    words = expression.replace("&&", " and ").replace("||", " or ")

    def read(found: re.Match[str]) -> str:
        value: Any = context
        for name in found[0].split("."):
            value = value.get(name, "") if isinstance(value, Mapping) else ""
        return repr(value)

    words = re.sub(r"\b(?:inputs|github|runner|steps|secrets)(?:\.[\w-]+)+", read, words)
    return eval(words, {"__builtins__": {}, "format": lambda text, *given: text.format(*given)})


def fill(value: object, context: Mapping[str, Any]) -> str:
    return re.sub(r"\$\{\{(.*?)\}\}", lambda found: str(evaluate(found[1].strip(), context) or ""), str(value))


@dataclass
class Job:
    """A runner: a checkout, a folder for temporary files, and a target that answers by a script."""

    github: LoopbackGithub
    checkout: Path
    temporary: Path
    target: str

    def run(self, name: str, event: Mapping[str, Any], **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run the steps of the action that are ours on an event, and return how the last one ended."""
        for each in self.temporary.glob("skillopt-gate*"):
            each.unlink()
        given = {name: fill(each.get("default", ""), {"github": {"token": TOKEN}})
                 for name, each in ACTION["inputs"].items()}  # fmt: skip
        given |= {"target": self.target, **{key.replace("_", "-"): value for key, value in inputs.items()}}
        context = {"inputs": given, "runner": {"temp": str(self.temporary)}, "github": {"event": event}}
        (step,) = [each for each in steps_of(ACTION) if each.get("run", "").startswith(OURS)]
        own = {key: fill(value, context) for key, value in step["env"].items()}
        return self.run_step(step["run"], environ_of(self.github, name, event, self.temporary) | own)

    def run_step(self, script: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        base = {
            "PATH": f"{Path(SCRIPT).parent}:{os.environ['PATH']}", "HOME": str(self.temporary), "LC_ALL": "C.UTF-8",
            "RUNNER_TEMP": str(self.temporary), "GITHUB_STEP_SUMMARY": str(self.temporary / "summary.md"),
        }  # fmt: skip
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=self.checkout, env={**base, **environ}, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip

    @property
    def found(self) -> dict[str, Any]:
        return json.loads((self.temporary / "skillopt-gate.json").read_text())


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


class Origin:
    """The example as a repository on GitHub: a main branch, and what a pull request makes of it."""

    def __init__(self, folder: Path) -> None:
        self.path, self.work = folder / "origin.git", folder / "work"
        git(folder, "init", "-q", "--bare", "-b", "main", str(self.path))
        shutil.copytree(EXAMPLE, self.work)
        git(self.work, "init", "-q", "-b", "main")
        git(self.work, "remote", "add", "origin", f"file://{self.path}")
        self.base = self.commit()
        git(self.work, "push", "-q", "origin", "main")
        git(self.work, "checkout", "-q", "-b", "better-tone")

    def commit(self) -> str:
        git(self.work, "add", "-A")
        git(self.work, "commit", "-q", "-m", "change")
        return git(self.work, "rev-parse", "HEAD")

    def propose(self, changes: Mapping[str, str]) -> str:
        """Write files, None to delete, and push the head of pull request 7; return its commit."""
        for path, text in changes.items():
            (self.work / path).parent.mkdir(parents=True, exist_ok=True)
            (self.work / path).write_text(text)
        head = self.commit()
        git(self.work, "push", "-q", "-f", "origin", "HEAD:refs/pull/7/head")
        return head

    def text_of(self, path: str) -> str:
        return (self.work / path).read_text()


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path)


@pytest.fixture
def job(origin: Origin, tmp_path: Path) -> Iterator[Job]:
    """A job with a checkout of the main branch, and a target that is polite where the skill says so."""
    script = tmp_path / "script.json"
    rules = [{"match": "End with", "reply": POLITE}, {"match": "", "reply": "no @everyone </details>"}]
    script.write_text(json.dumps({"rollout": rules}))
    git(tmp_path, "clone", "-q", f"file://{origin.path}", "checkout")
    (tmp_path / "runner").mkdir()
    with serve_github() as github:
        yield Job(github, tmp_path / "checkout", tmp_path / "runner", f"scripted:{script}")


TONE = "skills/tone/SKILL.md"
WORSE = "---\nname: tone\ndescription: Write replies to customers.\n---\n\nBe brief.\n"


def test_no_step_runs_what_an_event_says_and_each_of_ours_is_one_command() -> None:
    for name, document in {"action.yml": ACTION, **WORKFLOWS}.items():
        scripts = [step["run"] for step in steps_of(document) if "run" in step]
        assert not [each for each in scripts if "${{" in each], name
        ours = [each for each in scripts if OURS in each]
        assert all(each.startswith(OURS) and not re.search(r"[;&|\n]\s*\S", each.strip()) for each in ours), name
        assert all(step.get("shell") == "bash" for step in steps_of(document) if "run" in step) or "jobs" in document


def test_no_workflow_checks_out_the_head_with_rights_and_each_has_the_least() -> None:
    for name, workflow in WORKFLOWS.items():
        on = workflow[True]  # so YAML 1.1 reads "on"
        assert "pull_request_target" not in on, name
        assert "paths" not in json.dumps(on), name
        assert workflow["permissions"] == {}, name
        for part in workflow["jobs"].values():
            rights = part["permissions"]
            assert set(rights) <= {"contents", "pull-requests", "checks", "actions"}
            assert all(right == "read" for what, right in rights.items() if what in ("contents", "actions"))
            for step in part["steps"]:
                if "actions/checkout" in step.get("uses", ""):
                    assert step["with"] == {"fetch-depth": 0, "persist-credentials": False}, name
        has_secrets = "secrets." in (EXAMPLE / ".github/workflows" / name).read_text()
        assert has_secrets == (name in ("skills.yml", "skills-on-demand.yml")), name
    (forks,) = WORKFLOWS["skills-of-forks.yml"]["jobs"].values()
    assert forks["permissions"] == {"contents": "read"}


def test_the_action_declares_each_input_that_it_and_the_workflows_use() -> None:
    text = (ROOT / "action.yml").read_text()
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    for name, workflow in WORKFLOWS.items():
        used = [step for step in steps_of(workflow) if step.get("uses", "").startswith("skillopt-mcp/")]
        assert len(used) == 1, name
        assert set(used[0].get("with", {})) <= set(ACTION["inputs"]), name


@pytest.mark.parametrize(
    ("given", "is_asked"),
    [
        ({"recorded": "false"}, True),
        ({"recorded": "true"}, False),
        ({"recorded": "true", "spot": "3"}, True),
        ({"recorded": "false", "artifact": "x.json"}, False),
    ],
)
def test_a_target_is_named_where_one_is_to_be_asked(given: dict[str, str], is_asked: bool) -> None:
    (step,) = [each for each in steps_of(ACTION) if each.get("run", "").startswith(OURS)]
    inputs = {"target": "claude-code:haiku", "spot": "", "artifact": "", **given}
    assert fill(step["env"]["TARGET"], {"inputs": inputs}) == ("claude-code:haiku" if is_asked else "")


@pytest.mark.parametrize(
    ("versions", "code"),
    [
        (("2.1.332", ""), 0), (("", "0.171.0-alpha.1"), 0), (("latest", ""), 2), (("2", ""), 2),
        (("^2.1.0", ""), 2), (("2.1.0", "x; touch pwned"), 2), (("2.1.0\nlatest", ""), 2),
    ],
)  # fmt: skip
def test_a_host_is_installed_by_its_exact_version_and_printed(
    job: Job, tmp_path: Path, versions: tuple[str, str], code: int
) -> None:
    (step,) = [each for each in steps_of(ACTION) if "npm" in each.get("run", "")]
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("npm", "claude", "codex"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (programs / name).chmod(0o755)
    environ = {"CLAUDE_CODE": versions[0], "CODEX": versions[1], "PATH": f"{programs}:{os.environ['PATH']}"}
    done = job.run_step(step["run"], environ)
    assert done.returncode == code, done.stderr
    assert ("npm install --global" in done.stdout) == (code == 0)
    if code == 0:
        host = "claude" if versions[0] else "codex"
        assert done.stdout.endswith(f"{host} --version\n")
        assert f"@{versions[0] or versions[1]}" in done.stdout
    assert not (job.checkout / "pwned").exists()


def test_two_skills_one_worse_and_one_untestable_are_a_comment_a_check_and_files(job: Job, origin: Origin) -> None:
    bare = "---\nname: bare\ndescription: Answers about boats.\n---\n\nSay which boat.\n"
    head = origin.propose({TONE: WORSE, "skills/bare/SKILL.md": bare})
    event = {"pull_request": a_pull(origin.base, head)}
    done = job.run("pull_request", event)
    assert done.returncode == 1, done.stderr
    (comment,), (check,) = job.github.comments, job.github.checks
    assert comment["body"].startswith("**Worse on these cases**: the new text of <code>skills/tone</code> solves fewer")
    assert "(test 1 of this pull request)" in comment["body"].splitlines()[0]
    assert "<code>skills/bare</code>" in comment["body"]
    assert "Fair winds, the ferry desk" in comment["body"]
    assert (check["conclusion"], check["head_sha"]) == ("failure", head)
    assert (job.temporary / "summary.md").read_text().startswith("**Worse on these cases**")
    names = {each.get("name") for each in ET.parse(job.temporary / "skillopt-gate.xml").getroot()}
    assert names == {"skills/tone", "skills/bare"}
    assert "<html" in (job.temporary / "skillopt-gate.html").read_text()
    assert TOKEN not in done.stdout + done.stderr + json.dumps(job.github.comments)
    assert not list(job.checkout.glob("skills/bare"))
    calls = job.found["used"]["calls"]
    again = job.run("pull_request", event)
    assert again.returncode == 1, again.stderr
    assert job.found["used"]["calls"] == calls  # nothing is asked a second time
    assert len(job.github.comments) == 1
    assert "(test 1 of this pull request)" in job.github.comments[0]["body"].splitlines()[0]


def test_the_number_of_a_test_counts_on_where_the_cache_was_lost(job: Job, origin: Origin) -> None:
    for number in (1, 2, 3):
        head = origin.propose({TONE: f"{WORSE}Be {'very ' * number}brief.\n"})
        assert job.run("pull_request", {"pull_request": a_pull(origin.base, head)}).returncode == 1
        assert f"(test {number} of this pull request)" in job.github.comments[0]["body"].splitlines()[0]
        if number == 2:
            shutil.rmtree(job.temporary / "skillopt-mcp")
    job.github.faults = {"GET issues/7/comments": [(403, {})]}
    shutil.rmtree(job.temporary / "skillopt-mcp")
    job.run("pull_request", {"pull_request": a_pull(origin.base, head)})
    assert "at least test 1: this claim is for one test" in job.github.checks[-1]["output"]["summary"].splitlines()[0]


def test_a_head_that_edits_workflow_tasks_and_judge_is_tested_with_those_of_the_base(job: Job, origin: Origin) -> None:
    evals = "skills/tone/evals/promptfooconfig.yaml"
    always = (
        "prompts: [hi]\nproviders: [x]\ntests: [{description: a, vars: {}, assert: [{type: contains, value: no}]}]\n"
    )
    workflow = "on: [pull_request_target]\njobs: {}\n"
    head = origin.propose({TONE: WORSE, evals: always, ".github/workflows/skills-on-demand.yml": workflow})
    job.github.pulls = [a_pull(origin.base, head, fork=True)]
    done = job.run("issue_comment", a_comment(f"/gate {head}"))
    assert done.returncode == 1, done.stderr
    body = job.github.comments[0]["body"]
    assert body.startswith("**Worse on these cases**")
    assert "**This pull request changes its tasks**: those of the base decide." in body
    assert job.found["skills"][0]["tasks"]["n"] == 7
    assert origin.text_of(evals) != (job.checkout / evals).read_text()


def test_a_sha_that_moved_is_not_tested(job: Job, origin: Origin) -> None:
    looked_at = origin.propose({TONE: f"{WORSE}Be kind.\n"})
    moved = origin.propose({TONE: WORSE})
    job.github.pulls = [a_pull(origin.base, moved, fork=True)]
    done = job.run("issue_comment", a_comment(f"/gate {looked_at}"))
    assert done.returncode == 0
    assert not job.github.checks
    assert "is not the head of an open pull request any more" in job.github.comments[0]["body"]
    assert "is not the head" in (job.temporary / "summary.md").read_text()


def test_a_pull_request_without_a_skill_has_a_status_too(job: Job, origin: Origin) -> None:
    head = origin.propose({"notes.md": "Nothing of a skill.\n"})
    done = job.run("pull_request", {"pull_request": a_pull(origin.base, head)})
    assert done.returncode == 0, done.stderr
    assert (job.github.checks[0]["conclusion"], job.github.comments) == ("success", [])
    assert job.github.checks[0]["output"]["title"] == "No skill changed"
    assert all(path.startswith("/repos/harbour/ferry/") for _, path in job.github.requests)


def test_a_target_that_cannot_be_asked_is_not_called_worse(job: Job, origin: Origin, tmp_path: Path) -> None:
    head = origin.propose({TONE: WORSE})
    script = tmp_path / "broken.json"
    script.write_text(json.dumps({"rollout": [{"match": "", "reply": "the login has expired", "fault": "auth"}]}))
    done = job.run("pull_request", {"pull_request": a_pull(origin.base, head)}, target=f"scripted:{script}")
    assert done.returncode == 2, done.stderr
    assert (job.github.checks[0]["conclusion"], job.github.checks[0]["output"]["title"]) == (
        "action_required", "Could not run",
    )  # fmt: skip
    assert job.github.comments[0]["body"].startswith("**Could not run**")


@pytest.mark.parametrize("name", ["-e $(touch pwned);`touch pwned`", "**Better** @everyone <img src=x>"])
def test_a_hostile_name_and_answer_are_text(job: Job, origin: Origin, name: str) -> None:
    skill = f"skills/{name}"
    shutil.copytree(origin.work / "skills/tone", origin.work / skill)
    origin.base = origin.commit()
    git(origin.work, "push", "-q", "origin", "HEAD:main")
    head = origin.propose({f"{skill}/SKILL.md": WORSE})
    done = job.run("pull_request", {"pull_request": a_pull(origin.base, head)})
    assert done.returncode == 1, done.stderr
    body = job.github.comments[0]["body"]
    assert body.startswith("**Worse on these cases**")
    outside = re.sub(r"<code>.*?</code>|^(```+)(?!`).*?^\1$", "", body, flags=re.DOTALL | re.MULTILINE)
    assert "@" not in outside
    assert "img" not in outside
    assert outside.count("<details>") == outside.count("</details>")
    assert not list(job.checkout.rglob("pwned"))


def test_answers_of_a_megabyte_make_a_comment_that_github_takes(job: Job, origin: Origin, tmp_path: Path) -> None:
    script = tmp_path / "long.json"
    rules = [{"match": "End with", "reply": f"{POLITE}{'`' * 30}{'x' * 500_000}"}, {"match": "", "reply": "n" * 10**6}]
    script.write_text(json.dumps({"rollout": rules}))
    head = origin.propose({TONE: WORSE})
    done = job.run("pull_request", {"pull_request": a_pull(origin.base, head)}, target=f"scripted:{script}")
    assert done.returncode == 1, done.stderr
    assert 5_000 < len(job.github.comments[0]["body"]) <= MAX_COMMENT


def test_what_cannot_be_posted_is_a_line_and_no_failure_of_the_verdict(job: Job, origin: Origin) -> None:
    job.github.faults = {"POST issues/7/comments": [(403, {})], "POST check-runs": [(429, {"retry-after": "900"})]}
    head = origin.propose({TONE: f"{origin.text_of(TONE)}- Be kind.\n"})
    done = job.run("pull_request", {"pull_request": a_pull(origin.base, head)})
    assert done.returncode == 0, done.stderr
    assert job.found["skills"][0]["verdict"]
    assert "the comment was not posted" in done.stderr
    assert "the check run was not posted" in done.stderr


def test_the_run_of_a_fork_leaves_a_result_that_another_workflow_posts(job: Job, origin: Origin) -> None:
    head = origin.propose({TONE: WORSE})
    pull = a_pull(origin.base, head, fork=True)
    job.github.pulls = [pull]
    done = job.run("pull_request", {"pull_request": pull})
    assert done.returncode == 1, done.stderr
    assert "a workflow on workflow_run posts" in done.stderr
    assert not job.github.comments
    left = job.temporary / "fork.json"
    found = job.found
    found["skills"][0]["report"]["unanswered"] = [{"fault": "any", "base": 1, "candidate": 0, "reason": "any"}]
    left.write_text(json.dumps(found))
    posted = job.run("workflow_run", a_run(head), artifact=str(left))
    assert posted.returncode == 1, posted.stderr
    assert job.github.comments[0]["body"].startswith("Reported by the run of a fork, not repeated here. **Worse")
    assert job.github.checks[0]["head_sha"] == head
    assert job.github.checks[0]["output"]["title"] == "Reported by a fork: Worse on these cases"


def test_the_checks_of_the_workflow_for_forks_pass_on_the_example(job: Job) -> None:
    ours = [step["run"] for step in steps_of(WORKFLOWS["skills-of-forks.yml"]) if "run" in step]
    assert len(ours) == 3
    for script in ours:
        done = job.run_step(script, {"SKILLOPT_STORE": str(job.temporary / "store.db")})
        assert done.returncode == 0, done.stderr
    (job.checkout / "skills/units/evals/promptfooconfig.yaml").write_text(
        "prompts: 1\ntests: [{assert: [{type: x}]}]\n"
    )
    codes = [job.run_step(script, {"SKILLOPT_STORE": str(job.temporary / "store.db")}).returncode for script in ours]
    assert codes[1] != 0
    assert codes[2] == 0


def test_the_hooks_of_pre_commit_are_commands_that_there_are(job: Job) -> None:
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()):
        assert re.search(hook["files"], TONE)
        done = job.run_step(f"{hook['entry']} --help", {})
        assert done.returncode == 0, hook["id"]
    assert job.run_step(f"{yaml.safe_load((ROOT / '.pre-commit-hooks.yaml').read_text())[0]['entry']} {TONE}",
                        {"SKILLOPT_STORE": str(job.temporary / "s.db")}).returncode == 0  # fmt: skip


def test_a_name_that_is_no_text_costs_no_verdict(job: Job, origin: Origin) -> None:
    shutil.copytree(origin.work / "skills/tone", origin.work / os.fsdecode(b"skills/\xff\xfe"))
    head = origin.propose({TONE: WORSE})
    done = job.run("pull_request", {"pull_request": a_pull(origin.base, head)})
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert job.github.comments[0]["body"].startswith("**Worse on these cases**")
    assert job.found["skills"]


def test_a_fork_that_brings_evidence_is_checked_without_a_model(job: Job, origin: Origin) -> None:
    (origin.work / TONE).write_text(WORSE)
    command = f"skillopt-mcp gate --base {origin.base} --write-evidence --yes --target={job.target} || test $? = 1"
    written = job.run_step(f"cd {origin.work} && {{ {command}; }}", {"SKILLOPT_STORE": str(job.temporary / "own.db")})
    assert written.returncode == 0, written.stderr
    head = origin.propose({})
    pull = a_pull(origin.base, head, fork=True)
    job.github.pulls = [pull]
    done = job.run("pull_request", {"pull_request": pull}, recorded="true", target="openai:none")
    assert done.returncode == 1, done.stderr
    (skill,) = job.found["skills"]
    assert (skill["path"], skill["verdict"], job.found["used"]["calls"]) == ("skills/tone", "worse_here", 0)
    left = job.temporary / "fork.json"
    (job.temporary / "skillopt-gate.json").rename(left)
    job.run("workflow_run", a_run(head), artifact=str(left))
    assert job.github.comments[0]["body"].startswith(
        "Reported by the run of a fork, not repeated here. **Worse on these"
    )
    assert job.github.checks[0]["conclusion"] == "failure"
