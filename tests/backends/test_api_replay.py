"""A whole replay through each backend over HTTP decides as the scripted one does, and keeps no secret."""

import json
from pathlib import Path

import pytest
from api_calls import ENVIRON
from clerk import SCRIPT, answer, decided, everything_kept, replayed, stage_of
from loopback import KEY, Act, Request, Sent, loopback

from skillopt_mcp.backends import spending as retrying
from skillopt_mcp.core.results import Replayed

SPECS = ["openai:m,base_url={url}/v1", "openai:m,api=chat,base_url={url}/v1", "anthropic:m,base_url={url}"]


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    folder = tmp_path_factory.mktemp("scripted")
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    return replayed(folder, f"scripted:{folder / 'script.json'}")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {fault: policy._replace(wait_s=policy.wait_s / 100) for fault, policy in retrying.POLICIES.items()}
    monkeypatch.setattr(retrying, "POLICIES", quick)


@pytest.mark.parametrize("spec", SPECS)
def test_a_replay_decides_as_the_scripted_one_does_and_keeps_no_key(
    spec: str, tmp_path: Path, scripted: Replayed, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    failed: set[str] = set()

    def act(n: int, request: Request) -> Act:
        if n in (5, 30) and request.user not in failed:
            failed.add(request.user)
            return Sent(503, f"busy, {KEY}".encode(), {"retry-after": "0"})
        return answer(n, request)

    with loopback(act) as server:
        result = replayed(tmp_path, spec.format(url=server.url))
        n_sent = len(server.requests)
        rollouts = [request for request in server.requests if stage_of(request) == "rollout"]
    assert decided(result) == decided(scripted)
    assert failed
    assert n_sent == result.n_calls + result.n_test_calls + len(failed)
    assert len(rollouts) > 50
    assert not any("right" in request.system + request.user for request in rollouts)
    assert result.tokens_in > 0
    kept = everything_kept(tmp_path)
    assert "busy, $" in kept
    assert KEY not in kept + caplog.text + "".join(capfd.readouterr())
