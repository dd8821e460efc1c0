from __future__ import annotations

import json

from changes import at_a_terminal, make_accepted
from console import parsed

from skillopt_mcp.operations.consenting import Consent
from skillopt_mcp.operations.permitting import add_root
from skillopt_mcp.operations.promoting import promote_skill
from skillopt_mcp.operations.tasks import add_tasks
from skillopt_mcp.operations.workspace import Workspace
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
        assert str(tmp_path / "later") in workspace.store.skills.list_roots()
    code, screen = at_a_terminal(place, "restore", str(file), answer="y")
    assert (code, "is kept as" in screen) == (0, True)
    with Workspace(place.store_path) as workspace:
        assert str(tmp_path / "later") not in workspace.store.skills.list_roots()


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
    assert "was here already" in cli("import", file, store=place.store_path).stdout
    third = tmp_path / "third.db"
    with Workspace(place.store_path) as workspace:
        task = workspace.store.tasks.list_tasks(1)[0].name
    with Workspace(third) as workspace:
        add_tasks(workspace, str(place.skill_path), [{"id": task, "prompt": "else", "judge": EXACT}])
    clash = cli("import", file, store=third)
    assert (clash.returncode, f"conflict: task '{task}'" in clash.stderr) == (1, True)
    assert cli("import", file, "--keep-mine", store=third).returncode == 0
