"""Prompts: how many characters the optimizer is sent in a step, here, in an earlier build and in skillrl.

    PEERS_PYTHON=.../bin/python BEFORE_PYTHON=.../bin/python python benchmarks/prompts.py [--steps N] [--short] [--json]

PEERS_PYTHON names the interpreter of an environment with skillrl (see peers.py), BEFORE_PYTHON that of one with a wheel
of an earlier build; the two and this build take turns in one run, with the steps and the made-up model of peers.py: 40
attempts of 4 KB to reflect on. `short` is a skill of three lines, `long` one of 6,000 characters. Counted is all text
of the optimizer's prompts, system prompts among it, as a mean over the steps. `shared` is the share of it that a vendor
can read from its cache in the steps of the long skill: text up to a mark (`cache_control` of the Messages API) which
another prompt begins with, too; `shared_by_stage` says so of each kind of call.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.zero_model import BATCH, ZeroModel

LONG_CHARACTERS = 6_000
SYSTEMS = ("ours", "before", "skillrl")
VARIABLES = {"before": "BEFORE_PYTHON", "skillrl": "PEERS_PYTHON"}
TARGETS = {"short": "<= 1.1 of skillrl", "long": "<= 0.9 of skillrl", "shared": ">= 0.6"}
# The parts of a prompt in their order: each with its text, and whether a mark stands behind it.
Parts = list[tuple[str, bool]]


def lengthen(skill: str, n_characters: int) -> str:
    """Return a skill with further rules, until it has so many characters."""
    lines, n = [skill], 0
    while sum(map(len, lines)) < n_characters:
        n += 1
        lines.append(f"- Of an entry of kind {n}, read the column of amounts and name the line it is carried to.\n")
    return "".join(lines)


def record_ours(n_steps: int, n_characters: int, folder: Path) -> list[tuple[str, Parts]]:
    """Return the stage of each optimizer call of a run of the installed build, and its prompt as it would be sent."""
    ours = importlib.import_module("benchmarks.our_trainer")
    anthropic, prompts = (
        importlib.import_module(f"skillopt_mcp.backends.{name}") for name in ("anthropic", "api.prompts")
    )
    asked: list[tuple[str, Parts]] = []

    class Recorder(ours.ZeroBackend):  # type: ignore[misc, name-defined]
        async def complete(self, call: Any) -> Any:
            if call.role == "optimizer":
                body = anthropic.request_body(
                    prompts.prompt_of(call), anthropic.AnthropicOptions(model="zero"), structured=False
                )
                blocks = [*body["system"], *body["messages"][0]["content"]]
                asked.append((call.stage, [(block["text"], "cache_control" in block) for block in blocks]))
            return await super().complete(call)

    ours.train_ours(Recorder(ZeroModel()), n_steps, folder, lengthen(ours.SKILL, n_characters))
    return asked


def record_skillrl(n_steps: int, n_characters: int, folder: Path) -> list[tuple[str, Parts]]:
    """Return the same of a run of skillrl; its client has no marks."""
    peers = importlib.import_module("benchmarks.peer_trainers")
    asked: list[tuple[str, Parts]] = []

    class Recorder(peers.Client):  # type: ignore[misc, name-defined]
        def _chat(self, *, system: str, user: str, stage: str = "", **rest: object) -> Any:
            if stage != "rollout":
                asked.append((stage, [(system, False), (user, False)]))
            return super()._chat(system=system, user=user, stage=stage, **rest)

    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        peers.train_skillrl(Recorder(ZeroModel()), n_steps, folder, lengthen(peers.SKILL, n_characters))
    return asked


def share_by_stage(asked: list[tuple[str, Parts]]) -> dict[str, float]:
    """Return the share of the characters that lie in a marked prefix of two prompts or more; "" is all stages."""
    marked = [list(_find_prefixes(parts)) for _, parts in asked]
    counts = Counter(prefix for prefixes in marked for prefix in prefixes)
    common, total = Counter[str](), Counter[str]()
    for (stage, parts), prefixes in zip(asked, marked, strict=True):
        for name in ("", stage):
            common[name] += max((len(prefix) for prefix in prefixes if counts[prefix] > 1), default=0)
            total[name] += sum(len(text) for text, _ in parts)
    return {name: round(common[name] / n, 3) for name, n in total.items()}


def _find_prefixes(parts: Parts) -> Iterator[str]:
    prefix = ""
    for text, is_marked in parts:
        prefix += text
        if is_marked:
            yield prefix


def measure(system: str, n_steps: int, n_characters: int) -> dict[str, Any]:
    """Return the figures of a run of a system, in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Not next to the package: an interpreter is to find the build that is installed for it.
        shutil.copytree(Path(__file__).parent, folder / "path" / "benchmarks")
        root = Path(__file__).resolve().parents[1] if system == "ours" else folder / "path"
        done = subprocess.run(
            [os.environ[VARIABLES[system]] if system in VARIABLES else sys.executable, "-m", "benchmarks.prompts",
             "--run", system, "--steps", str(n_steps), "--characters", str(n_characters)],
            env={**os.environ, "PYTHONPATH": str(root)}, cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{system} ended with {done.returncode}:\n{done.stderr}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def run(system: str, n_steps: int, n_characters: int) -> dict[str, Any]:
    """Return the characters of a step in this process, the mean of all steps, and what of them is shared."""
    record = record_skillrl if system == "skillrl" else record_ours
    with tempfile.TemporaryDirectory() as folder:
        asked = record(n_steps, n_characters, Path(folder))
    by_stage: dict[str, int] = defaultdict(int)
    for stage, parts in asked:
        by_stage[stage] += sum(len(text) for text, _ in parts)
    return {"characters": round(sum(by_stage.values()) / n_steps), "shared": share_by_stage(asked)} | {
        "by_stage": {stage: round(n / n_steps) for stage, n in by_stage.items()}
    }


def main() -> int:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8, help="steps of a run")
    parser.add_argument("--short", action="store_true", help="runs of two steps")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--run", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--characters", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run(options.run, options.steps, options.characters)))
        return 0
    if unset := [name for name in VARIABLES.values() if not os.environ.get(name)]:
        parser.error(f"{unset[0]} is not set: see --help")
    n_steps = 2 if options.short else options.steps
    found = {
        name: {system: measure(system, n_steps, n_characters) for system in SYSTEMS}
        for name, n_characters in (("short", 0), ("long", LONG_CHARACTERS))
    }
    rows: dict[str, dict[str, Any]] = {
        name: {system: each["characters"] for system, each in systems.items()} for name, systems in found.items()
    }
    ours = ("ours", "before")
    rows["shared"] = {system: found["long"][system]["shared"][""] for system in ours}
    rows["shared_by_stage"] = {system: found["long"][system]["shared"] for system in ours}
    if options.json:
        print(json.dumps(rows))
        return 0
    print(f"{'':<8}{''.join(f'{system:>10}' for system in SYSTEMS)}{'ours':>12}{'before':>10}   (of skillrl)")
    for name in ("short", "long"):
        values = [rows[name][system] for system in SYSTEMS]
        ratios = [values[0] / values[2], values[1] / values[2]]
        cells = "".join(f"{value:>10,}" for value in values)
        print(f"{name:<8}{cells}{ratios[0]:>12.2f}{ratios[1]:>10.2f}   {TARGETS[name]}")
    shared = "".join(f"{share:>10}" for share in rows["shared"].values())
    print(f"{'shared':<8}{shared}{'':>32}   {TARGETS['shared']}")
    print(f"by kind of call: {json.dumps({s: found['long'][s]['shared'] for s in ours})}")
    print(f"by stage: {json.dumps({s: found['long'][s]['by_stage'] for s in SYSTEMS})}; {BATCH} attempts a step")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
