"""A memory file is the second document of a run: each is written in sight of the other, and each has its gates."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.doors import Facts, Workbench
from tests.acceptance.world import KINDS, SKILL, Fault, Request, Vendor, lesson
from tests.processes import Script

SIZES = {"train": 8, "val": 8, "test": 32}
MEMORY = "# House rules\n\n- Answer in one line.\n"
RUN: dict[str, Any] = {"epochs": 2, "batch": 8, "slow_samples": 4, "concurrency": 1}
N_KILLS = 6


@pytest.fixture
def memory(bench: Workbench) -> Path:
    path = bench.project / "CLAUDE.md"
    path.write_text(MEMORY)
    bench.add_tasks(SIZES)
    assert bench.run("skills add-root", path).exit_code == 0
    return path


def questions(vendor: Vendor) -> Iterator[tuple[str, str, str]]:
    """Yield each question as what it is about, what it shows besides, and the whole of it."""
    for request in vendor.requests:
        if request.schema:
            own, _, rest = request.text.partition("```skill\n")[2].partition("\n```")
            yield own, rest.partition("```other\n")[2].partition("\n```")[0], request.text


def searched(vendor: Vendor) -> list[str]:
    """Return the requests of a run but those of its promotion tests."""
    return [request.body for request in vendor.requests if "(test " not in request.body]


def replay(bench: Workbench, vendor: Vendor, memory: Path, **options: Any) -> Facts:
    return bench.replay(target=vendor.spec, optimizer=vendor.spec, memory=memory, **{**RUN, **options})


@pytest.mark.parametrize("more", [{}, {"schedule": "autonomous", "minibatch": 2, "skill_aware": True}])
def test_whoever_writes_one_document_sees_the_other_as_it_then_stands(
    bench: Workbench, vendor: Vendor, memory: Path, more: dict[str, Any]
) -> None:
    # Some tasks stay unsolved, so that the epoch has its end, too.
    vendor.act = lambda _, request: None if request.schema or "in the night." not in request.text else "hello"
    done = replay(bench, vendor, memory, **more)
    of_skill, of_memory = list[str](), list[str]()
    for own, other, text in questions(vendor):
        mine, theirs, about = (
            ("House rules", "Be friendly", of_memory)
            if "House rules" in own
            else ("Be friendly", "House rules", of_skill)
        )
        assert (mine in own, mine in other, theirs in own, theirs in other) == (True, False, False, True), text
        assert ("edit the skill alone" in text, 'edit "CLAUDE.md" alone' in text) == (
            about is of_skill, about is of_memory,
        )  # fmt: skip
        about.append(other)
    assert len(of_memory) >= 2
    assert len(of_skill) >= 2
    # What one of them learned is what whoever writes the other sees next.
    assert any(lesson("morning") in other for other in of_memory)
    assert any(lesson("noon") in other for other in of_skill)
    kinds = [step["kind"] for step in done["steps"]]
    assert kinds == ["step", "memory", "step", "memory", "slow", "meta"]
    assert [step["verdict"] for step in done["steps"]][:3] == ["accept_best"] * 3


def test_each_document_is_gated_promoted_and_rolled_back_by_itself(
    bench: Workbench, vendor: Vendor, memory: Path
) -> None:
    done = replay(bench, vendor, memory, slow_update=False, meta_skill=False)
    assert (bench.live_text(), memory.read_text()) == (SKILL.replace("NAME", "greeter"), MEMORY), "nothing is written"
    assert (done["verdict"], done["memory.verdict"]) == ("better", "better")
    assert (done["test.units.of"], done["memory.test.units.of"]) == (32, 32)
    # The skill has two lessons of four, and the memory file, tested with it, the other two.
    (before, between), (other, after) = [
        [done[f"{name}test.solved.{when}"] for when in ("before", "after")] for name in ("", "memory.")
    ]
    assert before == 0 < between < 1 == after
    assert 0 < other < 1
    skill, other = done["candidate_id"], done["memory.candidate_id"]
    assert done["next_step.arguments.candidate_id"] == skill
    with closing(sqlite3.connect(bench.store_path)) as store:
        tasks = [sorted(json.loads(row[0])) for row in store.execute("select tasks from promotion_test")]
    assert tasks[0] == tasks[1]
    assert len(tasks) == 2

    # The file was tested with a skill that is not live yet.
    early = bench.facts("promote", other, yes=True, exit_code=1)
    assert (early["status"], early["next_step.arguments.candidate_id"]) == ("refused", skill)
    assert memory.read_text() == MEMORY
    # No list advises what would be refused.
    steps = [row["next_step"]["arguments"] for row in bench.facts("skills")["skills"]]
    assert [step.get("candidate_id") for step in steps] == [skill, skill]
    assert bench.facts("show", other)["next_step.arguments.candidate_id"] == skill
    # A person may, and the record says that nothing is proven of it.
    assert bench.at_terminal("promote", other, unproven=True).exit_code == 0
    assert bench.facts("show", "project:CLAUDE.md")["history.rows"][0]["verdict"] == "unproven"
    assert bench.at_terminal("rollback", "project:CLAUDE.md").exit_code == 0
    for each in (skill, other):
        assert bench.at_terminal("promote", each, answer="n\n").exit_code == 1
        assert bench.at_terminal("promote", each).exit_code == 0
    kinds = [*KINDS]
    assert [lesson(kind) in bench.live_text() for kind in kinds] == [True, False, True, False]
    assert [lesson(kind) in memory.read_text() for kind in kinds] == [False, True, False, True]
    assert [each.name for each in bench.skill_path.iterdir()] == ["SKILL.md"]
    promoted = bench.live_text()
    assert bench.at_terminal("rollback", "project:CLAUDE.md").exit_code == 0
    assert (bench.live_text(), memory.read_text()) == (promoted, MEMORY)
    assert bench.at_terminal("rollback", bench.skill_path).exit_code == 0
    assert bench.live_text() == SKILL.replace("NAME", "greeter")
    assert bench.run("store verify").exit_code == 0


def test_a_run_with_both_that_is_killed_ends_like_one_that_is_not(bench: Workbench, vendor: Vendor) -> None:
    calm = Workbench(bench.folder / "calm")
    ends, sent = list[Facts](), list[list[str]]()
    for each in (calm, bench):
        memory = each.project / "CLAUDE.md"
        memory.write_text(MEMORY)
        each.add_tasks(SIZES)
    ends.append(replay(calm, vendor, calm.project / "CLAUDE.md"))
    sent.append(searched(vendor))
    vendor.reset()
    running: list[Script] = []
    # The last one comes in a promotion test, which draws its tasks by chance.
    points = [(n + 1) * (len(sent[0]) + 16) // N_KILLS for n in range(N_KILLS)]

    def act(n: int, _request: Request) -> Fault | None:
        if not points or n - (N_KILLS - len(points)) < points[0]:
            return None
        points.pop(0)
        running[-1].kill()
        return "reset"

    vendor.act = act
    options: dict[str, Any] = {
        "target": vendor.spec, "optimizer": vendor.spec, "memory": bench.project / "CLAUDE.md", **RUN,
    }  # fmt: skip
    while not running or running[-1].wait() == -signal.SIGKILL:
        running.append(bench.start("replay", bench.skill_path, yes=True, json=True, **options))
        options = {"resume": True, "concurrency": 1}
    assert running[-1].returncode == 0, running[-1].err
    assert len(running) == N_KILLS + 1
    ends.append(Facts(json.loads(running[-1].out)))
    names = ("steps", "best_version", "verdict", "baseline", "memory.best_version", "memory.verdict", "memory.accepted")
    assert [ends[0][name] for name in names] == [ends[1][name] for name in names]
    sent.append(searched(vendor))
    assert set(sent[0]) == set(sent[1])
    assert 0 < len(sent[1]) - len(sent[0]) < N_KILLS, "a kill costs one request"


def test_a_cap_stops_a_run_whose_two_best_can_be_proven_one_after_the_other(
    bench: Workbench, vendor: Vendor, memory: Path
) -> None:
    stopped = replay(bench, vendor, memory, epochs=4, max_calls=60, exit_code=1)
    proven = [bench.prove_best(stopped["run_id"], max_calls=400) for _ in range(2)]
    assert [each["test.verdict"] for each in proven] == ["better", "better"]
    shown = [bench.facts("show", each["candidate_id"])["candidate.skill"] for each in proven]
    assert shown == ["greeter", "project:CLAUDE.md"]


def test_the_same_edit_of_a_run_without_the_file_is_tested_without_it(
    bench: Workbench, vendor: Vendor, memory: Path
) -> None:
    both = replay(bench, vendor, memory, epochs=1)
    alone = bench.replay(target=vendor.spec, optimizer=vendor.spec, **RUN | {"epochs": 1})
    assert alone["candidate_id"] == both["candidate_id"]
    with closing(sqlite3.connect(bench.store_path)) as store:
        others = dict(store.execute("select id, other_version from promotion_test"))
    assert others.pop(alone["test.test_id"]) is None
    assert len(others) == 2
    assert all(others.values())


def test_a_file_that_goes_while_the_run_is_on_ends_it_without_a_test(
    bench: Workbench, vendor: Vendor, memory: Path
) -> None:
    def act(_n: int, request: Request) -> None:
        if "(val " in request.body:
            memory.unlink(missing_ok=True)

    vendor.act = act
    done = replay(bench, vendor, memory, epochs=1)
    assert (done["status"], done["verdict"], done["memory.verdict"]) == ("finished", None, None)
    assert "the other document of the run is missing" in done["reason"]
    assert "could not be promoted" in done["memory.reason"]
    assert not any("(test " in request.body for request in vendor.requests)


def test_what_cannot_be_the_second_document_is_refused_before_anything_is_asked(
    bench: Workbench, vendor: Vendor, memory: Path
) -> None:
    named = {"target": vendor.spec, "optimizer": vendor.spec, "yes": True}
    for other in (bench.skill_path, bench.make_skill("second")):
        done = bench.run("replay", bench.skill_path, memory=other, **named)
        assert (done.exit_code, "must be a skill" in done.err) == (1, True), done
    (bench.skill_path / "CLAUDE.md").write_text("# Of the skill\n")
    done = bench.run("replay", bench.skill_path, memory=memory, **named)
    assert (done.exit_code, "has a file with the name of the memory file" in done.err) == (1, True), done
    assert vendor.requests == []
