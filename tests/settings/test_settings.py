"""Settings: SkillOpt's own keys and files, the names of this program, and what becomes of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillopt_mcp.backends.openai import open_openai
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.core.errors import BadInput, Unset
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.settings.settling import Settings, load_settings, settle_mapping
from skillopt_mcp.training.settings.skillopt_names import (
    FIELDS,
    FIXED,
    IN_SECTION,
    RETIRED,
    SECTION_OF,
    SECTIONS,
    UNUSED,
)

# The shape that SkillOpt documents, every section of it, at values that are not the defaults.
STRUCTURED = """
_base_: ../base/default.yaml
model: {backend: azure_openai, optimizer: gpt-a, target: claude-b, optimizer_backend: openai_chat,
  target_backend: claude_chat, reasoning_effort: medium, rewrite_max_completion_tokens: 64000,
  codex_exec_path: codex, azure_openai_endpoint: "", azure_openai_api_key: "", minimax_model: ""}
train: {num_epochs: 3, train_size: 0, steps_per_epoch: 0, batch_size: 24, accumulation: 2, seed: 7}
gradient: {minibatch_size: 5, merge_batch_size: 6, analyst_workers: 16, failure_only: true}
optimizer: {learning_rate: 9, min_learning_rate: 3, lr_scheduler: linear, lr_control_mode: fixed,
  skill_update_mode: suggestions, use_slow_update: false, slow_update_samples: 11,
  slow_update_gate_with_selection: true, longitudinal_pair_policy: 10_01, use_meta_skill: false,
  use_skill_aware_reflection: true, skill_aware_appendix_source: failure_only, skill_aware_consolidate_threshold: 12}
evaluation: {use_gate: false, gate_metric: soft, gate_mixed_weight: 0.7, sel_env_num: 30, test_env_num: 40,
  eval_test: true}
env: {name: searchqa, skill_init: skills/initial.md, split_mode: split_dir, split_ratio: "2:1:7", split_seed: 42,
  split_dir: data/split, data_path: "", max_turns: 1, exec_timeout: 120, workers: 24, limit: 100, out_root: out/here}
