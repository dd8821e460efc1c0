"""Mining: which tasks are found in planted sessions, with which labels, how fast, and in how much memory.

    python benchmarks/mining.py [--short] [--json] [--reactions FILE] [--hosts]

200 sessions have the shapes of files that Claude Code 2.1.332 and Codex 0.171.0 wrote: corrections, retries, several
skills, sub-agents, schedules, sessions without a person, work of our own, secrets. What the person says next comes
from a file of labelled messages; `--reactions` takes another one, {"text", "label"} a line. `seconds_without_model` and
`mb_per_s_planted` are those of these sessions, in which most tasks open a tracked skill; `mb_per_s` is that of as many
in which a tenth do, as of a person with one skill tracked, next to a loop of `json.loads` over the same files.
Of three repositories that are made with git, the commits are mined, too, and what is drafted of them is tried in git.
`--hosts` measures the way from two answers that a person corrected, one in the real Claude Code and one in Codex, to
the edit that they promote: tool calls of the session, runs of agents and seconds, with scripted models on loopback.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, cast

from benchmarks.doors import parser, run, show
from benchmarks.repositories import CHANGES, DESCRIPTIONS, PROGRAM, RELEASES, git, make_repositories
from skillopt_mcp.actions.commits import mine_commits
from skillopt_mcp.actions.mining import Mining, advance_mining, plan_mining
from skillopt_mcp.backends.programs import register_command
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core.calls import Call, Question
from skillopt_mcp.tasks.judges.checking import passes
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.workspace import Workspace

REACTIONS = Path(__file__).parents[1] / "tests" / "reactions" / "reactions.jsonl"
N_SESSIONS = 200
FULL_PADDING = 100_000  # characters of prompts and schemas that a host writes with each turn
SCORED = ("accepted", "rejected")
SKILLS = {
    "changelog-writer": ("Write changelog entries for pull requests.", "Write a changelog entry for pull request {n}."),
    "invoice-desk": (
        "Check invoices and their totals.",
        "Check invoice {n} of the supplier and say what it sums up to.",
    ),
    "release-notes": ("Draft release notes for customers.", "Draft the notes for release {n} that customers will get."),
    "": ("", "Rename the helper number {n} in the tooling folder and run everything."),
}
PLANTED, USUAL = [30, 25, 25, 20], [4, 3, 3, 90]  # how often a task is about each
_WORDS = [
    "read",
    "file",
    "change",
    "call",
    "then",
    "run",
    "because",
    "value",
    "sum",
    "list",
    "name",
    "row",
    "of",
    "a",
    "in",
]


@dataclass
class Planted:
    """A task that is planted: in which session, about which skill, what the person said next, and what comes of it."""

    session: str
    prompt: str
    skill: str
    label: str
    is_persons: bool = True


@dataclass
class Corpus:
    """What is planted, and the secrets in it."""

    planted: list[Planted] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    n_bytes: int = 0


class Writer:
    """Writes sessions: their lines have the fields that the hosts write."""

    def __init__(
        self, folder: Path, reactions: list[dict[str, str]], seed: int, weights: list[int], n_padding: int
    ) -> None:
        self.weights = weights
        self.folder, self.chance, self.n_padding = folder, random.Random(seed), n_padding
        shuffled = list(reactions)
        self.chance.shuffle(shuffled)
        self.next_reaction = cycle(shuffled)
        self.accepting = cycle([each["text"] for each in shuffled if each["label"] == "accepted"])
        self.corpus = Corpus()
        self.n = 0
        self.seconds = 1_700_000_000
        # As prompts, schemas of tools and sources are: short lines, with quotes, paths and marks.
        text = (" ".join(self.chance.choices(_WORDS, k=9)) for _ in range(400))
        self.filler = "\n".join(f'  {{"{line[:7]}": "{line}"}},  # C:\\{line[:3]} – {n}' for n, line in enumerate(text))

    def at(self) -> str:
        self.seconds += 20
        minutes, seconds = divmod(self.seconds, 60)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        return f"2026-{1 + days // 28 % 12:02}-{1 + days % 28:02}T{hours:02}:{minutes:02}:{seconds:02}.000Z"

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.chance.getrandbits(128), version=4))

    def secret(self) -> str:
        letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
        body = "".join(self.chance.choices(letters, k=36))
        made = self.chance.choice([f"ghp_{body}", f"sk-ant-api03-{body}{body}{body[:20]}AA", f"glpat-{body[:20]}"])
        self.corpus.secrets.append(made)
        return made

    def write(self, host: type[Claude | Codex]) -> None:
        """Write one session of a host, with tasks of a person, or of a schedule or program."""
        session = self.uuid()
        kind = self.chance.choices(["person", "program", "schedule", "own"], [80, 9, 8, 3])[0]
        made = host(self, session, kind == "program")
        for _ in range(self.chance.randint(1, 4)):
            self._task(made, kind)
        self.corpus.n_bytes += made.save()

    def _task(self, made: Claude | Codex, kind: str) -> None:
        self.n += 1
        skill = self.chance.choices(list(SKILLS), self.weights)[0]
        prompt = SKILLS[skill][1].format(n=10_000 + self.n)
        if self.chance.random() < 0.2:
            prompt += f" The token is {self.secret()}."
        if kind == "own":
            made.ask(prompt)
            made.own()
            made.say("The test runs.")
            self.corpus.planted.append(Planted(made.session, prompt, skill, "unknown", False))
            return
        is_scheduled = kind == "schedule" and isinstance(made, Claude) and self.chance.random() < 0.5
        made.ask(prompt, is_scheduled=is_scheduled)
        self._work(made, skill)
        made.say(f"Here is the first result for {self.n}.")
        is_persons = not is_scheduled and kind != "program"
        reaction = next(self.next_reaction) if is_persons else {"text": "Thank you.", "label": "accepted"}
        label = reaction["label"] if is_persons else "unknown"
        if not is_persons:
            self.corpus.planted.append(Planted(made.session, prompt, skill, label, False))
            return
        words = reaction["text"] + (
            f"\nit printed {self.secret()}" if label == "rejected" and self.chance.random() < 0.1 else ""
        )
        made.ask(words)
        self._work(made, "")
        made.say(f"Here is the second result for {self.n}.")
        if label == "rejected" and self.chance.random() < 0.4:
            made.ask(next(self.accepting))
            made.say("Good.")
            label = "accepted after rejected"
        self.corpus.planted.append(Planted(made.session, prompt, skill, label))

    def _work(self, made: Claude | Codex, skill: str) -> None:
        if skill and isinstance(made, Claude) and self.chance.random() < 0.25:
            made.delegate(str(self.folder / "skills" / skill))
        elif skill:
            made.open(str(self.folder / "skills" / skill))
        for n in range(self.chance.randint(1, 4)):
            text = self.filler[: self.chance.randint(200, 9_000)]
            made.call(f"python step_{n}.py", f"TOKEN={self.secret()}\n{text}" if self.chance.random() < 0.1 else text)


class Session(ABC):
    """Lines of a session before they are written."""

    def __init__(self, writer: Writer, session: str, is_programs: bool) -> None:
        self.writer, self.session, self.is_programs = writer, session, is_programs
        self.lines: list[dict[str, Any]] = []
        self.n_calls = 0
        self.begin()

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def path(self) -> Path: ...

    def save(self) -> int:
        path = self.path()
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in self.lines)
        path.write_text(text)
        return len(text)

    def padding(self) -> str:
        return self.writer.filler * max(1, self.writer.n_padding // len(self.writer.filler))


class Claude(Session):
    """A session of Claude Code, and those of its sub-agents."""

    def begin(self) -> None:
        self.project = "-home-me-project"
        self.lines += [
            {"type": "mode", "mode": "normal", "sessionId": self.session},
            {"type": "permission-mode", "permissionMode": "default", "sessionId": self.session},
        ]

    def path(self) -> Path:
        return self.writer.folder / "claude" / "projects" / self.project / f"{self.session}.jsonl"

    def line(self, kind: str, **more: Any) -> dict[str, Any]:
        entrypoint = "sdk-cli" if self.is_programs else "cli"
        ending = {"userType": "external", "entrypoint": entrypoint, "cwd": "/home/me/project"}
        ending |= {"sessionId": self.session, "version": "2.1.332", "gitBranch": "main"}
        front = {"parentUuid": self.writer.uuid(), "isSidechain": False}
        return front | more | {"type": kind, "uuid": self.writer.uuid(), "timestamp": self.writer.at()} | ending

    def ask(self, text: str, is_scheduled: bool = False) -> None:
        source: dict[str, Any] = {"origin": {"kind": "human"}, "promptSource": "typed", "turnOrigin": "human"}
        if self.is_programs:
            source = {"promptSource": "sdk", "turnOrigin": "sdk"}
        if is_scheduled:
            self.lines.append(self.line("system", subtype="scheduled_task_fire", prompt=text, isMeta=False))
            source = {"isMeta": True, "promptSource": "system", "wakeupSource": "schedule_wakeup"}
            source |= {"scheduledTaskId": self.writer.uuid()[:8], "turnOrigin": "scheduled"}
        self.lines.append(self.line("user", message={"role": "user", "content": text}, **source))
        listing = {"type": "skill_listing", "content": "".join(f"- {name}: SKILL.md\n" for name in SKILLS)}
        self.lines.append(self.line("attachment", attachment=listing))
        snapshot = {"type": "prompt_snapshot", "systemPrompt": [self.padding()]}
        self.lines.append(self.line("attachment", attachment=snapshot))
        shape = {"system": [{"type": "text", "text": self.padding()}]}
        self.lines.append({"type": "api-request-shape", "sessionId": self.session, "shape": shape})

    def say(self, text: str) -> None:
        self.assistant([{"type": "text", "text": text}])
        self.lines.append(self.line("system", subtype="turn_duration", durationMs=997, isMeta=False))
        self.lines.append({"type": "last-prompt", "lastPrompt": text, "sessionId": self.session})

    def assistant(self, blocks: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        message = {"type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": blocks}
        self.lines.append(self.line("assistant", message=message, **more))
        return self.lines[-1]

    def use(self, name: str, given: dict[str, Any], result: str, **more: Any) -> str:
        self.n_calls += 1
        call_id = f"toolu_{self.n_calls:08}"
        self.assistant([{"type": "tool_use", "id": call_id, "name": name, "input": given}])
        block = {"type": "tool_result", "tool_use_id": call_id, "content": result}
        self.lines.append(self.line("user", message={"role": "user", "content": [block]}, toolUseResult=result, **more))
        return call_id

    def call(self, command: str, result: str) -> None:
        self.use("Bash", {"command": command}, result)

    def open(self, folder: str) -> None:
        name = folder.rpartition("/")[2]
        call_id = self.use("Skill", {"skill": name}, f"Launching skill: {name}")
        text = [{"type": "text", "text": f"Base directory for this skill: {folder}\n\n# {name}\n"}]
        message = {"role": "user", "content": text}
        self.lines.append(self.line("user", message=message, isMeta=True, turnCompanion=True, sourceToolUseID=call_id))

    def delegate(self, folder: str) -> None:
        agent = self.writer.uuid().replace("-", "")[:17]
        self.use("Agent", {"description": "do it", "prompt": "Do it"}, f"agentId: {agent}")
        side = Claude(self.writer, self.session, self.is_programs)
        side.lines.clear()
        side.lines.append(side.line("user", message={"role": "user", "content": "Do it"}, agentId=agent))
        side.open(folder)
        side.say("Done.")
        for line in side.lines:
            line["isSidechain"] = True
        path = self.path().with_suffix("") / "subagents" / f"agent-{agent}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in side.lines))

    def own(self) -> None:
        self.use("mcp__skillopt__submit_work", {"replies": []}, "taken")


class Codex(Session):
    """A session of Codex."""

    def begin(self) -> None:
        source, originator = ("exec", "codex_exec") if self.is_programs else ("vscode", "codex-tui")
        meta = {"id": self.session, "cwd": "/home/me/project", "originator": originator, "source": source}
        self.line("session_meta", **meta, base_instructions={"text": self.padding()})

    def path(self) -> Path:
        name = f"rollout-2026-11-28T15-34-23-{self.session}.jsonl"
        return self.writer.folder / "codex" / "sessions" / "2026" / "11" / "28" / name

    def line(self, kind: str, **payload: Any) -> None:
        at, n = self.writer.at(), len(self.lines)
        self.lines.append({"timestamp": at, "ordinal": n, "type": kind, "payload": payload})

    def ask(self, text: str, is_scheduled: bool = False) -> None:
        self.line("event_msg", type="task_started", turn_id=self.writer.uuid())
        self.line("world_state", full=True, state={"text": self.padding()})
        self.line("turn_context", cwd="/home/me/project", model="gpt-5-codex")
        self.line("response_item", type="message", role="user", content=[{"type": "input_text", "text": text}])
        item = {"type": "UserMessage", "id": self.writer.uuid(), "content": [{"type": "text", "text": text}]}
        self.line("event_msg", type="item_completed", item=item)

    def say(self, text: str) -> None:
        item = {"type": "AgentMessage", "content": [{"type": "Text", "text": text}]}
        self.line("event_msg", type="item_completed", item=item)
        content = [{"type": "output_text", "text": text, "annotations": []}]
        self.line("response_item", type="message", role="assistant", content=content)
        self.line("event_msg", type="task_complete", last_agent_message=text)

    def call(self, command: str, result: str) -> None:
        self.n_calls += 1
        call_id = f"call_{self.n_calls:08}"
        arguments = json.dumps({"cmd": command})
        self.line("response_item", type="function_call", name="exec_command", arguments=arguments, call_id=call_id)
        output = f"Chunk ID: a\nWall time: 0.0000 seconds\nProcess exited with code 0\nOutput:\n{result}"
        self.line("response_item", type="function_call_output", call_id=call_id, output=output)
        self.line("event_msg", type="token_count", info={"total_token_usage": {"input_tokens": 12335}})

    def open(self, folder: str) -> None:
        self.call(f"cat {folder}/SKILL.md", "---\nname: x\n---\n# x\n")

    def own(self) -> None:
        self.n_calls += 1
        named = {"namespace": "mcp__skillopt", "name": "submit_work", "call_id": f"call_{self.n_calls:08}"}
        self.line("response_item", type="function_call", **named, arguments="{}")
        self.line("response_item", type="function_call_output", call_id=named["call_id"], output="taken")


def make_corpus(
    folder: Path, reactions: list[dict[str, str]], seed: int, n_padding: int, weights: list[int] = PLANTED
) -> Corpus:
    """Write the skills and the sessions."""
    for name, (description, _) in SKILLS.items():
        if name:
            (folder / "skills" / name).mkdir(parents=True)
            text = f"---\nname: {name}\ndescription: {description}\n---\n\n# {name}\n\nBe brief.\n"
            (folder / "skills" / name / "SKILL.md").write_text(text)
    writer = Writer(folder, reactions, seed, weights, n_padding)
    for n in range(N_SESSIONS):
        writer.write(Codex if n % 3 == 2 else Claude)
    return writer.corpus


_READ = """
import json, resource, sys, time
from pathlib import Path
from skillopt_mcp.actions.sessions import read_sessions, session_files
from skillopt_mcp.workspace.workspace import Workspace
with Workspace(Path(sys.argv[1]), project=Path(sys.argv[2])) as workspace:
    workspace.place.redactor, workspace.store.skills.list_skills()
    begun = time.process_time()
    found = read_sessions(workspace.store, workspace.place, session_files([Path(path) for path in sys.argv[3:]]))
    seconds = time.process_time() - begun
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(found.model_dump(mode="json") | {"seconds": seconds, "rss": peak}))
"""
_BARE = """
import json, sys, time
from skillopt_mcp.actions.sessions import session_files
from pathlib import Path
begun = time.process_time()
for path in session_files([Path(path) for path in sys.argv[1:]]):
    with open(path, "rb") as file:
        for line in file:
            json.loads(line)
