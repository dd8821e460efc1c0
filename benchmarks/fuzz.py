"""Fuzz: the document parser, the readers of transcripts and the inputs of the tools, with damaged and generated data.

    python benchmarks/fuzz.py [--seconds N] [--seed N] [--short] [--only TARGET ...] [--json]

Documents are read by `check`, transcripts by `tasks mine --sessions --dry-run`, tool inputs by a server. An input may
be refused; a traceback, an unknown exit code, or a server that ends is a crash.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from benchmarks import drawn_edits
from benchmarks.doors import StdioHost, add_tasks, command, ours, parser, show
from benchmarks.simulation import task_rows, write_skill

SEED = 3
N_AT_ONCE = 200
SLOWEST_S = 5.0
_TARGETS = ("documents", "transcripts", "tool inputs")
Target = Callable[[Random], int]
_YAML = (
    "a: b\n", "name: x\n", "description: |\n  d\n", "- ", "&a ", "*a", "!!python/object ", "{", "[", ": ", "'", '"',
    "\t", "? ", "<<: *a\n", "1:1:1\n", "\\U0001", "\x85", "\u2028", "\0", "#", "---\n", "...\n", "%YAML 1.1\n",
)  # fmt: skip
_TEXTS = (
    "", " ", "x", "ledger-clerk", "SKILL.md", "../x", "/etc/passwd", "\0", "\ufffe", "\u202e", "c-000000000000", "{",
    "trajectory:1", "r-0", "ledger-clerk@00000000", "append", "replace", "exact", "<!-- SLOW_UPDATE_START -->",
    "a" * 5_000,
)  # fmt: skip
_KEYS = (
    "op", "target", "content", "path", "prompt", "judge", "kind", "expected", "pattern", "judges", "weight", "files",
    "tags", "role", "name", "work_id", "answer", "split", "id", "schema", "fields", "rubric", "points", "min", "max",
    "\ufffe", "x",
)  # fmt: skip
_OPS = ("append", "insert_after", "replace", "delete", "set_description")
_JUDGES = (
    "exact", "contains", "regex", "numeric", "f1", "json", "choice", "length", "command", "all", "weighted", "rubric",
)  # fmt: skip
_SHAPES: dict[str, tuple[str, ...]] = {
    "edits": ("op", "target", "content", "path"),
    "tasks": ("prompt", "judge", "id", "split", "tags", "files"),
    "messages": ("role", "content", "name"),
    "replies": ("work_id", "answer", "messages"),
}
_SHARE = {"file": 0.1, "cursor": 0.2}
_NAMED: dict[str, tuple[str, ...]] = {"op": _OPS, "kind": _JUDGES, "split": ("train", "val", "test")}
_LINES = (
    '{"type":"user","cwd":"/p","message":{"role":"user","content":"do it"}}',
    '{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"done"}]}}',
    '{"type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"Skill","input":{"skill":"ledger-clerk"}}]}}',
    '{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}}',
    '{"type":"user","cwd":"/p","message":{"role":"user","content":"no, round it to cents"}}',
    '{"type":"session_meta","payload":{"id":"x","cwd":"/p"}}',
    '{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"UserMessage","content":[{"type":"text","text":"do"}]}}}',
    '{"type":"response_item","payload":{"type":"function_call","name":"exec_command","arguments":"{}","call_id":"c"}}',
    '{"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"SKILL.md"}}',
    '{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}}',
)  # fmt: skip


class Doors:
    """What every target works on: a folder, a store, and a server on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store, self.skill = folder, folder / "skillopt.db", write_skill(folder, SEED)
        add_tasks(self.store, self.skill, task_rows(12, SEED))
        self.errors = (folder / "stderr").open("wb")
        self.host = self.server()
        listed = json.loads(self.host.request("tools/list", {}))["result"]["tools"]
        self.tools = [tool for tool in listed if tool["name"] != "evaluate_candidate"]

    def server(self) -> StdioHost:
        """Return a new server."""
        return StdioHost(ours(self.store, "--optimizer", f"simulated:honest,seed={SEED}"), self.folder, self.errors)

    def documents(self, chance: Random) -> int:
        """Check many damaged skills, and return how many."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            for n in range(N_AT_ONCE):
                content = _damaged(chance, drawn_edits.document(chance))
                if chance.random() < 0.3:
                    content = b"---\n" + "".join(chance.choices(_YAML, k=chance.randint(1, 12))).encode() + content
                skill = Path(folder) / f"s{n}"
                skill.mkdir()
                (skill / "SKILL.md").write_bytes(content)
            self._run("check", folder)
        return N_AT_ONCE

    def transcripts(self, chance: Random) -> int:
        """Read many sessions, some of whose lines are damaged, and return how many."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            for n in range(N_AT_ONCE):
                lines = [_damaged(chance, line.encode()) for line in chance.choices(_LINES, k=chance.randint(1, 12))]
                (Path(folder) / f"{n}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
            backend = f"simulated:honest,seed={SEED}"
            self._run("tasks", "mine", str(self.skill), "--sessions", folder, "--dry-run", "--optimizer", backend)
        return N_AT_ONCE

    def tool_inputs(self, chance: Random) -> int:
        """Call a tool with arguments of any shape, as a host would, now and then on a damaged skill."""
        tool = chance.choice(self.tools)
        properties = tool["inputSchema"]["properties"]
        names = [*properties, *chance.sample(_KEYS, 1)]
        arguments = {name: _argument(chance, name) for name in names if chance.random() < _SHARE.get(name, 0.8)}
        if "skill" in properties and chance.random() < 0.7:
            arguments["skill"] = "ledger-clerk"
        if chance.random() < 0.01:
            (self.skill / "SKILL.md").write_bytes(_damaged(chance, drawn_edits.document(chance)))
        try:
            answer = json.dumps(self.host.answer(tool["name"], arguments))
        except SystemExit as error:  # an error of the protocol
            answer = str(error)
        except EOFError:
            self.host = self.server()
            raise AssertionError("the server went away") from None
        self.errors.flush()
        said = (self.folder / "stderr").read_bytes()
        (self.folder / "stderr").write_bytes(b"")
        assert b"Traceback" not in said, said[-300:]
        assert "-32603" not in answer, answer[:300]
        return 1

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(command(self.store, *arguments), capture_output=True, check=False)
        assert done.returncode in (0, 1), done.returncode
        assert b"Traceback" not in done.stderr, done.stderr[-300:]


def _argument(chance: Random, name: str) -> object:
    """Return an argument, mostly of the shape that a tool wants under this name."""
    if chance.random() < 0.15:
        return _value(chance, 0)
    if name in _SHAPES:
        return [{key: _field(chance, key) for key in _SHAPES[name]} for _ in range(chance.randint(1, 3))]
    return chance.choice((0, 1, 3)) if name in ("index", "rollouts", "max_items", "max_chars") else _value(chance, 9)


def _field(chance: Random, key: str) -> object:
    if chance.random() < 0.15:
        return _value(chance, 1)
    if key == "judge":
        return {
            "kind": chance.choice(_JUDGES),
            chance.choice(_KEYS): _value(chance, 2),
            "expected": chance.choice(_TEXTS),
        }
    return chance.choice(_NAMED.get(key, _TEXTS))


def _value(chance: Random, depth: int) -> object:
    kind = chance.randrange(8 if depth < 4 else 5)
    if kind < 3 or depth > 8:
        return chance.choice(_TEXTS)
    if kind == 3:
        return chance.choice((0, 1, -1, 10**30, 0.5, 1e308, True, None))
    if kind == 4:
        return None
    if kind == 5:
        return [_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {chance.choice(_KEYS): _value(chance, depth + 1) for _ in range(chance.randrange(6))}


def _damaged(chance: Random, content: bytes) -> bytes:
    """Return bytes as they are, or cut, doubled, or with some of them changed."""
    kind = chance.randrange(6)
    if kind == 0 or not content:
        return content[: chance.randrange(len(content) + 1)]
    if kind == 1:
        at = chance.randrange(len(content))
        return content[:at] + content[at : at + chance.choice((1, 8, 64))] * chance.choice((2, 50)) + content[at:]
    if kind == 2:
        changed = bytearray(content)
        for _ in range(chance.randint(1, 8)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        return bytes(changed)
    return content


def fuzz(seconds: float, seed: int, only: Sequence[str] = ()) -> dict[str, dict[str, object]]:
    """Return per target how many inputs it had, and which of them it crashed on or took too long for.

    Each target has an equal share of the time. The n-th input of a target under a seed is always the same.
    """
    result: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as folder:
        doors = Doors(Path(folder).resolve())
        targets: tuple[Target, ...] = (doors.documents, doors.transcripts, doors.tool_inputs)
        chosen = {name: target for name, target in zip(_TARGETS, targets, strict=True) if name in only or not only}
        for name, target in chosen.items():
            n, crashes, until = 0, list[str](), time.monotonic() + seconds / len(chosen)
            while time.monotonic() < until:
                draw, started = f"{seed} {name} {n}", time.monotonic()
                try:
                    n += target(Random(draw))
                except AssertionError as error:
                    n += 1
                    crashes.append(f"'{draw}': {error}")
                if name == "tool inputs" and time.monotonic() - started > SLOWEST_S:
                    crashes.append(f"'{draw}': {time.monotonic() - started:.1f} s")
            result[name] = {"n": n, "crashes": len(crashes), "first": crashes[:5]}
        with doors.host:
            doors.errors.close()
    return result


def main() -> None:
    """Print the figures; exit with 1 after a crash."""
    flags = parser(__doc__, "6 seconds")
    flags.add_argument("--seconds", type=float, default=60)
    flags.add_argument("--seed", type=int, default=0)
    flags.add_argument("--only", nargs="+", choices=_TARGETS, default=(), help="these targets")
    options = flags.parse_args()
    result = fuzz(6 if options.short else options.seconds, options.seed, options.only)
    show(result, options.json)
    sys.exit(any(found["crashes"] for found in result.values()))


if __name__ == "__main__":
    main()
