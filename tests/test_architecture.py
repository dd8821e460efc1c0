"""The house: imports point down, never in a circle, each library has its one room, and the core stays pure."""

import ast
import graphlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import skillopt_mcp

PACKAGE = Path(skillopt_mcp.__file__).parent
ROOMS = (
    "__init__", "core", "documents", "prompts", "tasks", "gates", "store", "backends", "training", "workspace",
    "actions", "reports", "admin", "api", "server", "packaging",
)  # fmt: skip
LEVEL_OF = {room: level for level, room in enumerate(ROOMS)} | {"cli": ROOMS.index("server")}
PURE = (
    "core/",
    "documents/",
    "gates/",
    "tasks/splits.py",
    "tasks/drafts.py",
    "training/stages/",
    "actions/transcripts.py",
    "actions/labelling.py",
    "actions/episodes.py",
)
IMPURE = ("core/tracing.py", "documents/live_files.py")
PURE_LIBRARIES = {
    "__future__", "abc", "base64", "bisect", "collections", "concurrent", "contextlib", "dataclasses", "difflib",
    "fractions", "functools", "hashlib", "html", "itertools", "json", "math", "operator", "pathlib", "posixpath",
    "pydantic", "pydantic_core", "random", "re", "re2", "shlex", "statistics", "string", "typing", "unicodedata",
    "yaml",
}  # fmt: skip
ONLY = {
    "concurrent.futures": {"Future"},
    "contextlib": {"AbstractContextManager"},
    "pathlib": {"PurePosixPath"},
    "posixpath": {"normpath"},
    "random": {"Random"},
}
IMPURE_CALLS = {"open", "print", "input", "exec", "eval"}
ONE_ROOM = {
    "sqlite3": set(),
    "pysqlite3": set(),
    "mcp": {"server/"},
    "openai": {"backends/"},
    "anthropic": {"backends/"},
    "filelock": {"store/files.py"},
    "ruamel": {"tasks/formats/"},
    "zstandard": {"actions/hook_events.py"},
    "platformdirs": {"store/files.py"},
    "argparse": {"cli/"},
    "opentelemetry": {"core/tracing.py"},
    "rich": {"cli/"},
    "jinja2": {"reports/"},
}


class Modules(Mapping[str, ast.Module]):
    """The parsed source of every module, by its path inside the package; each is parsed when it is first looked at."""

    def __init__(self) -> None:
        self._paths = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
        self._parsed: dict[str, ast.Module] = {}

    def __getitem__(self, name: str) -> ast.Module:
        if name not in self._parsed:
            self._parsed[name] = ast.parse(self._paths[name].read_text("utf-8"))
        return self._parsed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, name: object) -> bool:
        return name in self._paths


MODULES = Modules()


def room_of(path: str) -> str:
    return path.split("/")[0].removesuffix(".py")


@cache
def imported(tree: ast.Module) -> list[tuple[str, str | None]]:
    """Return what a module imports as (module, name): name is None where the module itself is imported."""
    found = list[tuple[str, str | None]]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found += ((node.module or "", alias.name) for alias in node.names)
    return found


@cache
def inside(tree: ast.Module) -> set[str]:
    """Return the paths of the package's modules that a module imports."""
    found = set()
    for module, name in imported(tree):
        first, *rest = module.split(".")
        if first != "skillopt_mcp":
            continue
        candidates = ["/".join([*rest, name or ""]), "/".join(rest)]
        paths = [f"{place}{end}" for place in candidates for end in (".py", "/__init__.py")]
        found.add(next((path for path in paths if path in MODULES), "__init__.py"))
    return found


@pytest.mark.parametrize("path", sorted(MODULES))
def test_imports_point_down(path: str) -> None:
    room = room_of(path)
    assert room in LEVEL_OF, f"'{room}' is a new room: give it a place in ROOMS"
    upward = {other for other in inside(MODULES[path]) if LEVEL_OF[room_of(other)] > LEVEL_OF[room]}
    assert upward == set()


def test_a_stage_knows_neither_store_nor_backends_nor_calls() -> None:
    stages = [tree for path, tree in MODULES.items() if path.startswith("training/stages/")]
    rooms = {room_of(other) for tree in stages for other in inside(tree)}
    assert rooms.isdisjoint({"store", "backends", "calls"})


def test_no_module_imports_itself_by_a_detour() -> None:
    graph = {path: inside(tree) for path, tree in MODULES.items()}
    graphlib.TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("library", sorted(ONE_ROOM))
def test_a_library_is_imported_in_its_own_room_only(library: str) -> None:
    users = {path for path, tree in MODULES.items() if any(m.split(".")[0] == library for m, _ in imported(tree))}
    strangers = {path for path in users if not any(path.startswith(room) for room in ONE_ROOM[library])}
    assert strangers == set()


@pytest.mark.parametrize("path", sorted(path for path in MODULES if path.startswith(PURE) and path not in IMPURE))
def test_the_core_knows_no_clock_no_global_chance_and_no_input_or_output(path: str) -> None:
    tree = MODULES[path]
    outside = {(module, name) for module, name in imported(tree) if module.split(".")[0] != "skillopt_mcp"}
    assert {module.split(".")[0] for module, _ in outside} <= PURE_LIBRARIES
    for module, names in ONLY.items():
        aliases = {name for found, name in outside if found == module and name is not None}
        attributes = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == module
        }
        uses_it_as_a_module = (module, None) in outside
        assert aliases | (attributes if uses_it_as_a_module else set()) <= names, module
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert called.isdisjoint(IMPURE_CALLS)
