"""Inspecting: what the store holds of one thing, as text that fits 80 columns and as fields."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict

from pydantic import JsonValue

from skillopt_mcp import limits
from skillopt_mcp.calls.spending import describe_failures, describe_most
from skillopt_mcp.costs import (
    Account,
    account,
    add_up,
    describe_price,
    describe_repeats,
    describe_sends,
    price_cell,
    used_by,
)
from skillopt_mcp.dispatch import describe_changes, tasks_of
from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.documents.lint import introduced
from skillopt_mcp.documents.text import counted, quoted, shown
from skillopt_mcp.errors import NotFound
from skillopt_mcp.evidence import is_host_run, shown_origin
from skillopt_mcp.gates.confirm import claimed
from skillopt_mcp.gates.recompute import ConfirmInputs
from skillopt_mcp.leases import describe_answers, describe_leases, describe_own_leases
from skillopt_mcp.promotion_tests import evidence_so_far, is_simulated, told_redraws
from skillopt_mcp.promotions.consent import Consent, describe_declined, describe_unused
from skillopt_mcp.promotions.promoting import next_step
from skillopt_mcp.records.budgets import FREE_STAGE, NO_CAPS
from skillopt_mcp.records.candidates import Candidate, Decision, Promotion
from skillopt_mcp.records.evidence import Pair, Trajectory
from skillopt_mcp.records.next_step import NextStep
from skillopt_mcp.records.results import Arm, Proposed, Replayed, SplitCounts, StepRow
from skillopt_mcp.records.runs import Run, StepRecord
from skillopt_mcp.records.skills import Skill, Version, short
from skillopt_mcp.run_rows import way_on
from skillopt_mcp.runs import step_row
from skillopt_mcp.show.details import (
    UNSCORED_SHOWN,
    Detail,
    Inspected,
    PromotionTest,
    candidate_detail,
    is_unproven,
    json_bytes,
    served_in_run,
    served_in_test,
    skill_detail,
    step_of_version,
    told_candidates,
    told_names,
    told_sources,
    tombstone_detail,
    trajectory_detail,
    version_detail,
    with_hidden_shown,
    within,
)
from skillopt_mcp.show.listing import skill_row
from skillopt_mcp.skill_folders import handle, id_meant, is_version, known, version_named
from skillopt_mcp.store.decisions import ConfirmationRow
from skillopt_mcp.store.erasing import Erasing, Tombstone
from skillopt_mcp.store.ledger import LedgerRow
from skillopt_mcp.store.permissions import Permission
from skillopt_mcp.training.config import Config
from skillopt_mcp.training.confirmation import GATE, described
from skillopt_mcp.workspace import ANSWER_BYTES, LEAST_BYTES, Workspace, page_end, page_start

_STEPS = "step epoch budget edits train  candidate current best   verdict"
_STEPS_SPARE = ("budget", "epoch", "edits", "train")
_USED = "role      stage       calls missing failed repeated tokens_in tokens_out usd"
_USED_SPARE = ("repeated", "missing", "failed", "tokens_out")
_CENTS_FROM = 100.0


def describe_run(workspace: Workspace, id: str, width: int | None = None) -> str:
    """Return a run as text: its state, its step table, and what it and its promotion test used.

    Where the tables are wider than `width` they go without the columns that can be spared, and say so.
    """
    store = workspace.store
    run = store.runs.get_run(id)
    used = account(store, run.id)
    lines = [
        f"run {id}: {run.status}{_kind(run)}; base {short(run.base_version)}; target {run.target}; "
        f"optimizer {run.optimizer}{f'; judge {run.judge}' if run.judge else ''}",
        *_answered(run),
        *told_names(served_in_run(workspace, run.id)),
        # Spaced out, so that a terminal breaks it between two settings.
        f"config: {json.dumps(json.loads(run.config))}",
        f"{counted(len(run.tasks), 'task')}, "
        f"{counted(len(run.sessions), 'recorded trajectory', 'recorded trajectories')}",
        *filter(None, [_outcome(run), describe_leases(workspace, run.id)]),
        *describe_own_leases(workspace, run.id),
        *_budget(workspace, run, used),
    ]
    if run.kind == "replay":
        done = store.runs.list_steps(id)
        lines += ["", *_start(run, done), *_narrowed([_STEPS, *map(_step, done)], _STEPS_SPARE, width)]
    return "\n".join([*lines, "", *_used(workspace, used, width)])


def answering_of(workspace: Workspace, run_id: str) -> list[dict[str, object]]:
    """Return who answered in a run, the latest last: fingerprints, after how many steps, and by which release."""
    return [asdict(each) for each in workspace.store.runs.get_run(run_id).answering]


def _answered(run: Run) -> list[str]:
    """Return by whom a run was answered as it began, and what has changed of that since."""
    if not run.answering:
        return []
    first = run.answering[0]
    told = "; ".join(f"{role} {shown_origin(text)}" for role, text in first.fingerprints.items())
    since = f" (after step {first.after})" if first.after else ""
    changes = [f"changed in mid-run: {each}" for each in describe_changes(run)]
    return [f"answered by {told}; skillopt-mcp {first.program}{since}", *changes]


def n_tasks_of(workspace: Workspace, run: Run) -> SplitCounts:
    """Return how many tasks of each split a run was frozen with."""
    counts = Counter(task.split for task in tasks_of(workspace, run))
    return SplitCounts(train=counts["train"], val=counts["val"], test=counts["test"])


def figures_of(workspace: Workspace, run: Run) -> dict[str, object]:
    """Return what a run's tables tell as fields: the sizes of its splits, what was sent, and what used it."""
    used = account(workspace.store, run.id)
    table = [row.model_dump(mode="json") for row in used.table]
    served = [row.model_dump() for row in served_in_run(workspace, run.id)]
    told = used.summary.model_dump(mode="json")
    return {"n_tasks": n_tasks_of(workspace, run).model_dump(), **told, "used": table, "served": served}


