"""Compare: `replay` of commit 8e7d645 and of this tree, by their console scripts, on one loopback vendor.

    python tests/differential/compare.py --build VENV     build the old wheel into an environment of its own
    SKILLOPT_OLD=VENV/bin/python python tests/differential/compare.py [CONFIG ...]

pinned.py applies to the old program what is meant to differ; all else has to be equal.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from columns import FLAGS, NEW, OLD

HERE = Path(__file__).resolve().parent
COMMON = "--slots 1 --yes --json --batch 6 --minibatch 4 --max-pairs 12"
EPOCH = "--epochs 1 --no-slow-update --no-meta-skill"
CONFIGS = {
    "patch": f"{EPOCH} --epochs 2",
    "fresh": f"{EPOCH} --gate fresh --metric mixed --schedule linear --seed 3",
    "paired_se": f"{EPOCH} --gate paired_se",
    "no_regression": f"{EPOCH} --gate no_regression --metric soft",
    "suggestions": f"{EPOCH} --update-mode rewrite_from_suggestions",
    "rewrites": f"{EPOCH} --update-mode full_rewrite_minibatch",
    "slow_meta": "--epochs 3 --slow-samples 6 --max-edits 2",
    "skill_aware": f"{EPOCH} --skill-aware --appendix-limit 3",
    "memory": f"{EPOCH} --memory CLAUDE.md",
    "accumulation": f"{EPOCH} --accumulation 2 --batch 3 --fan-in 2 --schedule autonomous",
    "contrasts": f"{EPOCH} --repeats 3 --failure-only --no-use-gate --no-step-buffer --seed 5",
    "rescue": f"{EPOCH} --rescue --max-edits 6 --limit-val 8",
}
RENAMED = {"--slots": "--concurrency", "--gate": "--search-gate", "--by-batch": "--batch-api"}
Rows = list[tuple[object, ...]]
Facts = dict[str, Rows]


class Side(NamedTuple):
    """One of the two programs: the words that start it, the queries of its store, and the folder that it works in."""

    name: str
    program: Sequence[str]
    queries: Mapping[str, str]
    folder: Path

    def run(self, *words: str, key: str = "none", run_ids: str = "") -> None:
        """Run a command. Raises RuntimeError where it does not exit with 0."""
        home = {"HOME": str(self.folder), "PATH": os.environ["PATH"], "OPENAI_API_KEY": key, "RUN_IDS": run_ids}
        if self.name == "new":
            words = tuple(RENAMED.get(word, word) for word in words)
        done = subprocess.run([*self.program, *words], cwd=self.folder, env=home, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{self.name}: {' '.join(words)}: exit code {done.returncode}: {done.stderr[-2000:]}")

    def prepare(self, shared: Path) -> None:
        """Make the skill and a store with its tasks, from which every config begins."""
        (self.folder / "skills/clerk").mkdir(parents=True)
        shutil.copy(shared / "SKILL.md", self.folder / "skills/clerk")
        (self.folder / "CLAUDE.md").write_text("# Notes\n\n- Be exact.\n")
        self.run("tasks", "add", "skills/clerk", str(shared / "tasks.jsonl"), "--store", "first/s.db")

    def replay(self, config: str, port: int, run_ids: str = "") -> Facts:
        """Return the facts of a config."""
        shutil.copytree(self.folder / "first", self.folder / config)
        backend, key = f"openai:m,api=chat,base_url=http://127.0.0.1:{port}/v1", f"{self.name}-{config}"
        flags = f"{COMMON} {CONFIGS[config]}" + ("" if config == "memory" else f" --out out-{config}")
        words = ["skills/clerk", "--store", f"{config}/s.db", "--target", backend, "--optimizer", backend]
        words += [FLAGS.get(word, word) if self.name == "new" else word for word in flags.split()]
        self.run("replay", *words, key=key, run_ids=run_ids)
        with closing(sqlite3.connect(self.folder / config / "s.db")) as store:
            facts: Facts = {fact: store.execute(query).fetchall() for fact, query in self.queries.items()}
        prompts = (self.folder.parent.parent / f"{key}.jsonl").read_text().splitlines()
        facts["prompt"] = [tuple(json.loads(prompt)) for prompt in prompts]
        facts["skill"] = [(best.read_text(),) for best in self.folder.glob(f"out-{config}/best_skill.md")]
        return facts


def differences(old_python: str, configs: Sequence[str] = tuple(CONFIGS)) -> list[str]:
    """Return what differs."""
    with tempfile.TemporaryDirectory() as scratch:
        # The name of the folder is part of what a memory file is called.
        old = Side("old", [old_python, str(HERE / "pinned.py")], OLD, Path(scratch, "old/project"))
        new = Side("new", [str(Path(sys.executable).with_name("skillopt-mcp"))], NEW, Path(scratch, "new/project"))
        world = subprocess.Popen([old_python, HERE / "world.py", scratch], stdout=subprocess.PIPE, text=True)
        assert world.stdout
        try:
            port = int(world.stdout.readline())

            def both(config: str) -> tuple[Facts, Facts]:
                after = new.replay(config, port)
                return old.replay(config, port, " ".join(str(row[0]) for row in after["run"])), after

            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda side: side.prepare(Path(scratch)), (old, new)))
                found = zip(configs, pool.map(both, configs), strict=True)
                return [
                    f"{config}: {fact}: {_first(rows, after[fact])}"
                    for config, (before, after) in found
                    for fact, rows in before.items()
                    if rows != after[fact]
                ]
        finally:
            world.terminate()
            world.communicate()


def _first(old: Rows, new: Rows) -> str:
    """Return the first difference of two lists of rows, short."""
    for n, (before, after) in enumerate(zip(old, new, strict=False)):
        for was, now in zip(map(str, before), map(str, after), strict=False):
            if was != now:
                at = slice(start := max(0, len(os.path.commonprefix([was, now])) - 40), start + 120)  # noqa: RUF071
                return f"row {n} of {len(old)}: {was[at]!r} became {now[at]!r}"
    return f"{len(old)} rows became {len(new)}"


def build(venv: Path) -> None:
    """Install the old commit's wheel, and what it needs, into a new environment."""
    with tempfile.TemporaryDirectory() as scratch:
        archive = subprocess.run(["git", "archive", "8e7d645"], cwd=HERE.parent.parent, check=True, capture_output=True)
        subprocess.run(["tar", "x", "-C", scratch], input=archive.stdout, check=True)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        pip = [str(venv / "bin/python"), "-m", "pip", "-q"]
        subprocess.run([*pip, "wheel", "--no-deps", "-w", f"{scratch}/wheel", scratch], check=True)
        subprocess.run([*pip, "install", *Path(scratch, "wheel").glob("*.whl")], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--build"]:
        build(Path(sys.argv[2]).resolve())
    else:
        found = differences(os.environ["SKILLOPT_OLD"], sys.argv[1:] or tuple(CONFIGS))
        print("\n".join(found) or "no difference")
        sys.exit(bool(found))
