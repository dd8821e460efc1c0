"""What is asked of a person where a promotion test has decided: nothing, as nothing is spent."""

from __future__ import annotations

import re

import pytest
from changes import make_candidate
from console import TARGET, Cli

from skillopt_mcp.backends.catalogue import TOPICS
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.cli import terminal
from skillopt_mcp.cli.commands import evaluate
from skillopt_mcp.operations.candidates.proposing import propose_edits
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.records.calls import Call, Rollout

MODEL = "openai:m,base_url=http://127.0.0.1:9"


def test_a_test_that_has_decided_tells_its_verdict_and_asks_nothing(
    make_place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = make_place()
    candidate = make_candidate(place)

    def answer(call: Call) -> str:
        assert isinstance(call.request, Rollout)
        is_taught = call.request.files.digest != base
        return str(call.request.task.judge.model_dump()["expected"]) if is_taught else "no"

    with Workspace(place.store_path, target=Scripted(answer, name=open_backend(MODEL).fingerprint)) as workspace:
        base = workspace.store.candidates.get_candidate(candidate).base_version
        assert evaluate_candidate(workspace, candidate).verdict == "accept"
    monkeypatch.setattr(terminal, "agreed", lambda *_, **__: pytest.fail("a person was asked"))

    assert evaluate.run(evaluate.Options(store=str(place.store_path), candidate=candidate, target=MODEL)) == 0

    said = capsys.readouterr()
    assert said.out.startswith("Verdict: ACCEPT.")
    assert "At most" not in said.err


def test_the_pairs_at_most_are_told_as_those_to_come(cli: Cli) -> None:
    assert "pause undecided after so many more pairs (default" in " ".join(cli("evaluate", "--help").stdout.split())


def test_an_undecided_test_tells_once_how_many_pairs_it_may_yet_take(cli, make_place) -> None:
    place = make_place()
    with Workspace(place.store_path) as workspace:
        lesson = {"op": "append", "content": f"- {TOPICS[0].lesson}"}
        candidate = propose_edits(workspace, str(place.skill_path), [lesson]).candidate_id
    told = cli("evaluate", str(candidate), "--target", TARGET, "--max-pairs", "25", store=place.store_path).stdout
    assert "Verdict: UNDECIDED. " in told
    assert len(re.findall(r"\bmore\b.*? expected", told)) == 1
