"""Run report: what the store holds of a run, gathered once; as text that fits a terminal, as fields and as rows."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from pydantic import Field, JsonValue

from skillopt_mcp.core.budgets import FREE_STAGE, NO_CAPS, describe_most
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.results import Proposed, Replayed, Result
from skillopt_mcp.core.runs import Run, RunKind, StepRecord
from skillopt_mcp.core.skills import SplitCounts, short
from skillopt_mcp.core.text import counted, truncate_middle
from skillopt_mcp.gates.search import metric_value
from skillopt_mcp.gates.verdicts import describe
from skillopt_mcp.store.calls import LedgerRow, ServedRow
from skillopt_mcp.store.files import is_locked
from skillopt_mcp.store.opening import Store
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.plan import search_splits
from skillopt_mcp.training.promotion_test import held_out
from skillopt_mcp.workspace.costs import (
    Account,
    Accounted,
    Used,
    account,
    add_up,
    describe_price,
    describe_repeats,
    describe_sends,
    price_cell,
    used_by,
)
from skillopt_mcp.workspace.evidence import shown_origin
from skillopt_mcp.workspace.leases import describe_leases, describe_own_leases
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.runs import describe_changes, make_plan, resume_step, tasks_of

# Heads of the two tables, and the columns that go first where a terminal is narrow.
_STEPS = "step epoch budget edits train  candidate current best   verdict"
_STEPS_SPARE = ("budget", "epoch", "edits", "train")
_USED = "role      stage       calls missing failed repeated tokens_in tokens_out usd"
_USED_SPARE = ("repeated", "missing", "failed", "tokens_out")
_CENTS_FROM = 100.0
_MAX_NAMES = 8
_Z90 = 1.645
KEPT = ("accept", "accept_best")

Outcome = Literal["kept", "rejected", "held", "unchanged"]


@dataclass(frozen=True, slots=True)
class StepFacts:
    """A step of a run: what became of its candidate and why, and the candidate's val score with its 90 % interval."""

    record: StepRecord
    outcome: Outcome
    why: str
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Where a run is that goes on; `seconds_left` is by the time that its steps took so far."""

    stage: str
    n_done: int
    n_total: int
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run: its steps, what it and its tests used, who answered, and the outcome; for an agent what it may see."""

    run: Run
    config: Config
    records: Sequence[StepRecord]
    used: Account
    served: list[ServedRow]
    result: Replayed | Proposed | None
    caps: str
    progress: RunProgress | None
    steps: Sequence[StepFacts] = ()  # gathered for a page alone

    @property
    def baseline(self) -> float | None:
        """The val score that it began with, by its metric."""
        base = self.records[0].baseline if self.records else None
        return metric_value(base, self.config.metric, self.config.mixed_weight) if base else None

    @property
    def settings(self) -> dict[str, JsonValue]:
        """The settings that differ from the defaults."""
        usual = Config().model_dump(mode="json")
        return {name: value for name, value in self.config.model_dump(mode="json").items() if value != usual[name]}


def gather_run(store: Store, place: Place, run: Run, *, is_explained: bool = False) -> RunFacts:
    """What the store holds of a run; with `is_explained` also why each step ended as it did."""
    result = None
    records, spent = store.runs.list_steps(run.id), store.budgets.get_spent(run.id)
    if run.result:
        result = (Replayed if run.kind == "replay" else Proposed).model_validate_json(run.result)
    if isinstance(result, Replayed) and place.is_agents:
        result = result.for_agents()
    # The status of a run that was killed says so, too.
    progress = None
    if run.status == "running" and run.kind == "replay" and is_locked(store.locks_path, run.id):
        n_total, tests = make_plan(store, place.secrets, run).n_rows, store.runs.list_finishes(run.id)
        left = spent.seconds / len(records) * (n_total - len(records)) if records and not tests else None
        stage = "promotion test" if tests else store.calls.latest_stage(run.id) or "baseline"
        progress = RunProgress(stage, len(records), n_total, left)
    return RunFacts(
        run=run,
        config=Config.of_run(run.config),
        records=records,
        used=account(store, run.id, is_sealed=place.is_agents),
        served=store.ledger.list_served(run.id),
        result=result,
        # What is charged is that of its promotion test, too.
        caps="" if place.is_agents else run.caps.describe_used(spent),
        progress=progress,
        steps=_explain_steps(store, run, records) if is_explained else (),
    )


