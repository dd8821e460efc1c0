"""Opened: an attempt counts as one with the skill where its text arrived, and in no other case."""

from __future__ import annotations

from dataclasses import replace

import pytest
from agent_calls import SKILL, ask, fault, opened, rollout

from skillopt_mcp.core.calls import Call, Message, Rollout
from skillopt_mcp.core.judging import Score
from skillopt_mcp.core.skills import SkillFile
from skillopt_mcp.tasks.judges.judging import score
from skillopt_mcp.tasks.judges.kinds.opens import Opens
from tests.fake_host import FakeHost, claude_lines, codex_lines

WORDS = "\n".join(f"word{n} is the {n}th of them." for n in range(60))
FRONT = "---\nname: clerk\ndescription: Does things.\n---\n"
LONG = SKILL.replaced(SkillFile("SKILL.md", f"{FRONT}# Clerk\n\n{WORDS}\n".encode()))
NUMBERED = "\n".join(f"{n:6}→{line}" for n, line in enumerate(f"# Clerk\n\n{WORDS}".split("\n"), 5))
CALLED = {"skill": "clerk"}
READ = {"file_path": "CWD/.claude/skills/clerk/SKILL.md"}
Tool = tuple[str, dict[str, object], str]
ARRIVED: dict[str, tuple[str, list[Tool]]] = {
    "loaded": ("Do it.", [("Skill", CALLED, "Launching skill: clerk")]),
    "forked": ("Do it.", [("Skill", CALLED, 'Skill "clerk" completed (forked execution).\n\nResult:\nfin')]),
    "named in the prompt": ("/clerk do it", []),
    "read": ("Do it.", [("Read", READ, NUMBERED)]),
    "a part of it read": ("Do it.", [("Bash", {"command": "tail -c 300 .claude/skills/*/*"}, WORDS[700:920])]),
    "searched for": ("Do it.", [("Grep", {"pattern": "word"}, f"x.md:{WORDS}")]),
}
NOT_ARRIVED: dict[str, tuple[str, list[Tool]]] = {
    "a load that failed": ("Do it.", [("Skill", CALLED, "Error: Shell command permission check failed")]),
    "another one that forked": (
        "Do it.",
        [("Skill", {"skill": "o"}, 'Skill "o" completed (forked execution).\n\nResult:\nfin')],
    ),
    "another skill": ("Do it.", [("Skill", {"skill": "clerk-of-works"}, "Launching skill: clerk-of-works")]),
    "arguments that name it": ("Do it.", [("Skill", {"skill": "o", "args": "clerk"}, "Launching skill: o")]),
    "no such file": ("Do it.", [("Read", READ, "Error: File does not exist.")]),
    "a list of files": ("Do it.", [("Bash", {"command": "ls .claude/skills/clerk/SKILL.md"}, "SKILL.md")]),
    "its front matter": ("Do it.", [("Read", {**READ, "limit": 4}, FRONT)]),
    "too little of it": ("Do it.", [("Bash", {"command": "head -c 100 clerk/SKILL.md"}, WORDS[:190])]),
    "another command": ("/clerks do it", []),
    "a mention": ("See /clerk", []),
}


def attempt(prompt: str) -> Call:
    made = rollout(skill=LONG)
    assert isinstance(made.request, Rollout)
    return made._replace(request=replace(made.request, task=replace(made.request.task, prompt=prompt)))


@pytest.mark.parametrize("case", [*ARRIVED, *NOT_ARRIVED])
def test_a_skill_is_opened_where_its_text_arrived(claude: FakeHost, case: str) -> None:
    prompt, tools = (ARRIVED | NOT_ARRIVED)[case]
    claude.play(*claude_lines("done", *tools))
    state = "opened" if case in ARRIVED else "not opened"
    reply = ask(opened(claude), attempt(prompt))
    assert reply.messages[0] == Message("skill", state, "clerk")
    for expected in (True, False):
        judged = score(Opens(expected=expected), reply.text, reply.messages)
        assert isinstance(judged, Score)
        assert judged.hard is ((case in ARRIVED) == expected)


@pytest.mark.parametrize(
    ("output", "code", "state"),
    [
        (f"{FRONT}# Clerk\n\n{WORDS}\n", 0, "opened"),
        (f"# Clerk\n\n{WORDS}\nls: no b.txt\n", 2, "opened"),
        ("cat: .agents/skills/clerk/SKILL.md: No such file or directory\n", 1, "not opened"),
        ("612 .agents/skills/clerk/SKILL.md\n", 0, "not opened"),
    ],
)
def test_codex_opens_a_skill_where_its_shell_showed_the_text(
    codex: FakeHost, output: str, code: int, state: str
) -> None:
    codex.play(*codex_lines("done", ("cat .agents/skills/clerk/SKILL.md", output, code)))
    assert ask(opened(codex), attempt("Do it.")).messages[0] == Message("skill", state, "clerk")


def test_the_folder_has_the_name_of_the_live_one(claude: FakeHost) -> None:
    claude.play(*claude_lines())
    call = attempt("Do it.")
    assert isinstance(call.request, Rollout)
    task = replace(call.request.task, folder="Ledger desk")
    for name in (b"other", b"Not a name", b"[x]"):
        skill = LONG.replaced(SkillFile("SKILL.md", LONG.main.replace(b"name: clerk", b"name: " + name)))
        reply = ask(opened(claude), call._replace(request=Rollout(skill, task)))
        assert reply.messages[0].name == "Ledger desk"
        assert "repository/work/.claude/skills/Ledger desk/SKILL.md" in claude.seen["files"]


def test_an_answer_that_no_model_was_asked_for_is_never_scored(claude: FakeHost) -> None:
    said = {"model": "<synthetic>", "content": [{"type": "text", "text": "Total cost: $0"}]}
    ended = {"type": "result", "subtype": "success", "is_error": False, "result": "Total cost: $0", "total_cost_usd": 0}
    claude.play({"type": "assistant", "message": said}, {**ended, "modelUsage": {}})
    caught = fault(opened(claude), attempt("/cost"))
    assert caught.fault == "unsupported"
    assert "asked no model" in caught.message


def test_a_skill_that_codex_failed_to_load_is_a_fault_though_it_answers(codex: FakeHost) -> None:
    error = "ERROR codex: failed to load skill /w/.agents/skills/clerk/SKILL.md: invalid YAML"
    codex.play(*codex_lines("done"), errors=error)
    caught = fault(opened(codex), attempt("Do it."))
    assert caught.fault == "unsupported"
    assert "invalid YAML" in caught.message
