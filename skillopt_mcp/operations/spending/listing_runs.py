"""Listing runs: which runs there were, of one skill or of all, newest first."""

from __future__ import annotations

from pydantic import Field, JsonValue

from skillopt_mcp.backends.host import is_host
from skillopt_mcp.backends.names import is_spec
from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.environments.registry import environment_names
from skillopt_mcp.operations.answering import told_changes
from skillopt_mcp.operations.finding import called
from skillopt_mcp.operations.leasing import told_leases
from skillopt_mcp.operations.results import Replayed, Result
from skillopt_mcp.operations.spending.accounting import Accounted
from skillopt_mcp.operations.spending.charging import account, rows_of, shares, together
from skillopt_mcp.operations.spending.using import Used, used_beside, used_by
from skillopt_mcp.operations.workspace import Workspace
from skillopt_mcp.optimizer.config import Config
from skillopt_mcp.records.budgets import Cost
from skillopt_mcp.records.runs import Run, RunKind
from skillopt_mcp.records.skills import Skill, short
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pressing import Pressing

NONE_YET = "No run yet: skillopt-mcp replay SKILL"


class RunRow(Accounted):
    """One run as a table row. Scores are the run's metric on val; `test_before` and `test_after` of the finish.

    `n_calls`, `tokens` and `usd` (None where the price of one call is not known) are of the run and of its part of the
    promotion test that it came to, together; `n_test_calls`, `test_tokens` and `test_usd` of that part alone. What
    several runs share is charged to the one that asked for it, and a run that has finished keeps its figures. `config`
    holds the settings that differ from the defaults. `work` tells what a host has in hand, `changes` after which steps
    others came to answer. `concluded_after` is the step after which the search was ended early, of `n_planned`.
    """

    id: str
    skill: str
    kind: RunKind
    status: str
    started_at: str
    n_steps: int
    epochs: int
    config: dict[str, JsonValue]
    base_version: str
    best_version: str
    best: float | None
    verdict: str | None
    test_before: float | None
    test_after: float | None
    n_calls: int
    tokens: int
    usd: float | None
    n_test_calls: int
    test_tokens: int
    test_usd: float | None
    work: str
    target: str
    optimizer: str
    changes: list[str] = Field(default_factory=list)
    concluded_after: int | None = None
    n_planned: int | None = None


class RunList(Result):
    """Runs, the newest first; `beside` is what else the store has spent on, for any skill: contests, tests by hand.

    `tests` are the promotion tests that more than one run has drawn pairs of, or somebody by hand too, each whole: what
    it used is charged to these runs already, and what is no run's is in `beside`. Where the next step goes on with a
    run, `conclude` ends its search instead.
    """

    runs: list[RunRow]
    beside: list[Used] = Field(default_factory=list)
    tests: list[Used] = Field(default_factory=list)
    conclude: str | None = None


def list_runs(workspace: Workspace, skill: str | None = None) -> RunList:
    """Return the runs of a skill, or of all skills; no store is made for all. Raises NotFound, BadSkill."""
    if not (skill or workspace.is_made):
        return RunList(runs=[], next_step=NONE_YET)
    skills = [workspace.kept(skill)] if skill else workspace.store.skills.list_skills()
    store = workspace.store
    started = [
        (_row(workspace, each.name, run, started_at), run)
        for each in skills
        for run, started_at in store.runs.list_started(each.id)
    ]
    started.sort(key=lambda row: row[0].started_at, reverse=True)
    tests = list(dict.fromkeys(test_id for _, run in started for test_id in tests_of(workspace, run)))
    used = [used_beside(store, name) for name in dict.fromkeys([*store.budgets.list_beside_runs(), *tests])]
    on = next((run for _, run in started if way_on(workspace, run)), None)
    newest = f"skillopt-mcp show {started[0][0].id}" if started else NONE_YET
    return RunList(
        runs=[row for row, _ in started],
        beside=[each for each in used if each.n_sent],
        tests=[used_by(store, name) for name in tests if _is_shared(store, name)],
        next_step=way_on(workspace, on) if on else newest,
        conclude=way_to_end(workspace, on) if on else None,
    )


def _is_shared(store: Store, test_id: str) -> bool:
    """Return whether no run asked for all of a promotion test."""
    n_calls = together(store.ledger.list_rows(test_id)).n_calls
    parts = shares(store, test_id).values()
    return all(together(rows_of(store, part)).n_calls < n_calls for part in parts)


def way_on(workspace: Workspace, run: Run) -> str:
    """Return how to go on with a run; empty when it is over, or nothing goes on with it any more."""
    skill = workspace.store.skills.get_skill(run.skill_id)
    if run.kind == "replay":
        if run.status == "finished":
            return ""
        if own := told_own(run):
            return own
        return f"skillopt-mcp replay {called(workspace.store, skill)} --resume {_more(workspace, run)}".rstrip()
    if run.status != "running" or run.base_version != skill.live_version:
        return ""
    if not any(map(is_host, (run.target, run.optimizer, run.judge))):
        return f"{run.id} goes on where it began, in a session of an agent: propose_edits for '{skill.name}'"
    if not workspace.store.leases.list_of(run.id):
        return f"{run.id} is under way, and nothing of it is handed out yet: propose_edits for '{skill.name}' goes on"
    work = told_leases(workspace, run.id)
    return (
        f"{run.id} is under way, for any agent that the server serves: submit_work with job_id "
        f"{run.id}{f'; {work}' if work else ''}"
    )


