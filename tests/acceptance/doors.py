"""Doors: the console script, an MCP client over stdio and the Python API, under names that outlive a redesign.

This is the only file of these tests that knows how commands, options, tools, fields and status words are called.
"""

from __future__ import annotations

import json
import os
import pty
import select
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import CallToolResult, ElicitResult, TextContent

import skillopt_mcp
from benchmarks.host_agent import Item, items_of
from skillopt_mcp.core.judging import Judge
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import Split, Task
from skillopt_mcp.tasks.judges.judging import parse_judge
from tests.acceptance.world import HARMFUL, KINDS, SKILL, TAUGHT, answer_work, greet, lesson, make_tasks
from tests.disk import MEMORY
from tests.processes import Script

SCRIPT = str(Path(sys.executable).with_name("skillopt-mcp"))
TIMEOUT_S = 120
# Commands by which a person agrees.
CONSENTING = ("promote", "rollback", "skills permit", "tasks judges add")
# Those that show a person what is held out.
SHOWING = ("show", "tasks list", "tasks check", "tasks export")
SETTINGS = {"search_gate": "gate"}
VERDICTS = {True: "better", False: "not better", None: None}
PROMOTED, ROLLED_BACK, TAKEN = "promoted", "rolled_back", "accepted"
ANSWER_FILE = "answer.md"


class ToolFailed(Exception):
    """A tool answered with an error, which is its text."""


class Facts(dict[str, Any]):
    """The fields of one answer; a name with dots goes down into it."""

    def __getitem__(self, name: str) -> Any:
        found: Any = self
        for part in name.split("."):
            found = dict.__getitem__(found, part)
        return found

    @property
    def verdict(self) -> str | None:
        """Return `better` or `not better`, or None where nothing was decided."""
        return VERDICTS[self["accepted"]]

    @property
    def solved(self) -> tuple[float, float]:
        """Return the shares of attempts at held-out tasks that were right before and after."""
        return self["test.solved.before"], self["test.solved.after"]

    @property
    def action(self) -> str:
        """Return the action of the next step."""
        return str(self["next_step.action"])


@dataclass(frozen=True)
class Done:
    """How a command ended: what it printed, and the fields of its JSON object where it printed one."""

    exit_code: int
    out: str
    err: str

    @property
    def facts(self) -> Facts:
        """Return the one JSON object that was printed, and nothing else."""
        [line] = self.out.splitlines()
        return Facts(json.loads(line))


