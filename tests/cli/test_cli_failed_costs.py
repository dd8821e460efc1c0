"""What commands tell of their sends, tokens and money is what the endpoint has counted, though many of them fail."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from console import Cli, Place, parsed
from test_cli_budgets import SMALL
from test_cli_gates import proposed

TOKENS, USD = 110, 0.00012


class Vendor(ThreadingHTTPServer):
    """A model at one and two dollars per million tokens that fails in each of its ways in turn, or in one alone."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.ways = ["", "", "cut", "", "", "length", "", "", "nousage", "", "", "500", "", "", "", ""]
        self.sent: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def spec(self) -> str:
        options = "api=chat,max_tokens=100,price_in=1,price_out=2,timeout=5"
        return f"openai:m,base_url=http://127.0.0.1:{self.server_port}/v1,{options}"

    def way(self) -> str:
        """Return in which way the next answer is to fail, "" for none."""
        with self._lock:
            way = self.ways[self.sent.total() % len(self.ways)]
            self.sent[way] += 1
        return way

    def agrees(self, told: dict[str, Any]) -> None:
        """Check what is told of all that this vendor was sent; of what it said to have used, `cut` never came."""
        n_paid = self.sent[""] + self.sent["length"]
        assert told["n_sent"] == self.sent.total()
        assert told["n_failed"] == self.sent["cut"] + self.sent["500"] + self.sent["length"] + self.sent["401"]
        assert told["n_unpriced"] == self.sent["cut"] + self.sent["nousage"]
        assert told["usd_known"] == pytest.approx(USD * n_paid)
        assert (told["n_repeated"], told["n_unanswered"]) == (0, 0)
        if not self.sent["nousage"]:
            assert told["tokens"] == TOKENS * n_paid


class _Handler(BaseHTTPRequestHandler):
    server: Vendor
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        way = self.server.way()
        choice = {"index": 0, "finish_reason": "length" if way == "length" else "stop"}
        body: dict[str, object] = {
            "id": "c", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [choice | {"message": {"role": "assistant", "content": "no"}}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }  # fmt: skip
        if way == "nousage":
            del body["usage"]
        content = json.dumps(body if way not in ("500", "401") else {"error": {"message": "no"}}).encode()
        self.send_response(int(way) if way in ("500", "401") else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:40] if way == "cut" else content)
        self.close_connection = way == "cut"

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with Vendor() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def told(cli: Cli, place: Place) -> dict[str, Any]:
    """Return the sums of what runs, and what is beside them, are told to have used."""
    listed = parsed(cli("runs", "--json", store=place.store_path))
    names = ("n_sent", "n_failed", "n_unanswered", "n_repeated", "n_unpriced", "usd_known", "tokens")
    return {name: sum(row[name] for row in listed["runs"] + listed["beside"]) for name in names}


def begun(cli: Cli, place: Place, vendor: Vendor, *options: str) -> str:
    """Return what a replay tells on standard error that asks the vendor alone."""
    backends = ("--target", vendor.spec, "--optimizer", vendor.spec, *SMALL, "--slots", "4")
    return cli("replay", "ledger-clerk", *backends, *options, "--yes", store=place.store_path).stderr


def test_what_a_run_tells_is_what_the_endpoint_counted(cli: Cli, make_place, vendor: Vendor) -> None:
    place = make_place()
    stopped = begun(cli, place, vendor, "--max-calls", "20")
    assert "the cap of 20 calls (--max-calls) is reached, with 20 calls" in stopped
    vendor.agrees(told(cli, place))
    cli("replay", "ledger-clerk", "--resume", "--max-calls", "36", "--yes", store=place.store_path)
    assert vendor.sent.total() == 36
    vendor.agrees(told(cli, place))


@pytest.mark.parametrize("way", ["length", "401"])
def test_what_ended_a_run_is_told_once_and_nothing_of_it_as_lost_when_it_goes_on(
    cli: Cli, make_place, vendor: Vendor, way: str
) -> None:
    place = make_place()
    vendor.ways = [way]
    assert "Nothing that was answered is lost" in begun(cli, place, vendor, "--max-calls", "60")
    assert vendor.sent[way]
    vendor.agrees(told(cli, place))
    vendor.ways = [""]
    again = cli("replay", "ledger-clerk", "--resume", "--yes", store=place.store_path)
    assert "the cap of 60 calls" in again.stderr
    vendor.agrees(told(cli, place))
    [row] = parsed(cli("runs", "--json", store=place.store_path))["runs"]
    assert "lost with a process" not in cli("show", row["id"], store=place.store_path).stdout


def test_what_a_cap_sets_aside_is_told_as_charged_and_not_as_used(cli: Cli, make_place, vendor: Vendor) -> None:
    place = make_place()
    vendor.ways = ["cut", ""]
    stopped = begun(cli, place, vendor, "--max-usd", "0.02")
    assert "the cap of $0.02 (--max-usd) is reached, with " in stopped
    assert " calls, up to " in stopped
    assert " tokens and $0.02 charged, 0." in stopped
    [row] = parsed(cli("runs", "--json", store=place.store_path))["runs"]
    vendor.agrees(row)
    shown = cli("show", row["id"], store=place.store_path).stdout
    used = f"used {row['n_sent']} sends, {row['tokens']:,} tokens, ${row['usd_known']:.2f} + {row['n_unpriced']} sends "
    assert f"caps: --max-usd 0.02; {used}of unknown price, 0." in shown
    assert " minutes; charged up to " in shown


def test_what_contests_and_tests_by_hand_tell_is_what_the_endpoint_counted(
    cli: Cli, make_place, vendor: Vendor
) -> None:
    place = make_place()
    candidate_id = proposed(place, "- One.")
    done = cli(
        "calibrate",
        "ledger-clerk",
        "--target",
        vendor.spec,
        "--pairs",
        "8",
        "--gain",
        "0.5",
        "--yes",
        store=place.store_path,
    )
    assert (done.returncode, "Used in all: 16 calls (" in done.stdout) == (0, True), done.stderr
    vendor.agrees(told(cli, place))
    options = ("--target", vendor.spec, "--max-pairs", "8", "--yes")
    done = cli("evaluate", candidate_id, *options, store=place.store_path)
    assert (done.returncode, "Used in all: 16 calls (" in done.stdout) == (0, True), done.stderr
    vendor.agrees(told(cli, place))
