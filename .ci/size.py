#!/usr/bin/env python3
"""Print how large the package is: lines and files by folder, short files, imports of its own, and words to replace.

python .ci/size.py
python .ci/size.py --check       also fails where the package grows back
python .ci/size.py --journeys    also the files that run in three commands (takes seconds)
"""

import ast
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

PACKAGE = "skillopt_mcp"
# What may not grow: a limit here goes down only.
LIMITS = {
    "lines of the package": 55_835,
    "class names that stand twice": 0,
    "modules with more than 24 own imports": 0,
    "helpers with one use and at most 12 lines": 259,
}
WORDS = frozenset(["told", "tells", "telling", "speaking", "hearing", "anew", "beside", "whoever"])
TRACER = """
import runpy, sys, threading
files = set()
def note(frame, event, argument):
    code = frame.f_code
    path = code.co_filename
    if event != "call" or "/skillopt_mcp/" not in path or not code.co_flags & 2 or path in files:
        return
    caller = frame.f_back
    while caller:  # what an import runs is not counted
        if caller.f_code.co_name == "<module>" and "/skillopt_mcp/" in caller.f_code.co_filename:
            return
        caller = caller.f_back
    files.add(path)
script, out, *arguments = sys.argv[1:]
sys.argv = [script, *arguments]
threading.setprofile(note); sys.setprofile(note)
try:
    runpy.run_path(script, run_name="__main__")
finally:
    sys.setprofile(None)
    open(out, "w").write("\\n".join(files))
"""


def listed(*paths: str, ends: tuple[str, ...] = (".py",)) -> list[Path]:
    """Return the files in git under paths."""
    names = subprocess.check_output(["git", "ls-files", "--", *paths], text=True).splitlines()
    return [Path(name) for name in names if name.endswith(ends) and Path(name).is_file()]


def n_lines(path: Path) -> int:
    return path.read_text().count("\n")


def sizes() -> None:
    """Print lines, files, imports and words."""
    lines, files, words = Counter[str](), Counter[str](), Counter[str]()
    imports, n_short, n_functions, n_long = [], 0, 0, 0
    for path in listed(PACKAGE):
        folder = path.parts[1] if len(path.parts) > 2 else "(top)"
        lines[folder] += n_lines(path)
        files[folder] += 1
        n_short += 0 < n_lines(path) < 60 and path.name != "__init__.py"
        nodes = list(ast.walk(ast.parse(path.read_text())))
        own = [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
        imports.append(len({name for name in own if name.startswith(PACKAGE)}))
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        n_functions += len(functions)
        n_long += sum((node.end_lineno or 0) - node.lineno >= 60 for node in functions)
    for folder, total in lines.most_common():
        print(f"{total:7,}  {files[folder]:4} files  {folder}")
    for path in listed(
        PACKAGE, "docs", "store", "README.md", "SECURITY.md", ends=(".py", ".md", ".sql", ".html", ".j2")
    ):
        words.update(word for word in re.findall("[a-z]+", path.read_text().lower()) if word in WORDS)
    print(f"\npackage: {lines.total():,} lines in {files.total()} files, {n_short} of them below 60 lines")
    print(f"functions: {n_functions:,}, {n_long} of them above 60 lines")
    print(f"own imports a file: mean {statistics.mean(imports):.1f}, most {max(imports)}")
    for folder in ("tests", "benchmarks", "store"):
        print(f"{folder}: {sum(map(n_lines, listed(folder, ends=('.py', '.sql')))):,} lines")
    print(f"README.md: {n_lines(Path('README.md'))} lines")
    print("words to replace: " + (", ".join(f"{word} {n}" for word, n in words.most_common()) or "none"))


def check() -> None:
    """Print what may not grow, and exit with 1 where a limit is passed."""
    trees = {path: ast.parse(path.read_text()) for path in listed(PACKAGE)}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    classes = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    named = Counter(function.name for function in functions)
    used = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    used.update(node.attr for node in nodes if isinstance(node, ast.Attribute))
    n_imports = [
        len(
            {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and (n.module or "").startswith(PACKAGE)}
        )
        for tree in trees.values()
    ]
    found = dict(zip(LIMITS, (
        sum(map(n_lines, trees)),
        sum(n > 1 for n in classes.values()),
        sum(n > 24 for n in n_imports),
        sum(
            named[each.name] == used[each.name] == 1 and (each.end_lineno or 0) - each.lineno < 12 for each in functions
        ),
    ), strict=True))  # fmt: skip
    for name, n in found.items():
        print(f"{name}: {n:,} of at most {LIMITS[name]:,}")
    if any(n > LIMITS[name] for name, n in found.items()):
        sys.exit("the package grows back: take out as much as you put in")


def journeys() -> None:
    """Print how many files run in three commands."""
    script = shutil.which("skillopt-mcp", path=os.path.dirname(sys.executable)) or sys.exit(
        "skillopt-mcp is not installed"
    )
    _, terminal = os.openpty()  # only a person at a terminal rolls back
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        skill = home / ".claude/skills/changelog"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text("---\nname: changelog\ndescription: Write changelog lines.\n---\n# Changelog\n")
        judge = {"kind": "exact", "expected": "1"}
        tasks = [json.dumps({"prompt": f"Say {n}", "judge": judge}) + "\n" for n in range(4)]
        (home / "tasks.jsonl").write_text("".join(tasks[:3]))
        (home / "one.jsonl").write_text(tasks[3])
        (home / "tracer.py").write_text(TRACER)
        env = {**os.environ, "HOME": name}

        def run(*argv: str) -> str:
            return subprocess.check_output(argv, env=env, cwd=name, text=True, stdin=terminal, stderr=terminal)

        def walk(*arguments: str) -> str:
            said = run(sys.executable, "tracer.py", script, "files", *arguments)
            print(f"{len((home / 'files').read_text().splitlines()):4} files run in {' '.join(arguments[:2])}")
            return said

        run(script, "--store", "s.db", "tasks", "add", str(skill), "tasks.jsonl")
        walk("tasks", "add", str(skill), "one.jsonl", "--store", "s.db")
        store = json.loads(walk("demo", "--json", "--dir", "demo"))["store_path"]
        walk("rollback", "ledger-clerk", "--yes", "--store", store)


if __name__ == "__main__":
    sizes()
    if "--check" in sys.argv:
        check()
    if "--journeys" in sys.argv:
        journeys()