@dataclass
class Workbench:
    """A skill folder in a project, a fresh store, and every way in that a user has."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    skill_name: str = "greeter"
    prepare: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        self._started: list[Script] = []
        self._terminals: list[int] = []
        self.store_path = self.folder / "store" / "skillopt.db"
        self.project = self.folder / "project"
        self.skill_path = self.make_skill(self.skill_name)
        self.environ = {
            **os.environ,
            "SKILLOPT_STORE": str(self.store_path),
            "SKILLOPT_WORK": str(self.folder / "work"),
            "OPENAI_API_KEY": "sk-" + "0" * 20,
            **self.environ,
        }

    @property
    def skill_file(self) -> Path:
        """Return the live file."""
        return self.skill_path / "SKILL.md"

    def make_skill(self, name: str, text: str = SKILL) -> Path:
        """Return a new skill folder in the project, where hosts look for skills."""
        folder = self.project / ".claude" / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(text.replace("NAME", name))
        return folder

    def add_tasks(self, n: int | Mapping[str, int] = 12, skill: Path | None = None) -> Facts:
        """Add as many tasks to each split, or as many as each split is given; nobody watches."""
        rows = make_tasks({"train": n, "val": n, "test": n} if isinstance(n, int) else n)
        return self.facts("tasks add", skill or self.skill_path, self.write_tasks(rows))

    def write_tasks(self, rows: Sequence[Mapping[str, Any]]) -> Path:
        """Return a file of these rows."""
        path = self.folder / "tasks.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    # The console script

    def words(self, command: str, *arguments: object, **options: Any) -> list[str]:
        """Return a command line: True is a switch, False or None leaves the option out, a list repeats it."""
        words = [SCRIPT, *command.split(), *map(str, arguments)]
        for name, value in options.items():
            flag = "--" + name.replace("_", "-")
            for each in value if isinstance(value, list) else [value]:
                if each is not None and each is not False:
                    words += [flag] if each is True else [flag, str(each)]
        return words

    def terminal_of(self, command: str) -> list[int]:
        """Return both ends of the terminal that a person sits at for a command, with nothing typed, or none."""
        if command not in (*CONSENTING, *SHOWING):
            return []
        ends = [*pty.openpty()]
        self._terminals += ends
        os.write(ends[0], b"\x04")
        return ends

    def run(self, command: str, *arguments: object, stdin: str = "", **options: Any) -> Done:
        """Return how a command ends in the project, whose output goes to a file."""
        words, ends = self.words(command, *arguments, **options), [] if stdin else self.terminal_of(command)
        if not ends:
            script = Script(words, self.project, self.environ, stdin=stdin, prepare=self.prepare)
            return Done(script.wait(TIMEOUT_S), script.out, script.err)
        name = os.ttyname(ends[1])
        with NamedTemporaryFile("r", dir=MEMORY) as out, NamedTemporaryFile("r", dir=MEMORY) as err:
            streams = [name, out.name, name if command in CONSENTING else err.name]
            code = Script(words, self.project, self.environ, streams, prepare=self.prepare).wait(TIMEOUT_S)
            said = b""
            while select.select(ends[:1], [], [], 0)[0]:
                said += os.read(ends[0], 65536)
            return Done(code, out.read(), f"{said.decode()}{err.read()}")

    def facts(self, command: str, *arguments: object, exit_code: int = 0, **options: Any) -> Facts:
        """Return the JSON object of a command that ends with this exit code."""
        done = self.run(command, *arguments, json=True, **options)
        assert done.exit_code == exit_code, done
        return done.facts

    def start(self, command: str, *arguments: object, **options: Any) -> Script:
        """Return a command that was just started, in a process group of its own."""
        ends = self.terminal_of(command)
        streams = [os.ttyname(ends[1]), os.devnull, os.ttyname(ends[1])] if ends else []
        words = self.words(command, *arguments, **options)
        script = Script(words, self.project, self.environ, streams, prepare=self.prepare)
        self._started.append(script)
        return script

    def close(self) -> None:
        """End what was started and still runs."""
        for script in self._started:
            if script.returncode is None:
                script.kill()
                script.wait()
        for each in self._terminals:
            os.close(each)
        self._terminals.clear()

    def at_terminal(
        self, command: str, *arguments: object, answer: str = "y\n", question: str = "[y/N]", **options: Any
    ) -> Done:
        """Return how a command ends at a terminal where a person types this at its first question."""
        ours, theirs = pty.openpty()
        words, environ = self.words(command, *arguments, **options), self.environ | {"TERM": "dumb"}
        script = Script(words, self.project, environ, [os.ttyname(theirs)] * 3)
        screen, is_answered = b"", False
        while ours in select.select([ours, script.sentinel], [], [], TIMEOUT_S)[0]:
            screen += os.read(ours, 65536)
            if not is_answered and question.encode() in screen:
                is_answered = True
                os.write(ours, answer.encode())
        code = script.wait(TIMEOUT_S)
        for descriptor in (ours, theirs):
            os.close(descriptor)
        return Done(code, screen.decode(), "")

    def replay(self, *, exit_code: int = 0, **options: Any) -> Facts:
        """Return the outcome of a run on this skill; one backend may serve as target and as optimizer."""
        return self.facts("replay", self.skill_path, exit_code=exit_code, yes=True, **options)

    def resume(self, *, exit_code: int = 0, **options: Any) -> Facts:
        """Return the outcome of the newest unfinished run of this skill, gone on with."""
        return self.facts("replay", self.skill_path, resume=True, exit_code=exit_code, yes=True, **options)

    def prove_best(self, run_id: str, **options: Any) -> Facts:
        """Return the promotion test of the best version of a run that stopped; its search does not go on."""
        return self.facts("evaluate", run_id, yes=True, **options)

    def tested(self, candidate_id: str) -> Facts:
        """Return all that a person sees of the newest promotion test of a candidate."""
        [test_id, *_] = self.facts("show", candidate_id)["candidate.tests"]
        return Facts(test=self.facts("show", test_id)["test.report"])

    # The Python API

    def train(
        self, tasks: Mapping[str, int] | Inn | None = None, config: Mapping[str, object] | None = None, **named: Any
    ) -> Facts:
        """Return the outcome of `train` on so many tasks of each split, or on those of the store."""
        environment = Inn(tasks) if isinstance(tasks, Mapping) else tasks
        settings = {SETTINGS.get(name, name): value for name, value in (config or {}).items()}
        return _fields(
            skillopt_mcp.train(self.skill_path, environment, config=settings, store=self.store_path, **named)
        )

    def evaluate(self, candidate_id: str, **named: Any) -> Facts:
        """Return the outcome of `evaluate`."""
        return _fields(skillopt_mcp.evaluate(candidate_id, store=self.store_path, **named))

    # The server

    @contextmanager
    def serve(self, *, agrees: bool | None = None, **options: Any) -> Iterator[Server]:
        """Yield a server over stdio; its client has a dialog where `agrees` is their answer."""
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            yield stack.enter_context(Server(self, portal, self.words("serve", **options), agrees))

    def end_leases(self) -> None:
        """Let all work that is in an agent's hands have been there for too long."""
        with closing(sqlite3.connect(self.store_path)) as store, store:
            store.execute("update lease set expires_at = 0 where state = 'out'")

    # Common beginnings

    def propose(self, server: Server, *lines: str, skill: Path | None = None) -> str:
        """Return the id of a candidate that appends these lines."""
        edits = [{"op": "append", "content": line} for line in lines]
        return str(server.tool("propose_edits", skill=str(skill or self.skill_path), edits=edits)["candidate_id"])

    def good_candidate(self, server: Server) -> str:
        """Return a candidate that solves every task, where the live version solves none."""
        return self.propose(server, *(lesson(kind) for kind in KINDS))

    def bad_candidate(self, server: Server) -> str:
        """Return a candidate that solves no task."""
        return self.propose(server, HARMFUL)

    def live_text(self) -> str:
        """Return the text of the live file."""
        return self.skill_file.read_text()


