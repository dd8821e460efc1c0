"""Tasks that a model drafts at the terminal: checked by machine, asked once, and waiting for a person."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from console import Cli, Place, parsed, run_at_a_terminal

from skillopt_mcp.store.pool import Pool
from tests.drafting import COMPLAINT, RULES, Drafted, Drafter, make_skill
from tests.session_lines import claude_said, claude_skill, claude_user, joined
from tests.vendors import Vendor, vending


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(make_skill(tmp_path / "skills" / "ship-notes"), tmp_path / "store.db")


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with vending() as lent:
        lent.reply = Drafter()
        yield lent


def mine(cli: Cli, place: Place, vendor: Vendor, *options: object) -> dict[str, Any]:
    command = ("tasks", "mine", place.skill_path, "--optimizer", vendor.spec(), "--yes", "--json")
    done = cli(*command, *options, store=place.store_path)
    return parsed(done) if done.returncode == 0 else json.loads(done.stdout)


def rows(place: Place, sql: str) -> list[tuple[object, ...]]:
    with closing(Pool(place.store_path)) as pool:
        return pool.rows(sql)


def test_each_rule_and_complaint_gets_tasks_that_wait_and_nothing_is_asked_twice(
    cli: Cli, place: Place, vendor: Vendor
) -> None:
    found = mine(cli, place, vendor, "--complaint", COMPLAINT, "--tasks", "24")
    assert (found["status"], found["added"], found["dropped"]) == ("done", 24, [])
    assert found["drafted"] == {
        "forgets-thank-contributors": 6, "begin-line-breaking": 6, "name-ticket-each": 6, "write-sums-money": 6,
    }  # fmt: skip
    assert len(vendor.asked) == 8
    assert found["next_step"]["action"] == "tasks review"
    assert rows(place, "select count(*), sum(waits), max(split) from task") == [(24, 24, "train")]
    kept = rows(place, "select source, origin, accepted <> '', rejected <> '', correction from draft group by origin")
    assert kept == [
        ("skill", each, 1, 1, "") for each in sorted([f"complaint: {COMPLAINT}", *(f"rule: {each}" for each in RULES)])
    ]
    again = mine(cli, place, vendor, "--complaint", COMPLAINT, "--tasks", "24")
    assert (again["added"], again["duplicates"], len(vendor.asked)) == (0, 24, 8)


SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"
HOSTILE: dict[str, tuple[Drafted, str]] = {
    "its key is in the prompt": (
        {"kind": "exact", "prompt": "BREAKING or a fix? One word.", "expected": ["BREAKING"], "accepted": "BREAKING"},
        "stands in the prompt",
    ),
    "its key is in a file": (
        {"files": [{"path": "notes.txt", "content": "BREAKING: the pump moved"}], "expected": ["BREAKING: the pump"],
         "accepted": "BREAKING: the pump"}, "stands in the prompt or in a file",
    ),
    "all pass": ({"kind": "regex", "expected": [".*"]}, "an empty answer passes"),
    "nearly all pass": ({"kind": "regex", "expected": ["\\w"]}, "stands in the prompt"),
    "its answer fails": ({"expected": ["never said"]}, "fails the `accepted` answer"),
    "it has no answer": ({"accepted": " "}, "`accepted` is empty"),
    "only one case passes": (
        {"kind": "regex", "expected": ["Harbor gone"], "accepted": "Harbor gone"}, "the `accepted` answer in capitals",
    ),
    "only the bare key passes": (
        {"kind": "regex", "expected": ["^BREAKING: pump$"], "accepted": "BREAKING: pump"}, "answer after a sentence",
    ),
    "a wrong answer passes": ({"rejected": "Well, BREAKING: pump", "expected": ["BREAKING: pump"],
                               "accepted": "BREAKING: pump"}, "passes the `rejected` answer"),
    "it has no wrong answer": ({"rejected": ""}, "`rejected` is empty"),
    "a program": ({"kind": "command", "expected": ["rm"]}, "rm"),
    "script": ({"kind": "javascript", "expected": ["true"]}, "unknown kind"),
    "a host's file": ({"files": [{"path": "CLAUDE.md", "content": "obey"}]}, "would set up the host"),
    "a file elsewhere": ({"files": [{"path": "../x", "content": "x"}]}, "must be relative"),
    "a broken pattern": ({"kind": "regex", "expected": ["("]}, "does not compile"),
    "no JSON": ({"kind": "json", "expected": ["{"]}, "is no JSON object"),
    "another's key": ({"expected": ["BREAKING"], "accepted": "BREAKING"}, "another task expects passes"),
    "no prompt": ({"prompt": " "}, "prompt must be a text"),
    "nothing expected": ({"expected": ["", " "]}, "`expected` is empty"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_draft_that_fails_a_check_is_asked_again_once_with_the_reason_then_dropped_and_named(
    cli: Cli, place: Place, vendor: Vendor, name: str
) -> None:
    given, reason = HOSTILE[name]
    others = {"expected": ["BREAKING CHANGE 7"], "accepted": "BREAKING CHANGE 7"} if name == "another's key" else {}

    def spoil(task: Drafted, text: str) -> Drafted:
        return {**task, **(given if RULES[0] in text else others if RULES[1] in text else {})}

    vendor.reply = drafter = Drafter(spoil)
    found = mine(cli, place, vendor, "--tasks", "3")
    assert (found["added"], found["n_rejected"], drafter.n_asked) == (2, 1, 2)
    assert found["dropped"][0].startswith(f"rule: {RULES[0]}: ")
    assert reason in found["dropped"][0]
    assert reason in vendor.asked[1] or SECRET in vendor.asked[1] or '\\"' in vendor.asked[1]
    assert rows(place, "select count(*) from task, draft where task_id = id and tags not like '%begin%'") == [(2,)]


GOOD: dict[str, Drafted] = {
    "exact": {"kind": "exact", "prompt": "Which mark? Say it alone.", "expected": ["BREAKING"], "accepted": "BREAKING",
              "rejected": "none"},
    "json": {"kind": "JSON", "expected": ['{"line.mark": "BREAKING", "line.n": 7}'],
             "accepted": '```json\n{"line": {"mark": "BREAKING", "n": 7}}\n```', "rejected": '{"line": {"n": 7}}'},
    "regex": {"kind": "regex", "expected": ["(?im)^- breaking: ", "more"], "accepted": "- BREAKING: pump gone"},
    "rubric": {"kind": "rubric", "expected": ["Says that it breaks."], "rejected": ""},
}  # fmt: skip


@pytest.mark.parametrize("kind", GOOD)
def test_a_task_of_each_kind_passes_the_checks(cli: Cli, place: Place, vendor: Vendor, kind: str) -> None:
    vendor.reply = Drafter(lambda task, text: {**task, **(GOOD[kind] if RULES[0] in text else {})})
    found = mine(cli, place, vendor, "--tasks", "3")
    assert (found["added"], found["dropped"]) == (3, [])
    judged = {"exact": "final_answer"}.get(kind, kind)
    assert rows(place, "select count(*) from task where json_extract(judge, '$.kind') = '" + judged + "'") == [(1,)]


def test_a_draft_that_is_mended_is_kept(cli: Cli, place: Place, vendor: Vendor) -> None:
    vendor.reply = drafter = Drafter(
        lambda task, text: task if "cannot be used" in text else {**task, "accepted": "no"}
    )
    found = mine(cli, place, vendor, "--tasks", "3")
    assert (found["added"], found["dropped"], drafter.n_asked) == (3, [], 2)


@pytest.mark.parametrize("is_repeated", [False, True])
def test_a_key_of_another_rule_is_asked_about_and_taken_where_it_is_expected_again(
    cli: Cli, place: Place, vendor: Vendor, is_repeated: bool
) -> None:
    is_first = True

    def spoil(task: Drafted, text: str) -> Drafted:
        nonlocal is_first
        if RULES[2] not in text or not (is_first or (is_repeated and "another rule" in text)):
            return task
        is_first, expected = False, ["BREAKING", *task["expected"]]
        return {**task, "expected": expected, "accepted": f"- The line: {' '.join(expected)}"}

    vendor.reply = drafter = Drafter(spoil)
    found = mine(cli, place, vendor, "--tasks", "9")
    assert (found["added"], found["dropped"], drafter.n_asked) == (9, [], 4)
    assert "which another rule asks for" in vendor.asked[3]
    judges = [str(row[0]) for row in rows(place, "select judge from task where tags like '%write-sums%'")]
    assert sum("BREAKING" in each for each in judges) == is_repeated


def test_calls_stay_within_what_was_said_and_are_used_for_what_failed(cli: Cli, place: Place, vendor: Vendor) -> None:
    n_replies = 0

    def reply(asked: str) -> str:
        nonlocal n_replies
        n_replies += 1
        return "I would rather not." if n_replies <= 4 else drafter(asked)

    drafter, vendor.reply = Drafter(), reply
    found = mine(cli, place, vendor, "--complaint", COMPLAINT, "--tasks", "24")
    assert (found["added"], found["dropped"], len(vendor.asked)) == (24, [], 11)


def test_a_model_that_never_answers_is_asked_no_more_than_was_said(cli: Cli, place: Place, vendor: Vendor) -> None:
    vendor.reply = lambda asked: "I would rather not."
    found = mine(cli, place, vendor, "--complaint", COMPLAINT, "--tasks", "24")
    assert (found["added"], found["n_rejected"], len(vendor.asked)) == (0, 24, 12)


def test_of_a_reply_with_a_thousand_tasks_those_that_were_asked_for_are_kept(
    cli: Cli, place: Place, vendor: Vendor
) -> None:
    def reply(asked: str) -> str:
        tasks = json.loads(Drafter()(asked))["tasks"]
        return json.dumps({"tasks": [*tasks, *({**tasks[0], "number": n} for n in range(-500, 500))]})

    vendor.reply = reply
    assert mine(cli, place, vendor, "--tasks", "3")["added"] == 3


def test_replies_that_cannot_be_read_are_named_and_what_was_lost_is_asked_again_next_time(
    cli: Cli, place: Place, vendor: Vendor
) -> None:
    vendor.reply = lambda asked: "I would rather not."
    found = mine(cli, place, vendor, "--tasks", "3")
    assert (found["added"], found["n_rejected"], len(vendor.asked)) == (0, 3, 2)
    assert "has no JSON object" in found["dropped"][0]


def test_tags_without_a_train_task_are_named_but_none_whose_tasks_wait(cli: Cli, place: Place, vendor: Vendor) -> None:
    kept = [
        {"prompt": f"Sort {n} please.", "tags": [tag], "split": split, "judge": {"kind": "exact", "expected": n}}
        for n, tag, split in (("seven", "queue", "test"), ("nine", "tone", "train"), ("four", "tone", "val"))
    ]
    file = place.store_path.with_name("kept.json")
    file.write_text(json.dumps(kept))
    assert cli("tasks", "add", place.skill_path, file, store=place.store_path).returncode == 0
    found = mine(cli, place, vendor, "--tasks", "9")
    notes = {each["code"]: each["ids"] for each in found["notes"]}
    assert (found["added"], notes) == (9, {"waiting": [], "no_train_of_tag": ["queue"]})
    [row] = [each for each in parsed(cli("skills", "--json", store=place.store_path))["skills"] if each["tracked"]]
    assert (row["splits"]["train"], row["gaps"]) == (10, {"no_train_of_tag": ["queue"]})


def test_near_duplicates_are_one_family_and_none_is_added_next_to_a_stored_task(
    cli: Cli, place: Place, vendor: Vendor
) -> None:
    prompt = "Write the line for the flag that is gone from the harbour pump today."
    same = {"expected": ["BREAKING: pump"], "accepted": "BREAKING: pump", "rejected": "Removed pump"}
    vendor.reply = Drafter(lambda task, text: {**task, **same, "prompt": prompt + "!" * task["number"]})
    assert mine(cli, place, vendor, "--tasks", "3")["added"] == 3
    assert rows(place, "select count(distinct group_name), min(group_name) <> '' from task") == [(1, 1)]
    vendor.reply = Drafter(lambda task, text: {**task, **same, "prompt": f"{prompt} ({'!' * task['number']})"})
    again = mine(cli, place, vendor, "--tasks", "2")
    assert (again["added"], again["n_rejected"]) == (0, 2)
    assert "nearly the same as a stored task" in again["dropped"][0]


def test_a_secret_reaches_neither_the_model_nor_the_store(cli: Cli, place: Place, vendor: Vendor) -> None:
    vendor.reply = Drafter(
        lambda task, text: {**task, "prompt": f"{task['prompt']} {SECRET}", "accepted": f"{task['accepted']} {SECRET}"}
    )
    mine(cli, place, vendor, "--complaint", f"It prints {SECRET} each time.", "--tasks", "3")
    assert "It prints" in vendor.asked[0]
    kept = [path.read_bytes() for path in place.store_path.parent.glob("store.db*") if path.is_file()]
    assert not any(SECRET.encode() in content for content in [*kept, *(each.encode() for each in vendor.asked)])


def test_the_price_comes_first_and_caps_hold_over_resumes(cli: Cli, place: Place, vendor: Vendor) -> None:
    command = ("tasks", "mine", place.skill_path, "--optimizer", vendor.spec(), "--tasks", "18")
    planned = parsed(cli(*command, "--dry-run", "--json", store=place.store_path))
    assert (planned["status"], planned["calls"], vendor.asked) == ("planned", {"optimizer": 9}, [])
    unasked = cli(*command, store=place.store_path)
    assert (unasked.returncode, vendor.asked) == (1, [])
    assert "at most 9 optimizer calls" in unasked.stderr
    capped = cli(*command, "--yes", "--max-calls", "4", store=place.store_path)
    assert (capped.returncode != 0, len(vendor.asked)) == (True, 4)
    assert rows(place, "select count(*) from task") == [(0,)]
    done = cli(*command, "--yes", "--json", "--max-calls", "6", store=place.store_path)
    assert (parsed(done)["added"], len(vendor.asked)) == (18, 6)


def test_a_person_at_a_terminal_is_asked_five_questions_at_most(place: Place, vendor: Vendor) -> None:
    command = ["--store", str(place.store_path), "tasks", "mine", str(place.skill_path), "--tasks", "5", "--yes"]
    command += ["--optimizer", vendor.spec()]

    def answer(text: str) -> tuple[int, str]:
        return run_at_a_terminal(command, Path.cwd(), dict(os.environ), text, question="(Enter for nothing)?")

    said = ("It never thanks", "Write the line for the pump", "Thanks to Ada", "It shouts", "swear")
    code, screen = answer("\n".join(said))
    assert (code, screen.count("? "), "5 tasks drafted" in screen) == (0, 5, True)
    origins = [row[0] for row in rows(place, "select distinct origin from draft where origin like 'complaint%'")]
    assert origins == [
        "complaint: It never thanks. Asked: Write the line for the pump. Right: Thanks to Ada",
        "complaint: It shouts", "complaint: An answer must never: swear",
    ]  # fmt: skip
    code, screen = answer("")
    assert (code, screen.count("? ")) == (0, 1)


def test_corrections_of_sessions_come_first_and_each_is_drafted_once(
    cli: Cli, place: Place, vendor: Vendor, tmp_path: Path
) -> None:
    said = (
        claude_user("Write the line for the harbour lantern flag that is gone"), claude_skill(str(place.skill_path)),
        claude_said("- Removed the flag"), claude_user("no, that is wrong: it has to begin with BREAKING"),
        claude_said("- BREAKING: removed the flag"), claude_user("perfect, thanks"),
    )  # fmt: skip
    session = tmp_path / "sessions" / "one.jsonl"
    session.parent.mkdir()
    session.write_bytes(b"".join(joined(*said)))

    def spoil(task: Drafted, text: str) -> Drafted:
        known = {"expected": ["BREAKING: removed the flag"], "accepted": "BREAKING: removed the flag", "rejected": ""}
        return {**task, **known, "prompt": "The lantern flag goes. Write."} if "lantern flag that" in text else task

    vendor.reply = Drafter(spoil)
    found = mine(cli, place, vendor, "--sessions", session.parent, "--tasks", "4")
    assert (found["added"], found["dropped"], len(vendor.asked)) == (4, [], 2)
    [kept] = rows(place, "select origin, accepted, rejected, correction from draft where source = 'sessions'")
    assert kept == (
        "one#0", "BREAKING: removed the flag", "- Removed the flag", "no, that is wrong: it has to begin with BREAKING"
    )  # fmt: skip
    mine(cli, place, vendor, "--sessions", session.parent, "--tasks", "3")
    assert not any("lantern flag that" in asked for asked in vendor.asked[2:])
    early = mine(cli, place, vendor, "--sessions", session.parent, "--since", "2099-01-01", "--tasks", "3")
    assert "no rule that is not drafted" in str(early)


def test_a_fork_of_a_session_does_not_bring_back_what_a_person_erased(
    cli: Cli, place: Place, vendor: Vendor, tmp_path: Path
) -> None:
    # As `claude --resume ID --fork-session` writes it: another sessionId, the same uuids and times.
    def write(session: str) -> None:
        said = (
            claude_user("Write the line for the orchid valve", uuid="8138fa3b", sessionId=session,
                        timestamp="2026-11-28T18:51:33.514Z"),
            claude_skill(str(place.skill_path)), claude_said("- Removed the valve"),
            claude_user("no, that is wrong: it has to begin with BREAKING"), claude_said("- BREAKING: valve"),
            claude_user("perfect, thanks"),
        )  # fmt: skip
        path = tmp_path / "sessions" / f"{session}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"".join(joined(*said)))

    def find() -> list[tuple[object, ...]]:
        sql = "select prompt from trajectory where prompt like '%orchid%' union all select prompt from episode"
        return rows(place, sql)

    write("01a20073-5da9-75f2-8792-ac3e8f2f6415")
    mine(cli, place, vendor, "--sessions", tmp_path / "sessions", "--tasks", "2")
    assert len(find()) == 3
    command = ["--store", str(place.store_path), "store", "erase", str(place.skill_path), "--all"]
    code, screen = run_at_a_terminal(command, Path.cwd(), dict(os.environ), "y")
    assert code == 0, screen
    assert find() == []
    write("d5173c29-d882-49a1-9793-04c18f425d49")
    mine(cli, place, vendor, "--sessions", tmp_path / "sessions", "--tasks", "2")
    assert find() == []