def steps_of(workspace: Workspace, run_id: str) -> list[StepRow]:
    """Return the steps of a run as table rows, each with the candidate that it tried."""
    return [step_row(step) for step in workspace.store.runs.list_steps(run_id)]


def _narrowed(table: Sequence[str], spare: Sequence[str], width: int | None) -> list[str]:
    """Return a table, head first, without as many of its spare columns as it takes to fit.

    A spare column begins with a blank and is as wide as its name; the lines of notes below a row are left as they are.
    """
    rows, dropped = list(table), list[str]()
    for name in spare:
        if width is None or max(len(row.partition("\n")[0]) for row in rows) <= width:
            break
        start = rows[0].index(f" {name}")
        rows = [row[:start] + row[start + 1 + len(name) :] for row in rows]
        dropped.append(name)
    return [*rows, f"(too narrow for: {', '.join(dropped)})"] if dropped else rows


def _kind(run: Run) -> str:
    return " (a proposal that was asked for in a session)" if run.kind == "proposal" else ""


def _outcome(run: Run) -> str:
    if not run.result:
        return ""
    if run.kind == "proposal":
        proposed = Proposed.model_validate_json(run.result)
        return f"outcome: {proposed.status}; candidate {proposed.candidate_id or '-'}"
    replayed = Replayed.model_validate_json(run.result)
    verdict = replayed.verdict or "no verdict"
    return f"outcome: {verdict}; candidate {replayed.candidate_id or '-'}; {replayed.reason}"


def _used(workspace: Workspace, used: Account, width: int | None) -> list[str]:
    """Return the table of what a run used: its own calls, those of its part of a promotion test, and both."""
    table = [_USED, *_part("the run", used.own)]
    for test_id, rows in used.tests:
        table += _part(f"test {test_id}", rows)
    lines = _narrowed(table, _USED_SPARE, width)
    lines += [_test(workspace, test_id) for test_id, _ in used.tests]
    cached = [f"{row.role} {row.stage} {row.tokens_cached:,}" for row in used.own if row.tokens_cached]
    lines += [f"of tokens_in were cached: {'; '.join(cached)}"] if cached else []
    lines.append(f"{describe_sends(used.summary)}; {describe_price(used.summary)}")
    return [*lines, *filter(None, [_asked_again(used), describe_repeats(used.summary)])]


def _test(workspace: Workspace, test_id: str) -> str:
    """Return in one line what a promotion test of a run decided, and used."""
    decision = workspace.store.decisions.latest_in(test_id)
    verdict = f" ({decision.verdict})" if decision else ""
    return f"its promotion test, {test_id}{verdict}: {used_by(workspace.store, test_id)}"


