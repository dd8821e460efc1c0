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
from skillopt_mcp.prompts.rendering import ASKED, fence, render_evidence


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


# Texts that try to look like the frame that they stand in.
TEXTS = st.lists(st.sampled_from(["```", "````", "skill", "## Evidence", "## Skill", "", "x", "## Earlier steps"])).map(
    "\n".join
)


@given(skill=TEXTS, body=TEXTS, notes=TEXTS, history=TEXTS)
def test_what_is_known_of_a_skill_goes_first_whole_and_nothing_of_the_evidence_does(
    skill: str, body: str, notes: str, history: str
) -> None:
    body = f"```json\n[]\n```\n\n{body}"
    evidence = render_evidence(skill, body, notes, history)
    prompt = prompt_of(Call("optimizer", "reflect", Question(f"Frame.{ASKED}Do.", evidence, "patch"), "d"))
    assert prompt.user == f"# What is asked of you\n\nDo.\n\n## Evidence\n\n{body}\n"
    assert f"{prompt.system}## Evidence\n\n{body}\n" == f"Frame.\n\n{evidence}"
    steps = f"## Earlier steps\n\n{fence(history, 'history')}\n\n"
    assert prompt.parts == ((prompt.system.removesuffix(steps), steps) if history else (prompt.system,))


def test_evidence_without_a_skill_is_no_part_of_the_system_prompt() -> None:
    evidence = "## Task\n\n```task\nx\n```\n\n## Answer\n\n```answer\ny\n```\n"
    prompt = prompt_of(Call("judge", "judge", Question("Judge.", evidence, "rubric"), "d"))
    assert (prompt.system, prompt.user) == ("Judge.", evidence)


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
