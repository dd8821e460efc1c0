"""Hidden characters: no answer carries one of what is stored to a model, but where bytes have to be what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from full_server import World, with_client
from mcp import Client
from mcp_types import CallToolResult, TextContent, TextResourceContents

from skillopt_mcp.core.skills import short
from skillopt_mcp.core.text import hidden_offsets

HIDDEN = "\u202e\U000e0041\x1b[2J\x07\u200b"
SHOWN = r"\u{202E}\u{E0041}\u{001B}[2J\u{0007}\u{200B}"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a world whose skill has hidden characters in its text, and so has an edit of it."""
    made = World(tmp_path)
    made.main.write_bytes(made.main.read_bytes() + f"\nKeep{HIDDEN}calm.\r\nAnd go on.\r\n".encode())
    made.workspace.place.skill(str(made.skill))
    return made


def reported(world: World, name: str, **arguments: object) -> Any:
    """Return all that a tool answers, the texts of its fields among it, after a look for what is hidden in it."""

    async def ask(client: Client) -> CallToolResult:
        return await client.call_tool(name, arguments)

    answer = with_client(world.server(), ask)
    assert not answer.is_error, answer
    texts = [part.text for part in answer.content if isinstance(part, TextContent)]
    assert seen("".join(texts)) == seen("".join(_texts(answer.structured_content))) == []
    return answer.structured_content


def read(world: World, uri: str) -> str:
    async def ask(client: Client) -> str:
        [content] = (await client.read_resource(uri)).contents
        assert isinstance(content, TextResourceContents)
        return content.text

    return with_client(world.server(), ask)


def seen(text: str) -> list[str]:
    return [f"U+{ord(text[at]):04X}" for at in hidden_offsets(text)]


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in _texts(each)]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []


def test_an_attempt_is_inspected_with_what_is_hidden_in_it(world: World) -> None:
    recorded = reported(
        world, "record_trajectory", skill="ledger-clerk", task=f"do {HIDDEN} it", answer=f"so{HIDDEN}", hard=False,
        reason=f"why{HIDDEN}", session_id=f"s{HIDDEN}", index=0,
        messages=[{"role": "tool", "name": "read", "content": f"a{HIDDEN}b"}],
    )  # fmt: skip
    page = reported(world, "inspect", id=recorded["trajectory_id"])
    for each in (f"do {SHOWN} it", f"so{SHOWN}", f"why{SHOWN}", f"a{SHOWN}b"):
        assert each in page["text"]
    assert (page["trajectory"]["task"], page["trajectory"]["reason"]) == (f"do {SHOWN} it", f"why{SHOWN}")


def test_a_skill_its_versions_and_its_candidates_are_shown_with_what_is_hidden_in_them(world: World) -> None:
    edit = {"op": "append", "content": f"Stay{HIDDEN}calm."}
    proposed = reported(
        world, "propose_edits", skill="ledger-clerk", edits=[edit, {"op": "delete", "target": f"No{HIDDEN}."}],
        reasoning=f"since{HIDDEN}",
    )  # fmt: skip
    assert f"+Stay{SHOWN}calm." in proposed["diff"]
    page = reported(world, "inspect", id=proposed["candidate_id"])
    assert f"+Stay{SHOWN}calm." in page["text"]
    assert f"reasoning: since{SHOWN}" in page["text"]
    live = short(world.workspace.place.skill("ledger-clerk").live_version)
    version = reported(world, "inspect", id=f"ledger-clerk@{live}")["text"]
    # Line endings stay, so that an anchor can be copied.
    assert f"\nKeep{SHOWN}calm.\r\nAnd go on.\r\n" in version
    reported(world, "inspect", id="ledger-clerk")
    reported(world, "list_skills")
    reported(world, "evaluate_candidate", candidate_id=proposed["candidate_id"])
    reported(world, "promote_skill", candidate_id=proposed["candidate_id"])


def test_an_anchor_copied_as_it_is_shown_is_shown_what_it_stands_for(world: World) -> None:
    edits = [{"op": "delete", "target": f"Keep{SHOWN}calm."}, {"op": "append", "content": "Go on."}]
    proposed = reported(world, "propose_edits", skill="ledger-clerk", edits=edits, reasoning="shorter")
    assert proposed["edits"][0]["detail"] == (
        r"the target is not in the file; \u{202E} stands for a hidden character: give the character itself, or text "
        "without it"
    )
    edits[0]["target"] = f"Keep{HIDDEN}calm."
    again = reported(world, "propose_edits", skill="ledger-clerk", edits=edits, reasoning="shorter")
    assert [edit["status"] for edit in again["edits"]] == ["applied", "applied"]


def test_resources_that_show_of_a_text_show_what_is_hidden_in_it(world: World) -> None:
    candidate_id = world.propose(f"Stay{HIDDEN}calm.")
    candidate = world.workspace.store.candidates.get_candidate(candidate_id)
    old, new = short(candidate.base_version), short(candidate.version_id)
    skill = "skillopt://skill/ledger-clerk"
    for uri in (skill, f"{skill}/version/{new}", f"{skill}/diff/{old}/{new}", f"skillopt://candidate/{candidate_id}"):
        text = read(world, uri)
        assert seen(text) == []
        assert uri == skill or f"Stay{SHOWN}calm." in text


def test_a_page_ends_in_no_middle_of_the_text_and_all_pages_are_the_whole(world: World) -> None:
    world.main.write_bytes(world.main.read_bytes() + (HIDDEN * 3_000).encode())
    live = short(world.workspace.place.skill("ledger-clerk").live_version)
    page = reported(world, "inspect", id=f"ledger-clerk@{live}")
    text = page["text"]
    while page["cursor"]:
        page = reported(world, "inspect", id=f"ledger-clerk@{live}", cursor=page["cursor"])
        text += page["text"]
    assert text.endswith(SHOWN * 3_000)