def _explain_steps(store: Store, run: Run, records: Sequence[StepRecord]) -> list[StepFacts]:
    steps = list[StepFacts]()
    documents = [run.skill_id, *([run.memory.skill_id] if run.memory else [])]
    made = [each for skill_id in documents for each in store.candidates.list_candidates(skill_id, steps=True)]
    found = {each.id: each.findings for each in made}
    for record in records:
        findings = found.get(record.candidate_id or "", ())
        notes = [*record.unusable, *record.unmatched]
        decided = store.decisions.latest_in(f"{run.id}/{record.n}")
        reason = decided.reason if decided else ""
        why = [reason or (truncate_middle(notes[0], 200) if notes else "no usable edit")]
        if findings:
            why.append(f"the guard wants a person to look: {truncate_middle(findings[0], 200)}")
        outcome: Outcome = "unchanged" if record.verdict == "no_change" else "rejected"
        if record.verdict in KEPT:
            outcome = "held" if findings else "kept"
        n_val = record.val.n if record.val and record.candidate is not None else 0
        interval = wilson(record.candidate or 0.0, n_val)
        steps.append(StepFacts(record, outcome, "; ".join(why), interval))
    return steps


def wilson(score: float, n: int, z: float = _Z90) -> tuple[float, float] | None:
    """The interval (Wilson; 90 %, unless `z` is another) of a score on n tasks; it is too wide for soft ones."""
    if not n:
        return None
    z2 = z**2
    middle, half = score + z2 / (2 * n), z * math.sqrt(score * (1 - score) / n + z2 / (4 * n * n))
    return (middle - half) / (1 + z2 / n), (middle + half) / (1 + z2 / n)


# As text and as fields


def describe_run(store: Store, place: Place, facts: RunFacts, width: int | None = None) -> str:
    """Return a run as text: its state, its steps, and what it and its promotion tests used.

    Tables wider than `width` lose columns that can be spared, which are named below.
    """
    run, used = facts.run, facts.used
    kind = " (a proposal that was asked for in a session)" if run.kind == "proposal" else ""
    judge = f"; judge {run.judge}" if run.judge else ""
    lines = [
        f"run {run.id}: {run.status}{kind}; base {short(run.base_version)}; target {run.target}; "
        f"optimizer {run.optimizer}{judge}"
    ]
    if run.answering:
        first = run.answering[0]
        backends = "; ".join(f"{role} {shown_origin(text)}" for role, text in first.fingerprints.items())
        since = f" (after step {first.after})" if first.after else ""
        lines.append(f"answered by {backends}; skillopt-mcp {first.program}{since}")
        lines += [f"changed during the run: {each}" for each in describe_changes(run)]
    lines += [
        *describe_served(facts.served),
        # With blanks, so that a terminal breaks it between two settings.
        f"config: {json.dumps(json.loads(run.config))}",
        f"{counted(len(run.tasks), 'task')}, "
        f"{counted(len(run.sessions), 'recorded trajectory', 'recorded trajectories')}",
        *filter(None, [_outcome(facts, is_agents=place.is_agents), describe_leases(store, run.id)]),
        *describe_own_leases(store, place, run.id),
    ]
    if run.caps != NO_CAPS:
        spent = used.charged
        charged = f"{counted(spent.calls, 'send')}, {describe_most(spent)}, {spent.seconds / 60:.1f} minutes"
        lines.append(f"caps: {run.caps.options}{'' if place.is_agents else f'; charged {charged}'}")
    failures = store.calls.failures([run.id, *(test_id for test_id, _ in used.tests)])
    if failures.n:
        lines.append(str(failures))
    if run.kind == "replay":
        base = facts.records[0].baseline if facts.records else None
        hard, soft = (base.hard, base.soft) if base else (None, None)
        if not facts.records and isinstance(facts.result, Replayed):  # a search may end before its first step
            hard, soft = facts.result.baseline_hard, facts.result.baseline_soft
        lines.append("")
        if hard is not None and soft is not None:
            scores = f"hard {hard:.3f}, soft {soft:.3f}"
            lines.append(f"scores on val are {facts.config.metric}; the base version had {scores}")
        lines += _narrow_table([_STEPS, *map(_step, facts.records)], _STEPS_SPARE, width)
    return "\n".join([*lines, "", *_usage(store, used, width)])


