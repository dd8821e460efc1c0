"""Fuzz: the document parser, the readers of transcripts and the inputs of the tools, fed with damaged and made-up data.

    python benchmarks/fuzz.py [--seconds N] [--seed N] [--only TARGET ...] [--json]

A target may refuse what it is given, in its own words. Anything else that it raises is a crash.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

from pydantic import ValidationError

from benchmarks import drawn_edits
from benchmarks.fault_children import SIMULATION, Shop
from skillopt_mcp.documents.frontmatter import read, set_description
from skillopt_mcp.documents.hunks import edits_between
from skillopt_mcp.documents.lint import lint
from skillopt_mcp.documents.spans import parse
from skillopt_mcp.errors import SkillOptError
from skillopt_mcp.guard.capabilities import findings
from skillopt_mcp.limits import MIB
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.server.tools import tools_over
from skillopt_mcp.transcripts.attempts import attempts

SLOWEST_S = 5.0
_TARGETS = ("documents", "transcripts", "tool inputs")
Target = Callable[[Random], object]
_YAML = (
    "a: b\n",
    "name: x\n",
    "description: |\n  d\n",
    "- ",
    "&a ",
    "*a",
    "!!python/object ",
    "{",
    "[",
    ": ",
    "'",
    '"',
    "\t",
    "? ",
    "<<: *a\n",
    "1:1:1\n",
    "\\U0001",
    "\x85",
    "\u2028",
    "\0",
    "#",
    "---\n",
    "...\n",
    "%YAML 1.1\n",
)
_TEXTS = (
    "",
    " ",
    "x",
    "ledger-clerk",
    "SKILL.md",
    "../x",
    "/etc/passwd",
    "\0",
    "\ud800",
    "\u202e",
    "c-000000000000",
    "{",
    "trajectory:1",
    "r-0",
    "ledger-clerk@00000000",
    "append",
    "replace",
    "exact",
    "<!-- SLOW_UPDATE_START -->",
    "a" * 5_000,
)
_KEYS = (
    "op",
    "target",
    "content",
    "path",
    "prompt",
    "judge",
    "kind",
    "expected",
    "pattern",
    "judges",
    "weight",
    "files",
    "tags",
    "role",
    "name",
    "work_id",
    "answer",
    "split",
    "id",
    "schema",
    "fields",
    "rubric",
    "min",
    "max",
    "\ud800",
    "x",
)
_OPS = ("append", "insert_after", "replace", "delete", "set_description")
_JUDGES = (
    "exact",
    "contains",
    "regex",
    "numeric",
    "f1",
    "json",
    "choice",
    "length",
    "command",
    "all",
    "weighted",
    "rubric",
)
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
    '{"type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"Skill","input":{"skill":"s"}}]}}',
    '{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}}',
    '{"type":"session_meta","payload":{"id":"x","cwd":"/p"}}',
    '{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"UserMessage","content":[{"type":"text","text":"do"}]}}}',
    '{"type":"response_item","payload":{"type":"function_call","name":"exec_command","arguments":"{}","call_id":"c"}}',
    '{"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"SKILL.md"}}',
    '{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}}',
)  # fmt: skip


def documents(chance: Random) -> None:
    """Read, lint, compare and guard two documents, and apply a patch to one."""
    first, second = (_damaged(chance, drawn_edits.document(chance)) for _ in range(2))
    if chance.random() < 0.3:
        first = b"---\n" + "".join(chance.choices(_YAML, k=chance.randint(1, 12))).encode() + b"---\n" + first
    for content in (first, second):
        spans = parse(content).spans
        assert b"".join(content[span.start : span.end] for span in spans) == content
        read(content)
        set_description(content, chance.choice(_TEXTS).replace("\ud800", ""))
    before, after = (SkillFiles((SkillFile(MAIN_FILE, _text(content)),)) for content in (first, second))
    lint(before, "x")
    findings(before, after)
    edits_between(before, after)
    assert not drawn_edits.changed_outside(before.main, drawn_edits.patch(chance, before.main))


def transcripts(chance: Random) -> None:
    """Read the lines of a session, some of them damaged."""
    lines = chance.choices(_LINES, k=chance.randint(1, 12))
    list(attempts([_damaged(chance, line.encode()) + b"\n" for line in lines]))


def tool_inputs(workspace: Workspace) -> Target:
    """Return what calls a tool with arguments of any shape, as a host would."""
    tools = [tool for tool in tools_over(workspace, Consent.APPROVED) if tool.name != "evaluate_candidate"]

    def call(chance: Random) -> None:
        tool = chance.choice(tools)
        names = [*tool.parameters["properties"], *chance.sample(_KEYS, 1)]
        arguments = {name: _argument(chance, name) for name in names if chance.random() < _SHARE.get(name, 0.8)}
        if "skill" in tool.parameters["properties"] and chance.random() < 0.7:
            arguments["skill"] = "ledger-clerk"
        if tool.name == "propose_edits":
            arguments.setdefault("edits", [])
        model = tool.fn_metadata.arg_model.model_validate(arguments)
        tool.fn(**model.model_dump_one_level())

    return call


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


def _text(content: bytes) -> bytes:
    return content.decode("utf-8", "replace").replace("\0", " ").encode()[:MIB]


@contextmanager
def targets() -> Iterator[dict[str, Target]]:
    """Yield the targets by name, with a store of their own."""
    with tempfile.TemporaryDirectory() as folder:
        shop = Shop(Path(folder).resolve())
        with Workspace(shop.store_path, optimizer=SIMULATION, project=shop.folder, environ={}) as workspace:
            yield dict(zip(_TARGETS, (documents, transcripts, tool_inputs(workspace)), strict=True))


def fuzz(seconds: float, seed: int, only: Sequence[str] = ()) -> dict[str, dict[str, object]]:
    """Return per target how many inputs it had, and which of them it crashed on or took too long for.

    Each target has an equal share of the time. The n-th input of a target under a seed is always the same.
    """
    result: dict[str, dict[str, object]] = {}
    with targets() as found:
        chosen = {name: target for name, target in found.items() if name in only or not only}
        for name, target in chosen.items():
            n, crashes, until = 0, list[str](), time.monotonic() + seconds / len(chosen)
            while time.monotonic() < until:
                started = time.process_time()
                if crash := _crash(target, f"{seed} {name} {n}"):
                    crashes.append(crash)
                elif time.process_time() - started > SLOWEST_S:
                    crashes.append(f"'{seed} {name} {n}': {time.process_time() - started:.1f} s")
                n += 1
            result[name] = {"n": n, "crashes": len(crashes), "told": crashes[:5]}
    return result


def _crash(target: Target, draw: str) -> str:
    try:
        target(Random(draw))
    except (SkillOptError, ValidationError):
        return ""
    except Exception as error:  # noqa: BLE001 (whatever else comes is what is looked for)
        return f"'{draw}': {type(error).__name__}: {str(error)[:200]}"
    return ""


def main() -> int:
    """Print the figures; return 1 after a crash."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=_TARGETS, default=(), help="these targets")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = fuzz(options.seconds, options.seed, options.only)
    if options.json:
        print(json.dumps(result))
    else:
        for name, found in result.items():
            print(f"{name}: {found['n']:,} inputs, {found['crashes']} crashes {found['told'] or ''}")
    return 1 if any(found["crashes"] for found in result.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
