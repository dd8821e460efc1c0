"""Backend: one call answered by a command line in a private place; its faults, and how a person mends them."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from skillopt_mcp.backends.agents.arrival import CHECK_S, HostRequests, first_request, serve_host
from skillopt_mcp.backends.agents.events import AgentEvents
from skillopt_mcp.backends.agents.places import FolderPaths, private_place, sweep_places
from skillopt_mcp.backends.agents.working_copy import Unusable, lay_out
from skillopt_mcp.backends.api.faults import FIXES
from skillopt_mcp.backends.base import RETRYABLE, BackendFault, unusable_usage
from skillopt_mcp.backends.processes import MAX_OUTPUT_BYTES, Ended, Line, run
from skillopt_mcp.core.calls import Arrival, Call, Fault, Reply, Rollout, Usage
from skillopt_mcp.core.errors import BackendError
from skillopt_mcp.core.redacting import redact

MESSAGE_CHARACTERS = 300
_STATUS = re.compile(r"status:? (\d{3})\b|API Error: (\d{3})\b")
_AGAIN = re.compile(r"try again in (\d+(?:\.\d+)?) ?(ms|s)\b")
_BY_STATUS: dict[int, Fault] = {
    401: "auth", 402: "auth", 403: "auth", 404: "model_not_found", 408: "connection", 413: "context_too_long",
    429: "rate_limit", 503: "overloaded", 529: "overloaded",
}  # fmt: skip
# Tried in this order: words are nearer to the cause than a status.
_BY_WORDS: tuple[tuple[Fault, str], ...] = (
    ("auth", r"quota exceeded|insufficient_quota|credit balance|billing"),
    ("rate_limit", r"rate limit|usage limit|hit your limit|too many requests"),
    ("auth", r"not logged in|log ?in again|please run /login|sign in|missing environment variable|api key"),
    ("model_not_found", r"\bmodel\b.*(?:not exist|not found|no access|not supported|invalid)|selected model \("),
    ("overloaded", r"overloaded|at capacity|high demand"),
    ("context_too_long", r"context window|context length|too long|request too large"),
    ("truncated", r"max_output_tokens|output token maximum|maximum budget"),
    ("refusal", r"content_filter|usage policy|safeguards|safety|flagged|invalid_prompt|can't help with this"),
    ("unsupported", r"sandbox required|unknown option|unexpected argument|unrecognized|unsupported|effort|thinking"),
    ("malformed", r"failed to parse"),
    (
        "connection",
        r"request timed out|malformed response|connection (?:failed|refused|reset|error|closed|lost|timed out)"
        r"|disconnected|stream closed|socket hang up"
        r"|error sending request|fetch failed|network (?:error|is unreachable)|no internet|internet connection"
        r"|(?:can't|cannot|couldn't|could not|unable to) (?:reach|connect)|failed to lookup address|name resolution"
        r"|dns error|\b(?:ECONN[A-Z]+|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EPIPE|ENET[A-Z]+|EHOST[A-Z]+|\w*ERR_SOCKET\w*)\b",
    ),
)
_FIXES: dict[Fault, str] = {
    **FIXES,
    "connection": "check the network",
    "auth": "{login}",
    "model_not_found": "check the model's name in the spec, and that the account may use it",
    "unsupported": "{settings}",
    "truncated": "use a larger max_usd=DOLLARS where one is set, or ask for a shorter answer",
    "malformed": "check that nothing between the program and its model changes the answers",
    "empty": "use another model, or reword the task",
    "internal": "run it by hand to see more",
}


@dataclass(frozen=True, slots=True)
class Program:
    """The program, and what a person does about its account (`login`) and its options (`settings`)."""

    name: str
    login: str
    settings: str

    def fault(self, fault: Fault, what: str, usage: Usage | None = None) -> BackendFault:
        """Return the fault with a message of one line: who, what, and what to do."""
        text = " ".join(redact(what).split())
        text = text if len(text) <= MESSAGE_CHARACTERS else f"{text[: MESSAGE_CHARACTERS - 3]}..."
        fix = _FIXES[fault].format(login=self.login, settings=self.settings)
        found = _AGAIN.search(what)
        wait_s = float(found[1]) / (1000 if found[2] == "ms" else 1) if found else None
        return BackendFault(fault, f"{self.name}: {text.rstrip('.;')}; {fix}", wait_s, usage)


def fault_of(text: str, status: int | None = None) -> Fault:
    """Return the fault that a program's words describe, and the status that its model's server answered with."""
    found = next((fault for fault, words in _BY_WORDS if re.search(words, text, re.I)), None)
    if found:
        return found
    named = _STATUS.search(text)
    status = status or (int(named[1] or named[2]) if named else None)
    if status is None:
        return "internal"
    return _BY_STATUS.get(status) or ("server" if status >= 500 else "internal")


CONCURRENCY = 4
_VERSION_S = 30
_SAID_CHARACTERS = 250
NOT_LOADED = re.compile(r"failed to load skill\b.*", re.IGNORECASE)


class HostProgram(Protocol):
    """A command line: `skills_path` is where in a project it looks for skills; `mark` stands before the name of one in
    a prompt that has it pasted, and is empty where none does.

    `max_usage` is the most that it may use for a call, None without a limit: only money has one.
    """

    program: Program
    skills_path: str
    mark: str
    timeout: float
    max_usage: Usage | None

    def line(self, call: Call, place: FolderPaths, address: str = "") -> Line:
        """Return the command line for a call. Raises BackendFault when the user has no account that can be reached.

        With the `address` of a server of ours it has nothing of the person's: no login, no variable.
        """

    def arrival(self, ended: Ended, asked: HostRequests, folder: str, text: str) -> Arrival:
        """What came of a skill's text, by what the host asked of that server."""

    def record(self, place: FolderPaths) -> str:
        """The text that it kept of its work in a file of its own, empty where it keeps none."""

    def read(self, ended: Ended) -> AgentEvents:
        """Its work, by what it printed and kept."""

    def secrets(self) -> Mapping[str, str]:
        """Return the names of the secrets that it can reach, by value."""


