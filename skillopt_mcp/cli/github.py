"""Pull requests: what an event of GitHub asks a gate to test, and where its verdict is posted.

The head is read as data: it is fetched, and never checked out. What a comment, a branch or the artifact of a fork's run
says is a stranger's: it names nothing that is run, and no pull request. The token goes into a header and into the
environment of `git fetch`, nowhere else.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2

from skillopt_mcp.core.errors import BadInput, SkillOptError
from skillopt_mcp.core.gating import Gated
from skillopt_mcp.core.limits import MIB
from skillopt_mcp.reports.pull_request import describe_gated, read_counts, render_comment
from skillopt_mcp.workspace.linting import run_git

_MAY_ASK = ("OWNER", "MEMBER", "COLLABORATOR")
_SHA, _TOKEN = re.compile("[0-9a-f]{40}"), re.compile("[!-~]{0,4096}")
_REFUSED = "<!-- skillopt-mcp gate refused -->"
_MAX_WAIT_S, _TIMEOUT_S, _FETCH_S, _MAX_PAGES, _PAGE, _MAX_ARTIFACT = 30, 20.0, 300.0, 100, 100, 8 * MIB
_NEEDS = {"issues": "pull-requests: write", "check-runs": "checks: write", "pulls": "pull-requests: read"}
# Git asks for a login where a repository is private: it reads this one in its environment.
_LOGIN = 'credential.helper=!f() { echo username=x-access-token; echo "password=$GITHUB_TOKEN"; }; f'
ReadMark = Callable[[str], dict[str, int] | None]


@dataclass(frozen=True)
class GateEvent:
    """What an event asks: the commits to test, for which pull request (`number`; None for a push), or why nothing.

    `counts` are the numbers of tests in the comment before; None where it was not read. `found` is known before a test:
    what the run of a fork reports, as its `source` says, or why nothing can run.
    """

    api: GithubApi
    base: str = ""
    head: str = ""
    number: int | None = None
    nothing: str = ""
    is_fork: bool = False
    counts: Mapping[str, int] | None = None
    found: Gated | None = None
    source: str = ""


class GithubApi:
    """GitHub's API for one repository, as GITHUB_* describe it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        token = environ.get("GITHUB_TOKEN", "")
        if not _TOKEN.fullmatch(token):
            raise BadInput("GITHUB_TOKEN has a character that no token has")
        self.repository = environ.get("GITHUB_REPOSITORY", "")
        self._author = environ.get("SKILLOPT_GATE_AUTHOR") or "github-actions[bot]"
        self._client = httpx2.Client(
            base_url=f"{environ.get('GITHUB_API_URL') or 'https://api.github.com'}/repos/{self.repository}/",
            headers={"Accept": "application/vnd.github+json", "Authorization": f"Bearer {token}"},
            timeout=_TIMEOUT_S,
        )

    def ask(self, method: str, path: str, body: Any = None, **query: str | int) -> Any:
        """Return the JSON of an answer, asked again once where that may help. Raises SkillOptError, in one line."""
        for is_last in (False, True):
            status, headers, problem = 0, httpx2.Headers(), ""
            try:
                response = self._client.request(method, path, json=body, params=query)
                status, headers = response.status_code, response.headers
                if response.is_success:
                    return response.json()
            except (httpx2.HTTPError, ValueError) as error:
                problem = f"no usable answer ({type(error).__name__})"
            is_limit = status == 429 or (status == 403 and headers.get("x-ratelimit-remaining") == "0")
            after = headers.get("retry-after", "") if is_limit else "2"
            # What may have been done already is not sent twice.
            may_help = is_limit or (method != "POST" and (status == 0 or status >= 500))
            if is_last or not may_help or not after.isdecimal() or int(after) > _MAX_WAIT_S:
                break
            time.sleep(int(after))
        if is_limit:
            problem = f"{status}, the rate limit is reached"
        elif status in (401, 403, 404):
            needs = next((right for name, right in _NEEDS.items() if path.startswith(name)), "contents: read")
            problem = f"{status}: the token needs the permission `{needs}`"
        raise SkillOptError(f"GitHub's API, {method} {path}: {problem or status}")

    def find_comment(self, number: int, read: ReadMark) -> tuple[tuple[str, str], dict[str, int]]:
        """How our comment on a pull request that can be `read` is updated, else how one is added; and what it holds."""
        for page in range(1, _MAX_PAGES + 1):
            comments = self.ask("GET", f"issues/{number}/comments", per_page=_PAGE, page=page)
            for each in comments if isinstance(comments, list) else ():
                held = read(each.get("body") or "")
                if held is not None and (each.get("user") or {}).get("login") == self._author:
                    return ("PATCH", f"issues/comments/{int(each['id'])}"), held
            if not comments:
                break
        return ("POST", f"issues/{number}/comments"), {}


