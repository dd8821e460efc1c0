"""Host approvals: what real hosts make of a question to the person, and of the mark that a person is needed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from real_hosts import Session, run_claude, run_codex
from scripted_model import Json, ToolCall, Turn

from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.promotions.consent import NeedsPerson, add_root, agree
from skillopt_mcp.actions.promotions.promoting import check_promotion
from skillopt_mcp.backends.world import TOPICS, make_skill, make_tasks
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.tasks.splits import DEFAULT_SHARES
from skillopt_mcp.workspace.workspace import Workspace

pytestmark = pytest.mark.hosts

SEED = 3
LESSONS = "\n".join(f"- {topic.lesson}" for topic in TOPICS)
PROGRAM = str(Path(sys.executable).with_name("skillopt-mcp"))
HOSTS = {"CLAUDE": run_claude, "CLAUDE_OLDER": run_claude, "CODEX": run_codex}
# Run without a person, each host answers questions to one by itself.
ANSWERS = {"CLAUDE": "cancel", "CLAUDE_OLDER": "cancel", "CODEX": "decline"}


def prepare(place: Path, *, approved: bool) -> str:
    """Return an accepted candidate of a skill in `place`, approved by a person or not."""
    folder = place / "project" / "skills" / "ledger-clerk"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(make_skill(SEED).main)
    with Workspace(place / "store.db", target=f"simulated:honest,seed={SEED}", project=place) as workspace:
        add_root(workspace.store, str(folder.parent))
        tracked = workspace.place.skill(str(folder))
        workspace.store.tasks.add_tasks(tracked.id, make_tasks(90, SEED), DEFAULT_SHARES, login="a person")
        candidate_id = propose_edits(
            workspace.store, workspace.place, str(folder), [{"op": "append", "content": LESSONS}]
        ).candidate_id
        assert candidate_id
        assert evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id).accepted
        standing = check_promotion(workspace.store, workspace.place, candidate_id, Consent.APPROVED)
        assert isinstance(standing, NeedsPerson)
        if approved:
            agree(workspace.store, workspace.place, standing.approval)
    return candidate_id


def promote(host: str, place: Path, candidate_id: str, *options: str) -> Session:
    """Return a session in which the model calls promote_skill once."""
    if not os.environ.get(host):
        pytest.skip(f"{host} names no binary: see .ci/hosts")

    def next_turn(results: list[Json]) -> Turn:
        return ["done"] if results else [ToolCall("promote_skill", {"candidate_id": candidate_id})]

    server = [PROGRAM, "serve", "--store", str(place / "store.db"), *options]
    return HOSTS[host](os.environ[host], place, server, next_turn)


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_without_a_person_answers_no_and_nothing_changes(host: str, tmp_path: Path) -> None:
    candidate_id = prepare(tmp_path, approved=False)
    [result] = promote(host, tmp_path, candidate_id).results()
    assert result["status"] == "needs_approval", result
    assert str(result["reason"]).endswith(f"the host answered {ANSWERS[host]}, perhaps without asking the user")
    command = f"skillopt-mcp promote {candidate_id} --simulated --store {tmp_path / 'store.db'}"
    assert result["next_step"]["command"] == command
    assert (tmp_path / "project/skills/ledger-clerk/SKILL.md").read_bytes() == make_skill(SEED).main


@pytest.mark.parametrize("host", HOSTS)
def test_what_a_person_approved_at_a_terminal_is_promoted(host: str, tmp_path: Path) -> None:
    candidate_id = prepare(tmp_path, approved=True)
    [result] = promote(host, tmp_path, candidate_id).results()
    assert result["status"] == "promoted", result


def test_claude_refuses_a_marked_tool_without_a_person(tmp_path: Path) -> None:
    candidate_id = prepare(tmp_path, approved=True)
    session = promote("CLAUDE", tmp_path, candidate_id, "--require-approval")
    assert '"status":"promoted"' not in str(session.requests[-1])
    assert (tmp_path / "project/skills/ledger-clerk/SKILL.md").read_bytes() == make_skill(SEED).main
