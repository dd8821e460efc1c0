"""Replays by the vendors' batch APIs decide as others do, survive kills, keep to caps, and pay no call twice."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from api_calls import ENVIRON
from batch_vendor import EXPIRED, OVERLOADED, Fate, batch_vendor
from clerk import CONFIG, SCRIPT, answer, decided, everything_kept, workspace
from loopback import KEY, Request

from skillopt_mcp.answering import run_backends
from skillopt_mcp.backends.batches import Patience
from skillopt_mcp.calls.spending import Budget
from skillopt_mcp.candidates import propose_edits
from skillopt_mcp.cli.main import main
from skillopt_mcp.dispatch import Sender, abandon, waiting_batches
from skillopt_mcp.errors import BackendError, CapReached, Outage, Refused, Stopped
from skillopt_mcp.judges.kinds.rubric import Rubric
from skillopt_mcp.records.budgets import Caps
from skillopt_mcp.records.results import Replayed
from skillopt_mcp.records.runs import Run
from skillopt_mcp.records.skills import SkillFile, SkillFiles
from skillopt_mcp.records.tasks import Task
from skillopt_mcp.runs import replay, start_run, unfinished_run
from skillopt_mcp.stages.rollout import Attempt, rollout
from skillopt_mcp.workspace import Workspace

SHORT = CONFIG.model_copy(update={"epochs": 1})
SOON = Patience(0.002, 1.5, 0.01)
PRICES = "price_in=1000,price_out=2000,price_batch=0.5,max_tokens=100"
RESPONSES, CHAT = f"openai:m,base_url={{url}}/v1,{PRICES}", f"openai:m,api=chat,base_url={{url}}/v1,{PRICES}"
ANTHROPIC = f"anthropic:m,base_url={{url}},{PRICES},price_cache_write=1000"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    folder = tmp_path_factory.mktemp("scripted")
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    with workspace(folder, f"scripted:{folder / 'script.json'}") as made:
        return replay(made, begin(made))


def begin(made: Workspace) -> Run:
    return start_run(made, str(made._project / "skills" / "clerk"), SHORT)


def found(result: Replayed) -> dict[str, object]:
    """Return what a run has found; how many attempts were asked in vain is another matter."""
    made = {name: value for name, value in decided(result).items() if name not in ("n_calls", "n_test_calls")}
    return made | {"test": result.test and result.test.model_dump(exclude={"models", "runs"})}


def spent_on(made: Workspace, run: Run) -> Counter[str]:
    scopes = made.store._pool.rows("select distinct scope from call")
    rows = [row for (scope,) in scopes for row in made.store.ledger.list_rows(str(scope))]
    return Counter({role: sum(row.n_calls for row in rows if row.role == role) for role in ("target", "optimizer")})


@pytest.mark.parametrize("spec", [RESPONSES, ANTHROPIC])
def test_a_replay_by_batch_decides_as_the_scripted_one_does_and_asks_no_rollout_at_once(
    spec: str, tmp_path: Path, scripted: Replayed
) -> None:
    with batch_vendor() as vendor, workspace(tmp_path, spec.format(url=vendor.url), SOON) as made:
        # The vendor is away for a while.
        vendor.refusals += [(path, 503, {"error": {"message": "busy"}}) for path in ("/content", "/results")]
        result = replay(made, run := begin(made))
        spent = spent_on(made, run)
        budget = made.store.budgets.get_spent(run.id)
        rows = {row.role: row for row in made.store.ledger.list_rows(run.id)}
        assert waiting_batches(made, run.id) == []
    assert found(result) == found(scripted)
    now = [each for each in vendor.requests if each.endswith(("/responses", "/completions", "/messages"))]
    assert len(now) == spent["optimizer"]
    assert vendor.paid.total() == len(vendor.paid) == spent["target"] > 80
    assert budget.calls == result.n_calls + result.n_test_calls == spent.total()
    assert budget.usd == pytest.approx(result.usd + result.test_usd)
    assert budget.tokens == result.tokens_in + result.tokens_out + result.test_tokens
    assert (vendor.files, [batch.id for batch in vendor.batches if "anthropic" in spec]) == ({}, [])
    assert KEY not in everything_kept(tmp_path)
    # Half the price for what comes by batch.
    for role, share in (("target", 0.5), ("optimizer", 1.0)):
        row = rows[role]
        assert row.usd == pytest.approx(share * (row.tokens_in * 1000 + row.tokens_out * 2000) / 1e6)


_CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from clerk import workspace
from skillopt_mcp.backends.batches import Patience
from skillopt_mcp.runs import replay, unfinished_run
with workspace(Path(sys.argv[1]), sys.argv[2], Patience(0.002, 1.5, 0.01)) as made:
    replay(made, unfinished_run(made, "clerk"))
"""
# The last request that a process makes: after it, it is killed before it can keep what it learned.
DEADLY = {
    RESPONSES: ("POST /v1/batches", "GET /v1/files/{}/content"),
    ANTHROPIC: ("POST /v1/messages/batches", "DELETE /v1/messages/batches/{}"),
}


