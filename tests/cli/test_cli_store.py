from __future__ import annotations

import json
from pathlib import Path

import pytest
from changes import at_a_terminal, make_accepted
from console import parsed, run_forked

from skillopt_mcp.cli.main import main
from skillopt_mcp.operations.changes.consenting import Consent
from skillopt_mcp.operations.changes.permitting import add_root, permit, revoke
from skillopt_mcp.operations.changes.promoting import promote_skill
from skillopt_mcp.operations.stores.backing_up import back_up
from skillopt_mcp.operations.tasks.adding import add_tasks
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.store import migrating
from skillopt_mcp.store.pool import Pool

EXACT = {"kind": "exact", "expected": "1"}


def _promote(place) -> None:
    candidate = make_accepted(place)
    with Workspace(place.store_path) as workspace:
        assert promote_skill(workspace, candidate, Consent.PERSON_SIMULATED).status == "promoted"


def test_verify_says_that_all_is_well_and_lists_what_is_not(cli, make_place) -> None:
    place = make_place()
    _promote(place)
    done = cli("verify", store=place.store_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "is sound" in done.stdout
    found = parsed(cli("verify", "--json", store=place.store_path))
    assert (found["problems"], found["n_decisions"]) == ([], 1)
    place.main.write_text(place.main.read_text() + "mine\n")
    noted = cli("verify", "--holds", found["head"], store=place.store_path)
    assert noted.returncode == 0
    assert noted.stderr.startswith("note: the live files of 'ledger-clerk'")
    pool = Pool(place.store_path)
    with pool.write() as connection:
        connection.execute("update decision set verdict = 'reject'")
    pool.close()
    wrong = cli("verify", store=place.store_path)
    assert wrong.returncode == 1
    assert "error: decision 1 (confirm) says reject" in wrong.stderr
    wrong = cli("verify", "--json", store=place.store_path)
    assert (wrong.returncode, len(json.loads(wrong.stdout)["problems"])) == (1, 3)


def test_what_takes_long_on_a_big_store_is_shown_on_a_terminal_and_nowhere_else(cli, make_place, tmp_path) -> None:
    place = make_place()
    commands = [
        ("verify",),
        ("backup", str(tmp_path / "{}.db")),
        ("export", "ledger-clerk", str(tmp_path / "{}.history")),
        ("import", str(tmp_path / "shown.history")),
        ("restore", "--yes", str(tmp_path / "shown.db")),
    ]
    for name, *rest in commands:
        shown, silent, piped = ([name, *(each.format(at) for each in rest)] for at in ("shown", "silent", "piped"))
        code, screen = at_a_terminal(place, *shown, answer="")
        assert (code, "0:00:0" in screen) == (0, True), screen
        code, screen = at_a_terminal(place, *silent, "--json", answer="")
        assert (code, "0:00:0" in screen) == (0, False), screen
        done = cli(*piped, store=place.store_path)
        assert (done.returncode, "0:00:0" in done.stdout + done.stderr) == (0, False)


def test_a_store_of_an_older_release_is_told_to_be_a_newer_one_from_now_on(tmp_path, monkeypatch) -> None:
    newest = len(migrating.migration_files())
    paths = [tmp_path / "looked.db", tmp_path / "verified.db"]
    with monkeypatch.context() as older:
        files = migrating.migration_files()[:22]
        older.setattr(migrating, "migration_files", lambda: files)
        for path in paths:
            Pool(path).close()
    for path, command in zip(paths, ("skills", "verify"), strict=True):
        first, again = (run_forked(["--store", str(path), command, "--json"], tmp_path) for _ in range(2))
        assert first.returncode == again.returncode == 0
        told = f"the store '{path}' was brought from schema 22 to {newest}: releases that know no more than 22 refuse"
        if command == "skills":
            assert first.stderr.startswith(told)
            assert first.stdout == again.stdout
        else:
            assert json.loads(first.stdout)["notes"][0].startswith(told)
        assert again.stderr == ""


def test_a_backup_is_restored_after_a_yes(cli, make_place, tmp_path) -> None:
    place = make_place()
    file = tmp_path / "copy.db"
    assert cli("backup", file, store=place.store_path).returncode == 0
    again = cli("backup", file, store=place.store_path)
    assert (again.returncode, "is not overwritten" in again.stderr) == (1, True)
    (tmp_path / "later").mkdir()
    with Workspace(place.store_path) as workspace:
        add_root(workspace, str(tmp_path / "later"))
    unasked = cli("restore", file, store=place.store_path)
    assert (unasked.returncode, "agree beforehand with --yes" in unasked.stderr) == (1, True)
    code, screen = at_a_terminal(place, "restore", str(file), answer="n")
    assert (code, "It allows skill root" in screen) == (1, True)
    with Workspace(place.store_path) as workspace:
        assert str(tmp_path / "later") in workspace.store.permissions.list_roots()
    code, screen = at_a_terminal(place, "restore", str(file), answer="y")
    assert (code, "is kept as" in screen) == (0, True)
    with Workspace(place.store_path) as workspace:
        assert str(tmp_path / "later") not in workspace.store.permissions.list_roots()


def test_an_agent_in_its_shell_restores_nothing(cli, make_place, tmp_path, monkeypatch) -> None:
    """A backup may hold a permission that a person has taken back since."""
    place = make_place()
    file = tmp_path / "copy.db"
    with Workspace(place.store_path) as workspace:
        permit(workspace, str(place.skill_path), simulated=True)
        back_up(place.store_path, file)
        revoke(workspace, str(place.skill_path))
    monkeypatch.setenv("CLAUDECODE", "1")
    told = cli("restore", file, "--yes", store=place.store_path)
    assert (told.returncode, "'restore' is for a person" in told.stderr) == (1, True)
    with Workspace(place.store_path) as workspace:
        assert workspace.store.permissions.get(1) is None
    monkeypatch.delenv("CLAUDECODE")
    told = cli("restore", file, "--yes", store=place.store_path)
    assert told.returncode == 0, told.stderr
    assert "It allows promotions of ledger-clerk without asking." in told.stdout
    found = parsed(cli("restore", file, "--yes", "--json", store=place.store_path))
    assert "promotions of ledger-clerk without asking" in found["permits"]


def test_a_history_goes_from_one_store_to_another(cli, make_place, tmp_path) -> None:
    place = make_place()
    _promote(place)
    file = tmp_path / "clerk.history"
    assert cli("export", place.skill_path, file, store=place.store_path).returncode == 0
    other = tmp_path / "other.db"
    got = parsed(cli("import", file, "--skill", place.skill_path, "--json", store=other))
    assert (got["status"], got["tasks"], got["candidates"]) == ("imported", 60, 1)
    told = cli("history", "ledger-clerk", store=other).stdout
    assert "imported (of another store, nothing here rests on it)" in told
    times = [line.rpartition("it): ")[2].split()[0] for line in told.splitlines() if line.startswith("imported ")]
    assert len(times) > 1
    assert times == sorted(times, reverse=True)
    again = cli("import", file, store=place.store_path).stdout
    assert again.startswith("ledger-clerk: nothing of the file was taken in.\n")
    assert "was here already" in again
    third = tmp_path / "third.db"
    with Workspace(place.store_path) as workspace:
        task = workspace.store.tasks.list_tasks(1)[0].name
    with Workspace(third) as workspace:
        add_tasks(workspace, str(place.skill_path), [{"id": task, "prompt": "else", "judge": EXACT}])
    clash = cli("import", file, store=third)
    assert (clash.returncode, f"conflict: task '{task}'" in clash.stderr) == (1, True)
    assert cli("import", file, "--keep-mine", store=third).returncode == 0


def test_an_import_says_whose_history_it_is_and_what_its_candidates_were_made_from(
    cli, make_place, tmp_path, monkeypatch
) -> None:
    place = make_place()
    _promote(place)
    file = tmp_path / "clerk.history"
    assert cli("export", place.skill_path, file, store=place.store_path).returncode == 0
    stranger = tmp_path / "skills" / "stranger"
    stranger.mkdir(parents=True)
    (stranger / "SKILL.md").write_text("---\nname: stranger\ndescription: Another one.\n---\n# Another\n")
    other = tmp_path / "other.db"
    with Workspace(place.store_path) as workspace:
        [first, *_] = [task for task in workspace.store.tasks.list_tasks(1) if task.split == "train"]
    with Workspace(other) as workspace:
        add_tasks(workspace, str(stranger), [{"prompt": first.prompt, "judge": EXACT, "split": "test"}])
    monkeypatch.setenv("CLAUDECODE", "1")
    refused = cli("import", file, "--skill", stranger, store=other)
    assert (refused.returncode, 'it is the history of another skill: "ledger-clerk"' in refused.stderr) == (1, True)
    meant = ("import", file, "--skill", stranger, "--other-skill")
    clash = cli(*meant, store=other)
    assert (clash.returncode, "is in test here (task 'task-" in clash.stderr) == (1, True)
    assert "stranger: the file is the history of ledger-clerk.\n" in clash.stdout
    done = cli(*meant, "--keep-mine", store=other)
    assert done.returncode == 0
    assert done.stdout.startswith("stranger: of the history of ledger-clerk, ")
    assert "note: 1 held-out task here was train or val where its candidates were made" in done.stderr
    assert parsed(cli(*meant, "--keep-mine", "--json", store=other))["known_tasks"] == 1


def test_all_skills_of_a_folder_are_moved_after_a_look_at_the_list(cli, make_place, tmp_path) -> None:
    place = make_place()
    _promote(place)
    old, new = place.skill_path.parent, tmp_path / "elsewhere"
    old.rename(new)
    unasked = cli("skills", "move", old, new, store=place.store_path)
    assert (unasked.returncode, "or agree beforehand with --yes" in unasked.stderr) == (1, True)
    moves = f"{place.skill_path}\n    -> {new / place.skill_path.name}\n"
    assert unasked.stdout == moves
    code, screen = at_a_terminal(place, "skills", "move", str(old), str(new), answer="n")
    assert (code, "Move this skill? [y/N]" in screen, "Nothing was moved." in screen) == (1, True, True)
    done = cli("skills", "move", old, new, "--yes", store=place.store_path)
    assert (done.returncode, f"Moved from {old} to {new}: 1 of 1 skill." in done.stdout) == (0, True)
    assert parsed(cli("skills", "--json", store=place.store_path))["skills"][0]["path"].startswith(str(new))


def test_a_look_at_the_users_own_store_makes_none(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SKILLOPT_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    for looks, told in (
        (["skills"], "No skill was found"),
        (["runs"], "No run yet"),
        (["judges"], "No command is registered"),
        (["harvest", "--dry-run"], "0 attempts would be recorded"),
        (["doctor"], "not made yet"),
    ):
        assert main(looks) == 0
        assert told in "".join(capsys.readouterr())
    assert list(home.iterdir()) == []


def test_the_doctor_names_what_is_kept_beside_a_store_and_how_large_it_is(cli, make_place) -> None:
    place = make_place()
    kept = [Path(f"{place.store_path}{end}") for end in (".schema-3", ".replaced-20260101-000000")]
    for n, each in enumerate(kept, 1):
        each.write_bytes(bytes(n * 1_600_000))
    told = cli("doctor", store=place.store_path).stdout
    assert (
        f"Kept from before the schema was changed: {kept[0]} (1.6 MB).\n"
        f"Kept from before a restore: {kept[1]} (3.2 MB).\n"
        "Each of these is a whole store: remove it when you need no way back to it.\n"
    ) in told
    kept[0].unlink()
    kept[1].unlink()
    assert "Kept from" not in cli("doctor", store=place.store_path).stdout
