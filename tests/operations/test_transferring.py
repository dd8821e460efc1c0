"""Transferring: a history goes from store to store whole, and nothing in it ever acts in the new one."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from workshop import LESSONS, Place

from skillopt_mcp.errors import BadInput, NotFound, Refused
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.changes.permitting import permit
from skillopt_mcp.operations.changes.promoting import promote_skill, rollback_skill
from skillopt_mcp.operations.evidence.recording import Recording, record_trajectory
from skillopt_mcp.operations.looks.history import history
from skillopt_mcp.operations.looks.inspecting import inspect
from skillopt_mcp.operations.looks.listing import list_skills
from skillopt_mcp.operations.runs.reflecting import propose_from_evidence
from skillopt_mcp.operations.runs.replaying import replay, start_run
from skillopt_mcp.operations.stores.taking_in import import_history
from skillopt_mcp.operations.stores.transferring import export_history
from skillopt_mcp.operations.stores.verifying import verify_store
from skillopt_mcp.operations.tasks.adding import add_tasks
from skillopt_mcp.operations.testing.evaluating import evaluate_candidate
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.calls import storable
from skillopt_mcp.records.candidates import IMPORTED
from skillopt_mcp.records.histories import FORMAT_VERSION
from skillopt_mcp.store.histories import Histories

KEY = "sk-ant-api03-" + "Zm9vYmFyYmF6cXV4Y29ycmVjdGhvcnNlYmF0dGVyeXN0YXBsZQ-abcdefghij"
Rows = list[dict[str, object]]


@pytest.fixture
def sent(place: Place, workspace: Workspace, tmp_path: Path) -> Path:
    """Return the history of a skill with attempts, a promotion and its verdict; the skill is then as it was before."""
    record_trajectory(workspace, str(place.skill), Recording("what?", True, session_id="s", index=0, messages=["hi"]))
    record_trajectory(workspace, str(place.skill), Recording("what?", False))
    before = place.main.read_bytes()
    candidate = place.accepted(workspace)
    assert promote_skill(workspace, candidate, Consent.PERSON_SIMULATED).status == "promoted"
    made = export_history(workspace, str(place.skill), tmp_path / "clerk.history")
    assert made.left_out == []
    place.main.write_bytes(before)
    return Path(made.file)


@pytest.fixture
def other(place: Place) -> Workspace:
    """Return a workspace on another store that knows the same folder, and permits whatever it may."""
    workspace = place.open(store="other.db")
    workspace.store.permissions.add_root(str(place.root))
    permit(workspace, str(place.skill), simulated=True)
    return workspace


def rows_of(file: Path) -> Rows:
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()[:-1]]


def write(file: Path, rows: Rows) -> Path:
    """Write a history as somebody who forges one would: well formed, with the right ending."""
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    end = {"kind": "end", "n": len(rows), "sha256": hashlib.sha256(lines).hexdigest()}
    file.write_bytes(gzip.compress(lines + json.dumps(end).encode() + b"\n"))
    return file


def test_a_history_arrives_whole_and_a_second_time_brings_nothing(place: Place, other: Workspace, sent: Path) -> None:
    before = place.main.read_bytes()
    got = import_history(other, sent)
    assert (got.status, got.versions, got.tasks, got.trajectories, got.candidates) == ("imported", 1, 90, 2, 1)
    assert import_history(other, sent).status == "nothing_new"
    assert place.main.read_bytes() == before
    assert verify_store(other.store.path).problems == []
    with place.open() as first:
        mine = first.skill(str(place.skill))
        theirs = other.skill(str(place.skill))
        assert [(t.name, t.digest, t.split) for t in other.store.tasks.list_tasks(theirs.id)] == [
            (t.name, t.digest, t.split) for t in first.store.tasks.list_tasks(mine.id)
        ]
        lines = [list(w.store.room(Histories).walk_trajectories(s.id)) for w, s in ((first, mine), (other, theirs))]
        assert lines[0] == lines[1]
        told = first.store.room(Histories).list_told(mine.id)
        assert all(each in told for each in other.store.room(Histories).list_archived(theirs.id))
        assert {each.what for each in told} == {"decision", "test", "promotion", "event"}


def test_what_comes_back_to_where_it_came_from_is_known(place: Place, workspace: Workspace, sent: Path) -> None:
    assert import_history(workspace, sent).status == "nothing_new"


def as_it_was(row: dict[str, object]) -> dict[str, object]:
    """Return a line as an export wrote it while the run was under way, and its test had half of its pairs."""
    content = row.get("content")
    if not isinstance(content, dict) or row.get("what") not in ("run", "test"):
        return row
    if row["what"] == "run":
        return {**row, "content": {**content, "status": "running", "result": None}}
    pairs = json.loads(content["pairs"])
    assert len(pairs) > 1
    half = json.dumps(pairs[: len(pairs) // 2], separators=(",", ":"))
    return {**row, "content": {**content, "pairs": half}}


def test_an_older_export_brings_nothing_to_where_it_came_from(
    place: Place, workspace: Workspace, sent: Path, tmp_path: Path
) -> None:
    propose_from_evidence(workspace, str(place.skill))
    rows = rows_of(Path(export_history(workspace, str(place.skill), tmp_path / "now.history").file))
    older = [as_it_was(row) for row in rows]
    assert {row["what"] for row, was in zip(rows, older, strict=True) if row != was} == {"run", "test"}
    assert import_history(workspace, write(tmp_path / "older.history", older)).status == "nothing_new"
    further = [{**row, "content": {**dict(row["content"]), "pairs": "[1]"}} if row.get("what") == "test" else row
               for row in rows]  # fmt: skip
    assert import_history(workspace, write(tmp_path / "further.history", further)).told == 1


def test_an_import_without_candidates_asks_nobody_to_test_them(
    place: Place, workspace: Workspace, other: Workspace, tmp_path: Path
) -> None:
    made = export_history(workspace, str(place.skill), tmp_path / "clerk.history")
    got = import_history(other, Path(made.file))
    assert (got.status, got.candidates, got.next_step) == ("imported", 0, "No live file changed.")


def test_a_conflict_names_the_whole_command_that_keeps_what_is_here(other: Workspace, sent: Path) -> None:
    rows = rows_of(sent)
    split_moved(rows)
    got = import_history(other, sent)
    again = import_history(other, write(sent.parent / "my file", rows), str(other.skill("ledger-clerk").path))
    assert (got.status, again.status) == ("imported", "conflicts")
    assert again.next_step.endswith(
        f"skillopt-mcp import --keep-mine '{sent.parent / 'my file'}' --skill {other.skill('ledger-clerk').path}"
    )


def secret_task(secret: str, **fields: object) -> dict[str, object]:
    judge = {"kind": "exact", "expected": "hi"}
    return {"id": "q1", "prompt": f"Log in with {secret} and say hi", "judge": judge, "split": "val", **fields}


def test_the_export_tells_no_secret_that_is_the_name_of_a_task(
    place: Place, workspace: Workspace, tmp_path: Path
) -> None:
    add_tasks(workspace, str(place.skill), [secret_task("a token", id=f"key-{KEY}")])
    [name] = export_history(workspace, str(place.skill), tmp_path / "clerk.history").redacted
    assert name.startswith("key-[redacted:anthropic-key:")


def test_a_task_with_a_secret_is_known_where_it_came_from_and_told_by_the_export(
    place: Place, workspace: Workspace, tmp_path: Path
) -> None:
    add_tasks(workspace, str(place.skill), [secret_task(storable(KEY)), secret_task("a token", id="q2")])
    made = export_history(workspace, str(place.skill), tmp_path / "clerk.history")
    assert made.redacted == ["q1"]
    got = import_history(workspace, Path(made.file))
    assert (got.status, got.conflicts) == ("nothing_new", [])
    first = workspace.store.tasks.list_tasks(workspace.skill(str(place.skill)).id)[-2]
    assert (first.name, KEY in first.prompt) == ("q1", True)


@pytest.mark.parametrize(
    ("change", "conflict"),
    [
        ({"prompt": "Log in with [redacted:anthropic-key:0000] and say hi"}, "another task has that id here"),
        ({"judge": {"kind": "exact", "expected": "ho"}}, "another task has that id here"),
        ({"split": "test"}, "its split is val here, test in the file"),
    ],
)
def test_a_task_that_is_not_told_as_this_store_redacts_it_is_no_known_one(
    place: Place, workspace: Workspace, tmp_path: Path, change: dict[str, object], conflict: str
) -> None:
    add_tasks(workspace, str(place.skill), [secret_task(storable(KEY))])
    made = export_history(workspace, str(place.skill), tmp_path / "clerk.history")
    rows = rows_of(Path(made.file))
    [row] = [row for row in rows if row["kind"] == "task" and dict(row["task"])["id"] == "q1"]
    row["task"] = {**dict(row["task"]), **change}
    got = import_history(workspace, write(tmp_path / "other.history", rows))
    assert (got.status, got.conflicts) == ("conflicts", [f"task 'q1': {conflict}"])


def test_the_rule_of_a_promotion_test_goes_with_it(
    place: Place, workspace: Workspace, other: Workspace, sent: Path
) -> None:
    import_history(other, sent)
    skill = other.skill(str(place.skill))
    [test] = [told for told in other.store.room(Histories).list_archived(skill.id) if told.what == "test"]
    mine = workspace.store.decisions.find_confirmation(str(test.content["id"]))
    assert mine is not None
    assert test.content["rule"] == mine.rule is not None
    [told] = [line for line in history(other, str(place.skill)).imported if " decision confirm accept " in line]
    assert re.search(r" \(better: [0-9]+ pairs, at an error rate of 0\.0[0-9]+\)$", told)


def without_rules(row: dict[str, object]) -> dict[str, object]:
    content = row.get("content")
    if row.get("what") == "test" and isinstance(content, dict):
        return {**row, "content": {name: value for name, value in content.items() if name != "rule"}}
    return row


def test_a_history_of_a_release_that_told_no_rule_is_read_and_known_where_it_came_from(
    place: Place, workspace: Workspace, other: Workspace, sent: Path, tmp_path: Path
) -> None:
    earlier = write(tmp_path / "earlier", [without_rules(row) for row in rows_of(sent)])
    assert earlier.read_bytes() != sent.read_bytes()
    assert import_history(workspace, earlier).status == "nothing_new"
    assert import_history(other, earlier).status == "imported"
    assert verify_store(other.store.path).problems == []


def test_a_told_verdict_whose_rule_is_not_known_here_is_shown_without_it(
    place: Place, other: Workspace, sent: Path, tmp_path: Path
) -> None:
    rows = rows_of(sent)
    for row in rows:
        content = row.get("content")
        if row.get("what") == "decision" and isinstance(content, dict):
            content["inputs"] = '{"rule": "of a later release"}'
    import_history(other, write(tmp_path / "later", rows))
    [told] = [line for line in history(other, str(place.skill)).imported if " decision confirm " in line]
    assert re.search(r" accept [0-9a-f]{12} -> [0-9a-f]{12}$", told)


def test_an_imported_verdict_promotes_nothing(place: Place, other: Workspace, sent: Path) -> None:
    before = place.main.read_bytes()
    import_history(other, sent)
    skill = other.skill(str(place.skill))
    [candidate] = other.store.candidates.list_candidates(skill.id)
    assert candidate.findings[0] == IMPORTED
    refused = promote_skill(other, candidate.id, Consent.STANDING)
    assert (refused.status, refused.reason) == ("refused", "it was not evaluated against the live version")
    while evaluate_candidate(other, candidate.id).verdict == "undecided":
        pass
    assert promote_skill(other, candidate.id, Consent.STANDING).status == "held"
    assert place.main.read_bytes() == before
    assert promote_skill(other, candidate.id, Consent.PERSON_SIMULATED).status == "promoted"


def test_an_imported_version_was_never_live_here(place: Place, other: Workspace, sent: Path) -> None:
    import_history(other, sent)
    skill = other.skill(str(place.skill))
    [candidate] = other.store.candidates.list_candidates(skill.id)
    with pytest.raises(Refused, match="was never live"):
        rollback_skill(other, str(place.skill), candidate.version_id, Consent.STANDING)
    found = history(other, str(place.skill))
    assert found.rows == []
    assert any("promote" in line for line in found.imported)


def test_an_imported_version_that_is_no_candidate_names_how_to_have_it_back(place: Place, sent: Path) -> None:
    place.main.write_text("# Begun anew\n")
    other = place.open(store="third.db")
    import_history(other, sent, str(place.skill))
    skill = other.skill(str(place.skill))
    [candidate] = other.store.candidates.list_candidates(skill.id)
    shown = f"skillopt-mcp show ledger-clerk@{candidate.base_version[:12]} --out FOLDER"
    with pytest.raises(Refused, match=f"was never live: it is no candidate either .*{shown}"):
        rollback_skill(other, str(place.skill), candidate.base_version, Consent.PERSON)
    with pytest.raises(Refused, match="was never live: promote its candidate instead"):
        rollback_skill(other, str(place.skill), candidate.version_id, Consent.PERSON)


def test_permissions_roots_and_commands_stay_behind(place: Place, workspace: Workspace, tmp_path: Path) -> None:
    permit(workspace, str(place.skill), simulated=True)
    file = Path(export_history(workspace, str(place.skill), tmp_path / "clerk.history").file)
    third = place.open(store="third.db")
    import_history(third, file, str(place.skill))
    skill = third.skill(str(place.skill))
    assert third.store.permissions.get(skill.id) is None
    assert (third.store.permissions.list_roots(), third.store.commands.list_commands()) == ([], [])


def test_a_task_whose_command_is_not_registered_here_is_left_out(
    place: Place, other: Workspace, sent: Path, tmp_path: Path
) -> None:
    task = {"prompt": "p", "judge": {"kind": "command", "name": "run-me"}, "split": "val", "id": "t"}
    rows = [*rows_of(sent), {"kind": "task", "task": task}]
    got = import_history(other, write(tmp_path / "f", rows))
    [left] = got.left_out
    assert (got.tasks, left.startswith("task 't':")) == (90, True)


def split_moved(rows: Rows) -> None:
    task = next(row["task"] for row in rows if row["kind"] == "task")
    assert isinstance(task, dict)
    task["split"] = {"train": "val", "val": "test", "test": "train"}[task["split"]]


def task_renamed(rows: Rows) -> None:
    task = next(row["task"] for row in rows if row["kind"] == "task")
    assert isinstance(task, dict)
    task["prompt"] = "something else"


def attempt_changed(rows: Rows) -> None:
    next(row for row in rows if row["kind"] == "trajectory" and row["session_id"])["answer"] = "another"


def verdict_changed(rows: Rows) -> None:
    content = next(row["content"] for row in rows if row.get("what") == "decision")
    assert isinstance(content, dict)
    content["verdict"] = "reject"


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        (split_moved, "its split is"),
        (task_renamed, "another task has that id here"),
        (attempt_changed, "attempt 0 of session 's': another is here"),
        (verdict_changed, "its verdict is accept here, reject in the file"),
    ],
)
def test_a_contradiction_is_told_and_nothing_is_taken_in(
    place: Place, workspace: Workspace, sent: Path, tmp_path: Path, forge: Callable[[Rows], None], said: str
) -> None:
    workspace.skill(str(place.skill))  # the file is as it was before: that is told first
    rows = rows_of(sent)
    forge(rows)
    extra: dict[str, object] = {
        "kind": "task", "task": {"prompt": "new", "judge": {"kind": "exact", "expected": "1"}, "split": "val"},
    }  # fmt: skip
    file = write(tmp_path / "forged", [*rows, extra])
    head = verify_store(workspace.store.path).head
    got = import_history(workspace, file)
    assert (got.status, got.tasks, len(got.conflicts)) == ("conflicts", 0, 1)
    assert said in got.conflicts[0]
    assert verify_store(workspace.store.path).head == head
    kept = import_history(workspace, file, keep_mine=True)
    assert (kept.status, kept.tasks) == ("imported", 1)
    assert verify_store(workspace.store.path).problems == []


def with_path(path: str) -> Callable[[Rows], Rows]:
    def forge(rows: Rows) -> Rows:
        content = "x"
        sha256 = hashlib.sha256(content.encode()).hexdigest()
        digest = hashlib.sha256(f"{path}\0{0}\0{sha256}\n".encode()).hexdigest()
        files = [{"path": path, "sha256": sha256, "executable": False}]
        version = {"kind": "version", "id": digest, "parent_id": None, "files": files}
        return [*rows, {"kind": "content", "text": content, "base64": None}, version]

    return forge


@pytest.mark.parametrize(
    "forge",
    [
        *map(
            with_path, ["../SKILL.md", "/etc/SKILL.md", "a\\b.md", ".git/config", "a//b", "c:/x", "x" * 300, "only.md"]
        ),
        lambda rows: [{**row, "files": []} if row["kind"] == "version" else row for row in rows],
        lambda rows: [row for row in rows if row["kind"] != "content"],
        lambda rows: [row for row in rows if row["kind"] != "version"],
        lambda rows: rows[1:],
        lambda rows: [*rows, rows[0]],
        lambda rows: [{**rows[0], "version": FORMAT_VERSION + 1}, *rows[1:]],
        lambda rows: [*rows, {"kind": "permission", "granted_by": "me"}],
        lambda rows: [*rows, {"kind": "task", "task": {"prompt": "p", "judge": {"kind": "exact", "expected": "1"}}}],
        lambda rows: [{**row, "soft": 7} if row["kind"] == "trajectory" else row for row in rows],
        lambda rows: [{**row, "created_at": "now"} if row["kind"] == "trajectory" else row for row in rows],
    ],
)
def test_a_file_that_no_export_writes_changes_nothing(
    other: Workspace, sent: Path, tmp_path: Path, forge: Callable[[Rows], Rows]
) -> None:
    head = verify_store(other.store.path).head
    with pytest.raises(BadInput):
        import_history(other, write(tmp_path / "forged", forge(rows_of(sent))))
    assert verify_store(other.store.path).head == head


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("references/__pycache__/x.md", "is passed over when a skill is read"),
        ("references/a/b/c/d/e/f/g/x.md", "is nested too deep"),
        ("a//b", "is no relative path"),
        ("../b", "is passed over when a skill is read"),
        ("SKILL.md/b", "collides with another file"),
    ],
)
def test_a_version_that_no_folder_holds_is_refused(
    other: Workspace, sent: Path, tmp_path: Path, path: str, why: str
) -> None:
    rows = rows_of(sent)
    at = next(n for n, row in enumerate(rows) if row["kind"] == "version")
    [main] = cast(list[dict[str, object]], rows[at]["files"])
    rows[at] = {**rows[at], "files": [main, {**main, "path": path}]}
    with pytest.raises(BadInput, match=why):
        import_history(other, write(tmp_path / "forged", rows))


def test_a_damaged_file_is_refused(other: Workspace, sent: Path, tmp_path: Path) -> None:
    whole = sent.read_bytes()
    lines = gzip.decompress(whole).splitlines(keepends=True)
    for n, raw in enumerate([
        b"", b"not a history", whole[: len(whole) // 2], gzip.compress(b"".join(lines[:-1])),
        gzip.compress(b"".join([*lines[:5], *lines[6:]])), gzip.compress(b"".join(lines) + b"more"),
    ]):  # fmt: skip
        file = tmp_path / f"bad{n}"
        file.write_bytes(raw)
        with pytest.raises(BadInput, match=f"bad{n}"):
            import_history(other, file)
    with pytest.raises(BadInput, match=r"cannot be read .*: check the path"):
        import_history(other, tmp_path / "none")


def test_a_history_needs_its_skill_here(place: Place, sent: Path) -> None:
    shutil.rmtree(place.skill)
    with pytest.raises(NotFound):
        import_history(place.open(store="third.db"), sent)


def test_no_secret_leaves_with_a_history(place: Place, workspace: Workspace, tmp_path: Path) -> None:
    record_trajectory(workspace, str(place.skill), Recording("what?", True))
    skill = workspace.skill(str(place.skill))
    with workspace.store._pool.write() as connection:  # as an older release, which knew fewer shapes, left it
        connection.execute("update trajectory set answer = ?, sum = null where skill_id = ?", [KEY, skill.id])
    place.propose(workspace, f"- use {storable(KEY)}")
    place.propose(workspace, LESSONS)
    made = export_history(workspace, str(place.skill), tmp_path / "clerk.history")
    assert KEY not in gzip.decompress(Path(made.file).read_bytes()).decode()
    assert [left.partition(":")[0].split()[0] for left in made.left_out] == ["version", "candidate"]
    got = import_history(place.open(store="third.db"), Path(made.file), str(place.skill))
    assert (got.candidates, got.trajectories) == (1, 1)


def test_no_secret_comes_in_with_a_history(
    place: Place, workspace: Workspace, other: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_trajectory(workspace, str(place.skill), Recording("what?", True))
    with workspace.store._pool.write() as connection:
        connection.execute("update trajectory set answer = ?, reason = ?, sum = null", [KEY, KEY])
    place.propose(workspace, f"- use {storable(KEY)}")
    place.propose(workspace, LESSONS)
    with monkeypatch.context() as blind:  # as a release that knew fewer shapes wrote it
        blind.setattr("skillopt_mcp.operations.stores.transferring.holds_secret", lambda *_: False)
        blind.setattr("skillopt_mcp.operations.stores.transferring.redacted_line", lambda _, line: line)
        made = export_history(workspace, str(place.skill), tmp_path / "clerk.history")
    assert KEY in gzip.decompress(Path(made.file).read_bytes()).decode()
    got = import_history(other, Path(made.file))
    assert [left.partition(":")[0].split()[0] for left in got.left_out] == ["version", "1"]
    assert (got.candidates, got.trajectories) == (1, 1)
    assert import_history(other, Path(made.file)).status == "nothing_new"
    other.store.close()
    assert KEY.encode() not in other.store.path.read_bytes()


def test_an_export_overwrites_nothing(workspace: Workspace, place: Place, sent: Path) -> None:
    before = sent.read_bytes()
    with pytest.raises(BadInput, match="is not overwritten"):
        export_history(workspace, str(place.skill), sent)
    with pytest.raises(BadInput, match="cannot be written"):
        export_history(workspace, str(place.skill), sent / "inside")
    assert sent.read_bytes() == before
    assert list(sent.parent.glob(".*")) == []


def test_what_cannot_be_taken_in_leaves_no_store_behind(place: Place, sent: Path, tmp_path: Path) -> None:
    fresh = place.open(store="fresh.db")
    cut = tmp_path / "cut.history"
    cut.write_bytes(sent.read_bytes()[:-20])
    plain = tmp_path / "plain.history"
    plain.write_text('{"kind": "heading"}')
    for file, said in (
        (tmp_path / "none", "check the path"),
        (cut, "cut short"),
        (plain, "is no history, or damaged: name a file that 'export' wrote"),
    ):
        with pytest.raises(BadInput, match=said):
            import_history(fresh, file)
    place.root.rename(place.folder / "elsewhere")
    with pytest.raises(NotFound, match=re.escape(f"skillopt-mcp import {sent} --skill PATH")):
        import_history(fresh, sent)
    assert not fresh.is_made
    assert import_history(fresh, sent, str(place.folder / "elsewhere" / "ledger-clerk")).status == "imported"


def test_an_attempt_that_was_changed_behind_the_program_stays_behind(
    place: Place, workspace: Workspace, sent: Path, tmp_path: Path
) -> None:
    with workspace.store._pool.write() as connection:
        [first] = connection.execute("select min(id) from trajectory").fetchone()
        connection.execute("update trajectory set answer = 'forged' where id = ?", [first])
    again = export_history(workspace, str(place.skill), tmp_path / "again")
    assert again.left_out == [f"trajectory:{first}: it is not what was written (skillopt-mcp verify)"]
    assert b"forged" not in gzip.decompress((tmp_path / "again").read_bytes())


def test_what_was_one_step_of_a_run_is_that_in_another_store_and_stays_it_here(
    place: Place, workspace: Workspace, tmp_path: Path
) -> None:
    run = start_run(workspace, str(place.skill), Config(epochs=1, batch=10, sessions=0, max_pairs=20))
    made = replay(workspace, run).candidate_id
    skill = workspace.skill(str(place.skill))
    steps = {each.id for each in workspace.store.candidates.list_candidates(skill.id, steps=True)} - {made}
    assert steps
    history = Path(export_history(workspace, str(place.skill), tmp_path / "clerk.history").file)
    assert rows_of(history)[0]["version"] == FORMAT_VERSION
    assert import_history(workspace, history).status == "nothing_new"
    assert [each.id for each in workspace.store.candidates.list_candidates(skill.id)] == [made]
    other = place.open(store="other.db")
    other.store.permissions.add_root(str(place.root))
    assert import_history(other, history).candidates == 1 + len(steps)
    theirs = other.skill(str(place.skill))
    assert len(other.store.candidates.list_candidates(theirs.id)) == 1
    [row] = list_skills(other).skills
    assert row.open_candidates == 1
    held = [each for each in other.store.candidates.list_candidates(theirs.id, steps=True) if each.origin == "step"]
    assert len(held) == len(steps)
    assert inspect(other, held[0].id).next_step.startswith("It was one step of a run elsewhere: inspect the skill")