@pytest.mark.parametrize("spec", [RESPONSES, ANTHROPIC])
def test_killed_around_every_step_of_a_batch_a_run_goes_on_and_pays_no_call_twice(
    spec: str, tmp_path: Path, scripted: Replayed
) -> None:
    with batch_vendor() as vendor:
        place = spec.format(url=vendor.url)
        with workspace(tmp_path, place, SOON) as made:
            begin(made)
        for deadly in DEADLY[spec]:
            child = subprocess.Popen([sys.executable, "-c", _CHILD, str(tmp_path), place, str(Path(__file__).parent)])
            vendor.on_request = killing(child, deadly)
            assert child.wait(60) == -signal.SIGKILL, deadly
        vendor.on_request = lambda method, path: None
        with workspace(tmp_path, place, SOON) as made:
            result = replay(made, run := unfinished_run(made, "clerk"))
            spent, budget = spent_on(made, run), made.store.budgets.get_spent(run.id)
    assert found(result) == found(scripted)
    assert vendor.paid.total() == len(vendor.paid) == spent["target"]
    assert budget.calls >= spent.total()


def killing(child: subprocess.Popen[bytes], deadly: str) -> Callable[[str, str], None]:
    head, _, tail = deadly.partition("{}")

    def kill(method: str, path: str) -> None:
        request = f"{method} {path}"
        fits = request == deadly if head == deadly else request.startswith(head) and request.endswith(tail)
        if fits:
            os.kill(child.pid, signal.SIGKILL)
            child.wait(60)

    return kill


@pytest.mark.parametrize(("spec", "fate"), [(CHAT, EXPIRED), (ANTHROPIC, OVERLOADED)])
def test_what_expires_or_fails_is_asked_again_in_the_next_wave(
    spec: str, fate: Fate, tmp_path: Path, scripted: Replayed
) -> None:
    seen: Counter[str] = Counter()

    def first_lost(request: Request) -> Fate:
        text = request.system + request.user
        seen[text] += 1
        return fate if seen[text] == 1 and len(seen) % 5 == 0 else answer(0, request)

    with batch_vendor(first_lost) as vendor, workspace(tmp_path, spec.format(url=vendor.url), SOON) as made:
        result = replay(made, begin(made))
        faults = {str(row[0]) for row in made.store._pool.rows("select fault from attempt")}
    assert found(result) == found(scripted)
    assert vendor.paid.total() == len(vendor.paid)
    assert faults == {"timeout" if fate is EXPIRED else "overloaded"}


def test_an_outage_stops_the_run_before_most_of_it_is_missing(tmp_path: Path) -> None:
    with batch_vendor(lambda _: OVERLOADED) as vendor, workspace(tmp_path, CHAT.format(url=vendor.url), SOON) as made:
        # One answer, so that the others are missing and not silence.
        once = iter([lambda request: answer(0, request)])
        vendor.fate = lambda request: next(once, lambda _: OVERLOADED)(request)
        run = begin(made)
        with pytest.raises(Outage, match=r"of the last 20 calls failed \(\d+ overloaded\). Nothing that was answered"):
            replay(made, run)
        vendor.fate = lambda request: answer(0, request)
        assert 0 < replay(made, run).n_missing < 20


@pytest.mark.parametrize("cap", [{"calls": 30}, {"usd": 20.0}])
def test_no_batch_goes_above_a_cap_and_a_higher_one_lets_the_run_go_on(
    cap: dict[str, float], tmp_path: Path, scripted: Replayed
) -> None:
    with batch_vendor() as vendor, workspace(tmp_path, RESPONSES.format(url=vendor.url), SOON) as made:
        run = begin(made)
        for n in range(1, 100):
            made.caps = Caps(**{name: value * n for name, value in cap.items()})
            try:
                result = replay(made, run)
                break
            except CapReached:
                spent = made.store.budgets.get_spent(run.id)
                assert made.caps.exceeded(spent) is None
                assert waiting_batches(made, run.id) == []
        assert n > 2
    assert found(result) == found(scripted)
    assert vendor.paid.total() == len(vendor.paid)


