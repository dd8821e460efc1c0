"""A secret that lies across a cut is redacted before: no part of it is stored, shown or sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from console import Cli, Place

from benchmarks.repositories import commit, git
from skillopt_mcp.backends.agents.claude_events import read_claude
from skillopt_mcp.backends.api.faults import ApiKey, Endpoint, Origin
from skillopt_mcp.backends.wrappers import redact_reply
from skillopt_mcp.core.calls import Reply
from skillopt_mcp.core.redacting import Redactor
from skillopt_mcp.core.text import quoted
from skillopt_mcp.store.pool import connect
from tests.drafting import Drafter, make_skill
from tests.session_lines import claude_call, claude_said, claude_skill, claude_user, joined
from tests.vendors import Vendor, vending

LENGTH = 40
FILLER = "all of the rows were read twice and then "


def make_secret(n: int) -> str:
    digits = hashlib.sha256(str(n).encode()).hexdigest()[: LENGTH - 4]
    return "ghp_" + digits.translate(str.maketrans("0123456789", "Q7ZmW2VtR9"))


def plant(n: int, at: int, length: int) -> str:
    """A text with a secret that begins at a place in it."""
    before = (FILLER * (length // len(FILLER) + 1))[: at - 1]
    text = f"{before} {make_secret(n)} "
    return text + (FILLER * (length // len(FILLER) + 1))[: max(0, length - len(text))]


def find_parts(text: str, numbers: range) -> list[str]:
    """The parts of 6 characters of these secrets that stand in a text."""
    secrets = map(make_secret, numbers)
    return [part for each in secrets for at in range(4, LENGTH - 5) if (part := each[at : at + 6]) in text]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(make_skill(tmp_path / "skills" / "ship-notes"), tmp_path / "store.db")


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with vending() as lent:
        lent.reply = Drafter()
        yield lent


def dump(place: Place) -> str:
    with closing(connect(place.store_path)) as connection:
        tables = [name for (name,) in connection.execute("select name from sqlite_schema where type = 'table'")]
        return "\n".join(str(row) for name in tables for row in connection.execute(f"select * from {name}"))


def test_no_part_of_a_secret_across_the_cut_of_a_session_is_kept_or_sent(
    cli: Cli, place: Place, vendor: Vendor, tmp_path: Path
) -> None:
    # Texts of 30,000 characters are cut to 20,000: about 9,976 of each end stay.
    places = [edge - back for edge in (9_976, 20_024) for back in range(1, LENGTH + 9, 3)]
    (tmp_path / "sessions").mkdir()
    for n, at in enumerate(places):
        prompt, answer, correction, result = (plant(4 * n + field, at, 30_000) for field in range(4))
        lines = joined(
            claude_user(f"Write the line {prompt}"[:30_000], timestamp=f"2026-11-01T10:00:{n:02}.000Z"),
            claude_skill(str(place.skill_path)), claude_call("Bash", {"command": "make"}, result),
            claude_said(answer), claude_user(f"No: wrong. {correction}"[:30_000]), claude_said("- BREAKING: gone"),
        )  # fmt: skip
        (tmp_path / "sessions" / f"s-{n}.jsonl").write_bytes(b"".join(lines))
    command = ("tasks", "mine", place.skill_path, "--sessions", tmp_path / "sessions", "--optimizer", vendor.spec())
    cli(*command, "--tasks", "6", "--yes", "--json", store=place.store_path)
    kept, numbers = dump(place), range(4 * len(places))
    assert kept.count("characters and more cut here") >= 4 * len(places)
    assert find_parts(kept, numbers) == []
    assert vendor.asked
    assert find_parts("".join(vendor.asked), numbers) == []


def test_no_part_of_a_secret_across_the_cut_of_a_commit_is_kept(cli: Cli, place: Place, tmp_path: Path) -> None:
    repository, places = tmp_path / "repository", range(600 - LENGTH - 9, 600)
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    description = (place.skill_path / "SKILL.md").read_text()
    (place.skill_path / "SKILL.md").write_text(description.replace("description: ", "description: Changelog release. "))
    commit(repository, "feat: begin", {"CHANGELOG.md": "# Changelog\n"})
    git(repository, "tag", "v1.0.0")
    for n, at in enumerate(places):
        commit(repository, plant(n, at, 900), {f"{n}.txt": "x"})
    commit(repository, "feat: add `lantern` (#12)", {"CHANGELOG.md": "# Changelog\n\n## 1.1.0\n\n- `lantern` (#12)\n"})
    git(repository, "tag", "v1.1.0")
    done = cli("tasks", "mine", place.skill_path, "--repo", repository, "--json", store=place.store_path)
    assert json.loads(done.stdout)["added"] == 1, done.stdout
    assert find_parts(dump(place), range(len(places))) == []


def _api(text: str) -> str:
    endpoint = Endpoint("https://api.openai.com/v1", ApiKey("OPENAI_API_KEY", "none"), "api.openai.com", False)
    return Origin("m", endpoint).fault("internal", text).message


def _message(text: str) -> str:
    """A tool's result as an agent's command line reports it, as it is kept."""
    lines = b"".join(claude_call("Bash", {"command": "env"}, text)).decode()
    reply = redact_reply(Redactor(), Reply("done", tuple(read_claude(lines).messages)), None)
    return reply.messages[-1].content


@pytest.mark.parametrize(
    ("keep", "edges", "length"),
    [(_api, (300,), 900), (_message, (9_976, 20_024), 30_000), (quoted, (80,), 400)],
)
def test_no_part_of_a_secret_across_the_cut_of_a_message_is_kept(
    keep: Callable[[str], str], edges: tuple[int, ...], length: int
) -> None:
    for edge in edges:
        for back in range(1, LENGTH + 9):
            kept = keep(plant(back, edge - back, length))
            assert len(kept) < length
            assert find_parts(kept, range(back, back + 1)) == []
