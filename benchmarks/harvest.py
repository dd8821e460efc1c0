"""Harvest: how fast past sessions are read, in MB per CPU second, and how much memory that takes.

    python benchmarks/harvest.py [--mb N] [--json]

The sessions are generated with the proportions of real ones; a tenth of them opened the tracked skill.
"""

from __future__ import annotations

import json
import random
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.doors import parser, run, show

TARGET_MB_PER_S = 100.0
SHARE_WITH_SKILL = 0.1
_WORDS = [
    "read",
    "the",
    "file",
    "and",
    "change",
    "the",
    "call",
    "then",
    "run",
    "all",
    "tests",
    "again",
    "because",
    "of",
    "a",
    "rounding",
    "error",
    "in",
    "the",
    "sum",
]
_TURNS = 20


def _text(chance: random.Random, n: int) -> str:
    return " ".join(chance.choices(_WORDS, k=n))


def claude_lines(chance: random.Random, skill: Path | None) -> Iterator[dict[str, object]]:
    """Yield the lines of a session of Claude Code; in some turns the skill is opened."""
    base = {"isSidechain": False, "cwd": "/home/me/project", "sessionId": "s", "version": "2.1.329"}
    for turn in range(_TURNS):
        prompt = {"role": "user", "content": f"{turn}: {_text(chance, 30)}"}
        yield {**base, "type": "user", "message": prompt}
        yield {**base, "type": "attachment", "attachment": {"type": "prompt_snapshot", "text": _text(chance, 6_000)}}
        yield {"type": "api-request-blob", "hash": "0", "content": _text(chance, 4_000)}
        for step in range(8):
            path = skill / "SKILL.md" if skill and step == 0 and turn % 5 == 0 else Path(f"/home/me/project/{step}.py")
            call = {"type": "tool_use", "id": f"t{turn}-{step}", "name": "Read", "input": {"file_path": str(path)}}
            said = {"type": "text", "text": _text(chance, 40)}
            yield {**base, "type": "assistant", "message": {"role": "assistant", "content": [said, call]}}
            result = {"type": "tool_result", "tool_use_id": f"t{turn}-{step}", "content": _text(chance, 700)}
            yield {**base, "type": "user", "message": {"role": "user", "content": [result]}, "toolUseResult": result}


def codex_lines(chance: random.Random, skill: Path | None) -> Iterator[dict[str, object]]:
    """Yield the lines of a session of Codex; in some turns the skill is opened."""
    yield {"type": "session_meta", "payload": {"cwd": "/home/me/project", "base_instructions": _text(chance, 3_000)}}
    for turn in range(_TURNS):
        typed = {"type": "UserMessage", "content": [{"type": "text", "text": f"{turn}: {_text(chance, 30)}"}]}
        yield {"type": "event_msg", "payload": {"type": "item_completed", "item": typed}}
        for step in range(8):
            path = skill / "SKILL.md" if skill and step == 0 and turn % 5 == 0 else Path(f"{step}.py")
            arguments = json.dumps({"cmd": f"cat {path}"})
            called = {"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": f"{step}"}
            yield {"type": "response_item", "payload": called}
            output = {"type": "function_call_output", "call_id": f"{step}", "output": _text(chance, 700)}
            yield {"type": "response_item", "payload": output}
            yield {"type": "event_msg", "payload": {"type": "token_count", "info": {}, "text": _text(chance, 60)}}


def make_sessions(folder: Path, skill: Path, n_bytes: int, seed: int) -> tuple[int, int]:
    """Write sessions of at least `n_bytes` in all; return their bytes and the attempts with the skill in them."""
    chance = random.Random(seed)
    total = n_attempts = n = 0
    while total < n_bytes:
        used = skill if chance.random() < SHARE_WITH_SKILL else None
        lines = (claude_lines, codex_lines)[n % 2](chance, used)
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        (folder / f"session-{n}.jsonl").write_text(text)
        total += len(text)
        n_attempts += len(range(0, _TURNS, 5)) if used else 0
        n += 1
    return total, n_attempts


def measure(megabytes: int, seed: int) -> dict[str, float]:
    """Return MB/s of a harvest that stores, of one that finds everything known, and the memory that it took in MB."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        skill, sessions = place / "skills" / "testing", place / "sessions"
        for made in (skill, sessions):
            made.mkdir(parents=True)
        (skill / "SKILL.md").write_text("---\nname: testing\ndescription: Fix tests.\n---\n\nRead the error first.\n")
        n_bytes, n_attempts = make_sessions(sessions, skill, megabytes * 1_000_000, seed)
        store = place / "store.db"
        run(store, "skills", "track", str(skill))
        start_up_s = _timed(store, "harvest", str(skill))[0]
        times = []
        for options, expected in (
            (["--dry-run"], (n_attempts, 0)),
            ([], (n_attempts, 0)),
            (["--dry-run"], (0, n_attempts)),
        ):
            seconds, found = _timed(store, "harvest", str(sessions), *options)
            assert (found["recorded"], found["known"]) == expected, found
            times.append(seconds - start_up_s)
        peak_kb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    read, stored, again = (round(n_bytes / 1e6 / seconds, 1) for seconds in times)
    return {
        "mb": round(n_bytes / 1e6, 1),
        "attempts": n_attempts,
        "mb_per_s": read,
        "mb_per_s_storing": stored,
        "mb_per_s_known": again,
        "memory_mb": round(peak_kb / 1024, 1),
    }


def _timed(store: Path, *arguments: str) -> tuple[float, dict[str, object]]:
    """Return the CPU seconds of a command, and what it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    found = run(store, *arguments)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, found


def main() -> None:
    """Print the figures."""
    flags = parser(__doc__, "100 MB")
    flags.add_argument("--mb", type=int, default=300)
    flags.add_argument("--seed", type=int, default=1)
    options = flags.parse_args()
    show(measure(100 if options.short else options.mb, options.seed), options.json, mb_per_s=f"{TARGET_MB_PER_S:.0f}")


if __name__ == "__main__":
    main()