def test_at_the_cap_on_minutes_the_batch_is_cancelled_and_the_rest_is_asked_when_the_run_goes_on(
    tmp_path: Path, scripted: Replayed
) -> None:
    with batch_vendor() as vendor, workspace(tmp_path, ANTHROPIC.format(url=vendor.url), SOON) as made:
        vendor.n_looks, made.caps = 1_000_000, Caps(minutes=0.03)
        run = begin(made)
        with pytest.raises(CapReached, match="--max-minutes"):
            replay(made, run)
        [batch] = waiting_batches(made, run.id)
        assert (batch.state, vendor.batches[0].is_cancelled) == ("cancelling", True)
        vendor.n_looks, made.caps = 1, Caps(minutes=60.0)
        result = replay(made, run)
        assert made.store.budgets.get_spent(run.id).calls == result.n_calls + result.n_test_calls
    assert found(result) == found(scripted)


def test_an_interrupted_run_stays_at_the_vendor_until_it_is_abandoned(tmp_path: Path, scripted: Replayed) -> None:
    def interrupt(standing: object) -> None:
        if standing.stage == "batch" and "is sent" in standing.note:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    with batch_vendor() as vendor, workspace(tmp_path, RESPONSES.format(url=vendor.url), SOON) as made:
        run = begin(made)
        with pytest.raises(KeyboardInterrupt):
            replay(made, run, interrupt)
        [batch] = waiting_batches(made, run.id)
        assert (batch.vendor_id, batch.n_calls, batch.state) == (vendor.batches[0].id, 12, "running")
        with (
            workspace(tmp_path, RESPONSES.format(url=vendor.url)) as at_once,
            pytest.raises(Refused, match=f"still at the vendor.*{batch.vendor_id} .12 calls.: go on with --batch-api"),
        ):
            replay(at_once, run)
        assert [each.id for each in abandon(made, run_backends(made, run), run.id)] == [batch.id]
        assert vendor.batches[0].is_cancelled
        assert found(replay(made, run)) == found(scripted)


def test_a_batch_that_somebody_else_cancelled_stops_the_run(tmp_path: Path, scripted: Replayed) -> None:
    with batch_vendor() as vendor, workspace(tmp_path, ANTHROPIC.format(url=vendor.url), SOON) as made:
        vendor.on_request = lambda method, path: [setattr(batch, "is_cancelled", True) for batch in vendor.batches[:1]]  # type: ignore[assignment]
        run = begin(made)
        with pytest.raises(Stopped, match="was cancelled; nothing that was answered is lost"):
            replay(made, run)
        vendor.on_request = lambda method, path: None
        assert found(replay(made, run)) == found(scripted)
        assert made.store._pool.rows("select count(*) from attempt") == [(0,)]


def test_a_vendor_that_takes_no_batches_stops_the_run_and_leaves_nothing_behind(
    tmp_path: Path, scripted: Replayed
) -> None:
    with batch_vendor() as vendor, workspace(tmp_path, RESPONSES.format(url=vendor.url), SOON) as made:
        vendor.refusals.append(("POST /v1/batches", 404, {"error": {"message": "no"}}))
        run = begin(made)
        with pytest.raises(BackendError, match=r"took no batch: .*check the model's name"):
            replay(made, run)
        assert (waiting_batches(made, run.id), vendor.files) == ([], {})
        assert made.store.budgets.get_spent(run.id).calls == 0
        assert found(replay(made, run)) == found(scripted)


def test_a_batch_that_is_refused_for_the_queue_is_sent_again_and_any_other_stops_the_run(
    tmp_path: Path, scripted: Replayed
) -> None:
    with batch_vendor() as vendor, workspace(tmp_path, CHAT.format(url=vendor.url), SOON) as made:
        vendor.failures = ["token_limit_exceeded", "token_limit_exceeded", "invalid_json_line"]
        run = begin(made)
        with pytest.raises(BackendError, match=r"took no batch: .*400 no"):
            replay(made, run)
        assert [batch.failed for batch in vendor.batches][-1] == "invalid_json_line"
        assert made.store.budgets.get_spent(run.id).calls == 0
        assert found(replay(made, run)) == found(scripted)


