"""What a run survives: kills, caps, an interrupt, a failing vendor; nothing is paid twice, no fault is a score."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.doors import Facts, Workbench
from tests.acceptance.world import KINDS, TAUGHT, Fault, Request, Vendor, lesson, make_tasks
from tests.processes import Script

MOST_REPEATED = 4  # attempts of a promotion test that were lost for a cause that nobody verified
N_UNDER_WAY = 8
N_KILLS = 20 if os.environ.get("THOROUGH") else 5
SIZES = {"train": 8, "val": 8, "test": 16}
RUN: dict[str, Any] = {"epochs": 3, "batch": 4, "slow_samples": 4, "concurrency": 1}
PLAIN: dict[str, Any] = {"epochs": 2, "batch": 4, "slow_update": False, "meta_skill": False, "concurrency": 1}
ENDS = ("steps", "best_version", "verdict", "baseline", "test.solved", "test.units", "test.runs")


def end(facts: Facts) -> dict[str, Any]:
    """Return what two runs of the same have in common."""
    return {name: facts[name] for name in ENDS}


def bodies(vendor: Vendor) -> Counter[str]:
    """Return how often each request came."""
    return Counter(request.body for request in vendor.requests)


def assert_paid_once(found: Counter[str], expected: Counter[str], n_lost: int = 0) -> None:
    """Compare the requests with those of an undisturbed run, where so many were lost and sent again.

    Which held-out tasks a promotion test draws first is chance, so of these the number counts.
    """
    search = [
        Counter({body: n for body, n in each.items() if "(val " not in body and "(test " not in body})
        for each in (found, expected)
    ]
    assert search[1] - search[0] == Counter()
    assert (search[0] - search[1]).total() <= n_lost
    assert found.total() - expected.total() == n_lost


Calm = tuple[Facts, Counter[str]]


def undisturbed(folder: Path, endpoint: Vendor, options: dict[str, Any]) -> Calm:
    """Return the end of a run that nothing disturbs, and what it sent."""
    endpoint.reset()
    bench = Workbench(folder)
    bench.add_tasks(SIZES)
    done = bench.replay(target=endpoint.spec, optimizer=endpoint.spec, **options)
    return done, bodies(endpoint)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory, endpoint: Vendor) -> Calm:
    """Return the undisturbed run of most tests."""
    return undisturbed(tmp_path_factory.mktemp("calm"), endpoint, PLAIN)


def test_a_run_that_is_killed_at_many_points_ends_like_one_that_is_not(bench: Workbench, vendor: Vendor) -> None:
    expected, sent = undisturbed(bench.folder / "calm", vendor, RUN)
    vendor.reset()
    bench.add_tasks(SIZES)
    running: list[Script] = []
    points = [round((n + 1) * sent.total() / (N_KILLS + 2)) for n in range(N_KILLS)]
    killed: list[bool] = []  # in the promotion test, or in the search

    def act(n: int, request: Request) -> Fault | None:
        # A kill costs one request, which the next process sends again.
        if not points or n - len(killed) < points[0]:
            return None
        points.pop(0)
        in_test = "(test " in request.body
        if in_test and killed.count(True) == MOST_REPEATED:
            return None  # one more would count against the new text
        killed.append(in_test)
        running[-1].kill()
        return "reset"

    vendor.act = act
    options: dict[str, Any] = {"target": vendor.spec, "optimizer": vendor.spec, "yes": True, "json": True, **RUN}
    while not running or running[-1].wait() == -signal.SIGKILL:
        running.append(bench.start("replay", bench.skill_path, **options))
        options = {"resume": True, "concurrency": 1, "yes": True, "json": True}
    assert running[-1].returncode == 0, running[-1].err
    assert end(Facts(json.loads(running[-1].out))) == end(expected)
    assert_paid_once(bodies(vendor), sent, len(killed))
    assert len(killed) == len(running) - 1 >= N_KILLS // 2


@pytest.mark.parametrize("n_answered", [0, 5, 11])
def test_a_test_that_is_killed_with_eight_calls_under_way_goes_on_to_the_same_verdict(
    bench: Workbench, vendor: Vendor, n_answered: int
) -> None:
    bench.add_tasks({"train": 1, "test": 24})
    new = bench.folder / "NEW.md"
    new.write_text(TAUGHT.replace("NAME", "greeter"))
    running: list[Script] = []

    def act(n: int, _request: Request) -> Fault | None:
        if n == n_answered + N_UNDER_WAY:
            running[0].kill()
        return "hang" if n_answered < n <= n_answered + N_UNDER_WAY else None

    def paid() -> list[tuple[int, ...]]:
        with closing(sqlite3.connect(bench.store_path)) as store:
            return store.execute("select call_id, length(text) from reply order by call_id").fetchall()

    vendor.act = act
    options: dict[str, Any] = {"file": new, "target": vendor.spec, "concurrency": N_UNDER_WAY, "yes": True}
    running.append(bench.start("evaluate", bench.skill_path, **options))
    assert running[0].wait() == -signal.SIGKILL
    before = paid()
    done = bench.facts("evaluate", bench.skill_path, **options)
    assert done.verdict == "better"
    assert done["test.lost.asked_again"] == MOST_REPEATED
    assert set(before) <= set(paid())
    assert len(vendor.requests) == len(paid()) + N_UNDER_WAY
    assert bench.facts("store verify")["problems"] == []


def test_an_interrupt_ends_with_130_and_asks_nothing_again(bench: Workbench, calm: Calm, vendor: Vendor) -> None:
    expected, sent = calm
    bench.add_tasks(SIZES)
    running: list[Script] = []

    def act(n: int, _request: Request) -> None:
        if n == 25:
            os.kill(running[0].pid, signal.SIGINT)

    vendor.act = act
    options: dict[str, Any] = {"target": vendor.spec, "optimizer": vendor.spec, **PLAIN}
    running.append(bench.start("replay", bench.skill_path, yes=True, json=True, **options))
    assert running[0].wait() == 130
    assert len(vendor.requests) <= 26
    assert end(bench.resume(concurrency=1)) == end(expected)
    assert_paid_once(bodies(vendor), sent, len(vendor.requests) - sent.total())
    assert len(vendor.requests) - sent.total() in (0, 1)


def test_a_cap_stops_a_run_whose_best_can_be_proven_or_which_goes_on(bench: Workbench, vendor: Vendor) -> None:
    bench.add_tasks(SIZES)
    stopped = bench.replay(target=vendor.spec, optimizer=vendor.spec, max_calls=40, exit_code=1, **PLAIN)
    assert (stopped["status"], stopped["n_steps"], len(vendor.requests)) == ("stopped", 2, 40)
    # The cap holds for the next process, too.
    assert bench.resume(exit_code=1)["status"] == "stopped"
    assert len(vendor.requests) == 40
    best = bench.prove_best(stopped["run_id"], max_calls=200)
    assert best.verdict == "better"
    assert not any(request.schema for request in vendor.requests[40:])
    with bench.serve() as server:
        text = str(server.tool("inspect", id=best["candidate_id"]))
    assert [lesson(kind) in text for kind in KINDS].count(True) == 2


@pytest.mark.parametrize(("cap", "most"), [({"max_calls": 10}, 10), ({"max_tokens": 4000}, 9)])
def test_two_processes_keep_one_cap(bench: Workbench, vendor: Vendor, cap: dict[str, int], most: int) -> None:
    with bench.serve() as server:
        bench.add_tasks(SIZES)
        candidate_id = bench.good_candidate(server)
    both = threading.Barrier(2)

    def act(n: int, _request: Request) -> None:
        # So the second process begins while the first one has an answer open.
        if n == 1:
            with suppress(threading.BrokenBarrierError):
                both.wait(10)

    vendor.act = act
    options: dict[str, Any] = {"target": f"{vendor.spec},max_tokens=50", "concurrency": 4, "yes": True}
    first = bench.start("evaluate", candidate_id, json=True, **options, **cap)
    while not vendor.requests:
        assert first.poll() is None
    second = bench.start("evaluate", candidate_id, json=True, **options, **cap)
    with suppress(threading.BrokenBarrierError):
        both.wait(1)
    assert [first.wait(), second.wait()] == [1, 1], (first.err, second.err)
    assert 0 < len(vendor.requests) <= most
    assert "max_calls" not in cap or len(vendor.requests) == most
    done = bench.facts("evaluate", candidate_id, max_calls=500, max_tokens=500_000, **options)
    assert done.verdict == "better"


def test_two_processes_do_not_pay_for_one_run_twice(bench: Workbench, calm: Calm, vendor: Vendor) -> None:
    bench.add_tasks(SIZES)
    options: dict[str, Any] = {"target": vendor.spec, "optimizer": vendor.spec, **PLAIN}
    first = bench.start("replay", bench.skill_path, yes=True, json=True, **options)
    while len(vendor.requests) < 3:
        assert first.poll() is None
    second = bench.run("replay", bench.skill_path, resume=True, yes=True, json=True)
    # The second one was refused, or helped.
    assert (first.wait(), second.exit_code in (0, 1)) == (0, True)
    assert_paid_once(bodies(vendor), calm[1])


RETRIED: dict[int, Fault] = {2: "http 500", 3: "reset", 4: "http 429", 5: "http 500"}
NEVER: tuple[Fault, ...] = ("http 400", "empty", "cut", "html", "garbage", "hang")


def test_passing_faults_change_nothing_but_the_number_of_sends(bench: Workbench, calm: Calm, vendor: Vendor) -> None:
    expected, sent = calm
    bench.add_tasks(SIZES)
    vendor.act = lambda n, _request: RETRIED.get(n)
    done = bench.replay(target=vendor.spec, optimizer=vendor.spec, **PLAIN)
    assert end(done) == end(expected)
    assert_paid_once(bodies(vendor), sent, len(RETRIED))


def test_what_the_target_brings_about_is_a_failure_and_no_other_fault_is_a_score(
    bench: Workbench, vendor: Vendor, impatient: None
) -> None:
    """Some val tasks are never answered: of 16 that count, the empty answer and the one that is cut off have failed."""
    bench.skill_file.write_text(TAUGHT.replace("NAME", "greeter"))
    faults = {f"(val {n})": fault for n, fault in enumerate(NEVER)}
    vendor.act = lambda _n, request: next((fault for task, fault in faults.items() if task in request.text), None)
    settings = {name: value for name, value in PLAIN.items() if name != "concurrency"}
    done = bench.train(SIZES | {"val": 20}, settings, target=f"{vendor.spec},timeout=0.3", optimizer=vendor.spec)
    n_missing = len(NEVER) + 2 * 3  # what was lost on the way (html, garbage, hang) is asked for twice more
    assert (done["baseline"], done["n_missing"], done["n_failed"] >= len(NEVER)) == (0.875, n_missing, True)


@pytest.mark.parametrize("fault", ["http 401", "http 404"])
def test_an_outage_stops_the_run_which_goes_on(bench: Workbench, calm: Calm, vendor: Vendor, fault: Fault) -> None:
    expected, sent = calm
    bench.add_tasks(SIZES)
    vendor.act = lambda n, _request: fault if n > 30 else None
    stopped = bench.replay(target=vendor.spec, optimizer=vendor.spec, exit_code=1, **PLAIN)
    assert (stopped["status"], stopped["n_steps"]) == ("stopped", 1)
    answered = vendor.requests[:30]
    vendor.requests.clear()
    vendor.act = lambda _n, _request: None
    assert end(bench.resume(concurrency=1)) == end(expected)
    assert_paid_once(bodies(vendor) + Counter(request.body for request in answered), sent)


CODES: list[tuple[int, tuple[object, ...], dict[str, Any]]] = [
    (0, ("tasks add", "greeter", "tasks.jsonl"), {"json": True}),
    (0, ("skills",), {"json": True}),
    (0, ("--version",), {}),
    (0, ("replay", "--help"), {}),
    (1, ("show", "c-000000000000"), {"json": True}),
    (1, ("evaluate", "c-000000000000"), {"json": True, "yes": True, "target": "simulated:honest,seed=1"}),
    (2, ("nonsense",), {}),
    (2, ("replay", "greeter"), {"epochs": "many"}),
    (2, ("skills",), {"nonsense": True}),
]


def test_exit_codes(bench: Workbench) -> None:
    (bench.project / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in make_tasks({"val": 2})))
    for code, words, options in CODES:
        done = bench.run(str(words[0]), *words[1:], **options)
        assert done.exit_code == code, (words, done)
        if options.get("json") and not code:
            assert done.facts
        if code:
            assert done.err or done.out