def _asked_again(used: Account) -> str:
    """Return how many replies of each role could not be used and were asked for again; empty where none was."""
    counts: Counter[str] = Counter()
    for row in used.own:
        counts[row.role] += row.n_again
    told = ", ".join(f"{role} {n:,}" for role, n in sorted(counts.items()) if n)
    return f"asked again, as the reply could not be used: {told}" if told else ""


def _part(label: str, rows: Sequence[LedgerRow]) -> list[str]:
    calls = [_amounts(f"{row.role:<9} {row.stage}", row) for row in rows if row.stage != FREE_STAGE]
    checks = [_amounts("checks by commands", row) for row in rows if row.stage == FREE_STAGE]
    return [*calls, _amounts(label, add_up(rows)), *checks]


def _amounts(label: str, row: LedgerRow) -> str:
    usd = price_cell(row) if row.n_unpriced else f"{row.usd_known:.{4 if row.usd_known < _CENTS_FROM else 2}f}"
    return (
        f"{label:<21} {row.n_calls:>5} {row.n_missing:>7} {row.n_failed:>6} {row.n_repeated:>8} "
        f"{row.tokens_in:>9} {row.tokens_out:>10} {usd}"
    )


def _budget(workspace: Workspace, run: Run, used: Account) -> list[str]:
    """Return a run's caps with what was charged to them and used, and how sends failed, where there is such."""
    scopes = [run.id, *(test_id for test_id, _ in used.tests)]
    failures = workspace.store.calls.failures(scopes)
    spent = used.charged
    told = f"charged {counted(spent.calls, 'send')}, {describe_most(spent)}, {spent.seconds / 60:.1f} minutes"
    lines = [f"caps: {run.caps.options}; {told}"] if run.caps != NO_CAPS else []
    return [*lines, describe_failures(failures)] if failures.n else lines


def _start(run: Run, steps: Sequence[StepRecord]) -> list[str]:
    """Return in a line what the steps set out from, and which scores theirs are."""
    metric, start = Config.of_run(run.config).metric, steps[0].baseline if steps else None
    hard, soft = (start.hard, start.soft) if start else (None, None)
    if not steps and run.result:
        # A search may end before its first step.
        result = Replayed.model_validate_json(run.result)
        hard, soft = result.baseline_hard, result.baseline_soft
    if hard is None or soft is None:
        return []
    return [f"scores on val are {metric}; the base version had hard {hard:.3f}, soft {soft:.3f}"]


def _step(step: StepRecord) -> str:
    candidate = "     -" if step.candidate is None else f"{step.candidate:6.3f}"
    trained = step.train_current or step.train
    train = f"{trained.hard:5.3f}" if trained.n else "    -"
    candidate_id = (f"candidate {step.candidate_id}",) if step.candidate_id else ()
    notes = "".join(f"\n     {note}" for note in (*candidate_id, *step.unmatched, *step.unusable))
    kind = {"step": "", "slow": "slow update: ", "meta": "meta note: "}[step.kind]
    return (
        f"{step.n:>4} {step.epoch:>5} {step.budget:>6} {step.n_applied:>5} {train}  {candidate}    "
        f"{step.current:5.3f}   {step.best:5.3f}  {kind}{step.verdict}{notes}"
    )


def promotion_test(workspace: Workspace, id: str) -> PromotionTest:
    """Return what the store holds of a promotion test, by its id. Raises NotFound."""
    store = workspace.store
    row = _row(workspace, id)
    candidate = tested_candidate(workspace, id)
    decision = store.decisions.latest_in(id)
    rule = ConfirmInputs.model_validate_json(decision.inputs).rule if decision else None
    pairs, told = _counted(workspace, row, decision)
    scored = [pair for pair in pairs if not pair.missing]
    by_id = {task.id: task for task in store.tasks.list_tasks(row.skill_id)}
    where = described(row.claim, [by_id[task_id] for task_id in row.tasks])
    return PromotionTest(
        id=id,
        skill=store.skills.get_skill(row.skill_id).name,
        candidate_id=candidate.id if candidate else None,
        base=_arm(row.base_version, [pair.base for pair in scored], told=told),
        candidate=_arm(row.version_id, [pair.candidate for pair in scored], told=told),
        j=row.j,
        alpha=round(row.alpha, 6),
        pairs_done=len(pairs),
        pairs_missing=len(pairs) - len(scored),
        verdict=decision.verdict if decision else None,
        reason=decision.reason if decision else "",
        claim=f"{claimed(rule)} {where}" if rule else where,
        backend=shown_origin(row.backend),
        simulated=is_simulated(row.backend),
        evidence=evidence_so_far(workspace, row),
        served=served_in_test(workspace, row),
    )


