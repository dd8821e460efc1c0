"""Registry: what a spec opens, what cannot be loaded is named, and no secret in a spec is kept."""

import sys
from pathlib import Path

import pytest
from clerk import workspace

import skillopt_mcp
from skillopt_mcp.backends.registry import backend_table, open_backend, without_options
from skillopt_mcp.cli.main import main
from skillopt_mcp.core.errors import BackendError

TOKEN = "ghp_a8Kd93LsmQp20dkEls9dKq28dlsM01xkqoD3"
OWN_KEY = "zQ9xKc7LmW2pRt5VbN8j"
PACKAGE = Path(skillopt_mcp.__file__).parent


def test_the_documentation_has_the_table_of_the_registry() -> None:
    assert backend_table() in (PACKAGE.parent / "docs/backends.md").read_text("utf-8")


def test_what_cannot_be_loaded_here_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    for name in [name for name in sys.modules if name.startswith("skillopt_mcp.backends.")]:
        if "agents" in name or name.endswith((".codex", ".claude_code")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("skillopt_mcp.backends.registry._KINDS", {})
    with pytest.raises(BackendError, match="the backend 'codex' needs 'fcntl', which is not available here"):
        open_backend("codex:m")


def test_options_say_how_a_model_is_asked_and_not_which_one() -> None:
    assert without_options("openai:m,effort=low") == "openai:m"
    assert without_options("simulated:honest,seed=1") == "simulated:honest,seed=1"
    assert without_options("mine:m,effort=low") == "mine:m,effort=low"


OPEN = {"--target": "simulated:", "--optimizer": "simulated:", "--judge": "simulated:"}


@pytest.mark.parametrize(
    ("option", "spec"),
    [
        ("--target", f"openai:{TOKEN}"),
        ("--target", f"openai:m,base_url=http://user:{TOKEN}@localhost/v1"),
        ("--target", f"nonsense:{TOKEN}"),
        ("--target", f"openai:{OWN_KEY}"),
        ("--optimizer", f"claude-code:{TOKEN}"),
        ("--judge", f"scripted:{TOKEN}"),
        ("--judge", f"anthropic:m,key_env={OWN_KEY}"),
    ],
)
def test_a_spec_with_a_secret_is_refused_before_anything_is_stored(
    option: str, spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, OWN_KEY)
    with workspace(tmp_path, "simulated:"):
        pass
    flags = [text for pair in (OPEN | {option: spec}).items() for text in pair]
    store = tmp_path / "store" / "s.db"
    begun = ["replay", str(tmp_path / "skills" / "clerk"), *flags, "--yes", "--max-calls", "1", "--store", str(store)]
    assert main(begun) == 1
    shown = "".join(capsys.readouterr())
    kept = b"".join(path.read_bytes() for path in store.parent.iterdir() if path.is_file())
    for secret in (TOKEN, OWN_KEY):
        assert secret not in shown
        assert secret.encode() not in kept
    assert f"the spec of the {option[2:]} contains a secret" in shown
