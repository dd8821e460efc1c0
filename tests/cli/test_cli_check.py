"""Check at the terminal: skills by their paths, with no store, for a person and for a team's CI."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from changes import make_candidate
from console import Cli, Place

from skillopt_mcp.cli.main import main
from skillopt_mcp.core import limits
from skillopt_mcp.documents.lint import SETTLE
from skillopt_mcp.workspace.workspace import Workspace

TOKEN = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


def write(folder: Path, body: str = "Do it.", front: str | None = None, main_name: str = "SKILL.md") -> Path:
    """Return a folder that holds a skill of its name, or of other front matter."""
    folder.mkdir(parents=True)
    head = f"name: {folder.name}\ndescription: Does it." if front is None else front
    (folder / main_name).write_text(f"---\n{head}\n---\n\n{body}\n")
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, in which relative paths begin; the user's store would be next to it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("SKILLOPT_STORE", str(tmp_path / "store.db"))
    return tmp_path / "here"


def checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """Return the exit code of a check and its lines, without those on evals; it has nothing to say but on stdout."""
    code = main(["check", *arguments])
    said = capsys.readouterr()
    assert said.err == ""
    return code, [line for line in said.out.splitlines() if " no evals: " not in line]


def test_a_path_is_not_tracked_in_a_store_that_is_there(make_place, here: Path) -> None:
    place: Place = make_place()
    checkout = write(here / "ledger-clerk")
    assert main(["--store", str(place.store_path), "check", str(checkout), "ledger-clerk"]) == 0
    with Workspace(place.store_path) as workspace:
        assert [skill.path for skill in workspace.store.skills.list_skills()] == [str(place.skill_path)]


def test_all_skills_of_a_folder_are_checked_each_once_and_called_by_their_paths(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here / "skills" / "a", "[x](gone.md)")
    write(here / "skills" / "b")
    write(here / "skills" / ".hidden", "[x](gone.md)")
    (here / "skills" / "notes").mkdir()
    code, lines = checked(capsys, "skills", "skills/a", "./skills/a/SKILL.md", str(here / "skills"))
    assert (code, lines) == (
        0, ['skills/a: advice: "SKILL.md" links to "gone.md", which is not there', "2 skills: 0 errors, 1 advice."],
    )  # fmt: skip


def test_a_skill_that_cannot_be_read_does_not_keep_the_others_from_being_checked(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (write(here / "s" / "binary") / "SKILL.md").write_bytes(b"\xff\xfe")
    (write(here / "s" / "linked") / "x").symlink_to("/proc/self/environ")
    write(here / "s" / "lower", main_name="skill.md")
    write(here / "s" / "open", front="name: open\ndescription: d").joinpath("SKILL.md").write_text("---\nname: open\n")
    write(here / "s" / "sound")
    (here / "s" / "none").mkdir()
    code, lines = checked(capsys, "s", "s/none", "s/missing", "s/lower/skill.md")
    assert code == 1
    assert lines[0].startswith("s/binary: error: could not be read: ")
    assert lines[1:3] == [
        's/lower: error: the main file is called "skill.md", and hosts look for SKILL.md alone: rename it',
        "s/open: error: the front matter is never closed: put a line of --- below its last field",
    ]
    assert lines[3].startswith("s/none: error: could not be read: ")
    assert "has no SKILL.md" in lines[3]
    assert lines[4].startswith("s/missing: error: could not be read: ")
    assert lines[5].startswith("s/linked: advice: only SKILL.md was looked at: ")
    assert lines[6:] == ["5 skills: 5 errors, 1 advice."]
    assert main(["check", "s/none", "s/missing"]) == 2
    capsys.readouterr()


def test_advice_is_shown_and_counts_only_when_it_shall(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "long", "line\n" * 600)
    code, lines = checked(capsys, "long")
    assert (code, lines[-1]) == (0, "1 skill: 0 errors, 1 advice.")
    assert lines[0].startswith("long: advice: SKILL.md has 606 lines; above 500")
    assert checked(capsys, "long", "--strict") == (1, lines)
    assert main(["check", "long", "--json"]) == 0
    assert main(["check", "long", "--strict", "--json"]) == 1


def test_a_skill_of_a_hosts_folder_is_found_by_its_name_without_a_store(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here / ".claude" / "skills" / "mine", "[x](gone.md)")
    code, lines = checked(capsys, "mine")
    assert (code, lines[0]) == (0, 'mine: advice: "SKILL.md" links to "gone.md", which is not there')
    assert os.listdir(here.parent) == ["here"]


def test_the_key_of_a_vendor_fails_a_check_and_what_may_be_an_example_does_not(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here / "s" / "hidden", "a\u200bb")
    write(here / "s" / "secret", "Send quill-q7Xk2mP9vL4tR8wZ3nB6yH1sD5gJ0cFa along.")
    code, lines = checked(capsys, "s")
    assert [line.split(": ")[:2] for line in lines[:-1]] == [["s/hidden", "advice"], ["s/secret", "advice"]]
    assert (code, checked(capsys, "s", "--strict")[0]) == (0, 1)
    assert "q7Xk2" not in "".join(lines)
    write(here / "s" / "vendor", f"Send {TOKEN} along.")
    code, lines = checked(capsys, "s")
    assert (code, lines[0].split(": ")[:2]) == (1, ["s/vendor", "error"])
    assert TOKEN not in "".join(lines)


def test_an_example_password_in_documentation_is_advice(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "s" / "guide", "| user | password |\n|---|---|\n| ann | hunter2hunter2 |\n\npassword: |\n  Zx9!kq2LmQ")
    code, lines = checked(capsys, "s")
    assert (code, lines[-1]) == (0, "1 skill: 0 errors, 1 advice.")
    assert lines[0].count("password in line") == 2
    assert checked(capsys, "--strict", "s")[0] == 1
    assert "hunter2" not in "".join(lines)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("---\nname", "\ufeff---\nname", "error: a byte order mark begins it: Codex and Gemini do not load it"),
        ("Do it.\n", "Do it.\rNow.\n", "error: a carriage return has no line feed: Codex does not load it"),
        ("Does it.", "x" * 1025, "error: the description has 1025 characters, 1024 are allowed: Copilot does not load"),
        ("Does it.", "Fixes bugs like #12.", 'advice: the description ends before " #", which begins a comment'),
        ("Does it.", "Fixes\n  bugs # often.", 'advice: the description ends before " #", which begins a comment'),
        ("name", "disable-model-invocation: true\nname", "advice: disable-model-invocation: Claude Code and Copilot"),
        ("name", "paths: src/**\nname", "advice: paths: Claude Code neither lists the skill nor opens it"),
        ("Do it.", "Do it.\n\nNow !`ls\n-l` it.", r'advice: Claude Code runs a command while it loads the skill, also '
         r'in code: "!`ls\n-l`" in line 8'),
        ("Do it.", "Do it.\n\n- ```!\n  ls\n  ```", 'advice: Claude Code runs a command while it loads'),
        ("Do it.", "Do it.\n\nIt costs $5 or US$12.", "advice: Claude Code puts words of the call for $12 in line 8, "
         "$5 in line 8; write a backslash before each"),
    ],
)  # fmt: skip
def test_what_hosts_do_differently_is_said_host_by_host(
    old: str, new: str, said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main_file = write(here / "desk") / "SKILL.md"
    main_file.write_bytes(main_file.read_text().replace(old, new, 1).encode())
    code, lines = checked(capsys, "desk")
    assert (code, len(lines)) == (int(said.startswith("error")), 2), lines
    assert lines[0].startswith(f"desk: {said}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Does it.", "'Does it: # always.' # a note"),
        ("Does it.", "Does C#, F# and it."),
        ("name", "disable-model-invocation: false\nname"),
        ("Do it.", "It costs \\$5 or $100, ${HOME}, $x.\n\n```sh\nawk '{print $1}' a\n```\n\nOr `echo $2`."),
        ("Do it.", "Close $ARGUMENTS, of it $0 first."),
        ("Do it.", "`!` negates, `#REF!` and `#DIV/0!` are errors. Done!`ls` is text."),
    ],
)
def test_what_all_hosts_take_alike_is_let_be(
    old: str, new: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main_file = write(here / "desk") / "SKILL.md"
    main_file.write_text(main_file.read_text().replace(old, new, 1))
    assert checked(capsys, "desk") == (0, ["1 skill: 0 errors, 0 advice."])


def test_a_second_main_file_below_is_a_skill_of_its_own_for_codex(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(write(here / "desk") / "references" / "till")
    code, lines = checked(capsys, "desk")
    assert (code, lines[0]) == (
        0, 'desk: advice: Codex reads "references/till/SKILL.md" as a skill of its own: give it another name',
    )  # fmt: skip


def test_a_repository_is_walked_to_its_skills_wherever_they_lie(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        "good",
        "good/of-all",
        "my team/sub/bad",
        "plugins/p/skills/a",
        ".claude/skills/b",
        ".github/skills/c",
        "skills/.curated/f",
        "team1/bad",
    ]
    for inside in (*found, "good/references/inner", "node_modules/x/y", ".git/a/b", ".cache/d"):
        write(here / "z" / inside)
    (here / "z" / "skills" / "linked").symlink_to("../plugins/p")
    (here / "z" / "skills" / "loop").symlink_to("..")
    write(here / "apart" / "e1")
    (here / "z" / "skills" / "e1").symlink_to(here / "apart" / "e1")
    write(here / "z" / "evals" / "one" / "graders", main_name="skill.md")
    code, lines = checked(capsys, "z", "z")
    assert (code, lines) == (
        0,
        ['z/good: advice: Codex reads "of-all/SKILL.md" as a skill of its own: give it another name',
         'z/good: advice: Codex reads "references/inner/SKILL.md" as a skill of its own: give it another name',
         "z/team1/bad: " + twin("z/my team/sub/bad"),
         "z/my team/sub/bad: " + twin("z/team1/bad"),
         "9 skills: 0 errors, 4 advice."],
    )  # fmt: skip
    assert checked(capsys, "z", "--strict")[0] == 1
    monkeypatch.chdir(here / "z")
    assert main(["check", "--json"]) == 0
    paths = [each["path"] for each in json.loads(capsys.readouterr().out)["skills"]]
    assert sorted(paths) == sorted([*found, "skills/e1"])


def twin(other: str) -> str:
    return f"advice: the name \"bad\" is also that of '{other}': a host that finds both takes one of them"


def test_what_a_candidate_breaks_is_shown_before_a_person_agrees(cli: Cli, make_place) -> None:
    place = make_place()
    candidate = make_candidate(place, "See [more](references/more.md).")
    asked = cli("promote", candidate, store=place.store_path)
    assert 'LINT: "SKILL.md" links to "references/more.md", which is not there\n' in asked.stdout
    shown = cli("show", candidate, store=place.store_path)
    assert 'lint, new with it: "SKILL.md" links to "references/more.md"' in shown.stdout


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@x.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, "-C", str(folder), *arguments], check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "change")


@pytest.fixture
def repository(here: Path) -> Path:
    """Return the working directory as a checkout of three committed skills, on a branch of its own."""
    for name in ("first", "second", "third"):
        write(here / "skills" / name)
    git(here, "init", "-q", "-b", "main")
    commit(here)
    git(here, "switch", "-q", "-c", "feature")
    return here


@pytest.mark.parametrize("path", [".env", ".npmrc", ".hidden.md", ".cfg/x.md", "scripts/.env"])
def test_a_secret_in_a_hidden_file_is_an_error(here: Path, capsys: pytest.CaptureFixture[str], path: str) -> None:
    skill = write(here / "leaky")
    (skill / path).parent.mkdir(exist_ok=True)
    (skill / path).write_text(f"key = {TOKEN}\n")
    code, lines = checked(capsys, "leaky")
    assert (code, lines[-1]) == (1, "1 skill: 1 error, 0 advice.")
    assert lines[0].startswith(f'leaky: error: "{path}" holds what looks like a secret: ')


def test_hidden_files_that_are_not_read_are_shown(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skill = write(here / "large")
    (skill / ".blob").write_bytes(b"x" * (limits.FILE_BYTES + 1))
    code, lines = checked(capsys, "large")
    assert (code, lines[-1]) == (0, "1 skill: 0 errors, 1 advice.")
    assert lines[0].startswith('large: advice: not all hidden files were looked at for secrets, ".blob" for one')
    many = write(here / "many")
    (many / ".cache").mkdir()
    for n in range(limits.SKILL_FILES + 2):
        (many / ".cache" / f"{n:04}").touch()
    reported = 'many: advice: not all hidden files were looked at for secrets, ".cache/0200" for one'
    assert checked(capsys, "many")[1][0].startswith(reported)


def test_a_file_inside_a_skill_means_that_skill_and_each_is_reported_once(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = repository / "skills" / "first" / "scripts"
    scripts.mkdir()
    (scripts / "run.py").write_text("print()\n")
    (scripts / "more.py").write_text(f"key = '{TOKEN}'\n")
    paths = [f"skills/first/{inner}" for inner in ("scripts/run.py", "scripts/more.py", "SKILL.md")]
    code, lines = checked(capsys, *paths, "skills/second/SKILL.md")
    assert (code, lines[-1]) == (1, "2 skills: 1 error, 0 advice.")
    assert [line.partition(":")[0] for line in lines[:-1]] == ["skills/first"]
    monkeypatch.chdir(scripts)
    assert checked(capsys, "run.py")[1][-1] == "1 skill: 1 error, 0 advice."
    code, lines = checked(capsys, str(repository / "skills"), "../../../README")
    assert (code, lines[-1]) == (1, "3 skills: 2 errors, 0 advice.")


def test_a_base_that_git_does_not_know_is_refused_with_what_to_do(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for base in ("nope", "--upload-pack=touch"):
        assert main(["check", f"--changed={base}"]) == 2
        reported = capsys.readouterr().err
        assert f'git cannot compare with "{base}" (' in reported
        assert "with its history (a CI job: actions/checkout with fetch-depth: 0)" in reported
    monkeypatch.chdir(tmp_path)
    assert main(["check", "--changed", "main"]) == 2
    reported = capsys.readouterr().err
    assert "not a git repository" in reported
    assert f'"{tmp_path}" is no git checkout: go into one, or name the skills to check' in reported
    assert "fetch-depth" not in reported


def test_the_marks_of_an_unfinished_merge_are_reported(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skill = repository / "skills" / "first" / "SKILL.md"
    skill.write_text(skill.read_text() + "<<<<<<< HEAD\nA.\n=======\nB.\n>>>>>>> feat\n")
    reported = f'advice: "SKILL.md" has the marks of an unfinished merge (line 7, 11): {SETTLE}'
    assert checked(capsys, "--changed", "main") == (0, [f"skills/first: {reported}", "1 skill: 0 errors, 1 advice."])


def test_a_base_that_is_empty_passes_nothing(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "skills" / "first" / "SKILL.md").write_text("broken\n")
    for base in ("", " "):
        assert main(["check", "--changed", base]) == 2
        assert "no base is given to compare with (a variable that is not set?)" in capsys.readouterr().err


def test_the_skills_of_a_submodule_that_changed_are_checked(
    repository: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    write(shared / "near")
    write(shared / "deep" / "down", body=f"Use {TOKEN}.")
    git(shared, "init", "-q")
    commit(shared)
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(shared), "vendor")
    commit(repository)
    code, lines = checked(capsys, "--changed", "main")
    assert (code, lines[-1]) == (1, "2 skills: 1 error, 0 advice.")
    assert lines[0].startswith("vendor/deep/down: error: ")
    git(repository, "submodule", "deinit", "-q", "-f", "vendor")
    code, lines = checked(capsys, "--changed", "main")
    assert (code, lines[-1]) == (0, "0 skills: 0 errors, 1 advice.")
    assert lines[0].startswith("./vendor: advice: it has changed, but is empty here")