def tested_candidate(workspace: Workspace, id: str) -> Candidate | None:
    """Return the candidate that a promotion test is of, the newest where several have its text. Raises NotFound."""
    row = _row(workspace, id)
    versions = (row.base_version, row.version_id)
    candidates = workspace.store.candidates.list_candidates(row.skill_id)
    return next((each for each in reversed(candidates) if (each.base_version, each.version_id) == versions), None)


def described_test(workspace: Workspace, id: str) -> str:
    """Return a promotion test as text. Raises NotFound."""
    test = promotion_test(workspace, id)
    missing = f", {test.pairs_missing} of them without a score" if test.pairs_missing else ""
    simulated = " (a SIMULATION: it says nothing about a real model)" if test.simulated else ""
    verdict = (
        f"{test.verdict}: {test.reason}{told_redraws(workspace.store, _row(workspace, id))}"
        if test.verdict
        else "none yet"
    )
    return "\n".join(
        [
            f"promotion test {test.id} of skill '{test.skill}', candidate {test.candidate_id or '-'}",
            f"base {test.base.version} -> version {test.candidate.version}",
            f"test {test.j} in the skill's life{_elsewhere(workspace, id)}, at an error rate (alpha) of {test.alpha:g}",
            f"verdict: {verdict}",
            f"asked: {test.claim}",
            f"pairs so far: {test.pairs_done}{missing}; base {_mean(test.base)}, candidate {_mean(test.candidate)}",
            f"answered by: {test.backend}{simulated}",
            *told_names(test.served),
            *filter(None, [_handed_in(workspace, test), describe_leases(workspace, test.id)]),
            *describe_own_leases(workspace, test.id),
        ]
    )


def _elsewhere(workspace: Workspace, id: str) -> str:
    """Return how many of the tests before one were of other folders of the skill, or of its other life; "" for none."""
    row = _row(workspace, id)
    before = [each for each in workspace.store.decisions.list_tests(row.skill_id) if each.j < row.j]
    n = row.j - 1 - len(before)
    told = [f"{n} before it in other folders that have held one version with it"] if n else []
    simulated = is_simulated(row.backend)
    n_others = sum(is_simulated(each.backend) is not simulated for each in before)
    if n_others:
        told += [f"{n_others} before it with {'real models' if simulated else 'a simulation'}, at error rates apart"]
    return f" ({'; '.join(told)})" if told else ""


def _handed_in(workspace: Workspace, test: PromotionTest) -> str:
    """Return how many answers of a host are in, which no pair may be made of yet; empty without any."""
    told = describe_answers(workspace.store, test.id)
    return (
        f"handed in: {told}; a pair takes an answer of each version, judged, and pairs count in order" if told else ""
    )


def _row(workspace: Workspace, id: str) -> ConfirmationRow:
    row = workspace.store.decisions.find_confirmation(id)
    if row is None:
        raise NotFound(
            f"there is no promotion test {quoted(id)}: ids of tests come from evaluate_candidate, and one that nobody "
            "took work of is not begun: submit_work with it as job_id takes the first"
        )
    return row


def _counted(workspace: Workspace, row: ConfirmationRow, decision: Decision | None) -> tuple[list[Pair], bool]:
    """Return the pairs that count so far, and whether their means may be told."""
    pairs = workspace.store.decisions.list_pairs(row.id)
    n_judged = ConfirmInputs.model_validate_json(decision.inputs).n_pairs if decision else 0
    if decision and decision.verdict != "undecided":
        return pairs[:n_judged], True
    return pairs, not is_host_run(row.backend) or len(pairs) == n_judged


def _arm(version: str, scores: Sequence[float | None], *, told: bool) -> Arm:
    scored = [score for score in scores if score is not None]
    mean = round(math.fsum(scored) / len(scored), 4) if told and scored else None
    return Arm(version=short(version), mean=mean, n=len(scored))


def _mean(arm: Arm) -> str:
    return "no mean yet" if arm.mean is None else f"{arm.mean:.4g}"


SHOWN = 20
VERSIONS_SHOWN = 8


