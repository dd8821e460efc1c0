"""Skillopt names: every key of the published SkillOpt settings, structured and flat, and what it is called here."""

from __future__ import annotations

SECTIONS = ("model", "train", "gradient", "optimizer", "evaluation", "env")

FIELDS: dict[str, str] = {
    "num_epochs": "epochs",
    "batch_size": "batch",
    "accumulation": "accumulation",
    "seed": "seed",
    "train_size": "limit_train",
    "minibatch_size": "minibatch",
    "merge_batch_size": "fan_in",
    "failure_only": "failure_only",
    "edit_budget": "max_edits",
    "min_edit_budget": "min_edits",
    "lr_scheduler": "schedule",
    "skill_update_mode": "update_mode",
    "use_slow_update": "slow_update",
    "slow_update_samples": "slow_samples",
    "longitudinal_pair_policy": "slow_pairs",
    "use_meta_skill": "meta_skill",
    "use_skill_aware_reflection": "skill_aware",
    "skill_aware_appendix_source": "appendix_source",
    "skill_aware_consolidate_threshold": "appendix_limit",
    "use_gate": "use_gate",
    "gate_metric": "metric",
    "gate_mixed_weight": "mixed_weight",
    "sel_env_num": "limit_val",
    "test_env_num": "limit_test",
}
"""SkillOpt's flat key -> the field of `Config`."""

ALIASES: dict[str, dict[str, str]] = {
    "skill_update_mode": {
        "rewrite": "rewrite_from_suggestions",
        "suggestions": "rewrite_from_suggestions",
        "rewrite_suggestions": "rewrite_from_suggestions",
        "full_rewrite": "full_rewrite_minibatch",
        "minibatch_full_rewrite": "full_rewrite_minibatch",
        "skill_rewrite_minibatch": "full_rewrite_minibatch",
    },
    "longitudinal_pair_policy": {
        "default": "mixed", "random": "mixed", "all": "mixed", "change": "changed", "delta": "changed",
        "10_01": "changed", "01_10": "changed", "stable": "unchanged", "same": "unchanged", "00_11": "unchanged",
    },
    "lr_control_mode": {
        "manual": "fixed", "scheduler": "fixed", "scheduled": "fixed", "auto": "autonomous", "optimizer": "autonomous",
        "off": "none", "false": "none", "no_lr": "none",
    },
}  # fmt: skip
"""Other spellings of a key's values that SkillOpt takes."""

BACKENDS: dict[str, str] = {
    "azure_openai": "openai", "azure": "openai", "azure-openai": "openai", "openai_chat": "openai",
    "openai": "codex", "codex": "codex", "codex_exec": "codex",
    "claude": "anthropic", "claude_chat": "anthropic", "anthropic": "anthropic", "claude_code_exec": "claude-code",
    "qwen": "openai", "qwen_chat": "openai", "minimax": "openai", "minimax_chat": "openai",
    "openai_compatible": "openai",
}  # fmt: skip
"""SkillOpt's backends -> those of this program; the model is named behind a colon."""

OPENAI_DEFAULTS = ("gpt-5.4", "gpt-5.5")
DEFAULTS = {
    "claude": "claude-sonnet-4-6", "anthropic": "claude-sonnet-4-6", "qwen": "Qwen/Qwen3.5-4B",
    "minimax": "MiniMax-M2.7",
}  # fmt: skip
"""A part of the word for another vendor's backend -> the model that SkillOpt takes there for OpenAI's default ones."""

IN_SECTION: dict[str, dict[str, str]] = {
    "model": {"backend": "model_backend", "optimizer": "optimizer_model", "target": "target_model"},
    "train": {},
    "gradient": {},
    "optimizer": {
        "learning_rate": "edit_budget",
        "min_learning_rate": "min_edit_budget",
        "meta_learning_rate": "meta_edit_budget",
    },
    "evaluation": {},
    "env": {"name": "env"},
    "": {"backend": "model_backend"},
}
"""Keys that are called otherwise inside their section than outside."""

