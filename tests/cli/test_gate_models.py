"""`gate --against-model`: the same text with two models, as two texts are compared with one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from console import Cli
from test_gate import YES, commit, git, write_skill

from tests.vendors import Vendor, vending


@pytest.fixture
def here(cli: Cli, tmp_path: Path) -> Path:
    """A repository with the skill tone, in the folder that `cli` runs in."""
    folder = tmp_path / "here"
    git(folder, "init", "-q", "-b", "main")
    write_skill(folder / "skills/tone")
    commit(folder)
    return folder


@pytest.fixture
def models() -> Iterator[tuple[Vendor, Vendor]]:
    """A model that does what the skill says, and one that never does."""
    with vending() as able, vending() as unable:
        able.hears_skill, able.reply = True, lambda asked: "yes" if YES in asked else "no"
        yield able, unable


@pytest.mark.parametrize(("is_up", "verdict", "code"), [(True, "better", 0), (False, "worse", 1)])
def test_the_live_text_is_compared_with_two_models_and_nothing_is_asked_twice(
    here: Path, cli: Cli, models: tuple[Vendor, Vendor], tmp_path: Path, is_up: bool, verdict: str, code: int
) -> None:
    able, unable = models
    before, after = (unable, able) if is_up else (able, unable)
    old, new = before.spec(model="o"), after.spec(model="n")
    (here / "skills/tone/notes.md").write_text("Not committed, and part of the text.\n")
    command = ("gate", "skills/tone", "--target", old, "--against-model", new, "--yes")
    store = tmp_path / "store.db"
    planned = cli(*command, "--dry-run", store=store)
    assert "20 target calls" not in planned.stderr, planned.stderr
    assert "At most" in planned.stderr
    assert (planned.returncode, able.asked, unable.asked) == (0, [], [])
    capped = cli(*command, "--max-calls", 7, store=store)
    assert (capped.returncode, len(able.asked) + len(unable.asked)) == (2, 7), capped.stdout
    done = cli(*command, "--summary", tmp_path / "summary.md", store=store)
    assert done.returncode == code, done.stdout + done.stderr
    more = "more" if is_up else "fewer"
    assert f"On these 10 cases with openai:n the skill solves {more}." in done.stdout
    assert "skills/tone (two models; on these cases, test 1)" in done.stdout
    said = f"<code>skills/tone</code> with <code>openai:n</code> solves {more} (test 1 of these models)"
    assert (tmp_path / "summary.md").read_text().count(said) == 1
    assert all("Not committed" in each for each in able.asked)
    n_asked = len(able.asked), len(unable.asked)
    assert min(n_asked) > 4
    again = cli(*command, "--json", store=store)
    [skill] = json.loads(again.stdout)["skills"]
    assert (skill["verdict"], skill["claim"], again.returncode) == (verdict, "on these cases", code)
    assert (len(able.asked), len(unable.asked)) == n_asked
    # Its attempts are evidence for nothing else, and its store is sound.
    assert cli("store", "verify", store=store).returncode == 0
    assert "tone" not in cli("skills", store=store).stdout
    with sqlite3.connect(store) as connection:
        sql = "from reply r join served s on s.id = r.served"
        arms = f"select distinct arm, s.name {sql} join test_attempt a on r.call_id = a.call_id"
        rows = connection.execute(arms).fetchall()
        assert connection.execute(f"select count(*) {sql}").fetchone() == (sum(n_asked),)
    assert sorted(rows) == [("base", "o"), ("candidate", "n")]


def test_two_models_are_compared_on_one_text_alone_and_a_wrong_name_asks_nothing(
    here: Path, cli: Cli, models: tuple[Vendor, Vendor], tmp_path: Path
) -> None:
    able, unable = models
    store = tmp_path / "store.db"
    done = cli("gate", "--against-model", able.spec(), store=store)
    assert (done.returncode, "needs --target" in done.stderr) == (2, True)
    done = cli("gate", "--target", able.spec(), "--against-model", "opnai:x", "--yes", store=store)
    assert (done.returncode, able.asked) == (2, [])
    (here / "skills/tone/SKILL.md").write_text("---\nname: tone\ndescription: Answers.\n---\nOther.\n")
    done = cli("gate", "--target", f"{able.spec(model='o')}\n{unable.spec(model='n')}", "--yes", store=store)
    assert (done.returncode, able.asked, unable.asked) == (2, [], [])
    assert "one text alone" in done.stdout