class Inn:
    """Tasks from a user's program, so many of each split."""

    name, version, task_types = "inn", "1", ("greeting",)

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes

    def tasks(self, split: Split) -> list[skillopt_mcp.NewTask]:
        """Return the tasks of a split."""
        rows = make_tasks({split: self._sizes.get(split, 0)})
        return [
            skillopt_mcp.NewTask(row["prompt"], self.judge(row["judge"]), row["id"], tags=self.task_types)
            for row in rows
        ]

    def judge(self, parameters: object) -> Judge:
        """Return the judge of a task."""
        return parse_judge(parameters)


class OwnInn(Inn):
    """A program that attempts and judges its tasks itself, by `answer(skill, prompt)`."""

    name = "own-inn"

    def __init__(self, sizes: Mapping[str, int], answer: Callable[[str, str], str]) -> None:
        super().__init__(sizes)
        self._answer = answer

    def judge(self, parameters: object) -> Judge:
        """Return that the program is the judge."""
        return parse_judge({"kind": "environment", "name": self.name})

    async def rollout(self, task: Task, files: SkillFiles, draw: str) -> skillopt_mcp.Rolled:
        """Return an attempt and its score."""
        answer = self._answer(files.text, task.prompt)
        is_right = answer == greet(TAUGHT, task.prompt)
        return skillopt_mcp.Rolled(answer, is_right, float(is_right), reason=f"wanted another word than {answer}")


class CallableBackend:
    """A user's own function `answer(text, schema)` as a backend; `schema` is None for an attempt at a task."""

    deferred, concurrency = False, 4

    def __init__(self, answer: Callable[[str, str | None], str], name: str = "own") -> None:
        self.name = self.fingerprint = name
        self._answer = answer

    async def complete(self, call: skillopt_mcp.Call) -> skillopt_mcp.Reply:
        """Return what the function answers."""
        request = call.request
        if isinstance(request, skillopt_mcp.Rollout):
            return skillopt_mcp.Reply(self._answer(f"{request.files.text}\n{request.task.prompt}", None))
        return skillopt_mcp.Reply(self._answer(f"{request.instructions}\n{request.evidence}", request.schema))

    def worst_case(self, call: skillopt_mcp.Call) -> skillopt_mcp.Usage:
        """Return the most that a call can use."""
        return skillopt_mcp.Usage(1000, 100, 0.0)


