"""Vendors: every word for a backend, above SkillOpt's base file or alone, with every spelling of an endpoint."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.training.settings.reading import Tree, parse_yaml, read_tree
from skillopt_mcp.training.settings.settling import Settings, load_settings, settle

BASE = Path(__file__).parent / "skillopt_configs" / "_base_" / "default.yaml"
# Each word of SkillOpt's -> how a spec of its vendor here begins, and what it has to hold; None: no backend.
AZURE, CODEX, CLAUDE = ("openai:", "azure=on"), ("codex:", ""), ("anthropic:", "")
QWEN, MINIMAX = ("openai:", "key_env=QWEN_CHAT_API_KEY"), ("openai:", "key_env=MINIMAX_API_KEY")
WORDS: dict[str, tuple[str, str] | None] = {
    "azure_openai": AZURE, "azure": AZURE, "azure-openai": AZURE, "openai_chat": ("openai:", ""),
    "openai": CODEX, "codex": CODEX, "codex_exec": CODEX, "claude": CLAUDE, "claude_chat": CLAUDE, "anthropic": CLAUDE,
    "claude_code_exec": ("claude-code:", ""), "qwen": QWEN, "qwen_chat": QWEN, "minimax": MINIMAX,
    "minimax_chat": MINIMAX, "openai_compatible": ("openai:", "key_env=OPENAI_COMPATIBLE_API_KEY"),
    "cursor_exec": None, "copilot_exec": None, "copilot_chat": None,
}  # fmt: skip
# Each spelling of an endpoint -> the host that a key of the file gives it, and for which role.
ENDPOINTS = {
    f"{role}{name}": f"https://{vendor}.example/v1"
    for role in ("", "target_", "optimizer_", "teacher_", "student_")
    for name, vendor in (
        ("azure_openai_endpoint", "azure"), ("azure_endpoint", "azure"), ("qwen_chat_base_url", "qwen"),
        ("minimax_base_url", "minimax"), ("openai_compatible_base_url", "compatible"),
    )
}  # fmt: skip
_VENDOR = {"azure=on": "azure", "key_env=QWEN": "qwen", "key_env=MINIMAX": "minimax", "key_env=OPENAI": "compatible"}


def settled(folder: Path, text: str, *, has_base: bool, pairs: tuple[str, ...] = ()) -> Settings:
    path = folder / "mine.yaml"
    models = "" if has_base else "  target: gpt-5.5\n  optimizer: gpt-5.5\n"
    path.write_text(f"{f'_base_: {BASE}' if has_base else ''}\nmodel:\n  codex_exec_path: codex\n{models}{text}")
    return load_settings(path, pairs, {})


@pytest.mark.parametrize("has_base", [False, True], ids=["alone", "above the base file"])
@pytest.mark.parametrize("word", WORDS)
def test_nothing_that_is_meant_for_one_vendor_reaches_another(word: str, has_base: bool) -> None:
    named = (("backend",), ("target_backend", "optimizer_backend"), ("student_backend", "teacher_backend"))
    n_settled, base = 0, read_tree(parse_yaml(BASE.read_text(), "base"))
    for keys, (spelling, url) in itertools.product(named, [("azure_endpoint", ""), *ENDPOINTS.items()]):
        text: Tree = {**dict.fromkeys(keys, word), spelling: url}
        models: Tree = {"target": "gpt-5.5", "optimizer": "gpt-5.5"}
        vendor = WORDS[word]
        try:
            mine = read_tree({"model": {**({} if has_base else models), **text}})
            settings = settle([base, mine] if has_base else [mine], 1 + has_base)
        except BadInput as refused:
            reason = str(refused)
            assert vendor is None or "has no address: set model" in reason, text
            continue
        assert vendor is not None, text
        n_settled += 1
        for role, spec in (("target", settings.target), ("optimizer", settings.optimizer)):
            assert str(spec).startswith(vendor[0]), (text, spec)
            assert vendor[1] in str(spec), (text, spec)
            marked = next((name for mark, name in _VENDOR.items() if mark in str(spec)), None)
            # An address is its own vendor's, and that of the other role leads to none that is public.
            assert set(re.findall(r"https://(\w+)\.example", str(spec))) <= {marked}, (text, spec)
            if word == "openai_chat" and url.startswith("https://azure"):
                assert "azure=on" in str(spec), (text, role, spec)
            others = ("optimizer_", "teacher_") if role == "target" else ("target_", "student_")
            assert not (url and spelling.startswith(others) and url in str(spec)), (text, role, spec)
    assert n_settled or vendor is None


@pytest.mark.parametrize(
    ("word", "model"),
    [("claude", "anthropic:claude-sonnet-4-6"), ("claude_code_exec", "claude-code:claude-sonnet-4-6"),
     ("minimax", "openai:MiniMax-M2.7"), ("qwen", "openai:Qwen/Qwen3.5-4B"), ("codex", "codex:gpt-5.5")],
)  # fmt: skip
def test_the_default_model_of_another_vendor_is_replaced_and_named(word: str, model: str, tmp_path: Path) -> None:
    text = f"  backend: {word}\n  minimax_base_url: https://m.example/v1\n  qwen_chat_base_url: https://q.example/v1\n"
    found = settled(tmp_path, text, has_base=True)
    assert [str(spec).split(",")[0] for spec in (found.target, found.optimizer)] == [model, model]
    named = [note for note in found.notes if "is asked instead, as SkillOpt does" in note]
    assert [note.partition(":")[0] for note in named] == ([] if word == "codex" else ["model.target, model.optimizer"])
    typed = settled(tmp_path, text, has_base=True, pairs=("model.target=gpt-5.4",))
    assert str(typed.target).split(",")[0] == f"{model.partition(':')[0]}:gpt-5.4"


@pytest.mark.parametrize(
    ("text", "pairs", "specs"),
    [
        ("  target_backend: claude\n", ("model.backend=codex",), ("codex:gpt-5.5", "codex:gpt-5.5")),
        ("  backend: claude\n", ("model.target_backend=codex",), ("codex:gpt-5.5", "anthropic:claude-sonnet-4-6")),
        ("  backend: claude\n", ("target=simulated:honest",), ("simulated:honest", "anthropic:claude-sonnet-4-6")),
        ("", ("model.target=claude-code:haiku", "model.optimizer=codex:x"), ("claude-code:haiku", "codex:x")),
        (
            "  azure_openai_endpoint: https://a.example\n  azure_openai_auth_mode: openai_compatible\n", (),
            ("openai:gpt-5.5,base_url=https://a.example,key_env=AZURE_OPENAI_API_KEY",) * 2,
        ),
        (
            "  target_azure_openai_endpoint: https://old.example\n", ("azure_endpoint=https://new.example",),
            ("openai:gpt-5.5,azure=on,base_url=https://new.example,api_version=2024-12-01-preview",) * 2,
        ),
    ],
)  # fmt: skip
def test_the_nearest_word_wins(text: str, pairs: tuple[str, ...], specs: tuple[str, str], tmp_path: Path) -> None:
    found = settled(tmp_path, text, has_base=True, pairs=pairs)
    assert (found.target, found.optimizer) == specs


@pytest.mark.parametrize(
    ("text", "pairs", "message"),
    [
        ("", ("qwen_chat_base_url=https://q.example",), '"qwen_chat_base_url" is not where the target would be asked'),
        ("  target_minimax_base_url: https://m.example\n", (), "set model.target_backend to the backend that is meant"),
        ("  backend: claude\n", ("azure_endpoint=https://a.example",), "is not where the target would be asked"),
        ("  backend: cursor_exec\n", (), 'unknown backend "cursor_exec" in "model.backend"'),
    ],
)
def test_what_leads_to_no_backend_is_an_error(text: str, pairs: tuple[str, ...], message: str, tmp_path: Path) -> None:
    for has_base in (False, True):
        with pytest.raises(BadInput, match=re.escape(message)):
            settled(tmp_path, text, has_base=has_base, pairs=pairs)


def test_a_word_that_has_no_model_of_its_own_is_no_reason_to_ask_another(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("target: openai:gpt-5\noptimizer: openai:gpt-5\n")
    (tmp_path / "mine.yaml").write_text("_base_: base.yaml\nmodel: {backend: claude}\n")
    with pytest.raises(BadInput, match=r'"model\.backend" is "claude", but "target" names another backend'):
        load_settings(tmp_path / "mine.yaml", [], {})
