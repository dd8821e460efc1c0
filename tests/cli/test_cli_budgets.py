from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from changes import at_a_terminal
from console import SCRIPT, TARGET, Place, parsed

from skillopt_mcp.core.runs import Run
from skillopt_mcp.workspace.workspace import Workspace
from tests.vendors import Vendor, vending

SMALL = ("--epochs", "2", "--batch", "5")


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with vending() as lent:
        yield lent


def only_run(place: Place) -> Run:
    with Workspace(place.store_path) as workspace:
        [run] = workspace.store.runs.list_runs(workspace.place.skill("ledger-clerk").id)
    return run


def shown_command(text: str) -> list[str]:
    """Return the arguments of the command that a stopped run reported to go on."""
    [line] = [line for line in text.splitlines() if line.startswith("  skillopt-mcp replay")]
    program, *arguments = shlex.split(line)
    assert program == Path(SCRIPT).name
    return arguments


def test_at_a_terminal_a_person_is_asked_for_what_is_left(cli, make_place, vendor) -> None:
    place = make_place()
    backends = ("--target", vendor.spec(), "--optimizer", TARGET, *SMALL)
    cli("replay", "ledger-clerk", *backends, "--max-calls", "5", "--yes", store=place.store_path)
    resume = ("replay", "ledger-clerk", "--resume", "--max-calls", "12")
    code, screen = at_a_terminal(place, *resume, answer="n")
    assert (code, len(vendor.asked)) == (1, 5)
    assert "Spend that much? [y/N]" in screen
    assert "Nothing more was spent." in screen
    code, screen = at_a_terminal(place, *resume, answer="y")
    assert (code, len(vendor.asked)) == (1, 12)
    # What a person was asked for, a person is asked for again.
    assert "--resume --max-calls 24 --store" in " ".join(screen.split())


def test_a_cap_that_is_reached_by_calls_that_failed_says_how(cli, make_place, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    place = make_place()
    spec = "openai:m,base_url=http://127.0.0.1:9/v1"
    backends = ("--target", spec, "--optimizer", spec)
    done = cli("replay", "ledger-clerk", *backends, "--max-calls", "9", "--yes", store=place.store_path)
    assert done.returncode == 1
    failed = "9 sends failed, the last one so (connection): 127.0.0.1:9 (m): the connection failed"
    assert failed in done.stderr
    [row] = parsed(cli("show", "--json", store=place.store_path))["runs"]
    assert (row["n_calls"], row["n_failed"]) == (0, 9)
    shown = cli("show", row["id"], store=place.store_path).stdout
    assert failed in shown
    assert "caps: --max-calls 9; " in shown
    assert "target    rollout         0       0      9        0" in shown


def test_a_cap_without_a_known_price_is_refused_before_anything_is_sent(cli, make_place) -> None:
    place = make_place()
    spec = "openai:m,base_url=http://127.0.0.1:9,max_tokens=10"
    backends = ("--target", spec, "--optimizer", TARGET)
    done = cli("replay", "ledger-clerk", *backends, "--max-usd", "1", "--yes", store=place.store_path)
    assert done.returncode == 1
    assert "error: the price of 'openai:m" in done.stderr


def test_the_doctor_asks_each_backend_that_is_named(cli, home) -> None:
    done = cli("doctor", "--backend", "simulated:honest", "--backend", "openai:m,base_url=http://127.0.0.1:9")
    assert done.returncode == 1
    assert "Backend simulated:honest answers." in done.stdout
    [line] = done.stderr.splitlines()
    assert line.startswith("error: 127.0.0.1:9 (m): the connection failed")
    checked = json.loads(cli("doctor", "--backend", "simulated:honest", "--json").stdout)["checked"]
    assert checked == {"simulated:honest": None}


@pytest.mark.parametrize(
    ("answer", "is_ok"), [("ok", True), (" OK.\n", True), ("I'm ready to help. What task is this?", False)]
)
def test_the_doctor_shows_the_answer_and_warns_where_the_model_does_not_do_what_it_is_told(
    cli, home, vendor, answer: str, is_ok: bool
) -> None:
    vendor.answer, spec = answer, vendor.spec()
    done = cli("doctor", "--backend", spec)
    assert json.loads(cli("doctor", "--backend", spec, "--json").stdout)["answers"] == {spec: answer}
    assert done.returncode == 0
    assert f'answers: "{answer.strip()}".' in done.stdout
    assert ('was asked to answer "ok" and did not' in done.stderr) is not is_ok


def test_a_script_of_replies_names_the_stages_that_it_lacks_before_anything_is_spent(cli, make_place) -> None:
    place = make_place()
    script = place.store_path.parent / "script.json"
    script.write_text(json.dumps({"rollout": ["7"], "reflect": ['{"edits": []}']}))
    backends = ("--target", f"scripted:{script}", "--optimizer", f"scripted:{script}")
    for flags, lacking in (
        ((), "merge, rank, slow_update, meta_skill"),
        (("--epochs", "1", "--schedule", "autonomous"), "merge, rank, budget"),
    ):
        done = cli("replay", "ledger-clerk", *backends, *flags, "--dry-run", store=place.store_path)
        assert f"has no reply for {lacking}: a run that comes to one of these stops there" in done.stderr
    assert not parsed(cli("show", "--json", store=place.store_path))["runs"]
    script.write_text(json.dumps({name: ["7"] for name in ("rollout", "reflect", "merge", "rank")}))
    done = cli("replay", "ledger-clerk", *backends, "--epochs", "1", "--dry-run", store=place.store_path)
    assert "has no reply" not in done.stderr