def _fields(outcome: Any) -> Facts:
    found = json.loads(outcome.model_dump_json())
    usage = found.get("usage", {})
    # What was sent for the run, and for the promotion test that it ended with.
    sent = {name: usage[name] + found["n_test_calls"] for name in ("n_sent", "n_answered") if name in usage}
    return Facts({**usage, **found, **sent})


class Server:
    """A server process and its client; `tool` calls, `kill` ends it as a crash would."""

    def __init__(self, bench: Workbench, portal: BlockingPortal, command: Sequence[str], agrees: bool | None) -> None:
        self._bench, self._portal, self._command, self._agrees = bench, portal, command, agrees
        self.questions: list[str] = []
        self._stack = ExitStack()

    async def asked(self, _context: Any, params: Any) -> ElicitResult:
        """Answer a dialog."""
        self.questions.append(params.message)
        content = dict.fromkeys(params.requested_schema["properties"], True) if self._agrees else None
        return ElicitResult(action="accept" if self._agrees else "decline", content=content)

    def __enter__(self) -> Self:
        # The client's process passes its streams on to the server, which is forked.
        folder = self._stack.enter_context(TemporaryDirectory(dir=MEMORY))
        pipes = [str(Path(folder, name)) for name in ("in", "out")]
        for pipe in pipes:
            os.mkfifo(pipe)
        log = str(self._bench.folder / "server.log")
        Path(log).touch()
        self._script = Script(self._command, self._bench.project, self._bench.environ, [*pipes, log])
        self._stack.callback(self._end)
        client = Client(
            StdioServerParameters(command="sh", args=["-c", 'cat <"$1" & exec cat >"$0"', *pipes]),
            elicitation_callback=None if self._agrees is None else self.asked,
        )
        self._client = self._stack.enter_context(self._portal.wrap_async_context_manager(client))
        return self

    def _end(self) -> None:
        with suppress(AssertionError):
            self._script.wait(5)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def tool(self, name: str, **arguments: object) -> Facts:
        """Return what a tool answers. Raises ToolFailed with its text where it is an error."""
        result: CallToolResult = self._portal.call(self._client.call_tool, name, arguments)
        if result.is_error:
            raise ToolFailed("".join(part.text for part in result.content if isinstance(part, TextContent)))
        assert result.structured_content is not None
        return Facts(result.structured_content)

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._script.kill()

    def is_gone(self) -> bool:
        """Return whether a call fails because the server has ended."""
        with suppress(MCPError):
            self.tool("list_skills")
            return False
        return True

    # The loop of a host

    def take(self, job_id: str, n: int = 16) -> list[Item]:
        """Return work that was handed out now."""
        return items_of(self.tool("submit_work", job_id=job_id, max_items=n)["work"])

    def hand_in(self, replies: Sequence[Mapping[str, object]]) -> list[str]:
        """Return the status of each receipt, and take no further work."""
        receipts = self.tool("submit_work", replies=list(replies), max_items=0)["receipts"]
        return [str(receipt["status"]) for receipt in receipts]

    def drive(self, started: Facts, answer: Callable[[Path], str] = answer_work, n_rounds: int = 400) -> Facts:
        """Do all work of a job by its folders, as the agents of a host, and return the job's result."""
        job_id, work, standing = started["job_id"], items_of(started["work"]), Facts()
        for _ in range(n_rounds):
            for item in work:
                folder = Path(item.folder)
                (folder / ANSWER_FILE).write_text(answer(folder))
            replies = [{"work_id": item.work_id} for item in work]
            standing = self.tool("submit_work", replies=replies, job_id=job_id, max_items=16)
            work = items_of(standing["work"])
            if standing["status"] not in ("work", "running"):
                break
            if not work:
                time.sleep(0.1)
        return Facts(standing.get("proposed") or standing.get("evaluated") or standing)

    def test_by_host(self, candidate_id: str, answer: Callable[[Path], str] = answer_work) -> Facts:
        """Return the end of a promotion test whose attempts are made by `answer`."""
        return self.drive(self.tool("evaluate_candidate", candidate_id=candidate_id), answer)
