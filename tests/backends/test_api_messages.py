"""Messages and schemas: a call as text that is whole, shares what it can, and never shows a judge."""

from dataclasses import replace

from api_calls import JUDGE, ROLLOUT, SKILL, TASK
from hypothesis import given
from hypothesis import strategies as st

from skillopt_mcp.backends.api.prompts import ROLLOUT as INSTRUCTIONS
from skillopt_mcp.backends.api.prompts import prompt_of, strict_schema
from skillopt_mcp.core.calls import Call, Question, Rollout
from skillopt_mcp.core.replies import SCHEMAS
from skillopt_mcp.core.skills import SkillFiles
from skillopt_mcp.core.tasks import TaskFile
from skillopt_mcp.prompts.rendering import render_evidence


def test_a_rollout_shows_the_skill_and_the_task_and_not_the_judge() -> None:
    prompt = prompt_of(ROLLOUT)
    assert prompt.system == f"{INSTRUCTIONS}\n\n```skill\n# Skill\n- Be exact.\n```"
    assert prompt.user == "What is 6 x 7?\n\n## Files\n\n### a.txt\n\n```\nsix\n```"
    assert JUDGE.expected not in prompt.system + prompt.user


def test_a_skill_and_a_file_cannot_close_their_own_fence() -> None:
    files = SkillFiles(tuple(replace(file, content=b"```\nout\n````\n") for file in SKILL.files))
    task = replace(TASK, files=(TaskFile("b", "```\nout"),))
    prompt = prompt_of(ROLLOUT._replace(request=Rollout(files, task)))
    assert prompt.system.endswith("`````skill\n```\nout\n````\n`````")
    assert prompt.user.endswith("````\n```\nout\n````")


@given(st.text(max_size=200), st.text(max_size=200))
def test_a_question_shares_its_skill_and_loses_nothing(skill: str, body: str) -> None:
    prompt = prompt_of(Call("optimizer", "reflect", Question("Do.", render_evidence(skill, body), "patch"), "d"))
    other = prompt_of(Call("optimizer", "reflect", Question("Do.", render_evidence(skill, "x" + body), "patch"), "d"))
    assert prompt.user == render_evidence(skill, body)
    assert prompt.shared
    assert (prompt.system, prompt.shared) == (other.system, other.shared)


def objects(schema: object) -> list[dict[str, object]]:
    """Return every object with properties in a schema."""
    if isinstance(schema, dict):
        own = [schema] if isinstance(schema.get("properties"), dict) else []
        return own + [found for value in schema.values() for found in objects(value)]
    return [found for value in schema for found in objects(value)] if isinstance(schema, list) else []


def test_the_schemas_of_all_replies_are_strict() -> None:
    for model in SCHEMAS.values():
        schema = strict_schema(model)
        assert objects(schema)
        for part in objects(schema):
            assert part["required"] == list(part["properties"])  # type: ignore[call-overload]
            assert part["additionalProperties"] is False
        assert list(schema["properties"]) == list(model.model_fields)  # type: ignore[call-overload]
        assert '"default"' not in str(schema).replace("'", '"')
