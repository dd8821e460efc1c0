from __future__ import annotations

from changes import at_a_terminal, make_accepted
from console import parsed

from skillopt_mcp.actions.promotions.consent import add_root, permit, revoke
from skillopt_mcp.actions.promotions.promoting import promote_skill
from skillopt_mcp.admin.backup import back_up
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.workspace.workspace import Workspace

EXACT = {"kind": "exact", "expected": "1"}


def _promote(place) -> None:
    candidate = make_accepted(place)
    with Workspace(place.store_path) as workspace:
        assert promote_skill(workspace.store, workspace.place, candidate, Consent.PERSON_SIMULATED).status == "promoted"


def test_a_backup_is_restored_after_a_yes(cli, make_place, tmp_path) -> None:
    place = make_place()
    file = tmp_path / "copy.db"
    assert cli("store", "backup", file, store=place.store_path).returncode == 0
    again = cli("store", "backup", file, store=place.store_path)
    assert (again.returncode, "is not overwritten" in again.stderr) == (1, True)
    (tmp_path / "later").mkdir()
    with Workspace(place.store_path) as workspace:
        add_root(workspace.store, str(tmp_path / "later"))
    unasked = cli("store", "restore", file, store=place.store_path)
    assert (unasked.returncode, "agree beforehand with --yes" in unasked.stderr) == (1, True)
    code, screen = at_a_terminal(place, "store", "restore", str(file), answer="n")
    assert (code, "It allows the skill root" in screen) == (1, True)
    with Workspace(place.store_path) as workspace:
        assert str(tmp_path / "later") in workspace.store.permissions.list_roots()
    code, screen = at_a_terminal(place, "store", "restore", str(file), answer="y")
    assert (code, "is kept as" in screen) == (0, True)
    with Workspace(place.store_path) as workspace:
        assert str(tmp_path / "later") not in workspace.store.permissions.list_roots()


def test_an_agent_in_its_shell_restores_nothing(cli, make_place, tmp_path, monkeypatch) -> None:
    """A backup may hold a permission that a person has taken back since."""
    place = make_place()
    file = tmp_path / "copy.db"
    with Workspace(place.store_path) as workspace:
        permit(workspace.store, workspace.place, str(place.skill_path), simulated=True)
        back_up(place.store_path, file)
        revoke(workspace.store, workspace.place, str(place.skill_path))
    monkeypatch.setenv("CLAUDECODE", "1")
    reported = cli("store", "restore", file, "--yes", store=place.store_path)
    assert (reported.returncode, "'store restore' is for a person" in reported.stderr) == (1, True)
    with Workspace(place.store_path) as workspace:
        assert workspace.store.permissions.get(1) is None
    monkeypatch.delenv("CLAUDECODE")
    reported = cli("store", "restore", file, "--yes", store=place.store_path)
    assert reported.returncode == 0, reported.stderr
    assert "It allows promotions of ledger-clerk without asking." in reported.stdout
    found = parsed(cli("store", "restore", file, "--yes", "--json", store=place.store_path))
    assert "promotions of ledger-clerk without asking" in found["allows"]


def test_verify_says_what_it_covers_and_a_changed_bit_of_a_reply_is_in_what_it_does_not(cli, make_place) -> None:
    place = make_place()
    _promote(place)
    with Workspace(place.store_path) as workspace, workspace.store.table(lambda pool: pool).write() as connection:
        n = connection.execute("update trial set reason = 'another' where rowid in (select min(rowid) from trial)")
        assert n.rowcount
    done = cli("store", "verify", store=place.store_path)
    assert (
        "Not checked, a changed bit there goes unnoticed: the text of replies and of recorded attempts;" in done.stdout
    )
    found = parsed(cli("store", "verify", "--json", store=place.store_path))
    assert "decisions, promotions, consents, and the findings of candidates" in found["covered"]
    assert ("reasons and edits" in found["not_covered"], found["problems"]) == (True, [])
