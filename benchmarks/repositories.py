"""Repositories: three for mining, made with `git`: releases, changes with tests, and awkward ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

# A diff may change tests: those of the task are put back after it.
_RUN = "cp -r tests .kept && patch -s -p1 < answer.txt && rm -rf tests && mv .kept tests"
PROGRAM = ("/bin/sh", "-c", f"{_RUN} && /usr/bin/python3 -m unittest discover -q -s tests -t .")
RELEASES, CHANGES = "release-notes", "price-rules"
DESCRIPTIONS = {
    RELEASES: "Write the changelog of a release of the shop from its commits.",
    CHANGES: "Change the price rules of the shop: rebates, rounding and shipping.",
}
_RULES = [("rebate", 10, 9), ("rounding", 11, 12), ("shipping", 5, 7), ("surcharge", 3, 4)]


def git(folder: Path, *arguments: str) -> None:
    """Run git as a made-up person."""
    who = (
        "-c",
        "user.name=ada",
        "-c",
        "user.email=ada@example.org",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "tag.gpgsign=false",
    )
    subprocess.run(["git", *who, "-C", str(folder), *arguments], check=True, capture_output=True)


def commit(folder: Path, message: str, files: dict[str, str] | None = None) -> None:
    """Commit files, by path."""
    for name, content in (files or {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)


def make_repositories(folder: Path) -> dict[str, Path]:
    """Make the three below a folder, by name: `releases` (six tags, a changelog that a person wrote), `changes` (four
    commits with tests), `awkward` (no tags, a merge, a binary file, tests that prove nothing).
    """
    made = {name: folder / name for name in ("releases", "changes", "awkward")}
    for path in made.values():
        path.mkdir(parents=True)
        git(path, "init", "-q", "-b", "main")
    _make_releases(made["releases"])
    _make_changes(made["changes"])
    awkward = made["awkward"]
    commit(awkward, "Begin", {"price.py": "TOTAL = 1\n", "tests/__init__.py": ""})
    (awkward / "logo.png").write_bytes(bytes(range(256)))
    commit(awkward, "Price with a logo", {"tests/test_logo.py": "import unittest\n"})
    commit(
        awkward,
        "Price is tested already",
        {"price.py": "TOTAL = 2\n", "tests/test_price.py": _test("price", "TOTAL > 0")},
    )
    git(awkward, "switch", "-q", "-c", "side", "HEAD^")
    commit(awkward, "Price aside", {"price2.py": "A = 1\n"})
    git(awkward, "switch", "-q", "main")
    git(awkward, "merge", "-q", "--no-edit", "side")
    return made


def _make_releases(folder: Path) -> None:
    log = ""
    commit(folder, "Begin", {"shop.py": ""})
    for n in range(6):
        commit(folder, f"feat: add --export-{n} for orders (#{40 + n})", {"shop.py": f"N = {n}\n"})
        commit(folder, f"fix: sum of basket_{n} was off by one (#{60 + n})", {"basket.py": f"N = {n}\n"})
        commit(folder, f"chore: bump linter to 0.{n}.9", {"lint.py": f"N = {n}\n"})
        section = f"## 1.{n}.0\n\n- Orders can be exported with `--export-{n}` (#{40 + n}).\n"
        section += f"- The sum of `basket_{n}` is right again (#{60 + n}).\n\n"
        log = section + log
        commit(folder, f"Release 1.{n}.0", {"CHANGELOG.md": f"# Changelog\n\n{log}"})
        git(folder, "tag", "-a", "-m", "release", f"v1.{n}.0")


def _make_changes(folder: Path) -> None:
    sources = {f"shop/{name}.py": f"def {name}():\n    return {old}\n" for name, old, _ in _RULES}
    commit(
        folder,
        "Begin",
        {"shop/__init__.py": "", "tests/__init__.py": "", "notes.md": "No part of any test.\n"} | sources,
    )
    for name, _, new in _RULES:
        source = f"def {name}():\n    return {new}\n"
        test = _test(f"shop.{name}", f"{name}() == {new}")
        commit(folder, f"Change the {name} to {new}", {f"shop/{name}.py": source, f"tests/test_{name}.py": test})


def _test(module: str, condition: str) -> str:
    head = f"import unittest\n\nfrom {module} import *\n\n\nclass Test(unittest.TestCase):\n"
    return f"{head}    def test_it(self):\n        self.assertTrue({condition})\n"