def way_to_end(workspace: Workspace, run: Run) -> str | None:
    """Return how to end the search of a run, and test what it has brought; None where nothing can, or it has ended."""
    runs = workspace.store.runs
    is_searching = run.kind == "replay" and run.status != "finished" and not run.conclusion
    if not is_searching or told_own(run) or runs.list_finishes(run.id):
        return None
    steps = runs.list_steps(run.id)
    # Only the test of a better version asks anybody.
    more = _more(workspace, run) if steps and steps[-1].best_version != run.base_version else ""
    named = called(workspace.store, workspace.store.skills.get_skill(run.skill_id))
    return f"skillopt-mcp replay {named} --conclude {more}".rstrip()


def stopped_run(workspace: Workspace, skill: Skill) -> str:
    """Return how to go on with the newest run of a skill, where it stopped and what it began from is live; else ""."""
    run_id = workspace.store.room(Pressing).find_stopped(skill.id)
    if run_id is None:
        return ""
    run = workspace.store.runs.get_run(run_id)
    # One that was killed has no time to say that it stopped.
    if run.status == "running":
        lock = lock_run(workspace.store.locks_path, run_id)
        if lock is None:
            return f"{run_id} is under way: inspect {run_id} tells how far it is"
        lock.release()
    if own := told_own(run):
        return own
    end = way_to_end(workspace, run)
    return f"{run_id} has stopped: {way_on(workspace, run)} goes on with it{f', {end} ends its search' if end else ''}"


def _more(workspace: Workspace, run: Run) -> str:
    """Return the options by which the next call of a run is within its caps: as it told when it stopped there."""
    higher = workspace.store.runs.get_higher(run.id)
    return higher or run.caps.raised_for(workspace.store.budgets.get_spent(run.id).plus(*Cost())).options


def told_elsewhere(workspace: Workspace, name: str) -> str:
    """Return that another process advances a run of the skill, of which a new one takes nothing; "" when none does."""
    for run_id, started_at in workspace.store.runs.list_running(workspace.recorded(name).id):
        if lock := lock_run(workspace.store.locks_path, run_id):
            lock.release()
            continue
        return (
            f"run {run_id} of this skill is under way since {started_at[:16]}Z; a new run pays for all of its own calls"
        )
    return ""


def told_own(run: Run) -> str:
    """Return how a run goes on that a program began with a backend of its own; empty where a command can name all."""
    own = next((name for name in (run.target, run.optimizer, run.judge) if name and not _can_be_named(name)), "")
    if not own:
        return ""
    return (
        f"{run.id} was begun by a program with a backend of its own ('{own}'): call train(...) again with the same "
        "arguments"
    )


def _can_be_named(backend: str) -> bool:
    name, _, rest = backend.strip().partition(":")
    return is_spec(backend) and (name != "env" or rest.partition(":")[0] in environment_names())


def tests_of(workspace: Workspace, run: Run) -> list[str]:
    """Return the promotion tests that a run came to: one, or none."""
    return [test_id for test_id, _ in workspace.store.runs.list_finishes(run.id)]


def _row(workspace: Workspace, skill: str, run: Run, started_at: str) -> RunRow:
    store = workspace.store
    steps = store.runs.list_steps(run.id)
    used = account(store, run.id)
    test, both = used.of_tests, together(used.rows)
    # A proposal ends in another kind of result, and has no verdict.
    result = Replayed.model_validate_json(run.result) if run.result and run.kind == "replay" else None
    last = steps[-1] if steps else None
    return RunRow(
        **used.told.model_dump(),
        id=run.id,
        skill=skill,
        kind=run.kind,
        status=run.status,
        started_at=started_at,
        n_steps=len(steps),
        epochs=Config.of_run(run.config).epochs,
        config=unusual(run),
        base_version=short(run.base_version),
        best_version=short(last.best_version if last else run.base_version),
        best=last.best if last else (result.baseline if result else None),
        verdict=result.verdict if result else None,
        test_before=result.test_before if result else None,
        test_after=result.test_after if result else None,
        n_calls=both.n_calls,
        tokens=both.tokens_in + both.tokens_out,
        usd=both.usd,
        n_test_calls=test.n_calls,
        test_tokens=test.tokens_in + test.tokens_out,
        test_usd=test.usd,
        work=told_leases(workspace, run.id),
        target=run.target,
        optimizer=run.optimizer,
        changes=told_changes(run),
        concluded_after=run.conclusion.after if run.conclusion else None,
        n_planned=run.conclusion.planned if run.conclusion else None,
    )


def unusual(run: Run) -> dict[str, JsonValue]:
    """Return the settings of a run that differ from the defaults."""
    defaults = Config().model_dump(mode="json")
    settings = Config.of_run(run.config).model_dump(mode="json")
    return {name: value for name, value in settings.items() if value != defaults[name]}
