"""Evals that name files outside of their own folder, plugin, skill or repository: none is read into a task."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")
SECRET = "a line of the private file"
GRADER = "---\ntype: regex\n---\nx\n"


def point_at(*files: str) -> str:
    rows = [{"id": n, "prompt": "p", "files": [file], "expectations": ["a"]} for n, file in enumerate(files)]
    return json.dumps(rows)


def say(path: str) -> str:
    return (
        "prompts: ['Say {{n}}']\nproviders: [echo]\n"
        f"tests: [{{vars: {{n: 'file://{path}'}}, assert: [{{type: contains, value: x}}]}}]\n"
    )


def setup(path: str, key: str = "source") -> str:
    files = f"{{files: [{{path: b.txt, {key}: {path}}}]}}"
    if key == "src":
        graders = "[{type: output-contains, config: {substring: z}}]"
        return f"stimuli: [{{name: a, prompt: Do, environment: {files}, graders: {graders}}}]\n"
    return f"scenarios: [{{name: a, prompt: Do, setup: {files}, assertions: [{{type: output_contains, value: z}}]}}]\n"


def sample(path: str) -> str:
    return json.dumps({"input": "q", "target": "a", "files": {"x": path}}) + "\n"


# Where the evals stand below the home folder, what they hold, and their links.
LEAKS: list[tuple[str, str, dict[str, str]]] = [
    ("code/repo/evals/evals.json", point_at("code/repo/evals/link.txt"), {"link.txt": "../../../.ssh/id_rsa"}),
    ("code/repo/evals/evals.json", point_at("repo/evals/link.txt"), {"link.txt": "../../other/x.txt"}),
    ("code/repo/evals/evals.json", point_at("evals/link"), {"link": "../../other"}),
    ("code/repo/evals/evals.json", point_at("evals/link/x.txt"), {"link": "../../other"}),
    ("code/repo/evals/evals.json", point_at("../other/x.txt", "../../.ssh/id_rsa", "{home}/code/other/x.txt"), {}),
    ("code/repo/.git/../evals/evals.json", point_at(".env", "evals/link.txt"), {"link.txt": "../.env"}),
    ("skills/evil/evals/evals.json", point_at("code/other/x.txt", "Documents/x.txt"), {}),
    ("Downloads/evals/evals.json", point_at("x.txt", "../x.txt", "Downloads/x.txt"), {}),
    ("evals/evals.json", point_at("Documents/x.txt", ".ssh/id_rsa"), {}),
    ("evals.json", point_at("Documents/x.txt", ".ssh/id_rsa"), {}),
    ("Downloads/case1/prompt.md", "", {"prompt.md": "../../.ssh/id_rsa"}),
    ("Downloads/case1/prompt.md", "", {"prompt.md": "../x.txt"}),
    ("Downloads/case1/prompt.md", "Hi", {"graders/b.md": "../../x.txt"}),
    ("evals/case1/prompt.md", "", {"prompt.md": "../../Documents/x.txt"}),
    ("code/repo/evals/case1/prompt.md", "", {"prompt.md": "../../../other/x.txt"}),
    ("code/repo/.git/../evals/case1/prompt.md", "", {"prompt.md": "../../.env"}),
    ("evals/promptfooconfig.yaml", say("../.ssh/id_rsa"), {}),
    ("evals/promptfooconfig.yaml", say("../Documents/x.txt"), {}),
    ("Downloads/evals/promptfooconfig.yaml", say("../x.txt"), {}),
    ("Downloads/evals/promptfooconfig.yaml", say("../*.txt"), {}),
    ("code/repo/promptfooconfig.yaml", say(".env"), {}),
    ("code/repo/promptfooconfig.yaml", say("l.txt"), {"l.txt": "../other/x.txt"}),
    ("code/repo/promptfooconfig.yaml", "prompts: [file://l.txt]\nproviders: [echo]\n", {"l.txt": "../other/x.txt"}),
    ("code/repo/eval.yaml", setup("l.txt"), {"l.txt": "../other/x.txt"}),
    ("code/repo/eval.yaml", setup("../other/x.txt"), {}),
    ("code/repo/eval.yaml", setup("l", "src"), {"l": "../other"}),
    ("code/repo/eval.yaml", setup(".env", "src"), {}),
    ("code/repo/data.jsonl", sample("l.txt"), {"l.txt": "../other/x.txt"}),
    ("code/repo/data.jsonl", sample("../other/x.txt"), {}),
    ("code/repo/data.jsonl", sample(".env"), {}),
]


@pytest.mark.parametrize(("place", "text", "links"), LEAKS)
def test_no_file_from_elsewhere_is_read(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, text: str, links: dict[str, str]
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    private = (".ssh/id_rsa", "code/other/x.txt", "code/repo/.env", "Documents/x.txt", "Downloads/x.txt")
    for name, content in [
        *((name, f"{SECRET}\n") for name in private),
        ("code/repo/own.txt", "own"), ("skills/evil/SKILL.md", "---\nname: evil\ndescription: d\n---\nB\n"),
        ("Downloads/case1/graders/a.md", GRADER), ("evals/case1/graders/a.md", GRADER),
        ("code/repo/evals/case1/graders/a.md", GRADER),
    ]:  # fmt: skip
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content)
    if "/.git/" in place:
        (home / place.split("/..")[0]).mkdir()
        place = place.replace("/.git/..", "")
    path = home / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if text:
        path.write_text(text.replace("{home}", str(home)))
    for name, target in links.items():
        (path.parent / name).symlink_to(target)
    options = ["--scorer", "match"] if path.suffix == ".jsonl" else []
    path = path.parent if path.name == "prompt.md" else path
    done = cli("tasks", "check", home / "skills/evil", path, "--json", "--partial", *options)
    found = json.loads(done.stdout)
    assert SECRET not in done.stdout
    for case in found["cases"]:
        assert case["lost"]
        assert "files" not in case
    added = tmp_path / "store.db"
    cli("tasks", "add", home / "skills/evil", path, "--partial", *options, store=added)
    assert not added.exists() or SECRET.encode() not in added.read_bytes()


def test_files_of_the_repository_and_of_the_own_folder_are_read(cli: Cli, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    for name, content in {
        ".git/HEAD": "", "shared/a.txt": "A text", "evals/own.txt": "its own",
        ".claude/skills/s/SKILL.md": "---\nname: s\ndescription: d\n---\nB\n",
        ".claude/skills/s/evals/evals.json": point_at("shared/a.txt", "evals/b.txt", "in.txt", "evals/l.txt"),
        ".claude/skills/s/evals/b.txt": "b", ".claude/skills/s/in.txt": "in",
        "evals/promptfooconfig.yaml": say("../shared/a.txt"),
    }.items():  # fmt: skip
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(content)
    skill = repo / ".claude/skills/s"
    (skill / "evals/l.txt").symlink_to(repo / "shared/a.txt")
    found = json.loads(cli("tasks", "check", skill, skill / "evals/evals.json", "--json").stdout)
    assert [case.get("files") for case in found["cases"]] == [
        ["shared/a.txt"], ["evals/b.txt"], ["in.txt"], ["evals/l.txt"],
    ]  # fmt: skip
    found = json.loads(cli("tasks", "check", skill, repo / "evals/promptfooconfig.yaml", "--json").stdout)
    assert [case["prompt"] for case in found["cases"]] == ["Say A text"]