print(json.dumps({"seconds": time.process_time() - begun}))
"""


def _without_token(prompt: str) -> str:
    return prompt.partition(" The token is ")[0]


def _child(code: str, *arguments: object) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)
    return dict(json.loads(done.stdout))


MARKS = ("{new}", "{gone}", "{fast}", "{safe}", "{cost}", "{look}", "{data}", "{team}")
ERRORS = ("passes all", "names its key", "knows one wording", "fails its own answer")
_SITUATION = re.compile(r"^## Subject (\d+): a rule.*?mark (\{\w+\})", re.MULTILINE | re.DOTALL)


def measure_drafting(seed: int) -> dict[str, float]:
    """Have 24 tasks drafted of eight rules by a drafter that errs in a third of its drafts, each time in one of ERRORS.

    One reply in 20 cannot be read. One draft in 50 expects a wrong mark and takes its own answer for right: only
    the other rules show that. `key_right` is the share of the tasks whose judge passes a right answer that the drafter
    never gave, `negatives_rejected` that of wrong answers (no mark, another's, nothing) that fail.
    """
    chance, known = random.Random(seed), dict[str, tuple[str, str]]()

    def draft(call: Call) -> str:
        tasks = []
        for number, mark in _SITUATION.findall(cast(Question, call.request).evidence):
            thing = f"{''.join(chance.sample('bdfklmnprst', 6))} pump {len(known) + 100}"
            error = chance.choice(ERRORS) if chance.random() < 1 / 3 else ""
            key = chance.choice(MARKS) if chance.random() < 0.02 else mark
            prompt = f"Write the line on the {thing}." + f" It ends with {key}." * (error == "names its key")
            known[prompt] = (thing, mark)
            answer = f"- The {thing} is done {key}"
            kind, expected = ("regex", [f"^{re.escape(answer)}$"]) if error == "knows one wording" else (
                "contains", [thing, key])  # fmt: skip
            if error == "passes all":
                kind, expected = "regex", [".*"]
            accepted = "- done" if error == "fails its own answer" else answer
            tasks.append({"number": int(number), "prompt": prompt, "kind": kind, "expected": expected,
                          "accepted": accepted, "rejected": f"- The {thing} is done"})  # fmt: skip
        return "?" if chance.random() < 0.05 else json.dumps({"tasks": tasks})

    with tempfile.TemporaryDirectory() as name:
        skill = Path(name, "skills", "line-marks")
        skill.mkdir(parents=True)
        rules = "\n".join(f"- End each line of kind {n} with the mark {mark}." for n, mark in enumerate(MARKS))
        (skill / "SKILL.md").write_text(f"---\nname: line-marks\ndescription: Lines.\n---\n{rules}\n")
        optimizer = Scripted(draft)
        with Workspace(Path(name, "store.db"), optimizer=optimizer) as lent:
            plan = plan_mining(lent.store, lent.place, str(skill), Mining())
            advance_mining(lent.store, lent.models, lent.place, plan, Wait())
            tasks = lent.store.tasks.list_in_use(plan.skill.id)
    right, wrong = 0, 0
    for task in tasks:
        thing, mark = known[task.prompt]
        right += passes(task.judge, f"Here it is: {thing} works again {mark}")
        others = [f"{thing} {MARKS[MARKS.index(mark) - 1]}", f"{thing} works again", ""]
        wrong += sum(not passes(task.judge, each) for each in others)
    return {
        "tasks_drafted": len(tasks), "key_right": round(right / len(tasks), 3),
        "negatives_rejected": round(wrong / len(tasks) / 3, 3), "model_calls": optimizer.n_calls,
    }  # fmt: skip


def measure_repositories() -> dict[str, int]:
    """Mine the commits of three repositories, and run the tests of those that became tasks in checkouts of their own.

    Of `releases` four sections can be drafted (the oldest of five is the example), of `changes` four commits, of
    `awkward` none. `failing_on_parent` counts the drafted commits whose tests fail on the files before,
    `passing_on_commit` those whose tests pass after it.
    """
    found: dict[str, int] = dict.fromkeys(("failing_on_parent", "passing_on_commit"), 0)
    with tempfile.TemporaryDirectory() as name, Workspace(Path(name, "store.db")) as lent:
        made, n_problems = make_repositories(Path(name, "repositories")), 0
        lent.store.commands.register(register_command("tests", PROGRAM))
        for repository, description in (("releases", RELEASES), ("changes", CHANGES), ("awkward", CHANGES)):
            skill = Path(name, "skills", f"of-{repository}")
            skill.mkdir(parents=True)
            front = f"---\nname: {skill.name}\ndescription: {DESCRIPTIONS[description]}\n---\n"
            (skill / "SKILL.md").write_text(f"{front}Do it well.\n")
            plan = plan_mining(lent.store, lent.place, str(skill), Mining(("repo",)))
            added = mine_commits(lent.store, lent.place, plan, made[repository], "tests")
            found[f"drafted_of_{repository}"] = added.added
            n_problems += added.n_rejected
            for draft in lent.store.tasks.list_drafts(plan.skill.id).values():
                kind, _, commit = draft.origin.partition(" ")
                if kind == "commit":
                    tree = Path(name, commit)
                    git(made[repository], "worktree", "add", "-q", "--detach", str(tree), commit)
                    tests = [sys.executable, "-B", "-m", "unittest", "discover", "-q", "-s", "tests", "-t", "."]
                    found["passing_on_commit"] += not subprocess.run(tests, cwd=tree, capture_output=True).returncode
                    git(tree, "checkout", "-q", "HEAD^", "--", "shop")
                    found["failing_on_parent"] += subprocess.run(tests, cwd=tree, capture_output=True).returncode > 0
    return found | {"repositories": len(made), "left_out_of_repositories": n_problems}


def measure(reactions: list[dict[str, str]], seed: int, n_padding: int) -> dict[str, float]:
    """Plant, read twice, and compare what was found with what was planted."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        corpus = make_corpus(folder, reactions, seed, n_padding)
        store = folder / "store.db"
        for each in filter(None, SKILLS):
            run(store, "skills", "track", str(folder / "skills" / each))
        hosts = [folder / "claude", folder / "codex"]
        usual = folder / "usual"
        make_corpus(usual, reactions, seed, FULL_PADDING, USUAL)
        for each in filter(None, SKILLS):
            run(usual / "store.db", "skills", "track", str(usual / "skills" / each))
        bare = _child(_BARE, usual / "claude", usual / "codex")
        usually = _child(_READ, usual / "store.db", usual, usual / "claude", usual / "codex")
        read = _child(_READ, store, folder, *hosts)
        again = _child(_READ, store, folder, *hosts)
        with sqlite3.connect(store) as opened:
            opened.execute("pragma wal_checkpoint(truncate)")
            sql = (
                "select session, prompt, iif(opened, skill.name, ''), label, rejected, correction"
                " from episode join skill on skill.id = skill_id"
            )
            rows = opened.execute(sql).fetchall()
        kept = b"".join(path.read_bytes() for path in folder.glob("store.db*") if path.is_file())
        leaks = sum(secret.encode() in kept for secret in corpus.secrets)
    found = {(session, _without_token(prompt)): rest for session, prompt, *rest in rows}
    persons = {(each.session, _without_token(each.prompt)): each for each in corpus.planted if each.is_persons}
    others = {(each.session, _without_token(each.prompt)) for each in corpus.planted if not each.is_persons}
    labelled = {where: row for where, row in found.items() if row[1] in SCORED}
    # Where a correction was accepted in the end, "rejected" is true of the first answer.
    right = sum(where in persons and row[1] in persons[where].label for where, row in labelled.items())
    due = [where for where, each in persons.items() if each.skill and each.label.partition(" ")[0] in SCORED]
    with_skill = [where for where in found if where in persons]
    attributed = sum(found[where][0] == persons[where].skill for where in with_skill)
    return {
        "sessions": N_SESSIONS,
        "episodes": len(found),
        "label_precision": round(right / max(1, len(labelled)), 3),
        "label_coverage": round(sum(where in labelled for where in due) / max(1, len(due)), 3),
        "skill_attribution": round(attributed / max(1, len(with_skill)), 3),
        "cron_kept": sum(where in found for where in others),
        "leaks": leaks,
        "seconds_without_model": round(read["seconds"], 2),
        "mb_per_s_planted": round(read["n_bytes"] / 1e6 / read["seconds"], 1),
        "mb": round(usually["n_bytes"] / 1e6, 1),
        "mb_per_s": round(usually["n_bytes"] / 1e6 / usually["seconds"], 1),
        "mb_per_s_json_loads": round(usually["n_bytes"] / 1e6 / bare["seconds"], 1),
        "rss_mb": round(max(read["rss"], usually["rss"]), 1),
        "read_again": again["n_bytes"],
        **measure_drafting(seed),
        **measure_repositories(),
    }


def main() -> None:
    """Print the figures."""
    flags = parser(__doc__, "50 MB")
    flags.add_argument("--reactions", type=Path, default=REACTIONS)
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--hosts", action="store_true", help="the way from two sessions to a promoted edit")
    options = flags.parse_args()
    if options.hosts:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "hosts"))
        # It is a file of a folder of tests, and needs what only those have installed.
        from test_from_sessions import MOST_CALLS, MOST_RUNS, promote_from_sessions  # noqa: PLC0415

        with tempfile.TemporaryDirectory() as name:
            took = promote_from_sessions(Path(name).resolve() / "user")[1]
        return show(took, options.json, tool_calls=str(MOST_CALLS), agent_runs=str(MOST_RUNS))
    reactions = [json.loads(line) for line in options.reactions.read_text("utf-8").splitlines() if line.strip()]
    figures = measure(reactions, options.seed, 20_000 if options.short else FULL_PADDING)
    targets = {"label_precision": ".95", "skill_attribution": ".95", "key_right": ".95", "negatives_rejected": ".9",
               "cron_kept": "0", "leaks": "0", "rss_mb": "150", "model_calls": "12"}  # fmt: skip
    return show(figures, options.json, **targets)


if __name__ == "__main__":
    main()