class AgentBackend:
    """Answers calls by the command line of a host. Such calls are heavy: `concurrency` of them at once are enough."""

    deferred = False
    loads = True
    concurrency: int | None = CONCURRENCY

    def __init__(self, host: HostProgram, name: str, fingerprint: str) -> None:
        self._host = host
        self.name, self.fingerprint = name, fingerprint
        sweep_places()

    async def complete(self, call: Call) -> Reply:
        """Return the answer to one attempt at `call`. Raises BackendFault when the attempt failed."""
        host = self._host
        try:
            ended, skill = await self._run(call)
        except Unusable as reason:
            raise host.program.fault("internal", str(reason)) from None
        except OSError as error:
            raise host.program.fault("internal", f"it could not be run: {error}") from None
        events = host.read(ended)
        failure = _find_failure(ended, events, host)
        if failure:
            raise failure
        messages = events.transcript(skill, call.request) if isinstance(call.request, Rollout) else ()
        # A wrong count is as good as none: nothing of what was reserved is given back for it.
        usage = Usage(estimated=True) if unusable_usage(events.usage) else events.usage
        return Reply(events.answer or "", messages, usage, served=events.served)

    async def load(self, request: Rollout, *, by_prompt: bool) -> Arrival | None:
        """What comes of the request's skill in the host itself, asked by no model; None where there is no skill.

        It is opened by a tool, or `by_prompt` ("/name"), where all prompts do that.
        """
        host = self._host
        by_prompt = by_prompt and bool(host.mark)
        with private_place() as place:
            try:
                folder = lay_out(place, request, host.skills_path)
                if folder is None:
                    return None
                text = request.files.main.decode("utf-8", "replace")
                task = replace(request.task, prompt=f"/{folder} x" if by_prompt else "Use the skill.", files=())
                call = Call("target", "rollout", replace(request, task=task), "")
                with serve_host("" if by_prompt else folder, text, host.skills_path) as (address, asked):
                    running = asyncio.create_task(run(host.line(call, place, address), place, 2 * CHECK_S))
                    try:
                        is_asked = await first_request(asked, running)
                        ended = await running if is_asked or running.done() else None
                    finally:
                        running.cancel()
                        await asyncio.gather(running, return_exceptions=True)
            except Unusable as error:
                return Arrival("refused", str(error))
            except OSError as error:
                return Arrival("unchecked", f"the host could not be run: {error}")
            here = dict.fromkeys((os.path.realpath(place.work), str(place.work)), ".")
        if ended is None or ended.exit is None or (not is_asked and not (by_prompt and ended.exit == 0)):
            return Arrival("unchecked", f"the host asked nothing within {CHECK_S:.0f} s")
        found = host.arrival(ended, asked, folder, text)
        for old, new in here.items():
            found = found._replace(words=found.words.replace(old, new))
        return found

    def worst_case(self, call: Call) -> Usage | None:
        """Return the most that the program may use for a call, by its own account, None when nothing limits it."""
        return self._host.max_usage

    async def _run(self, call: Call) -> tuple[Ended, str | None]:
        """Run the command line: how it ended, and the name of the skill that it had, if any."""
        host, skill = self._host, None
        with private_place() as place:
            if isinstance(call.request, Rollout):
                skill = lay_out(place, call.request, host.skills_path)
            ended = await run(host.line(call, place), place, host.timeout)
            texts = [ended.output, ended.errors, host.record(place)]
            # Secrets are not kept, nor where the working copy happened to be.
            secrets = {value: f"${name}" for value, name in host.secrets().items()}
            here = dict.fromkeys((os.path.realpath(place.work), str(place.work)), ".")
        for old, new in {**here, **secrets}.items():
            texts = [text.replace(old, new) for text in texts]
        return Ended(ended.exit, *texts), skill