def figures_of(store: Store, facts: RunFacts) -> dict[str, object]:
    """Return the figures of a run's tables as fields: the sizes of its splits, what was sent, and what used it."""
    return {
        "n_tasks": asdict(n_tasks_of(store, facts.run)),
        **facts.used.summary.model_dump(mode="json"),
        "used": [row.model_dump(mode="json") for row in facts.used.table],
        "served": [asdict(row) for row in facts.served],
    }


def n_tasks_of(store: Store, run: Run) -> SplitCounts:
    """How many tasks a run was frozen with to learn from, to choose by, and held out."""
    tasks = tasks_of(store, run)
    train, val = search_splits(tasks, Config.of_run(run.config)) if run.kind == "replay" else (tasks, ())
    return SplitCounts(train=len(train), val=len(val), test=len(held_out(tasks)))


# Which models answered


def describe_served(rows: Sequence[ServedRow]) -> list[str]:
    """Return one line that lists the first models; none where no name is known."""
    names = [f"{row.role} {row.name} ({row.n:,})" for row in rows[:_MAX_NAMES]]
    if len(rows) > _MAX_NAMES:
        names.append(f"{len(rows) - _MAX_NAMES:,} more")
    return [f"models that answered, as they named themselves: {', '.join(names)}"] if names else []


# Tables


def _narrow_table(table: Sequence[str], spare: Sequence[str], width: int | None) -> list[str]:
    """Return a table, head first, without as many of its spare columns as it takes to fit.

    A spare column begins with a blank and is as wide as its name; the lines of notes below a row stay as they are.
    """
    rows, dropped = list(table), list[str]()
    for name in spare:
        if width is None or max(len(row.partition("\n")[0]) for row in rows) <= width:
            break
        start = rows[0].index(f" {name}")
        rows = [row[:start] + row[start + 1 + len(name) :] for row in rows]
        dropped.append(name)
    return [*rows, f"(too narrow for: {', '.join(dropped)})"] if dropped else rows


def _outcome(facts: RunFacts, *, is_agents: bool) -> str:
    result = facts.result
    if result is None:
        return ""
    if isinstance(result, Proposed):
        return f"outcome: {result.status}; candidate {result.candidate_id or '-'}"
    verdict, candidate = str(result.verdict or "no verdict"), result.candidate_id or "-"
    if is_agents and result.accepted is not None:
        verdict = "accepted" if result.accepted else "not accepted"
    shown = " ".join(describe(result.test)) if result.test else result.reason
    if memory := result.memory:
        own = " ".join(describe(memory.test)) if memory.test else memory.reason
        shown = "; ".join(filter(None, (shown, f"memory file: candidate {memory.candidate_id or '-'}", own)))
    return "; ".join(filter(None, (f"outcome: {verdict}; candidate {candidate}", shown)))


def _step(step: StepRecord) -> str:
    candidate = f"{step.show_score(3):>6}"
    scores = step.train_current or step.train
    train = f"{scores.hard:5.3f}" if scores.n else "    -"
    candidate_id = (f"candidate {step.candidate_id}",) if step.candidate_id else ()
    notes = "".join(f"\n     {note}" for note in (*candidate_id, *step.unmatched, *step.unusable))
    kind = {"step": "", "memory": "memory file: ", "slow": "slow update: ", "meta": "meta note: "}[step.kind]
    return (
        f"{step.n:>4} {step.epoch:>5} {step.budget:>6} {step.n_applied:>5} {train}  {candidate}    "
        f"{step.current:5.3f}   {step.best:5.3f}  {kind}{step.verdict}{notes}"
    )


def _usage(store: Store, used: Account, width: int | None) -> list[str]:
    """Return the table of what a run and its promotion tests used, and lines on what it leaves out."""
    table = [_USED, *_usage_rows("the run", used.own)]
    for test_id, rows in used.tests:
        table += _usage_rows(f"test {test_id}", rows)
    lines = _narrow_table(table, _USED_SPARE, width)
    for test_id, _ in used.tests:
        decision = store.decisions.latest_in(test_id)
        verdict = f" ({decision.verdict})" if decision else ""
        lines.append(f"its promotion test, {test_id}{verdict}: {used_by(store, test_id)}")
    if cached := [f"{row.role} {row.stage} {row.tokens_cached:,}" for row in used.own if row.tokens_cached]:
        lines.append(f"of tokens_in were cached: {'; '.join(cached)}")
    lines.append(f"{describe_sends(used.summary)}; {describe_price(used.summary)}")
    retries: Counter[str] = Counter()
    for row in used.own:
        retries[row.role] += row.n_again
    if counts := ", ".join(f"{role} {n:,}" for role, n in sorted(retries.items()) if n):
        lines.append(f"retried, as the reply could not be used: {counts}")
    return [*lines, *filter(None, [describe_repeats(used.summary)])]


