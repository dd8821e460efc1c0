"""Erasing: what a person takes out is gone from the store, is never seen or brought back, and the rest goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hostwork import Clock, begun_proposal, server
from workshop import Place, use

from benchmarks.host_agent import items_of
from skillopt_mcp.actions import proposals as reflecting
from skillopt_mcp.actions.proposals import propose_from_evidence
from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.actions.sessions import read_sessions
from skillopt_mcp.actions.submitting import submit_work
from skillopt_mcp.actions.tasks import add_tasks
from skillopt_mcp.actions.trajectories import AttemptQuery, Recording, find_attempts, record_trajectory
from skillopt_mcp.admin.backup import back_up, restore_store
from skillopt_mcp.admin.erase import Erasure, erase, review_erasure
from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.core.calls import Call, Question
from skillopt_mcp.core.errors import BadInput, Busy
from skillopt_mcp.core.runs import Run
from skillopt_mcp.store.episodes import Episodes
from skillopt_mcp.store.files import lock_run
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.progress import Notify
from skillopt_mcp.workspace.jobs import Wait
from skillopt_mcp.workspace.workspace import Workspace
from tests.session_lines import claude_said, claude_skill, claude_user, joined

CANARY = "zebra-4711 quilt"
LEARNED = json.dumps({
    "reasoning": f"they said {CANARY}",
    "edits": [
        {"op": "append", "target": None, "content": "- Round at the end.", "path": "SKILL.md", "evidence": [1]}
    ],
})  # fmt: skip


def recorded(workspace: Workspace, place: Place, n: int = 6, **fields: object) -> list[int]:
    """Return failed attempts, the third with the canary in all its texts."""
    ids = []
    for k in range(n):
        text = CANARY if k == 2 else f"word {k}"
        reported = {"answer": f"was {text}", "messages": [f"[{text}]"], "reason": text, "hard": False} | fields
        done = record_trajectory(
            workspace.store, workspace.place, str(place.skill), Recording(task=f"{k}: book {text}", **reported)
        )  # type: ignore[arg-type]
        ids.append(int(done.trajectory_id.partition(":")[2]))
    return ids


def erased(workspace: Workspace, *names: str, **wanted: object) -> Erasure:
    return erase(
        workspace.store, workspace.place, find_attempts(workspace.store, workspace.place, AttemptQuery(names, **wanted))
    )  # type: ignore[arg-type]


def found_in(place: Place, text: str = CANARY) -> list[str]:
    """Return the files of a store, and of the work that is out, which hold a text."""
    paths = [path for path in place.folder.rglob("*") if path.is_file() and path.suffix != ".backup"]
    return [path.name for path in paths if text.encode() in path.read_bytes()]


def learning() -> Scripted:
    """Return an optimizer that proposes one edit, and quotes what it has read."""
    return Scripted(lambda _: LEARNED)


def given_to(folder: str) -> str:
    """Return all that an agent finds in a folder of work."""
    return "\n".join(path.read_text() for path in sorted(Path(folder).rglob("*")) if path.is_file())


def evidence_of(backend: Scripted) -> str:
    return "\n".join(call.request.evidence for call in backend.calls if isinstance(call.request, Question))


def is_sound(place: Place) -> bool:
    return verify_store(place.store_path).problems == []


@pytest.mark.parametrize(
    ("wanted", "gone"),
    [
        ({"session": "s1"}, {1, 2}),
        ({"before": "2999-01-01"}, {1, 2, 3, 4}),
        ({"before": "2999-01-01T10:00:00+02:00", "session": "s1"}, {1, 2}),
        ({"before": "1d"}, set()),
        ({"before": "0d"}, {1, 2, 3, 4}),
        ({"everything": True}, {1, 2, 3, 4}),
    ],
)
def test_the_attempts_of_a_skill_are_meant_that_meet_all_that_is_said(
    place: Place, workspace: Workspace, wanted: dict[str, object], gone: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(workspace, place, 2, session_id="s1")
    recorded(workspace, place, 0)
    record_trajectory(workspace.store, workspace.place, str(place.skill), Recording(task="other", answer=CANARY))
    record_trajectory(workspace.store, workspace.place, str(place.skill), Recording(task="last word"))
    monkeypatch.setattr(time, "time", lambda: 4e9 if wanted.get("before") == "0d" else 1.7e9)
    assert set(find_attempts(workspace.store, workspace.place, AttemptQuery(("ledger-clerk",), **wanted))) == gone  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "wanted", "said"),
    [
        (("ledger-clerk",), {}, "say which attempts"),
        (("ledger-clerk",), {"everything": True, "session": "s"}, "--all alone"),
        (("ledger-clerk", "other"), {"everything": True}, "2 skills are named"),
        (("trajectory:1",), {"session": "s"}, "name attempts alone"),
        (("trajectory:1", "ledger-clerk"), {}, "name attempts alone"),
        (("ledger-clerk",), {"before": "soon"}, '"soon" is not a date'),
        (("ledger-clerk",), {"before": "999999d"}, "is not a date"),
    ],
)
def test_what_names_no_attempts_is_refused(
    place: Place, workspace: Workspace, names: Sequence[str], wanted: dict[str, object], said: str
) -> None:
    recorded(workspace, place, 1)
    with pytest.raises(BadInput, match=said):
        erased(workspace, *names, **wanted)


def test_what_is_erased_takes_no_score_no_transcript_and_no_reaction(place: Place, workspace: Workspace) -> None:
    record_trajectory(
        workspace.store, workspace.place, str(place.skill), Recording(task="t", answer=CANARY, session_id="s", index=0)
    )
    erased(workspace, "trajectory:1")
    scored = record_trajectory(
        workspace.store, workspace.place, str(place.skill), Recording(task="trajectory:1", hard=True, reason=CANARY)
    )
    assert scored.outcome == "erased"
    again = record_trajectory(
        workspace.store,
        workspace.place,
        str(place.skill),
        Recording(task="t", answer=CANARY, session_id="s", index=0, messages=[CANARY]),
    )
    assert (again.trajectory_id, again.outcome, again.n_new) == ("trajectory:1", "erased", 0)
    assert found_in(place) == []
    assert is_sound(place)


def test_no_reading_of_its_session_brings_an_attempt_back(place: Place, workspace: Workspace) -> None:
    workspace.place.skill(str(place.skill))
    path = place.folder / "sessions" / "0a7e.jsonl"
    path.parent.mkdir()
    lines = joined(
        claude_user("Close March"), claude_skill(str(place.skill)), claude_said(CANARY), claude_user("No, 4")
    )
    path.write_bytes(b"".join(lines))
    assert read_sessions(workspace.store, workspace.place, [path]).recorded == 1
    erased(workspace, "trajectory:1")
    with path.open("ab") as file:
        file.write(b"".join(joined(claude_said("Sorry."), claude_user("perfect, thanks"))))
    assert read_sessions(workspace.store, workspace.place, [path]).episodes == {}
    assert list(workspace.store.table(Episodes).list_episodes(1)) == []
    path.unlink()
    assert found_in(place) == []


def test_the_answers_to_what_showed_it_go_too_and_what_was_made_of_it_is_reported(
    place: Place, workspace: Workspace
) -> None:
    recorded(workspace, place)
    use(workspace, learning(), "optimizer")
    made = propose_from_evidence(workspace.store, workspace.models, workspace.place, str(place.skill))
    assert made.candidate_id
    spent = workspace.store.ledger.list_rows(made.job_id)
    planned = review_erasure(workspace.store, workspace.place.redactor, [3])
    assert (planned.status, planned.n, planned.answers) == ("planned", 1, 1)
    assert found_in(place)
    done = erased(workspace, "trajectory:3")
    assert (done.n, done.answers) == (1, 1)
    assert done.made_from == [made.candidate_id]
    assert workspace.store.ledger.list_rows(made.job_id) == spent
    again = learning()
    use(workspace, again, "optimizer")
    propose_from_evidence(workspace.store, workspace.models, workspace.place, str(place.skill))
    assert "book word 1" in evidence_of(again)
    assert CANARY not in evidence_of(again)
    assert is_sound(place)


def test_the_copies_next_to_the_store_and_the_hosts_transcripts_are_named(
    place: Place, workspace: Workspace, home: Path
) -> None:
    record_trajectory(
        workspace.store, workspace.place, str(place.skill), Recording(task=CANARY, session_id="0a7e", index=0)
    )
    copies_there = [
        place.store_path.with_name(name)
        for name in (
            "skillopt.db.replaced-20260101-000000",
            "skillopt.db.replaced-20260102-000000",
            ".skillopt.db.0a7e",
        )
    ]
    for path in copies_there:
        path.write_bytes(b"old")
    transcript = home / ".claude" / "projects" / "p" / "0a7e.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_bytes(b"{}\n")
    done = erased(workspace, "trajectory:1")
    assert sorted(done.copies) == sorted(map(str, copies_there))
    assert done.transcripts == [str(transcript)]


def test_a_replay_that_was_stopped_goes_on_without_what_was_erased(place: Place, workspace: Workspace) -> None:
    recorded(workspace, place, 10)
    config = Config(epochs=2, batch=4, sessions=10)
    asked = Scripted(_stops_at("reflect", 2))
    use(workspace, asked, "optimizer")
    run = start_run(workspace.store, workspace.models, workspace.place, str(place.skill), config)
    assert len(run.sessions) == 10
    with pytest.raises(KeyboardInterrupt):
        replay(workspace.store, workspace.models, workspace.place, run)
    assert CANARY in evidence_of(asked)
    other = place.open()
    done = erased(other, "trajectory:3")
    assert (done.runs, done.n) == ([run.id], 1)
    again = Scripted(lambda _: json.dumps({"reasoning": "fine", "edits": []}))
    use(workspace, again, "optimizer")
    result = replay(workspace.store, workspace.models, workspace.place, run)
    assert result.run_id == run.id
    assert "### Trajectory" in evidence_of(again)
    assert CANARY not in evidence_of(again)
    assert is_sound(place)
    assert found_in(place) == []


def _stops_at(stage: str, n: int) -> object:
    seen = []

    def answer(call: Call) -> str:
        seen.extend([call] if call.stage == stage else [])
        if len(seen) > n:
            raise KeyboardInterrupt
        return json.dumps({"reasoning": "fine", "edits": []})

    return answer


def test_a_run_that_is_under_way_keeps_what_it_may_see(place: Place, workspace: Workspace) -> None:
    recorded(workspace, place)
    run = start_run(workspace.store, workspace.models, workspace.place, str(place.skill), Config(sessions=6))
    lock = lock_run(workspace.store.locks_path, run.id)
    assert lock
    with pytest.raises(Busy, match=f"'{run.id}' is under way.*nothing was changed"):
        erased(place.open(), "trajectory:3")
    assert found_in(place)
    lock.release()
    assert erased(place.open(), "trajectory:3").n == 1


def test_what_is_with_an_optimizer_just_now_is_not_erased(place: Place, workspace: Workspace) -> None:
    recorded(workspace, place)
    with workspace.store._pool.write() as connection:
        connection.execute(
            "insert into call(key, scope, role, stage, draw, refs, owner) values"
            " (x'00', 't-1', 'optimizer', 'rewrite', 'd', 'trajectory:2 trajectory:3', ?)",
            [place.open().models.owner.name],
        )
    with pytest.raises(Busy, match="with an optimizer just now, for 't-1'"):
        erased(workspace, "trajectory:3")
    assert found_in(place)
    assert erased(workspace, "trajectory:1").n == 1


@pytest.mark.parametrize("state", ["out", "failed"])
def test_a_late_answer_to_a_question_that_showed_it_is_not_kept(place: Place, host: Workspace, state: str) -> None:
    recorded(host, place)
    standing = begun_proposal(host, str(place.skill))
    with host.store._pool.write() as connection:
        connection.execute("update lease set state = ?", [state])
    erased(host, "trajectory:3")
    late = submit_work(
        host.store,
        host.models,
        host.place,
        [{"work_id": items_of(standing.work)[0].work_id, "reply": LEARNED}],
        wait=Wait(host.jobs),
    )
    assert late.receipts[0].status == "withdrawn"
    assert found_in(place) == []


def test_work_with_a_host_is_taken_back_and_handed_out_without_it(place: Place, host: Workspace, clock: Clock) -> None:
    recorded(host, place)
    standing = begun_proposal(host, str(place.skill))
    [item] = items_of(standing.work)
    assert CANARY in given_to(item.folder)
    person = server(place, clock, place.folder / "work")
    done = erased(person, "trajectory:3")
    assert (done.n, done.runs) == (1, [standing.job_id])
    assert found_in(place) == []
    late = submit_work(
        host.store, host.models, host.place, [{"work_id": item.work_id, "reply": LEARNED}], wait=Wait(host.jobs)
    )
    assert late.receipts[0].status == "withdrawn"
    [fresh] = items_of(
        propose_from_evidence(host.store, host.models, host.place, str(place.skill), wait=Wait(host.jobs)).work
    ) or items_of(submit_work(host.store, host.models, host.place, [], standing.job_id, Wait(host.jobs)).work)
    reported = given_to(fresh.folder)
    assert "book word 1" in reported
    assert CANARY not in reported
    handed = submit_work(
        host.store,
        host.models,
        host.place,
        [{"work_id": fresh.work_id, "reply": LEARNED.replace(CANARY, "nothing")}],
        wait=Wait(host.jobs),
    )
    assert handed.receipts[0].status == "accepted", handed
    assert found_in(place) == []
    assert is_sound(place)


def test_a_proposal_all_of_whose_attempts_were_erased_comes_to_an_end(place: Place, host: Workspace) -> None:
    recorded(host, place)
    begun_proposal(host, str(place.skill))
    erased(host, "ledger-clerk", everything=True)
    ended = propose_from_evidence(host.store, host.models, host.place, str(place.skill), wait=Wait(host.jobs))
    assert (ended.status, ended.candidate_id) == ("no_change", None)
    with pytest.raises(BadInput, match="no scored attempts"):
        propose_from_evidence(host.store, host.models, host.place, str(place.skill), wait=Wait(host.jobs))


def _outstanding(host: Workspace, run: Run, notify: Notify) -> object:
    return reflecting._work(host.store, host.models, host.place.secrets, run, notify)


def test_erasing_again_changes_nothing_more(place: Place, workspace: Workspace) -> None:
    recorded(workspace, place)
    erased(workspace, "trajectory:3")
    head = verify_store(place.store_path).head
    again = erased(workspace, "trajectory:3", "trajectory:3")
    assert (again.status, again.n, again.attempts) == ("nothing", 0, [])
    assert verify_store(place.store_path).head == head


def test_what_is_shown_beforehand_has_no_held_out_task(place: Place, workspace: Workspace) -> None:
    add_tasks(workspace.store, workspace.place, str(place.skill), [
        {"prompt": f"held {CANARY}", "judge": {"kind": "exact", "expected": "1"}, "split": "test"}
    ])  # fmt: skip
    for task in (f"a b {CANARY} c", f"held {CANARY}", "x " * 35 + CANARY):
        record_trajectory(workspace.store, workspace.place, str(place.skill), Recording(task=task))
    planned = review_erasure(workspace.store, workspace.place.redactor, [1, 2, 3])
    assert [row.words for row in planned.attempts][:2] == [f"a b {CANARY} c", "(a held-out task)"]


def test_a_reader_of_the_store_keeps_its_log_and_the_person_hears_of_it(
    place: Place, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillopt_mcp.admin.erase.LOG_WAIT_MS", 50)
    recorded(workspace, place)
    other = place.open()
    with other.store._pool._lend() as connection:
        connection.execute("begin")
        connection.execute("select count(*) from trajectory").fetchone()
        done = erased(workspace, "trajectory:3")
        assert not done.is_gone
        assert done.next_step.action == "store erase"
        assert found_in(place)
        connection.execute("commit")
    assert erased(workspace, "trajectory:3").is_gone
    assert found_in(place) == []


def test_an_older_backup_says_what_it_would_bring_back(place: Place, workspace: Workspace) -> None:
    recorded(workspace, place)
    erased(workspace, "trajectory:1")
    file = place.folder / "old.backup"
    back_up(place.store_path, file)
    erased(workspace, "trajectory:3", "trajectory:4")
    workspace.close()
    restored = restore_store(place.store_path, file)
    assert [(lost.kind, lost.which) for lost in restored.lost or ()] == [
        ("erasure", "trajectory:3"),
        ("erasure", "trajectory:4"),
    ]
    again = place.open()
    assert again.store.trajectories.get_trajectory(1) is None
    assert again.store.trajectories.get_trajectory(3)