def test_a_judge_is_asked_by_batch_too_and_commands_and_the_target_at_once(tmp_path: Path) -> None:
    def grade(request: Request) -> Fate:
        assert "Is it kind?" in request.system + request.user
        return '{"reasoning": "", "grade": "most"}'

    (tmp_path / "script.json").write_text('{"rollout": [{"reply": "hello"}]}')
    with batch_vendor(grade) as vendor, Workspace(
        tmp_path / "store" / "s.db", target=f"scripted:{tmp_path / 'script.json'}",
        judge=RESPONSES.format(url=vendor.url), project=tmp_path, batch=SOON,
    ) as made:  # fmt: skip
        judge = Rubric(rubric="Is it kind?")
        task = Task(1, 1, "t", "Greet.", judge, "val", "d" * 64)
        sender, backends = Sender(made, Budget("t-1")), made.backends_for([task])
        files = SkillFiles((SkillFile("SKILL.md", b"# S"),))
        trials = sender.send(backends, "t-1", lambda ask: rollout(ask, [Attempt(files, task, f"d/{n}") for n in "ab"]))
    assert isinstance(trials, list)
    assert [(trial.soft, trial.reply.text) for trial in trials] == [(0.75, "hello")] * 2
    assert vendor.paid.total() == 2


def test_a_batch_of_as_many_calls_is_waited_for_until_its_names_show_whose_it_is(tmp_path: Path) -> None:
    with batch_vendor() as vendor, workspace(tmp_path, ANTHROPIC.format(url=vendor.url), SOON) as made:
        run = begin(made)
        other = {"requests": [{"custom_id": f"other-{n}", "params": {}} for n in range(12)]}
        foreign = vendor._opened(other, is_openai=False)
        foreign.looks_left = 10**6

        def end(method: str, path: str) -> None:
            if vendor.requests.count("GET /v1/messages/batches") == 3:
                foreign.outcomes = {f"other-{n}": {"type": "canceled"} for n in range(12)}

        vendor.on_request = end
        vendor.refusals.append(("POST /v1/messages/batches", 529, {"error": {"message": "busy"}}))
        assert replay(made, run).status == "finished"
    assert vendor.requests.count("GET /v1/messages/batches") >= 4
    assert vendor.paid.total() == len(vendor.paid)


def test_on_the_command_line_a_run_by_batch_is_stopped_abandoned_and_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store" / "s.db"
    with batch_vendor() as vendor:
        spec = RESPONSES.format(url=vendor.url)
        with workspace(tmp_path, spec):
            pass
        skill, vendor.n_looks = str(tmp_path / "skills" / "clerk"), 10**6
        backends = ["--target", spec, "--optimizer", spec, "--yes", "--epochs", "1"]
        begun = ["replay", skill, *backends, "--batch-api", "--max-minutes", "0.03", "--store", str(store)]
        assert main(begun) == 1
        shown = capsys.readouterr().err
        assert f"batch {vendor.batches[0].id} is sent: 12 calls" in shown
        assert f"Still at the vendor: {vendor.batches[0].id}." in shown
        vendor.batches[0].is_cancelled = False
        assert main(["replay", skill, "--abandon", "--store", str(store)]) == 0
        assert vendor.batches[0].is_cancelled
        assert f"Cancelled: {vendor.batches[0].id}." in capsys.readouterr().out
        vendor.n_looks = 1
        resumed = ["replay", skill, "--resume", "--max-minutes", "10", "--json", "--store", str(store)]
        assert main(resumed) == 1
        assert "there is no terminal to ask at" in capsys.readouterr().err
        assert main([*resumed, "--yes"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert (result["status"], result["verdict"]) == ("finished", "better")
        assert vendor.paid.total() == len(vendor.paid)
        options = ["--target", spec, "--batch-api", "--concurrency", "3", "--store", str(store)]
        # What has decided spends nothing.
        assert main(["evaluate", result["candidate_id"], *options]) == 0
        assert "At most" not in capsys.readouterr().err
        # The cost of such calls is known now, and shown before more is spent.
        with workspace(tmp_path, spec) as made:
            other = propose_edits(made, skill, [{"op": "append", "content": "- Another lesson."}]).candidate_id
        assert main(["evaluate", str(other), *options]) == 1
        shown = capsys.readouterr().err
    assert re.search(r"[Aa]t most (about )?[\d,]+ target calls", shown), shown
    assert re.search(r"at most about [\d,]+ tokens, \$[\d,.]+, minutes to a day for each batch\.", shown)
