from __future__ import annotations

import json

from console import BACKENDS, TARGET, parsed

SMALL = ("--epochs", "2", "--batch", "5", "--max-pairs", "8")


def test_a_run_stops_at_its_cap_and_is_resumed_under_a_higher_one(cli, make_place) -> None:
    place = make_place()
    done = cli("replay", "ledger-clerk", *BACKENDS, *SMALL, "--max-calls", "30", store=place.store_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the cap of 30 calls (--max-calls) is reached, with 30 calls" in done.stderr
    assert f"  skillopt-mcp replay ledger-clerk --resume --store {place.store_path}\n" in done.stderr
    again = cli("replay", "ledger-clerk", "--resume", "--max-calls", "31", "--json", store=place.store_path)
    assert again.returncode == 1
    told = json.loads(again.stdout)
    assert told["status"] == "stopped"
    assert "the cap of 31 calls" in told["reason"]
    ended = parsed(cli("replay", "ledger-clerk", "--resume", "--max-usd", "1", "--json", store=place.store_path))
    assert ended["status"] == "finished"


def test_a_promotion_test_stops_at_its_cap(cli, make_place) -> None:
    place = make_place()
    run = parsed(cli("replay", "ledger-clerk", *BACKENDS, *SMALL, "--max-pairs", "1", "--json", store=place.store_path))
    candidate = str(run["candidate_id"])
    flags = ("--target", TARGET, "--max-calls", "1")
    done = cli("evaluate", candidate, *flags, "--json", store=place.store_path)
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "stopped"


def test_a_cap_without_a_known_price_is_refused_before_anything_is_sent(cli, make_place) -> None:
    place = make_place()
    spec = "openai:m,base_url=http://127.0.0.1:9,max_tokens=10"
    backends = ("--target", spec, "--optimizer", TARGET)
    done = cli("replay", "ledger-clerk", *backends, "--max-usd", "1", "--yes", store=place.store_path)
    assert done.returncode == 1
    assert "error: the price of 'openai:m" in done.stderr
    assert "tokens, money and minutes cannot be told" in done.stderr


def test_the_doctor_asks_each_backend_that_is_named(cli, home) -> None:
    done = cli("doctor", "--backend", "simulated:honest", "--backend", "openai:m,base_url=http://127.0.0.1:9")
    assert done.returncode == 1
    assert "Backend simulated:honest answers." in done.stdout
    [line] = done.stderr.splitlines()
    assert line.startswith("error: 127.0.0.1:9 (m): the connection failed")
    checked = json.loads(cli("doctor", "--backend", "simulated:honest", "--json").stdout)["checked"]
    assert checked == {"simulated:honest": None}
