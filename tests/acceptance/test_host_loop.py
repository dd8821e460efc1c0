"""A host's agents do the work: from a proposal to a live file, through expiry, doubles, kills and a second server."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.acceptance.doors import ANSWER_FILE, PROMOTED, TAKEN, Server, ToolFailed, Workbench
from tests.acceptance.world import HARMFUL, KINDS, TAUGHT, answer_work, lesson, make_tasks

SIZES = {"train": 8, "val": 8, "test": 12}
SHORT_LEASE = 0.05


def begin(bench: Workbench, host: Server) -> tuple[str, str]:
    """Return a good candidate and the job of its promotion test."""
    bench.add_tasks(SIZES)
    candidate_id = bench.good_candidate(host)
    return candidate_id, host.tool("evaluate_candidate", candidate_id=candidate_id)["job_id"]


def test_a_host_proposes_proves_and_promotes(bench: Workbench) -> None:
    before, folders = bench.live_text(), list[str]()

    def answer(folder: Path) -> str:
        folders.append("".join(path.read_text() for path in folder.rglob("*") if path.is_file()))
        return answer_work(folder)

    with bench.serve(agrees=True) as host:
        bench.add_tasks(SIZES)
        proposed = host.drive(host.tool("propose_edits", skill=str(bench.skill_path), rollouts=8), answer)
        assert (proposed["status"], proposed.action) == ("candidate", "evaluate_candidate")
        assert not any(f"({split} " in text for text in folders for split in ("val", "test"))
        assert sum("(train " in text and "reply.schema" not in text for text in folders) >= 8
        folders.clear()
        tested = host.test_by_host(proposed["candidate_id"], answer)
        assert (tested.verdict, tested.action, bench.live_text()) == ("better", "promote_skill", before)
        assert bench.tested(proposed["candidate_id"]).solved == (0.0, 1.0)
        assert not any(f"({split} " in text for text in folders for split in ("train", "val"))
        assert host.tool("promote_skill", candidate_id=proposed["candidate_id"])["status"] == PROMOTED
        assert len(host.questions) == 1
    assert all(lesson(kind) in bench.live_text() for kind in KINDS)


@pytest.mark.parametrize("tool", ["propose_edits", "evaluate_candidate"])
def test_work_that_was_given_up_is_named_with_the_next_work(bench: Workbench, host: Server, tool: str) -> None:
    bench.add_tasks(SIZES)
    job = {"skill": str(bench.skill_path), "rollouts": 8}
    job = {"candidate_id": bench.good_candidate(host)} if tool == "evaluate_candidate" else job
    job_id = host.tool(tool, **job)["job_id"]
    [item] = host.take(job_id, 1)
    answer = host.tool("submit_work", replies=[{"work_id": item.work_id, "failed": "the agent stopped"}])
    assert answer["status"] == "work"
    assert answer["notes"] == ["1 of the first 1 answers given up: do one of the tasks by hand to see why"]


def test_a_harmful_edit_is_not_better_and_is_not_promoted(bench: Workbench) -> None:
    bench.skill_file.write_text(TAUGHT.replace("NAME", "greeter"))
    with bench.serve(agrees=True) as host:
        bench.add_tasks(SIZES)
        candidate_id = bench.bad_candidate(host)
        tested = host.test_by_host(candidate_id)
        assert tested.verdict == "not better"
        assert bench.tested(candidate_id).solved == (1.0, 0.0)
        assert host.tool("promote_skill", candidate_id=candidate_id)["status"] != PROMOTED
    assert HARMFUL not in bench.live_text()


def test_a_work_folder_names_neither_judge_nor_expected_answer_nor_arm(bench: Workbench, host: Server) -> None:
    _, job_id = begin(bench, host)
    for item in host.take(job_id):
        [path] = [path for path in Path(item.folder).rglob("*") if path.is_file()]
        head, _, skill_and_task = path.read_text().partition("## The skill")
        text = head + skill_and_task.partition("## The task")[2] + item.folder
        assert "(test " in text
        assert not re.search(rf"\b({'|'.join(KINDS.values())}|expected|candidate|version)\b", text)


@pytest.mark.parametrize("n_removed", [0, 2])
def test_a_test_that_nobody_answered_takes_the_tasks_of_today(bench: Workbench, n_removed: int) -> None:
    with bench.serve() as host:
        candidate_id, job_id = begin(bench, host)
        assert host.take(job_id, 1)
        rows = make_tasks({"test": SIZES["test"] + 8})[SIZES["test"] :]
        assert bench.at_terminal("tasks add", bench.skill_path, bench.write_tasks(rows)).exit_code == 0
        for n in range(n_removed):
            bench.facts("tasks remove", bench.skill_path, f"test-{n}", reason="wrong", yes=True)
        tested = host.tool("evaluate_candidate", candidate_id=candidate_id)
        assert tested["work"], "the work that is out is for the old tasks"
        bench.end_leases()
        tested = host.tool("evaluate_candidate", candidate_id=candidate_id)
        assert tested["foreseen.units"] == SIZES["test"] + 8 - n_removed
        assert host.test_by_host(candidate_id).verdict == "better"
    assert bench.tested(candidate_id)["test.units.of"] == SIZES["test"] + 8 - n_removed
    assert bench.run("store verify").exit_code == 0


def test_each_answer_counts_once(bench: Workbench, host: Server) -> None:
    _, job_id = begin(bench, host)
    first, second, *_ = host.take(job_id)
    (Path(second.folder) / ANSWER_FILE).write_text("hello")
    table: list[tuple[dict[str, object], str]] = [
        ({"work_id": first.work_id, "reply": "hello"}, TAKEN),
        ({"work_id": first.work_id, "reply": "hello"}, "duplicate"),
        ({"work_id": first.work_id, "reply": "another"}, "duplicate"),
        ({"work_id": second.work_id}, TAKEN),
        ({"work_id": second.work_id, "reply": "another"}, "duplicate"),
        ({"work_id": "w-0123", "reply": "hello"}, "unknown"),
    ]
    for reply, status in table:
        assert host.hand_in([reply]) == [status], reply


def test_expired_work_is_handed_out_again_and_a_late_answer_counts_if_it_is_the_first(bench: Workbench) -> None:
    with bench.serve(lease_minutes=SHORT_LEASE) as slow, bench.serve(lease_minutes=SHORT_LEASE) as quick:
        candidate_id, job_id = begin(bench, slow)
        taken = slow.take(job_id, 3)
        assert not {item.folder for item in taken} & {item.folder for item in quick.take(job_id, 1)}
        time.sleep(SHORT_LEASE * 60)
        late = [{"work_id": item.work_id, "reply": answer_work(Path(item.folder))} for item in taken]
        assert slow.hand_in(late[:1]) == [TAKEN]
        while work := quick.take(job_id):
            again = [{"work_id": item.work_id, "reply": answer_work(Path(item.folder))} for item in work]
            assert quick.hand_in(again) == [TAKEN] * len(again)
        assert not {TAKEN} & {*slow.hand_in([{**reply, "reply": "hello"} for reply in late[1:]])}
        # Four were lost so: that many a test asks again.
        assert quick.tool("evaluate_candidate", candidate_id=candidate_id).verdict == "better"
        assert bench.tested(candidate_id).solved == (0.0, 1.0)


def test_an_attempt_that_was_given_up_is_no_answer(bench: Workbench, host: Server) -> None:
    _, job_id = begin(bench, host)
    [item, *_] = host.take(job_id)
    given_up = {"work_id": item.work_id, "failed": "the agent stopped"}
    assert host.hand_in([given_up]) == [TAKEN]
    assert host.hand_in([{"work_id": item.work_id, "reply": "hello"}]) != [TAKEN]
    assert host.hand_in([{**given_up, "reply": "hello"}]) != [TAKEN]


def test_an_unusable_reply_of_the_optimizer_is_refused_and_can_be_mended(bench: Workbench, host: Server) -> None:
    host.tool("record_trajectory", skill=str(bench.skill_path), task="greet", hard=False, reason="too short")
    [item] = host.take(host.tool("propose_edits", skill=str(bench.skill_path))["job_id"])
    for reply in ("no JSON", "{}", '{"reasoning": "r", "edits": [{"op": "replace", "target": "absent"}]}'):
        assert host.hand_in([{"work_id": item.work_id, "reply": reply}]) == ["refused"], reply
        break  # a third refusal would end the question
    assert host.hand_in([{"work_id": item.work_id, "reply": answer_work(Path(item.folder))}]) == [TAKEN]


def test_a_killed_server_loses_no_answer(bench: Workbench) -> None:
    with bench.serve() as first:
        candidate_id, job_id = begin(bench, first)
        answered = first.take(job_id, 6)
        replies = [{"work_id": item.work_id, "reply": answer_work(Path(item.folder))} for item in answered]
        assert set(first.hand_in(replies)) == {TAKEN}
        lost = first.take(job_id, 2)
        first.kill()
        assert first.is_gone()
    with bench.serve() as second:
        assert set(second.hand_in(replies)) == {"duplicate"}
        tested = second.test_by_host(candidate_id)
        assert (tested.verdict, bench.tested(candidate_id).solved) == ("better", (0.0, 1.0))
        assert lost


def test_two_servers_on_one_store_share_the_work_of_one_test(bench: Workbench) -> None:
    with bench.serve() as one, bench.serve() as other:
        candidate_id, job_id = begin(bench, one)
        seen = set[str]()
        for n in range(40):
            host = (one, other)[n % 2]
            work = host.take(job_id, 3)
            assert not seen & {item.work_id for item in work}
            seen |= {item.work_id for item in work}
            replies = [{"work_id": item.work_id, "reply": answer_work(Path(item.folder))} for item in work]
            if not work or TAKEN not in host.hand_in(replies):
                break
        ends = [host.tool("evaluate_candidate", candidate_id=candidate_id) for host in (one, other)]
        assert [end.verdict for end in ends] == ["better", "better"]
        runs = bench.tested(candidate_id)["test.runs"]
        assert runs["candidate"] + runs["base"] <= len(seen)


FAILING: list[tuple[str, dict[str, object]]] = [
    ("evaluate_candidate", {"candidate_id": "c-000000000000"}),
    ("promote_skill", {"candidate_id": "nonsense"}),
    ("propose_edits", {"skill": "absent", "edits": []}),
    ("inspect", {"id": "t-000000000000"}),
    ("rollback_skill", {"skill": "absent"}),
]


def test_a_tool_that_cannot_do_it_answers_with_an_error(bench: Workbench, host: Server) -> None:
    for tool, arguments in FAILING:
        with pytest.raises(ToolFailed):
            host.tool(tool, **arguments)
    assert host.tool("list_skills")["skills"]