def _usage_rows(label: str, rows: Sequence[LedgerRow]) -> list[str]:
    calls = [_usage_row(f"{row.role:<9} {row.stage}", row) for row in rows if row.stage != FREE_STAGE]
    checks = [_usage_row("checks by commands", row) for row in rows if row.stage == FREE_STAGE]
    return [*calls, _usage_row(label, add_up(rows)), *checks]


def _usage_row(label: str, row: LedgerRow) -> str:
    usd = price_cell(row) if row.n_unpriced else f"{row.usd_known:.{4 if row.usd_known < _CENTS_FROM else 2}f}"
    return (
        f"{label:<21} {row.n_calls:>5} {row.n_missing:>7} {row.n_failed:>6} {row.n_repeated:>8} "
        f"{row.tokens_in:>9} {row.tokens_out:>10} {usd}"
    )


# All runs


class RunRow(Accounted):
    """One run as a table row. Scores are the run's metric on val.

    `n_calls`, `tokens` and `usd` (None where the price of one call is not known) are of the run itself,
    `n_test_calls`, `test_tokens` and `test_usd` of its whole promotion test (0 for an agent). `config` holds the
    settings that differ from the defaults; `work` says what a host has in hand, `changes` after which steps a backend
    changed.
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
    """Runs, the newest first; `tests` are the promotion tests of the store, each with its cost."""

    runs: list[RunRow]
    tests: list[Used] = Field(default_factory=list)


def list_runs(store: Store, place: Place, skill: str | None = None) -> RunList:
    """Return the runs of a skill, or of all skills; no store is made for all. Raises NotFound, BadSkill."""
    if not (skill or store.is_made):
        return RunList(runs=[], next_step=NextStep(action="replay", why="no run yet"))
    skills = [place.find_kept(skill)] if skill else store.skills.list_skills()
    started = [
        (_row(store, each.name, gather_run(store, place, run), started_at), run)
        for each in skills
        for run, started_at in store.runs.list_started(each.id)
    ]
    started.sort(key=lambda row: row[0].started_at, reverse=True)
    tests = list(dict.fromkeys(test_id for _, run in started for test_id in store.runs.list_finishes(run.id)))
    names = () if place.is_agents else dict.fromkeys([*store.budgets.list_without_run(), *tests])
    used = [used_by(store, name) for name in names]
    on = next((run for _, run in started if resume_step(store, run)), None)
    step = NextStep(action="replay", why="no run yet")
    if started:
        step = NextStep(action="inspect", arguments={"id": started[0][0].id})
    return RunList(
        runs=[row for row, _ in started],
        tests=[each for each in used if each.n_sent],
        next_step=resume_step(store, on) if on else step,
    )


def _row(store: Store, skill: str, facts: RunFacts, started_at: str) -> RunRow:
    run, records, result = facts.run, facts.records, facts.result
    own, test = add_up(facts.used.own), facts.used.of_tests
    replayed = result if isinstance(result, Replayed) else None  # a proposal has no verdict
    return RunRow(
        **facts.used.summary.model_dump(),
        id=run.id,
        skill=skill,
        kind=run.kind,
        status=run.status,
        started_at=started_at,
        n_steps=len(records),
        epochs=facts.config.epochs,
        config=facts.settings,
        base_version=short(run.base_version),
        best_version=short(records[-1].best_version if records else run.base_version),
        best=records[-1].best if records else (replayed.baseline if replayed else None),
        verdict=replayed.verdict if replayed else None,
        n_calls=own.n_calls,
        tokens=own.tokens_in + own.tokens_out,
        usd=own.usd,
        n_test_calls=test.n_calls,
        test_tokens=test.tokens_in + test.tokens_out,
        test_usd=test.usd,
        work=describe_leases(store, run.id),
        target=run.target,
        optimizer=run.optimizer,
        changes=describe_changes(run),
    )