def inspect(workspace: Workspace, id: str, cursor: str | None = None, consent: Consent = Consent.STANDING) -> Inspected:
    """Return what the store holds of one thing, named by its id or a skill's name. Raises NotFound, BadInput.

    The last page says what to do next with a candidate or its test, if whoever asks can agree as `consent` says.
    """
    start, id = page_start(cursor), _meant(workspace, known(id))
    kind, text = described_id(workspace, id)
    end = page_end(text, start)
    page = Inspected(
        id=id,
        kind=kind,
        text=text[start:end],
        cursor=str(end) if end < len(text) else None,
        next_step=_more(id, end, len(text)) if end < len(text) else _advice(workspace, kind, id, consent),
    )
    detail = None if start else detailed(workspace, kind, id, SHOWN)
    if detail is None:
        return page
    room = max(ANSWER_BYTES - json_bytes(page), LEAST_BYTES)
    return page.model_copy(update={kind: within(with_hidden_shown(detail), room)})


def _more(id: str, end: int, length: int) -> NextStep:
    n_pages = math.ceil((length - end) / limits.RESULT_CHARACTERS)
    why = f"{length - end:,} more characters on {n_pages:,} pages"
    return NextStep(action="inspect", arguments={"id": id, "cursor": str(end)}, why=why)


def detailed(workspace: Workspace, kind: str, id: str, n: int | None = None) -> Detail | None:
    """Return in fields what an id of this kind names, None for a run and for work; `n` as `skill_detail` has it.

    Raises NotFound, BadSkill.
    """
    if kind == "candidate":
        return candidate_detail(workspace, id)
    if kind == "test":
        return promotion_test(workspace, id)
    if kind == "trajectory" and (left := _tombstone(workspace, id)):
        return tombstone_detail(workspace, id, left)
    if kind == "trajectory":
        return trajectory_detail(workspace, *_attempt(workspace, id))
    if kind == "version" and (named := version_named(id)):
        return version_detail(workspace, *_version_named(workspace, *named))
    if kind == "skill":
        skill = workspace.kept(id)
        # As it is on disk now, where it can be read.
        workspace.trouble(skill)
        return skill_detail(workspace, workspace.store.skills.get_skill(skill.id), n)
    return None


def _advice(workspace: Workspace, kind: str, id: str, consent: Consent) -> NextStep | None:
    if kind == "candidate":
        return next_step(workspace, workspace.store.candidates.get_candidate(id), consent)
    if kind == "run":
        return way_on(workspace, workspace.store.runs.get_run(id))
    if kind == "skill":
        return skill_row(workspace, workspace.kept(id)).next_step
    if kind == "version" and (named := version_named(id)):
        skill, version = _version_named(workspace, *named)
        return step_of_version(workspace, skill, version.id, consent)
    if kind == "trajectory":
        return None if _tombstone(workspace, id) else _scoring(workspace, id)
    if kind == "work":
        arguments: dict[str, JsonValue] = {"replies": [{"work_id": id}]}
        return NextStep(action="submit_work", arguments=arguments, why="hand in the answer")
    if kind == "test" and describe_own_leases(workspace, id):
        return NextStep(action="submit_work", arguments={"job_id": id}, why="its work is not handed in yet")
    candidate = tested_candidate(workspace, id) if kind == "test" else None
    return next_step(workspace, candidate, consent) if candidate else None


def _scoring(workspace: Workspace, id: str) -> NextStep | None:
    """Return how to score an attempt, None where it has a score or none may be recorded."""
    skill_id, trajectory = _attempt(workspace, id)
    if trajectory.hard is not None or workspace.store.tasks.is_held_out(skill_id, trajectory.prompt):
        return None
    arguments: dict[str, JsonValue] = {
        "skill": handle(workspace.store, workspace.store.skills.get_skill(skill_id)),
        "task": id,
    }
    return NextStep(action="record_trajectory", arguments=arguments, why="it has no score")


