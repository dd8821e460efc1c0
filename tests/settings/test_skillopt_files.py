"""SkillOpt's published settings files are read, and what they mean for a company's endpoint goes to no other one."""

from pathlib import Path

import pytest

from skillopt_mcp.backends.openai import open_openai
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.errors import BadInput, Unset
from skillopt_mcp.settings.settling import load_settings

PUBLISHED = Path(__file__).parent / "skillopt_configs"
FILES = sorted(PUBLISHED.rglob("*.yaml"))
MODELS = ("model.target=gpt-5.5", "model.optimizer=gpt-5.5")
AZURE = "model.azure_openai_endpoint=https://contoso.openai.azure.com"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_every_published_file_is_read(path: Path) -> None:
    settings = load_settings(path, [], {})
    assert settings.target == settings.optimizer == "openai:gpt-5.5,azure=on,api_version=2024-12-01-preview"
    assert settings.config.epochs == 4


def test_there_are_eight_published_files() -> None:
    assert len(FILES) == 8


@pytest.mark.parametrize(
    ("pairs", "spec"),
    [
        (["model.backend=azure_openai", "model.target_backend=openai_chat"], "openai:gpt-5.5,azure=on"),
        (["model.target_backend=openai_chat", AZURE], "openai:gpt-5.5,azure=on,base_url=https://contoso.openai.azure.com"),
        ([AZURE], "openai:gpt-5.5,azure=on,base_url=https://contoso.openai.azure.com"),
        (
            [AZURE, "model.target_azure_openai_endpoint=https://own.openai.azure.com"],
            "openai:gpt-5.5,azure=on,base_url=https://own.openai.azure.com",
        ),
        (["backend=azure_openai"], "openai:gpt-5.5,azure=on"),
        (
            ["model.target_backend=minimax_chat", "model.target_minimax_base_url=https://a.example/v1"],
            "openai:gpt-5.5,base_url=https://a.example/v1,key_env=MINIMAX_API_KEY",
        ),
        (["model.backend=azure_openai", "model.target_backend=codex_exec"], "codex:gpt-5.5"),
        (["model.target_backend=openai_chat"], "openai:gpt-5.5"),
    ],
)  # fmt: skip
def test_a_role_is_asked_where_the_settings_say(pairs: list[str], spec: str) -> None:
    assert load_settings(None, [MODELS[0], *pairs], {}).target == spec


@pytest.mark.parametrize("backend", ["minimax_chat", "qwen_chat", "openai_compatible"])
def test_another_vendor_never_gets_the_key_of_openai(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key = backend.removesuffix("_chat").replace("qwen", "qwen_chat")
    settings = load_settings(None, [*MODELS, f"backend={backend}", f"model.{key}_base_url=https://a.example/v1"], {})
    monkeypatch.setenv("OPENAI_API_KEY", "of-openai")
    with pytest.raises(Unset, match=f"needs a key: set {key.upper()}_API_KEY"):
        open_backend(str(settings.target))
    monkeypatch.setenv(f"{key.upper()}_API_KEY", "of-the-vendor")
    assert open_openai(str(settings.target).partition(":")[2]).endpoint.secret.value == "of-the-vendor"


@pytest.mark.parametrize("backend", ["minimax_chat", "qwen_chat", "qwen", "openai_compatible"])
def test_a_server_without_an_address_is_refused(backend: str) -> None:
    with pytest.raises(BadInput, match=r"has no address: set model\.\w+_base_url"):
        load_settings(None, [*MODELS, f"model.backend={backend}"], {})


def test_keys_of_older_versions_and_of_own_environments_are_read(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        "model: {codex_trace_to_teacher: true, codex_path: /opt/codex}\n"
        "env: {name: mine, warehouse: {rows: 3}, tables: [a, b], depth_limit: 2}\n"
    )
    settings = load_settings(path, [], {})
    assert settings.environment == "mine"
    noted = " ".join(settings.notes)
    assert all(key in noted for key in ("model.codex_path", "env.warehouse", "env.tables", "codex_trace_to_teacher"))
    path.write_text("env: {split_rato: 2:1:7}\n")
    with pytest.raises(BadInput, match=r"did you mean .env\.split_ratio"):
        load_settings(path, [], {})
