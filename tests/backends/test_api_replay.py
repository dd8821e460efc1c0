"""A whole replay through each backend over HTTP decides as the scripted one does, and keeps no secret."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from api_calls import ENVIRON
from loopback import KEY, Act, Request, Sent, loopback
from sqlite_utils.utils import sqlite3

from skillopt_mcp.backends.api.messages import ROLLOUT
from skillopt_mcp.backends.scripted import Rule
from skillopt_mcp.errors import BackendError
from skillopt_mcp.operations.replaying import replay, start_run
from skillopt_mcp.operations.results import Replayed
from skillopt_mcp.operations.tasks import add_tasks
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config

RULES = [f"Rule {kind}: do {kind} with care." for kind in ("one", "two", "three")]
SPECS = ["openai:m,base_url={url}/v1", "openai:m,api=chat,base_url={url}/v1", "anthropic:m,base_url={url}"]
CONFIG = Config(epochs=2, batch=12, minibatch=4, max_pairs=60, slow_update=False, meta_skill=False)


def patch(rule: str, **more: object) -> str:
    return json.dumps({"reasoning": "it failed", "edits": [{"op": "append", "content": f"- {rule}"}], **more})


def teaching(**more: object) -> list[dict[str, object]]:
    """Return rules that answer with the first lesson that is not in the evidence yet; the third does harm."""
    known = [{"match": RULES[n], "reply": patch(RULES[n + 1], **more)} for n in (1, 0)]
    return [*known, {"reply": patch(RULES[0], **more)}]


SCRIPT = {
    "rollout": [
        {"match": RULES[2], "reply": "wrong"},
        *({"match": [rule, f"kind {rule.split()[1][:-1]}"], "reply": "right"} for rule in RULES[:2]),
        {"reply": "wrong"},
    ],
    "reflect": teaching(),
    "merge": teaching(merged_from=[[1, 2]]),
    "rank": [{"reply": '{"reasoning": "", "ranking": [1]}'}],
}


def stage_of(request: Request) -> str:
    if request.system.startswith(ROLLOUT):
        return "rollout"
    marks = {"merge": "merged_from", "rank": '"ranking"'}
    return next((stage for stage, mark in marks.items() if mark in request.system), "reflect")


def answer(n: int, request: Request) -> str:
    text = f"{request.system}\n{request.user}"
    rules = [Rule.model_validate(rule) for rule in SCRIPT[stage_of(request)]]
    return next(rule.reply for rule in rules if rule.matches(text))


@contextmanager
def workspace(folder: Path, spec: str) -> Iterator[Workspace]:
    skill = folder / "skills" / "clerk"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: clerk\ndescription: Does things.\n---\n# Clerk\n\n- Do things.\n")
    with Workspace(folder / "store" / "s.db", target=spec, optimizer=spec, project=folder) as made:
        judge = {"kind": "exact", "expected": "right"}
        prompts = [f"Do item {n} of kind {('one', 'two', 'other')[n % 3]}." for n in range(36)]
        add_tasks(made, str(skill), [{"prompt": prompt, "judge": judge} for prompt in prompts])
        for role in ("target", "optimizer"):
            backend = made.backend(role)
            # A run's draws hang on its name and on its target's: with equal names all that is left is the answers.
            backend.name = backend.fingerprint = "the same"
        yield made


def replayed(folder: Path, spec: str) -> Replayed:
    with workspace(folder, spec) as made:
        return replay(made, start_run(made, str(folder / "skills" / "clerk"), CONFIG))


def decided(result: Replayed) -> dict[str, object]:
    return result.model_dump(exclude={"tokens_in", "tokens_out", "usd"})


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    folder = tmp_path_factory.mktemp("scripted")
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    return replayed(folder, f"scripted:{folder / 'script.json'}")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)


def everything_kept(folder: Path) -> str:
    """Return all that the store holds, as rows and as bytes."""
    connection = sqlite3.connect(folder / "store" / "s.db")
    try:
        tables = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
        dump = "\n".join(str(row) for (table,) in tables for row in connection.execute(f"select * from [{table}]"))
    finally:
        connection.close()
    files = [path.read_bytes() for path in (folder / "store").rglob("*") if path.is_file()]
    return dump + b"\n".join(files).decode("latin-1")


def test_the_script_makes_a_replay_in_which_something_is_decided(scripted: Replayed) -> None:
    assert [step.verdict for step in scripted.steps] == ["accept_best", "reject"]
    assert scripted.verdict == "accept"


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
    assert n_sent == result.n_calls + 2
    assert len(rollouts) > 50
    assert not any("right" in request.system + request.user for request in rollouts)
    assert result.tokens_in > 0
    kept = everything_kept(tmp_path)
    assert "busy, $" in kept
    assert KEY not in kept + caplog.text + "".join(capfd.readouterr())


def test_a_replay_stops_at_a_refused_key_and_goes_on_where_it_was(tmp_path: Path, scripted: Replayed) -> None:
    def act(n: int, request: Request) -> Act:
        return Sent(401, b'{"error": {"message": "revoked"}}') if n == 40 else answer(n, request)

    with loopback(act) as server, workspace(tmp_path, f"anthropic:m,base_url={server.url}") as made:
        run = start_run(made, str(tmp_path / "skills" / "clerk"), CONFIG)
        with pytest.raises(BackendError, match=r"401 revoked; set ANTHROPIC_API_KEY in the environment"):
            replay(made, run)
        assert len(server.requests) <= 48
        result = replay(made, run)
        assert decided(result) == decided(scripted)
        assert len(server.requests) <= result.n_calls + 8