def described_id(workspace: Workspace, id: str) -> tuple[str, str]:
    """Return what kind of thing an id names, and all text on it, hidden characters shown. Raises NotFound, BadInput.

    Work is text as it is: whoever attempts a task reads the very bytes that are tested.
    """
    for shape, kind, describe in _IDS:
        if shape.fullmatch(id):
            if not workspace.is_made:
                raise NotFound(f"there is no store at '{workspace.store_path}' yet, and so no {kind} {quoted(id)}")
            text = describe(workspace, id)
            return kind, text if kind == "work" else shown(text)
    if version := version_named(id):
        return "version", shown(_version(workspace, *version))
    try:
        return "skill", shown(_skill(workspace, id))
    except NotFound as error:
        raise NotFound("; and ".join(filter(None, (id_meant(id), str(error))))) from error


def _meant(workspace: Workspace, id: str) -> str:
    """Return an id, with its skill before it where it is a version alone. Raises NotFound where several have that."""
    if not (is_version(id) and workspace.is_made) or workspace.store.skills.find_paths(id):
        return id
    having = [f"{skill.path}@{id}" for skill in workspace.store.skills.list_having(id)]
    if len(having) > 1:
        shown = " or ".join(quoted(each, 500) for each in having[:2])
        raise NotFound(f"{quoted(id)} is a version of {len(having)} skills: name one, for instance {shown}")
    return having[0] if having else id


def _candidate(workspace: Workspace, id: str) -> str:
    store = workspace.store
    candidate = store.candidates.get_candidate(id)
    skill = store.skills.get_skill(candidate.skill_id)
    decision = store.decisions.latest(skill.id, GATE, candidate.base_version, candidate.version_id)
    lines = [
        f"candidate {id} of skill '{skill.name}' (from {' '.join(filter(None, (candidate.origin, candidate.run_id)))})",
        f"base {short(candidate.base_version)} -> version {short(candidate.version_id)}",
        f"verdict: {f'{decision.verdict} ({decision.reason})' if decision else 'none yet'}",
        *(
            "; ".join(
                filter(
                    None, (f"promotion test {test.id}: test {test.j} of the skill", describe_leases(workspace, test.id))
                )
            )
            for test in store.decisions.list_confirmations(skill.id, candidate.base_version, candidate.version_id)
        ),
        *describe_unused(workspace, skill.id, id),
        *(f"declined: {told}" for told in describe_declined(workspace, candidate)),
        f"reasoning: {candidate.reasoning or '-'}",
        *(f"guard: {finding}" for finding in candidate.findings),
    ]
    for edit, report in store.candidates.list_edits(id):
        what = report.status if report.status == "applied" else f"{report.status}: {report.reason}: {report.detail}"
        lines.append(f"edit {report.index}: {edit.op} {edit.path}: {what}; from {told_sources(edit)}")
    base = store.skills.get_files(skill.id, candidate.base_version)
    new = store.skills.get_files(skill.id, candidate.version_id)
    lines += [f"lint, new with it: {problem}" for problem in introduced(base, new, skill.name)]
    return "\n".join([*lines, "", unified_diff(base, new, skill.name)])


def _trajectory(workspace: Workspace, id: str) -> str:
    if left := _tombstone(workspace, id):
        return f"{id}, recorded at {left.recorded_at}, was erased by a person at {left.erased_at}: its text is gone"
    skill_id, trajectory = _attempt(workspace, id)
    if workspace.store.tasks.is_held_out(skill_id, trajectory.prompt):
        return f"{id} attempted a held-out task: what was asked, answered and scored is not shown"
    score = "unscored" if trajectory.hard is None else f"hard {int(trajectory.hard)}, soft {trajectory.soft}"
    messages = [f"[{message.role}] {message.content}" for message in trajectory.messages]
    return "\n".join([f"{id} ({score})", f"task: {trajectory.prompt}", *messages, f"answer: {trajectory.answer}",
                      f"reason: {trajectory.reason}"])  # fmt: skip


def _tombstone(workspace: Workspace, id: str) -> Tombstone | None:
    """Return what is left of an attempt that was erased, None where the id names no such one."""
    number = _number(id)
    return None if number is None else workspace.store.room(Erasing).get_tombstone(number)


def _attempt(workspace: Workspace, id: str) -> tuple[int, Trajectory]:
    """Return the skill and the trajectory that an id names. Raises NotFound."""
    number = _number(id)
    found = None if number is None else workspace.store.trajectories.get_trajectory(number)
    if found is None:
        raise NotFound(f"the store has no {quoted(id)}: ids of trajectories come from record_trajectory")
    return found


def _number(id: str) -> int | None:
    """Return the number in a trajectory's id, None where no trajectory can have it."""
    number = id.partition(":")[2]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 19 else None