"""
BASE = "train: {num_epochs: 9, seed: 1}\nhuman_feedback: {enabled: false, timeout_seconds: 0}\n"
EXPECTED = Config(
    epochs=3, batch=24, accumulation=2, seed=7, minibatch=5, fan_in=6, failure_only=True, max_edits=9, min_edits=3,
    schedule="linear", update_mode="rewrite_from_suggestions", slow_update=False, slow_samples=11, slow_pairs="changed",
    meta_skill=False, skill_aware=True, appendix_source="failure_only", appendix_limit=12, use_gate=False,
    metric="soft", mixed_weight=0.7, limit_train=100, limit_val=30, limit_test=40,
)  # fmt: skip


def load(*pairs: str, **flags: object) -> Settings:
    return load_settings(None, pairs, flags)


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_structured_file_of_skillopt_loads_as_it_is(tmp_path: Path) -> None:
    written(tmp_path, "configs/base/default.yaml", BASE)
    found = load_settings(written(tmp_path, "configs/env/mine.yaml", STRUCTURED), [], {})
    assert found.config == EXPECTED
    assert (found.target, found.optimizer) == ("anthropic:claude-b", "openai:gpt-a,azure=on")
    assert (found.environment, found.concurrency, found.out) == ("searchqa", 24, "out/here")
    assert found.splits is not None
    assert (found.splits.mode, found.splits.ratio, found.splits.seed) == ("split_dir", "2:1:7", 42)
    assert found.data_path == "data/split"
    notes = "\n".join(found.notes)
    for key in ("model.reasoning_effort", "model.codex_exec_path", "train.steps_per_epoch", "env.skill_init",
                "env.max_turns", "human_feedback.enabled", "gradient.analyst_workers"):  # fmt: skip
        assert key in notes


def test_a_file_may_use_the_names_of_this_program(tmp_path: Path) -> None:
    text = "target: simulated:honest\nepochs: 2\nrepeats: 3\ntrain: {batch: 10}\noptimizer: {max_edits: 5}\n"
    found = load_settings(written(tmp_path, "mine.YAML", text), [], {})
    assert found.config == Config(epochs=2, repeats=3, batch=10, max_edits=5)
    assert (found.target, found.notes) == ("simulated:honest", ())


def test_a_file_may_name_the_section_of_a_setting_on_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "a.yaml", "train.num_epochs: 2\noptimizer.learning_rate: 5\n")
    assert load_settings(path, [], {}).config == Config(epochs=2, max_edits=5)
    for text, message in (
        ("trian.num_epochs: 2", 'unknown section "trian": did you mean "train"'),
        ("train.num_epoch: 2", 'unknown setting "train.num_epoch": did you mean "train.num_epochs"'),
        ("train.num_epochs: 2\ntrain: {num_epochs: 3}", '"train.num_epochs" is set twice: give one'),
    ):
        with pytest.raises(BadInput) as error:
            load_settings(written(tmp_path, "c.yaml", text), [], {})
        assert message in str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"min_edits": 9, "max_edits": 2},
            "config: min_edits must be at most max_edits, got 9 and 2",
        ),
        ({"nonsense": 1}, 'config: unknown setting "nonsense": see help(skillopt_mcp.Config)'),
        ({"epoch": 1}, 'config: unknown setting "epoch": did you mean "epochs"?'),
        ({"epochs": "x"}, 'config: epochs must be a whole number from 1 to 1,000, got "x"'),
        ({"epochs": float("nan")}, "config: epochs must be a whole number"),
        (
            {"max_edits": -1},
            'config: max_edits must be a whole number from 1 to 64, got "-1"',
        ),
        ({"schedule": "cosin"}, 'config: schedule must be one of constant, linear, cosine, autonomous, got "cosin"'),
    ],
)
def test_a_config_that_cannot_be_made_is_bad_input_as_a_dict_of_it_is(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(BadInput) as error:
        Config(**settings)  # type: ignore[arg-type]
    assert str(error.value).startswith(message)
    with pytest.raises(BadInput) as said:
        settle_mapping(settings)
    assert f"config: {said.value}".startswith(message) or "nonsense" in settings
    for make in (
        Config.model_validate,
        lambda given: Config().model_copy(update=given),
    ):
        with pytest.raises(BadInput) as same:
            make(settings)
        assert str(same.value) == str(error.value)


def test_every_key_of_skillopt_has_a_place() -> None:
    assert set(FIELDS.values()) <= set(Config.model_fields)
    assert {*FIELDS, *FIXED, *RETIRED, *UNUSED} <= set(SECTION_OF)
    assert set(SECTION_OF.values()) == set(SECTIONS) == set(IN_SECTION) - {""}


def test_pairs_and_flags_override_a_file_in_order(tmp_path: Path) -> None:
    path = written(tmp_path, "a.yaml", "train: {num_epochs: 3, batch_size: 7, seed: 5}")
    found = load_settings(path, ["train.num_epochs=4", "train.num_epochs=5", "batch=8"], {"epochs": 6})
    assert found.config == Config(epochs=6, batch=8, seed=5)


def test_bases_of_bases_are_relative_to_their_own_file(tmp_path: Path) -> None:
    written(tmp_path, "root.yml", "epochs: 8\nbatch: 8\nseed: 8\n")
    written(tmp_path, "a/middle.yaml", "_base_: ../root.yml\nbatch: 9\n")
    path = written(tmp_path, "a/b/leaf.yaml", "_base_: ../middle.yaml\nseed: 10\n")
    assert load_settings(path, [], {}).config == Config(epochs=8, batch=9, seed=10)


def test_a_circle_of_bases_is_refused_with_the_way_around(tmp_path: Path) -> None:
    one = written(tmp_path, "one.yaml", "_base_: sub/../two.yaml\n")
    (tmp_path / "sub").mkdir()
    written(tmp_path, "two.yaml", "_base_: three.yaml\n")
    (tmp_path / "three.yaml").symlink_to(one)
    with pytest.raises(BadInput, match=r"inherits from itself: .*one\.yaml -> .*two\.yaml -> .*one\.yaml"):
        load_settings(one, [], {})
    with pytest.raises(BadInput, match="inherits from itself"):
        load_settings(written(tmp_path, "self.yaml", "_base_: self.yaml\n"), [], {})
    for n in range(20):
        written(tmp_path, f"n{n}.yaml", f"_base_: n{n + 1}.yaml\n")
    with pytest.raises(BadInput, match="more than 16 bases"):
        load_settings(tmp_path / "n0.yaml", [], {})


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("train.batchsize=3", 'unknown setting "train.batchsize": did you mean "train.batch_size"?'),
        ("train.minibatch_size=3", 'unknown setting "train.minibatch_size": did you mean "gradient.minibatch_size"?'),
        (
            "max_calls=9",
            "a hard cap on what a run may spend: give it to the command, as in",
        ),
        ("optimiser.epochs=1", 'unknown section "optimiser": did you mean "optimizer"?'),
        ("epochs=true", '"epochs" must not be true'),
        ("optimizer.learning_rate=0", "optimizer.learning_rate must be a whole number from 1 to 64"),
        ("min_edits=9", "min_edits must be at most max_edits, got 9 and 4 (default)"),
        ("optimizer.learning_rate=1", "min_edits must be at most optimizer.learning_rate, got 2 (default) and 1"),
        (
            "train.temperature=1",
            'setting "train.temperature": skillopt-mcp replay --help lists all',
        ),
        ("evaluation.eval_test=false", '"evaluation.eval_test" can only be true here: a run ends with the test'),
        ("human_feedback.enabled=true", '"human_feedback.enabled" can only be false here'),
        ("lr_control_mode=sometimes", '"lr_control_mode" must be fixed, autonomous or none'),
        ("env.workers=0", '"env.workers" must be 1-1000'),
        ("epochs=", '"epochs=" gives no value: write one behind the =, or leave it out for the default'),
        ("lr_scheduler=cosin", 'lr_scheduler must be one of constant, linear, cosine, autonomous, got "cosin"'),
        ("epochs", 'cannot use "epochs": write --set section.key=value'),
    ],
)
def test_what_cannot_be_set_is_named_with_what_can(pair: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        load(pair)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (("env.split_mode=random",), 'unknown split mode "random"'),
        (("env.split_mode=ratio", "env.split_ratio=2:1"), 'ratio must be train:val:test above 0'),
        (("env.split_mode=ratio", "env.split_ratio=2:0:1"), 'got "2:0:1"'),
        (("env.split_mode=ratio", "env.split_seed=x"), 'split seed must be a whole number, got "x"'),
        (("model.target=m", "model.target_backend=none-such"), 'unknown backend "none-such"'),
        (("evaluation.test_env_num=5", "limit_test=3"), '"evaluation.test_env_num" and "limit_test" set the same'),
        (("batch=8", "train.batch_size=9", "batch=9"), '"batch" and "train.batch_size" set the same: give one of them'),
    ],
)  # fmt: skip
def test_settings_that_do_not_go_together_are_refused(keys: tuple[str, ...], message: str) -> None:
    with pytest.raises(BadInput) as error:
        load(*keys)
    assert message in str(error.value)


def test_two_names_of_one_setting_may_not_disagree_in_a_file(tmp_path: Path) -> None:
    path = written(tmp_path, "a.yaml", "train: {num_epochs: 3}\nepochs: 4\n")
    with pytest.raises(BadInput, match=r'"train\.num_epochs" and "epochs" set the same'):
        load_settings(path, [], {})
    assert load_settings(written(tmp_path, "b.yaml", "num_epochs: 3\nepochs: 3\n"), [], {}).config.epochs == 3


@pytest.mark.parametrize(
    ("pair", "meaning"),
    [
        ("model.teacher=gpt-a", "'teacher' is called 'optimizer'"),
        ("model.student_azure_openai_endpoint=https://x", "'student' is called 'target'"),
        ("gradient.use_deep_reflect=true", "dropped by SkillOpt"),
        ("gradient.max_analyst_rounds=3", "at most twice"),
    ],
)
def test_a_retired_key_loads_with_what_it_means_here(pair: str, meaning: str) -> None:
    assert any(meaning in note for note in load(pair).notes)


@pytest.mark.parametrize(
    ("backend", "spec"),
    [("openai_chat", "openai:m"), ("azure_openai", "openai:m,azure=on"), ("codex_exec", "codex:m"),
     ("claude_code_exec", "claude-code:m"), ("claude", "anthropic:m"), 
     ("qwen_chat", "openai:m,base_url=http://here/v1,key_env=QWEN_CHAT_API_KEY"),
     ("openai_compatible", "openai:m,base_url=http://there/v1,key_env=OPENAI_COMPATIBLE_API_KEY")],
)  # fmt: skip
def test_a_backend_of_skillopt_is_spelled_as_ours(backend: str, spec: str) -> None:
    pairs = ("model.qwen_chat_base_url=http://here/v1", "model.target=m", f"model.target_backend={backend}")
    assert load(*pairs, "target_openai_compatible_base_url=http://there/v1").target == spec


def test_a_key_for_a_vendor_is_never_repeated(tmp_path: Path) -> None:
    path = written(tmp_path, "a.yaml", "model: {azure_openai_api_key: sk-secret-1, qwen_chat_api_key: sk-secret-2}")
    assert "sk-secret" not in str(load_settings(path, [], {}))


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