SECTION_OF: dict[str, str] = {
    **dict.fromkeys(("num_epochs", "train_size", "steps_per_epoch", "batch_size", "accumulation", "seed"), "train"),
    **dict.fromkeys(
        ("minibatch_size", "merge_batch_size", "analyst_workers", "failure_only", "max_analyst_rounds",
         "use_deep_reflect", "deep_reflect_failures", "deep_reflect_successes"), "gradient",
    ),
    **dict.fromkeys(
        ("edit_budget", "min_edit_budget", "lr_scheduler", "lr_control_mode", "skill_update_mode", "meta_edit_budget",
         "use_slow_update", "slow_update_samples", "slow_update_gate_with_selection", "longitudinal_pair_policy",
         "use_meta_skill", "use_skill_aware_reflection", "skill_aware_appendix_source",
         "skill_aware_consolidate_threshold", "use_meta_reflect"), "optimizer",
    ),
    **dict.fromkeys(
        ("use_gate", "gate_metric", "gate_mixed_weight", "use_semantic_density", "semantic_density_weight",
         "leading_words", "sel_env_num", "test_env_num", "eval_test"), "evaluation",
    ),
    **dict.fromkeys(
        ("env", "skill_init", "out_root", "split_mode", "split_ratio", "split_seed", "split_dir", "data_path",
         "split_output_dir", "limit", "workers", "max_api_workers", "exec_timeout", "max_turns", "max_steps",
         "max_tool_turns", "max_completion_tokens", "mode", "data_root", "shuffle_choices", "use_theorem", "use_sketch",
         "image_detail", "judge_model", "judge_max_completion_tokens", "judge_retries", "search_mode",
         "max_queries_per_turn", "search_api_url", "search_auth_env", "search_provider", "search_max_num_results",
         "search_timeout_seconds", "use_local_tools", "data_dirs", "docs_dirs"), "env",
    ),
    **dict.fromkeys(
        ("model_backend", "optimizer_model", "target_model", "optimizer_backend", "target_backend", "reasoning_effort",
         "rewrite_reasoning_effort", "rewrite_max_completion_tokens", "codex_path", "codex_trace_to_optimizer",
         "codex_trace_to_teacher", "claude_trace_to_optimizer"), "model",
    ),
}  # fmt: skip
"""The section that each flat key stands in."""

MODEL_PREFIXES = (
    "codex_exec_", "claude_code_exec_", "azure_", "optimizer_azure_", "target_azure_", "qwen_chat_",
    "optimizer_qwen_chat_", "target_qwen_chat_", "minimax_", "optimizer_minimax_", "target_minimax_",
    "openai_compatible_", "optimizer_openai_compatible_", "target_openai_compatible_", "cursor_exec_", "copilot_exec_",
    "copilot_chat_",
)  # fmt: skip
"""How the keys of single vendors begin: what they say, the backends here read from the environment."""

RENAMED: dict[str, str] = {"teacher": "optimizer", "student": "target"}
"""Roles of early versions -> what they are called now."""

_DEEP = "deep reflection was dropped by SkillOpt; here several attempts at a task are contrasted (repeats)"
RETIRED: dict[str, str] = {
    "max_analyst_rounds": "each minibatch is read by one call; unusable replies are retried, at most twice",
    "use_deep_reflect": _DEEP,
    "deep_reflect_failures": _DEEP,
    "deep_reflect_successes": _DEEP,
    "use_meta_reflect": "meta reflection was dropped by SkillOpt; the slow update and the meta skill took its place",
    "meta_edit_budget": "the budget of meta reflection, which SkillOpt dropped; every step has the scheduled budget",
}
"""Keys that SkillOpt gave up, and what stands in their place here."""

_DENSITY = "the gate compares scores alone, with no bonus for the words of a skill"
UNUSED: dict[str, str] = {
    **dict.fromkeys(
        ("slow_update_gate_with_selection",), "whatever changes the skill passes a gate here, slow updates too"
    ),
    **dict.fromkeys(("steps_per_epoch",), "an epoch takes every train task once, so it follows from the batch"),
    **dict.fromkeys(("analyst_workers",), "all calls share the slots (workers)"),
    **dict.fromkeys(("eval_test",), "the best version is tested once, on held-out tasks, at the finish"),
    **dict.fromkeys(("use_semantic_density", "semantic_density_weight", "leading_words"), _DENSITY),
    **dict.fromkeys(("skill_init",), "the skill is the one that the command names"),
    **dict.fromkeys(("split_output_dir",), "splits are kept in the store"),
    **dict.fromkeys(
        ("reasoning_effort", "rewrite_reasoning_effort", "rewrite_max_completion_tokens", "codex_path",
         "codex_trace_to_optimizer", "codex_trace_to_teacher", "claude_trace_to_optimizer"),
        "an option of the backend: write it behind the model, as in openai:MODEL,effort=high",
    ),
    **dict.fromkeys(
        ("exec_timeout", "max_turns", "max_steps", "max_tool_turns", "max_completion_tokens", "mode", "data_root",
         "shuffle_choices", "use_theorem", "use_sketch", "image_detail", "judge_model", "judge_max_completion_tokens",
         "judge_retries", "search_mode", "max_queries_per_turn", "search_api_url", "search_auth_env", "search_provider",
         "search_max_num_results", "search_timeout_seconds", "use_local_tools", "data_dirs", "docs_dirs"),
        "an option of SkillOpt's own environments: give it behind theirs, as in skillopt:MODULE:CLASS,name=value",
    ),
}  # fmt: skip
"""Keys that say nothing here, and why."""

FIXED: dict[str, tuple[bool, str]] = {
    "use_semantic_density": (False, _DENSITY),
    "eval_test": (
        True, "a run ends with the test of its best version, which nothing is promoted without, and what that takes "
        "at most is shown before: leave it out",
    ),
}  # fmt: skip
"""Keys that have one value here, and why."""

OFF_ONLY: dict[str, str] = {
    "human_feedback.enabled": "a person decides at the promotion, and the run does not pause",
    "train.mem0_enabled": "what earlier runs found is in the store, and nothing is sent to a memory service",
}
"""Switches of later versions that must be off; what else their section or prefix holds then says nothing."""