def _work(workspace: Workspace, id: str) -> str:
    """Return work that is in somebody's hands: whoever knows its id may read it where files cannot be read."""
    lease = workspace.store.leases.find(id)
    if lease is None or lease.state != "out":
        raise NotFound(f"there is no work {quoted(id)} to do: take more with submit_work")
    return workspace.work_folders.text(id)


def _version(workspace: Workspace, name: str, version: str) -> str:
    skill, found = _version_named(workspace, name, version)
    files = workspace.store.skills.get_files(skill.id, found.id)
    before = workspace.store.skills.find_parent(found)
    parent = short(before.id) if before else "none"
    label = _unproven(workspace, skill.id, found.id)
    head = f"version {found.id} of '{skill.name}' ({found.origin} {found.created_at}, parent {parent}{label})"
    return f"{head}\n\n{files.text}"


def _version_named(workspace: Workspace, name: str, version: str) -> tuple[Skill, Version]:
    skill = workspace.kept(name)
    return skill, workspace.store.skills.get_version(skill.id, version)


def _unproven(workspace: Workspace, skill_id: int, version: str) -> str:
    """Return the label of a version that a person adopted without proof, empty for any other."""
    unproven = is_unproven(workspace, skill_id, version)
    return ", UNPROVEN: a person adopted it on an undecided test" if unproven else ""


def _retired(workspace: Workspace, skill_id: int) -> str:
    n = len(workspace.store.retirements.list_retired(skill_id))
    return f"; {n:,} more {'is' if n == 1 else 'are'} retired" if n else ""


def _permitted(permission: Permission | None) -> str:
    if permission is None:
        return "none"
    given = (("--simulated", permission.simulated), ("--host-run", permission.host_run))
    return f"given at the {' with '.join([permission.granted_by, *(flag for flag, has in given if has)])}"


def _interrupted(last: Promotion) -> str:
    version = short(last.to_version)
    return f"a {last.kind} to version {version} was interrupted; it ends once the files can be read and written"


def _skill(workspace: Workspace, name: str) -> str:
    skill = workspace.kept(name)
    store = workspace.store
    trouble = workspace.trouble(skill)
    counts = store.tasks.count_tasks(skill.id)
    permission = store.permissions.get(skill.id)
    last = store.promotions.last_begun(skill.path)
    lines = [
        f"skill '{skill.name}' at {skill.path}",
        # What to do about it is told as what is next.
        *([trouble.partition(":")[0]] if trouble else []),
        *([_interrupted(last)] if last and last.is_open else []),
        f"live version {short(skill.live_version)}{_unproven(workspace, skill.id, skill.live_version)}; see it with "
        f"{skill.name}@{short(skill.live_version)}",
        f"tasks: {', '.join(f'{split} {n}' for split, n in counts.items())}{_retired(workspace, skill.id)}",
        f"standing permission: {_permitted(permission)}",
        *describe_unused(workspace, skill.id),
    ]
    before = [each for each in store.skills.list_live(skill.id, 1 + VERSIONS_SHOWN) if each != skill.live_version]
    if before:
        lines.append(f"was live before, the newest first: {', '.join(map(short, before[:VERSIONS_SHOWN]))}")
    lines += told_candidates(workspace, store.skills.get_skill(skill.id), SHOWN)
    unscored = store.trajectories.list_unscored(skill.id, UNSCORED_SHOWN)
    if unscored:
        ids = ", ".join(f"trajectory:{each}" for each in unscored)
        lines.append(f"without a score (record_trajectory with such an id as task says how it ended): {ids}")
    lines += [f"run {run.id}: {run.status}" for run in store.runs.list_runs(skill.id)[-SHOWN:]]
    return "\n".join(lines)


# A skill may be called "c-style" or lie in "me@work": only what has the whole shape of an id is one.
_IDS: tuple[tuple[re.Pattern[str], str, Callable[[Workspace, str], str]], ...] = (
    (re.compile("c-[0-9a-f]{12}"), "candidate", _candidate),
    (re.compile("t-[0-9a-f]{12}"), "test", described_test),
    (re.compile("r-[0-9a-f]{12}"), "run", describe_run),
    (re.compile("w-[0-9a-f]{32}"), "work", _work),
    (re.compile("trajectory:.*", re.DOTALL), "trajectory", _trajectory),
)
