"""Arrival: how often the skill was opened in a test, tests in which nobody opened it, and texts that are pasted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from workshop import EVEN, LESSONS, SEED, Place, right_when_taught, use

from skillopt_mcp.actions.promotion_tests import evaluate_candidate
from skillopt_mcp.actions.promotions.promoting import promote_skill
from skillopt_mcp.actions.replay import replay
from skillopt_mcp.actions.runs import start_run
from skillopt_mcp.actions.texts import candidate_of_files
from skillopt_mcp.admin.verify import verify_store
from skillopt_mcp.backends.arrivals import unseen_commands
from skillopt_mcp.backends.registry import open_backend
from skillopt_mcp.backends.scripted import Scripted
from skillopt_mcp.backends.world import make_tasks
from skillopt_mcp.backends.wrappers import HostMade
from skillopt_mcp.core.calls import Arrival, Call, Message, Reply, Rollout
from skillopt_mcp.core.candidates import Consent
from skillopt_mcp.core.errors import NotLoaded, Refused
from skillopt_mcp.core.skills import SkillFile
from skillopt_mcp.gates.verdicts import caveats
from skillopt_mcp.reports.lookup import look_up
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace.skill_folders import read_skill
from skillopt_mcp.workspace.workspace import Workspace


@pytest.fixture
def fresh(place: Place) -> Workspace:
    workspace = place.open()
    place.add_held_out(workspace, 12)
    return workspace


def opening(state: str, base: str = "", name: str = "claude-code:m") -> Scripted:
    """Return a command line of a host that opens the skill, or does not: the base as `base` says where given."""

    def answer(call: Call) -> Reply:
        said = base if base and "/base/" in call.draw else state
        return Reply(right_when_taught(call), (Message("skill", said, "demo"), Message("assistant", "Hm.")))

    return Scripted(answer, name=name)


@pytest.mark.parametrize("name", ["claude-code:m", "codex:m"])
def test_a_test_in_which_nobody_opened_the_skill_compares_nothing_and_uses_nothing_up(
    place: Place, fresh: Workspace, name: str
) -> None:
    use(fresh, opening("not opened", name=name))
    candidate_id = place.propose(fresh)
    found = evaluate_candidate(fresh.store, fresh.models, fresh.place, candidate_id)
    assert found.test
    assert (found.test.verdict, found.accepted, found.test.test_in_release) == ("not_tested", False, 1)
    assert found.attempts_done == 16, "the first eight pairs alone were made"
    assert [note.code for note in found.notes] == ["never_opened"]
    assert found.next_step
    assert "description" in found.next_step.why
    assert promote_skill(fresh.store, fresh.place, candidate_id, Consent.PERSON).status == "refused"
    assert "NOT TESTED" in look_up(fresh.store, fresh.place, found.test.test_id, 4000).text
    assert verify_store(fresh.store.path).problems == []
    use(fresh, opening("opened", "not opened", name))
    again = evaluate_candidate(fresh.store, fresh.models, fresh.place, candidate_id, again=True).test
    assert again
    assert (again.verdict, again.test_in_release) == ("better", 1), "it has the whole share of the error rate"


@pytest.mark.parametrize("base", ["opened", "not opened"])
def test_a_verdict_says_how_often_the_skill_was_opened(place: Place, fresh: Workspace, base: str) -> None:
    use(fresh, opening("opened", base))
    found = evaluate_candidate(fresh.store, fresh.models, fresh.place, place.propose(fresh)).test
    assert found
    assert found.verdict == "better"
    assert found.opened
    n = found.runs.base
    assert found.opened.model_dump() == {"before": n * (base == "opened"), "before_of": n, "after": n, "after_of": n}
    said = f"opened in {n * (base == 'opened')} of {n} attempts with the old text, {n} of {n} with the new one"
    assert said in caveats(found)[0]
    assert said in look_up(fresh.store, fresh.place, found.test_id, 4000).text


def test_targets_that_cannot_open_a_skill_and_edits_of_the_description_are_tested_all_the_same(
    place: Place, fresh: Workspace
) -> None:
    use(fresh, Scripted(right_when_taught, name="mine"))
    plain = evaluate_candidate(fresh.store, fresh.models, fresh.place, place.propose(fresh)).test
    assert plain
    assert (plain.verdict, plain.opened, plain.pasted) == ("better", None, False)
    use(fresh, opening("not opened"))
    candidate = described(place, fresh)
    other = evaluate_candidate(fresh.store, fresh.models, fresh.place, candidate).test
    assert other
    assert other.verdict == "not_better"


def described(place: Place, workspace: Workspace) -> str:
    """Return a candidate that changes the description alone."""
    new = place.root / "new.md"
    text = (place.skill / "SKILL.md").read_text()
    assert "description: " in text
    new.write_text(text.replace("description: ", "description: For all of it. "))
    return candidate_of_files(workspace.store, workspace.place, str(place.skill), new).id


@pytest.mark.parametrize("name", ["openai:m", "anthropic:m", "an agent's own"])
def test_a_pasted_text_says_so_and_its_front_matter_cannot_be_tested(place: Place, fresh: Workspace, name: str) -> None:
    target = Scripted(right_when_taught, name=name)
    use(fresh, target if ":" in name else HostMade(target))
    found = evaluate_candidate(fresh.store, fresh.models, fresh.place, place.propose(fresh, LESSONS)).test
    assert found
    assert found.pasted
    assert any("pasted, not loaded by a host" in line for line in caveats(found))
    with pytest.raises(Refused, match="front matter alone"):
        evaluate_candidate(fresh.store, fresh.models, fresh.place, described(place, fresh))


class Host(Scripted):
    """A target that loads skills by itself: what comes of that is planned by the text."""

    loads = True

    def __init__(self, *plan: tuple[str, Arrival]) -> None:
        super().__init__(lambda call: Reply(right_when_taught(call), OPENED), name="claude-code:m")
        self.plan, self.loaded = plan, list[tuple[str, str, bool]]()

    async def load(self, request: Rollout, *, by_prompt: bool) -> Arrival | None:
        self.loaded.append((request.files.digest, request.task.folder, by_prompt))
        return next((found for words, found in self.plan if words in request.files.text), Arrival("arrived"))


OPENED = (Message("skill", "opened", "demo"),)


def test_each_text_is_driven_once_through_the_host_before_it_is_tested(place: Place, fresh: Workspace) -> None:
    host = Host(("Net is gross", Arrival("arrived", "the host changes 1 lines: x")))
    use(fresh, host)
    candidate_id = place.propose(fresh)
    found = evaluate_candidate(fresh.store, fresh.models, fresh.place, candidate_id).test
    assert found
    assert found.verdict == "better"
    assert [(folder, by) for _, folder, by in host.loaded] == [("ledger-clerk", False)] * 2
    assert len({version for version, _, _ in host.loaded}) == 2
    again = Host()
    use(fresh, again)
    evaluate_candidate(fresh.store, fresh.models, fresh.place, candidate_id, again=True)
    assert again.loaded == [], "it is stored"


def test_a_text_that_does_not_arrive_is_refused_in_the_hosts_words_and_costs_nothing(
    place: Place, fresh: Workspace
) -> None:
    host = Host((LESSONS.splitlines()[0], Arrival("refused", "Shell command permission check failed")))
    use(fresh, host)
    candidate_id = place.propose(fresh)
    with pytest.raises(NotLoaded, match="Shell command permission check failed"):
        evaluate_candidate(fresh.store, fresh.models, fresh.place, candidate_id)
    assert host.calls == []
    assert fresh.store.tests.list_of_skill(1) == [], "no test was opened"


def test_what_could_not_be_checked_is_tested_and_the_verdict_says_so(place: Place, fresh: Workspace) -> None:
    use(fresh, Host(("", Arrival("unchecked", "the host asked nothing within 60 s"))))
    found = evaluate_candidate(fresh.store, fresh.models, fresh.place, place.propose(fresh)).test
    assert found
    assert found.verdict == "better"
    assert "Loading the new text: unchecked: the host asked nothing within 60 s." in caveats(found)


def test_what_could_not_be_checked_is_asked_again_by_another_process_and_once_in_each(
    place: Place, fresh: Workspace
) -> None:
    candidate_id = place.propose(fresh)
    for workspace in (fresh, place.open()):
        host = Host(("", Arrival("unchecked", "the host asked nothing within 60 s")))
        use(workspace, host)
        for _ in range(2):
            evaluate_candidate(workspace.store, workspace.models, workspace.place, candidate_id, again=True)
        assert len(host.loaded) == 2, "each of both texts"


@pytest.mark.parametrize(("others", "by_prompt"), [("/ledger-clerk", True), ("Please", False)])
def test_a_text_is_loaded_by_its_name_only_where_every_prompt_does_that(
    place: Place, others: str, by_prompt: bool
) -> None:
    workspace = place.open()
    skill = workspace.place.skill(str(place.skill))
    starts = ["/ledger-clerk"] * 11 + [others]
    tasks = [replace(task, split="test") for task in make_tasks(12, SEED)]
    tasks = [replace(task, prompt=f"{start} {task.prompt}") for start, task in zip(starts, tasks, strict=True)]
    workspace.store.tasks.add_tasks(skill.id, tasks, EVEN)
    host = Host()
    use(workspace, host)
    evaluate_candidate(workspace.store, workspace.models, workspace.place, place.propose(workspace))
    assert [loaded[1:] for loaded in host.loaded] == [("ledger-clerk", by_prompt)] * 2


RUNS = {
    "a command in prose": ("SKILL.md", "{text}\nThe date is !`date +%F`.\n"),
    "a command block": ("SKILL.md", "{text}\n```!\ndate\n```\n"),
    "a plain hook": ("SKILL.md", "---\nhooks:\n  Stop:\n    - run: date\n{rest}"),
    "a hook": ("SKILL.md", "---\nhooks:\n  Stop:\n    - hooks: [{{type: command, command: date}}]\n{rest}"),
}


@pytest.mark.parametrize("shape", RUNS)
def test_a_text_that_runs_something_by_being_loaded_is_held_until_a_person_has_seen_it(
    place: Place, fresh: Workspace, shape: str
) -> None:
    host = Host()
    use(fresh, host)
    text = (place.skill / "SKILL.md").read_text()
    new = place.root / "new.md"
    new.write_text(RUNS[shape][1].format(text=text, rest=text.partition("\n")[2]))
    candidate = candidate_of_files(fresh.store, fresh.place, str(place.skill), new)
    with pytest.raises(NotLoaded, match="no person has seen"):
        evaluate_candidate(fresh.store, fresh.models, fresh.place, candidate.id)
    assert (host.calls, [version for version, *_ in host.loaded if version == candidate.version_id]) == ([], [])
    files = fresh.store.skills.get_files(candidate.skill_id, candidate.version_id)
    fresh.store.arrivals.add_seen(candidate.skill_id, unseen_commands(fresh.store, candidate.skill_id, files), "me")
    assert evaluate_candidate(fresh.store, fresh.models, fresh.place, candidate.id).status == "verdict"
    assert verify_store(fresh.store.path).problems == []


def test_a_script_that_a_live_command_names_is_held_when_it_changes(place: Place, fresh: Workspace) -> None:
    with (place.skill / "SKILL.md").open("a") as file:
        file.write("\nThe date is !`scripts/date.sh`.\n")
    (place.skill / "scripts").mkdir()
    (place.skill / "scripts" / "date.sh").write_text("#!/bin/sh\n. ./more.sh\n")
    (place.skill / "scripts" / "more.sh").write_text("date\n")
    use(fresh, Host())
    skill = fresh.place.skill(str(place.skill))
    live = read_skill(Path(skill.path))
    assert unseen_commands(fresh.store, skill.id, live) == [], "a person has it live"
    for name in ("date.sh", "more.sh"):
        changed = live.replaced(SkillFile(f"scripts/{name}", b"#!/bin/sh\nid\n"))
        assert [each.partition(" ")[0] for each in unseen_commands(fresh.store, skill.id, changed)] == [
            f"scripts/{name}"
        ]
    assert unseen_commands(fresh.store, skill.id, live.replaced(SkillFile("notes.md", b"new"))) == []


def test_a_candidate_of_a_search_that_does_not_arrive_scores_nothing_and_is_named(place: Place) -> None:
    workspace = place.open()
    place.add_tasks(workspace)
    refused = Host()
    base = read_skill(Path(workspace.place.skill(str(place.skill)).path)).digest

    async def load(request: Rollout, *, by_prompt: bool) -> Arrival:
        return Arrival("arrived") if request.files.digest == base else Arrival("refused", "broken quotes")

    refused.load = load  # type: ignore[method-assign]
    use(workspace, refused, "target")
    use(workspace, open_backend("simulated:honest,seed=0"), "optimizer")
    result = replay(
        workspace.store,
        workspace.models,
        workspace.place,
        start_run(workspace.store, workspace.models, workspace.place, str(place.skill), Config(epochs=1, batch=20)),
    )
    steps = workspace.store.runs.list_steps(result.run_id)
    tried = [step for step in steps if step.verdict != "no_change"]
    assert tried
    assert all(step.verdict == "reject" and step.candidate is None for step in tried)
    assert all("broken quotes" in " ".join(step.unusable) for step in tried)
    assert "broken quotes" in look_up(workspace.store, workspace.place, result.run_id, 20_000).text
    asked = {call.request.files.digest for call in refused.calls if isinstance(call.request, Rollout)}
    assert asked == {base}
