"""Callers at every door: which backends an agent may use, what a script may do, and where a person agrees."""

from __future__ import annotations

import json
import shlex
import stat
from pathlib import Path

import pytest

import skillopt_mcp
from skillopt_mcp.backends.resolved import describe_unremembered, resolve_spec
from skillopt_mcp.store.opening import Store
from tests.acceptance.doors import PROMOTED, ToolFailed
from tests.acceptance.doors_care import Desk, status, tasks_of
from tests.vendors import vending

ROLES = ("target", "optimizer", "judge")
OPENAI, CLAUDE = "openai:gpt-5", "claude-code:haiku"


def program_in(folder: Path, name: str = "claude") -> Path:
    """Return a program that notes that it ran."""
    folder.mkdir(exist_ok=True)
    (program := folder / name).write_text(f'#!/bin/sh\necho ran >> {folder}/ran\necho "9.8.7 ({name})"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def unread(desk: Desk, command: str, *arguments: object, **options: object) -> tuple[int, str, str]:
    """Return how a command ends whose standard input is no terminal: exit code, output, errors."""
    done = desk.run(command, *arguments, stdin="\n", **options)
    return done.exit_code, done.out, done.err


# Backends


@pytest.mark.parametrize("role", ROLES)
def test_an_agent_runs_no_program_that_no_person_remembered(desk: Desk, role: str) -> None:
    spec = f"claude-code:haiku,binary={program_in(desk.folder / 'own')}"
    specs = {"target": desk.target, "optimizer": desk.target, role: spec}
    desk.environ["AI_AGENT"] = ""
    lines = [
        desk.run("evaluate", desk.ids["untested"], target=specs["target"], judge=specs.get("judge"), yes=True),
        desk.run("replay", desk.skill_path, **specs, yes=True),
        desk.run("doctor", backend=spec),
    ]
    for done in lines[(role != "target") + (role == "judge") :]:
        assert done.exit_code == 1, done
        [line] = done.err.splitlines()
        assert f"program is {desk.folder}/own/claude" in line
        assert line.endswith(shlex.join(["doctor", "--backend", spec]))
    assert not (desk.folder / "own" / "ran").exists()


def test_a_server_asks_an_address_only_once_a_person_has_remembered_it(desk: Desk) -> None:
    with vending() as vendor:
        spec = vendor.spec()

        def evaluate() -> str:
            with desk.serve(target=spec, optimizer=spec) as server:
                try:
                    return str(server.tool("evaluate_candidate", candidate_id=desk.ids["untested"])["status"])
                except ToolFailed as failed:
                    return str(failed)

        refused = evaluate()
        assert f"address is http://127.0.0.1:{vendor.server_port}/v1, remembered is none" in refused
        assert desk.at_terminal("doctor", backend=spec, answer="n\n").exit_code == 0
        assert evaluate() == refused
        # Nobody but a person outside of an editor is asked, and only about a backend that answers.
        for name, value in (("TERM_PROGRAM", "vscode"), ("CLAUDECODE", "1")):
            desk.environ[name] = value
            assert "[y/N]" not in desk.at_terminal("doctor", backend=spec).out
            del desk.environ[name]
        assert unread(desk, "doctor", backend=spec)[0] == 0
        nowhere = desk.at_terminal("doctor", backend=spec.replace(str(vendor.server_port), "9"))
        assert (nowhere.exit_code, "[y/N]" in nowhere.out) == (1, False)
        assert evaluate() == refused
        n_asked = len(vendor.asked)  # by doctor
        assert "Remember it for agents? [y/N]" in desk.at_terminal("doctor", backend=spec).out
        assert evaluate() == "estimate"
        assert "[y/N]" not in desk.at_terminal("doctor", backend=spec).out
        spec = vendor.spec(model="other")
        assert "its model is other, remembered is m" in evaluate()
        assert len(vendor.asked) == n_asked + 2


def test_an_installation_at_a_terminal_remembers_the_backend_that_it_writes(desk: Desk) -> None:
    def install(**environ: str) -> list[dict[str, str]]:
        desk.environ |= environ
        done = desk.at_terminal("install", "codex", target=desk.target)
        assert done.exit_code == 0, done.out
        with Store(desk.store_path) as store:
            return store.permissions.list_backends()

    assert install(TERM_PROGRAM="vscode") == [], "an editor's agent may type into its terminals"
    desk.environ.pop("TERM_PROGRAM")
    assert desk.at_terminal("uninstall", "codex").exit_code == 0
    assert install() == [{"backend": "scripted", "options": desk.target.partition(":")[2]}]


@pytest.mark.parametrize(
    ("spec", "environ", "differs"),
    [
        (OPENAI, {}, ""),
        (OPENAI, {"HTTPS_PROXY": "http://px:1", "no_proxy": "api.openai.com"}, ""),
        (OPENAI, {"OPENAI_BASE_URL": "https://elsewhere.example/v1"}, "its address is https://elsewhere.example/v1"),
        (OPENAI, {"HTTPS_PROXY": "http://me:secret@px:1"}, "its proxy is px:1"),
        (OPENAI, {"all_proxy": "socks5://px:1"}, "its proxy is px:1"),
        ("openai:gpt-5,azure=on", {"AZURE_OPENAI_ENDPOINT": "https://a.example"}, "its address is https://a.example"),
        ("anthropic:opus", {}, ""),
        ("anthropic:opus", {"ANTHROPIC_BASE_URL": "https://a.example"}, "its address is https://a.example"),
        (CLAUDE, {}, ""),
        (CLAUDE, {"ANTHROPIC_BASE_URL": "https://a.example"}, "ANTHROPIC_BASE_URL=https://a.example"),
        (CLAUDE, {"CLAUDE_CODE_USE_BEDROCK": "1"}, "CLAUDE_CODE_USE_BEDROCK"),
        (CLAUDE, {"https_proxy": "px:1"}, "its proxy is px:1"),
        ("claude-code:haiku,tools=Read+Bash", {}, "its tools is tools=Read+Bash"),
        ("codex:m,base_url=http://127.0.0.1:9/v1", {}, "its address is http://127.0.0.1:9/v1"),
        ("codex:sandbox=danger-full-access", {}, "sandbox=danger-full-access"),
        ("plugin:own:x", {}, "its options is own:x"),
        ("env:own", {}, "its options is own"),
    ],
)
def test_what_leads_elsewhere_is_named_by_what_it_resolves_to(
    tmp_path: Path, spec: str, environ: dict[str, str], differs: str
) -> None:
    environ = {"PATH": str(program_in(tmp_path / "bin").parent), **environ}
    with Store(tmp_path / "store.db") as store:
        said = describe_unremembered(store, spec, environ)
        assert (differs in said, bool(said), "secret" in said) == (True, bool(differs), False)
        store.permissions.remember_backend(resolve_spec(spec, environ).parts, spec, "me")
        assert describe_unremembered(store, spec, environ) == ""


def test_a_program_that_was_put_first_or_changed_is_another_one(tmp_path: Path) -> None:
    mine, other = program_in(tmp_path / "mine"), program_in(tmp_path / "other")
    first = {"PATH": f"{other.parent}:{mine.parent}"}
    with Store(tmp_path / "store.db") as store:
        assert describe_unremembered(store, CLAUDE, {"PATH": str(mine.parent)}) == ""
        assert "only the first on the PATH" in describe_unremembered(store, CLAUDE, first)
        store.permissions.remember_backend(
            resolve_spec("claude-code", {"PATH": str(mine.parent)}).parts, "claude-code", ""
        )
        for path in (first, {"PATH": str(other.parent)}):
            said = describe_unremembered(store, CLAUDE, path)
            assert f"its program is {other}, remembered is {mine}" in said
        spec = f"claude-code:haiku,binary={other}"
        store.permissions.remember_backend(resolve_spec(spec, first).parts, spec, "me")
        assert describe_unremembered(store, spec, first) == ""
        other.write_text(other.read_text() + "echo more\n")
        assert "its sha256 is " in describe_unremembered(store, spec, first)


def test_what_an_agents_own_program_answers_is_host_evidence(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_THREAD_ID", "1")
    found = desk.evaluate(desk.ids["untested"], target=lambda skill, prompt: "salve")
    assert (found["evidence"], found["test"]) == ("host", None)
    spec = f"claude-code:haiku,binary={program_in(desk.folder / 'own')}"
    with pytest.raises(skillopt_mcp.SkillOptError, match="remembered backends alone"):
        desk.evaluate(desk.ids["untested"], target=spec)
    with pytest.raises(skillopt_mcp.SkillOptError, match="a judge function needs a function or a Backend"):
        desk.evaluate(desk.ids["untested"], target=spec, judge=lambda task, answer: True)
    assert not (desk.folder / "own" / "ran").exists()


def test_an_agent_is_judged_by_no_program_that_a_script_registered(desk: Desk) -> None:
    rows = [
        {**row, "id": f"own {n}", "judge": {"kind": "command", "name": "own"}} for n, row in enumerate(tasks_of(30, 8))
    ]
    assert desk.at_terminal("tasks judges add", "own", "--", "/bin/true").exit_code == 0
    assert desk.at_terminal("tasks add", desk.skill_path, desk.write_tasks(rows)).out.startswith("30 added")
    plan = {"target": desk.target, "dry_run": True}
    desk.environ["AI_AGENT"] = "1"
    assert desk.run("evaluate", desk.ids["untested"], **plan).exit_code == 0
    del desk.environ["AI_AGENT"]
    assert unread(desk, "tasks judges add", "--yes", "own", "--", "/bin/false")[0] == 0
    desk.environ["AI_AGENT"] = "1"
    refused = desk.run("evaluate", desk.ids["untested"], **plan)
    assert (refused.exit_code, "a script registered the judge program 'own'" in refused.err) == (1, True)


# A script


def test_a_script_promotes_only_what_a_permission_of_a_person_covers(desk: Desk) -> None:
    before, good = desk.files(), desk.ids["good"]
    for command, *arguments in [("promote", good), ("skills permit", desk.skill_path), ("rollback", desk.skill_path)]:
        code, _, errors = unread(
            desk, command, *arguments, yes=True, **({} if command == "rollback" else {"simulated": True})
        )
        assert (code, desk.files()) == (1, before), errors
    assert unread(desk, "promote", good, unproven=True, simulated=True, yes=True)[0] == 1
    assert desk.at_terminal("skills permit", desk.skill_path, simulated=True).exit_code == 0
    desk.environ["CI"] = "true"
    assert unread(desk, "promote", desk.ids["held"], simulated=True, yes=True)[0] == 1
    code, out, errors = unread(desk, "promote", good, json=True)
    assert (code, json.loads(out)["status"]) == (0, PROMOTED), errors
    assert desk.facts("show", desk.skill_path)["history.rows"][0]["by"] == "permission, rule"
    code, _, errors = unread(desk, "rollback", desk.skill_path)
    assert (code, desk.files()) == (0, before), errors


def test_a_script_shows_no_held_out_task_on_its_output(desk: Desk, tmp_path: Path) -> None:
    [test_id, *_] = desk.facts("show", desk.ids["good"])["candidate.tests"]
    rows = desk.facts("tasks list", desk.skill_path)["tasks"]
    held = {text for row in rows if row["split"] == "test" for text in (row["id"], row["prompt"])}
    assert held
    shown = ""
    for command, *arguments in [
        ("tasks list", desk.skill_path), ("tasks check", desk.skill_path), ("tasks export", desk.skill_path),
        *(("tasks export", desk.skill_path, file) for file in ("/dev/stdout", "/proc/self/fd/1")),
        ("show", test_id), ("show", desk.ids["good"]), ("show",),
        ("promote", desk.ids["good"]), ("evaluate", desk.ids["good"], "--explain", "--target", desk.target),
    ]:  # fmt: skip
        for as_json in (False, True):
            shown += unread(desk, command, *arguments, json=as_json)[1]
    shown += unread(desk, "report", test_id, md="/dev/stdout")[1]
    shown += unread(desk, "report", test_id, html="/dev/stdout")[1]
    assert {text for text in held if f'"{text}"' in shown or f" {text} " in shown} == set()
    assert unread(desk, "report", test_id, html=tmp_path / "page.html")[0] == 0


def test_a_scripts_evidence_is_marked_and_carries_a_permission_only_from_a_remembered_backend(desk: Desk) -> None:
    code, out, errors = unread(desk, "evaluate", desk.ids["good"], target=desk.target, again=True, yes=True, json=True)
    assert (code, json.loads(out)["test"]["verdict"]) == (0, "better"), errors
    desk.facts("skills permit", desk.skill_path, simulated=True, yes=True)
    test_id = json.loads(out)["test"]["test_id"]
    with Store(desk.store_path) as store:
        assert store.permissions.find_unattended(test_id) is True
        for remembered in (False, True):  # what another script does later takes nothing back
            store.permissions.note_unattended(test_id, remembered=remembered)
    with desk.serve() as server:
        assert status(server, "promote_skill", candidate_id=desk.ids["good"]) == "needs_approval"
    own = desk.evaluate(desk.ids["untested"], target=lambda skill, prompt: "salve" if "Latin" in skill else "hm")
    assert own["evidence"] == "unattended"


# An editor's terminal


def test_an_editors_terminal_agrees_to_one_change_and_to_no_permission(desk: Desk) -> None:
    desk.environ["TERM_PROGRAM"] = "vscode"
    done = desk.at_terminal("skills permit", desk.skill_path, simulated=True)
    assert (done.exit_code, "[y/N]" in done.out, "TERM_PROGRAM=vscode" in done.out) == (1, False, True)
    assert desk.at_terminal("promote", desk.ids["good"], simulated=True).exit_code == 0
    assert desk.facts("show", desk.skill_path)["history.rows"][0]["by"].startswith("person, editor terminal")
    desk.environ["COPILOT_AGENT"] = ""
    done = desk.at_terminal("promote", desk.ids["both"], simulated=True)
    assert (done.exit_code, "COPILOT_AGENT is set" in done.out) == (1, True)
