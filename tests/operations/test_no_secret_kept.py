"""No secret is kept: canaries planted in a whole session are neither in the store nor in what a model is shown."""

from __future__ import annotations

import json
import logging
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from workshop import LESSONS, Place

from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.actions.promotions.consent import permit
from skillopt_mcp.actions.promotions.promoting import promote_skill
from skillopt_mcp.actions.promotions.review import review_candidate
from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.actions.trajectories import Recording, record_trajectory
from skillopt_mcp.backends.base import BackendFault
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core.calls import Call, Message, Question, Reply
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.redacting import known_secrets
from skillopt_mcp.reports.lookup import inspect
from skillopt_mcp.store.pool import connect
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.place import open_redactor
from skillopt_mcp.workspace.workspace import Workspace

ENVIRONMENT = "blue whale seven"
OWN = "zQ9xKc7LmW2pRt5VbN8j"


def canary(n: int) -> str:
    return f"ghp_C4n4ry{n:02}" + "k7Qm2Zx9Lp4R" * 2 + "tW3v"


class Session:
    """A target and an optimizer that write secrets wherever they can."""

    def __init__(self) -> None:
        self.target = Scripted(self._attempt, name="anthropic:target")
        self.optimizer = Scripted(self._reason, name="anthropic:optimizer")

    def _attempt(self, call: Call) -> Reply | BackendFault:
        n = len(self.target.calls)
        if n % 5 == 0:
            return BackendFault("internal", f"no connection with {canary(1)}")
        if n % 5 == 1:
            return BackendFault("refusal", f"refused; password={canary(2)[10:]} was {ENVIRONMENT}")
        log = json.dumps({"stdout": f"$ env\nTOKEN={canary(3)}\n"})
        said = (Message("tool_call", json.dumps({"header": f"Bearer {canary(4)}"}), "http"), Message("tool", log, "sh"))
        return Reply(f"I used {canary(5)} and {ENVIRONMENT}", said)

    def _reason(self, call: Call) -> str:
        if call.stage != "reflect":
            return f"no JSON, but {canary(6)}"
        edit = {"op": "append", "content": f"- Log in with {canary(7)}."}
        return json.dumps({"reasoning": f"It used {canary(8)}", "edits": [edit]})

    def shown(self) -> Iterator[str]:
        for call in self.optimizer.calls:
            assert isinstance(call.request, Question)
            yield call.request.instructions + call.request.evidence


def recorded(n: int) -> Recording:
    messages = [
        {"role": "user", "content": f"use {canary(10)}"},
        {"role": "tool", "content": json.dumps({"a": {"b": f"x\n{canary(11)}"}}), "name": canary(12)},
        f"-----BEGIN PRIVATE KEY-----\n{canary(13)[4:]}{canary(13)[4:]}\n-----END PRIVATE KEY-----",
    ]
    return Recording(
        task=f"Deploy with {canary(14)}", hard=False, reason=f"it printed {canary(15)}", answer=f"done, {ENVIRONMENT}",
        messages=messages, session_id=f"s-{canary(16)}", index=n,
    )  # fmt: skip


def kept(place: Place) -> Iterator[tuple[str, bytes]]:
    """Yield all files next to the store and every value in it, packed ones unpacked."""
    for path in place.store_path.parent.rglob("*"):
        if path.is_file():
            yield path.name, path.read_bytes()
    connection = connect(place.store_path)
    tables = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'").fetchall()]
    for table in tables:
        for row in connection.execute(f"select * from {table}").fetchall():
            for value in row:
                raw = value if isinstance(value, bytes) else str(value).encode()
                yield table, raw
                if isinstance(value, bytes) and value[:1] == b"\x78":
                    yield table, zlib.decompress(value)
    connection.close()


def test_no_canary_of_a_session_is_kept_logged_or_shown(
    place: Place, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    session = Session()
    environ = {**os.environ, "SHOP_PASSWORD": ENVIRONMENT}
    with Workspace(
        place.store_path, target=session.target, optimizer=session.optimizer, project=place.folder, environ=environ
    ) as workspace:
        place.add_tasks(workspace, 30)
        reported = [
            record_trajectory(workspace.store, workspace.place, str(place.skill), recorded(n)) for n in range(3)
        ]
        assert record_trajectory(workspace.store, workspace.place, str(place.skill), recorded(0)).duplicate
        result = replay(
            workspace.store,
            workspace.models,
            workspace.place,
            start_run(workspace.store, workspace.models, workspace.place, str(place.skill), Config(epochs=2, batch=10)),
        )
        seen = inspect(workspace.store, workspace.place, reported[0].trajectory_id).model_dump_json()
    shown = list(session.shown())
    assert len(session.target.calls) > 10
    assert any("[redacted:github-token:" in text for text in shown)
    places = [*kept(place), ("inspect", seen.encode()), ("result", result.model_dump_json().encode())]
    places += [("prompt", text.encode()) for text in shown]
    places += [("log", caplog.text.encode()), ("output", "".join(capfd.readouterr()).encode())]
    leaks = {(where, n) for where, raw in places for n in range(17) if canary(n)[10:].encode() in raw}
    assert leaks == set()
    assert {where for where, raw in places if ENVIRONMENT.encode() in raw} == set()


def test_the_salt_of_a_store_is_made_once_and_for_its_user_alone(tmp_path: Path) -> None:
    first, second = (open_redactor(tmp_path / "s.db", known_secrets({})) for _ in range(2))
    other = open_redactor(tmp_path / "t.db", known_secrets({}))
    assert first.salt == second.salt != other.salt
    assert len(first.salt) == 32
    assert stat.S_IMODE((tmp_path / "s.db.salt").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.db.salt", "t.db.salt"]


def test_what_the_credential_files_hold_is_known(tmp_path: Path, home: Path) -> None:
    (home / ".netrc").write_text("machine h login me password left-hand-7!\n")
    (home / ".aws").mkdir()
    (home / ".aws" / "credentials").write_text(
        "[default]\naws_secret_access_key = Q7xK/2mP9vL4tR8wZ3nB6cD5fG1hJ0kS+aE8uI4y\n"
    )
    redactor = Workspace(tmp_path / "s.db", environ={}).place.redactor
    assert "left-hand" not in redactor.text("it typed left-hand-7! twice")
    assert "Q7xK" not in redactor.text("see Q7xK/2mP9vL4tR8wZ3nB6cD5fG1hJ0kS+aE8uI4y")


def test_a_secret_of_the_users_own_holds_a_candidate(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = place.main.read_bytes()
    permit(workspace.store, workspace.place, str(place.skill), simulated=True)
    place.accepted(workspace, f"{LESSONS}\n- Send {OWN} along.")  # not known to be one yet
    monkeypatch.setenv("MYSVC_API_KEY", OWN)
    later = place.open()
    proposed = propose_edits(
        later.store, later.place, str(place.skill), [{"op": "append", "content": f"- Use {OWN}."}], f"it is {OWN}"
    )
    assert (proposed.status, proposed.findings[0].partition(" (")[0]) == (
        "held", '"SKILL.md": adds what looks like a secret'
    )  # fmt: skip
    assert OWN not in later.store.candidates.get_candidate(proposed.candidate_id or "").reasoning
    first = later.store.candidates.list_candidates(1)[0]
    assert (first.findings, len(review_candidate(later.store, later.place, first.id).findings)) == ((), 1)
    held = promote_skill(later.store, later.place, first.id, Consent.STANDING)
    assert (held.status, held.reason.partition(" (")[0]) == ("held", '"SKILL.md": adds what looks like a secret')
    assert place.main.read_bytes() == before