def read_event(folder: Path, artifact: Path | None = None) -> GateEvent:
    """Return what the event of a GitHub workflow asks; its commits are in the repository of `folder` then.

    On workflow_run the `artifact` is what `gate --result` wrote in the run of a fork. Raises BadInput for an event that
    a gate cannot act on, SkillOptError where the API does not say what has to be known.
    """
    name, api = os.environ.get("GITHUB_EVENT_NAME", ""), GithubApi(os.environ)
    try:
        event = json.loads(Path(os.environ.get("GITHUB_EVENT_PATH", "")).read_bytes())
        if name == "workflow_run":
            return _read_artifact(api, event["workflow_run"], artifact)
        if name == "pull_request":
            pull = {"number": event.get("number"), **event["pull_request"]}
            of = pull["head"].get("repo", {"full_name": api.repository}) or {}  # null: the fork is gone
            found = replace(_of_pull(api, pull), is_fork=of.get("full_name") != api.repository)
        elif name == "issue_comment":
            found = _read_command(api, event)
        elif name == "merge_group":
            found = GateEvent(api, event["merge_group"]["base_sha"], event["merge_group"]["head_sha"])
        elif name == "push":  # the first one of a branch comes after no commit
            base = event["before"] if event["before"].strip("0") else f"origin/{event['repository']['default_branch']}"
            found = GateEvent(api, base, event["after"])
        else:
            raise BadInput(f"--github takes pull_request, issue_comment, workflow_run, push, merge_group, not {name!r}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"GITHUB_EVENT_PATH has no event {name!r} that can be read ({type(error).__name__})") from None
    if found.nothing:
        return found
    try:
        found = replace(found, base=_find_merge_base(folder, found))
    except SkillOptError as error:
        found = replace(found, found=Gated(base=found.base, head=found.head, stopped=str(error)))
    with suppress(SkillOptError):  # the number of a test is "at least" then
        found = replace(found, counts=api.find_comment(found.number, read_counts)[1] if found.number else None)
    return found


def publish(event: GateEvent, gated: Gated | None) -> list[str]:
    """Post a verdict as a comment and a check run, or why there is none; return what was not posted, a line each."""
    api, lines = event.api, []
    if event.is_fork:
        return ["nothing was posted: the token of a fork's run may only read; a workflow on workflow_run posts for it"]
    body = render_comment(gated, event.counts, event.source) if gated else f"{event.nothing}\n\n{_REFUSED}"
    try:
        if event.number and gated:
            at, counts = api.find_comment(event.number, read_counts)
            body = render_comment(gated, counts, event.source)
            if at[0] == "PATCH" or gated.skills or gated.stopped:
                api.ask(*at, {"body": body})
        elif event.number:
            at, _ = api.find_comment(event.number, lambda body: {} if body.endswith(_REFUSED) else None)
            api.ask(*at, {"body": body})
    except SkillOptError as error:
        lines.append(f"the comment was not posted: {error}")
    if gated is None:
        return lines
    is_sure = all(each.outcome == "passed" for each in gated.skills) and not event.source
    conclusion = ("success" if is_sure else "neutral", "failure", "action_required")[gated.exit_code]
    title = f"{'Reported by a fork: ' * bool(event.source)}{describe_gated(gated)[0]}"
    check = {"name": "skillopt-mcp gate", "head_sha": event.head, "status": "completed", "conclusion": conclusion}
    try:
        api.ask("POST", "check-runs", check | {"output": {"title": title, "summary": body}})
    except SkillOptError as error:
        lines.append(f"the check run was not posted: {error}")
    return lines


def _of_pull(api: GithubApi, pull: Any) -> GateEvent:
    base, head = pull["base"]["sha"], pull["head"]["sha"]
    if not (_SHA.fullmatch(base) and _SHA.fullmatch(head)):
        raise ValueError
    return GateEvent(api, base, head, int(pull["number"]))


def _read_command(api: GithubApi, event: Any) -> GateEvent:
    """Return what a comment `/gate SHA` asks: bound to this commit, as long as it is the head."""
    comment, issue = event["comment"], event["issue"]
    words = (comment["body"] or "").split()
    if event.get("action", "created") != "created" or "pull_request" not in issue or words[:1] != ["/gate"]:
        return GateEvent(api, nothing="No comment on a pull request begins with /gate: nothing to do.")
    number, asked = int(issue["number"]), "".join(words[1:])
    if comment["author_association"] not in _MAY_ASK:
        why = "Only an owner, a member or a collaborator of this repository can ask for a gate."
    elif not _SHA.fullmatch(asked):
        why = "Name the whole commit that you have looked at: `/gate` and its 40 digits."
    else:
        pull = api.ask("GET", f"pulls/{number}")
        found = _of_pull(api, pull)
        if pull.get("state", "open") == "open" and (found.head, found.number) == (asked, number):
            return found
        why = f"`{asked}` is not the head of an open pull request any more. Look at `{found.head}`, then ask again."
    return GateEvent(api, number=number, nothing=why)


def _read_artifact(api: GithubApi, run: Any, artifact: Path | None) -> GateEvent:
    """Return what the run of a fork found, which is believed where it is bad: it makes no success, and counts no test.

    Its pull request is the open one with the run's head, asked of the API.
    """
    head, of = run["head_sha"], run.get("head_repository") or {}
    if run.get("event", "pull_request") != "pull_request" or artifact is None:
        return GateEvent(api, nothing="The run was not of a pull request, or --artifact names no file: nothing to do.")
    pulls = []
    with suppress(SkillOptError, KeyError):
        branch = f"{of['owner']['login']}:{run['head_branch']}"
        pulls = api.ask("GET", "pulls", state="open", head=branch, per_page=_PAGE)
    pulls = pulls or api.ask("GET", f"commits/{head}/pulls")
    pulls = [each for each in pulls if each["head"]["sha"] == head and each.get("state", "open") == "open"]
    if len(pulls) != 1:
        return GateEvent(api, nothing=f"{len(pulls)} open pull requests have the head {head}: nothing was posted.")
    found = _of_pull(api, pulls[0])
    try:
        with artifact.open("rb") as file:
            gated = Gated.model_validate_json(file.read(_MAX_ARTIFACT))
        if gated.head != head:
            raise ValueError
    except (OSError, ValueError):  # one of pydantic is a ValueError
        gated = Gated(base=found.base, head=head, stopped="the run of the fork left no result of this commit")
    unsure = {"test_number": 1, "number_known": False}
    skills = [
        each.model_copy(update=unsure | ({"outcome": "neutral"} if each.outcome == "passed" else {}))
        for each in gated.skills
    ]
    believed = gated.model_copy(update={"base": found.base, "command": "", "skills": skills})
    return replace(found, found=believed, source="Reported by the run of a fork, not repeated here.")


def _find_merge_base(folder: Path, event: GateEvent) -> str:
    """Return where the head left the base; what is missing for that is fetched, as data, from `origin`."""
    fetch = ["git", "-c", "core.hooksPath=/dev/null", "-c", "credential.helper=", "-c", _LOGIN, "-C", str(folder)]
    fetch += ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environ |= {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "https:ssh:file"}
    wanted = [f"refs/pull/{event.number}/head" if event.number else event.head, event.base]
    for missing in ((), *(("origin", each) for each in wanted), ("--unshallow", "origin")):
        if missing:
            with suppress(subprocess.TimeoutExpired):
                subprocess.run([*fetch, *missing], env=environ, capture_output=True, timeout=_FETCH_S, check=False)
        found = run_git(folder, "merge-base", event.base, event.head)
        if found.returncode == 0:
            return found.stdout.decode().strip()
    raise SkillOptError(
        f"the commits {event.base} and {event.head} are not here with what they have in common: "
        "use actions/checkout with fetch-depth: 0"
    )