def _find_failure(ended: Ended, events: AgentEvents, host: HostProgram) -> BackendFault | None:
    program = host.program
    if ended.exit is None:
        return program.fault("timeout", f"no answer within {host.timeout:g} s", events.usage)
    if events.fault:
        return program.fault(events.fault, events.reason, events.usage)
    if not_loaded := NOT_LOADED.search(ended.errors):
        return program.fault("unsupported", not_loaded[0], events.usage)
    if events.answer is not None:
        if events.by_itself:
            what = f"it answered by itself, and asked no model: {redact(events.answer)[:_SAID_CHARACTERS]!r}"
            return program.fault("unsupported", f"{what}; reword a prompt that is a command of the program")
        return None if events.answer.strip() else program.fault("empty", "the answer is empty", events.usage)
    # Its output has no end.
    if ended.exit == 0 or len(ended.output) >= MAX_OUTPUT_BYTES // 2:
        return program.fault("malformed", f"its {len(ended.output):,} characters of output have no end")
    if ended.exit < 0:
        # What it ran may have brought that about, such as by taking all memory: an attempt has one chance.
        return program.fault("malformed", f"it was ended by signal {-ended.exit}")
    errors = ended.errors.strip()
    words = errors or ended.output.strip()
    fault = fault_of(words)
    if not errors and fault in RETRYABLE:
        # Its output quotes what it read: words in it are no reason to retry an attempt.
        fault = "internal"
    return program.fault(fault, f"exit code {ended.exit}: {redact(words)[-_SAID_CHARACTERS:]}")


def find_program(binary: str | None, default: str, install: str) -> tuple[str, str]:
    """Return the path and the version of a program. Raises BackendError when it is not there, or does not run."""
    path = shutil.which(os.path.expanduser(binary or default))
    if path is None:
        raise BackendError(f"the program '{binary or default}' is not found: {install}, or say binary=PATH in the spec")
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_VERSION_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BackendError(f"'{path} --version' failed ({type(error).__name__}): {install}") from None
    version = next((word for word in done.stdout.split() if word[:1].isdigit()), "unknown")
    return os.path.abspath(path), version
