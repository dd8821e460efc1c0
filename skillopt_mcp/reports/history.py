"""History: the promotions and rollbacks of a skill, and what changed between two of its versions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from pydantic import JsonValue

from skillopt_mcp.core.candidates import GATE
from skillopt_mcp.core.evidence import ACCEPTED
from skillopt_mcp.core.next_step import NextStep
from skillopt_mcp.core.notes import describe_note
from skillopt_mcp.core.results import Baseline, History, HistoryRow, SeriesPoint
from skillopt_mcp.core.skills import Skill, short
from skillopt_mcp.documents.diffs import unified_diff
from skillopt_mcp.reports.inspecting import gather_test
from skillopt_mcp.reports.listing import skill_row
from skillopt_mcp.reports.run_report import wilson
from skillopt_mcp.store.decisions import Refusals
from skillopt_mcp.store.opening import Store
from skillopt_mcp.workspace.place import Place
from skillopt_mcp.workspace.skill_folders import handle

_Z95 = 1.96
_MAX_CARDS = 200


def history(store: Store, place: Place, skill: str) -> History:
    """Return the promotions and rollbacks of a skill, newest first. Raises NotFound."""
    tracked = place.find_kept(skill)
    rows = [
        HistoryRow(
            at=each.created_at,
            kind=each.kind,
            version=short(each.to_version),
            previous_version=short(each.from_version),
            candidate_id=each.candidate_id,
            verdict="accepted" if place.is_agents and each.verdict in ACCEPTED else each.verdict,
            by=each.agreed,
        )
        for each in store.promotions.list_promotions(tracked.id)
    ]
    gone = store.retirements.list_retired(tracked.id).values()
    retired = [
        f"{each.at} task '{each.name}' ({each.split}){f': {each.reason}' if each.reason else ''}"
        for each in gone if not (place.is_agents and each.split == "test")
    ]  # fmt: skip
    declined = [
        f"{each.at} {each.kind} {short(each.from_version)} -> {short(each.to_version)}: {each.by}"
        for each in store.table(Refusals).list_refusals(tracked.id)
    ]
    return History(
        skill=tracked.name, rows=rows, retired=retired[::-1], declined=declined,
        next_step=_undo(store, place, tracked, rows[0]) if rows else None,
    )  # fmt: skip


def series(store: Store, skill: Skill) -> list[SeriesPoint]:
    """How well each baseline and each promoted version of a skill did, the oldest first; for a person alone."""
    points = list[SeriesPoint]()

    def add(kind: Literal["baseline", "promotion"], at: str, version: str, solved: float, n: int, scope: str) -> None:
        if interval := wilson(solved, n, _Z95):
            models = [each.name for each in store.ledger.list_served(scope) if each.role == "target"]
            low, high = interval
            points.append(
                SeriesPoint(
                    at=at, kind=kind, version=short(version), n=n, solved=solved, low=low, high=high, models=models
                )
            )

    for scope, (version, at, scores) in store.tests.list_baselines(skill.id).items():
        held = [task.id for task in store.tasks.list_by_id(scores) if task.split != "train"] or [*scores]
        add("baseline", at, version, fmean(fmean(scores[id]) for id in held), len(held), scope)
    for each in store.promotions.list_promotions(skill.id):
        decided = store.decisions.latest(skill.id, GATE, each.from_version, each.to_version)
        row = store.tests.find(decided.scope) if decided and each.kind == "promote" else None
        report = gather_test(store, row).report if row else None
        if row and report and report.solved:
            units = report.units
            n = units.better + units.same + units.worse
            add("promotion", each.created_at, each.to_version, report.solved.after, n, row.id)
    return sorted(points, key=lambda point: point.at)


@dataclass(frozen=True, slots=True)
class SkillPage:
    """What the page on a skill has besides: how good it is, what its tasks lack, and those to look at, by id."""

    baseline: Baseline | None
    series: list[SeriesPoint]
    gaps: list[str]
    cards: list[tuple[str, list[tuple[str, str]]]]


def gather_page(store: Store, place: Place, skill: Skill, take: Callable[[str], str | None]) -> SkillPage:
    """What the page on a skill has for a person; `take` cuts a text to what the page has space for."""
    # What shows a history or a difference loads none of these.
    from skillopt_mcp.actions.reviewing import list_cards  # noqa: PLC0415
    from skillopt_mcp.actions.tasks import note_spread  # noqa: PLC0415

    last, baseline = [*store.tests.list_baselines(skill.id).values()][-1:], None
    for version, _, scores in last:
        baseline = Baseline.of(skill.name, short(version), store.tasks.list_by_id(scores), scores, "own")
    return SkillPage(
        baseline,
        series(store, skill),
        [describe_note(each) for each in note_spread(store.tasks.list_in_use(skill.id))],
        [
            (card.task.name, [(title, take(text) or "(left out of this page)") for title, text in card.sections])
            for card in list_cards(store, place, skill.path)[:_MAX_CARDS]
        ],
    )


def _undo(store: Store, place: Place, skill: Skill, last: HistoryRow) -> NextStep:
    """What undoes the last change, or an edit that was made since; first of all what mends a broken folder."""
    if place.describe_trouble(skill):
        return skill_row(store, place, skill).next_step
    arguments: dict[str, JsonValue] = {"skill": handle(store, skill)}
    if last.version != short(skill.live_version):
        arguments |= {"version": last.version, "over_edit": True}
        return NextStep(action="rollback_skill", arguments=arguments, why="the files were edited since")
    # Without a version, a rollback after a rollback would go further back.
    if last.kind == "rollback":
        arguments["version"] = last.previous_version
    return NextStep(action="rollback_skill", arguments=arguments, why="undoes the last change")


def diff_versions(store: Store, place: Place, skill: str, old: str | None = None, new: str | None = None) -> str:
    """Return the unified diff between two versions; by default from the last promotion's parent to the live file."""
    tracked = place.find_kept(skill)
    new_id = store.skills.get_version(tracked.id, new).id if new else tracked.live_version
    changes = store.promotions.list_promotions(tracked.id)
    old_id = changes[0].from_version if changes else tracked.live_version
    if old:
        old_id = store.skills.get_version(tracked.id, old).id
    files = (store.skills.get_files(tracked.id, old_id), store.skills.get_files(tracked.id, new_id))
    return unified_diff(*files, tracked.name)
