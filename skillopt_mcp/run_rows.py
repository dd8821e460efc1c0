"""Run rows: the list of runs, and how each goes on."""

from __future__ import annotations

import shlex

from pydantic import Field, JsonValue

from skillopt_mcp.backends.host import is_host
from skillopt_mcp.backends.registry import is_spec
from skillopt_mcp.calls.owners import lock_run
from skillopt_mcp.costs import Accounted, Used, account, add_up, used_by
from skillopt_mcp.dispatch import describe_changes
from skillopt_mcp.environments.registry import environment_names
from skillopt_mcp.leases import describe_leases
from skillopt_mcp.next_step import resuming
from skillopt_mcp.records.budgets import Cost
from skillopt_mcp.records.next_step import NextStep
from skillopt_mcp.records.results import Replayed, Result
from skillopt_mcp.records.runs import Run, RunKind
from skillopt_mcp.records.skills import short
from skillopt_mcp.skill_folders import called
from skillopt_mcp.training.config import Config
from skillopt_mcp.workspace import Workspace


class RunRow(Accounted):
    """One run as a table row. Scores are the run's metric on val; `test_before` and `test_after` of the finish.

    `n_calls`, `tokens` and `usd` (None where the price of one call is not known) are of the run itself,
    `n_test_calls`, `test_tokens` and `test_usd` of the promotion test that it came to, whole. `config` holds the
    settings that differ from the defaults. `work` says what a host has in hand, `changes` after which steps others came
    to answer.
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


class RunList(Result):
    """Runs, the newest first; `tests` are the promotion tests and calibrations of the store, each with its cost."""

    runs: list[RunRow]
    tests: list[Used] = Field(default_factory=list)


def list_runs(workspace: Workspace, skill: str | None = None) -> RunList:
    """Return the runs of a skill, or of all skills; no store is made for all. Raises NotFound, BadSkill."""
    if not (skill or workspace.is_made):
        return RunList(runs=[], next_step=NextStep(action="replay", why="no run yet"))
    skills = [workspace.kept(skill)] if skill else workspace.store.skills.list_skills()
    store = workspace.store
    started = [
        (_row(workspace, each.name, run, started_at), run)
        for each in skills
        for run, started_at in store.runs.list_started(each.id)
    ]
    started.sort(key=lambda row: row[0].started_at, reverse=True)
    tests = list(dict.fromkeys(test_id for _, run in started for test_id in tests_of(workspace, run)))
    used = [used_by(store, name) for name in dict.fromkeys([*store.budgets.list_beside_runs(), *tests])]
    on = next((run for _, run in started if way_on(workspace, run)), None)
    step = NextStep(action="replay", why="no run yet")
    if started:
        step = NextStep(action="inspect", arguments={"id": started[0][0].id})
    return RunList(
        runs=[row for row, _ in started],
        tests=[each for each in used if each.n_sent],
        next_step=way_on(workspace, on) if on else step,
    )


def way_on(workspace: Workspace, run: Run) -> NextStep | None:
    """Return how to go on with a run; None when it is over, or nothing goes on with it any more."""
    skill = workspace.store.skills.get_skill(run.skill_id)
    name = shlex.split(called(workspace.store, skill))[0]
    if run.kind == "replay":
        if run.status == "finished" or told_own(run):
            return None
        words = _more(workspace, run).split()
        caps = {option[2:].replace("-", "_"): value for option, value in zip(words[::2], words[1::2], strict=True)}
        return resuming(name, run.id, caps)
    if run.status != "running" or run.base_version != skill.live_version:
        return None
    if not any(map(is_host, (run.target, run.optimizer, run.judge))):
        return NextStep(action="propose_edits", arguments={"skill": name}, why=f"{run.id} goes on")
    why = describe_leases(workspace, run.id) or "nothing is handed out yet"
    return NextStep(action="submit_work", arguments={"job_id": run.id}, why=why)


def way_to_test(workspace: Workspace, run: Run) -> str:
    """Return how to test the best version of an unfinished run; empty where it has none that is better."""
    steps = workspace.store.runs.list_steps(run.id)
    if run.kind != "replay" or run.status == "finished" or not steps or steps[-1].best_version == run.base_version:
        return ""
    return f"skillopt-mcp evaluate {run.id}"


def _more(workspace: Workspace, run: Run) -> str:
    """Return the options by which the next call of a run is within its caps: as it told when it stopped there."""
    higher = workspace.store.runs.get_higher(run.id)
    return higher or run.caps.raised_for(workspace.store.budgets.get_spent(run.id).plus(*Cost())).options


def describe_running(workspace: Workspace, name: str) -> str:
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
    own, test = add_up(used.own), used.of_tests
    # A proposal ends in another kind of result, and has no verdict.
    result = Replayed.model_validate_json(run.result) if run.result and run.kind == "replay" else None
    last = steps[-1] if steps else None
    return RunRow(
        **used.summary.model_dump(),
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
        n_calls=own.n_calls,
        tokens=own.tokens_in + own.tokens_out,
        usd=own.usd,
        n_test_calls=test.n_calls,
        test_tokens=test.tokens_in + test.tokens_out,
        test_usd=test.usd,
        work=describe_leases(workspace, run.id),
        target=run.target,
        optimizer=run.optimizer,
        changes=describe_changes(run),
    )


def unusual(run: Run) -> dict[str, JsonValue]:
    """Return the settings of a run that differ from the defaults."""
    defaults = Config().model_dump(mode="json")
    settings = Config.of_run(run.config).model_dump(mode="json")
    return {name: value for name, value in settings.items() if value != defaults[name]}
